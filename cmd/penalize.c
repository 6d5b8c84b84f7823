/* penalize: logits in, logits out: biases, penalties on what has been before, and what may not be
 * selected. */
#include "options.h"
#include "select/select.h"
#include "stage/filter.h"
#include "stage/naming.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct filter filter;
static struct naming naming;
static struct select_penalties penalties = {.repeat = 1, .last = -1};
static struct select_dry dry = {.base = 1.75, .allowed_length = 2, .last = -1};
static struct texts biases, more_biases, bias_files, bans, allowances, breakers;

static const struct option_spec options[] = {
    ROW_BIAS(&biases, 0),
    ROW_LOGIT_BIAS(&more_biases, 0),
    ROW_BIAS_FILE(&bias_files, 0),
    ROW_REPEAT_PENALTY(&penalties.repeat, 0),
    ROW_PRESENCE_PENALTY(&penalties.presence, 0),
    ROW_FREQUENCY_PENALTY(&penalties.frequency, 0),
    ROW_PENALIZE_PROMPT(&penalties.prompt, 0),
    ROW_REPEAT_LAST_N(&penalties.last, 0),
    ROW_LAST(&penalties.last, 0),
    ROW_DRY_MULTIPLIER(&dry.multiplier, 0),
    ROW_DRY_BASE(&dry.base, 0),
    ROW_DRY_ALLOWED_LENGTH(&dry.allowed_length, 0),
    ROW_DRY_LAST_N(&dry.last, 0),
    ROW_DRY_BREAKER(&breakers, 0),
    ROW_BAN(&bans, 0),
    ROW_ALLOW(&allowances, 0),
    ROW_KEEP_RAW(&filter.keep_raw, 0),
    ROW_MODEL(&naming.model, 0),
    ROW_OUTPUT(&filter.output_path),
    ROW_FORCE(&filter.force),
    {0},
};
static const struct program program = {
    "[STREAM ...]", "Change logits before a token is selected: logits in, logits out.", options};

static struct bias_list list;     /* biases, then bans */
static struct token_list allowed; /* ascending; empty: all */
static uint32_t greatest;         /* id of them all */
static const char *named_by;      /* the option that it comes from */

/* ---- what the options name ----------------------------------------------------------------- */

static void note(const char *option, uint32_t id)
{
    if (!named_by || id > greatest) {
        greatest = id;
        named_by = option;
    }
}

static void read_biases(const char *option, const struct texts *words)
{
    struct error error;
    for (size_t i = 0; i < words->count; i++) {
        if (!naming_bias(&naming, option, words->item[i], strlen(words->item[i]), &list, &error))
            die(error.status, "--%s: %s", option, error.text);
        note(option, list.item[list.count - 1].id);
    }
}

static void read_files(void)
{
    for (size_t i = 0; i < bias_files.count; i++) {
        size_t before = list.count;
        naming_bias_file(&naming, "bias-file", bias_files.item[i], &list);
        for (; before < list.count; before++)
            note("bias-file", list.item[before].id);
    }
}

static void read_list(const char *option, const struct texts *words, struct token_list *ids)
{
    struct error error;
    for (size_t i = 0; i < words->count; i++)
        if (!naming_list(&naming, option, words->item[i], ids, &error))
            die(error.status, "--%s: %s", option, error.text);
    for (size_t i = 0; i < ids->count; i++)
        note(option, ids->ids[i]);
}

