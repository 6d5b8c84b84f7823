/* The matrix of design section 4: the logits of a position are a function of the tokens before it,
 * bit for bit, whatever the threads, the chunks, the instruction set, the batch, and whether the
 * cache was computed or read back. */
#include "../models.h"

#include "cache/cache.h"
#include "model/model.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N 80 /* more than one page */

static const char *const levels[] = {"generic", "avx2", "avx512", "amx"};

/* An open model under one instruction set and number of threads; NULL where the CPU lacks the set.
 */
static struct model *open_at(const struct gguf *gguf, enum kernel_level level, int threads,
                             enum tensor_type element)
{
    struct error error;
    if (!kernel_at(level))
        return NULL;
    setenv("UNROLL_CPU", levels[level], 1);
    struct model *m =
        model_open(gguf, &(struct model_options){.element = element, .n_threads = threads}, &error);
    ck_assert_msg(m != NULL, "%s", error.text);
    return m;
}

static uint32_t token_at(const struct model *m, uint32_t p)
{
    return (p * 7919 + 3) % model_hyperparameters(m)->n_logits;
}

/* Evaluates positions up to `end` in chunks and leaves the logits of the last one. */
static void evaluate(struct model *m, struct cache_sequence *cache, uint32_t end, uint32_t chunk,
                     float *logits)
{
    struct error error;
    struct model_row rows[N];
    while (cache->n_positions < end) {
        uint32_t n = 0, begin = cache->n_positions;
        for (; n < chunk && begin + n < end; n++)
            rows[n] =
                (struct model_row){cache, begin + n, token_at(m, begin + n), begin + n + 1 == end};
        ck_assert_msg(model_evaluate(m, rows, n, logits, &error), "%s", error.text);
    }
}

/* The cache through packed records, as a saved state would have it. */
static void restore(struct cache_sequence *to, const struct cache_sequence *from)
{
    uint8_t *scratch = allocate(cache_bytes(from->shape, CACHE_PAGE), 1);
    to->shape = from->shape;
    for (uint32_t p = 0, n; p < from->n_positions; p += n) {
        n = from->n_positions - p < 23 ? from->n_positions - p : 23; /* parts of pages */
        n = CACHE_PAGE - p % CACHE_PAGE < n ? CACHE_PAGE - p % CACHE_PAGE : n;
        cache_append(to, n, cache_packed(from, p, n, scratch), false);
    }
    free(scratch);
}

static void check_model(const char *path)
{
    struct error error;
    struct gguf *gguf = gguf_open(path, &error);
    ck_assert_msg(gguf != NULL, "%s", error.text);
    for (int e = 0; e < 2; e++) {
        enum tensor_type element = e ? TENSOR_F32 : TENSOR_F16;
        float *expected[N], *logits = NULL;
        struct model *first = open_at(gguf, KERNEL_GENERIC, 1, element);
        size_t size = model_hyperparameters(first)->n_logits * sizeof(float);
        logits = allocate(3 * size, 1);
        for (uint32_t p = 0; p < N; p++) { /* the definition: one position at a time, in plain C */
            static struct cache_sequence cache;
            cache.shape = &model_hyperparameters(first)->cache;
            evaluate(first, &cache, p + 1, 1, logits);
            expected[p] = memcpy(allocate(size, 1), logits, size);
            if (p + 1 == N)
                cache_release(&cache);
        }
        for (int level = 0; level < 4; level++)
            for (int threads = 1; threads <= 3; threads++) {
                struct model *m = open_at(gguf, (enum kernel_level)level, threads, element);
                static const uint32_t chunks[] = {1, 7, 64, N};
                for (size_t c = 0; m && c < 4; c++) {
                    struct cache_sequence cache = {.shape = &model_hyperparameters(m)->cache};
                    evaluate(m, &cache, N, chunks[c], logits);
                    ck_assert_msg(memcmp(logits, expected[N - 1], size) == 0,
                                  "%s: %s, %d threads, chunks of %u", path, levels[level], threads,
                                  chunks[c]);
                    cache_release(&cache);
                }
                model_close(m);
            }
        /* restored at every position, then gone on from; and every position as the last of a
         * prefill */
        int best = KERNEL_AMX;
        while (!kernel_at((enum kernel_level)best))
            best--;
        struct model *m = open_at(gguf, (enum kernel_level)best, 2, element);
        for (uint32_t p = 1; p < N; p++) {
            struct cache_sequence cache = {.shape = &model_hyperparameters(m)->cache}, again = {0},
                                  shared = {0};
            evaluate(m, &cache, p, N, logits);
            ck_assert_msg(memcmp(logits, expected[p - 1], size) == 0, "%s: prefill of %u", path, p);
            restore(&again, &cache);
            cache_share(&shared, &cache, p);
            evaluate(m, &again, N, N, logits);
            ck_assert_msg(memcmp(logits, expected[N - 1], size) == 0, "%s: restored at %u", path,
                          p);
            evaluate(m, &shared, N, 5, logits);
            ck_assert_msg(memcmp(logits, expected[N - 1], size) == 0, "%s: forked at %u", path, p);
            evaluate(m, &cache, p + 1, 1, logits); /* the fork has not touched its source */
            ck_assert_msg(memcmp(logits, expected[p], size) == 0, "%s: source of the fork at %u",
                          path, p);
            cache_release(&cache);
            cache_release(&again);
            cache_release(&shared);
        }
        /* three sequences in one batch, of different lengths */
        struct cache_sequence lane[3] = {{0}};
        struct model_row rows[N * 3];
        uint32_t n = 0, lengths[] = {N, 1, 33};
        for (int s = 0; s < 3; s++) {
            lane[s].shape = &model_hyperparameters(m)->cache;
            for (uint32_t p = 0; p < lengths[s]; p++)
                rows[n++] = (struct model_row){&lane[s], p, token_at(m, p), p + 1 == lengths[s]};
        }
        ck_assert(model_evaluate(m, rows, n, logits, &error));
        for (int s = 0; s < 3; s++) {
            ck_assert_msg(
                memcmp((char *)logits + s * (ptrdiff_t)size, expected[lengths[s] - 1], size) == 0,
                "%s: batch, lane %d", path, s);
            cache_release(&lane[s]);
        }
        model_close(m);
        model_close(first);
        for (uint32_t p = 0; p < N; p++)
            free(expected[p]);
        free(logits);
    }
    gguf_close(gguf);
}

