/* Reading a stream: headers, payloads, and the rules that tie records of one sequence together. */
#include "record/record.h"
#include "record/source.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct record_reader {
    struct source *source;
    size_t n_sources, current;
    size_t n_records; /* read from the current source */
    size_t total;

    struct record record; /* the last one */
    bool payload_waiting; /* its payload has not been taken from the source */
    const uint8_t *used;  /* payload that apply() took */
    uint8_t *stored;      /* payload as stored, padded */
    size_t stored_capacity;
    uint8_t *inflated;
    size_t inflated_capacity;

    bool has_model;
    struct model_facts model;
    uint32_t vocabulary; /* binding of TOKENS and LOGITS; 0: none seen */

    struct sequence **sequence; /* in order of appearance */
    size_t n_sequences, sequences_capacity;
    uint32_t *by_id; /* hash table of indices + 1 */
    size_t by_id_size;

    bool reported; /* END told of an error upstream, whose message is out */
    bool ahead;    /* read descriptors ahead, once they are current */
    char place[256];
};

/* ---- sequences ----------------------------------------------------------------------------- */

static size_t slot_of(const struct record_reader *r, uint32_t id)
{
    size_t slot = (id * 0x9E3779B1u) & (r->by_id_size - 1);
    while (r->by_id[slot] && r->sequence[r->by_id[slot] - 1]->id != id)
        slot = (slot + 1) & (r->by_id_size - 1);
    return slot;
}

struct sequence *reader_sequence(struct record_reader *r, uint32_t id)
{
    uint32_t index = r->by_id_size ? r->by_id[slot_of(r, id)] : 0;
    return index ? r->sequence[index - 1] : NULL;
}

static struct sequence *sequence_make(struct record_reader *r, uint32_t id)
{
    struct sequence *s = reader_sequence(r, id);
    if (s)
        return s;
    if ((r->n_sequences + 1) * 2 > r->by_id_size) {
        r->by_id_size = r->by_id_size ? r->by_id_size * 2 : 16;
        free(r->by_id);
        r->by_id = allocate(r->by_id_size, sizeof *r->by_id);
        for (size_t i = 0; i < r->n_sequences; i++)
            r->by_id[slot_of(r, r->sequence[i]->id)] = (uint32_t)i + 1;
    }
    s = allocate(1, sizeof *s);
    s->id = id;
    s->index = r->n_sequences;
    s->logits_position = -1;
    r->sequence =
        grow(r->sequence, &r->sequences_capacity, r->n_sequences + 1, sizeof(struct sequence *));
    r->sequence[r->n_sequences++] = s;
    r->by_id[slot_of(r, id)] = (uint32_t)r->n_sequences;
    return s;
}

size_t reader_n_sequences(const struct record_reader *r)
{
    return r->n_sequences;
}

struct sequence *reader_sequence_at(struct record_reader *r, size_t index)
{
    return r->sequence[index];
}

/* One past the last position with a known token. */
static uint32_t sequence_end(const struct sequence *s)
{
    return s->first + s->n_tokens;
}

static void push_tokens(struct sequence *s, const uint8_t *ids, uint32_t count, uint8_t flags)
{
    if (count == 0)
        return;
    s->tokens = grow(s->tokens, &s->capacity, s->n_tokens + (size_t)count, sizeof *s->tokens);
    s->flags = grow(s->flags, &s->flags_capacity, s->n_tokens + (size_t)count, 1);
    for (uint32_t i = 0; i < count; i++)
        s->tokens[s->n_tokens + i] = load_u32(ids + 4 * (size_t)i);
    memset(s->flags + s->n_tokens, flags & (RECORD_GENERATED | RECORD_HELD), count);
    s->n_tokens += count;
}

/* ---- the rules, a function a type ---------------------------------------------------------- */

static bool apply_model(struct record_reader *r, const uint8_t *payload, struct error *error)
{
    struct model_facts facts;
    if (!model_facts_decode(&facts, payload, (size_t)r->record.raw_length, error))
        return false;
    if (r->has_model && !model_facts_agree(&facts, &r->model, error))
        return false;
    if (r->vocabulary && facts.vocabulary_fingerprint &&
        r->vocabulary != facts.vocabulary_fingerprint)
        return error_set(
            error, STATUS_INPUT,
            "model '%s' has vocabulary %08x, but the tokens before it are of vocabulary %08x",
            facts.name, facts.vocabulary_fingerprint, r->vocabulary);
    r->model = facts;
    r->has_model = true;
    return true;
}

