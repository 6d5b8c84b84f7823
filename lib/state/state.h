/* state: what a stream leaves in memory when it is to be gone on from: for each sequence its tokens
 * (kept by the reader), its cache and its last logits; and the way back to records. */
#ifndef UNROLL_STATE_H
#define UNROLL_STATE_H

#include "base/base.h"
#include "cache/cache.h"
#include "record/record.h"

/* One sequence of a state.  `tokens` may be ahead of the cache: those are still to be evaluated. */
struct lane {
    struct sequence *tokens; /* the reader's */
    struct cache_sequence cache;
    float *logits; /* (n_logits) of position logits_position, when that is not -1 */
    int64_t logits_position;
};

struct state {
    struct record_reader *reader;
    const struct model_facts
        *facts; /* of the model that will go on; a stream of another is refused */
    struct cache_shape shape;
    struct lane **lane; /* in order of appearance in the stream, as the reader counts sequences */
    size_t n_lanes, capacity;
    /* Where set, this gets the payloads of CACHE records in the place of cache_append. */
    void (*place)(void *context, struct lane *lane, uint32_t count, const uint8_t *bytes,
                  bool lasting);
    void *context;
};

/* An empty state that will be filled from a reader.  reader and facts must outlive it. */
void state_init(struct state *state, struct record_reader *reader, const struct model_facts *facts);
void state_free(struct state *state);
/* Takes in the record that reader_next returned: MODEL is compared, CACHE and LOGITS are stored,
 * FORK shares pages or cuts.  Returns its lane, or NULL for a record without one. */
struct lane *state_take(struct state *state, const struct record *record);
/* Takes in everything up to the end of the input; sequences that ended as dropped or without a
 * token are left out. */
void state_take_all(struct state *state);
/* Frees what a lane holds beside its tokens: its share of pages, and its logits.  Whoever goes on
 * with it evaluates it again. */
void lane_forget(struct lane *lane);
/* Leaves out the lanes of sequences that ended as dropped or without a token; nothing more can be
 * taken in. */
bool state_leaves_out(const struct lane *lane);
void state_leave_out_dropped(struct state *state);

/* The lane of a sequence that the reader knows. */
struct lane *state_lane(struct state *state, uint32_t id);

/* One past the last position with a known token. */
uint32_t lane_end(const struct lane *lane);
/* Tokens that are known and not evaluated. */
uint32_t lane_pending(const struct lane *lane);
/* The id of a token by its position. */
uint32_t lane_token(const struct lane *lane, uint32_t position);

/* ---- to records ---------------------------------------------------------------------------- */

void state_write_model(struct record_writer *writer, const struct model_facts *facts);
/* Cache and tokens of the positions [begin, end), which lie within one page; all OPEN. */
void state_write_positions(struct record_writer *writer, const struct model_facts *facts,
                           const struct lane *lane, uint32_t begin, uint32_t end);
/* The header of that CACHE record, for who has the bytes elsewhere. */
struct record state_cache_record(const struct model_facts *facts, uint32_t sequence, uint32_t begin,
                                 uint32_t end);
/* Tokens alone. */
void state_write_tokens(struct record_writer *writer, const struct model_facts *facts,
                        const struct lane *lane, uint32_t begin, uint32_t end);
void state_write_logits(struct record_writer *writer, const struct model_facts *facts,
                        uint32_t sequence, uint32_t position, const float *logits, bool open);
/* The end of a lane in a state: the logits of its last position; before them, where its draw stream
 * is not 0, FORK onto itself at its end, which cuts nothing and says which it is. */
void state_write_last(struct record_writer *writer, const struct model_facts *facts,
                      const struct lane *lane);

#endif
