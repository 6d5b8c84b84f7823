/* decode-step: one forward pass for each new token.  A state and tokens in, the state that follows
 * out; with --stream the loop's half that holds the model: chosen tokens in, logits out. */
#include "options.h"
#include "stage/decode.h"
#include "stage/stage.h"

#include <stdio.h>

static struct engine_options engine_options = {.batch = 1};
static const char *output_path, *save_path;
static bool compress, force, stream, no_cache;

static const struct option_spec options[] = {
    ROW_MODEL(&engine_options.model, 0),
    {0, "stream", NULL, OPTION_FLAG, &stream, 0, 0,
     "write tokens and logits as they come, for the loop, and no cache", 0},
    ROW_NO_CACHE(&no_cache, 0),
    ROW_SAVE(&save_path, 0),
    ROW_CONTEXT(&engine_options.context, 0),
    ROW_THREADS(&engine_options.threads, 0),
    ROW_CACHE_TYPE(&engine_options.cache_type, 0),
    ROW_REPACK(&engine_options.repack, 0),
    ROW_OUTPUT(&output_path),
    ROW_COMPRESS(&compress),
    ROW_FORCE(&force),
    ROW_VERBOSE(&engine_options.verbose, 0),
    {0},
};
static const struct program program = {"[STREAM ...]",
                                       "One forward pass per new token: a state and tokens in, a "
                                       "state out; with --stream tokens and logits.",
                                       options};

/* Writes all lanes, some of them at a time evaluated first where they are not, as a state. */
static void write_state(struct engine *engine, struct state *state, struct record_writer *writer,
                        bool last)
{
    enum { TOGETHER = 64 };
    state_write_model(writer, &engine->facts);
    for (size_t begin = 0, end; begin < state->n_lanes; begin = end) {
        end = state->n_lanes - begin < TOGETHER ? state->n_lanes : begin + TOGETHER;
        decode_lanes(engine, state->lane + begin, end - begin);
        for (size_t i = begin; i < end; i++) {
            engine_write(engine, state->lane[i], writer);
            if (last)
                lane_forget(state->lane[i]);
        }
    }
}

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);

    if (no_cache && !stream)
        die(STATUS_USAGE, "--no-cache goes with --stream");

    struct output output, saved;
    struct record_writer writer = {.output = &output, .compress = compress};
    struct record_writer saver = {.output = &saved, .compress = compress};
    struct engine engine;
    struct state state;
    output_open(&output, output_path, true, force);
    record_writer_report_errors(&writer);
    if (save_path)
        output_open(&saved, save_path, true, force);
    struct record_reader *reader = reader_open(argv + first, argc - first);
    engine_open(&engine, &engine_options);
    state_init(&state, reader, &engine.facts);

    if (stream) {
        decode_stream(&engine, &state, &writer,
                      &(struct decode_options){.no_cache = no_cache, .keep = save_path != NULL});
    } else {
        state_take_all(&state);
        if (state.n_lanes == 0)
            reader_die(reader, STATUS_INPUT, "no tokens in the input");
        for (size_t i = 0; i < state.n_lanes; i++)
            engine_check(&engine, state.lane[i], reader);
        write_state(&engine, &state, &writer, !save_path);
    }
    output_close(&output);
    record_writer_free(&writer);
    if (save_path) {
        write_state(&engine, &state, &saver, true);
        output_close(&saved);
        record_writer_free(&saver);
    }
    state_free(&state);
    reader_close(reader);
    engine_close(&engine);
    return program_end();
}