uint32_t reader_vocabulary(const struct record_reader *r)
{
    return r->has_model && r->model.vocabulary_fingerprint ? r->model.vocabulary_fingerprint
                                                           : r->vocabulary;
}

/* TOKENS and LOGITS say which vocabulary they are of. */
static bool check_vocabulary(struct record_reader *r, struct error *error)
{
    uint32_t expected = reader_vocabulary(r);
    uint32_t found = r->record.binding;
    if (found && expected && found != expected)
        return error_set(error, STATUS_INPUT, "made with vocabulary %08x, expected %08x%s%s%s",
                         found, expected, r->has_model ? " (model '" : "",
                         r->has_model ? r->model.name : "", r->has_model ? "')" : "");
    if (found)
        r->vocabulary = found;
    return true;
}

static bool apply_tokens(struct record_reader *r, struct sequence *s, const uint8_t *ids,
                         struct error *error)
{
    struct record *record = &r->record;
    uint32_t end = sequence_end(s), count = record->count, skip = 0;
    bool append = record->position == RECORD_APPEND;
    if (!check_vocabulary(r, error))
        return false;
    if (append && s->n_cached > end)
        return error_set(
            error, STATUS_INPUT,
            "tokens appended while CACHE is ahead: %u positions are cached, %u tokens are known",
            s->n_cached, end);
    if (append && end > 0 && count > 0 && r->has_model && r->model.bos != RECORD_NO_TOKEN &&
        load_u32(ids) == r->model.bos)
        return error_set(error, STATUS_INPUT,
                         "an appended text starts with BOS (%u) where the sequence holds %u "
                         "tokens; make it with tokenize --append",
                         r->model.bos, end);
    if (s->n_tokens == 0 && s->n_cached == 0) {
        s->first = append ? 0 : record->position;
        s->appended = append;
        end = s->first;
    }
    if (append)
        record->position = end;
    if (record->position > end)
        return error_set(
            error, STATUS_INPUT,
            "tokens at position %u, but the sequence ends at %u: positions between are missing",
            record->position, end);
    if (record->position < s->first)
        return error_set(
            error, STATUS_INPUT,
            "tokens at position %u, but this stream's part of the sequence begins at %u",
            record->position, s->first);
    if ((uint64_t)record->position + count > RECORD_MAX_TOKENS)
        return error_set(error, STATUS_INPUT, "a sequence of more than %u positions",
                         RECORD_MAX_TOKENS);
    for (; skip < count && record->position + skip < end; skip++) {
        uint32_t position = record->position + skip, found = load_u32(ids + 4 * (size_t)skip);
        uint32_t expected = s->tokens[position - s->first];
        if (found != expected)
            return error_set(error, STATUS_INPUT,
                             "token %u at position %u, where the sequence holds %u already%s",
                             found, position, expected,
                             position == 0 ? " (to go on with a text: tokenize --append; to share "
                                             "a prefix: prefill --reuse)"
                                           : "");
    }
    s->changed_from = end;
    push_tokens(s, ids + 4 * (size_t)skip, count - skip, record->flags);
    s->ended = s->dropped = false;
    return true;
}

static bool apply_cache(struct record_reader *r, struct sequence *s, struct error *error)
{
    const struct record *record = &r->record;
    if (!r->has_model)
        return error_set(error, STATUS_INPUT, "no MODEL record came before it");
    if (record->binding != r->model.model_fingerprint)
        return error_set(error, STATUS_INPUT,
                         "made by model %08x, but the stream's MODEL is %08x ('%s')",
                         record->binding, r->model.model_fingerprint, r->model.name);
    uint64_t bytes = (uint64_t)record->count * model_facts_position_bytes(&r->model);
    if (record->raw_length != bytes)
        return error_set(error, STATUS_INPUT,
                         "%u positions of this model take %llu bytes, found %llu", record->count,
                         (unsigned long long)bytes, (unsigned long long)record->raw_length);
    if (record->position < s->n_cached)
        return error_set(error, STATUS_INPUT,
                         "keys and values for position %u, but positions up to %u are held already",
                         record->position, s->n_cached);
    if (record->position != s->n_cached)
        return error_set(
            error, STATUS_INPUT,
            "keys and values for position %u, expected %u: positions between are missing",
            record->position, s->n_cached);
    if (record->position < sequence_end(s) || (s->n_tokens && s->first))
        return error_set(error, STATUS_INPUT,
                         "keys and values for position %u come after its token", record->position);
    if (record->count == 0 || record->position / 64 != (record->position + record->count - 1) / 64)
        return error_set(error, STATUS_INPUT, "positions %u to %u are not within one page of 64",
                         record->position, record->position + record->count);
    s->n_cached += record->count;
    return true;
}

