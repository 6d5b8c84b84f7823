/* generate: text in, text out.  Starts tokenize, prefill, decode-step, sample and detok, and
 * between them the filters that its options ask for; wires them into the loop, and keeps one end of
 * it in hand: what sample answers goes back to decode-step and on to detok. */
#include "options.h"
#include "stage/answer.h"
#include "stage/naming.h"
#include "stage/pipeline.h"
#include "stage/report.h"
#include "stage/stage.h"
#include "vocab/chat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *model, *prompt, *file, *state, *trace, *system_prompt, *user, *template;
static bool echo, verbose, lines, json, chat;
static int64_t continuations = 1, logprobs = -1, beam_width = BEAM_WIDTH;
static double temperature;

enum {
    TO_FILTERS = TO_PENALIZE | TO_CONSTRAIN,
    TO_SELECT = TO_SAMPLE | TO_BEAM, /* one of them */
    TO_OPTIONAL = TO_FILTERS | TO_BEAM,
    TO_ALL = TO_TOKENIZE | TO_PREFILL | TO_DECODE | TO_FILTERS | TO_SELECT | TO_DETOK,
    TO_MODEL = TO_PREFILL | TO_DECODE,
};
static const struct option_spec options[] = {
    ROW_MODEL(&model, TO_ALL),
    ROW_PROMPT(&prompt),
    ROW_FILE(&file),
    ROW_CHAT(&chat, TO_TOKENIZE),
    ROW_SYSTEM(&system_prompt, TO_TOKENIZE),
    ROW_USER(&user, TO_TOKENIZE),
    ROW_TEMPLATE(&template, TO_TOKENIZE),
    ROW_SPECIAL(NULL, TO_TOKENIZE),
    ROW_BOS(NULL, TO_TOKENIZE),
    ROW_LINES(&lines, TO_TOKENIZE),
    ROW_PRE(NULL, TO_TOKENIZE),
    ROW_CONTEXT(NULL, TO_MODEL),
    ROW_BATCH(NULL, TO_PREFILL),
    ROW_THREADS(NULL, TO_MODEL),
    ROW_CACHE_TYPE(NULL, TO_MODEL),
    ROW_REPACK(NULL, TO_MODEL),
    ROW_NO_CACHE(NULL, TO_DECODE),
    {0, "state", "FILE", OPTION_TEXT, &state, 0, 0,
     "go on from a saved state; the text is appended to it", 0},
    ROW_REUSE(NULL, TO_PREFILL),
    ROW_SAVE(NULL, TO_DECODE),
    ROW_BIAS(NULL, TO_PENALIZE),
    ROW_LOGIT_BIAS(NULL, TO_PENALIZE),
    ROW_BIAS_FILE(NULL, TO_PENALIZE),
    ROW_REPEAT_PENALTY(NULL, TO_PENALIZE),
    ROW_PRESENCE_PENALTY(NULL, TO_PENALIZE),
    ROW_FREQUENCY_PENALTY(NULL, TO_PENALIZE),
    ROW_PENALIZE_PROMPT(NULL, TO_PENALIZE),
    ROW_REPEAT_LAST_N(NULL, TO_PENALIZE),
    ROW_LAST(NULL, TO_PENALIZE),
    ROW_DRY_MULTIPLIER(NULL, TO_PENALIZE),
    ROW_DRY_BASE(NULL, TO_PENALIZE),
    ROW_DRY_ALLOWED_LENGTH(NULL, TO_PENALIZE),
    ROW_DRY_LAST_N(NULL, TO_PENALIZE),
    ROW_DRY_BREAKER(NULL, TO_PENALIZE),
    ROW_BAN(NULL, TO_PENALIZE),
    ROW_ALLOW(NULL, TO_PENALIZE),
    ROW_GRAMMAR(NULL, TO_CONSTRAIN),
    ROW_GRAMMAR_FILE(NULL, TO_CONSTRAIN),
    ROW_JSON_SCHEMA(NULL, TO_CONSTRAIN),
    ROW_JSON_SCHEMA_FILE(NULL, TO_CONSTRAIN),
    ROW_ANY_JSON(NULL, TO_CONSTRAIN),
    ROW_PREDICT(NULL, TO_SELECT),
    ROW_CONTINUATIONS(&continuations, TO_SELECT),
    ROW_BEAM_WIDTH(&beam_width, TO_BEAM),
    ROW_LENGTH_PENALTY(NULL, TO_BEAM),
    ROW_EARLY_STOPPING(NULL, TO_BEAM),
    ROW_TEMPERATURE(&temperature, TO_SAMPLE),
    ROW_TOP_K(NULL, TO_SAMPLE),
    ROW_TOP_P(NULL, TO_SAMPLE),
    ROW_MIN_P(NULL, TO_SAMPLE),
    ROW_TYPICAL(NULL, TO_SAMPLE),
    ROW_TOP_N_SIGMA(NULL, TO_SAMPLE),
    ROW_XTC_PROBABILITY(NULL, TO_SAMPLE),
    ROW_XTC_THRESHOLD(NULL, TO_SAMPLE),
    ROW_DYNATEMP_RANGE(NULL, TO_SAMPLE),
    ROW_DYNATEMP_EXP(NULL, TO_SAMPLE),
    ROW_ORDER(NULL, TO_SAMPLE),
    ROW_MIROSTAT(NULL, TO_SAMPLE),
    ROW_LOGPROBS(&logprobs, TO_SAMPLE),
    ROW_SEED(NULL, TO_SAMPLE),
    ROW_STOP(NULL, TO_SELECT),
    ROW_IGNORE_EOS(NULL, TO_SELECT),
    {0, "echo", NULL, OPTION_FLAG, &echo, 0, 0, "print what came before the continuation too", 0},
    ROW_RAW(NULL, TO_DETOK),
    ROW_NULL(NULL, TO_DETOK),
    ROW_JSON(&json, TO_DETOK),
    {0, "trace", "[=FILE]", OPTION_TEXT, &trace, 0, 0,
     "a line per step on standard error, or tab-separated in FILE", 0},
    ROW_VERBOSE(&verbose, TO_MODEL | TO_SELECT),
    {0},
};
static const struct program program = {"[TEXT ... | -]", "Continue a text: the whole loop, closed.",
                                       options};

