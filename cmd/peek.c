/* peek: what is in a stream, or in a model file. */
#include "options.h"
#include "kernel/kernel.h"
#include "record/record.h"
#include "show/show.h"
#include "stage/stage.h"
#include "vocab/vocab.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *model;
static int64_t top = 10;
static bool pass_on, force, verbose;

static const struct option_spec options[] = {
    ROW_MODEL(&model, 0),
    {0, "top", "N", OPTION_INTEGER, &top, 0, 16777216,
     "show the N most probable tokens of LOGITS (default 10)", 0},
    {0, "tee", NULL, OPTION_FLAG, &pass_on, 0, 0,
     "pass the stream on, unchanged, and show it on standard error", 0},
    ROW_FORCE(&force),
    {'v', "verbose", NULL, OPTION_FLAG, &verbose, 0, 0, "shorten nothing", 0},
    {0},
};
static const struct program program = {"[STREAM ... | MODEL.gguf ...]",
                                       "Show a person what is in a stream, or in a model file.",
                                       options};

/* ---- the vocabulary that gives tokens their texts ------------------------------------------- */

/* The default model's file where there is one: texts are welcome, not needed. */
static char *default_model(void)
{
    static const char *const places[] = {"unroll-small.gguf", "../share/unroll/unroll-small.gguf"};
    const char *environment = getenv("UNROLL_MODEL");
    if (environment && *environment)
        return copy_string(environment);
    char *folder = program_folder();
    char *path = allocate(strlen(folder) + 64, 1);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        stpcpy(stpcpy(path, folder), places[i]);
        if (access(path, R_OK) == 0)
            break;
    }
    free(folder);
    return path;
}

static struct gguf *gguf;
static struct vocab *vocab;

static void open_vocabulary(void)
{
    struct error error;
    char *path = model ? copy_string(model) : default_model();
    gguf = gguf_open(path, &error);
    vocab = gguf ? vocab_open(gguf, NULL, &error) : NULL;
    if (model && !vocab)
        die_error(&error);
    free(path);
}

/* The vocabulary for a record, or NULL where we have none that fits.  It is opened when the first
 * record needs it. */
static const struct vocab *vocabulary_for(struct record_reader *reader, const struct record *record)
{
    static bool tried, told;
    const struct model_facts *facts = reader_model(reader);
    uint32_t wanted = record->binding ? record->binding : facts ? facts->vocabulary_fingerprint : 0;
    if (record->type != RECORD_TOKENS && record->type != RECORD_LOGITS &&
        record->type != RECORD_END && record->type != RECORD_RAW && record->type != RECORD_LOGPROBS)
        return NULL;
    if (!tried && (model || wanted)) {
        tried = true;
        open_vocabulary();
    }
    if (!vocab || (!model && !wanted))
        return NULL;
    uint32_t ours = vocab_facts_of(vocab)->fingerprint;
    if (!wanted || ours == wanted)
        return vocab;
    if (model && !told)
        warn("ids only: the stream's vocabulary is %08x, but that of '%s' is %08x", wanted, model,
             ours);
    told = true;
    return NULL;
}

/* ---- showing -------------------------------------------------------------------------------- */

static void flush(FILE *out)
{
    if (fflush(out))
        die(STATUS_SYSTEM, "cannot write:");
}

static void show_stream(struct show *show, char **operands, int n)
{
    struct record record;
    struct record_reader *reader = reader_open(operands, n);
    while (reader_next(reader, &record)) {
        show_record(show, reader, &record, vocabulary_for(reader, &record));
        flush(show->out);
    }
    show_sequences(show, reader);
    flush(show->out);
    reader_close(reader);
}

static void show_model_file(struct show *show, const char *path)
{
    struct error error;
    struct gguf *shown = gguf_open(path, &error);
    const struct kernel *kernel = shown ? kernel_choose(&error) : NULL;
    if (!kernel)
        die_error(&error);
    show_gguf(show, shown);
    fprintf(show->out, "this machine computes with the %s kernels\n", kernel_name(kernel));
    flush(show->out);
    gguf_close(shown);
}

static bool is_model_file(const char *path)
{
    struct stat status;
    char magic[4] = "";
    int fd =
        stat(path, &status) == 0 && S_ISREG(status.st_mode) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    read_full(fd, magic, sizeof magic, path);
    close(fd);
    return memcmp(magic, "GGUF", sizeof magic) == 0;
}

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);
    char **operands = argv + first;
    int n = argc - first, n_models = 0;

    struct output output;
    struct tee *copy = NULL;
    struct show show = {
        .out = pass_on ? stderr : stdout, .everything = verbose, .top = (size_t)top};
    output_open(&output, NULL, pass_on, force);
    for (int i = 0; i < n; i++)
        n_models += is_model_file(operands[i]);
    if (n_models > 0 && (pass_on || n_models < n))
        die(STATUS_USAGE, "give record streams or GGUF files, not both%s",
            pass_on ? " (--tee passes on streams only)" : "");
    setvbuf(show.out, NULL, _IOFBF, 65536);
    if (pass_on)
        copy = tee_start(operands, n);

    for (int i = 0; i < n_models; i++)
        show_model_file(&show, operands[i]);
    if (n_models == 0)
        show_stream(&show, operands, pass_on ? 0 : n);

    tee_finish(copy);
    vocab_close(vocab);
    gguf_close(gguf);
    return program_end();
}
