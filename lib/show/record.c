#include "select/select.h"
#include "show/show.h"
#include "text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 32, TAIL = 8, IDS_IN_LINE = 12, BAR = 40, TEXT_COLUMNS = 24 };

/* ---- the header ---------------------------------------------------------------------------- */

static void show_positions(FILE *out, const struct record *record, const struct sequence *sequence)
{
    bool open = record->type == RECORD_TOKENS && sequence->appended && sequence->first == 0 &&
                record->position == 0;
    if (record->type == RECORD_LOGITS || record->type == RECORD_RAW)
        fprintf(out, ", after position %u", record->position);
    else if (open)
        fprintf(out, ", %u to be appended", record->count);
    else if (record->count == 1)
        fprintf(out, ", position %u", record->position);
    else if (record->count > 1)
        fprintf(out, ", positions %u to %u", record->position,
                record->position + record->count - 1);
    else
        fprintf(out, ", nothing at position %u", record->position);
}

static void show_header(struct show *show, struct record_reader *reader,
                        const struct record *record)
{
    static const struct {
        uint8_t flag;
        const char *name;
    } flags[] = {{RECORD_OPEN, "OPEN"}, {RECORD_GENERATED, "GENERATED"}, {RECORD_HELD, "HELD"}};
    FILE *out = show->out;
    fprintf(out, "record %zu: %s", show->n_records, record_type_name(record->type));
    if (record->type != RECORD_MODEL)
        fprintf(out, ", sequence %u", record->sequence);
    if (record->type == RECORD_TOKENS || record->type == RECORD_CACHE ||
        record->type == RECORD_LOGITS || record->type == RECORD_RAW)
        show_positions(
            out, record,
            reader_sequence(reader, record->sequence)); /* RAW: may be NULL, and is not looked at */
    else if (record->type == RECORD_LOGPROBS)
        fprintf(out, ", position %u", record->position);
    else if (record->type == RECORD_END && record->position != RECORD_APPEND)
        fprintf(out, ", position %u", record->position);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (record->flags & flags[i].flag)
            fprintf(out, ", %s", flags[i].name);
    if (record->binding)
        fprintf(out, ", %s %08x",
                record->type == RECORD_MODEL || record->type == RECORD_CACHE ? "model"
                                                                             : "vocabulary",
                record->binding);
    if (record->flags & RECORD_DEFLATED)
        fprintf(out, ", %llu bytes deflated to %llu\n", (unsigned long long)record->raw_length,
                (unsigned long long)record->length);
    else
        fprintf(out, ", %llu bytes\n", (unsigned long long)record->length);
}

/* ---- payloads ------------------------------------------------------------------------------ */

static void show_model(FILE *out, const struct model_facts *facts)
{
    char text[64];
    char *name = text_escape(facts->name, strlen(facts->name), 0);
    fprintf(out, "  %-24s%s\n", "name", name);
    free(name);
    for (size_t i = 0; i < n_model_fields; i++) {
        model_field_print(facts, &model_fields[i], text, sizeof text);
        fprintf(out, "  %-24s%s", model_fields[i].name, text);
        for (uint32_t k = 0;
             model_fields[i].offset == offsetof(struct model_facts, n_eog) && k < facts->n_eog; k++)
            fprintf(out, "%s%u", k ? ", " : ": ", facts->eog[k]);
        fputc('\n', out);
    }
    fprintf(out, "  %-24s%llu bytes\n", "cache of a position",
            (unsigned long long)model_facts_position_bytes(facts));
}

/* A token's text in quotes, NULL without a vocabulary. */
static char *token_text(const struct vocab *vocab, uint32_t id, size_t limit)
{
    const char *bytes;
    if (!vocab)
        return NULL;
    size_t length = vocab_piece(vocab, id, true, &bytes);
    char *escaped = text_escape(bytes, length, limit), *quoted = allocate(strlen(escaped) + 3, 1);
    stpcpy(stpcpy(stpcpy(quoted, "\""), escaped), "\"");
    free(escaped);
    return quoted;
}

static void show_tokens(struct show *show, const struct record *record, const uint8_t *ids,
                        const struct vocab *vocab)
{
    for (uint32_t i = 0; i < record->count; i++) {
        uint32_t id = load_u32(ids + 4 * (size_t)i);
        if (!show->everything && record->count > HEAD + TAIL && i == HEAD) {
            i = record->count - TAIL;
            id = load_u32(ids + 4 * (size_t)i);
            fprintf(show->out, "%s  ... %u more (-v shows all)\n",
                    vocab || i % IDS_IN_LINE == 0 ? "" : "\n", record->count - HEAD - TAIL);
        }
        char *text = token_text(vocab, id, 0);
        if (text)
            fprintf(show->out, "  %8u %8u  %s\n", record->position + i, id, text);
        else
            fprintf(show->out, "%s%u%s", i % IDS_IN_LINE ? " " : "  ", id,
                    i % IDS_IN_LINE == IDS_IN_LINE - 1 || i + 1 == record->count ? "\n" : "");
        free(text);
    }
}

