#include "stage/decode.h"

#include <stdlib.h>
#include <string.h>

/* ---- passes over lanes ---------------------------------------------------------------------- */

enum {
    ROWS_AT_ONCE = 512,        /* positions in one evaluation */
    LOGITS_AT_ONCE = 16 << 20, /* numbers in its logits; more only for a single lane */
};

/* Where the cache holds all positions but nobody has the logits, the last position is evaluated
 * again. */
static void make_pending(struct lane *lane)
{
    uint32_t end = lane_end(lane);
    if (lane->cache.n_positions >= end)
        cache_cut(&lane->cache, end - 1);
}

/* Positions of a lane in its next evaluation. */
static uint32_t next_rows(const struct lane *lane, uint32_t step)
{
    return lane_pending(lane) < step ? lane_pending(lane) : step;
}

/* How many of the first lanes are evaluated at once; at least one. */
static size_t lanes_at_once(const struct engine *engine, struct lane *const *lanes, size_t n,
                            uint32_t step)
{
    size_t count = 0, rows = 0;
    while (count < n) {
        rows += next_rows(lanes[count], step);
        if (count > 0 &&
            (rows > ROWS_AT_ONCE || (count + 1) * engine->facts.n_logits > LOGITS_AT_ONCE))
            break;
        count++;
    }
    return count;
}

/* The next `step` positions of each lane, and the logits of those that are a lane's last. */
static bool evaluate_together(struct engine *engine, struct lane *const *lanes, size_t n,
                              uint32_t step, float *logits, struct error *error)
{
    struct model_row *rows =
        allocate(n * step < ROWS_AT_ONCE ? n * step : ROWS_AT_ONCE, sizeof *rows);
    uint32_t row = 0;
    for (size_t i = 0; i < n; i++) {
        struct lane *lane = lanes[i];
        uint32_t begin = lane->cache.n_positions, end = begin + next_rows(lane, step);
        for (uint32_t p = begin; p < end; p++)
            rows[row++] =
                (struct model_row){&lane->cache, p, lane_token(lane, p), p + 1 == lane_end(lane)};
    }
    bool ok = model_evaluate(engine->model, rows, row, logits, error);
    free(rows);
    return ok;
}

/* A failure is told of the first lane that fails alone. */
_Noreturn static void fail(struct engine *engine, struct lane *const *lanes, size_t n,
                           uint32_t step, float *logits)
{
    struct error error;
    size_t i = 0;
    while (i + 1 < n && evaluate_together(engine, &lanes[i], 1, step, logits, &error))
        i++;
    if (i + 1 == n)
        evaluate_together(engine, &lanes[i], 1, step, logits, &error);
    die(error.status, "model '%s', sequence %u: %s", engine->facts.name, lanes[i]->tokens->id,
        error.text);
}

typedef void take_logits(void *context, struct lane *lane, const float *logits);

/* Evaluates what is pending in the lanes, in each pass up to `step` positions of each, and hands
 * over the logits of their last positions. */
static void evaluate_lanes(struct engine *engine, struct lane *const *given, size_t n,
                           uint32_t step, take_logits *take, void *context)
{
    struct error error;
    struct lane **lanes = allocate(n, sizeof(struct lane *));
    size_t n_logits = engine->facts.n_logits, capacity = 0;
    float *logits = NULL;
    for (size_t i = 0; i < n; i++)
        make_pending(lanes[i] = given[i]);
    while (n > 0) {
        size_t kept = 0;
        for (size_t begin = 0, count; begin < n; begin += count) {
            const float *next = logits;
            count = lanes_at_once(engine, lanes + begin, n - begin, step);
            if (count > capacity) {
                free(logits);
                capacity = count;
                next = logits = allocate_aligned(count * n_logits, sizeof *logits);
            }
            if (!evaluate_together(engine, lanes + begin, count, step, logits, &error))
                fail(engine, lanes + begin, count, step, logits);
            for (size_t i = begin; i < begin + count; i++) {
                if (lane_pending(lanes[i]) > 0) {
                    lanes[kept++] = lanes[i];
                    continue;
                }
                take(context, lanes[i], next);
                next += n_logits;
            }
        }
        n = kept;
    }
    free(logits);
    free(lanes);
}

static void keep_logits(void *context, struct lane *lane, const float *logits)
{
    const struct engine *engine = context;
    size_t n = engine->facts.n_logits;
    if (!lane->logits)
        lane->logits = allocate(n, sizeof *lane->logits);
    memcpy(lane->logits, logits, n * sizeof *logits);
    lane->logits_position = (int64_t)lane_end(lane) - 1;
}

void decode_lanes(struct engine *engine, struct lane *const *lanes, size_t n)
{
    struct lane **lacking = allocate(n, sizeof(struct lane *));
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (lanes[i]->logits_position != (int64_t)lane_end(lanes[i]) - 1 ||
            lane_pending(lanes[i]) > 0)
            lacking[count++] = lanes[i];
    evaluate_lanes(engine, lacking, count, 1, keep_logits, engine);
    free(lacking);
}

