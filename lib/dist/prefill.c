/* The whole of it, from the operands to the output. */
#include "dist/internal.h"

#include <stdlib.h>
#include <string.h>

/* One launch may give each rank other options: those that all must follow are compared. */
static void agree_on_options(struct dist *d, const struct prefill_options *options)
{
    int mine[2] = {options->logits, options->parallel_write}, first[2];
    struct error error;
    memcpy(first, mine, sizeof first);
    MPI_Bcast(first, 2, MPI_INT, 0, d->comm);
    bool ok = mine[0] == first[0] && mine[1] == first[1];
    if (!ok)
        error_set(&error, STATUS_USAGE, "--logits and --parallel-write must be as on rank 0");
    dist_agree(d, ok, &error);
}

/* All ranks must have the same model, and keep the cache in the same way. */
static void open_same(struct dist *d, struct engine *engine, struct engine_options options)
{
    struct error error;
    int cpus = threads_available(), share = dist_cpus(d);
    if (options.threads > cpus)
        warn("%d threads, but this rank may use %d CPU%s; see --bind-to in mpirun(1)",
             (int)options.threads, cpus, cpus > 1 ? "s" : "");
    if (!options.threads)
        options.threads = share;
    bool ok = engine_try_open(engine, &options, &error);
    dist_agree(d, ok, &error);

    struct model_facts first = engine->facts;
    MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, d->comm);
    const struct model_facts *f = &engine->facts;
    if (f->model_fingerprint != first.model_fingerprint ||
        f->vocabulary_fingerprint != first.vocabulary_fingerprint)
        ok = error_set(&error, STATUS_INPUT,
                       "model '%s' has fingerprint %08x and vocabulary %08x, that of rank 0 is "
                       "'%s' with %08x and %08x",
                       f->name, f->model_fingerprint, f->vocabulary_fingerprint, first.name,
                       first.model_fingerprint, first.vocabulary_fingerprint);
    else if (!model_facts_agree(f, &first, &error))
        ok = error_prefix(&error, "not as on rank 0");
    dist_agree(d, ok, &error);
}

void dist_prefill(struct dist *d, const struct prefill_options *options, char **operands,
                  int n_operands)
{
    struct engine engine;
    struct sink sink;
    struct input input;
    const char *host = d->account.host;
    struct account account = {0};
    memcpy(account.host, host, sizeof account.host);
    d->account = account;
    sink_open(&sink, d, options);
    agree_on_options(d, options);
    open_same(d, &engine, options->engine);
    input_read(&input, d, &engine, options->reuse, operands, n_operands);
    sink_begin(&sink, &engine);
    for (size_t i = 0; i < input.n_parts; i++) {
        struct part *part = &input.part[i];
        struct division division = {part->cache->n_positions, part->end, (uint32_t)d->size,
                                    getenv("UNROLL_MPI_PLAIN_CHUNKS") != NULL};
        struct model_pass *pass = NULL;
        if (division.held < division.end)
            pass = evaluate_part(d, &engine, part, &division, sink.every);
        dist_meet(d);
        sink_part(&sink, part, &division, pass);
        model_pass_end(pass);
    }
    sink_close(&sink);
    if (engine.verbose)
        report_accounts(d);
    input_free(&input, d);
    engine_close(&engine);
}
