/* Products with quantised weights: every level of this CPU and both layouts give the bits of the
 * plain C file, for any rows, threads and sizes; and those are near what the weights and x mean. */
#include "base/base.h"
#include "gguf/gguf.h"
#include "kernel/kernel.h"
#include "kernel/quantize.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- helpers ------------------------------------------------------------------------------- */

static const enum tensor_type types[] = {
    TENSOR_Q8_0, TENSOR_Q4_0, TENSOR_Q4_1, TENSOR_Q5_0, TENSOR_Q5_1,   TENSOR_Q2_K,
    TENSOR_Q3_K, TENSOR_Q4_K, TENSOR_Q5_K, TENSOR_Q6_K, TENSOR_IQ4_NL, TENSOR_IQ4_XS,
};
#define N_TYPES ((int)(sizeof types / sizeof *types))

static uint64_t random_state;

static void random_begin(uint64_t seed)
{
    random_state = seed * 0x9e3779b97f4a7c15u + 1;
}

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = random_state ^ random_state >> 29;
    return (uint32_t)(x * 0xbf58476d1ce4e5b9u >> 32);
}

/* Near a normal distribution. */
static float random_float(void)
{
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)(random_bits() >> 8) * 0x1p-24f - 0.5f;
    return sum * 1.7f;
}

/* Where the f16 fields of a block lie: their offsets; -1: none. */
static void f16_fields(enum tensor_type type, int at[2])
{
    at[0] = type == TENSOR_Q2_K ? 80 : type == TENSOR_Q3_K ? 108 : type == TENSOR_Q6_K ? 208 : 0;
    at[1] =
        type == TENSOR_Q2_K ? 82
        : type == TENSOR_Q4_1 || type == TENSOR_Q5_1 || type == TENSOR_Q4_K || type == TENSOR_Q5_K
            ? 2
            : -1;
}

/* Random weights; some blocks have all bits of their integers set, or none, or only the highest of
 * each byte: the extremes that sums must hold. */
static struct matrix random_matrix(enum tensor_type type, uint32_t rows, uint32_t blocks)
{
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    struct matrix m = {type, false, rows, blocks * facts->block_items, NULL};
    size_t bytes = rows * matrix_row_bytes(&m);
    uint8_t *data = allocate(bytes, 1);
    int fields[2];
    f16_fields(type, fields);
    for (size_t at = 0; at < bytes; at += facts->block_bytes) {
        const uint8_t extremes[] = {0x00, 0x80, 0xff, 0x7f};
        uint32_t kind = random_bits() % 16;
        for (size_t i = 0; i < facts->block_bytes; i++)
            data[at + i] = kind < 4 ? extremes[kind] : (uint8_t)random_bits();
        for (int i = 0; i < 2; i++)
            if (fields[i] >= 0)
                store_u16(data + at + fields[i], f32_to_f16(random_float() * 0.01f));
    }
    m.data = data;
    return m;
}

static struct matrix interleaved(const struct matrix *m)
{
    uint8_t *data = allocate_aligned(matrix_interleaved_bytes(m), 1);
    matrix_interleave(m, data);
    return (struct matrix){m->type, true, m->rows, m->cols, data};
}

static void matrix_free(struct matrix *m)
{
    free((void *)(uintptr_t)m->data);
}

/* Rows of x: random, some with outliers, of one magnitude or all the same, zero, or tiny. */
static float *random_rows(uint32_t rows, uint32_t cols)
{
    float *x = allocate((size_t)rows * cols, sizeof *x);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < cols; c++) {
            float value = random_float();
            if (r % 8 == 3)
                value *= c % 61 == 0 ? 100 : 0.1f;
            else if (r % 8 == 4)
                value = value < 0 ? -1.0f : 1.0f;
            else if (r % 8 == 5)
                value = c < cols / 2 ? 0 : value * 1e-41f;
            else if (r % 8 >= 6)
                value = r % 8 == 6 ? 1.0f : -1.0f;
            x[(size_t)r * cols + c] = value;
        }
    return x;
}

/* y (rows, stride) from x; what lies between the rows of y is kept. */
static void multiply(const struct kernel *kernel, struct threads *threads, const struct matrix *w,
                     const float *x, uint32_t rows, float *y, size_t stride)
{
    struct activations *activations = activations_new();
    activations_set(activations, x, rows, w->cols);
    struct product product = {w, y, stride};
    kernel_multiply(kernel, threads, &product, 1, activations);
    activations_free(activations);
}

