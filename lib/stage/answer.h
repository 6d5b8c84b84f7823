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

/* Ends the program (STATUS_USAGE) where a text of --stop is empty. */
void answer_check_stops(const struct texts *stops);

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

/* A way of answering: sampling, search. */
struct answerer {
    void *context;
    /* Sees a record that reader_next has returned; answers logits. */
    void (*take)(void *context, const struct record *record);
    /* Whether all sequences that the stream has shown have ended, by us.  In the loop END comes
     * back by way of the model, behind everything that was there before it: then no other can
     * begin. */
    bool (*ended)(void *context);
    /* The input has ended: what waited for an answer to come back need not wait. */
    void (*finish)(void *context);
};
/* Reads the stream to its end.  The output is closed as soon as all have ended, so that its reader
 * sees that and the loop ends; a sequence that begins after that is an error, as is an input
 * without logits. */
void answer_loop(const struct answerer *answerer, struct record_reader *reader,
                 struct output *output);

#endif