static void check_plan(struct model_plan plan)
{
    char path[] = "/tmp/unroll-test-XXXXXX";
    close(mkstemp(path));
    model_make(&plan, path);
    check_model(path);
    unlink(path);
}

static const struct {
    const char *family;
    uint32_t type, dim, heads;
} plans[] = {
    {"llama", TENSOR_F32, 64, 4},
    {"llama", TENSOR_F16, 96, 4},
    {"llama", TENSOR_BF16, 64, 8},
    {"llama", TENSOR_Q8_0, 64, 2},
    {"qwen2", TENSOR_F16, 64, 4},
    {"qwen3", TENSOR_Q8_0, 64, 4},
    {"llama", TENSOR_Q4_0, 64, 4},
    {"llama", TENSOR_Q4_K, 256, 8},
    {"llama", TENSOR_Q6_K, 256, 8},
    /* the other families; their windows are shorter than N */
    {"mistral", TENSOR_F16, 64, 4},
    {"gpt2", TENSOR_Q8_0, 64, 4},
    {"gemma", TENSOR_F32, 64, 4},
    {"gemma2", TENSOR_Q4_0, 64, 4},
    {"gemma3", TENSOR_F16, 64, 4},
    {"phi3", TENSOR_Q8_0, 64, 4},
    {"phi3-long", TENSOR_F32, 96, 4},
    {"olmo2", TENSOR_F16, 64, 4},
    {"olmo3", TENSOR_F32, 64, 4},
    {"granite", TENSOR_BF16, 64, 4},
    {"mixtral", TENSOR_Q8_0, 64, 4},
    {"granitemoe", TENSOR_F16, 64, 4},
    {"qwen2moe", TENSOR_F32, 64, 4},
    {"qwen3moe", TENSOR_Q4_K, 256, 8},
};

START_TEST(made_models)
{
    struct model_plan plan = model_plan(plans[_i].family, plans[_i].type);
    plan.dim = plans[_i].dim;
    plan.n_heads = plans[_i].heads;
    plan.n_ffn = plan.dim == 256 ? 256 : 128;
    plan.tied = _i % 2;
    plan.n_vocabulary = 288;
    check_plan(plan);
}
END_TEST

static const char *data_folder(void)
{
    const char *folder = getenv("UNROLL_TEST_DATA");
    return folder ? folder : "../shared/data";
}

START_TEST(models_of_the_field)
{
    static const char *const names[] = {"stories/stories260K.gguf", "micro/micro-llama-Q4_K_M.gguf",
                                        "micro/micro-llama-IQ4_XS.gguf",
                                        "micro/micro-qwen3-f16.gguf"};
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", data_folder(), names[_i]);
    if (access(path, R_OK))
        printf("skipped: no ../shared/data (%s)\n", names[_i]);
    else
        check_model(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exactness");
    TCase *tests = tcase_create("exactness");
    tcase_set_timeout(tests, 0);
    tcase_add_loop_test(tests, made_models, 0, sizeof plans / sizeof *plans);
    tcase_add_loop_test(tests, models_of_the_field, 0, 4);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
