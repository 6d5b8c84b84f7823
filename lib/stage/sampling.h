/* sampling: a stream's logits answered by tokens that are drawn, each sequence until it ends; the
 * first question of a sequence, with `continuations`, by as many copies of it. */
#ifndef UNROLL_SAMPLING_H
#define UNROLL_SAMPLING_H

#include "record/record.h"
#include "select/select.h"
#include "stage/naming.h"

struct sampling_options {
    struct select_options chain;
    int64_t limit;         /* tokens in each sequence; -1: as many as the context has */
    int64_t continuations; /* 1: the sequence itself */
    int64_t n_logprobs;    /* of the most probable tokens; -1: no LOGPROBS */
    bool ignore_eos, verbose;
    const struct texts *stops;
    struct naming *naming; /* opened where there are stops */
};

struct sampling;
struct sampling *sampling_new(const struct sampling_options *options, struct record_reader *reader,
                              struct record_writer *writer);
void sampling_free(struct sampling *sampling);

/* What answer_loop calls; the context is a struct sampling. */
void sampling_take(void *sampling, const struct record *record);
bool sampling_ended(void *sampling);
void sampling_finish(void *sampling);

#endif
