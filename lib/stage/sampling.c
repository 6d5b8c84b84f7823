/* One token for each question, or several at the first, and the conditions that end a text. */
#include "stage/sampling.h"
#include "stage/answer.h"
#include "stage/copies.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What we know of a sequence beside what the reader does. */
struct turn {
    bool ended;
    uint32_t answered; /* position of the last token that we chose; 0: none */
    int64_t n_selected;
    uint32_t stop_state, read; /* the matcher's, after the tokens at positions before `read` */
};

/* What a filter has told of the logits that come next. */
struct raw {
    bool changed, kept;
    uint32_t sequence, position, count;
    float *logits; /* (count) the model's, where they were kept */
    size_t capacity;
};

struct sampling {
    struct sampling_options options;
    struct record_reader *reader;
    struct record_writer *writer;
    struct selector *selector;
    struct stop_matcher *matcher; /* NULL: no stop strings */
    struct copies *copies;
    struct turn *turn; /* by the sequence's index */
    size_t n_turns, capacity;
    struct raw raw;
};

struct sampling *sampling_new(const struct sampling_options *options, struct record_reader *reader,
                              struct record_writer *writer)
{
    struct sampling *s = allocate(1, sizeof *s);
    *s = (struct sampling){.options = *options, .reader = reader, .writer = writer};
    if (options->stops->count)
        s->matcher = stop_new(options->stops->item, options->stops->count);
    s->selector = selector_new(&options->chain);
    s->copies = copies_new(reader, writer);
    return s;
}

void sampling_free(struct sampling *s)
{
    copies_free(s->copies);
    selector_free(s->selector);
    stop_free(s->matcher);
    free(s->raw.logits);
    free(s->turn);
    free(s);
}

static struct turn *turn_of(struct sampling *s, const struct sequence *sequence)
{
    s->turn = grow(s->turn, &s->capacity, sequence->index + 1, sizeof *s->turn);
    while (s->n_turns <= sequence->index)
        s->turn[s->n_turns++] = (struct turn){0};
    return &s->turn[sequence->index];
}

/* After FORK the sequence's text is another. */
static void read_again(struct turn *turn)
{
    turn->stop_state = turn->read = 0;
}

