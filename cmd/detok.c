/* detok: token ids to text, each token as soon as it may be shown. */
#include "options.h"
#include "record/record.h"
#include "stage/naming.h"
#include "stage/stage.h"
#include "text/text.h"
#include "vocab/vocab.h"

#include <stdlib.h>
#include <string.h>

static struct naming naming;
static const char *output_path;
static bool raw, special, null, json;
static int64_t only = -1;

static const struct option_spec options[] = {
    ROW_MODEL(&naming.model, 0),
    ROW_RAW(&raw, 0),
    ROW_JSON(&json, 0),
    {0, "special", NULL, OPTION_FLAG, &special, 0, 0, "show control tokens as their texts", 0},
    {0, "sequence", "N", OPTION_INTEGER, &only, 0, UINT32_MAX, "only the text of this sequence", 0},
    ROW_NULL(&null, 0),
    ROW_OUTPUT(&output_path),
    {0},
};
static const struct program program = {"[STREAM ...]", "Tokens to text, as they come.", options};

/* The text of a sequence on its way out. */
struct passage {
    struct text_flow flow;
    size_t n_tokens; /* whose text is in the flow */
    bool first;      /* the next one begins the text */
    bool ended, printed;
    struct json whole; /* --json: what was taken from the flow, as bytes */
};

static struct record_reader *reader;
static const struct vocab *vocab;
static struct output output;
static struct passage *passages; /* by the sequence's index */
static size_t n_passages, passages_capacity;
static struct text_order order; /* the current one is streamed; those after it wait for its end */
static bool separate;           /* something was printed before the current one */

static struct passage *passage_of(const struct sequence *sequence)
{
    passages = grow(passages, &passages_capacity, sequence->index + 1, sizeof *passages);
    while (n_passages <= sequence->index)
        passages[n_passages++] = (struct passage){.flow.raw = raw, .first = true};
    return &passages[sequence->index];
}

/* ---- JSON ---------------------------------------------------------------------------------- */

/* The LOGPROBS record that came last: it is about the next token of its sequence. */
static struct {
    bool waiting;
    uint32_t sequence, position;
    struct logprobs found;
    uint8_t *payload;
    size_t capacity;
} logprobs;

static void take_logprobs(const struct record *record)
{
    struct error error;
    size_t length = (size_t)record->raw_length;
    const uint8_t *payload = reader_payload(reader, NULL);
    logprobs.payload = grow(logprobs.payload, &logprobs.capacity, length + 1, 1);
    memcpy(logprobs.payload, payload, length);
    if (!logprobs_decode(&logprobs.found, logprobs.payload, length, &error))
        reader_die(reader, error.status, "%s", error.text);
    logprobs.waiting = true;
    logprobs.sequence = record->sequence;
    logprobs.position = record->position;
}

/* The SCORE record that came last: it is about the next END of its sequence. */
static struct {
    bool waiting;
    uint32_t sequence;
    double score, sum;
} score;

static void take_score(const struct record *record)
{
    const uint8_t *payload = reader_payload(reader, NULL);
    if (record->raw_length != RECORD_SCORE_BYTES)
        reader_die(reader, STATUS_INPUT, "expected %d bytes, found %llu", RECORD_SCORE_BYTES,
                   (unsigned long long)record->raw_length);
    score.waiting = true;
    score.sequence = record->sequence;
    score.score = load_f64(payload);
    score.sum = load_f64(payload + 8);
}

static void add_list(struct json *line, const char *name, uint32_t begin, uint32_t end)
{
    json_add(line, name);
    for (uint32_t i = begin; i < end; i++) {
        const char *bytes;
        double value;
        uint32_t id = logprobs_entry(&logprobs.found, i, &value);
        size_t length = vocab_piece(vocab, id, true, &bytes);
        json_add_count(line, i > begin ? ",{\"id\":" : "{\"id\":", id);
        json_add_text(line, bytes, length);
        json_add(line, ",\"logprob\":");
        json_add_number(line, value);
        json_add(line, "}");
    }
    json_add(line, "]");
}

static void add_logprobs(struct json *line, uint32_t sequence, uint32_t position, uint32_t id)
{
    const struct logprobs *l = &logprobs.found;
    if (!logprobs.waiting || logprobs.sequence != sequence || logprobs.position != position ||
        l->id != id)
        return;
    logprobs.waiting = false;
    if (l->has_raw) {
        json_add(line, ",\"raw_logprob\":");
        json_add_number(line, l->raw);
        add_list(line, ",\"raw_top\":[", 0, l->n_raw);
    }
    json_add(line, ",\"processed_logprob\":");
    json_add_number(line, l->processed);
    add_list(line, ",\"processed_top\":[", l->n_raw, l->n_raw + l->n_processed);
}

