/* copies: sequences that begin as copies of others, by FORK, for `sample -N` and `beam -N`.
 *
 * A copy needs an id that nobody has.  While the first logits are answered more prompts may still
 * be under way; but an answer that comes back by way of the model comes behind all of them.  So
 * what is about copies waits here until then, or, where nothing comes back, until the input has
 * ended: in the loop and by hand they get the same ids, the lowest that are free. */
#ifndef UNROLL_COPIES_H
#define UNROLL_COPIES_H

#include "record/record.h"

struct copies;
struct copies *copies_new(struct record_reader *reader, struct record_writer *writer);
void copies_free(struct copies *copies);

/* What its owner wants to know of a copy when it is there. */
struct copy {
    uint32_t id; /* once it is written */
    int64_t n_selected;
    bool ended;
};
/* A further copy of the first `position` positions of a sequence.  Valid until the next call of
 * copies_add. */
struct copy *copies_add(struct copies *copies, uint32_t source, uint32_t position,
                        uint32_t draw_stream);
/* A record of the copy added last, whose sequence is filled in; or of any other sequence, that must
 * not come before what waits already.  The payload is copied. */
void copies_put(struct copies *copies, struct record record, const void *payload, size_t length);
void copies_put_after(struct copies *copies, struct record record, const void *payload,
                      size_t length);

/* Writes what waits: for each copy FORK, flagged OPEN, and its records. */
void copies_write(struct copies *copies);
/* From now on an answer has come back: nothing waits any longer. */
void copies_release(struct copies *copies);
/* Writes what waits if it need not wait. */
void copies_settle(struct copies *copies);
/* The copy with an id, once it is written; NULL: it is none of ours. */
struct copy *copies_find(struct copies *copies, uint32_t id);
/* Whether a copy is not in the reader's stream yet. */
bool copies_outstanding(const struct copies *copies);

#endif
