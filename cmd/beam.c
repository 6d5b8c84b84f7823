/* beam: logits in; the most probable of many continuations out, by beam search, in the place of
 * `sample`. */
#include "options.h"
#include "stage/answer.h"
#include "stage/search.h"

#include <stdlib.h>
#include <string.h>

static int64_t width = BEAM_WIDTH, n_best = 1;
static int stopping;
static struct naming naming;
static struct texts stops;
static struct search_options search = {
    .beam.length_penalty = 1, .limit = -1, .stops = &stops, .naming = &naming};
static const char *output_path;
static bool force;

static const struct option_spec options[] = {
    ROW_BEAM_WIDTH(&width, 0),
    ROW_LENGTH_PENALTY(&search.beam.length_penalty, 0),
    ROW_EARLY_STOPPING(&stopping, 0),
    ROW_CONTINUATIONS(&n_best, 0),
    ROW_PREDICT(&search.limit, 0),
    ROW_STOP(&stops, 0),
    ROW_IGNORE_EOS(&search.ignore_eos, 0),
    ROW_MODEL(&naming.model, 0),
    ROW_OUTPUT(&output_path),
    ROW_FORCE(&force),
    ROW_VERBOSE(&search.verbose, 0),
    {0},
};
static const struct program program = {
    "[STREAM ...]",
    "Search for the most probable continuation: logits in; tokens, forks and ends out.", options};

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);

    struct output output;
    struct record_writer writer = {.output = &output};
    answer_check_best(n_best, width);
    answer_check_stops(&stops);
    search.beam.width = (uint32_t)width;
    search.beam.n_best = (uint32_t)n_best;
    search.beam.stopping = (enum beam_stopping)stopping;
    output_open(&output, output_path, true, force);
    record_writer_report_errors(&writer);
    struct record_reader *reader = reader_open(argv + first, argc - first);
    if (stops.count)
        naming_open(&naming, "stop");
    struct searches *searches = searches_new(&search, reader, &writer);

    answer_loop(&(struct answerer){searches, searches_take, searches_ended, searches_finish},
                reader, &output);
    searches_free(searches);
    naming_close(&naming);
    reader_close(reader);
    record_writer_free(&writer);
    free(stops.item);
    return program_end();
}