static int by_id(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void read_options(void)
{
    struct token_list banned = {0};
    read_biases("bias", &biases);
    read_biases("logit-bias", &more_biases);
    read_files();
    read_list("ban", &bans, &banned);
    read_list("allow", &allowances, &allowed);
    list.item = grow(list.item, &list.capacity, list.count + banned.count, sizeof *list.item);
    for (size_t i = 0; i < banned.count; i++)
        list.item[list.count++] = (struct select_bias){banned.ids[i], -INFINITY};
    if (allowed.count)
        qsort(allowed.ids, allowed.count, sizeof *allowed.ids, by_id);
    free(banned.ids);
}

/* ---- sequence breakers --------------------------------------------------------------------- */

static const char *const usual_breakers[] = {"\n", ":", "\"", "*"};

/* How far the text of a sequence was read, looking for breakers. */
struct reading {
    uint32_t n;     /* tokens read */
    uint32_t state; /* the matcher's after them */
    uint32_t end;   /* one past the last token in which a breaker ends */
};
static struct reading *readings; /* by the sequence's index */
static size_t n_readings, readings_capacity;
static struct stop_matcher *matcher; /* NULL: no breakers */

static void read_breakers(void)
{
    struct error error;
    size_t n = breakers.count;
    if (dry.multiplier == 0 || (n == 1 && strcmp(breakers.item[0], "none") == 0))
        return;
    if (n == 0) { /* opened when a stream says its vocabulary */
        matcher = stop_new(usual_breakers, sizeof usual_breakers / sizeof *usual_breakers);
        return;
    }
    char **texts = allocate(n, sizeof *texts);
    for (size_t i = 0; i < n; i++) {
        size_t length;
        if (!naming_text(breakers.item[i], strlen(breakers.item[i]), &texts[i], &length, &error))
            die(error.status, "--dry-sequence-breaker: %s", error.text);
        if (length == 0 || strlen(texts[i]) != length)
            die(STATUS_USAGE,
                "--dry-sequence-breaker: expected a text without zero bytes, found %s",
                length ? breakers.item[i] : "an empty one");
    }
    matcher = stop_new((const char *const *)texts, n);
    naming_open(&naming, "dry-sequence-breaker");
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
}

static struct reading *reading_of(const struct sequence *sequence)
{
    readings = grow(readings, &readings_capacity, sequence->index + 1, sizeof *readings);
    while (n_readings <= sequence->index)
        readings[n_readings++] = (struct reading){0};
    return &readings[sequence->index];
}

/* Whether a breaker ends in the text of one more token. */
static bool feed(uint32_t *state, uint32_t id)
{
    const char *bytes;
    size_t length = vocab_piece(naming.vocab, id, true, &bytes);
    return stop_ends_in(matcher, state, bytes, length);
}

static bool would_break(void *context, uint32_t id)
{
    uint32_t state = ((const struct reading *)context)->state;
    return feed(&state, id);
}

/* The reading of the first n tokens. */
static struct reading *read_text(const struct sequence *sequence, uint32_t n)
{
    struct reading *reading = reading_of(sequence);
    if (reading->n > n)
        *reading = (struct reading){0};
    for (; reading->n < n; reading->n++)
        if (feed(&reading->state, sequence->tokens[reading->n]))
            reading->end = reading->n + 1;
    return reading;
}

/* ---- changing ------------------------------------------------------------------------------ */

static struct penalizer *penalizer;

static void dont_repeat(struct record_reader *reader, const struct sequence *sequence,
                        uint32_t n_tokens, float *logits, uint32_t n)
{
    struct reading *reading = NULL;
    if (matcher && !naming.vocab && (naming.model || reader_vocabulary(reader)))
        naming_open(&naming, "dry-multiplier");
    if (matcher && naming.vocab) {
        naming_check(&naming, reader);
        reading = read_text(sequence, n_tokens);
    }
    select_dry(penalizer, &dry, sequence->tokens, n_tokens, n_tokens - (reading ? reading->end : 0),
               reading ? would_break : NULL, reading, logits, n);
}

static void change(void *context, struct record_reader *reader, const struct sequence *sequence,
                   const struct record *record, float *logits, uint32_t n)
{
    (void)context;
    struct select_context text = {sequence->tokens, sequence->flags, RECORD_GENERATED,
                                  filter_context(sequence, record)};
    naming_check(&naming, reader);
    if (named_by && greatest >= n)
        reader_die(reader, STATUS_INPUT, "--%s names token %u, but there are logits of %u tokens",
                   named_by, greatest, n);
    select_add_biases(list.item, list.count, logits, n);
    select_penalize(penalizer, &penalties, &text, logits, n);
    if (dry.multiplier > 0)
        dont_repeat(reader, sequence, text.n, logits, n);
    if (allowed.count)
        select_allow(allowed.ids, allowed.count, logits, n);
}

/* After FORK the text of the sequence is another. */
static void pass(void *context, struct record_reader *reader, const struct sequence *sequence,
                 const struct record *record, const uint8_t *payload)
{
    (void)context, (void)reader, (void)payload;
    if (record->type == RECORD_FORK && matcher)
        *reading_of(sequence) = (struct reading){0};
}

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);
    filter.operands = argv + first;
    filter.n_operands = argc - first;
    filter.change = change;
    filter.pass = pass;
    read_options();
    read_breakers();
    penalizer = penalizer_new();
    filter_run(&filter);

    penalizer_free(penalizer);
    stop_free(matcher);
    naming_close(&naming);
    const struct texts *const given[] = {&biases, &more_biases, &bias_files,
                                         &bans,   &allowances,  &breakers};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        free(given[i]->item);
    free(readings);
    free(list.item);
    free(allowed.ids);
    return program_end();
}