#define N_POOLS 3
static struct threads *pools[N_POOLS]; /* of 1, 2, 3 threads */

static void start_pools(void)
{
    for (int i = 0; i < N_POOLS; i++)
        pools[i] = threads_start(i + 1);
}

static void stop_pools(void)
{
    for (int i = 0; i < N_POOLS; i++)
        threads_stop(pools[i]);
}

/* ---- the same bits everywhere ------------------------------------------------------------------
 */

static const struct {
    uint32_t outputs, blocks_of_32, blocks_of_256, rows;
} shapes[] = {
    {37, 7, 3, 1},   {37, 7, 3, 2},  {37, 7, 3, 5},    {37, 7, 3, 16},
    {37, 7, 3, 300}, {1, 1, 1, 3},   {100, 70, 9, 1},  {100, 70, 9, 2},
    {150, 33, 5, 5}, {16, 8, 2, 16}, {150, 33, 5, 40}, {40, 16, 1, 600},
};
#define N_SHAPES ((int)(sizeof shapes / sizeof *shapes))

START_TEST(all_levels_and_layouts_agree)
{
    enum tensor_type type = types[_i % N_TYPES];
    int shape = _i / N_TYPES;
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    uint32_t rows = shapes[shape].rows, outputs = shapes[shape].outputs;
    random_begin((uint64_t)_i);
    struct matrix plain = random_matrix(type, outputs,
                                        facts->block_items == 32 ? shapes[shape].blocks_of_32
                                                                 : shapes[shape].blocks_of_256);
    struct matrix panels = interleaved(&plain);
    float *x = random_rows(rows, plain.cols);
    size_t stride = outputs + 3, n = rows * stride;
    float *want = allocate(n, sizeof *want), *y = allocate(n, sizeof *y);
    memset(want, 0x5a, n * sizeof *want);
    multiply(kernel_at(KERNEL_GENERIC), NULL, &plain, x, rows, want, stride);
    for (int level = KERNEL_GENERIC; level <= KERNEL_AMX; level++) {
        const struct kernel *kernel = kernel_at((enum kernel_level)level);
        if (!kernel)
            continue;
        for (int pool = 0; pool < N_POOLS; pool++)
            for (int layout = 0; layout < 2; layout++) {
                memset(y, 0x5a, n * sizeof *y);
                multiply(kernel, pools[pool], layout ? &panels : &plain, x, rows, y, stride);
                ck_assert_msg(memcmp(y, want, n * sizeof *y) == 0,
                              "%s, %s, %s: %u rows, %u outputs, %u inputs, %d threads", facts->name,
                              kernel_name(kernel), layout ? "interleaved" : "plain", rows, outputs,
                              plain.cols, pool + 1);
            }
    }
    /* A row alone gives what it gives among others. */
    for (uint32_t r = 0; r < rows; r += rows / 3 + 1) {
        multiply(kernel_at(KERNEL_GENERIC), NULL, &plain, x + (size_t)r * plain.cols, 1, y, stride);
        ck_assert(memcmp(y, want + r * stride, outputs * sizeof *y) == 0);
    }
    free(x);
    free(y);
    free(want);
    matrix_free(&plain);
    matrix_free(&panels);
}
END_TEST

START_TEST(values_that_are_not_finite_spoil_their_row_alone)
{
    enum tensor_type type = types[_i];
    const uint32_t rows = 35, outputs = 20;
    random_begin(77);
    struct matrix w = random_matrix(type, outputs, 3);
    float *x = random_rows(rows, w.cols), *clean = allocate(rows * outputs, sizeof *clean);
    float *y = allocate(rows * outputs, sizeof *y);
    multiply(kernel_at(KERNEL_GENERIC), NULL, &w, x, rows, clean, outputs);
    x[2 * w.cols + 1] = INFINITY;
    x[33 * w.cols + w.cols - 1] = NAN;
    for (int level = KERNEL_GENERIC; level <= KERNEL_AMX; level++) {
        const struct kernel *kernel = kernel_at((enum kernel_level)level);
        for (uint32_t few = 0; kernel && few < 2; few++) {
            uint32_t n = few ? 3 : rows;
            multiply(kernel, NULL, &w, x, n, y, outputs);
            for (uint32_t i = 0; i < n * outputs; i++)
                if (i / outputs == 2 || i / outputs == 33)
                    ck_assert_msg(isnan(y[i]), "%s %u", kernel_name(kernel), i);
                else
                    ck_assert(memcmp(&y[i], &clean[i], sizeof *y) == 0);
        }
    }
    free(x);
    free(y);
    free(clean);
    matrix_free(&w);
}
END_TEST