/* A stage's arguments: argv[0] is filled in later; room for every option and a few words of ours.
 */
struct arguments {
    const char **word;
    size_t n;
    size_t n_options; /* words that were made here, after the first */
};

/* Where the standard output of a stage goes. */
enum link {
    TO_INPUT,   /* of the next stage */
    TO_OPERAND, /* the same, as an operand: the next stage gets the answers, too, as another one */
    TO_TAP, /* the same as the first, by way of our hands where somebody wants to see the questions
             */
    TO_ANSWERS, /* back to the stage with the operand, and on to the next stage */
    TO_OUTPUT,  /* ours */
};

/* The stages in the order of the stream.  A new filter is a row here and its options above. */
static struct stage {
    const char *program;
    unsigned bit;
    enum link link;
    bool optional; /* started only when an option is given that is for such stages alone */
    bool used;
    struct arguments words;
} stages[] = {
    {.program = "tokenize", .bit = TO_TOKENIZE, .link = TO_INPUT},
    {.program = "prefill", .bit = TO_PREFILL, .link = TO_OPERAND},
    {.program = "decode-step", .bit = TO_DECODE, .link = TO_TAP},
    {.program = "penalize", .bit = TO_PENALIZE, .link = TO_INPUT, .optional = true},
    {.program = "constrain", .bit = TO_CONSTRAIN, .link = TO_INPUT, .optional = true},
    {.program = "sample", .bit = TO_SAMPLE, .link = TO_ANSWERS},
    {.program = "beam", .bit = TO_BEAM, .link = TO_ANSWERS, .optional = true},
    {.program = "detok", .bit = TO_DETOK, .link = TO_OUTPUT},
};
enum { N_STAGES = sizeof stages / sizeof *stages };

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
        size_t size =
            strlen(given[i].option->name) + (given[i].value ? strlen(given[i].value) : 0) + 4;
        char *word = allocate(size, 1);
        snprintf(word, size, "--%s%s%s", given[i].option->name, given[i].value ? "=" : "",
                 given[i].value ? given[i].value : "");
        add(&a, word);
        a.n_options++;
    }
    return a;
}

static struct stage *stage_of(unsigned bit)
{
    struct stage *stage = stages;
    while (stage->bit != bit)
        stage++;
    return stage;
}

/* Which stages there will be, and the options of each. */
static void choose_stages(const struct given *given, size_t n_given)
{
    for (struct stage *stage = stages; stage < stages + N_STAGES; stage++) {
        stage->words = arguments_for(stage->bit, given, n_given);
        stage->used = !stage->optional;
        for (size_t i = 0; i < n_given; i++) {
            unsigned forward = given[i].option->forward;
            stage->used |= (forward & stage->bit) && !(forward & ~(unsigned)TO_OPTIONAL);
        }
        if (logprobs >= 0 && (stage->bit & TO_FILTERS))
            add(&stage->words, "--keep-raw"); /* the model's log-probabilities are wanted */
    }
    stage_of(TO_SAMPLE)->used = !stage_of(TO_BEAM)->used;
}

