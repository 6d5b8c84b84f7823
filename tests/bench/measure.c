/* measure: what the machine gives in this hour, and what the forward pass takes of it; one number a
 * line. */
#include "model/model.h"
#include "stage/stage.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *text_path;
static int64_t threads = 2, n_prefill, n_decode, after, lanes = 1, loop;
static bool bandwidth;
static int repack;

static const struct option_spec options[] = {
    {'t', "threads", "N", OPTION_INTEGER, &threads, 1, 1024, "threads", 0},
    {0, "bandwidth", NULL, OPTION_FLAG, &bandwidth, 0, 0, "read bandwidth of memory, GB/s", 0},
    {0, "prefill", "N", OPTION_INTEGER, &n_prefill, 0, 1 << 20, "tokens/s of a prefill of N", 0},
    {0, "decode", "N", OPTION_INTEGER, &n_decode, 0, 1 << 20, "tokens/s of N decode steps", 0},
    {0, "after", "P", OPTION_INTEGER, &after, 0, 1 << 20, "... after P positions", 0},
    {0, "lanes", "N", OPTION_INTEGER, &lanes, 1, 512, "... of N sequences at once", 0},
    {0, "loop", "N", OPTION_INTEGER, &loop, 0, 1 << 20,
     "the whole loop in one process, greedy: tokens/s", 0},
    {0, "tokenize", "FILE", OPTION_TEXT, &text_path, 0, 0,
     "ms to open a vocabulary, MB/s of this text, its tokens", 0},
    {0, "repack", "auto|never|only", OPTION_CHOICE, &repack, 0, 0, "layout of the weights", 0},
    {0},
};
static const struct program program = {"[MODEL]", "Measure.", options};

/* ---- memory -------------------------------------------------------------------------------- */

typedef uint64_t line __attribute__((vector_size(64)));

#if defined(__x86_64__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static uint64_t
xor_lines(const line *at, size_t n)
{
    line sum[4] = {{0}};
    for (size_t i = 0; i + 4 <= n; i += 4)
        for (size_t k = 0; k < 4; k++) {
            __builtin_prefetch(at + i + k + 64);
            sum[k] ^= at[i + k];
        }
    line all = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
    return all[0] ^ all[1] ^ all[2] ^ all[3] ^ all[4] ^ all[5] ^ all[6] ^ all[7];
}

static void sum_range(void *context, int thread, size_t begin, size_t end)
{
    static _Atomic uint64_t sink;
    (void)thread;
    sink ^= xor_lines((const line *)context + begin, end - begin);
}

/* Best of several passes over more memory than any cache holds. */
static double read_bandwidth(struct threads *pool)
{
    size_t n = (size_t)1 << 27; /* words: 1 GB */
    uint64_t *words = allocate_aligned(n, sizeof *words);
    double best = INFINITY;
    for (size_t i = 0; i < n; i += 512)
        words[i] = i;
    for (int pass = 0; pass < 5; pass++) {
        double begin = seconds_now();
        threads_run(pool, n / 8, 1 << 13, sum_range, words);
        double seconds = seconds_now() - begin;
        best = seconds < best ? seconds : best;
    }
    free(words);
    return (double)n * 8e-9 / best;
}

/* ---- the pass ------------------------------------------------------------------------------ */

static double run(struct model *m, struct cache_sequence *caches, uint32_t n_lanes, uint32_t n,
                  uint32_t chunk)
{
    struct error error;
    const struct hyperparameters *h = model_hyperparameters(m);
    float *logits = allocate((size_t)n_lanes * h->n_logits, sizeof *logits);
    struct model_row *rows = allocate((size_t)chunk * n_lanes, sizeof *rows);
    double begin = seconds_now();
    for (uint32_t done = 0; done < n; done += chunk) {
        uint32_t size = n - done < chunk ? n - done : chunk, k = 0;
        for (uint32_t lane = 0; lane < n_lanes; lane++)
            for (uint32_t i = 0; i < size; i++) {
                uint32_t p = caches[lane].n_positions + i;
                rows[k++] = (struct model_row){&caches[lane], p,
                                               3 + (p * 7919 + lane) % 500 % (h->n_logits - 3),
                                               i + 1 == size && (chunk == 1 || done + size == n)};
            }
        if (!model_evaluate(m, rows, k, logits, &error))
            die_error(&error);
    }
    double seconds = seconds_now() - begin;
    free(rows);
    free(logits);
    return seconds;
}

