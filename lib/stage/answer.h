/* answer: what the programs that answer logits have in common: `sample` and `beam`. */
#ifndef UNROLL_ANSWER_H
#define UNROLL_ANSWER_H

#include "record/record.h"
#include "select/select.h"
#include "vocab/vocab.h"

/* End the program (STATUS_USAGE) where -N asks for continuations that would all be the same, or for
 * more hypotheses than a beam has. */
void answer_check_continuations(int64_t n, double temperature);
void answer_check_best(int64_t n, int64_t width);

/* A LOGITS record asks for an answer when it is about the last token that is known of its sequence;
 * in a state (which has a cache) OPEN says that more of it follows.  So of the series of `prefill
 * --logits all` only the last asks. */
bool answer_is_question(const struct record *record, const struct sequence *sequence);

/* Brings the state of a matcher up to date with a sequence's tokens: *read is the position up to
 * which that was done before, *state what it was there.  It is a function of the generated tokens
 * that the stream holds, not of what this process chose: so one process for each token finds what
 * the loop finds. */
void answer_read_text(const struct stop_matcher *matcher, const struct vocab *vocab,
                      const struct sequence *sequence, uint32_t *read, uint32_t *state);

/* Closes the output so that its reader sees the end now, and the loop ends; the program may go on
 * reading. */
void answer_close(struct output *output);

#endif