/* ---- the loop ------------------------------------------------------------------------------- */

/* A sequence's part in the loop, beside its lane. */
struct turn {
    bool asked; /* its logits are out and not answered, or tokens were promised */
    bool due;   /* its next logits are to be made by the next pass */
};

struct loop {
    struct engine *engine;
    struct state *state;
    struct record_writer *writer;
    struct decode_options options;
    struct turn *turn; /* by lane index */
    size_t capacity, n_turns;
    size_t n_asked, n_due;
};

static struct turn *turn_of(struct loop *loop, const struct lane *lane)
{
    size_t n = loop->state->n_lanes;
    loop->turn = grow(loop->turn, &loop->capacity, n, sizeof *loop->turn);
    while (loop->n_turns < n)
        loop->turn[loop->n_turns++] = (struct turn){0};
    return &loop->turn[lane->tokens->index];
}

static void set_turn(struct loop *loop, struct lane *lane, struct turn next)
{
    struct turn *turn = turn_of(loop, lane);
    loop->n_asked = loop->n_asked + next.asked - turn->asked;
    loop->n_due = loop->n_due + next.due - turn->due;
    *turn = next;
}

static void ask(void *context, struct lane *lane, const float *logits)
{
    struct loop *loop = context;
    uint32_t position = lane_end(lane) - 1;
    set_turn(loop, lane, (struct turn){.asked = true});
    state_write_logits(loop->writer, &loop->engine->facts, lane->tokens->id, position, logits,
                       true);
    if (loop->options.keep && logits != lane->logits)
        keep_logits(loop->engine, lane, logits);
}

/* The logits of a state are asked for as they came. */
static void ask_again(struct loop *loop, struct lane *lane)
{
    ask(loop, lane, lane->logits);
    if (loop->options.keep)
        return;
    free(lane->logits);
    lane->logits = NULL;
    lane->logits_position = -1;
}

/* Hands a record on as it came; reader_next has filled in the position of an append. */
static void pass_on(struct loop *loop, const struct record *record)
{
    const uint8_t *payload = record->type < RECORD_ANCILLARY
                                 ? reader_used_payload(loop->state->reader)
                                 : reader_payload(loop->state->reader, NULL);
    record_write(loop->writer, *record, payload, (size_t)record->raw_length);
}

static void take_tokens(struct loop *loop, struct lane *lane)
{
    engine_check(loop->engine, lane, loop->state->reader);
    set_turn(loop, lane, (struct turn){.due = lane_end(lane) > lane->cache.n_positions});
}

/* A sequence that was cut back or copied to where its logits are not known has its last token
 * evaluated again, unless tokens follow. */
static void take_fork(struct loop *loop, struct lane *lane, bool promises)
{
    set_turn(loop, lane, (struct turn){.asked = promises, .due = !promises && lane_end(lane) > 0});
}

static void take_end(struct loop *loop, struct lane *lane)
{
    set_turn(loop, lane, (struct turn){0});
    if (!loop->options.keep || lane->tokens->dropped)
        lane_forget(lane);
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
            ask_again(loop, lane);
        return;
    case RECORD_TOKENS:
        pass_on(loop, record);
        if (record->count > 0 || lane_end(lane) == 0) /* none are no answer */
            take_tokens(loop, lane);
        return;
    case RECORD_FORK:
        pass_on(loop, record);
        take_fork(loop, lane, record->flags & RECORD_OPEN);
        return;
    case RECORD_END:
        pass_on(loop, record);
        take_end(loop, lane);
        return;
    default:
        pass_on(loop, record);
    }
}

/* Evaluates all sequences that are due, together, and asks for their answers. */
static void pass(struct loop *loop)
{
    struct lane **due = allocate(loop->n_due, sizeof(struct lane *));
    size_t n = 0;
    for (size_t i = 0; i < loop->n_turns; i++) {
        struct lane *lane = loop->state->lane[i];
        if (!loop->turn[i].due)
            continue;
        if (loop->options.no_cache)
            cache_cut(&lane->cache, 0);
        due[n++] = lane;
    }
    evaluate_lanes(loop->engine, due, n, ROWS_AT_ONCE, ask, loop);
    free(due);
}

void decode_stream(struct engine *engine, struct state *state, struct record_writer *writer,
                   const struct decode_options *options)
{
    struct loop loop = {.engine = engine, .state = state, .writer = writer, .options = *options};
    struct record record;
    reader_read_ahead(state->reader);
    state_write_model(writer, &engine->facts);
    while (reader_next(state->reader, &record)) {
        take(&loop, &record);
        /* The END of a token that was chosen last comes with it, and spares the pass. */
        if (loop.n_due > 0 && loop.n_asked == 0 && reader_waiting(state->reader) != RECORD_END)
            pass(&loop);
    }
    if (loop.n_asked > 0)
        reader_die(state->reader, STATUS_INPUT,
                   "cut off: the input ended before the logits of %zu sequences were answered",
                   loop.n_asked);
    state_leave_out_dropped(state);
    free(loop.turn);
}