static bool apply_logits(struct record_reader *r, struct sequence *s, struct error *error)
{
    struct record *record = &r->record;
    if (!check_vocabulary(r, error))
        return false;
    if (r->has_model && record->count != r->model.n_logits)
        return error_set(error, STATUS_INPUT, "%u logits, expected %u", record->count,
                         r->model.n_logits);
    if (record->count == 0)
        return error_set(error, STATUS_INPUT,
                         "no logits, expected one for each id of a vocabulary");
    uint32_t end = sequence_end(s);
    if (record->position == RECORD_APPEND)
        record->position = end ? end - 1 : 0;
    if (s->n_tokens && record->position >= end)
        return error_set(error, STATUS_INPUT,
                         "logits of position %u come before its token: the sequence ends at %u",
                         record->position, end);
    s->logits_position = record->position;
    return true;
}

static bool apply_fork(struct record_reader *r, struct sequence *s, const uint8_t *payload,
                       struct error *error)
{
    const struct record *record = &r->record;
    if (record->raw_length != 8)
        return error_set(error, STATUS_INPUT, "expected 8 bytes, found %llu",
                         (unsigned long long)record->raw_length);
    struct sequence *source = reader_sequence(r, load_u32(payload));
    if (!source)
        return error_set(error, STATUS_INPUT, "from sequence %u, which does not exist",
                         load_u32(payload));
    uint32_t end = record->position;
    if (end < source->first || end > sequence_end(source))
        return error_set(error, STATUS_INPUT, "at position %u of sequence %u, which holds %u to %u",
                         end, source->id, source->first, sequence_end(source));
    if (s != source && (s->n_tokens || s->n_cached))
        return error_set(error, STATUS_INPUT, "sequence %u exists already", s->id);
    if (s != source) {
        s->first = source->first;
        s->appended = source->appended;
        s->n_cached = source->n_cached;
        s->n_tokens = end - source->first;
        s->tokens = grow(s->tokens, &s->capacity, s->n_tokens, sizeof *s->tokens);
        s->flags = grow(s->flags, &s->flags_capacity, s->n_tokens, 1);
        if (s->n_tokens) {
            memcpy(s->tokens, source->tokens, s->n_tokens * sizeof *s->tokens);
            memcpy(s->flags, source->flags, s->n_tokens);
        }
    }
    s->n_tokens = end - s->first;
    s->n_cached = s->n_cached < end ? s->n_cached : end;
    s->draw_stream = load_u32(payload + 4);
    s->changed_from = s == source ? end : s->first;
    s->logits_position = -1;
    s->ended = s->dropped = false;
    return true;
}

/* A sequence that lost against others: nothing of it counts, and its id is free for another. */
static void forget(struct sequence *s)
{
    free(s->tokens);
    free(s->flags);
    *s = (struct sequence){
        .id = s->id, .index = s->index, .ended = true, .dropped = true, .logits_position = -1};
}

static bool apply_end(struct record_reader *r, struct sequence *s, const uint8_t *payload,
                      struct error *error)
{
    struct end end;
    if (!end_decode(&end, payload, (size_t)r->record.raw_length, error))
        return false;
    if (r->record.flags & RECORD_OPEN)
        return error_set(error, STATUS_INPUT, "flag OPEN is set, but END ends the sequence");
    s->ended = true;
    if (end.reason == END_DROPPED)
        forget(s);
    r->reported = end.reason == END_ERROR && !r->source[r->current].mapped;
    if (end.reason == END_ERROR)
        return error_set(error, STATUS_INPUT, "sequence %u ended with an error: %.*s", s->id,
                         (int)end.text_length, (const char *)end.text);
    return true;
}

/* ---- payloads ------------------------------------------------------------------------------ */

static bool inflate_payload(struct record_reader *r, const uint8_t *stored, struct error *error)
{
    size_t raw = (size_t)r->record.raw_length;
    r->inflated = grow(r->inflated, &r->inflated_capacity, raw + 1, 1);
    uLongf size = raw;
    uLong length = (uLong)r->record.length;
    int result = uncompress2(r->inflated, &size, stored, &length);
    if (result != Z_OK || size != raw || length != r->record.length)
        return error_set(error, STATUS_INPUT,
                         "deflated payload is damaged: expected %zu bytes inflated, found %lu%s",
                         raw, size, result == Z_OK ? "" : " and an error");
    return true;
}

