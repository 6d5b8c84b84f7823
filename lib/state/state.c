#include "state/state.h"

#include <stdlib.h>
#include <string.h>

void state_init(struct state *state, struct record_reader *reader, const struct model_facts *facts)
{
    *state = (struct state){
        .reader = reader,
        .facts = facts,
        .shape = {facts->n_layers, facts->n_kv_heads, facts->key_dim, facts->value_dim,
                  (enum tensor_type)facts->element},
    };
}

void lane_forget(struct lane *lane)
{
    cache_release(&lane->cache);
    free(lane->logits);
    lane->logits = NULL;
    lane->logits_position = -1;
}

static void lane_free(struct lane *lane)
{
    lane_forget(lane);
    free(lane);
}

void state_free(struct state *state)
{
    for (size_t i = 0; i < state->n_lanes; i++)
        lane_free(state->lane[i]);
    free(state->lane);
    *state = (struct state){0};
}

uint32_t lane_end(const struct lane *lane)
{
    return lane->tokens->first + lane->tokens->n_tokens;
}

uint32_t lane_pending(const struct lane *lane)
{
    uint32_t end = lane_end(lane);
    return end > lane->cache.n_positions ? end - lane->cache.n_positions : 0;
}

uint32_t lane_token(const struct lane *lane, uint32_t position)
{
    return lane->tokens->tokens[position - lane->tokens->first];
}

/* The lanes stand in the reader's order, so a new sequence is always the next lane. */
struct lane *state_lane(struct state *state, uint32_t id)
{
    while (state->n_lanes < reader_n_sequences(state->reader)) {
        struct lane *lane = allocate(1, sizeof *lane);
        lane->tokens = reader_sequence_at(state->reader, state->n_lanes);
        lane->cache.shape = &state->shape;
        lane->logits_position = -1;
        state->lane =
            grow(state->lane, &state->capacity, state->n_lanes + 1, sizeof(struct lane *));
        state->lane[state->n_lanes++] = lane;
    }
    return state->lane[reader_sequence(state->reader, id)->index];
}

static void take_model(struct state *state)
{
    struct error error;
    if (!model_facts_agree(reader_model(state->reader), state->facts, &error))
        reader_die(state->reader, error.status, "%s", error.text);
}

static void take_logits(struct state *state, struct lane *lane, const struct record *record)
{
    size_t n = record->count;
    if (n != state->facts->n_logits)
        reader_die(state->reader, STATUS_INPUT, "%zu logits, but model '%s' has %u", n,
                   state->facts->name, state->facts->n_logits);
    const uint8_t *payload = reader_payload(state->reader, NULL);
    if (!lane->logits)
        lane->logits = allocate(n, sizeof *lane->logits);
    for (size_t i = 0; i < n; i++)
        lane->logits[i] = load_f32(payload + 4 * i);
    lane->logits_position = record->position;
}

static void take_fork(struct state *state, struct lane *lane, const struct record *record)
{
    struct lane *source = state_lane(state, load_u32(reader_used_payload(state->reader)));
    if (source == lane)
        cache_cut(&lane->cache, record->position);
    else
        cache_share(&lane->cache, &source->cache, record->position);
    lane->logits_position = -1;
}

struct lane *state_take(struct state *state, const struct record *record)
{
    if (record->type == RECORD_MODEL)
        take_model(state);
    if (record->type == RECORD_MODEL || record->type >= RECORD_ANCILLARY)
        return NULL;
    struct lane *lane = state_lane(state, record->sequence);
    if (record->binding && record->type == RECORD_TOKENS &&
        record->binding != state->facts->vocabulary_fingerprint)
        reader_die(state->reader, STATUS_INPUT,
                   "tokens of vocabulary %08x, but model '%s' has vocabulary %08x", record->binding,
                   state->facts->name, state->facts->vocabulary_fingerprint);
    bool mapped;
    switch (record->type) {
    case RECORD_CACHE:
        if (lane->cache.n_positions != record->position)
            reader_die(state->reader, STATUS_INPUT,
                       "keys and values for position %u, which was evaluated already",
                       record->position);
        const uint8_t *bytes = reader_payload(state->reader, &mapped);
        if (state->place)
            state->place(state->context, lane, record->count, bytes, mapped);
        else
            cache_append(&lane->cache, record->count, bytes, mapped);
        break;
    case RECORD_LOGITS:
        take_logits(state, lane, record);
        break;
    case RECORD_FORK:
        take_fork(state, lane, record);
        break;
    case RECORD_END:
        if (lane->tokens->dropped)
            lane_forget(lane);
        break;
    }
    return lane;
}