/* Decode steps that feed on their own greedy choice: what `generate` does, without processes. */
static double run_loop(struct model *m, uint32_t n)
{
    struct error error;
    uint32_t n_logits = model_hyperparameters(m)->n_logits, token = 3;
    struct cache_sequence cache = {.shape = &model_hyperparameters(m)->cache};
    float *logits = allocate(n_logits, sizeof *logits);
    double begin = seconds_now();
    for (uint32_t p = 0; p < n; p++) {
        struct model_row row = {&cache, p, token, true};
        if (!model_evaluate(m, &row, 1, logits, &error))
            die_error(&error);
        for (uint32_t i = token = 0; i < n_logits; i++)
            token = logits[i] > logits[token] ? i : token;
    }
    double seconds = seconds_now() - begin;
    cache_release(&cache);
    free(logits);
    return seconds;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static double encode(const struct vocab *vocab, const uint8_t *text, size_t size,
                     struct token_list *tokens)
{
    struct error error;
    double begin = seconds_now();
    tokens->count = 0;
    if (!vocab_encode(vocab, text, size, 0, tokens, &error))
        die_error(&error);
    return seconds_now() - begin;
}

/* Opens the file's vocabulary, everything that encoding needs included, and encodes a text with it;
 * the best of several passes. */
static void measure_tokens(const char *path)
{
    struct error error;
    struct token_list tokens = {0};
    size_t size;
    int fd = open(text_path, O_RDONLY);
    uint8_t *text = fd < 0 ? NULL : read_all(fd, &size, text_path);
    if (!text)
        die(STATUS_SYSTEM, "%s: cannot open:", text_path);
    close(fd);
    double opening = INFINITY, encoding = INFINITY;
    for (int pass = 0; pass < 5; pass++) {
        double begin = seconds_now();
        struct gguf *gguf = gguf_open(path, &error);
        struct vocab *vocab = gguf ? vocab_open(gguf, NULL, &error) : NULL;
        if (!vocab)
            die_error(&error);
        encode(vocab, (const uint8_t *)"a", 1, &tokens);
        double seconds = seconds_now() - begin;
        opening = seconds < opening ? seconds : opening;
        for (int i = 0; i < 3; i++) {
            seconds = encode(vocab, text, size, &tokens);
            encoding = seconds < encoding ? seconds : encoding;
        }
        vocab_close(vocab);
        gguf_close(gguf);
    }
    printf("%.2f\n%.2f\n%zu\n", 1e3 * opening, 1e-6 * (double)size / encoding, tokens.count);
    free(tokens.ids);
    free(text);
}

int main(int argc, char **argv)
{
    struct error error;
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);
    if (text_path && first < argc) {
        measure_tokens(argv[first]);
        return program_end();
    }
    struct threads *pool = threads_start((int)threads);
    if (bandwidth)
        printf("%.2f\n", read_bandwidth(pool));
    threads_stop(pool);
    if (first == argc)
        return program_end();
    struct gguf *gguf = gguf_open(argv[first], &error);
    struct model *m = gguf
                          ? model_open(gguf,
                                       &(struct model_options){.element = TENSOR_F16,
                                                               .n_threads = (int)threads,
                                                               .repack = (enum model_repack)repack},
                                       &error)
                          : NULL;
    if (!m)
        die_error(&error);
    struct cache_sequence *caches = allocate((size_t)lanes, sizeof *caches);
    for (int64_t i = 0; i < lanes; i++)
        caches[i].shape = &model_hyperparameters(m)->cache;
    run(m, caches, 1, 8, 8); /* pages of the file are in memory, scratch is made */
    cache_cut(&caches[0], 0);
    if (n_prefill) {
        printf("%.2f\n", (double)n_prefill / run(m, caches, 1, (uint32_t)n_prefill, 512));
        cache_cut(&caches[0], 0);
    }
    if (n_decode) {
        for (int64_t i = 0; after && i < lanes; i++)
            run(m, &caches[i], 1, (uint32_t)after, 512);
        printf("%.2f\n",
               (double)(n_decode * lanes) / run(m, caches, (uint32_t)lanes, (uint32_t)n_decode, 1));
    }
    if (loop)
        printf("%.2f\n", (double)loop / run_loop(m, (uint32_t)loop));
    for (int64_t i = 0; i < lanes; i++)
        cache_release(&caches[i]);
    free(caches);
    model_close(m);
    gguf_close(gguf);
    return program_end();
}
