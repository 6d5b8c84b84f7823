/* generate: text in, text out.  Starts tokenize, prefill, decode-step, sample and detok, wires them into the
 * loop, and keeps one end of it in hand: what sample answers goes back to decode-step and on to detok. */
#include "options.h"
#include "stage/pipeline.h"
#include "stage/report.h"
#include "stage/stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *model, *prompt, *file, *state, *trace;
static bool echo, verbose;

enum { TO_ALL = TO_TOKENIZE | TO_PREFILL | TO_DECODE | TO_SAMPLE | TO_DETOK, TO_MODEL = TO_PREFILL | TO_DECODE };
static const struct option_spec options[] = {
    ROW_MODEL(&model, TO_ALL),
    ROW_PROMPT(&prompt),
    ROW_FILE(&file),
    ROW_SPECIAL(NULL, TO_TOKENIZE),
    ROW_BOS(NULL, TO_TOKENIZE),
    ROW_PRE(NULL, TO_TOKENIZE),
    ROW_CONTEXT(NULL, TO_MODEL),
    ROW_BATCH(NULL, TO_PREFILL),
    ROW_THREADS(NULL, TO_MODEL),
    ROW_CACHE_TYPE(NULL, TO_MODEL),
    ROW_REPACK(NULL, TO_MODEL),
    ROW_NO_CACHE(NULL, TO_DECODE),
    {0, "state", "FILE", OPTION_TEXT, &state, 0, 0, "go on from a saved state; the text is appended to it", 0},
    ROW_REUSE(NULL, TO_PREFILL),
    ROW_SAVE(NULL, TO_DECODE),
    ROW_PREDICT(NULL, TO_SAMPLE),
    ROW_TEMPERATURE(NULL, TO_SAMPLE),
    ROW_TOP_K(NULL, TO_SAMPLE),
    ROW_TOP_P(NULL, TO_SAMPLE),
    ROW_MIN_P(NULL, TO_SAMPLE),
    ROW_SEED(NULL, TO_SAMPLE),
    ROW_STOP(NULL, TO_SAMPLE),
    ROW_IGNORE_EOS(NULL, TO_SAMPLE),
    {0, "echo", NULL, OPTION_FLAG, &echo, 0, 0, "print what came before the continuation too", 0},
    ROW_RAW(NULL, TO_DETOK),
    {0, "trace", "[=FILE]", OPTION_TEXT, &trace, 0, 0,
     "a line per step on standard error, or tab-separated in FILE", 0},
    ROW_VERBOSE(&verbose, TO_MODEL | TO_SAMPLE),
    {0},
};
static const struct program program = {"[TEXT ... | -]", "Continue a text: the whole loop, closed.", options};

/* A stage's arguments: argv[0] is filled in later; room for every option and a few words of ours. */
struct arguments {
    const char **word;
    size_t n;
    size_t n_options; /* words that were made here, after the first */
};

static void arguments_free(struct arguments *a)
{
    for (size_t i = 0; i < a->n_options; i++)
        free((char *)(uintptr_t)a->word[i + 1]);
    free(a->word);
}

static void add(struct arguments *a, const char *word)
{
    a->word = reallocate(a->word, a->n + 2, sizeof *a->word);
    a->word[a->n++] = word;
    a->word[a->n] = NULL;
}

static struct arguments arguments_for(unsigned stage, const struct given *given, size_t n_given)
{
    struct arguments a = {0};
    add(&a, "");
    for (size_t i = 0; i < n_given; i++) {
        if (!(given[i].option->forward & stage))
            continue;
        size_t size = strlen(given[i].option->name) + (given[i].value ? strlen(given[i].value) : 0) + 4;
        char *word = allocate(size, 1);
        snprintf(word, size, "--%s%s%s", given[i].option->name, given[i].value ? "=" : "", given[i].value ? given[i].value : "");
        add(&a, word);
        a.n_options++;
    }
    return a;
}

/* Our standard input is the text and our standard output the continuation: neither is a state too. */
static void refuse_streams(const struct given *given, size_t n_given)
{
    static const char *const options_of_files[] = {"state", "reuse", "save", "model"};
    for (size_t i = 0; i < n_given; i++)
        for (size_t k = 0; k < 4; k++)
            if (strcmp(given[i].option->name, options_of_files[k]) == 0 &&
                (strcmp(given[i].value, "-") == 0 || strncmp(given[i].value, "/dev/std", 8) == 0))
                die(STATUS_USAGE, "--%s: expected the name of a file, found '%s'", given[i].option->name, given[i].value);
}

/* Where the text comes from: the words that tokenize gets, and whether it reads our standard input. */
static bool text_arguments(struct arguments *a, char **operands, int n)
{
    bool dash = n == 1 && strcmp(operands[0], "-") == 0, any = prompt || file || n > 0;
    if ((prompt != NULL) + (file != NULL) + (n > 0) > 1)
        die(STATUS_USAGE, "give the text once: as operands, by -p, or by -f");
    if (state)
        add(a, "--append");
    if (!any && isatty(0) && !state)
        die(STATUS_USAGE, "no text: give it as an argument, by -f FILE, or on standard input");
    if (dash && isatty(0))
        die(STATUS_USAGE, "standard input is a terminal: give the text as an argument or by -f FILE");
    if (file) {
        add(a, "-f");
        add(a, file);
    }
    add(a, "--");
    if (prompt)
        add(a, prompt);
    for (int i = 0; i < n; i++)
        add(a, operands[i]);
    if (!any && isatty(0))
        add(a, ""); /* from a state, nothing is appended */
    return dash || !any || (file && (strcmp(file, "-") == 0 || strcmp(file, "/dev/stdin") == 0));
}

