/* prefill: evaluates all tokens that the cache does not hold yet, many at once; tokens, or a state and
 * tokens, in; a state out. */
#include "options.h"
#include "stage/stage.h"

#include <stdio.h>

static struct engine_options engine_options;
static const char *output_path, *reuse_path;
static bool compress, force;
static int logits_choice;

static const struct option_spec options[] = {
    ROW_MODEL(&engine_options.model, 0),
    ROW_CONTEXT(&engine_options.context, 0),
    ROW_BATCH(&engine_options.batch, 0),
    ROW_THREADS(&engine_options.threads, 0),
    ROW_CACHE_TYPE(&engine_options.cache_type, 0),
    ROW_REPACK(&engine_options.repack, 0),
    {0, "logits", "last|all", OPTION_CHOICE, &logits_choice, 0, 0,
     "logits of the last position, or of every position evaluated", 0},
    ROW_REUSE(&reuse_path, 0),
    ROW_OUTPUT(&output_path),
    ROW_COMPRESS(&compress),
    ROW_FORCE(&force),
    ROW_VERBOSE(&engine_options.verbose, 0),
    {0},
};
static const struct program program = {
    "[STREAM ...]", "Evaluate the tokens of a prompt in one parallel pass: tokens (or a state and tokens) in, a state out.",
    options};

/* Longest common prefix of two sequences' tokens. */
static uint32_t common_prefix(const struct sequence *a, const struct sequence *b)
{
    uint32_t n = 0;
    while (n < a->n_tokens && n < b->n_tokens && a->tokens[n] == b->tokens[n])
        n++;
    return n;
}

/* Shares with each lane that has no cache yet the pages of the sequence of `old` that has the longest prefix in
 * common; all but the last token at most, since its logits are wanted. */
static void reuse(const struct engine *engine, struct state *state, const struct state *old)
{
    for (size_t i = 0; i < state->n_lanes; i++) {
        struct lane *lane = state->lane[i];
        const struct lane *best = NULL;
        uint32_t length = 0;
        for (size_t j = 0; j < old->n_lanes && lane->cache.n_positions == 0; j++) {
            uint32_t n = common_prefix(lane->tokens, old->lane[j]->tokens);
            n = n < old->lane[j]->cache.n_positions ? n : old->lane[j]->cache.n_positions;
            if (n > length) {
                best = old->lane[j];
                length = n;
            }
        }
        length = length < lane_end(lane) ? length : lane_end(lane) - 1;
        if (best && length > 0)
            cache_share(&lane->cache, &best->cache, length);
        if (engine->verbose)
            warn("sequence %u: %u of %u positions reused", lane->tokens->id, best ? length : 0, lane_end(lane));
    }
}

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);

    struct output output;
    struct record_writer writer = {.output = &output, .compress = compress};
    struct engine engine;
    struct state state, old = {0};
    output_open(&output, output_path, true, force);
    struct record_reader *reader = reader_open(argv + first, argc - first);
    struct record_reader *old_reader = reuse_path ? reader_open((char **)&reuse_path, 1) : NULL;
    engine_open(&engine, &engine_options);
    state_init(&state, reader, &engine.facts);
    state_take_all(&state);
    for (size_t i = 0; i < state.n_lanes; i++)
        engine_check(&engine, state.lane[i], reader);
    if (state.n_lanes == 0)
        reader_die(reader, STATUS_INPUT, "no tokens in the input");
    if (old_reader) {
        state_init(&old, old_reader, &engine.facts);
        state_take_all(&old);
        reuse(&engine, &state, &old);
    }

    record_writer_report_errors(&writer);
    state_write_model(&writer, &engine.facts);
    for (size_t i = 0; i < state.n_lanes; i++) {
        struct lane *lane = state.lane[i];
        uint32_t n = lane_pending(lane);
        double begin = seconds_now();
        engine_advance_writing(&engine, lane, logits_choice == 1, &writer);
        double seconds = seconds_now() - begin;
        if (engine.verbose)
            warn("sequence %u: %u positions evaluated and written in %.1f ms (%.1f tokens/s); cache: %u positions, %llu bytes",
                 lane->tokens->id, n, 1e3 * seconds, n / seconds, lane_end(lane),
                 (unsigned long long)(lane_end(lane) * model_facts_position_bytes(&engine.facts)));
    }

    output_close(&output);
    record_writer_free(&writer);
    state_free(&state);
    if (old_reader)
        state_free(&old);
    reader_close(old_reader);
    reader_close(reader);
    engine_close(&engine);
    return program_end();
}