static void print_line(struct json *line)
{
    json_add(line, "}\n");
    output_write(&output, line->text, line->length);
    json_free(line);
}

static void print_token(const struct sequence *sequence, uint32_t at, const char *bytes,
                        size_t length)
{
    struct json line = {0};
    uint32_t id = sequence->tokens[at];
    json_add_count(&line, "{\"sequence\":", sequence->id);
    json_add_count(&line, ",\"position\":", sequence->first + at);
    json_add_count(&line, ",\"id\":", id);
    json_add_text(&line, bytes, length);
    json_add(&line, sequence->flags[at] & RECORD_GENERATED ? ",\"generated\":true"
                                                           : ",\"generated\":false");
    if (sequence->flags[at] & RECORD_HELD)
        json_add(&line, ",\"held\":true");
    add_logprobs(&line, sequence->id, sequence->first + at, id);
    print_line(&line);
}

static void print_fork(const struct record *record)
{
    struct json line = {0};
    json_add_count(&line, "{\"sequence\":", record->sequence);
    json_add_count(&line, ",\"fork\":", load_u32(reader_used_payload(reader)));
    json_add_count(&line, ",\"position\":", record->position);
    print_line(&line);
}

/* The end of a sequence's text, all of which is ready; `end` NULL: the input ended, the text did
 * not. */
static void print_end(struct passage *passage, uint32_t sequence, const struct end *end)
{
    struct json line = {0};
    const uint8_t *bytes;
    size_t length = text_flow_take(&passage->flow, &bytes);
    passage->whole.text =
        grow(passage->whole.text, &passage->whole.capacity, passage->whole.length + length, 1);
    if (length)
        memcpy(passage->whole.text + passage->whole.length, bytes, length);
    passage->whole.length += length;
    passage->printed = true;
    json_add_count(&line, "{\"sequence\":", sequence);
    json_add(&line, ",\"end\":");
    if (end)
        json_add_string(&line, end_reason_name(end->reason), strlen(end_reason_name(end->reason)));
    else
        json_add(&line, "null");
    if (end && end->token != RECORD_NO_TOKEN)
        json_add_count(&line, ",\"id\":", end->token);
    if (end && end->text_length) {
        json_add(&line, ",\"matched\":");
        json_add_string(&line, end->text, end->text_length);
    }
    if (!end || end->reason != END_DROPPED)
        json_add_text(&line, passage->whole.text, passage->whole.length);
    if (score.waiting && score.sequence == sequence) {
        json_add(&line, ",\"score\":");
        json_add_number(&line, score.score);
        json_add(&line, ",\"sum\":");
        json_add_number(&line, score.sum);
        score.waiting = false;
    }
    print_line(&line);
}

/* ---- text ---------------------------------------------------------------------------------- */

/* Brings the flow up to date with the reader's tokens; `told`: with a line for each.  The space
 * that the tokenizer put before a text goes, but only where the text begins in this stream. */
static void add_tokens(struct passage *passage, const struct sequence *sequence, bool told)
{
    const struct vocab_facts *facts = vocab_facts_of(vocab);
    bool strips = vocab_strips_space(vocab) && sequence->first == 0 && !sequence->appended;
    for (; passage->n_tokens < sequence->n_tokens; passage->n_tokens++) {
        uint32_t id = sequence->tokens[passage->n_tokens];
        const char *bytes;
        size_t length = vocab_piece(vocab, id, special, &bytes);
        bool begins = passage->first && !(passage->n_tokens == 0 && id == facts->bos);
        if (begins && strips && length && bytes[0] == ' ')
            bytes++, length--;
        passage->first &= !begins;
        text_flow_add(&passage->flow, bytes, length,
                      sequence->flags[passage->n_tokens] & RECORD_HELD);
        if (told)
            print_token(sequence, (uint32_t)passage->n_tokens, bytes, length);
    }
}

static void cut_tokens(struct passage *passage, const struct sequence *sequence)
{
    struct error error;
    if (sequence->n_tokens >= passage->n_tokens)
        return;
    if (!text_flow_cut(&passage->flow, sequence->n_tokens, &error))
        reader_die(reader, error.status, "%s", error.text);
    passage->n_tokens = sequence->n_tokens;
    passage->first |= passage->n_tokens == 0;
}

static void end_passage(void)
{
    separate = true;
    if (null)
        output_write(&output, "", 1);
}

/* A dropped text goes as far as it was not shown, and its number may come back for another. */
static void drop_text(struct passage *passage, const struct sequence *sequence)
{
    if (passage->printed && !json)
        end_passage();
    text_order_remove(&order, sequence->index);
    text_flow_free(&passage->flow);
    json_free(&passage->whole);
    *passage = (struct passage){.flow.raw = raw, .first = true};
}

