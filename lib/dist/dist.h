/* dist: a prefill whose positions are divided over the ranks of an MPI job.  Design section 6.
 *
 * After Liu et al., "Ring attention" (arXiv 2310.01889) and Yang et al., "Context parallelism for
 * scalable million-token inference" (arXiv 2411.01783, which passes keys and values too), with one
 * difference: a rank keeps one layer's whole keys and values and merges pages in ascending order,
 * so that the bits are those of one process. */
#ifndef UNROLL_DIST_H
#define UNROLL_DIST_H

#include "stage/prefill.h"

struct dist; /* the ranks that work together, and which of them this process is */

/* Starts MPI.  From now on, a rank that ends with an error ends the whole job with its status. */
struct dist *dist_start(void);
void dist_finish(struct dist *dist);
int dist_rank(const struct dist *dist);
int dist_size(const struct dist *dist);
/* The first `ranks` of them alone; NULL in the others.  To be called by all, and freed by
 * dist_part_finish. */
struct dist *dist_part(struct dist *dist, int ranks);
void dist_part_finish(struct dist *part);

/* What `prefill` does, on all ranks together: rank 0 reads the operands and writes the output,
 * whose bytes are those that one process alone would write. */
void dist_prefill(struct dist *dist, const struct prefill_options *options, char **operands,
                  int n_operands);

#endif