/* ---- the bits mean what they should ------------------------------------------------------------
 */

/* x as its quantised form stands for it: kernel/quant.h states the rule. */
static void round_activations(float *x, size_t n, unsigned block)
{
    for (size_t b = 0; b < n; b += block) {
        float largest = 0;
        for (unsigned i = 0; i < block; i++)
            largest = fmaxf(largest, fabsf(x[b + i]));
        float d = largest / 127, inverse = 1 / d;
        for (unsigned i = 0; i < block; i++)
            x[b + i] = isfinite(inverse) ? d * rintf(x[b + i] * inverse) : 0;
    }
}

START_TEST(products_are_those_of_the_dequantised_weights)
{
    enum tensor_type type = types[_i];
    const uint32_t rows = 6, outputs = 19;
    random_begin(5);
    struct matrix w = random_matrix(type, outputs, 8);
    float *x = random_rows(rows, w.cols), *y = allocate(rows * outputs, sizeof *y);
    float *weights = allocate(w.cols, sizeof *weights);
    multiply(kernel_at(KERNEL_GENERIC), NULL, &w, x, rows, y, outputs);
    round_activations(x, (size_t)rows * w.cols, tensor_type_facts(type)->block_items);
    for (uint32_t o = 0; o < outputs; o++) {
        matrix_row_f32(&w, o, weights);
        for (uint32_t r = 0; r < rows; r++) {
            double sum = 0, size = 0;
            for (uint32_t c = 0; c < w.cols; c++) {
                double term = (double)weights[c] * (double)x[r * w.cols + c];
                sum += term;
                size += fabs(term);
            }
            ck_assert_msg(fabs((double)y[r * outputs + o] - sum) <= 1e-6 * size, "%g is not %g",
                          (double)y[r * outputs + o], sum);
        }
    }
    free(x);
    free(y);
    free(weights);
    matrix_free(&w);
}
END_TEST

START_TEST(zero_in_zero_out)
{
    for (int level = KERNEL_GENERIC; level <= KERNEL_AMX; level++)
        for (int i = 0; i < N_TYPES && kernel_at((enum kernel_level)level); i++) {
            random_begin(3);
            struct matrix w = random_matrix(types[i], 17, 2);
            float *x = allocate((size_t)33 * w.cols, sizeof *x), y[33 * 17];
            multiply(kernel_at((enum kernel_level)level), NULL, &w, x, 33, y, 17);
            for (int k = 0; k < 33 * 17; k++)
                ck_assert(y[k] == 0);
            free(x);
            matrix_free(&w);
        }
}
END_TEST

/* ---- layouts -----------------------------------------------------------------------------------
 */

START_TEST(rows_are_the_same_in_both_layouts)
{
    for (int i = 0; i < N_TYPES; i++) {
        random_begin(9);
        struct matrix plain = random_matrix(types[i], 35, 3), panels = interleaved(&plain);
        float *a = allocate(plain.cols, sizeof *a), *b = allocate(plain.cols, sizeof *b);
        ck_assert(matrix_can_interleave(types[i]));
        ck_assert_uint_eq(matrix_interleaved_bytes(&plain), 48 * matrix_row_bytes(&plain));
        for (uint32_t r = 0; r < plain.rows; r++) {
            matrix_row_f32(&plain, r, a);
            matrix_row_f32(&panels, r, b);
            ck_assert(memcmp(a, b, plain.cols * sizeof *a) == 0);
        }
        free(a);
        free(b);
        matrix_free(&plain);
        matrix_free(&panels);
    }
    ck_assert(!matrix_can_interleave(TENSOR_F16));
}
END_TEST

