/* draw-texts: texts of a grammar, drawn token by token from its masks, each followed by a zero
 * byte.
 *
 * What is drawn is not probable in any sense: a third of the tokens, and all when the text has
 * become long, are such as close strings, arrays and objects, so that the texts end. */
#include "grammar/grammar.h"
#include "gguf/gguf.h"
#include "stage/stage.h"
#include "vocab/vocab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *grammar_file, *schema_file, *model;
static bool json, measure;
static int64_t count = 200, first_seed;

static const struct option_spec options[] = {
    {'m', "model", "FILE", OPTION_TEXT, &model, 0, 0, "the vocabulary", 0},
    {0, "grammar-file", "FILE", OPTION_TEXT, &grammar_file, 0, 0, "GBNF", 0},
    {0, "json-schema-file", "FILE", OPTION_TEXT, &schema_file, 0, 0, "JSON Schema", 0},
    {0, "json", NULL, OPTION_FLAG, &json, 0, 0, "any JSON", 0},
    {'n', "count", "N", OPTION_INTEGER, &count, 1, 1 << 20, "texts (200)", 0},
    {'s', "seed", "N", OPTION_INTEGER, &first_seed, 0, 1 << 30,
     "of the first text; each has the next", 0},
    {0, "measure", NULL, OPTION_FLAG, &measure, 0, 0,
     "draw as many again, and print what their masks took: median, worst (ms), how many", 0},
    {0},
};
static const struct program program = {"", "Draw texts of a grammar.", options};

enum { SHORT = 150, LONG = 20000 };
static struct grammar_vocabulary v;
static bool *closes; /* token is made of what closes something */

static struct grammar *read_grammar(void)
{
    const char *path = schema_file ? schema_file : grammar_file;
    struct error error;
    if (json)
        return grammar_of_json();
    if (!path)
        die(STATUS_USAGE, "no grammar");
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        die(STATUS_SYSTEM, "%s: cannot open:", path);
    size_t length;
    char *text = (char *)read_all(fd, &length, path);
    struct grammar *g =
        (schema_file ? grammar_from_schema : grammar_parse)(text, length, path, &error);
    if (!g)
        die_error(&error);
    free(text);
    close(fd);
    return g;
}

static void read_vocabulary(const struct vocab *vocab)
{
    const struct vocab_facts *facts = vocab_facts_of(vocab);
    const char **piece = allocate(facts->n_tokens, sizeof *piece);
    uint32_t *length = allocate(facts->n_tokens, sizeof *length);
    closes = allocate(facts->n_tokens, 1);
    for (uint32_t i = 0; i < facts->n_tokens; i++) {
        length[i] = (uint32_t)vocab_piece(vocab, i, false, &piece[i]);
        closes[i] = length[i] > 0;
        for (uint32_t k = 0; k < length[i]; k++)
            closes[i] &= piece[i][k] == '"' || piece[i][k] == '}' || piece[i][k] == ']';
    }
    v = (struct grammar_vocabulary){(const char *const *)piece, length, facts->n_tokens, facts->eog,
                                    facts->n_eog};
}

static uint32_t below(uint32_t seed, uint32_t *at, uint32_t n)
{
    const uint32_t key[2] = {seed, 1}, counter[4] = {(*at)++, 0, 0, 0};
    uint32_t word[4];
    philox4x32(key, counter, word);
    return (uint32_t)((uint64_t)word[0] * n >> 32);
}

/* One of those that are allowed, alike; UINT32_MAX: none. */
static uint32_t pick(const uint64_t *mask, bool closing, uint32_t seed, uint32_t *at)
{
    uint32_t n = 0, chosen = UINT32_MAX;
    for (int counted = 0; counted < 2; counted++) {
        uint32_t k = counted && n ? below(seed, at, n) : 0;
        for (uint32_t i = 0; i < v.n_tokens; i++) {
            bool may = mask[i / 64] >> (i % 64) & 1 && v.length[i] && (!closing || closes[i]);
            if (!counted)
                n += may;
            else if (may && k-- == 0)
                return i;
        }
    }
    return chosen;
}

static double *seconds; /* that each mask took, while they are measured */
static size_t n_seconds, seconds_capacity;

static const uint64_t *timed_mask(struct grammar_state *state, uint32_t *n_allowed)
{
    double begin = seconds_now();
    const uint64_t *mask = grammar_mask(state, n_allowed);
    seconds = grow(seconds, &seconds_capacity, n_seconds + 1, sizeof *seconds);
    seconds[n_seconds++] = seconds_now() - begin;
    return mask;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void draw(struct grammar_matcher *m, uint32_t seed)
{
    struct grammar_state *state = grammar_state_new(m);
    uint32_t at = 0, n_allowed;
    for (size_t length = 0;;) {
        const uint64_t *mask = timed_mask(state, &n_allowed);
        if (n_allowed == 0)
            die(STATUS_CONSTRAINT, "seed %u: a dead end", seed);
        if (grammar_may_end(state) && (length > SHORT || below(seed, &at, 3) == 0))
            break;
        uint32_t id = UINT32_MAX;
        if (length > SHORT || below(seed, &at, 3) == 0)
            id = pick(mask, true, seed, &at);
        if (id == UINT32_MAX)
            id = pick(mask, false, seed, &at);
        if (id == UINT32_MAX) /* nothing but the end */
            break;
        if (grammar_advance(state, v.piece[id], v.length[id]) < v.length[id])
            die(STATUS_CONSTRAINT, "seed %u: token %u is in the mask and cannot follow", seed, id);
        if (!measure)
            fwrite(v.piece[id], 1, v.length[id], stdout);
        length += v.length[id];
        if (length > LONG)
            die(STATUS_CONSTRAINT, "seed %u: a text without an end", seed);
    }
    if (!measure)
        putchar(0);
    grammar_state_free(state);
}

int main(int argc, char **argv)
{
    struct error error;
    program_start(argv);
    options_parse(&program, argc, argv, NULL, NULL);
    struct grammar *g = read_grammar();
    struct gguf *gguf = gguf_open(model, &error);
    struct vocab *vocab = gguf ? vocab_open(gguf, NULL, &error) : NULL;
    if (!vocab)
        die_error(&error);
    read_vocabulary(vocab);
    struct grammar_matcher *m = grammar_matcher_new(g, &v);
    for (int64_t i = 0; i < count; i++)
        draw(m, (uint32_t)(first_seed + i));
    if (measure) {
        n_seconds = 0;
        for (int64_t i = 0; i < count; i++)
            draw(m, (uint32_t)(first_seed + count + i));
        qsort(seconds, n_seconds, sizeof *seconds, by_size);
        printf("%.4f\n%.4f\n%zu\n", 1e3 * seconds[n_seconds / 2], 1e3 * seconds[n_seconds - 1],
               n_seconds);
    }
    grammar_matcher_free(m);
    grammar_free(g);
    free(seconds);
    vocab_close(vocab);
    gguf_close(gguf);
    free((void *)(uintptr_t)v.piece);
    free((void *)(uintptr_t)v.length);
    free(closes);
    return program_end();
}
