/* prefill: evaluates all tokens that the cache does not hold yet, many at once; tokens, or a state
 * and tokens, in; a state out. */
#include "options.h"
#include "stage/prefill.h"
#include "stage/window.h"

#ifdef UNROLL_MPI
#include "dist/dist.h"
#endif

#include <stdlib.h>
#include <string.h>

static struct prefill_options given;

static const struct option_spec options[] = {
    ROW_MODEL(&given.engine.model, 0),
    ROW_CONTEXT(&given.engine.context, 0),
    ROW_BATCH(&given.engine.batch, 0),
    ROW_THREADS(&given.engine.threads, 0),
    ROW_CACHE_TYPE(&given.engine.cache_type, 0),
    ROW_REPACK(&given.engine.repack, 0),
    {0, "logits", "last|all", OPTION_CHOICE, &given.logits, 0, 0,
     "logits of the last position, or of every position evaluated", 0},
    {0, "window", "N", OPTION_INTEGER, &given.window, 2, 16777216,
     "with --logits all: a text of any length, in windows of N positions", 0},
    {0, "stride", "N", OPTION_INTEGER, &given.stride, 1, 16777216,
     "tokens from one window to the next (default: half a window)", 0},
    ROW_REUSE(&given.reuse, 0),
    ROW_OUTPUT(&given.output),
    ROW_COMPRESS(&given.compress),
    ROW_FORCE(&given.force),
    {0, "mpi", "auto|never|always", OPTION_CHOICE, &given.mpi, 0, 0,
     "divide the positions over the ranks of an MPI job: when started as one of several (auto), "
     "...",
     0},
    {0, "parallel-write", NULL, OPTION_FLAG, &given.parallel_write, 0, 0,
     "every rank writes its part into the file of -o, which must be on a shared file system", 0},
    ROW_VERBOSE(&given.engine.verbose, 0),
    {0},
};
static const struct program program = {"[STREAM ...]",
                                       "Evaluate the tokens of a prompt in one parallel pass: "
                                       "tokens (or a state and tokens) in, a state out.",
                                       options};

#ifdef UNROLL_MPI

/* The MPI build, which lies in libexec and is started by the other. */
static void run(char **argv, char **operands, int n_operands)
{
    (void)argv;
    struct dist *dist = dist_start();
    dist_prefill(dist, &given, operands, n_operands);
    dist_finish(dist);
}

#else

/* Each lane that has no cache yet shares the pages of the longest prefix that `old` has. */
static void reuse(struct state *state, const struct state *old, bool verbose)
{
    for (size_t i = 0; i < state->n_lanes; i++) {
        struct lane *lane = state->lane[i];
        const struct lane *best;
        uint32_t length = lane->cache.n_positions == 0 ? prefill_reusable(lane, old, &best) : 0;
        if (length > 0)
            cache_share(&lane->cache, &best->cache, length);
        if (verbose)
            warn("sequence %u: %u of %u positions reused", lane->tokens->id, length,
                 lane_end(lane));
    }
}

/* Every window is evaluated from its beginning, so there is nothing to go on from. */
static void check_window(const struct engine *engine, const struct lane *lane,
                         struct record_reader *reader)
{
    if (given.window > engine->facts.n_context)
        reader_die(reader, STATUS_USAGE, "--window %lld, but the context is %u",
                   (long long)given.window, engine->facts.n_context);
    if (lane->tokens->first > 0 || lane->cache.n_positions > 0)
        reader_die(reader, STATUS_INPUT,
                   "sequence %u %s: --window takes texts from their beginning, without a cache",
                   lane->tokens->id,
                   lane->tokens->first ? "does not begin at position 0" : "has a cache");
    if (lane_end(lane) == 0)
        reader_die(reader, STATUS_INPUT, "sequence %u holds no token: there is nothing to evaluate",
                   lane->tokens->id);
}

static void run(char **argv, char **operands, int n_operands)
{
    prefill_hand_over(&given, argv);
    if (given.parallel_write)
        die(STATUS_USAGE, "--parallel-write is for a prefill on several ranks (--mpi)");
    struct output output;
    struct record_writer writer = {.output = &output, .compress = given.compress};
    struct engine engine;
    struct state state, old = {0};
    output_open(&output, given.output, true, given.force);
    record_writer_report_errors(&writer);
    struct record_reader *reader = reader_open(operands, n_operands);
    struct record_reader *old_reader = given.reuse ? reader_open((char **)&given.reuse, 1) : NULL;
    engine_open(&engine, &given.engine);
    state_init(&state, reader, &engine.facts);
    state_take_all(&state);
    for (size_t i = 0; i < state.n_lanes; i++)
        given.window ? check_window(&engine, state.lane[i], reader)
                     : engine_check(&engine, state.lane[i], reader);
    if (state.n_lanes == 0)
        reader_die(reader, STATUS_INPUT, "no tokens in the input");
    if (old_reader) {
        state_init(&old, old_reader, &engine.facts);
        state_take_all(&old);
        reuse(&state, &old, engine.verbose);
    }

    state_write_model(&writer, &engine.facts);
    for (size_t i = 0; i < state.n_lanes; i++) {
        struct lane *lane = state.lane[i];
        if (given.window) {
            window_write(&engine, lane, (uint32_t)given.window, (uint32_t)given.stride, &writer);
            continue;
        }
        uint32_t n = lane_pending(lane);
        double begin = seconds_now();
        engine_advance_writing(&engine, lane, given.logits == 1, &writer);
        double seconds = seconds_now() - begin;
        if (engine.verbose)
            warn("sequence %u: %u positions evaluated and written in %.1f ms (%.1f tokens/s); "
                 "cache: %u positions, %llu bytes",
                 lane->tokens->id, n, 1e3 * seconds, n / seconds, lane_end(lane),
                 (unsigned long long)(lane_end(lane) * model_facts_position_bytes(&engine.facts)));
        lane_forget(lane);
    }

    output_close(&output);
    record_writer_free(&writer);
    state_free(&state);
    if (old_reader)
        state_free(&old);
    reader_close(old_reader);
    reader_close(reader);
    engine_close(&engine);
}

#endif

static void check_options(void)
{
    if (given.stride && !given.window)
        die(STATUS_USAGE, "--stride needs --window");
    if (given.window && given.logits != 1)
        die(STATUS_USAGE, "--window needs --logits all");
    if (given.window && (given.reuse || given.mpi == PREFILL_MPI_ALWAYS))
        die(STATUS_USAGE, "--window cannot be had with %s",
            given.reuse ? "--reuse" : "--mpi=always");
    if (given.window && !given.stride)
        given.stride = given.window / 2;
    if (given.window && given.stride >= given.window)
        die(STATUS_USAGE, "--stride %lld: expected less than --window, %lld",
            (long long)given.stride, (long long)given.window);
}

int main(int argc, char **argv)
{
    program_start(argv);
    char **words = allocate((size_t)argc + 1, sizeof *words); /* parsing changes the order */
    memcpy(words, argv, (size_t)argc * sizeof *words);
    int first = options_parse(&program, argc, argv, NULL, NULL);
    if (given.parallel_write && (!given.output || given.compress))
        die(STATUS_USAGE, "--parallel-write %s",
            given.output ? "cannot be had with --compress" : "needs -o FILE");
    check_options();
    run(words, argv + first, argc - first);
    free(words);
    return program_end();
}