static void end_text(struct passage *passage, const struct sequence *sequence,
                     const struct record *record)
{
    struct error error;
    struct end end;
    if (!end_decode(&end, reader_used_payload(reader), (size_t)record->raw_length, &error))
        reader_die(reader, error.status, "%s", error.text);
    if (end.reason == END_DROPPED) {
        drop_text(passage, sequence);
        if (json)
            print_end(passage, record->sequence, &end);
        passage->printed = false;
        return;
    }
    text_order_add(&order, sequence->index, TEXT_NONE);
    passage->ended = true;
    text_flow_end(&passage->flow, end.trim);
    if (json)
        print_end(passage, record->sequence, &end);
}

/* Texts are separated by a newline, or each is ended by a NUL. */
static void print_passage(struct passage *passage)
{
    const uint8_t *bytes;
    size_t length = text_flow_take(&passage->flow, &bytes);
    bool line = separate && !passage->printed && (length || passage->ended);
    if (line && !null)
        output_write(&output, "\n", 1);
    passage->printed |= line || length;
    if (length)
        output_write(&output, bytes, length);
}

/* Prints what may be printed: of the current sequence, and of the next ones when it has ended. */
static void print_ready(void)
{
    while (order.current != TEXT_NONE) {
        struct passage *passage = &passages[order.current];
        print_passage(passage);
        if (!passage->ended || !text_order_advance(&order))
            return; /* a last one stays current: its text may go on */
        end_passage();
    }
}

/* At the end of the input nothing waits any longer. */
static void print_rest(void)
{
    for (size_t i = order.first; i != TEXT_NONE; i = order.place[i].next) {
        struct passage *passage = &passages[i];
        if (order.place[i].passed && passage->flow.length == 0)
            continue;
        passage->ended = true;
        passage->printed &= i == order.current;
        text_flow_end(&passage->flow, 0);
        print_passage(passage);
        end_passage();
    }
}

/* The same in lines: texts that have not ended. */
static void print_unended(void)
{
    for (size_t i = order.first; i != TEXT_NONE; i = order.place[i].next) {
        struct passage *passage = &passages[i];
        if (passage->ended)
            continue;
        text_flow_end(&passage->flow, 0);
        print_end(passage, reader_sequence_at(reader, i)->id, NULL);
    }
}

static size_t source_of(const struct record *record)
{
    if (record->type != RECORD_FORK)
        return TEXT_NONE;
    return reader_sequence(reader, load_u32(reader_used_payload(reader)))->index;
}

static void show(const struct record *record)
{
    const struct sequence *sequence = reader_sequence(reader, record->sequence);
    struct passage *passage = passage_of(sequence);
    if (record->type != RECORD_END)
        text_order_add(&order, sequence->index, source_of(record));
    if (record->type == RECORD_TOKENS) {
        naming_check_record(&naming, reader, record);
        passage->ended = false;
        add_tokens(passage, sequence, json);
    } else if (record->type == RECORD_FORK) {
        passage->ended = false;
        cut_tokens(passage, sequence);
        add_tokens(passage, sequence, false);
        if (json)
            print_fork(record);
    } else {
        end_text(passage, sequence, record);
    }
    if (only >= 0)
        text_order_show(&order, sequence->index);
    if (!json)
        print_ready();
}

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);

    if (json && null)
        die(STATUS_USAGE, "give --json or --null, not both");
    text_order_init(&order);
    output_open(&output, output_path, false, false);
    reader = reader_open(argv + first, argc - first);
    vocab = naming_open(&naming, "model");

    for (struct record record; reader_next(reader, &record);) {
        bool text =
            record.type == RECORD_TOKENS || record.type == RECORD_FORK || record.type == RECORD_END;
        if (text && (only < 0 || record.sequence == only))
            show(&record);
        else if (json && record.type == RECORD_LOGPROBS)
            take_logprobs(&record);
        else if (json && record.type == RECORD_SCORE)
            take_score(&record);
    }
    if (only >= 0 && !reader_sequence(reader, (uint32_t)only))
        reader_die(reader, STATUS_INPUT, "no sequence %u in the input", (unsigned)only);
    if (json)
        print_unended();
    else
        print_rest();

    output_close(&output);
    for (size_t i = 0; i < n_passages; i++) {
        text_flow_free(&passages[i].flow);
        json_free(&passages[i].whole);
    }
    free(logprobs.payload);
    free(passages);
    text_order_free(&order);
    naming_close(&naming);
    reader_close(reader);
    return program_end();
}
