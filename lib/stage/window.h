/* window: a text in windows that overlap, each of which fits into the context. */
#ifndef UNROLL_WINDOW_H
#define UNROLL_WINDOW_H

#include "stage/stage.h"

/* Evaluates and writes the tokens of a lane, which has no cache yet, in windows of `window`
 * positions, each `stride` (at most window - 1) tokens further on than the one before; where the
 * text begins with BOS, so does every window.  For each: its tokens from position 0 on, and the
 * logits from which the tokens are predicted that no window before held; between two windows FORK
 * cuts the sequence back to nothing.  No CACHE. */
void window_write(struct engine *engine, const struct lane *lane, uint32_t window, uint32_t stride,
                  struct record_writer *writer);

#endif
