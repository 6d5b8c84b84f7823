/* sample: logits in, one token each out, and the conditions that end a text. */
#include "options.h"
#include "record/record.h"
#include "select/select.h"
#include "stage/answer.h"
#include "stage/copies.h"
#include "stage/naming.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct select_options chain = {.typical = 1, .top_p = 1, .xtc_threshold = 0.1, .dynatemp_exponent = 1};
static struct seed seed;
static struct texts stops;
static int64_t limit = -1, continuations = 1, n_logprobs = -1;
static const char *output_path, *order, *mirostat;
static struct naming naming;
static bool ignore_eos, force, verbose;

static const struct option_spec options[] = {
    ROW_PREDICT(&limit, 0),
    ROW_CONTINUATIONS(&continuations, 0),
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
    uint32_t answered; /* position of the last token that we chose; 0: none */
    int64_t n_selected;
    uint32_t stop_state, read; /* the matcher's, after the tokens at positions before `read` */
};

static struct record_reader *reader;
static struct output output;
static struct record_writer writer = {.output = &output};
static struct selector *selector;
static struct stop_matcher *matcher; /* NULL: no stop strings */
static struct copies *copies;
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

/* After FORK the sequence's text is another. */
static void read_again(struct turn *turn)
{
    turn->stop_state = turn->read = 0;
}

static void tell_end(const struct turn *turn, const struct record *token, int64_t continuation,
                     uint32_t id, const struct end *end)
{
    char which[40] = "";
    if (continuation > 0)
        snprintf(which, sizeof which, ", continuation %" PRId64, continuation);
    if (verbose)
        warn("sequence %u%s: end (%s) at position %u, after %" PRId64 " tokens", token->sequence,
             which, end_reason_name(end->reason), token->position + (id != RECORD_NO_TOKEN),
             turn->n_selected);
}

static struct record end_record(const struct record *token, uint32_t position)
{
    return (struct record){.type = RECORD_END,
                           .sequence = token->sequence,
                           .position = position,
                           .binding = token->binding};
}

