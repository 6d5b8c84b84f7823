/* detok: token ids to text, each token as soon as it may be shown. */
#include "options.h"
#include "record/record.h"
#include "stage/stage.h"
#include "text/text.h"
#include "vocab/vocab.h"

#include <stdlib.h>
#include <string.h>

static const char *model, *output_path;
static bool raw, special;
static int64_t only = -1;

static const struct option_spec options[] = {
    ROW_MODEL(&model, 0),
    ROW_RAW(&raw, 0),
    {0, "special", NULL, OPTION_FLAG, &special, 0, 0, "show control tokens as their texts", 0},
    {0, "sequence", "N", OPTION_INTEGER, &only, 0, UINT32_MAX, "only the text of this sequence", 0},
    ROW_OUTPUT(&output_path),
    {0},
};
static const struct program program = {"[STREAM ...]", "Tokens to text, as they come.", options};

/* The text of a sequence on its way out. */
struct passage {
    struct text_flow flow;
    size_t n_tokens; /* whose text is in the flow */
    bool first;      /* the next one begins the text */
    bool seen;       /* it had records that are about text */
    bool ended, dropped, printed;
};

static struct record_reader *reader;
static struct vocab *vocab;
static struct output output;
static struct passage *passages; /* by the sequence's index */
static size_t n_passages, passages_capacity;
static size_t current; /* the one that is streamed; those after it wait for its end */
static bool separate;  /* something was printed before the current one */

static struct passage *passage_of(const struct sequence *sequence)
{
    passages = grow(passages, &passages_capacity, sequence->index + 1, sizeof *passages);
    while (n_passages <= sequence->index)
        passages[n_passages++] = (struct passage){.flow.raw = raw, .first = true};
    return &passages[sequence->index];
}

/* Brings the flow up to date with the reader's tokens.  The space that the tokenizer put before a text
 * goes, but only where the text begins in this stream. */
static void add_tokens(struct passage *passage, const struct sequence *sequence)
{
    const struct vocab_facts *facts = vocab_facts_of(vocab);
    bool strips = vocab_strips_space(vocab) && sequence->first == 0 && !sequence->appended;
    for (; passage->n_tokens < sequence->n_tokens; passage->n_tokens++) {
        uint32_t id = sequence->tokens[passage->n_tokens];
        const char *bytes;
        size_t length = vocab_piece(vocab, id, special, &bytes);
        bool begins = passage->first && !(passage->n_tokens == 0 && id == facts->bos);
        if (begins && strips && length && bytes[0] == ' ')
            bytes++, length--;
        passage->first &= !begins;
        text_flow_add(&passage->flow, bytes, length, sequence->flags[passage->n_tokens] & RECORD_HELD);
    }
}

static void cut_tokens(struct passage *passage, const struct sequence *sequence)
{
    struct error error;
    if (sequence->n_tokens >= passage->n_tokens)
        return;
    if (!text_flow_cut(&passage->flow, sequence->n_tokens, &error))
        reader_die(reader, error.status, "%s", error.text);
    passage->n_tokens = sequence->n_tokens;
    passage->first |= passage->n_tokens == 0;
}

static void end_text(struct passage *passage, const struct record *record)
{
    struct error error;
    struct end end;
    if (!end_decode(&end, reader_used_payload(reader), (size_t)record->raw_length, &error))
        reader_die(reader, error.status, "%s", error.text);
    passage->ended = true;
    passage->dropped = end.reason == END_DROPPED;
    if (passage->dropped)
        text_flow_drop(&passage->flow);
    else
        text_flow_end(&passage->flow, end.trim);
}

static void print_passage(struct passage *passage)
{
    const uint8_t *bytes;
    size_t length = text_flow_take(&passage->flow, &bytes);
    bool line = separate && !passage->printed && (length || (passage->ended && !passage->dropped));
    if (line)
        output_write(&output, "\n", 1);
    passage->printed |= line || length;
    if (length)
        output_write(&output, bytes, length);
}

/* Prints what may be printed: of the current sequence, and of the next ones when it has ended. */
static void print_ready(void)
{
    while (current < n_passages) {
        struct passage *passage = &passages[current];
        print_passage(passage);
        if (!passage->ended || current + 1 == n_passages)
            return; /* a last one stays current: its text may go on */
        separate |= !passage->dropped || passage->printed;
        current++;
    }
}

/* At the end of the input nothing waits any longer. */
static void print_rest(void)
{
    for (size_t i = 0; i < n_passages; i++) {
        struct passage *passage = &passages[i];
        if (!passage->seen || passage->dropped || (i < current && passage->flow.length == 0))
            continue;
        passage->ended = true;
        passage->printed &= i == current;
        text_flow_end(&passage->flow, 0);
        print_passage(passage);
        separate = true;
    }
}

static void check_vocabulary(const struct record *record)
{
    const struct model_facts *facts = reader_model(reader);
    uint32_t found = record->binding ? record->binding : facts ? facts->vocabulary_fingerprint : 0;
    uint32_t expected = vocab_facts_of(vocab)->fingerprint;
    if (found && found != expected)
        reader_die(reader, STATUS_INPUT, "made with vocabulary %08x%s%s%s, but that of '%s' is %08x (-m names the model)", found,
                   facts ? " (model '" : "", facts ? facts->name : "", facts ? "')" : "", model, expected);
}

static void show(const struct record *record)
{
    const struct sequence *sequence = reader_sequence(reader, record->sequence);
    struct passage *passage = passage_of(sequence);
    passage->seen = true;
    if (record->type == RECORD_TOKENS) {
        check_vocabulary(record);
        passage->ended = passage->dropped = false;
        add_tokens(passage, sequence);
    } else if (record->type == RECORD_FORK) {
        cut_tokens(passage, sequence);
        add_tokens(passage, sequence);
    } else {
        end_text(passage, record);
    }
    if (only >= 0)
        current = sequence->index;
    print_ready();
}

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);

    struct error error;
    output_open(&output, output_path, false, false);
    reader = reader_open(argv + first, argc - first);
    model = model_path(model);
    struct gguf *gguf = gguf_open(model, &error);
    vocab = gguf ? vocab_open(gguf, NULL, &error) : NULL;
    if (!vocab)
        die_error(&error);

    for (struct record record; reader_next(reader, &record);) {
        bool text = record.type == RECORD_TOKENS || record.type == RECORD_FORK || record.type == RECORD_END;
        if (text && (only < 0 || record.sequence == only))
            show(&record);
    }
    if (only >= 0 && !reader_sequence(reader, (uint32_t)only))
        reader_die(reader, STATUS_INPUT, "no sequence %u in the input", (unsigned)only);
    print_rest();

    output_close(&output);
    for (size_t i = 0; i < n_passages; i++)
        text_flow_free(&passages[i].flow);
    free(passages);
    vocab_close(vocab);
    gguf_close(gguf);
    reader_close(reader);
    return program_end();
}
