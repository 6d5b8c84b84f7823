/* sample: logits in, one token each out, and the conditions that end a text. */
#include "options.h"
#include "record/record.h"
#include "select/select.h"
#include "stage/naming.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct select_options chain = {.typical = 1, .top_p = 1, .xtc_threshold = 0.1, .dynatemp_exponent = 1};
static struct seed seed;
static struct texts stops;
static int64_t limit = -1, n_logprobs = -1;
static const char *output_path, *order, *mirostat;
static struct naming naming;
static bool ignore_eos, force, verbose;

static const struct option_spec options[] = {
    ROW_PREDICT(&limit, 0),
    ROW_TEMPERATURE(&chain.temperature, 0),
    ROW_TOP_K(&chain.top_k, 0),
    ROW_TOP_P(&chain.top_p, 0),
    ROW_MIN_P(&chain.min_p, 0),
    ROW_TYPICAL(&chain.typical, 0),
    ROW_TOP_N_SIGMA(&chain.top_n_sigma, 0),
    ROW_XTC_PROBABILITY(&chain.xtc_probability, 0),
    ROW_XTC_THRESHOLD(&chain.xtc_threshold, 0),
    ROW_DYNATEMP_RANGE(&chain.dynatemp_range, 0),
    ROW_DYNATEMP_EXP(&chain.dynatemp_exponent, 0),
    ROW_ORDER(&order, 0),
    ROW_MIROSTAT(&mirostat, 0),
    ROW_LOGPROBS(&n_logprobs, 0),
    ROW_SEED(&seed, 0),
    ROW_STOP(&stops, 0),
    ROW_IGNORE_EOS(&ignore_eos, 0),
    ROW_MODEL(&naming.model, 0),
    ROW_OUTPUT(&output_path),
    ROW_FORCE(&force),
    ROW_VERBOSE(&verbose, 0),
    {0},
};
static const struct program program = {
    "[STREAM ...]", "Choose a token from each distribution: logits in, tokens out, until the text ends.", options};

/* What we know of a sequence beside what the reader does. */
struct turn {
    bool ended;
    int64_t n_selected;
    uint32_t stop_state, read; /* the matcher's, after the tokens at positions before `read` */
};

static struct record_reader *reader;
static struct output output;
static struct record_writer writer = {.output = &output};
static struct turn *turns; /* by the sequence's index */
static size_t n_turns, turns_capacity;
static bool closed;

static struct turn *turn_of(const struct sequence *sequence)
{
    turns = grow(turns, &turns_capacity, sequence->index + 1, sizeof *turns);
    while (n_turns <= sequence->index)
        turns[n_turns++] = (struct turn){0};
    return &turns[sequence->index];
}

/* The state of the matcher before the answer is a function of the generated tokens that the stream
 * holds, not of what this process chose: so one process for each token finds what the loop finds. */
static void read_text(const struct stop_matcher *matcher, const struct vocab *vocab, struct turn *turn,
                      const struct sequence *sequence)
{
    struct stop_match match;
    if (turn->read < sequence->first)
        turn->read = sequence->first;
    for (; turn->read < sequence->first + sequence->n_tokens; turn->read++) {
        uint32_t at = turn->read - sequence->first;
        const char *bytes;
        size_t length = vocab_piece(vocab, sequence->tokens[at], false, &bytes);
        if (sequence->flags[at] & RECORD_GENERATED)
            stop_feed(matcher, &turn->stop_state, bytes, length, &match);
        else
            turn->stop_state = 0;
    }
}

/* After FORK the sequence's text is another. */
static void read_again(struct turn *turn)
{
    turn->stop_state = turn->read = 0;
}

/* Ends the sequence, after a token where `id` is one. */
static void finish(struct turn *turn, const struct record *token, uint32_t id, const struct end *end)
{
    uint8_t payload[RECORD_MAX_SMALL];
    struct record record = {.type = RECORD_END, .sequence = token->sequence, .position = token->position,
                            .binding = token->binding};
    turn->ended = true;
    if (verbose)
        warn("sequence %u: end (%s) at position %u, after %" PRId64 " tokens", token->sequence, end_reason_name(end->reason),
             token->position + (id != RECORD_NO_TOKEN), turn->n_selected);
    if (id == RECORD_NO_TOKEN)
        record_write(&writer, record, payload, end_encode(end, payload));
    else
        record_write_token_and_end(&writer, *token, id, end);
}

/* ---- log-probabilities --------------------------------------------------------------------- */

