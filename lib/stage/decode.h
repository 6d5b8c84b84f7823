/* decode: one pass over several lanes, and the loop's half that holds the model. */
#ifndef UNROLL_DECODE_H
#define UNROLL_DECODE_H

#include "stage/stage.h"

/* Reads a state and then the answers to the logits that it writes, until the input ends.
 *
 * MODEL comes first, then TOKENS, FORK, END and ancillary records as they are consumed, and LOGITS,
 * each flagged OPEN: an answer must come.  A pass begins when every sequence with open logits has
 * answered with TOKENS, FORK or END; all sequences that got tokens are evaluated together.  FORK
 * that is flagged OPEN waits for the tokens that it promises; without the flag it asks for the
 * logits of the copy.  A pass that an END already waiting in the input makes useless is dropped.
 * Input is read ahead while logits are written, so that no number of sequences fills the pipes
 * against each other.  An input that ends before an answer ends the program.
 *
 * END gives the sequence's pages and logits back, unless `keep` says that a state will be saved; a
 * sequence that goes on after it is evaluated again, and one that was dropped is never kept.
 *
 * `no_cache`: every pass computes all positions again, to show what the cache saves; the logits are
 * the same. */
struct decode_options {
    bool no_cache, keep;
};
void decode_stream(struct engine *engine, struct state *state, struct record_writer *writer,
                   const struct decode_options *options);

/* Evaluates what is pending in the lanes, a position of each in every pass, and leaves in each the
 * logits of its last position: those that it would have alone. */
void decode_lanes(struct engine *engine, struct lane *const *lanes, size_t n);

#endif