/* The layout is kept in files, so it is fixed: Q8_0 as the header describes it. */
START_TEST(interleaved_q8_0_is_as_described)
{
    random_begin(1);
    struct matrix plain = random_matrix(TENSOR_Q8_0, 21, 2), panels = interleaved(&plain);
    for (uint32_t row = 0; row < 32; row++)
        for (uint32_t block = 0; block < 2; block++) {
            const uint8_t *panel = panels.data + row / 16 * 16 * 68 + block * 16 * 34;
            uint8_t want[34] = {0};
            if (row < plain.rows)
                memcpy(want, plain.data + row * 68 + block * 34, 34);
            ck_assert(memcmp(panel + row % 16 * 2, want, 2) == 0);
            for (uint32_t word = 0; word < 8; word++)
                ck_assert(memcmp(panel + 32 + word * 64 + row % 16 * 4, want + 2 + 4 * word, 4) ==
                          0);
        }
    matrix_free(&plain);
    matrix_free(&panels);
}
END_TEST

START_TEST(types_that_are_known)
{
    for (int i = 0; i < N_TYPES; i++)
        ck_assert(kernel_supports(types[i]));
    ck_assert(kernel_supports(TENSOR_F32) && kernel_supports(TENSOR_F16) &&
              kernel_supports(TENSOR_BF16));
    for (uint32_t type = 0; type < 100; type++)
        if (kernel_supports(type))
            ck_assert_ptr_nonnull(tensor_type_facts(type));
    ck_assert(!kernel_supports(4) && !kernel_supports(9) && !kernel_supports(15) &&
              !kernel_supports(UINT32_MAX));
}
END_TEST

/* ---- quantising weights ------------------------------------------------------------------------
 */

static const enum tensor_type made[] = {TENSOR_F32,  TENSOR_F16,  TENSOR_BF16, TENSOR_Q8_0,
                                        TENSOR_Q4_0, TENSOR_Q4_K, TENSOR_Q6_K};
#define N_MADE ((int)(sizeof made / sizeof *made))

/* Sum of squares of x - (x to `type` and back). */
static double round_trip(enum tensor_type type, const float *x, uint32_t n)
{
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    uint8_t *blocks = allocate(n / facts->block_items, facts->block_bytes);
    float *back = allocate(n, sizeof *back);
    quantize_row(type, x, n, blocks);
    struct matrix row = {type, false, 1, n, blocks};
    matrix_row_f32(&row, 0, back);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += ((double)x[i] - (double)back[i]) * ((double)x[i] - (double)back[i]);
    free(blocks);
    free(back);
    return sum;
}

START_TEST(round_trips_of_normal_weights)
{
    /* Relative to the weights. */
    const double bounds[N_MADE] = {0, 0.0003, 0.0018, 0.0056, 0.084, 0.072, 0.0181};
    const uint32_t n = 64 * 256;
    random_begin(2);
    float *x = allocate(n, sizeof *x);
    double size = 0;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = random_float() * 0.02f;
        size += (double)x[i] * (double)x[i];
    }
    for (int i = 0; i < N_MADE; i++) {
        double error = sqrt(round_trip(made[i], x, n) / size);
        ck_assert(quantize_supports(made[i]));
        ck_assert_msg(error <= bounds[i], "%s: %g", tensor_type_facts(made[i])->name, error);
    }
    ck_assert(!quantize_supports(TENSOR_Q5_K));
    free(x);
}
END_TEST

START_TEST(round_trips_of_extreme_weights)
{
    float x[256];
    const double bounds[N_MADE] = {0, 0.0005, 0.004, 0.005, 0.05, 0.05, 0.02};
    for (int kind = 0; kind < 5; kind++) {
        double size = 0;
        for (int i = 0; i < 256; i++) {
            x[i] = kind == 0   ? 0
                   : kind == 1 ? 1
                   : kind == 2 ? -0.03f
                   : kind == 3 ? (i % 32 == 7 ? 1000 : 0)
                               : (i < 128 ? 0 : 0.5f);
            size += (double)x[i] * (double)x[i];
        }
        for (int i = 0; i < N_MADE; i++) {
            double error = sqrt(round_trip(made[i], x, 256));
            ck_assert_msg(error <= bounds[i] * sqrt(size), "%s, case %d: %g",
                          tensor_type_facts(made[i])->name, kind, error);
        }
    }
    for (int i = 0; i < 256; i++)
        x[i] = (float)(i - 128) * 1e-38f; /* below what f16 scales can say */
    for (int i = 3; i < N_MADE; i++)
        ck_assert(sqrt(round_trip(made[i], x, 256)) < 1e-34);
}
END_TEST