/* What a filter has told of the logits that come next. */
static struct {
    bool changed, kept;
    uint32_t sequence, position, count;
    float *logits; /* (count) the model's, where they were kept */
    size_t capacity;
} raw;

static void take_raw(const struct record *record)
{
    raw.changed = true;
    raw.kept = record->count > 0;
    raw.sequence = record->sequence;
    raw.position = record->position;
    raw.count = record->count;
    const uint8_t *payload = reader_payload(reader, NULL);
    if (record->raw_length != (uint64_t)record->count * sizeof(float))
        reader_die(reader, STATUS_INPUT, "count %u needs %zu bytes of payload, found %llu", record->count,
                   record->count * sizeof(float), (unsigned long long)record->raw_length);
    raw.logits = grow(raw.logits, &raw.capacity, record->count, sizeof *raw.logits);
    if (record->count)
        memcpy(raw.logits, payload, record->count * sizeof *raw.logits);
}

/* The model's logits, which are the record's own where no filter has told otherwise; NULL: they are gone. */
static const float *model_logits(const struct record *record, const float *logits)
{
    if (!raw.changed || raw.sequence != record->sequence || raw.position != record->position)
        return logits;
    if (raw.kept && raw.count != record->count)
        reader_die(reader, STATUS_INPUT, "%u logits, but the RAW record before it has %u", record->count, raw.count);
    return raw.kept ? raw.logits : NULL;
}