/* Reads the payload into memory of ours piece by piece: a false length costs no memory. */
static bool store_payload(struct record_reader *r, struct source *source, size_t padded)
{
    enum { PIECE = 1 << 22 };
    for (size_t done = 0; done < padded;) {
        size_t wanted = padded - done < PIECE ? padded - done : PIECE;
        r->stored = grow(r->stored, &r->stored_capacity, done + wanted, 1);
        size_t n = source_read(source, r->stored + done, wanted);
        if (n < wanted)
            return false;
        done += n;
    }
    return true;
}

bool reader_payload_checked(struct record_reader *r, const uint8_t **payload, bool *mapped,
                            struct error *error)
{
    struct source *source = &r->source[r->current];
    size_t length = (size_t)r->record.length, padded = (size_t)record_padded(length);
    const uint8_t *stored = NULL;
    if (mapped)
        *mapped = false;
    if (!r->payload_waiting)
        return error_set(error, STATUS_SYSTEM, "payload was taken already");
    r->payload_waiting = false;
    if (source->mapped)
        stored = source_view(source, padded);
    else if (store_payload(r, source, padded))
        stored = padded ? r->stored : (const uint8_t *)"";
    if (!stored)
        return error_set(error, STATUS_INPUT, "cut off inside the payload: expected %zu bytes",
                         padded);
    for (size_t i = length; i < padded; i++)
        if (stored[i])
            return error_set(error, STATUS_INPUT, "padding is damaged: byte %zu of it is not zero",
                             i - length);
    uint32_t crc = crc32_update(0, stored, length);
    if (crc != r->record.payload_crc)
        return error_set(error, STATUS_INPUT, "payload is damaged: CRC %08x expected, %08x found",
                         r->record.payload_crc, crc);
    if (r->record.flags & RECORD_DEFLATED) {
        if (!inflate_payload(r, stored, error))
            return false;
        stored = r->inflated;
    } else if (mapped) {
        *mapped = source->mapped;
    }
    *payload = stored;
    return true;
}

static bool skip_payload(struct record_reader *r, struct error *error)
{
    if (!r->payload_waiting)
        return true;
    r->payload_waiting = false;
    uint64_t padded = record_padded(r->record.length);
    uint64_t found = source_skip(&r->source[r->current], padded);
    if (found == padded)
        return true;
    return error_set(error, STATUS_INPUT,
                     "cut off inside the payload: expected %llu bytes, found %llu",
                     (unsigned long long)padded, (unsigned long long)found);
}

/* ---- records ------------------------------------------------------------------------------- */

const char *reader_place(struct record_reader *r)
{
    const char *name = r->n_sources ? r->source[r->current].name : "nothing";
    if (r->n_records)
        snprintf(r->place, sizeof r->place, "%.180s: record %zu (%s)", name, r->n_records,
                 r->record.type ? record_type_name(r->record.type) : "damaged");
    else
        snprintf(r->place, sizeof r->place, "%.180s", name);
    return r->place;
}

/* At the end of the last source: was the stream whole? */
static bool check_whole(struct record_reader *r, struct error *error)
{
    r->n_records = 0;
    if (r->total == 0)
        return error_set(error, STATUS_INPUT, "empty input, expected a record stream");
    for (size_t i = 0; i < r->n_sequences; i++) {
        const struct sequence *s = r->sequence[i];
        if (s->open)
            return error_set(error, STATUS_INPUT,
                             "cut off: the input ended while sequence %u was open (the stage "
                             "before failed, or its file is incomplete)",
                             s->id);
        if (s->n_cached > sequence_end(s))
            return error_set(
                error, STATUS_INPUT,
                "cut off: the input ended with %u positions cached and %u tokens in sequence %u",
                s->n_cached, sequence_end(s), s->id);
    }
    return true;
}

/* Applies a record whose header is good.  Small payloads that change what we know are used here and
 * now; CACHE, LOGITS and ancillary payloads wait for whoever wants them. */
static bool apply(struct record_reader *r, struct error *error)
{
    const struct record *record = &r->record;
    const uint8_t *payload = NULL;
    r->payload_waiting = true;
    bool used = record->type == RECORD_MODEL || record->type == RECORD_TOKENS ||
                record->type == RECORD_FORK || record->type == RECORD_END;
    if (used && !reader_payload_checked(r, &payload, NULL, error))
        return false;
    r->used = payload;
    if (record->type == RECORD_MODEL)
        return apply_model(r, payload, error);
    if (record->type >= RECORD_ANCILLARY)
        return true;
    struct sequence *s = sequence_make(r, record->sequence);
    bool ok = true;
    switch (record->type) {
    case RECORD_TOKENS:
        ok = apply_tokens(r, s, payload, error);
        break;
    case RECORD_CACHE:
        ok = apply_cache(r, s, error);
        break;
    case RECORD_LOGITS:
        ok = apply_logits(r, s, error);
        break;
    case RECORD_FORK:
        ok = apply_fork(r, s, payload, error);
        break;
    case RECORD_END:
        ok = apply_end(r, s, payload, error);
        break;
    }
    s->open = (record->flags & RECORD_OPEN) != 0;
    return ok;
}