/* ---- against another engine's files
 * -------------------------------------------------------------- */

/* Files of the same weights in many types: their distance from the originals is that of the
 * formats, and what quantize_row makes is no further away. */
START_TEST(files_of_another_quantiser)
{
    static const struct {
        const char *name;
        double bound;
    } files[] = {{"f16", 0},        {"BF16", 0.002},   {"Q8_0", 0.0054},  {"Q4_0", 0.086},
                 {"Q4_1", 0.079},   {"Q5_0", 0.043},   {"Q5_1", 0.038},   {"Q2_K", 0.296},
                 {"Q3_K_M", 0.151}, {"Q4_K_M", 0.072}, {"Q5_K_M", 0.037}, {"Q6_K", 0.018},
                 {"IQ4_NL", 0.077}, {"IQ4_XS", 0.077}};
    const char *folder = getenv("UNROLL_TEST_DATA");
    char path[512];
    struct error error;
    snprintf(path, sizeof path, "%s/micro/micro-llama-F32.gguf",
             folder ? folder : "../shared/data");
    if (access(path, R_OK) != 0) {
        printf("skipped: no %s\n", path);
        return;
    }
    struct gguf *originals = gguf_open(path, &error);
    ck_assert_ptr_nonnull(originals);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/micro/micro-llama-%s.gguf",
                 folder ? folder : "../shared/data", files[i].name);
        struct gguf *file = gguf_open(path, &error);
        ck_assert_ptr_nonnull(file);
        double size = 0, theirs = 0, ours = 0;
        bool can_make = false;
        for (size_t t = 0; t < file->n_tensors; t++) {
            const struct gguf_tensor *tensor = &file->tensors[t];
            char name[128];
            snprintf(name, sizeof name, "%.*s", (int)tensor->name.length, tensor->name.bytes);
            const struct gguf_tensor *original = gguf_tensor(originals, name);
            if (tensor->n_dims < 2)
                continue;
            struct matrix m = {(enum tensor_type)tensor->type->type, false,
                               (uint32_t)tensor->dims[1], (uint32_t)tensor->dims[0], tensor->data};
            struct matrix o = {TENSOR_F32, false, m.rows, m.cols, original->data};
            float *a = allocate(m.cols, sizeof *a), *b = allocate(m.cols, sizeof *b);
            can_make = quantize_supports(m.type);
            for (uint32_t r = 0; r < m.rows; r++) {
                matrix_row_f32(&m, r, a);
                matrix_row_f32(&o, r, b);
                for (uint32_t c = 0; c < m.cols; c++) {
                    theirs += ((double)a[c] - (double)b[c]) * ((double)a[c] - (double)b[c]);
                    size += (double)b[c] * (double)b[c];
                }
                if (can_make)
                    ours += round_trip(m.type, b, m.cols);
            }
            free(a);
            free(b);
        }
        ck_assert_msg(sqrt(theirs / size) <= files[i].bound, "%s: %g", files[i].name,
                      sqrt(theirs / size));
        if (can_make)
            ck_assert_msg(ours <= theirs, "%s: %g, but theirs %g", files[i].name, sqrt(ours / size),
                          sqrt(theirs / size));
        gguf_close(file);
    }
    gguf_close(originals);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel, quantised");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, start_pools, stop_pools);
    tcase_add_loop_test(tests, all_levels_and_layouts_agree, 0, N_TYPES * N_SHAPES);
    tcase_add_loop_test(tests, values_that_are_not_finite_spoil_their_row_alone, 0, N_TYPES);
    tcase_add_loop_test(tests, products_are_those_of_the_dequantised_weights, 0, N_TYPES);
    tcase_add_test(tests, zero_in_zero_out);
    tcase_add_test(tests, rows_are_the_same_in_both_layouts);
    tcase_add_test(tests, interleaved_q8_0_is_as_described);
    tcase_add_test(tests, types_that_are_known);
    tcase_add_test(tests, round_trips_of_normal_weights);
    tcase_add_test(tests, round_trips_of_extreme_weights);
    tcase_add_test(tests, files_of_another_quantiser);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
