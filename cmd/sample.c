/* sample: logits in, one token each out, and the conditions that end a text. */
#include "options.h"
#include "stage/answer.h"
#include "stage/sampling.h"

#include <inttypes.h>
#include <stdlib.h>

static struct seed seed;
static struct naming naming;
static struct texts stops;
static struct sampling_options sampling = {
    .chain = {.typical = 1, .top_p = 1, .xtc_threshold = 0.1, .dynatemp_exponent = 1},
    .limit = -1,
    .continuations = 1,
    .n_logprobs = -1,
    .stops = &stops,
    .naming = &naming,
};
static const char *output_path, *order, *mirostat;
static bool force;

static const struct option_spec options[] = {
    ROW_PREDICT(&sampling.limit, 0),
    ROW_CONTINUATIONS(&sampling.continuations, 0),
    ROW_TEMPERATURE(&sampling.chain.temperature, 0),
    ROW_TOP_K(&sampling.chain.top_k, 0),
    ROW_TOP_P(&sampling.chain.top_p, 0),
    ROW_MIN_P(&sampling.chain.min_p, 0),
    ROW_TYPICAL(&sampling.chain.typical, 0),
    ROW_TOP_N_SIGMA(&sampling.chain.top_n_sigma, 0),
    ROW_XTC_PROBABILITY(&sampling.chain.xtc_probability, 0),
    ROW_XTC_THRESHOLD(&sampling.chain.xtc_threshold, 0),
    ROW_DYNATEMP_RANGE(&sampling.chain.dynatemp_range, 0),
    ROW_DYNATEMP_EXP(&sampling.chain.dynatemp_exponent, 0),
    ROW_ORDER(&order, 0),
    ROW_MIROSTAT(&mirostat, 0),
    ROW_LOGPROBS(&sampling.n_logprobs, 0),
    ROW_SEED(&seed, 0),
    ROW_STOP(&stops, 0),
    ROW_IGNORE_EOS(&sampling.ignore_eos, 0),
    ROW_MODEL(&naming.model, 0),
    ROW_OUTPUT(&output_path),
    ROW_FORCE(&force),
    ROW_VERBOSE(&sampling.verbose, 0),
    {0},
};
static const struct program program = {
    "[STREAM ...]",
    "Choose a token from each distribution: logits in, tokens out, until the text ends.", options};

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);

    struct output output;
    struct record_writer writer = {.output = &output};
    struct error error;
    char words[400];
    struct select_options *chain = &sampling.chain;
    if (mirostat)
        die(STATUS_USAGE,
            "--mirostat: not there: it steers by what was drawn before, so a token would not be a "
            "function of the stream and the seed; --typical, --top-n-sigma and --dynatemp-range "
            "are");
    if ((order && !select_parse_order(order, chain, &error)) || !select_check_order(chain, &error))
        die(error.status, "--order: %s", error.text);
    answer_check_stops(&stops);
    answer_check_continuations(sampling.continuations, chain->temperature);
    chain->seed = seed.value;
    select_describe(chain, words, sizeof words);
    if (sampling.verbose)
        warn("seed %" PRIu64 ", %s", seed.value, words);
    else if (seed.random)
        warn("seed %" PRIu64, seed.value);
    output_open(&output, output_path, true, force);
    record_writer_report_errors(&writer);
    struct record_reader *reader = reader_open(argv + first, argc - first);
    if (stops.count)
        naming_open(&naming, "stop");
    struct sampling *s = sampling_new(&sampling, reader, &writer);

    answer_loop(&(struct answerer){s, sampling_take, sampling_ended, sampling_finish}, reader,
                &output);
    sampling_free(s);
    naming_close(&naming);
    reader_close(reader);
    record_writer_free(&writer);
    free(stops.item);
    return program_end();
}