static void tell_end(struct sampling *s, const struct turn *turn, const struct record *token,
                     int64_t continuation, uint32_t id, const struct end *end)
{
    char which[40] = "";
    if (continuation > 0)
        snprintf(which, sizeof which, ", continuation %" PRId64, continuation);
    if (s->options.verbose)
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
static void finish(struct sampling *s, struct turn *turn, const struct record *token, uint32_t id,
                   const struct end *end)
{
    uint8_t payload[RECORD_MAX_SMALL];
    turn->ended = true;
    tell_end(s, turn, token, 0, id, end);
    if (id == RECORD_NO_TOKEN)
        record_write(s->writer, end_record(token, token->position), payload,
                     end_encode(end, payload));
    else
        record_write_token_and_end(s->writer, *token, id, end);
}

/* ---- log-probabilities --------------------------------------------------------------------- */

static void take_raw(struct sampling *s, const struct record *record)
{
    s->raw.changed = true;
    s->raw.kept = record->count > 0;
    s->raw.sequence = record->sequence;
    s->raw.position = record->position;
    s->raw.count = record->count;
    const uint8_t *payload = reader_payload(s->reader, NULL);
    if (record->raw_length != (uint64_t)record->count * sizeof(float))
        reader_die(s->reader, STATUS_INPUT, "count %u needs %zu bytes of payload, found %llu",
                   record->count, record->count * sizeof(float),
                   (unsigned long long)record->raw_length);
    s->raw.logits = grow(s->raw.logits, &s->raw.capacity, record->count, sizeof *s->raw.logits);
    if (record->count)
        memcpy(s->raw.logits, payload, record->count * sizeof *s->raw.logits);
}

/* The model's logits, which are the record's own where no filter has told otherwise; NULL: they are
 * gone. */
static const float *model_logits(struct sampling *s, const struct record *record,
                                 const float *logits)
{
    if (!s->raw.changed || s->raw.sequence != record->sequence ||
        s->raw.position != record->position)
        return logits;
    if (s->raw.kept && s->raw.count != record->count)
        reader_die(s->reader, STATUS_INPUT, "%u logits, but the RAW record before it has %u",
                   record->count, s->raw.count);
    return s->raw.kept ? s->raw.logits : NULL;
}

/* Before the token, so that nobody has to wait for them when it has come. */
static void write_logprobs(struct sampling *s, const struct record *record, const float *logits,
                           const struct record *token, uint32_t id, bool of_copy)
{
    const float *own = model_logits(s, record, logits);
    size_t k = (size_t)s->options.n_logprobs < record->count ? (size_t)s->options.n_logprobs
                                                             : record->count,
           length;
    uint32_t *ids = allocate(2 * k + 1, sizeof *ids);
    double *values = allocate(2 * k + 1, sizeof *values);
    struct logprobs found = {.id = id, .has_raw = own != NULL};
    if (own)
        found.n_raw = (uint32_t)select_raw(own, record->count, id, k, ids, values, &found.raw);
    if (own && isnan(found.raw))
        reader_die(s->reader, STATUS_INPUT,
                   "the RAW record before it holds NaN, or nothing above -infinity");
    found.n_processed = (uint32_t)select_processed(s->selector, k, ids + found.n_raw,
                                                   values + found.n_raw, &found.processed);
    uint8_t *payload = logprobs_encode(&found, ids, values, &length);
    const struct record told = {.type = RECORD_LOGPROBS,
                                .sequence = token->sequence,
                                .position = token->position,
                                .binding = token->binding};
    if (of_copy)
        copies_put(s->copies, told, payload, length);
    else
        record_write(s->writer, told, payload, length);
    free(payload);
    free(values);
    free(ids);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* What the token's text does to the stop strings: END_STOP is filled in when one is complete. */
static enum stop_outcome look_for_stops(struct sampling *s, struct turn *turn,
                                        const struct sequence *sequence, uint32_t id,
                                        struct end *end)
{
    struct stop_match match;
    const char *bytes;
    size_t length = vocab_piece(s->options.naming->vocab, id, false, &bytes);
    answer_read_text(s->matcher, s->options.naming->vocab, sequence, &turn->read,
                     &turn->stop_state);
    uint32_t state = turn->stop_state;
    enum stop_outcome outcome = stop_feed(s->matcher, &state, bytes, length, &match);
    if (outcome == STOP_MATCHED) {
        const char *text = s->options.stops->item[match.string];
        *end = (struct end){END_STOP, RECORD_NO_TOKEN, (uint32_t)match.trim, (uint32_t)strlen(text),
                            (const uint8_t *)text};
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
static struct choice choose(struct sampling *s, const struct asking *asking, bool for_copy)
{
    const struct model_facts *model = reader_model(s->reader);
    struct choice choice = {.token = asking->token,
                            .end = {.reason = END_REASONS, .token = RECORD_NO_TOKEN}};
    struct error error;
    if (!select_choose(s->selector, &asking->question, &choice.id, &error))
        reader_die(s->reader, error.status, "%s", error.text);
    if (s->options.n_logprobs >= 0)
        write_logprobs(s, asking->record, asking->question.logits, &asking->token, choice.id,
                       for_copy);
    if (asking->turn->n_selected == s->options.limit)
        choice.end.reason = END_LENGTH;
    if (s->matcher &&
        look_for_stops(s, asking->turn, asking->sequence, choice.id, &choice.end) != STOP_NONE)
        choice.token.flags |= RECORD_HELD;
    if (model && model_facts_is_eog(model, choice.id))
        choice.end = (struct end){.reason = END_EOS, .token = choice.id};
    return choice;
}

static bool ends(const struct choice *choice)
{
    return choice->end.reason != END_REASONS;
}

static void send(struct sampling *s, struct turn *turn, const struct choice *choice)
{
    uint8_t payload[4];
    if (ends(choice)) {
        finish(s, turn, &choice->token, choice->id, &choice->end);
        return;
    }
    store_u32(payload, choice->id);
    record_write(s->writer, choice->token, payload, sizeof payload);
}

/* The token of a copy, and its end where that is one. */
static void put_choice(struct sampling *s, struct choice *choice)
{
    uint8_t payload[RECORD_MAX_SMALL];
    store_u32(payload, choice->id);
    choice->token.flags |= ends(choice) ? RECORD_OPEN : 0;
    copies_put(s->copies, choice->token, payload, 4);
    if (ends(choice))
        copies_put(s->copies, end_record(&choice->token, choice->token.position + 1), payload,
                   end_encode(&choice->end, payload));
}

/* Continuation 0 stays in the sequence; the others are copies of it with draw streams of their own.
 * If it ends with its first token, END waits until the copies have been taken. */
static void fork_and_send(struct sampling *s, struct asking *asking)
{
    const struct sequence *sequence = asking->sequence;
    struct turn *turn = asking->turn;
    uint32_t position = asking->token.position;
    bool prompt =
        sequence->n_tokens == 0 || !(sequence->flags[sequence->n_tokens - 1] & RECORD_GENERATED);
    struct choice first = choose(s, asking, false);
    struct choice only_token = first;
    only_token.token.flags |= ends(&first) ? RECORD_OPEN : 0;
    only_token.end.reason = END_REASONS;
    send(s, turn, &only_token);
    for (int64_t k = 1; k < s->options.continuations; k++) {
        asking->question.draw_stream =
            select_copy_stream(prompt, sequence->draw_stream, position, (uint32_t)k);
        struct copy *copy =
            copies_add(s->copies, sequence->id, position, asking->question.draw_stream);
        struct choice choice = choose(s, asking, true);
        copy->n_selected = 1;
        copy->ended = ends(&choice);
        put_choice(s, &choice);
        if (copy->ended)
            tell_end(s, turn, &asking->token, k, choice.id, &choice.end);
    }
    if (ends(&first)) {
        uint8_t payload[RECORD_MAX_SMALL];
        turn->ended = true;
        tell_end(s, turn, &asking->token, 0, first.id, &first.end);
        copies_put_after(s->copies, end_record(&first.token, position + 1), payload,
                         end_encode(&first.end, payload));
    }
    copies_settle(s->copies);
}

static void answer(struct sampling *s, const struct record *record)
{
    const struct model_facts *model = reader_model(s->reader);
    const struct sequence *sequence = reader_sequence(s->reader, record->sequence);
    struct turn *turn = turn_of(s, sequence);
    struct record token = {.type = RECORD_TOKENS,
                           .flags = RECORD_GENERATED | (record->flags & RECORD_OPEN),
                           .sequence = record->sequence,
                           .position = record->position + 1,
                           .count = 1,
                           .binding = record->binding ? record->binding
                                      : model         ? model->vocabulary_fingerprint
                                                      : 0};
    if (turn->ended || !answer_is_question(record, sequence))
        return;
    naming_check(s->options.naming, s->reader);
    struct end end = {.reason = END_REASONS, .token = RECORD_NO_TOKEN};
    if (turn->n_selected == s->options.limit)
        end.reason = END_LENGTH;
    else if (token.position >= (model ? model->n_context : RECORD_MAX_TOKENS))
        end.reason = END_CONTEXT;
    if (end.reason != END_REASONS) {
        finish(s, turn, &token, RECORD_NO_TOKEN, &end);
        return;
    }

    struct asking asking = {record, sequence, turn, .token = token};
    asking.question = (struct select_question){
        .logits = (const float *)(const void *)reader_payload(s->reader, NULL),
        .n = record->count,
        .n_selectable = model ? model->n_vocabulary : record->count,
        .banned = model && s->options.ignore_eos ? model->eog : NULL,
        .n_banned = model && s->options.ignore_eos ? model->n_eog : 0,
        .position = token.position,
        .draw_stream = sequence->draw_stream,
    };
    bool begins = turn->answered == 0 && !copies_find(s->copies, sequence->id);
    turn->answered = token.position;
    turn->n_selected++;
    if (begins && s->options.continuations > 1) {
        fork_and_send(s, &asking);
    } else {
        struct choice choice = choose(s, &asking, false);
        send(s, turn, &choice);
    }
}

/* A copy of ours that comes back goes on where it began. */
static void take_fork(struct sampling *s, const struct sequence *sequence)
{
    struct turn *turn = turn_of(s, sequence);
    const struct copy *copy = copies_find(s->copies, sequence->id);
    read_again(turn);
    if (copy && turn->answered == 0) {
        turn->n_selected = copy->n_selected;
        turn->ended = copy->ended;
    }
}

/* Whether a record is an answer of ours that comes back by way of the model. */
static bool is_ours(struct sampling *s, const struct record *record)
{
    if (record->type != RECORD_TOKENS && record->type != RECORD_END)
        return false;
    const struct turn *turn = turn_of(s, reader_sequence(s->reader, record->sequence));
    return record->type == RECORD_END ? turn->ended
                                      : turn->answered && record->position == turn->answered;
}

/* ---- the stream ---------------------------------------------------------------------------- */

void sampling_take(void *context, const struct record *record)
{
    struct sampling *s = context;
    if (is_ours(s, record))
        copies_release(s->copies);
    if (record->type == RECORD_LOGITS)
        answer(s, record);
    else if (record->type == RECORD_RAW && s->options.n_logprobs >= 0)
        take_raw(s, record);
    else if (record->type == RECORD_FORK)
        take_fork(s, reader_sequence(s->reader, record->sequence));
    else if (record->type == RECORD_END && reader_sequence(s->reader, record->sequence)->dropped)
        *turn_of(s, reader_sequence(s->reader, record->sequence)) =
            (struct turn){0}; /* its number may come back for another */
}

bool sampling_ended(void *context)
{
    struct sampling *s = context;
    bool ours = false;
    for (size_t i = 0; i < reader_n_sequences(s->reader); i++) {
        const struct sequence *sequence = reader_sequence_at(s->reader, i);
        if (!sequence->ended)
            return false;
        ours |= turn_of(s, sequence)->ended;
    }
    return ours && !copies_outstanding(s->copies);
}

void sampling_finish(void *context)
{
    copies_write(((struct sampling *)context)->copies);
}
