/* search: beam search over a stream: the hypotheses of lib/select as sequences of decode-step.
 *
 * The first hypothesis that runs has the sequence that the prompt came in, the others have scratch
 * sequences, whose numbers are taken from 2^32 - 1 down and used again.  After each step every
 * hypothesis that goes on has the sequence of the one that it goes on from, as far as that is the
 * first; the others begin by FORK, after the END (dropped) of those that nobody goes on from and
 * before any sequence gets its token, so that none is changed before it has been copied.  The
 * sequence of the prompt is never dropped: where nobody goes on from it, it is cut back to what it
 * has in common with one that goes on, and gets the tokens that it lacks.  When the search is over
 * the best hypothesis comes to be there in the same way. */
#ifndef UNROLL_SEARCH_H
#define UNROLL_SEARCH_H

#include "record/record.h"
#include "select/select.h"
#include "stage/naming.h"

struct search_options {
    struct beam_options beam; /* but for the limit */
    int64_t limit;            /* tokens in each sequence; -1: as many as the context has */
    bool ignore_eos, verbose;
    const struct texts *stops;
    struct naming *naming; /* opened where there are stops */
};

struct searches;
struct searches *searches_new(const struct search_options *options, struct record_reader *reader,
                              struct record_writer *writer);
void searches_free(struct searches *searches);

/* What answer_loop calls; the context is a struct searches. */
void searches_take(void *searches, const struct record *record);
bool searches_ended(void *searches);
void searches_finish(void *searches);

#endif