/* Ends the sequence, after a token where `id` is one. */
static void finish(struct turn *turn, const struct record *token, uint32_t id, const struct end *end)
{
    uint8_t payload[RECORD_MAX_SMALL];
    turn->ended = true;
    tell_end(turn, token, 0, id, end);
    if (id == RECORD_NO_TOKEN)
        record_write(&writer, end_record(token, token->position), payload,
                     end_encode(end, payload));
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
static void write_logprobs(const struct record *record, const float *logits,
                           const struct record *token, uint32_t id, bool of_copy)
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
    const struct record told = {.type = RECORD_LOGPROBS,
                                .sequence = token->sequence,
                                .position = token->position,
                                .binding = token->binding};
    if (of_copy)
        copies_put(copies, told, payload, length);
    else
        record_write(&writer, told, payload, length);
    free(payload);
    free(values);
    free(ids);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* What the token's text does to the stop strings: END_STOP is filled in when one is complete. */
static enum stop_outcome look_for_stops(struct turn *turn, const struct sequence *sequence,
                                        uint32_t id, struct end *end)
{
    struct stop_match match;
    const char *bytes;
    size_t length = vocab_piece(naming.vocab, id, false, &bytes);
    answer_read_text(matcher, naming.vocab, sequence, &turn->read, &turn->stop_state);
    uint32_t state = turn->stop_state;
    enum stop_outcome outcome = stop_feed(matcher, &state, bytes, length, &match);
    if (outcome == STOP_MATCHED) {
        const char *text = stops.item[match.string];
        *end = (struct end){END_STOP, RECORD_NO_TOKEN, (uint32_t)match.trim, (uint32_t)strlen(text), (const uint8_t *)text};
    }
    return outcome;
}

/* A question that is being answered, and who asks. */
struct asking {
    const struct record *record;
    const struct sequence *sequence;
    struct turn *turn;
    struct select_question question;
    struct record token; /* header of the answer */
};
/* What is chosen for one continuation. */
struct choice {
    struct record token;
    uint32_t id;
    struct end end; /* reason END_REASONS: it goes on */
};

/* LOGPROBS go out at once, or where the choice is for a copy with that. */
static struct choice choose(const struct asking *asking, bool for_copy)
{
    const struct model_facts *model = reader_model(reader);
    struct choice choice = {.token = asking->token,
                            .end = {.reason = END_REASONS, .token = RECORD_NO_TOKEN}};
    struct error error;
    if (!select_choose(selector, &asking->question, &choice.id, &error))
        reader_die(reader, error.status, "%s", error.text);
    if (n_logprobs >= 0)
        write_logprobs(asking->record, asking->question.logits, &asking->token, choice.id,
                       for_copy);
    if (asking->turn->n_selected == limit)
        choice.end.reason = END_LENGTH;
    if (matcher &&
        look_for_stops(asking->turn, asking->sequence, choice.id, &choice.end) != STOP_NONE)
        choice.token.flags |= RECORD_HELD;
    if (model && model_facts_is_eog(model, choice.id))
        choice.end = (struct end){.reason = END_EOS, .token = choice.id};
    return choice;
}

static bool ends(const struct choice *choice)
{
    return choice->end.reason != END_REASONS;
}

static void send(struct turn *turn, const struct choice *choice)
{
    uint8_t payload[4];
    if (ends(choice)) {
        finish(turn, &choice->token, choice->id, &choice->end);
        return;
    }
    store_u32(payload, choice->id);
    record_write(&writer, choice->token, payload, sizeof payload);
}

/* The token of a copy, and its end where that is one. */
static void put_choice(struct choice *choice)
{
    uint8_t payload[RECORD_MAX_SMALL];
    store_u32(payload, choice->id);
    choice->token.flags |= ends(choice) ? RECORD_OPEN : 0;
    copies_put(copies, choice->token, payload, 4);
    if (ends(choice))
        copies_put(copies, end_record(&choice->token, choice->token.position + 1), payload,
                   end_encode(&choice->end, payload));
}

/* Continuation 0 stays in the sequence; the others are copies of it with draw streams of their own.
 * If it ends with its first token, END waits until the copies have been taken. */
static void fork_and_send(struct asking *asking)
{
    const struct sequence *sequence = asking->sequence;
    struct turn *turn = asking->turn;
    uint32_t position = asking->token.position;
    bool prompt =
        sequence->n_tokens == 0 || !(sequence->flags[sequence->n_tokens - 1] & RECORD_GENERATED);
    struct choice first = choose(asking, false);
    struct choice only_token = first;
    only_token.token.flags |= ends(&first) ? RECORD_OPEN : 0;
    only_token.end.reason = END_REASONS;
    send(turn, &only_token);
    for (int64_t k = 1; k < continuations; k++) {
        asking->question.draw_stream =
            select_copy_stream(prompt, sequence->draw_stream, position, (uint32_t)k);
        struct copy *copy =
            copies_add(copies, sequence->id, position, asking->question.draw_stream);
        struct choice choice = choose(asking, true);
        copy->n_selected = 1;
        copy->ended = ends(&choice);
        put_choice(&choice);
        if (copy->ended)
            tell_end(turn, &asking->token, k, choice.id, &choice.end);
    }
    if (ends(&first)) {
        uint8_t payload[RECORD_MAX_SMALL];
        turn->ended = true;
        tell_end(turn, &asking->token, 0, first.id, &first.end);
        copies_put_after(copies, end_record(&first.token, position + 1), payload,
                         end_encode(&first.end, payload));
    }
    copies_settle(copies);
}

static void answer(const struct record *record)
{
    const struct model_facts *model = reader_model(reader);
    const struct sequence *sequence = reader_sequence(reader, record->sequence);
    struct turn *turn = turn_of(sequence);
    struct record token = {.type = RECORD_TOKENS, .flags = RECORD_GENERATED | (record->flags & RECORD_OPEN),
                           .sequence = record->sequence, .position = record->position + 1, .count = 1,
                           .binding = record->binding ? record->binding : model ? model->vocabulary_fingerprint : 0};
    if (turn->ended || !answer_is_question(record, sequence))
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

    struct asking asking = {record, sequence, turn, .token = token};
    asking.question = (struct select_question){
        .logits = (const float *)(const void *)reader_payload(reader, NULL),
        .n = record->count,
        .n_selectable = model ? model->n_vocabulary : record->count,
        .banned = model && ignore_eos ? model->eog : NULL,
        .n_banned = model && ignore_eos ? model->n_eog : 0,
        .position = token.position,
        .draw_stream = sequence->draw_stream,
    };
    bool begins = turn->answered == 0 && !copies_find(copies, sequence->id);
    turn->answered = token.position;
    turn->n_selected++;
    if (begins && continuations > 1) {
        fork_and_send(&asking);
    } else {
        struct choice choice = choose(&asking, false);
        send(turn, &choice);
    }
}

/* A copy of ours that comes back goes on where it began. */
static void take_fork(const struct sequence *sequence)
{
    struct turn *turn = turn_of(sequence);
    const struct copy *copy = copies_find(copies, sequence->id);
    read_again(turn);
    if (copy && turn->answered == 0) {
        turn->n_selected = copy->n_selected;
        turn->ended = copy->ended;
    }
}

/* Whether a record is an answer of ours that comes back by way of the model. */
static bool is_ours(const struct record *record)
{
    if (record->type != RECORD_TOKENS && record->type != RECORD_END)
        return false;
    const struct turn *turn = turn_of(reader_sequence(reader, record->sequence));
    return record->type == RECORD_END ? turn->ended
                                      : turn->answered && record->position == turn->answered;
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
    return ours && !copies_outstanding(copies);
}

static void close_output(void)
{
    answer_close(&output);
    closed = true;
}

static void take_end(const struct sequence *sequence)
{
    if (sequence->dropped) /* its number may come back for another */
        *turn_of(sequence) = (struct turn){0};
    if (!closed && all_ended())
        close_output();
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
    answer_check_continuations(continuations, chain.temperature);
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
    matcher = stops.count ? stop_new(stops.item, stops.count) : NULL;
    selector = selector_new(&chain);
    copies = copies_new(reader, &writer);

    for (struct record record; reader_next(reader, &record);) {
        if (is_ours(&record))
            copies_release(copies);
        if (record.type == RECORD_LOGITS)
            answer(&record);
        else if (record.type == RECORD_RAW && n_logprobs >= 0)
            take_raw(&record);
        else if (record.type == RECORD_FORK)
            take_fork(reader_sequence(reader, record.sequence));
        else if (record.type == RECORD_END)
            take_end(reader_sequence(reader, record.sequence));
    }

    copies_write(copies);
    if (!closed)
        close_output();
    copies_free(copies);
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
