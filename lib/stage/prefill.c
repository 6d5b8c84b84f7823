#include "stage/prefill.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- a state to go on from ------------------------------------------------------------------ */

static uint32_t common_prefix(const struct sequence *a, const struct sequence *b)
{
    uint32_t n = 0;
    while (n < a->n_tokens && n < b->n_tokens && a->tokens[n] == b->tokens[n])
        n++;
    return n;
}

uint32_t prefill_reusable(const struct lane *lane, const struct state *old,
                          const struct lane **best)
{
    uint32_t length = 0;
    *best = NULL;
    for (size_t i = 0; i < old->n_lanes; i++) {
        uint32_t n = common_prefix(lane->tokens, old->lane[i]->tokens);
        n = n < old->lane[i]->cache.n_positions ? n : old->lane[i]->cache.n_positions;
        if (n > length) {
            *best = old->lane[i];
            length = n;
        }
    }
    return length < lane_end(lane) ? length : lane_end(lane) - 1;
}

/* ---- the MPI build --------------------------------------------------------------------------- */

static int64_t number_in(const char *variable)
{
    int64_t value;
    const char *text = getenv(variable);
    return text && parse_integer(text, 0, 1 << 30, &value) ? value : 0;
}

/* SLURM_NTASKS does not count: a plain batch script has it too. */
int prefill_launched_ranks(void)
{
    int64_t open_mpi = getenv("PMIX_RANK") ? number_in("OMPI_COMM_WORLD_SIZE") : 0;
    int64_t slurm = number_in("SLURM_STEP_NUM_TASKS"), pmi = number_in("PMI_SIZE");
    int64_t most = open_mpi > slurm ? open_mpi : slurm;
    most = most > pmi ? most : pmi;
    return most > 1 ? (int)most : 1;
}

void prefill_hand_over(const struct prefill_options *options, char **argv)
{
    int ranks = prefill_launched_ranks();
    if (options->mpi == PREFILL_MPI_NEVER || (options->mpi == PREFILL_MPI_AUTO && ranks == 1))
        return;
    if (options->window)
        die(STATUS_USAGE, "--window runs on one rank, but this is one of %d", ranks);
    char path[4300], *folder = program_folder();
    snprintf(path, sizeof path, "%s../libexec/unroll/prefill-mpi", folder);
    free(folder);
    setenv("UNROLL_MODEL", model_path(options->engine.model),
           1); /* it is found from this program's folder */
    execv(path, argv);
    if (ranks > 1)
        die(STATUS_SYSTEM,
            "started as one of %d ranks, but %s cannot be started (--mpi never runs alone):", ranks,
            path);
    die(STATUS_SYSTEM, "%s cannot be started:", path);
}
