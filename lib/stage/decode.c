#include "stage/decode.h"

#include <stdlib.h>
#include <string.h>

/* A sequence's part in the loop, beside its lane. */
struct turn {
    bool asked;   /* its logits are out and not answered */
    bool due;     /* it has tokens for the next pass */
    bool ended;
    uint32_t end; /* one past the last position of the next pass */
};

struct loop {
    struct engine *engine;
    struct state *state;
    struct record_writer *writer;
    struct turn *turn; /* by lane index */
    size_t capacity, n_turns;
    size_t n_asked, n_due;
    bool no_cache;
    float *logits;     /* of a pass */
    size_t logits_rows;
};

static struct turn *turn_of(struct loop *loop, const struct lane *lane)
{
    size_t n = loop->state->n_lanes;
    loop->turn = grow(loop->turn, &loop->capacity, n, sizeof *loop->turn);
    while (loop->n_turns < n)
        loop->turn[loop->n_turns++] = (struct turn){0};
    return &loop->turn[lane->tokens->index];
}

static void set_asked(struct loop *loop, struct turn *turn, bool asked)
{
    loop->n_asked = loop->n_asked + asked - turn->asked;
    turn->asked = asked;
}

static void set_due(struct loop *loop, struct turn *turn, bool due)
{
    loop->n_due = loop->n_due + due - turn->due;
    turn->due = due;
}

static void ask(struct loop *loop, struct lane *lane, const float *logits)
{
    set_asked(loop, turn_of(loop, lane), true);
    state_write_logits(loop->writer, &loop->engine->facts, lane->tokens->id, (uint32_t)lane->logits_position, logits, true);
}

/* Hands a record on as it came; reader_next has filled in the position of an append. */
static void pass_on(struct loop *loop, const struct record *record)
{
    const uint8_t *payload = record->type < RECORD_ANCILLARY ? reader_used_payload(loop->state->reader)
                                                             : reader_payload(loop->state->reader, NULL);
    record_write(loop->writer, *record, payload, (size_t)record->raw_length);
}

static void take_tokens(struct loop *loop, struct lane *lane)
{
    struct turn *turn = turn_of(loop, lane);
    set_asked(loop, turn, false);
    turn->ended = false;
    turn->end = lane_end(lane);
    engine_check(loop->engine, lane, loop->state->reader);
    set_due(loop, turn, turn->end > lane->cache.n_positions);
}

/* A sequence that was cut back or copied to where logits are not known has its last token evaluated again. */
static void take_fork(struct loop *loop, struct lane *lane)
{
    struct turn *turn = turn_of(loop, lane);
    set_asked(loop, turn, false);
    turn->end = lane_end(lane);
    turn->ended = false;
    if (lane->cache.n_positions >= turn->end && turn->end > 0)
        cache_cut(&lane->cache, turn->end - 1);
    set_due(loop, turn, turn->end > 0);
}

static void take(struct loop *loop, const struct record *record)
{
    struct lane *lane = state_take(loop->state, record);
    switch (record->type) {
    case RECORD_MODEL: /* ours went out first */
    case RECORD_CACHE:
        return;
    case RECORD_LOGITS:
        if (!(record->flags & RECORD_OPEN)) /* of the last position: the state is complete */
            ask(loop, lane, lane->logits);
        return;
    case RECORD_TOKENS:
        pass_on(loop, record);
        take_tokens(loop, lane);
        return;
    case RECORD_FORK:
        pass_on(loop, record);
        take_fork(loop, lane);
        return;
    case RECORD_END:
        pass_on(loop, record);
        struct turn *turn = turn_of(loop, lane);
        set_asked(loop, turn, false);
        set_due(loop, turn, false);
        turn->ended = true;
        return;
    default:
        pass_on(loop, record);
    }
}

/* Evaluates all sequences that are due, together, and asks for their answers. */
static void pass(struct loop *loop)
{
    struct error error;
    struct engine *engine = loop->engine;
    size_t n_logits = engine->facts.n_logits, n_rows = 0, row = 0, wanted = 0;
    for (size_t i = 0; i < loop->n_turns && loop->no_cache; i++)
        if (loop->turn[i].due)
            cache_cut(&loop->state->lane[i]->cache, 0);
    for (size_t i = 0; i < loop->n_turns; i++)
        if (loop->turn[i].due)
            n_rows += loop->turn[i].end - loop->state->lane[i]->cache.n_positions;
    struct model_row *rows = allocate(n_rows, sizeof *rows);
    for (size_t i = 0; i < loop->n_turns; i++) {
        struct lane *lane = loop->state->lane[i];
        uint32_t end = loop->turn[i].end;
        for (uint32_t p = lane->cache.n_positions; loop->turn[i].due && p < end; p++)
            rows[row++] = (struct model_row){&lane->cache, p, lane_token(lane, p), p + 1 == end};
    }
    if (loop->n_due > loop->logits_rows) {
        free(loop->logits);
        loop->logits_rows = loop->n_due;
        loop->logits = allocate_aligned(loop->n_due * n_logits, sizeof *loop->logits);
    }
    if (!model_evaluate(engine->model, rows, (uint32_t)n_rows, loop->logits, &error))
        die(error.status, "model '%s': %s", engine->facts.name, error.text);
    free(rows);
    for (size_t i = 0; i < loop->n_turns; i++) {
        struct lane *lane = loop->state->lane[i];
        if (!loop->turn[i].due)
            continue;
        set_due(loop, &loop->turn[i], false);
        lane->logits_position = (int64_t)loop->turn[i].end - 1;
        float *logits = loop->logits + wanted++ * n_logits;
        ask(loop, lane, logits);
        if (!lane->logits)
            lane->logits = allocate(n_logits, sizeof *lane->logits);
        memcpy(lane->logits, logits, n_logits * sizeof *logits);
    }
}

void decode_stream(struct engine *engine, struct state *state, struct record_writer *writer, bool no_cache)
{
    struct loop loop = {.engine = engine, .state = state, .writer = writer, .no_cache = no_cache};
    struct record record;
    reader_read_ahead(state->reader);
    state_write_model(writer, &engine->facts);
    while (reader_next(state->reader, &record)) {
        take(&loop, &record);
        while (loop.n_due > 0 && loop.n_asked == 0) {
            /* One record is looked at before a pass: the END of a token that was chosen last comes with it. */
            bool more = reader_pending(state->reader) && reader_next(state->reader, &record);
            if (more && record.type == RECORD_END)
                take(&loop, &record);
            if (loop.n_due > 0)
                pass(&loop);
            if (more && record.type != RECORD_END)
                take(&loop, &record);
        }
    }
    if (loop.n_asked > 0)
        reader_die(state->reader, STATUS_INPUT, "cut off: the input ended before the logits of %zu sequences were answered", loop.n_asked);
    free(loop.turn);
    free(loop.logits);
}
