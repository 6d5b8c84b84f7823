/* Ranks: how they begin, how they end, and how one's error becomes the job's. */
#include "dist/internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- beginning and end ----------------------------------------------------------------------- */

static bool ended; /* MPI is, or is about to be */

/* Whoever leaves before dist_finish takes the others along. */
static void abort_others(int status, void *context)
{
    struct dist *d = context;
    if (!ended) {
        ended = true;
        MPI_Abort(d->comm, status);
    }
}

static void listen_for_errors(struct dist *d)
{
    d->failing = MPI_REQUEST_NULL;
    if (d->rank == 0)
        MPI_Irecv(&d->failure, sizeof d->failure, MPI_BYTE, MPI_ANY_SOURCE, TAG_ERROR, d->comm,
                  &d->failing);
}

static void stop_listening(struct dist *d)
{
    if (d->failing != MPI_REQUEST_NULL) {
        MPI_Cancel(&d->failing);
        MPI_Wait(&d->failing, MPI_STATUS_IGNORE);
    }
}

static struct dist *dist_new(MPI_Comm comm)
{
    struct dist *d = allocate(1, sizeof *d);
    d->comm = comm;
    MPI_Comm_rank(comm, &d->rank);
    MPI_Comm_size(comm, &d->size);
    gethostname(d->account.host, sizeof d->account.host - 1);
    listen_for_errors(d);
    return d;
}

struct dist *dist_start(void)
{
    int level;
    MPI_Comm comm;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    struct dist *d = dist_new(comm);
    on_exit(abort_others, d);
    if (d->size == 1 && prefill_launched_ranks() > 1)
        die(STATUS_SYSTEM,
            "the launcher started %d ranks, but MPI sees one: they are not of the same MPI",
            prefill_launched_ranks());
    if (d->rank > 0) {
        char name[160];
        snprintf(name, sizeof name, "%.60s: rank %d on %s", program_name, d->rank, d->account.host);
        program_name = copy_string(name);
    }
    return d;
}

void dist_finish(struct dist *d)
{
    stop_listening(d);
    ended = true;
    MPI_Comm_free(&d->comm);
    MPI_Finalize();
}

struct dist *dist_part(struct dist *d, int ranks)
{
    MPI_Comm comm;
    MPI_Comm_split(d->comm, d->rank < ranks ? 0 : MPI_UNDEFINED, d->rank, &comm);
    return comm == MPI_COMM_NULL ? NULL : dist_new(comm);
}

void dist_part_finish(struct dist *part)
{
    stop_listening(part);
    MPI_Comm_free(&part->comm);
    free(part);
}

int dist_rank(const struct dist *d)
{
    return d->rank;
}

int dist_size(const struct dist *d)
{
    return d->size;
}

/* ---- errors ---------------------------------------------------------------------------------- */

void dist_wait(struct dist *d, MPI_Request *request)
{
    if (d->rank > 0 || *request == MPI_REQUEST_NULL) {
        MPI_Wait(request, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Request both[2] = {*request, d->failing};
    int which;
    MPI_Waitany(2, both, &which, MPI_STATUS_IGNORE);
    *request = both[0];
    d->failing = both[1];
    if (which == 1)
        die((enum status)d->failure.status, "%s", d->failure.text);
}

void dist_meet(struct dist *d)
{
    MPI_Request request;
    MPI_Ibarrier(d->comm, &request);
    dist_wait(d, &request);
}

static void name_rank(const struct dist *d, const struct error *error, struct failure *failure)
{
    failure->status = (int32_t)error->status;
    snprintf(failure->text, sizeof failure->text, "rank %d on %s: %.400s", d->rank, d->account.host,
             error->text);
}

void dist_fail(struct dist *d, const struct error *error)
{
    struct failure failure;
    MPI_Request request;
    name_rank(d, error, &failure);
    if (d->rank == 0)
        die(error->status, "%s", d->size > 1 ? failure.text : error->text);
    MPI_Isend(&failure, sizeof failure, MPI_BYTE, 0, TAG_ERROR, d->comm, &request);
    for (int i = 0; i < 200; i++) { /* rank 0 ends us; if it cannot, this does */
        int done;
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    die_error(error);
}

void dist_agree(struct dist *d, bool ok, const struct error *error)
{
    int mine = ok ? d->size : d->rank, first;
    struct failure failure = {0};
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, d->comm);
    if (first == d->size)
        return;
    if (first == d->rank)
        name_rank(d, error, &failure);
    MPI_Bcast(&failure, sizeof failure, MPI_BYTE, first, d->comm);
    if (d->rank == 0)
        die((enum status)failure.status, "%s", failure.text);
    for (;;) /* rank 0 ends us */
        dist_meet(d);
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

/* Where the ranks of a machine may use the same CPUs (--bind-to none), each gets its part of them.
 */
int dist_cpus(const struct dist *d)
{
    MPI_Comm local;
    cpu_set_t mine, all;
    int ranks, available = threads_available(), sum = 0;
    MPI_Comm_split_type(d->comm, MPI_COMM_TYPE_SHARED, d->rank, MPI_INFO_NULL, &local);
    MPI_Comm_size(local, &ranks);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0)
        CPU_ZERO(&mine);
    cpu_set_t *set = allocate((size_t)ranks, sizeof *set);
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, set, sizeof mine, MPI_BYTE, local);
    MPI_Comm_free(&local);
    CPU_ZERO(&all);
    for (int i = 0; i < ranks; i++) {
        CPU_OR(&all, &all, &set[i]);
        sum += CPU_COUNT(&set[i]);
    }
    free(set);
    int share = sum ? available * CPU_COUNT(&all) / sum : available;
    return share < 1 ? 1 : share;
}