static void show_cache(FILE *out, const struct record *record, const struct model_facts *facts)
{
    unsigned long long all = record->raw_length;
    fprintf(out, "  %u positions, %llu bytes in each of %u layers, %llu bytes in all\n",
            record->count, all / facts->n_layers, facts->n_layers, all);
}

static void show_logits(struct show *show, const struct record *record, const uint8_t *payload,
                        const struct vocab *vocab)
{
    const double e = 2.718281828459045;
    const float *logits = (const float *)(const void *)payload;
    uint32_t n = record->count, n_nan = 0, n_infinite = 0, n_never = 0;
    size_t k = show->top < n ? show->top : n;
    uint32_t *ids = allocate(k + 1, sizeof *ids);
    double greatest = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        n_nan += logits[i] != logits[i];
        n_infinite += logits[i] > 0 && isinf(logits[i]);
        n_never += logits[i] < 0 && isinf(logits[i]);
        greatest = (double)logits[i] > greatest ? (double)logits[i] : greatest;
    }
    if (n_nan || n_infinite || n_never == n)
        fprintf(show->out, "  no distribution: %u NaN, %u +infinity, %u -infinity\n", n_nan,
                n_infinite, n_never);
    else if (n_never)
        fprintf(show->out, "  %u of %u tokens are impossible (-infinity)\n", n_never, n);
    for (uint32_t i = 0; i < n; i++)
        sum += exact_pow(e, (double)logits[i] - greatest);
    k = select_top(logits, n, k, ids);
    for (size_t i = 0; i < k; i++) {
        char *text = token_text(vocab, ids[i], TEXT_COLUMNS - 2);
        double logit = (double)logits[ids[i]], p = exact_pow(e, logit - greatest) / sum;
        fprintf(show->out, "  %8u  ", ids[i]);
        if (text)
            fprintf(show->out, "%s%*s", text, (int)(TEXT_COLUMNS + 2 - text_columns(text)), "");
        if (n_nan || n_infinite || n_never == n)
            fprintf(show->out, "%10.4f\n", logit);
        else
            fprintf(show->out, "%10.4f  %8.6f%s%.*s\n", logit, p, lrint(p * BAR) ? "  " : "",
                    (int)lrint(p * BAR), "########################################");
        free(text);
    }
    free(ids);
}

static void show_end(FILE *out, const struct record *record, const uint8_t *payload,
                     const struct vocab *vocab)
{
    struct end end;
    struct error error;
    if (!end_decode(&end, payload, (size_t)record->raw_length, &error))
        die_error(&error); /* reader_next has decoded it before */
    fprintf(out, "  reason %s", end_reason_name(end.reason));
    if (end.token != RECORD_NO_TOKEN) {
        char *text = token_text(vocab, end.token, 0);
        fprintf(out, ", token %u%s%s", end.token, text ? " " : "", text ? text : "");
        free(text);
    }
    if (end.text_length) {
        char *text = text_escape(end.text, end.text_length, 0);
        fprintf(out, ", text \"%s\"", text);
        free(text);
    }
    if (end.trim)
        fprintf(out, ", %u bytes of the text to be cut", end.trim);
    fputc('\n', out);
}

/* What the model's logits were before a filter changed them. */
static void show_raw(struct show *show, const struct record *record, const uint8_t *payload,
                     const struct vocab *vocab)
{
    if (record->count > 0 && record->raw_length == (uint64_t)record->count * sizeof(float))
        show_logits(show, record, payload, vocab);
    else
        fprintf(show->out,
                "  the logits that follow were changed; those of the model were not kept\n");
}

static void show_logprob(FILE *out, uint32_t id, double value, const struct vocab *vocab)
{
    char *text = token_text(vocab, id, TEXT_COLUMNS - 2);
    fprintf(out, "%8u  ", id);
    if (text)
        fprintf(out, "%s%*s", text, (int)(TEXT_COLUMNS + 2 - text_columns(text)), "");
    fprintf(out, "%10.4f  %8.6f\n", value, exact_exp_f64(value < 0 ? value : 0));
    free(text);
}