int reader_next_checked(struct record_reader *r, struct record *record, struct error *error)
{
    uint8_t header[RECORD_HEADER];
    if (!skip_payload(r, error))
        goto failed;
    size_t n = 0;
    for (;;) {
        struct source *source = &r->source[r->current];
        if (r->ahead)
            source_read_ahead(source);
        n = source_read(source, header, sizeof header);
        if (n > 0 || r->current + 1 == r->n_sources)
            break;
        r->current++;
        r->n_records = 0;
    }
    if (n == 0)
        return check_whole(r, error) ? 0 : (error_prefix(error, reader_place(r)), -1);
    r->n_records++;
    r->total++;
    r->record.type = 0;
    if (n < sizeof header) {
        error_set(error, STATUS_INPUT, "cut off inside a header: expected %zu bytes, found %zu",
                  sizeof header, n);
        goto failed;
    }
    if (!record_decode(&r->record, header, error) || !apply(r, error))
        goto failed;
    *record = r->record;
    return 1;
failed:
    error_prefix(error, reader_place(r));
    return -1;
}

bool reader_next(struct record_reader *r, struct record *record)
{
    struct error error;
    int found = reader_next_checked(r, record, &error);
    if (found < 0 && r->reported)
        die_quietly(error.status);
    if (found < 0)
        die_error(&error);
    return found > 0;
}

const uint8_t *reader_payload(struct record_reader *r, bool *mapped)
{
    struct error error;
    const uint8_t *payload;
    if (!reader_payload_checked(r, &payload, mapped, &error)) {
        error_prefix(&error, reader_place(r));
        die_error(&error);
    }
    return payload;
}

const struct model_facts *reader_model(const struct record_reader *r)
{
    return r->has_model ? &r->model : NULL;
}

const uint8_t *reader_used_payload(const struct record_reader *r)
{
    return r->used;
}

uint8_t reader_waiting(struct record_reader *r)
{
    uint8_t header[RECORD_HEADER];
    struct record record;
    struct error error;
    if (r->payload_waiting ||
        source_peek(&r->source[r->current], header, sizeof header) < sizeof header)
        return 0;
    return record_decode(&record, header, &error) ? record.type : 0;
}

void reader_die(struct record_reader *r, enum status status, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    die(status, "%s: %s", reader_place(r), text);
}

/* All that can be: where a state is followed by the answers to it, these may come while it is still
 * being read. */
void reader_read_ahead(struct record_reader *r)
{
    for (size_t i = 0; i < r->n_sources; i++) {
        bool twice = false; /* what is named twice is read in turn */
        for (size_t k = 0; k < i; k++)
            twice |= strcmp(r->source[k].name, r->source[i].name) == 0;
        if (!twice)
            source_read_ahead(&r->source[i]);
    }
    r->ahead = true;
}

struct record_reader *reader_open(char **operands, int n_operands)
{
    static char *standard_input[] = {"-"};
    struct error error;
    if (n_operands == 0) {
        operands = standard_input;
        n_operands = 1;
    }
    struct record_reader *r = allocate(1, sizeof *r);
    r->source = allocate((size_t)n_operands, sizeof *r->source);
    for (; r->n_sources < (size_t)n_operands; r->n_sources++)
        if (!source_open(&r->source[r->n_sources], operands[r->n_sources], &error))
            die_error(&error);
    return r;
}

struct record_reader *reader_open_memory(const char *name, const uint8_t *bytes, size_t size)
{
    struct record_reader *r = allocate(1, sizeof *r);
    r->source = allocate(1, sizeof *r->source);
    source_open_memory(r->source, name, bytes, size);
    r->n_sources = 1;
    return r;
}

void reader_close(struct record_reader *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_sources; i++)
        source_close(&r->source[i]);
    for (size_t i = 0; i < r->n_sequences; i++) {
        free(r->sequence[i]->tokens);
        free(r->sequence[i]->flags);
        free(r->sequence[i]);
    }
    free(r->sequence);
    free(r->by_id);
    free(r->stored);
    free(r->inflated);
    free(r->source);
    free(r);
}