void state_take_all(struct state *state)
{
    struct record record;
    while (reader_next(state->reader, &record))
        state_take(state, &record);
    state_leave_out_dropped(state);
}

/* END of a sequence that nobody has begun leaves one without a token. */
bool state_leaves_out(const struct lane *lane)
{
    return lane->tokens->dropped || (lane->tokens->ended && lane->tokens->n_tokens == 0);
}

void state_leave_out_dropped(struct state *state)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->n_lanes; i++)
        if (state_leaves_out(state->lane[i]))
            lane_free(state->lane[i]);
        else
            state->lane[kept++] = state->lane[i];
    state->n_lanes = kept;
}

/* ---- to records ---------------------------------------------------------------------------- */

void state_write_model(struct record_writer *writer, const struct model_facts *facts)
{
    uint8_t payload[RECORD_MAX_SMALL];
    size_t length = model_facts_encode(facts, payload);
    record_write(writer, (struct record){.type = RECORD_MODEL, .binding = facts->model_fingerprint},
                 payload, length);
}

void state_write_tokens(struct record_writer *writer, const struct model_facts *facts,
                        const struct lane *lane, uint32_t begin, uint32_t end)
{
    uint8_t payload[CACHE_PAGE * 4];
    const uint8_t *flags = lane->tokens->flags - lane->tokens->first;
    while (begin < end) { /* a record for each run of given or of generated tokens */
        uint8_t generated = flags[begin] & RECORD_GENERATED;
        uint32_t n = 0;
        for (; begin + n < end && n < CACHE_PAGE &&
               (flags[begin + n] & RECORD_GENERATED) == generated;
             n++)
            store_u32(payload + 4 * n, lane_token(lane, begin + n));
        record_write(writer,
                     (struct record){.type = RECORD_TOKENS,
                                     .flags = RECORD_OPEN | generated,
                                     .sequence = lane->tokens->id,
                                     .position = begin,
                                     .count = n,
                                     .binding = facts->vocabulary_fingerprint},
                     payload, 4 * (size_t)n);
        begin += n;
    }
}

struct record state_cache_record(const struct model_facts *facts, uint32_t sequence, uint32_t begin,
                                 uint32_t end)
{
    return (struct record){.type = RECORD_CACHE,
                           .flags = RECORD_OPEN,
                           .sequence = sequence,
                           .position = begin,
                           .count = end - begin,
                           .binding = facts->model_fingerprint};
}

void state_write_positions(struct record_writer *writer, const struct model_facts *facts,
                           const struct lane *lane, uint32_t begin, uint32_t end)
{
    uint8_t *scratch = NULL;
    if (end - begin < CACHE_PAGE)
        scratch = allocate(cache_bytes(lane->cache.shape, CACHE_PAGE), 1);
    const uint8_t *bytes = cache_packed(&lane->cache, begin, end - begin, scratch);
    record_write(writer, state_cache_record(facts, lane->tokens->id, begin, end), bytes,
                 cache_bytes(lane->cache.shape, end - begin));
    free(scratch);
    state_write_tokens(writer, facts, lane, begin, end);
}

void state_write_logits(struct record_writer *writer, const struct model_facts *facts,
                        uint32_t sequence, uint32_t position, const float *logits, bool open)
{
    /* Little-endian machines hold the payload as it is written. */
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "payloads are written from memory");
    record_write(writer,
                 (struct record){.type = RECORD_LOGITS,
                                 .flags = open ? RECORD_OPEN : 0,
                                 .sequence = sequence,
                                 .position = position,
                                 .count = facts->n_logits,
                                 .binding = facts->vocabulary_fingerprint},
                 logits, (size_t)facts->n_logits * sizeof *logits);
}

void state_write_last(struct record_writer *writer, const struct model_facts *facts,
                      const struct lane *lane)
{
    const struct sequence *tokens = lane->tokens;
    uint8_t payload[8];
    store_u32(payload, tokens->id);
    store_u32(payload + 4, tokens->draw_stream);
    if (tokens->draw_stream != 0)
        record_write(writer,
                     (struct record){.type = RECORD_FORK,
                                     .flags = RECORD_OPEN,
                                     .sequence = tokens->id,
                                     .position = lane_end(lane)},
                     payload, sizeof payload);
    state_write_logits(writer, facts, tokens->id, lane_end(lane) - 1, lane->logits, false);
}