/* Before the token, so that nobody has to wait for them when it has come. */
static void write_logprobs(const struct selector *selector, const struct record *record, const float *logits,
                           const struct record *token, uint32_t id)
{
    const float *own = model_logits(record, logits);
    size_t k = (size_t)n_logprobs < record->count ? (size_t)n_logprobs : record->count, length;
    uint32_t *ids = allocate(2 * k + 1, sizeof *ids);
    double *values = allocate(2 * k + 1, sizeof *values);
    struct logprobs found = {.id = id, .has_raw = own != NULL};
    if (own)
        found.n_raw = (uint32_t)select_raw(own, record->count, id, k, ids, values, &found.raw);
    found.n_processed = (uint32_t)select_processed(selector, k, ids + found.n_raw, values + found.n_raw, &found.processed);
    uint8_t *payload = logprobs_encode(&found, ids, values, &length);
    record_write(&writer, (struct record){.type = RECORD_LOGPROBS, .sequence = token->sequence, .position = token->position, .binding = token->binding},
                 payload, length);
    free(payload);
    free(values);
    free(ids);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* What the token's text does to the stop strings: END_STOP is filled in when one is complete. */
static enum stop_outcome look_for_stops(const struct stop_matcher *matcher, const struct vocab *vocab,
                                        struct turn *turn, const struct sequence *sequence, uint32_t id, struct end *end)
{
    struct stop_match match;
    const char *bytes;
    size_t length = vocab_piece(vocab, id, false, &bytes);
    read_text(matcher, vocab, turn, sequence);
    uint32_t state = turn->stop_state;
    enum stop_outcome outcome = stop_feed(matcher, &state, bytes, length, &match);
    if (outcome == STOP_MATCHED) {
        const char *text = stops.item[match.string];
        *end = (struct end){END_STOP, RECORD_NO_TOKEN, (uint32_t)match.trim, (uint32_t)strlen(text), (const uint8_t *)text};
    }
    return outcome;
}

/* A LOGITS record asks for an answer when it is about the last token that is known of its sequence; in a state
 * (which has a cache) OPEN says that more of it follows.  So of the series of `prefill --logits all` only the last asks. */
static bool is_question(const struct record *record, const struct sequence *sequence)
{
    if (sequence->n_tokens && record->position + 1 != sequence->first + sequence->n_tokens)
        return false;
    return !(sequence->n_cached && (record->flags & RECORD_OPEN));
}

static void answer(struct selector *selector, const struct stop_matcher *matcher, const struct record *record)
{
    const struct vocab *vocab = naming.vocab;
    const struct model_facts *model = reader_model(reader);
    const struct sequence *sequence = reader_sequence(reader, record->sequence);
    struct turn *turn = turn_of(sequence);
    struct error error;
    struct record token = {.type = RECORD_TOKENS, .flags = RECORD_GENERATED | (record->flags & RECORD_OPEN),
                           .sequence = record->sequence, .position = record->position + 1, .count = 1,
                           .binding = record->binding ? record->binding : model ? model->vocabulary_fingerprint : 0};
    if (turn->ended || !is_question(record, sequence))
        return;
    if (closed)
        reader_die(reader, STATUS_INPUT, "sequence %u begins after all others have ended", record->sequence);
    naming_check(&naming, reader);
    struct end end = {.reason = END_REASONS, .token = RECORD_NO_TOKEN};
    if (turn->n_selected == limit)
        end.reason = END_LENGTH;
    else if (token.position >= (model ? model->n_context : RECORD_MAX_TOKENS))
        end.reason = END_CONTEXT;
    if (end.reason != END_REASONS) {
        finish(turn, &token, RECORD_NO_TOKEN, &end);
        return;
    }

    struct select_question question = {
        .logits = (const float *)(const void *)reader_payload(reader, NULL),
        .n = record->count,
        .n_selectable = model ? model->n_vocabulary : record->count,
        .banned = model && ignore_eos ? model->eog : NULL,
        .n_banned = model && ignore_eos ? model->n_eog : 0,
        .position = token.position,
        .draw_stream = sequence->draw_stream,
    };
    uint32_t id;
    if (!select_choose(selector, &question, &id, &error))
        reader_die(reader, error.status, "%s", error.text);
    if (n_logprobs >= 0)
        write_logprobs(selector, record, question.logits, &token, id);
    if (++turn->n_selected == limit)
        end.reason = END_LENGTH;
    if (matcher && look_for_stops(matcher, vocab, turn, sequence, id, &end) != STOP_NONE)
        token.flags |= RECORD_HELD;
    if (model && model_facts_is_eog(model, id))
        end = (struct end){.reason = END_EOS, .token = id};
    if (end.reason != END_REASONS) {
        finish(turn, &token, id, &end);
        return;
    }
    uint8_t payload[4];
    store_u32(payload, id);
    record_write(&writer, token, payload, sizeof payload);
}

/* In the loop END comes back to us by way of the model, behind everything that was there before it: when
 * all sequences that we have seen by then have ended, no other can begin. */
static bool all_ended(void)
{
    bool ours = false;
    for (size_t i = 0; i < reader_n_sequences(reader); i++) {
        const struct sequence *sequence = reader_sequence_at(reader, i);
        if (!sequence->ended)
            return false;
        ours |= turn_of(sequence)->ended;
    }
    return ours;
}

/* The reader of our answers must see their end now, so that the loop ends. */
static void close_output(void)
{
    bool standard = output.fd == 1;
    output_close(&output);
    if (standard && (close(1) || open("/dev/null", O_WRONLY) != 1))
        die(STATUS_SYSTEM, "cannot close standard output:");
    closed = true;
}

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);
    struct error error;
    char words[400];

    if (mirostat)
        die(STATUS_USAGE, "--mirostat: not there: it steers by what was drawn before, so a token would not be a function of the "
                          "stream and the seed; --typical, --top-n-sigma and --dynatemp-range are");
    if (order && !select_parse_order(order, &chain, &error))
        die(error.status, "--order: %s", error.text);
    if (!select_check_order(&chain, &error))
        die(error.status, "--order: %s", error.text);
    for (size_t i = 0; i < stops.count; i++)
        if (!*stops.item[i])
            die(STATUS_USAGE, "--stop: expected a text, found an empty one");
    chain.seed = seed.value;
    select_describe(&chain, words, sizeof words);
    if (verbose)
        warn("seed %" PRIu64 ", %s", seed.value, words);
    else if (seed.random)
        warn("seed %" PRIu64, seed.value);
    output_open(&output, output_path, true, force);
    record_writer_report_errors(&writer);
    reader = reader_open(argv + first, argc - first);
    if (stops.count)
        naming_open(&naming, "stop");
    struct stop_matcher *matcher = stops.count ? stop_new(stops.item, stops.count) : NULL;
    struct selector *selector = selector_new(&chain);

    for (struct record record; reader_next(reader, &record);) {
        if (record.type == RECORD_LOGITS)
            answer(selector, matcher, &record);
        else if (record.type == RECORD_RAW && n_logprobs >= 0)
            take_raw(&record);
        else if (record.type == RECORD_FORK)
            read_again(turn_of(reader_sequence(reader, record.sequence)));
        else if (record.type == RECORD_END && !closed && all_ended())
            close_output();
    }

    if (!closed)
        close_output();
    selector_free(selector);
    stop_free(matcher);
    naming_close(&naming);
    free(raw.logits);
    reader_close(reader);
    record_writer_free(&writer);
    free(turns);
    free(stops.item);
    return program_end();
}
