/* The operands, read by rank 0.  Every change of a cache (a part of a page, a fork, a cut) is told
 * to all ranks as it is read, and the bytes go to the rank that has the page: so that no rank ever
 * holds a whole cache. */
#include "dist/internal.h"

#include <stdlib.h>
#include <string.h>

enum change_kind { CHANGE_APPEND, CHANGE_SHARE, CHANGE_CUT, CHANGE_LEAVE_OUT, CHANGE_DONE };
enum { SET_INPUT, SET_REUSED, SETS };

/* A change of the cache of a sequence, `lane` of `set`. */
struct change {
    uint32_t kind, set, lane;
    uint32_t count; /* APPEND: positions; SHARE, CUT: one past the last; DONE: lanes of the input */
    uint32_t from_set, from_lane; /* SHARE */
    uint64_t bytes;               /* APPEND */
};

/* The caches as this rank knows them, on rank 0 those of the lanes. */
struct caches {
    struct dist *dist;
    const struct cache_shape *shape;
    struct cache_sequence **at[SETS];
    size_t n[SETS], capacity[SETS];
    struct state *state[SETS]; /* rank 0 */
    uint8_t *buffer;
    size_t buffer_size;
};

static struct cache_sequence *cache_of(struct caches *c, uint32_t set, uint32_t lane)
{
    if (c->dist->rank == 0)
        return &c->state[set]->lane[lane]->cache;
    c->at[set] = grow(c->at[set], &c->capacity[set], lane + (size_t)1, sizeof *c->at[set]);
    while (c->n[set] <= lane) {
        struct cache_sequence *cache = allocate(1, sizeof *cache);
        cache->shape = c->shape;
        c->at[set][c->n[set]++] = cache;
    }
    return c->at[set][lane];
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

static void tell(struct caches *c, struct change change)
{
    MPI_Bcast(&change, sizeof change, MPI_BYTE, 0, c->dist->comm);
}

struct reading {
    struct caches *caches;
    uint32_t set;
};

/* In the place of cache_append. */
static void place(void *context, struct lane *lane, uint32_t count, const uint8_t *bytes,
                  bool lasting)
{
    const struct reading *reading = context;
    struct caches *c = reading->caches;
    uint32_t owner = division_reader(lane->cache.n_positions / CACHE_PAGE, (uint32_t)c->dist->size);
    size_t size = cache_bytes(c->shape, count);
    tell(c, (struct change){.kind = CHANGE_APPEND,
                            .set = reading->set,
                            .lane = (uint32_t)lane->tokens->index,
                            .count = count,
                            .bytes = size});
    if (owner == 0) {
        cache_append(&lane->cache, count, bytes, lasting);
        return;
    }
    MPI_Send(bytes, (int)size, MPI_BYTE, (int)owner, TAG_INPUT, c->dist->comm);
    cache_append_absent(&lane->cache, count);
}

static void read_stream(struct caches *c, uint32_t set, struct record_reader *reader,
                        const struct model_facts *facts)
{
    struct record record;
    struct state *state = c->state[set];
    struct reading reading = {c, set};
    state_init(state, reader, facts);
    state->place = place;
    state->context = &reading;
    while (reader_next(reader, &record)) {
        struct lane *lane = state_take(state, &record);
        if (record.type == RECORD_END && lane->tokens->dropped)
            tell(c, (struct change){
                        .kind = CHANGE_CUT, .set = set, .lane = (uint32_t)lane->tokens->index});
        if (record.type != RECORD_FORK)
            continue;
        struct lane *source = state_lane(state, load_u32(reader_used_payload(reader)));
        tell(c, (struct change){.kind = source == lane ? CHANGE_CUT : CHANGE_SHARE,
                                .set = set,
                                .lane = (uint32_t)lane->tokens->index,
                                .count = record.position,
                                .from_set = set,
                                .from_lane = (uint32_t)source->tokens->index});
    }
    state->place = NULL;
}

/* See prefill_reusable. */
static void reuse(struct caches *c, bool verbose)
{
    struct state *state = c->state[SET_INPUT];
    for (uint32_t i = 0; i < state->n_lanes; i++) {
        struct lane *lane = state->lane[i];
        const struct lane *best;
        uint32_t length =
            lane->cache.n_positions == 0 ? prefill_reusable(lane, c->state[SET_REUSED], &best) : 0;
        if (length > 0) {
            cache_share(&lane->cache, &best->cache, length);
            lane->cache.shape = c->shape; /* the other state goes */
            tell(c, (struct change){.kind = CHANGE_SHARE,
                                    .set = SET_INPUT,
                                    .lane = i,
                                    .count = length,
                                    .from_set = SET_REUSED,
                                    .from_lane = (uint32_t)best->tokens->index});
        }
        if (verbose)
            warn("sequence %u: %u of %u positions reused", lane->tokens->id, length,
                 lane_end(lane));
    }
}

/* Where the logits of the last position are not known, its token is evaluated again. */
static void make_room_for_logits(struct caches *c, uint32_t index, const struct engine *engine)
{
    struct lane *lane = c->state[SET_INPUT]->lane[index];
    uint32_t end = lane_end(lane);
    if (!lane->logits)
        lane->logits = allocate(engine->facts.n_logits, sizeof *lane->logits);
    if (lane->cache.n_positions < end || lane->logits_position == (int64_t)end - 1)
        return;
    cache_cut(&lane->cache, end - 1);
    tell(c, (struct change){.kind = CHANGE_CUT, .set = SET_INPUT, .lane = index, .count = end - 1});
}

/* The last first, so that the numbers of the others stay. */
static void leave_out_dropped(struct caches *c, struct state *state)
{
    for (size_t i = state->n_lanes; i-- > 0;)
        if (state_leaves_out(state->lane[i]))
            tell(c,
                 (struct change){.kind = CHANGE_LEAVE_OUT, .set = SET_INPUT, .lane = (uint32_t)i});
    state_leave_out_dropped(state);
}

static void read_all_streams(struct caches *c, struct input *input, const struct engine *engine,
                             const char *reuse_path, char **operands, int n_operands)
{
    struct state old;
    struct record_reader *old_reader = NULL;
    c->state[SET_INPUT] = &input->state;
    c->state[SET_REUSED] = &old;
    input->reader = reader_open(operands, n_operands);
    if (reuse_path)
        old_reader = reader_open((char **)&reuse_path, 1);
    read_stream(c, SET_INPUT, input->reader, &engine->facts);
    leave_out_dropped(c, &input->state);
    for (size_t i = 0; i < input->state.n_lanes; i++)
        engine_check(engine, input->state.lane[i], input->reader);
    if (input->state.n_lanes == 0)
        reader_die(input->reader, STATUS_INPUT, "no tokens in the input");
    if (old_reader) {
        read_stream(c, SET_REUSED, old_reader, &engine->facts);
        reuse(c, engine->verbose);
        state_free(&old);
    }
    reader_close(old_reader);
    for (uint32_t i = 0; i < input->state.n_lanes; i++)
        make_room_for_logits(c, i, engine);
    tell(c, (struct change){.kind = CHANGE_DONE, .count = (uint32_t)input->state.n_lanes});
}

/* ---- the others ------------------------------------------------------------------------------ */

static void append(struct caches *c, const struct change *change)
{
    struct cache_sequence *cache = cache_of(c, change->set, change->lane);
    uint32_t owner = division_reader(cache->n_positions / CACHE_PAGE, (uint32_t)c->dist->size);
    if (owner != (uint32_t)c->dist->rank) {
        cache_append_absent(cache, change->count);
        return;
    }
    if (change->bytes > c->buffer_size) {
        free(c->buffer);
        c->buffer = allocate_aligned((size_t)change->bytes, 1);
        c->buffer_size = (size_t)change->bytes;
    }
    MPI_Recv(c->buffer, (int)change->bytes, MPI_BYTE, 0, TAG_INPUT, c->dist->comm,
             MPI_STATUS_IGNORE);
    cache_append(cache, change->count, c->buffer, false);
}

static void leave_out(struct caches *c, const struct change *change)
{
    struct cache_sequence *cache = cache_of(c, change->set, change->lane),
                          **at = c->at[change->set] + change->lane;
    cache_release(cache);
    free(cache);
    c->n[change->set]--;
    memmove(at, at + 1, (c->n[change->set] - change->lane) * sizeof(struct cache_sequence *));
}

/* Makes every change that rank 0 tells; returns the number of sequences. */
static size_t follow(struct caches *c)
{
    for (;;) {
        struct change change;
        MPI_Bcast(&change, sizeof change, MPI_BYTE, 0, c->dist->comm);
        switch (change.kind) {
        case CHANGE_APPEND:
            append(c, &change);
            break;
        case CHANGE_SHARE:
            cache_share(cache_of(c, change.set, change.lane),
                        cache_of(c, change.from_set, change.from_lane), change.count);
            break;
        case CHANGE_CUT:
            cache_cut(cache_of(c, change.set, change.lane), change.count);
            break;
        case CHANGE_LEAVE_OUT:
            leave_out(c, &change);
            break;
        case CHANGE_DONE:
            for (uint32_t i = 0; i < c->n[SET_REUSED]; i++) {
                cache_release(c->at[SET_REUSED][i]);
                free(c->at[SET_REUSED][i]);
            }
            return change.count;
        }
    }
}

/* ---- both ------------------------------------------------------------------------------------ */

/* All ranks get all tokens: four bytes a position. */
static void share_tokens(struct part *part, struct dist *d)
{
    if (d->rank == 0)
        part->end = lane_end(part->lane);
    MPI_Bcast(&part->end, 1, MPI_UINT32_T, 0, d->comm);
    part->tokens = allocate(part->end, sizeof *part->tokens);
    if (d->rank == 0)
        memcpy(part->tokens, part->lane->tokens->tokens, part->end * sizeof *part->tokens);
    MPI_Bcast(part->tokens, (int)part->end, MPI_UINT32_T, 0, d->comm);
}

void input_read(struct input *input, struct dist *d, const struct engine *engine,
                const char *reuse_path, char **operands, int n_operands)
{
    struct caches caches = {.dist = d, .shape = &model_hyperparameters(engine->model)->cache};
    *input = (struct input){0};
    if (d->rank == 0) {
        read_all_streams(&caches, input, engine, reuse_path, operands, n_operands);
        input->n_parts = input->state.n_lanes;
    } else {
        input->n_parts = follow(&caches);
    }
    input->part = allocate(input->n_parts, sizeof *input->part);
    for (uint32_t i = 0; i < input->n_parts; i++) {
        struct part *part = &input->part[i];
        part->cache = cache_of(&caches, SET_INPUT, i);
        part->lane = d->rank == 0 ? input->state.lane[i] : NULL;
        share_tokens(part, d);
    }
    for (int set = 0; set < SETS; set++)
        free(caches.at[set]);
    free(caches.buffer);
}

void input_free(struct input *input, const struct dist *d)
{
    for (size_t i = 0; i < input->n_parts; i++) {
        free(input->part[i].tokens);
        if (d->rank == 0)
            continue;
        cache_release(input->part[i].cache);
        free(input->part[i].cache);
    }
    free(input->part);
    if (d->rank == 0) {
        state_free(&input->state);
        reader_close(input->reader);
    }
}
