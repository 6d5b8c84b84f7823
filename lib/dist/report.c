#include "dist/internal.h"

#include <stdlib.h>

void report_accounts(struct dist *d)
{
    struct account *all = allocate((size_t)d->size, sizeof *all);
    MPI_Gather(&d->account, sizeof *all, MPI_BYTE, all, sizeof *all, MPI_BYTE, 0, d->comm);
    double compute = 0, longest = 0;
    for (int i = 0; d->rank == 0 && i < d->size; i++) {
        const struct account *a = &all[i];
        warn("rank %d on %s: %llu positions; compute %.3f s, wait %.3f s, transfer %.3f s; "
             "%.1f MB private memory; %llu bytes sent",
             i, a->host, (unsigned long long)a->positions, a->compute, a->wait, a->transfer,
             (double)a->memory / 1e6, (unsigned long long)a->bytes_sent);
        compute += a->compute;
        longest = a->total > longest ? a->total : longest;
    }
    if (d->rank == 0 && longest > 0)
        warn("%d ranks, %.3f s from the first layer to the last: parallel efficiency %.1f %% (the "
             "share of it that they computed)",
             d->size, longest, 100 * compute / (d->size * longest));
    free(all);
}
