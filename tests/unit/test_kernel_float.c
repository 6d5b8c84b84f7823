/* Operations on floats and attention: every level of this CPU gives the bits of the canonical order
 * (written out once more here, as plainly as possible), for any rows, threads and sizes. */
#include "base/base.h"
#include "kernel/kernel.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Under a sanitizer the largest cases are left out. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUICK 1
#else
#define QUICK 0
#endif

/* ---- helpers ------------------------------------------------------------------------------- */

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

static float *random_floats(size_t n)
{
    float *x = allocate_aligned(n + 1, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = random_float();
    return x;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Same bits, or both NaN: which NaN is nobody's promise. */
static bool same_floats(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* The levels of this CPU; NULL ends them. */
static const struct kernel *level_at(int i)
{
    const struct kernel *levels[5] = {NULL};
    int n = 0;
    for (int level = KERNEL_GENERIC; level <= KERNEL_AVX512; level++)
        if (kernel_at((enum kernel_level)level))
            levels[n++] = kernel_at((enum kernel_level)level);
    return levels[i];
}

#define EACH_LEVEL(kernel)                                                                         \
    const struct kernel *kernel;                                                                   \
    for (int level_ = 0; (kernel = level_at(level_)) != NULL; level_++)

/* Each number of threads; NULL: the calling thread alone. */
#define N_POOLS 4
static struct threads *pools[N_POOLS];

static void start_pools(void)
{
    for (int n = 1; n < N_POOLS; n++)
        pools[n] = threads_start(n);
}

static void stop_pools(void)
{
    for (int n = 1; n < N_POOLS; n++)
        threads_stop(pools[n]);
}

static const enum tensor_type float_types[] = {TENSOR_F32, TENSOR_F16, TENSOR_BF16};

static float element_at(enum tensor_type type, const uint8_t *data, size_t i)
{
    switch (type) {
    case TENSOR_F16:
        return f16_to_f32(load_u16(data + 2 * i));
    case TENSOR_BF16:
        return bf16_to_f32(load_u16(data + 2 * i));
    default:
        return load_f32(data + 4 * i);
    }
}

static uint8_t *random_elements(enum tensor_type type, size_t n)
{
    uint8_t *data = allocate_aligned(n, type == TENSOR_F32 ? 4 : 2);
    for (size_t i = 0; i < n; i++) {
        float x = random_float();
        if (type == TENSOR_F32)
            store_f32(data + 4 * i, x);
        else
            store_u16(data + 2 * i, type == TENSOR_F16 ? f32_to_f16(x) : f32_to_bf16(x));
    }
    return data;
}

static float fold(float lane[16])
{
    for (int half = 8; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

/* ---- matrices ------------------------------------------------------------------------------ */

static float canonical_dot(const float *w, const float *x, size_t cols)
{
    float lane[16] = {0};
    for (size_t k = 0; k < cols; k++)
        lane[k % 16] = fmaf(w[k], x[k], lane[k % 16]);
    return fold(lane);
}

static void check_multiply(enum tensor_type type, uint32_t rows, uint32_t cols, uint32_t outputs)
{
    size_t stride = outputs + 3;
    random_begin(rows * 1000003u + cols * 1009 + outputs);
    uint8_t *data = random_elements(type, (size_t)outputs * cols);
    float *x = random_floats((size_t)rows * cols), *wide = random_floats((size_t)outputs * cols);
    for (size_t i = 0; i < (size_t)outputs * cols; i++)
        wide[i] = element_at(type, data, i);
    float *want = allocate(rows * stride, sizeof *want), *y = allocate(rows * stride, sizeof *y);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t o = 0; o < outputs; o++)
            want[r * stride + o] = canonical_dot(wide + o * cols, x + (size_t)r * cols, cols);
    struct matrix w = {.type = type, .rows = outputs, .cols = cols, .data = data};
    struct product product = {&w, y, stride};
    struct activations *activations = activations_new();
    EACH_LEVEL(kernel)
    for (int n_threads = 0; n_threads < N_POOLS; n_threads++) {
        activations_set(activations, x, rows, cols);
        memset(y, 0, rows * stride * sizeof *y);
        kernel_multiply(kernel, pools[n_threads], &product, 1, activations);
        ck_assert_msg(memcmp(y, want, rows * stride * sizeof *y) == 0,
                      "%s: type %d, %u rows, %u columns, %u outputs, %d threads",
                      kernel_name(kernel), type, rows, cols, outputs, n_threads);
    }
    activations_free(activations);
    free(data);
    free(wide);
    free(x);
    free(y);
    free(want);
}

START_TEST(multiply_is_canonical)
{
    static const uint32_t rows[] = {300, 1, 2, 3, 4, 5, 6, 7, 16, 23, 24, 49};
    static const uint32_t cols[] = {256, 1, 8, 17, 64, 96, 531};
    static const uint32_t outputs[] = {1, 16, 33};
    for (size_t r = QUICK; r < sizeof rows / sizeof *rows; r++)
        for (size_t c = QUICK; c < sizeof cols / sizeof *cols; c++)
            for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++)
                check_multiply(float_types[_i], rows[r], cols[c], outputs[o]);
}
END_TEST

/* Tails must not touch lanes: a sum that is -0 stays so. */
START_TEST(multiply_leaves_missing_lanes)
{
    float x[17], y;
    uint8_t data[17 * 4];
    for (int i = 0; i < 17; i++) { /* each product is below the smallest number */
        x[i] = -0x1p-100f;
        store_f32(data + 4 * i, 0x1p-100f);
    }
    struct matrix w = {.type = TENSOR_F32, .rows = 1, .cols = 17, .data = data};
    struct product product = {&w, &y, 1};
    struct activations *activations = activations_new();
    EACH_LEVEL(kernel)
    {
        activations_set(activations, x, 1, 17);
        kernel_multiply(kernel, NULL, &product, 1, activations);
        ck_assert(y == 0 && signbit(y));
    }
    activations_free(activations);
}
END_TEST

/* Each product with an x of its own, of any number of rows. */
START_TEST(products_of_several_x_equal_products_alone)
{
    enum { COLS = 64, N = 5, OUTPUTS = 40 };
    static const uint32_t rows[N] = {1, 30, 2, 7, 1};
    random_begin(8);
    struct activations *x[N];
    float *values[N], *alone[N], *together[N];
    struct matrix w[N];
    struct product one[N], all[N];
    for (int i = 0; i < N; i++) {
        w[i] = (struct matrix){.type = float_types[i % 3], .rows = OUTPUTS, .cols = COLS};
        w[i].data = random_elements(w[i].type, OUTPUTS * COLS);
        x[i] = activations_new();
        values[i] = random_floats(rows[i] * COLS);
        activations_set(x[i], values[i], rows[i], COLS);
        alone[i] = allocate(rows[i] * OUTPUTS, sizeof **alone);
        together[i] = allocate(rows[i] * OUTPUTS, sizeof **together);
        one[i] = (struct product){&w[i], alone[i], OUTPUTS};
        all[i] = (struct product){&w[i], together[i], OUTPUTS};
    }
    EACH_LEVEL(kernel)
    for (int n_threads = 0; n_threads < N_POOLS; n_threads++) {
        for (int i = 0; i < N; i++)
            kernel_multiply(kernel, NULL, &one[i], 1, x[i]);
        kernel_multiply_each(kernel, pools[n_threads], all, N, x);
        for (int i = 0; i < N; i++) {
            ck_assert(same_floats(alone[i], together[i], rows[i] * OUTPUTS));
            memset(together[i], 0, rows[i] * OUTPUTS * sizeof **together);
        }
    }
    for (int i = 0; i < N; i++) {
        activations_free(x[i]);
        free((void *)(uintptr_t)w[i].data);
        free(values[i]);
        free(alone[i]);
        free(together[i]);
    }
}
END_TEST

START_TEST(products_together_equal_products_alone)
{
    enum { ROWS = 9, COLS = 80, N = 4 };
    static const uint32_t outputs[N] = {70, 1, 33, 160};
    random_begin(7);
    float *x = random_floats(ROWS * COLS), *alone[N], *together[N];
    struct matrix w[N];
    struct product one[N], all[N];
    for (int i = 0; i < N; i++) {
        enum tensor_type type = float_types[i % 3];
        w[i] = (struct matrix){.type = type, .rows = outputs[i], .cols = COLS};
        w[i].data = random_elements(type, (size_t)outputs[i] * COLS);
        alone[i] = allocate(ROWS * outputs[i], sizeof **alone);
        together[i] = allocate(ROWS * outputs[i], sizeof **together);
        one[i] = (struct product){&w[i], alone[i], outputs[i]};
        all[i] = (struct product){&w[i], together[i], outputs[i]};
    }
    struct activations *activations = activations_new();
    activations_set(activations, x, ROWS, COLS);
    EACH_LEVEL(kernel)
    {
        for (int i = 0; i < N; i++)
            kernel_multiply(kernel, NULL, &one[i], 1, activations);
        kernel_multiply(kernel, pools[3], all, N, activations);
        for (int i = 0; i < N; i++)
            ck_assert(same_floats(alone[i], together[i], ROWS * outputs[i]));
    }
    activations_free(activations);
    for (int i = 0; i < N; i++) {
        free((void *)(uintptr_t)w[i].data);
        free(alone[i]);
        free(together[i]);
    }
    free(x);
}
END_TEST

/* ---- row operations ------------------------------------------------------------------------ */

static const uint32_t sizes[] = {1, 2, 7, 8, 15, 16, 17, 31, 32, 64, 100, 288, 1031};
#define N_SIZES (sizeof sizes / sizeof *sizes)

START_TEST(rms_norm_is_canonical)
{
    uint32_t n = sizes[_i];
    random_begin(n);
    float *x = random_floats(n), *w = random_floats(n), *y = random_floats(n);
    float *want = random_floats(n), lane[16] = {0};
    for (uint32_t i = 0; i < n; i++)
        lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    float factor = 1.0f / sqrtf(fold(lane) / (float)n + 1e-5f);
    EACH_LEVEL(kernel)
    {
        for (uint32_t i = 0; i < n; i++)
            want[i] = x[i] * factor * w[i];
        y[n] = 77;
        kernel_rms_norm(kernel, y, x, w, n, 1e-5f);
        ck_assert(same_floats(y, want, n) && y[n] == 77);
        for (uint32_t i = 0; i < n; i++)
            want[i] = x[i] * factor;
        kernel_rms_norm(kernel, y, x, NULL, n, 1e-5f);
        ck_assert(same_floats(y, want, n) && y[n] == 77);
        memcpy(y, x, n * sizeof *y); /* in place */
        kernel_rms_norm(kernel, y, y, NULL, n, 1e-5f);
        ck_assert(same_floats(y, want, n));
    }
    free(x);
    free(w);
    free(y);
    free(want);
}
END_TEST

START_TEST(layer_norm_is_canonical)
{
    uint32_t n = sizes[_i];
    random_begin(n + 1);
    float *x = random_floats(n), *w = random_floats(n), *b = random_floats(n),
          *y = random_floats(n);
    float *want = random_floats(n), sum[16] = {0}, squares[16] = {0};
    double exact_mean = 0, exact_variance = 0;
    for (uint32_t i = 0; i < n; i++) {
        x[i] += 0.5f;
        exact_mean += (double)x[i] / n;
        sum[i % 16] += x[i];
    }
    float mean = fold(sum) / (float)n;
    for (uint32_t i = 0; i < n; i++) {
        exact_variance += ((double)x[i] - exact_mean) * ((double)x[i] - exact_mean) / n;
        squares[i % 16] = fmaf(x[i] - mean, x[i] - mean, squares[i % 16]);
    }
    float factor = 1.0f / sqrtf(fold(squares) / (float)n + 1e-5f);
    for (uint32_t i = 0; i < n; i++) {
        want[i] = fmaf((x[i] - mean) * factor, w[i], b[i]);
        double exact =
            ((double)x[i] - exact_mean) / sqrt(exact_variance + 1e-5) * (double)w[i] + (double)b[i];
        ck_assert(fabs((double)want[i] - exact) < (n == 1 ? 1e-4 : 1e-5));
    }
    EACH_LEVEL(kernel)
    {
        y[n] = 77;
        kernel_layer_norm(kernel, y, x, w, b, n, 1e-5f);
        ck_assert(same_floats(y, want, n) && y[n] == 77);
        memcpy(y, x, n * sizeof *y); /* in place */
        kernel_layer_norm(kernel, y, y, w, b, n, 1e-5f);
        ck_assert(same_floats(y, want, n) && y[n] == 77);
    }
    free(x);
    free(w);
    free(b);
    free(y);
    free(want);
}
END_TEST

static float plain_gelu(float x)
{
    float u = x * fmaf(x * x, 0x1.2444f2p-5f, 0x1.988454p-1f), half = x * 0.5f;
    return fmaf(half, exact_tanh(u), half);
}

/* GELU, soft-capping and scaling: the bits of the order in kernel.h, and near the formula. */
START_TEST(activations_are_canonical)
{
    uint32_t n = sizes[_i];
    random_begin(n + 2);
    float *x = random_floats(n), *up = random_floats(n), *y = random_floats(n),
          *want = random_floats(n);
    for (uint32_t i = 0; i < n; i++)
        x[i] *= i % 5 == 0 ? 100.0f : i % 5 == 1 ? 1e-6f : 2.0f;
    EACH_LEVEL(kernel)
    {
        for (uint32_t i = 0; i < n; i++) {
            double d = (double)x[i],
                   exact = d / 2 * (1 + tanh(sqrt(2 / M_PI) * (d + 0.044715 * d * d * d)));
            want[i] = plain_gelu(x[i]);
            ck_assert(fabs((double)want[i] - exact) <= 3e-7 * (1 + fabs(d)));
        }
        memcpy(y, x, n * sizeof *y);
        y[n] = 77;
        kernel_gelu(kernel, y, n);
        ck_assert(same_floats(y, want, n) && y[n] == 77);
        for (uint32_t i = 0; i < n; i++)
            want[i] *= up[i];
        memcpy(y, x, n * sizeof *y);
        kernel_gelu_multiply(kernel, y, up, n);
        ck_assert(same_floats(y, want, n) && y[n] == 77);
        for (uint32_t i = 0; i < n; i++)
            want[i] = 30.0f * exact_tanh(x[i] / 30.0f);
        memcpy(y, x, n * sizeof *y);
        kernel_softcap(kernel, y, 30.0f, n);
        ck_assert(same_floats(y, want, n) && y[n] == 77);
        for (uint32_t i = 0; i < n; i++)
            want[i] = x[i] * 0.22f;
        memcpy(y, x, n * sizeof *y);
        kernel_scale(kernel, y, 0.22f, n);
        ck_assert(same_floats(y, want, n) && y[n] == 77);
        for (uint32_t i = 0; i < n; i++)
            want[i] = fmaf(x[i], 0.22f, up[i]);
        memcpy(y, up, n * sizeof *y);
        kernel_add_scaled(kernel, y, x, 0.22f, n);
        ck_assert(same_floats(y, want, n) && y[n] == 77);
    }
    free(x);
    free(up);
    free(y);
    free(want);
}
END_TEST

START_TEST(element_operations_are_canonical)
{
    uint32_t n = sizes[_i];
    random_begin(n);
    float *x = random_floats(n), *up = random_floats(n), *y = random_floats(n);
    float *want = random_floats(n);
    uint16_t *half = allocate(n + 1, sizeof *half);
    for (uint32_t i = 0; i < n; i++)
        x[i] *= i % 5 == 0 ? 100.0f : i % 5 == 1 ? 1e-6f : 3.0f;
    EACH_LEVEL(kernel)
    {
        for (uint32_t i = 0; i < n; i++)
            want[i] = x[i] / (1.0f + exact_exp(-x[i])) * up[i];
        memcpy(y, x, n * sizeof *y);
        y[n] = 77;
        kernel_silu_multiply(kernel, y, up, n);
        ck_assert(same_floats(y, want, n) && y[n] == 77);

        for (uint32_t i = 0; i < n; i++)
            want[i] = up[i] + x[i];
        memcpy(y, up, n * sizeof *y);
        kernel_add(kernel, y, x, n);
        ck_assert(same_floats(y, want, n) && y[n] == 77);

        half[n] = 77;
        kernel_f32_to_f16(kernel, half, x, n);
        for (uint32_t i = 0; i < n; i++)
            if (half[i] != f32_to_f16(x[i]))
                ck_abort_msg("%s: f16 of %a", kernel_name(kernel), (double)x[i]);
        ck_assert_uint_eq(half[n], 77);

        ck_assert_uint_eq(kernel_find_not_finite(kernel, x, n), n);
        static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001};
        memcpy(y, x, n * sizeof *y);
        y[n] = INFINITY; /* beyond the end */
        for (uint32_t i = n; i-- > 0;) {
            y[i] = float_of(bad[i % 4]);
            if (kernel_find_not_finite(kernel, y, n) != i)
                ck_abort_msg("%s: %u of %u is not finite", kernel_name(kernel), i, n);
        }
    }
    free(x);
    free(up);
    free(y);
    free(want);
    free(half);
}
END_TEST

START_TEST(rope_is_canonical)
{
    static const uint32_t dims[][2] = {{2, 2},   {8, 8},   {8, 4},     {16, 16},   {64, 64},
                                       {80, 80}, {80, 20}, {128, 128}, {256, 256}, {96, 34}};
    uint32_t dim = dims[_i][0], rotated = dims[_i][1], heads = 3;
    random_begin(dim);
    float *x = random_floats(heads * dim), *y = random_floats(heads * dim);
    float *want = random_floats(heads * dim);
    float *cosine = random_floats(rotated / 2), *sine = random_floats(rotated / 2);
    EACH_LEVEL(kernel)
    for (int adjacent = 0; adjacent <= 1; adjacent++) {
        memcpy(want, x, heads * dim * sizeof *x);
        for (uint32_t head = 0; head < heads; head++)
            for (uint32_t i = 0; i < rotated / 2; i++) {
                float *a = want + head * dim + (adjacent ? 2 * i : i);
                float *b = adjacent ? a + 1 : a + rotated / 2;
                float first = fmaf(*a, cosine[i], -(*b * sine[i]));
                *b = fmaf(*a, sine[i], *b * cosine[i]);
                *a = first;
            }
        memcpy(y, x, heads * dim * sizeof *x);
        y[heads * dim] = 77;
        kernel_rope(kernel, y, heads, dim, rotated, cosine, sine, adjacent);
        ck_assert(same_floats(y, want, heads * dim) && y[heads * dim] == 77);
    }
    free(x);
    free(y);
    free(want);
    free(cosine);
    free(sine);
}
END_TEST

/* Bit patterns from the whole range go through the vector exp, by way of silu: silu(x) * 1 is
 * x / (1 + exp(-x)), and -x / (1 + exp(x)) for the other sign. */
START_TEST(exp_has_the_bits_of_the_scalar_one)
{
    enum { N = 4096 };
    float *x = random_floats(N), *y = random_floats(N), *one = random_floats(N);
    for (int i = 0; i < N; i++)
        one[i] = 1.0f;
    random_begin(99);
    for (int round = 0; round < (QUICK ? 6 : 300); round++) {
        for (int i = 0; i < N; i++) /* all patterns; and closely what matters */
            x[i] = round % 3 == 0 ? float_of(random_bits())
                                  : ((float)(random_bits() >> 8) * 0x1p-24f - 0.5f) * 212.0f;
        EACH_LEVEL(kernel)
        {
            memcpy(y, x, N * sizeof *y);
            kernel_silu_multiply(kernel, y, one, N);
            for (int i = 0; i < N; i++) {
                float want = x[i] / (1.0f + exact_exp(-x[i]));
                if (!same_floats(&y[i], &want, 1))
                    ck_abort_msg("%s: exp(%a)", kernel_name(kernel), (double)-x[i]);
            }
        }
    }
    free(x);
    free(y);
    free(one);
}
END_TEST

/* ---- attention ----------------------------------------------------------------------------- */

/* A sequence's pages: beside the layer under test lies something else. */
struct sequence {
    uint32_t n_pages;
    uint8_t **pages;
};

static struct sequence sequence_new(const struct attention *a, uint32_t positions)
{
    size_t element = a->element == TENSOR_F16 ? 2 : 4;
    size_t keys = (size_t)a->n_kv_heads * a->key_dim * KERNEL_PAGE;
    size_t values = (size_t)a->n_kv_heads * a->value_dim * KERNEL_PAGE;
    struct sequence s = {.n_pages = (positions + KERNEL_PAGE - 1) / KERNEL_PAGE};
    s.pages = allocate(s.n_pages, sizeof *s.pages);
    for (uint32_t i = 0; i < s.n_pages; i++) {
        s.pages[i] = allocate_aligned(a->value_offset + values * element, 1);
        uint8_t *data = random_elements(a->element, keys + values);
        memcpy(s.pages[i] + a->key_offset, data, keys * element);
        memcpy(s.pages[i] + a->value_offset, data + keys * element, values * element);
        free(data);
        /* What no row sees must not count: NaNs. */
        for (uint32_t j = 0; j < KERNEL_PAGE; j++)
            if (i * KERNEL_PAGE + j >= positions) {
                for (size_t d = 0; d < (size_t)a->n_kv_heads * a->key_dim; d++)
                    memset(s.pages[i] + a->key_offset + (d * KERNEL_PAGE + j) * element, 0xff,
                           element);
                for (uint32_t h = 0; h < a->n_kv_heads; h++)
                    memset(s.pages[i] + a->value_offset +
                               (h * KERNEL_PAGE + j) * a->value_dim * element,
                           0xff, a->value_dim * element);
            }
    }
    return s;
}

static void sequence_free(struct sequence s)
{
    for (uint32_t i = 0; i < s.n_pages; i++)
        free(s.pages[i]);
    free(s.pages);
}

static float key_at(const struct attention *a, const struct attention_row *row, uint32_t head,
                    uint32_t position, uint32_t d)
{
    size_t at = ((size_t)head * a->key_dim + d) * KERNEL_PAGE + position % KERNEL_PAGE;
    return element_at(a->element, row->pages[position / KERNEL_PAGE] + a->key_offset, at);
}

static float value_at(const struct attention *a, const struct attention_row *row, uint32_t head,
                      uint32_t position, uint32_t d)
{
    size_t at = ((size_t)head * KERNEL_PAGE + position % KERNEL_PAGE) * a->value_dim + d;
    return element_at(a->element, row->pages[position / KERNEL_PAGE] + a->value_offset, at);
}

/* The order in kernel.h, word for word; and the exact result in double. */
static void attend_plainly(const struct attention *a, const struct attention_row *row,
                           uint32_t head, const float *q, float *out, double *exact)
{
    uint32_t kv = head / (a->n_heads / a->n_kv_heads);
    float M = 0, L = 0, *O = allocate(a->value_dim, sizeof *O);
    double largest = -INFINITY, sum = 0;
    memset(exact, 0, a->value_dim * sizeof *exact);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t j = row->first; j < row->end; j++) {
            double s = 0;
            for (uint32_t d = 0; d < a->key_dim; d++)
                s += (double)q[d] * (double)key_at(a, row, kv, j, d);
            s *= (double)a->scale;
            if (a->softcap != 0)
                s = (double)a->softcap * tanh(s / (double)a->softcap);
            if (pass == 0) {
                largest = s > largest ? s : largest;
                continue;
            }
            sum += exp(s - largest);
            for (uint32_t d = 0; d < a->value_dim; d++)
                exact[d] += exp(s - largest) * (double)value_at(a, row, kv, j, d);
        }
    for (uint32_t d = 0; d < a->value_dim; d++)
        exact[d] /= sum;

    for (uint32_t page = row->first / KERNEL_PAGE; page * KERNEL_PAGE < row->end; page++) {
        uint32_t low = page * KERNEL_PAGE, high = low + KERNEL_PAGE;
        low = low > row->first ? low : row->first;
        high = high < row->end ? high : row->end;
        float s[KERNEL_PAGE], m = -INFINITY, lane[16] = {0};
        for (uint32_t j = low; j < high; j++) {
            float x = 0;
            for (uint32_t d = 0; d < a->key_dim; d++)
                x = fmaf(q[d], key_at(a, row, kv, j, d), x);
            x *= a->scale;
            if (a->softcap != 0)
                x = a->softcap * exact_tanh(x / a->softcap);
            s[j % KERNEL_PAGE] = x;
            m = x > m ? x : m;
        }
        for (uint32_t j = low; j < high; j++) {
            s[j % KERNEL_PAGE] = exact_exp(s[j % KERNEL_PAGE] - m);
            lane[j % 16] += s[j % KERNEL_PAGE];
        }
        float l = fold(lane), now = page == row->first / KERNEL_PAGE || m > M ? m : M;
        float old_factor = exact_exp(M - now), new_factor = exact_exp(m - now);
        for (uint32_t d = 0; d < a->value_dim; d++) {
            float o = 0;
            for (uint32_t j = low; j < high; j++)
                o = fmaf(s[j % KERNEL_PAGE], value_at(a, row, kv, j, d), o);
            O[d] = page == row->first / KERNEL_PAGE ? o : fmaf(o, new_factor, O[d] * old_factor);
        }
        L = page == row->first / KERNEL_PAGE ? l : fmaf(l, new_factor, L * old_factor);
        M = now;
    }
    for (uint32_t d = 0; d < a->value_dim; d++)
        out[d] = O[d] / L;
    free(O);
}

static void check_attention(struct attention a, const struct attention_row *rows, uint32_t n_rows)
{
    size_t q_row = (size_t)a.n_heads * a.key_dim, out_row = (size_t)a.n_heads * a.value_dim;
    float *q = random_floats(n_rows * q_row), *out = random_floats(n_rows * out_row);
    float *want = random_floats(n_rows * out_row);
    double *exact = allocate(a.value_dim, sizeof *exact);
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t h = 0; h < a.n_heads; h++) {
            float *o = want + r * out_row + h * a.value_dim;
            attend_plainly(&a, &rows[r], h, q + r * q_row + h * a.key_dim, o, exact);
            for (uint32_t d = 0; d < a.value_dim; d++)
                if (!(fabs((double)o[d] - exact[d]) < 1e-4))
                    ck_abort_msg("%g instead of %g", (double)o[d], exact[d]);
        }
    EACH_LEVEL(kernel)
    {
        for (int n_threads = 0; n_threads < N_POOLS; n_threads++) {
            struct threads *threads = pools[n_threads];
            memset(out, 0, n_rows * out_row * sizeof *out);
            kernel_attend(kernel, threads, &a, rows, n_rows, q, out);
            ck_assert_msg(same_floats(out, want, n_rows * out_row),
                          "%s: %u rows, %d threads, %u/%u heads, %u/%u dimensions, element %d",
                          kernel_name(kernel), n_rows, n_threads, a.n_heads, a.n_kv_heads,
                          a.key_dim, a.value_dim, a.element);
            if (n_threads == 3) { /* one at a time */
                memset(out, 0, n_rows * out_row * sizeof *out);
                for (uint32_t r = 0; r < n_rows; r++)
                    kernel_attend(kernel, threads, &a, &rows[r], 1, q + r * q_row,
                                  out + r * out_row);
                ck_assert(same_floats(out, want, n_rows * out_row));
            }
        }
    }
    free(q);
    free(out);
    free(want);
    free(exact);
}