/* What passes through our hands: questions only where somebody wants to see them. */
struct tap {
    struct report report;
    struct relay relay[2]; /* questions, answers */
    bool begun; /* the first logits have passed */
};

static void see_question(void *context, const struct record *record, const uint8_t *payload)
{
    struct tap *tap = context;
    report_question(&tap->report, record, payload);
    tap->begun |= record->type == RECORD_LOGITS;
    if (echo && !tap->begun && record->type == RECORD_TOKENS) {
        outlet_put(&tap->relay[1].out[1], tap->relay[0].header, RECORD_HEADER);
        outlet_put(&tap->relay[1].out[1], payload, (size_t)record_padded(record->length));
    }
}

static void see_answer(void *context, const struct record *record, const uint8_t *payload)
{
    report_answer(&((struct tap *)context)->report, record, payload);
}

static struct vocab *open_vocabulary(struct gguf **gguf)
{
    struct error error;
    *gguf = gguf_open(model_path(model), &error);
    struct vocab *vocab = *gguf ? vocab_open(*gguf, NULL, &error) : NULL;
    if (!vocab)
        die_error(&error);
    return vocab;
}

int main(int argc, char **argv)
{
    struct given *given;
    size_t n_given;
    program_start(argv);
    int first = options_parse(&program, argc, argv, &given, &n_given);
    struct arguments words[5];
    for (size_t i = 0; i < 5; i++)
        words[i] = arguments_for(1u << i, given, n_given);
    refuse_streams(given, n_given);
    bool reads_input = text_arguments(&words[0], argv + first, argc - first);
    add(&words[1], "--mpi=never");
    add(&words[2], "--stream");
    if (state) {
        add(&words[1], state);
        add(&words[1], "-");
    }

    struct tap tap = {.report.begin = seconds_now()};
    FILE *trace_file = !trace ? NULL : *trace ? fopen(trace, "we") : stderr;
    if (trace && !trace_file)
        die(STATUS_SYSTEM, "%s: cannot open for writing:", trace);
    struct gguf *gguf = NULL;
    struct vocab *vocab = NULL;
    if (trace) {
        tap.report.vocab = vocab = open_vocabulary(&gguf);
        report_trace(&tap.report, trace_file, *trace);
    }
    bool watched = verbose || trace || echo;
    struct pipeline pipeline;
    int tokens[2], begin[2], back[2], logits[2], copied[2] = {-1, -1}, chosen[2], text[2];
    pipeline_init(&pipeline);
    pipeline_pipe(tokens);
    pipeline_pipe(begin);
    pipeline_pipe(back);
    pipeline_pipe(logits);
    if (watched)
        pipeline_pipe(copied);
    pipeline_pipe(chosen);
    pipeline_pipe(text);
    char begin_name[32], back_name[32];
    snprintf(begin_name, sizeof begin_name, "/dev/fd/%d", begin[0]);
    snprintf(back_name, sizeof back_name, "/dev/fd/%d", back[0]);
    add(&words[2], begin_name);
    add(&words[2], back_name);
    int nothing = pipeline_null();
    pipeline_start(&pipeline, "tokenize", words[0].word, reads_input ? 0 : nothing, tokens[1], -1, -1);
    pipeline_start(&pipeline, "prefill", words[1].word, tokens[0], begin[1], -1, -1);
    pipeline_start(&pipeline, "decode-step", words[2].word, pipeline_null(), logits[1], begin[0], back[0]);
    pipeline_start(&pipeline, "sample", words[3].word, watched ? copied[0] : logits[0], chosen[1], -1, -1);
    pipeline_start(&pipeline, "detok", words[4].word, text[0], 1, -1, -1);

    tap.relay[0] = (struct relay){
        .in = watched ? logits[0] : -1, .bounded = true, .out = {{.fd = copied[1]}, {.fd = -1}}, .see = see_question, .context = &tap};
    tap.relay[1] = (struct relay){
        .in = chosen[0], .out = {{.fd = back[1]}, {.fd = text[1]}}, .see = watched ? see_answer : NULL, .context = &tap};
    int status = pipeline_run(&pipeline, tap.relay, 2);
    if (verbose && status == STATUS_OK)
        report_print(&tap.report);
    if (trace_file && trace_file != stderr && fclose(trace_file) && !tap.report.trace_errno)
        tap.report.trace_errno = errno;
    errno = tap.report.trace_errno;
    if (errno && *trace)
        die(STATUS_SYSTEM, "%s: cannot write:", trace);
    for (size_t i = 0; i < 5; i++)
        arguments_free(&words[i]);
    pipeline_free(&pipeline, tap.relay, 2);
    report_free(&tap.report);
    vocab_close(vocab);
    gguf_close(gguf);
    free(given);
    return status;
}