static void show_logprobs(struct show *show, struct record_reader *reader,
                          const struct record *record, const uint8_t *payload,
                          const struct vocab *vocab)
{
    struct logprobs l;
    struct error error;
    if (!logprobs_decode(&l, payload, (size_t)record->raw_length, &error))
        reader_die(reader, error.status, "%s", error.text);
    fprintf(show->out, "  %-16s", "raw");
    if (l.has_raw)
        show_logprob(show->out, l.id, l.raw, vocab);
    else
        fprintf(show->out, "none: a filter did not keep the model's logits\n");
    fprintf(show->out, "  %-16s", "processed");
    show_logprob(show->out, l.id, l.processed, vocab);
    for (uint32_t i = 0; i < l.n_raw + l.n_processed; i++) {
        double value;
        uint32_t id = logprobs_entry(&l, i, &value);
        fprintf(show->out, "  %-16s", i == l.n_raw ? "best, processed" : i == 0 ? "best, raw" : "");
        show_logprob(show->out, id, value, vocab);
    }
}

static void show_score(FILE *out, struct record_reader *reader, const struct record *record,
                       const uint8_t *payload)
{
    if (record->raw_length != RECORD_SCORE_BYTES)
        reader_die(reader, STATUS_INPUT, "expected %d bytes, found %llu", RECORD_SCORE_BYTES,
                   (unsigned long long)record->raw_length);
    fprintf(out, "  score %.6f: log-probabilities %.6f over %u tokens\n", load_f64(payload),
            load_f64(payload + 8), load_u32(payload + 16));
}

static void show_ancillary(struct show *show, const struct record *record, const uint8_t *payload)
{
    char *text = text_escape(payload, (size_t)record->raw_length, show->everything ? 0 : 70);
    fprintf(show->out, "  \"%s\"\n", text);
    free(text);
}

void show_record(struct show *show, struct record_reader *reader, const struct record *record,
                 const struct vocab *vocab)
{
    bool used = record->type == RECORD_MODEL || record->type == RECORD_TOKENS ||
                record->type == RECORD_FORK || record->type == RECORD_END;
    const uint8_t *payload = used ? reader_used_payload(reader) : reader_payload(reader, NULL);
    show->n_records++;
    show->n_bytes += RECORD_HEADER + record_padded(record->length);
    show_header(show, reader, record);
    switch (record->type) {
    case RECORD_MODEL:
        show_model(show->out, reader_model(reader));
        break;
    case RECORD_TOKENS:
        show_tokens(show, record, payload, vocab);
        break;
    case RECORD_CACHE:
        show_cache(show->out, record, reader_model(reader));
        break;
    case RECORD_LOGITS:
        show_logits(show, record, payload, vocab);
        break;
    case RECORD_FORK:
        fprintf(show->out, "  the first %u positions of sequence %u, draw stream %u\n",
                record->position, load_u32(payload), load_u32(payload + 4));
        break;
    case RECORD_END:
        show_end(show->out, record, payload, vocab);
        break;
    case RECORD_RAW:
        show_raw(show, record, payload, vocab);
        break;
    case RECORD_LOGPROBS:
        show_logprobs(show, reader, record, payload, vocab);
        break;
    case RECORD_SCORE:
        show_score(show->out, reader, record, payload);
        break;
    default:
        show_ancillary(show, record, payload);
    }
}

/* ---- the whole ----------------------------------------------------------------------------- */

void show_sequences(struct show *show, struct record_reader *reader)
{
    const struct model_facts *facts = reader_model(reader);
    for (size_t i = 0; i < reader_n_sequences(reader); i++) {
        const struct sequence *s = reader_sequence_at(reader, i);
        uint32_t n_generated = 0;
        if (s->dropped)
            continue;
        for (uint32_t k = 0; k < s->n_tokens; k++)
            n_generated += (s->flags[k] & RECORD_GENERATED) != 0;
        fprintf(show->out, "sequence %u: %u %s", s->id, s->n_tokens,
                s->n_tokens == 1 ? "token" : "tokens");
        if (s->n_tokens > 1 && !s->appended)
            fprintf(show->out, " at positions %u to %u", s->first, s->first + s->n_tokens - 1);
        else if (s->n_tokens && !s->appended)
            fprintf(show->out, " at position %u", s->first);
        if (n_generated)
            fprintf(show->out, ", %u generated", n_generated);
        if (s->n_cached && facts) {
            unsigned long long each = model_facts_position_bytes(facts);
            fprintf(show->out, "; %u %s cached: %llu bytes a layer, %llu in all", s->n_cached,
                    s->n_cached == 1 ? "position" : "positions",
                    s->n_cached * each / facts->n_layers, s->n_cached * each);
        }
        fprintf(show->out, "%s\n", s->ended ? "; ended" : "");
    }
    fprintf(show->out, "%zu %s, %llu bytes\n", show->n_records,
            show->n_records == 1 ? "record" : "records", (unsigned long long)show->n_bytes);
}