static const struct attention shapes[] = {
    {.n_heads = 8, .n_kv_heads = 4, .key_dim = 8, .value_dim = 8},
    {.n_heads = 4, .n_kv_heads = 1, .key_dim = 64, .value_dim = 64},
    {.n_heads = 3, .n_kv_heads = 3, .key_dim = 64, .value_dim = 80},
    {.n_heads = 7, .n_kv_heads = 1, .key_dim = 80, .value_dim = 24},
    {.n_heads = 10, .n_kv_heads = 2, .key_dim = 32, .value_dim = 40},
    {.n_heads = 9, .n_kv_heads = 1, .key_dim = 16, .value_dim = 128},
    {.n_heads = 100, .n_kv_heads = 1, .key_dim = 8, .value_dim = 8},
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

static struct attention shape_at(int i)
{
    struct attention a = shapes[i / 2];
    a.element = i % 2 ? TENSOR_F16 : TENSOR_F32;
    a.key_offset = 128;
    a.value_offset = 192 + (size_t)a.n_kv_heads * a.key_dim * KERNEL_PAGE * (i % 2 ? 2 : 4);
    a.scale = 1.0f / sqrtf((float)a.key_dim) * 3.0f;
    return a;
}

/* A prompt: row i sees [0, i]; from the start, in the middle of a context, with a window. */
START_TEST(attention_of_a_prompt)
{
    static const uint32_t first[] = {0, 0, 63, 150}, window[] = {1000, 1000, 50, 70};
    struct attention a = shape_at(_i);
    uint32_t count[] = {1, a.n_heads < 9 ? 140 : 70, 66, 50};
    if (QUICK || a.n_heads > 50)
        count[1] = count[2] = count[3] = 9;
    for (int c = 0; c < 4; c++) {
        random_begin((uint64_t)(_i * 10 + c));
        struct sequence s = sequence_new(&a, first[c] + count[c]);
        struct attention_row *rows = allocate(count[c], sizeof *rows);
        for (uint32_t i = 0; i < count[c]; i++) {
            uint32_t end = first[c] + i + 1;
            rows[i].pages = (const uint8_t *const *)s.pages;
            rows[i].end = end;
            rows[i].first = end > window[c] ? end - window[c] : 0;
        }
        a.softcap = c == 3 ? 2.0f : 0.0f;
        check_attention(a, rows, count[c]);
        free(rows);
        sequence_free(s);
    }
}
END_TEST

/* A batch: several sequences, several rows of some, any ranges. */
START_TEST(attention_of_a_batch)
{
    struct attention a = shape_at(_i);
    random_begin((uint64_t)_i);
    struct sequence s[3] = {sequence_new(&a, 200), sequence_new(&a, 64), sequence_new(&a, 129)};
    struct attention_row rows[17];
    for (int i = 0; i < 17; i++) {
        const struct sequence *of = &s[i % 7 % 3];
        uint32_t all = of == &s[0] ? 200 : of == &s[1] ? 64 : 129;
        rows[i].pages = (const uint8_t *const *)of->pages;
        rows[i].end = 1 + random_bits() % all;
        rows[i].first = i % 4 == 3 ? 0 : random_bits() % rows[i].end;
    }
    check_attention(a, rows, 17);
    for (int i = 0; i < 3; i++)
        sequence_free(s[i]);
}
END_TEST

/* Scores that are not finite, and scores far apart: no crash, and the same everywhere. */
START_TEST(attention_of_extreme_scores)
{
    struct attention a = shape_at(3);
    random_begin(5);
    struct sequence s = sequence_new(&a, 200);
    struct attention_row row = {(const uint8_t *const *)s.pages, 0, 200};
    size_t n = (size_t)a.n_heads * a.key_dim, n_out = (size_t)a.n_heads * a.value_dim;
    float *q = random_floats(n), *out = random_floats(n_out), *want = random_floats(n_out);
    for (int c = 0; c < 6; c++) {
        for (size_t i = 0; i < n; i++)
            q[i] = random_float() * (c == 0 ? 1e3f : c == 1 ? 1e30f : c == 2 ? 1e-40f : 1.0f);
        if (c >= 3)
            q[5] = c == 3 ? NAN : c == 4 ? INFINITY : -INFINITY;
        a.softcap = c % 2 ? 30.0f : 0.0f;
        kernel_attend(kernel_at(KERNEL_GENERIC), NULL, &a, &row, 1, q, want);
        EACH_LEVEL(kernel)
        {
            kernel_attend(kernel, NULL, &a, &row, 1, q, out);
            ck_assert_msg(same_floats(out, want, n_out), "%s: case %d", kernel_name(kernel), c);
        }
    }
    free(q);
    free(out);
    free(want);
    sequence_free(s);
}
END_TEST

/* ---- levels -------------------------------------------------------------------------------- */

START_TEST(levels_are_chosen_by_name)
{
    struct error error = {0};
    for (int level = KERNEL_GENERIC; level <= KERNEL_AMX; level++) {
        const struct kernel *kernel = kernel_at((enum kernel_level)level);
        if (!kernel)
            continue;
        setenv("UNROLL_CPU", kernel_name(kernel), 1);
        ck_assert_ptr_eq(kernel_choose(&error), kernel);
    }
    setenv("UNROLL_CPU", "abacus", 1);
    ck_assert_ptr_null(kernel_choose(&error));
    ck_assert_int_eq(error.status, STATUS_USAGE);
    ck_assert_ptr_nonnull(strstr(error.text, "abacus"));
    ck_assert_ptr_nonnull(strstr(error.text, "generic"));
    unsetenv("UNROLL_CPU");
    ck_assert_ptr_nonnull(kernel_choose(&error));
    ck_assert_ptr_nonnull(kernel_at(KERNEL_GENERIC));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel, floats");
    TCase *matrices = tcase_create("matrices");
    tcase_add_loop_test(matrices, multiply_is_canonical, 0, 3);
    tcase_add_test(matrices, multiply_leaves_missing_lanes);
    tcase_add_test(matrices, products_together_equal_products_alone);
    tcase_add_test(matrices, products_of_several_x_equal_products_alone);
    TCase *rows = tcase_create("rows");
    tcase_add_loop_test(rows, rms_norm_is_canonical, 0, N_SIZES);
    tcase_add_loop_test(rows, layer_norm_is_canonical, 0, N_SIZES);
    tcase_add_loop_test(rows, activations_are_canonical, 0, N_SIZES);
    tcase_add_loop_test(rows, element_operations_are_canonical, 0, N_SIZES);
    tcase_add_loop_test(rows, rope_is_canonical, 0, 10);
    tcase_add_test(rows, exp_has_the_bits_of_the_scalar_one);
    TCase *attention = tcase_create("attention");
    tcase_add_loop_test(attention, attention_of_a_prompt, 0, 2 * N_SHAPES);
    tcase_add_loop_test(attention, attention_of_a_batch, 0, 2 * N_SHAPES);
    tcase_add_test(attention, attention_of_extreme_scores);
    TCase *levels = tcase_create("levels");
    tcase_add_test(levels, levels_are_chosen_by_name);
    TCase *all[] = {matrices, rows, attention, levels};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tcase_set_timeout(all[i], 300);
        tcase_add_checked_fixture(all[i], start_pools, stop_pools);
        suite_add_tcase(suite, all[i]);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
