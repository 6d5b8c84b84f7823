/* prefill: what `prefill` alone and its MPI build share. */
#ifndef UNROLL_PREFILL_H
#define UNROLL_PREFILL_H

#include "stage/stage.h"

enum prefill_mpi { PREFILL_MPI_AUTO, PREFILL_MPI_NEVER, PREFILL_MPI_ALWAYS };

struct prefill_options {
    struct engine_options engine;
    const char *output, *reuse;
    bool compress, force;
    int logits;             /* index into "last|all" */
    int64_t window, stride; /* 0: none */
    int mpi;                /* enum prefill_mpi */
    bool parallel_write;
};

/* The lane of `old` that has the longest prefix in common with this one, as far as it is cached and
 * at most all but the last token, whose logits are wanted; its length.  0: none. */
uint32_t prefill_reusable(const struct lane *lane, const struct state *old,
                          const struct lane **best);

/* How many ranks the launcher that started this process started with it; 1: there is none. */
int prefill_launched_ranks(void);
/* Replaces this process by the MPI build, where the option and the launcher want it; the arguments
 * are those of main.  Ends the program when that build is wanted and not there. */
void prefill_hand_over(const struct prefill_options *options, char **argv);

#endif
