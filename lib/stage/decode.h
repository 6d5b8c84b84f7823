/* decode: the loop's half that holds the model. */
#ifndef UNROLL_DECODE_H
#define UNROLL_DECODE_H

#include "stage/stage.h"

/* Reads a state and then the answers to the logits that it writes, until the input ends.
 *
 * MODEL comes first, then TOKENS, FORK, END and ancillary records as they are consumed, and LOGITS, each
 * flagged OPEN: an answer must come.  A pass begins when every sequence with open logits has answered
 * with TOKENS, FORK or END; all sequences that got tokens are evaluated together.  A pass that an END
 * already waiting in the input makes useless is dropped.  Input is read ahead while logits are written, so that
 * no number of sequences fills the pipes against each other.  An input that ends before an answer ends the program.
 *
 * `no_cache`: every pass computes all positions again, to show what the cache saves; the logits are the same. */
void decode_stream(struct engine *engine, struct state *state, struct record_writer *writer, bool no_cache);

#endif