/* Beam search draws nothing. */
static void refuse_draws(const struct given *given, size_t n_given)
{
    for (size_t i = 0; i < n_given && stage_of(TO_BEAM)->used; i++)
        if (given[i].option->forward == TO_SAMPLE)
            die(STATUS_USAGE, "--%s is an option of sample, but beam search takes its place",
                given[i].option->name);
}

/* Our standard input is the text and our standard output the continuation: neither is a state too.
 */
static void refuse_streams(const struct given *given, size_t n_given)
{
    static const char *const options_of_files[] = {"state", "reuse",        "save",
                                                   "model", "grammar-file", "json-schema-file"};
    for (size_t i = 0; i < n_given; i++)
        for (size_t k = 0; k < sizeof options_of_files / sizeof *options_of_files; k++)
            if (strcmp(given[i].option->name, options_of_files[k]) == 0 &&
                (strcmp(given[i].value, "-") == 0 || strncmp(given[i].value, "/dev/std", 8) == 0))
                die(STATUS_USAGE, "--%s: expected the name of a file, found '%s'",
                    given[i].option->name, given[i].value);
}

/* Where the text comes from: the words that tokenize gets, and whether it reads our standard input.
 */
static bool text_arguments(struct arguments *a, char **operands, int n)
{
    bool dash = n == 1 && strcmp(operands[0], "-") == 0, any = prompt || file || n > 0 || user;
    if ((prompt != NULL) + (file != NULL) + (n > 0) > 1)
        die(STATUS_USAGE, "give the text once: as operands, by -p, or by -f");
    if (user && (prompt || file || n > 0))
        die(STATUS_USAGE, "give the messages once: by --user, or as JSON");
    if (state)
        add(a, "--append");
    if (!any && isatty(0) && !state)
        die(STATUS_USAGE, "no text: give it as an argument, by -f FILE, or on standard input");
    if (dash && isatty(0))
        die(STATUS_USAGE,
            "standard input is a terminal: give the text as an argument or by -f FILE");
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

/* Of --chat and what belongs to it; tokenize checks the rest. */
static void check_chat(void)
{
    if (!chat && (system_prompt || user || template))
        die(STATUS_USAGE, "--%s needs --chat",
            system_prompt ? "system"
            : user        ? "user"
                          : "template");
    if (chat && state)
        die(STATUS_USAGE,
            "--chat writes a conversation from its beginning, --state goes on with a text: "
            "to spare the work of the beginning, give --reuse");
}

/* What passes through our hands: questions only where somebody wants to see them. */
struct tap {
    struct report report;
    struct relay relay[2]; /* questions, answers */
    uint32_t *begun; /* sequences whose first logits have passed, or that are copies; ascending */
    size_t n_begun, capacity;
};

/* Where a sequence stands, or would, in the ascending list. */
static size_t begun_at(const struct tap *tap, uint32_t sequence)
{
    size_t low = 0, high = tap->n_begun;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (tap->begun[middle] < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What comes before the first logits of a sequence is what there was. */
static void echo_question(struct tap *tap, const struct record *record, const uint8_t *payload)
{
    bool begins = record->type == RECORD_LOGITS || record->type == RECORD_FORK;
    size_t at = begun_at(tap, record->sequence);
    if ((!begins && record->type != RECORD_TOKENS) ||
        (at < tap->n_begun && tap->begun[at] == record->sequence))
        return;
    if (!begins) {
        outlet_put_record(&tap->relay[1].out[1], &tap->relay[0], record, payload);
        return;
    }
    tap->begun = grow(tap->begun, &tap->capacity, tap->n_begun + 1, sizeof *tap->begun);
    memmove(tap->begun + at + 1, tap->begun + at, (tap->n_begun++ - at) * sizeof *tap->begun);
    tap->begun[at] = record->sequence;
}

static void see_question(void *context, const struct record *record, const uint8_t *payload)
{
    struct tap *tap = context;
    report_question(&tap->report, record, payload);
    if (echo)
        echo_question(tap, record, payload);
}

static void see_answer(void *context, const struct record *record, const uint8_t *payload)
{
    struct tap *tap = context;
    report_answer(&tap->report, record, payload);
    if (echo)
        outlet_put_record(&tap->relay[1].out[1], &tap->relay[1], record, payload);
}

/* Starts the stages that are used, each joined to the next; what passes through our hands is told
 * to the relays. */
static void start_stages(struct pipeline *pipeline, struct tap *tap, bool reads_input, bool watched)
{
    int back[2], in = reads_input ? 0 : pipeline_null(), operand = -1, answers = -1;
    char names[2][32];
    pipeline_pipe(back);
    for (struct stage *stage = stages; stage < stages + N_STAGES; stage++) {
        int next[2] = {-1, 1}, tapped[2];
        if (!stage->used)
            continue;
        if (operand >= 0) {
            answers = back[0];
            snprintf(names[0], sizeof names[0], "/dev/fd/%d", operand);
            snprintf(names[1], sizeof names[1], "/dev/fd/%d", answers);
            add(&stage->words, names[0]);
            add(&stage->words, names[1]);
        }
        if (stage->link != TO_OUTPUT)
            pipeline_pipe(next);
        pipeline_start(pipeline, stage->program, stage->words.word, in, next[1], operand, answers);
        in = next[0];
        operand = answers = -1;
        if (stage->link == TO_OPERAND) {
            operand = next[0];
            in = pipeline_null();
        } else if (stage->link == TO_TAP && watched) {
            pipeline_pipe(tapped);
            tap->relay[0] = (struct relay){.in = next[0],
                                           .bounded = true,
                                           .out = {{.fd = tapped[1]}, {.fd = -1}},
                                           .see = see_question,
                                           .context = tap};
            in = tapped[0];
        } else if (stage->link == TO_ANSWERS) {
            pipeline_pipe(tapped);
            tap->relay[1] = (struct relay){.in = next[0],
                                           .out = {{.fd = back[1]}, {.fd = tapped[1]}},
                                           .apart = echo,
                                           .see = watched ? see_answer : NULL,
                                           .context = tap};
            in = tapped[0];
        }
    }
}

/* An answer ends with a token; where the vocabulary has none that ends a turn of this template,
 * sample looks for its text. */
static void stop_at_turn(struct arguments *a)
{
    static char *text; /* as long as the arguments */
    struct naming naming = {.model = model};
    struct error ignored; /* of a template that is not known tokenize will tell */
    text = chat_stop_text(naming_open(&naming, "chat"), template, &ignored);
    if (text) {
        add(a, "--stop");
        add(a, text);
    }
    naming_close(&naming);
}

int main(int argc, char **argv)
{
    struct given *given;
    size_t n_given;
    program_start(argv);
    int first = options_parse(&program, argc, argv, &given, &n_given);
    if (logprobs >= 0 && !json)
        die(STATUS_USAGE, "--logprobs goes with --json, which prints them");
    choose_stages(given, n_given);
    refuse_streams(given, n_given);
    check_chat();
    refuse_draws(given, n_given);
    if (stage_of(TO_BEAM)->used)
        answer_check_best(continuations, beam_width);
    else
        answer_check_continuations(continuations, temperature);
    if (trace && (lines || continuations > 1 || stage_of(TO_BEAM)->used))
        die(STATUS_USAGE,
            "--trace follows one sequence: it goes with neither --lines nor -N nor beam search");
    bool reads_input = text_arguments(&stage_of(TO_TOKENIZE)->words, argv + first, argc - first);
    add(&stage_of(TO_PREFILL)->words, "--mpi=never");
    add(&stage_of(TO_DECODE)->words, "--stream");
    if (chat)
        stop_at_turn(&stage_of(stage_of(TO_BEAM)->used ? TO_BEAM : TO_SAMPLE)->words);
    if (state) {
        add(&stage_of(TO_PREFILL)->words, state);
        add(&stage_of(TO_PREFILL)->words, "-");
    }

    struct tap tap = {.report.begin = seconds_now(),
                      .relay = {{.in = -1, .out = {{.fd = -1}, {.fd = -1}}}}};
    FILE *trace_file = !trace ? NULL : *trace ? fopen(trace, "we") : stderr;
    if (trace && !trace_file)
        die(STATUS_SYSTEM, "%s: cannot open for writing:", trace);
    struct naming naming = {.model = model};
    if (trace) {
        tap.report.vocab = naming_open(&naming, "trace");
        report_trace(&tap.report, trace_file, *trace);
    }
    struct pipeline pipeline;
    pipeline_init(&pipeline);
    start_stages(&pipeline, &tap, reads_input, verbose || trace || echo);
    int status = pipeline_run(&pipeline, tap.relay, 2);
    if (verbose && (status == STATUS_OK || status == STATUS_CONSTRAINT))
        report_print(&tap.report);
    if (trace_file && trace_file != stderr && fclose(trace_file) && !tap.report.trace_errno)
        tap.report.trace_errno = errno;
    errno = tap.report.trace_errno;
    if (errno && *trace)
        die(STATUS_SYSTEM, "%s: cannot write:", trace);
    for (size_t i = 0; i < N_STAGES; i++)
        arguments_free(&stages[i].words);
    pipeline_free(&pipeline, tap.relay, 2);
    report_free(&tap.report);
    free(tap.begun);
    naming_close(&naming);
    free(given);
    return status;
}
