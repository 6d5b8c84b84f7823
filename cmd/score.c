/* score: teacher forcing: log-probabilities of the tokens of a text, bits per byte, perplexity. */
#include "options.h"
#include "stage/score.h"
#include "stage/naming.h"
#include "stage/stage.h"
#include "text/text.h"
#include "vocab/vocab.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct naming naming;
static const char *output_path;
static bool only_total, tsv, json;

static const struct option_spec options[] = {
    ROW_MODEL(&naming.model, 0),
    {0, "total", NULL, OPTION_FLAG, &only_total, 0, 0, "only the sums, no line for each token", 0},
    {0, "tsv", NULL, OPTION_FLAG, &tsv, 0, 0, "tab-separated, for scripts", 0},
    {0, "json", NULL, OPTION_FLAG, &json, 0, 0, "an object on each line, for scripts", 0},
    ROW_OUTPUT(&output_path),
    {0},
};
static const struct program program = {
    "[STREAM ...]",
    "Log-probabilities of a text's tokens, bits per byte, perplexity: tokens and all logits in.",
    options};

static struct record_reader *reader;
static const struct vocab *vocab;
static struct output output;
static int64_t shown = -1; /* the sequence whose tokens are being shown */

__attribute__((format(printf, 1, 2))) static void print(const char *format, ...);

static void print(const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int n = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (n < 0)
        die(STATUS_SYSTEM, "out of memory");
    output_write(&output, text, (size_t)n);
    free(text);
}

/* ---- a token --------------------------------------------------------------------------------- */

/* The bytes of the text that a token stands for: without the space that some tokenizers put before
 * a text. */
static size_t text_of(const struct scored_token *token, const char **bytes)
{
    const struct sequence *sequence = reader_sequence(reader, token->sequence);
    bool bos = sequence->tokens[0] == vocab_facts_of(vocab)->bos;
    bool begins = sequence->first == 0 && !sequence->appended && token->position == bos;
    size_t length = vocab_piece(vocab, token->id, false, bytes);
    bool stripped = begins && vocab_strips_space(vocab) && length && **bytes == ' ';
    *bytes += stripped;
    return length - stripped;
}

static void add_real(struct json *line, const char *name, bool known, double value)
{
    json_add(line, name);
    if (known)
        json_add_number(line, value);
    else
        json_add(line, "null");
}

static void end_line(struct json *line)
{
    json_add(line, "}\n");
    output_write(&output, line->text, line->length);
    json_free(line);
}

static void print_json(const struct scored_token *token, const char *bytes, size_t length)
{
    struct json line = {0};
    json_add_count(&line, "{\"sequence\":", token->sequence);
    json_add_count(&line, ",\"position\":", token->position);
    json_add_count(&line, ",\"id\":", token->id);
    add_real(&line, ",\"logprob\":", token->known, token->logprob);
    json_add_text(&line, bytes, length);
    end_line(&line);
}

static void print_token(const struct scored_token *token)
{
    const char *bytes;
    size_t length = vocab_piece(vocab, token->id, true, &bytes);
    if (json) {
        print_json(token, bytes, length);
        return;
    }
    char *text = text_escape(bytes, length, 0), value[40] = "none";
    if (token->known)
        snprintf(value, sizeof value, tsv ? "%.17g" : "%.6f", token->logprob);
    if (tsv) {
        print("%u\t%llu\t%u\t%s\t%s\n", token->sequence, (unsigned long long)token->position,
              token->id, value, text);
    } else {
        if (shown != token->sequence && (shown >= 0 || token->sequence))
            print("sequence %u:\n", token->sequence);
        shown = token->sequence;
        print("%7llu %12s  %s\n", (unsigned long long)token->position, value, text);
    }
    free(text);
}

static size_t take(void *context, const struct scored_token *token)
{
    (void)context;
    const char *bytes;
    if (!only_total)
        print_token(token);
    return text_of(token, &bytes);
}

/* ---- the sums -------------------------------------------------------------------------------- */

struct total {
    uint64_t tokens, scored, bytes;
    double logprob;
};

static void print_total(const char *name, const struct total *t)
{
    double perplexity = t->scored ? score_perplexity(t->logprob, t->scored) : 0;
    double bits = t->bytes ? score_bits_per_byte(t->logprob, t->bytes) : 0;
    if (json) {
        struct json line = {0};
        json_add(&line, "{\"sequence\":");
        json_add(&line, name);
        json_add_count(&line, ",\"tokens\":", t->tokens);
        json_add_count(&line, ",\"scored\":", t->scored);
        json_add_count(&line, ",\"bytes\":", t->bytes);
        add_real(&line, ",\"logprob\":", true, t->logprob);
        add_real(&line, ",\"perplexity\":", t->scored, perplexity);
        add_real(&line, ",\"bits_per_byte\":", t->bytes, bits);
        end_line(&line);
        return;
    }
    char numbers[2][40] = {"none", "none"};
    const char *format = tsv ? "%.17g" : "%.6f";
    if (t->scored)
        snprintf(numbers[0], sizeof numbers[0], format, perplexity);
    if (t->bytes)
        snprintf(numbers[1], sizeof numbers[1], format, bits);
    unsigned long long tokens = t->tokens, scored = t->scored, bytes = t->bytes;
    if (tsv)
        print("%s\t%llu\t%llu\t%llu\t%.17g\t%s\t%s\n", name, tokens, scored, bytes, t->logprob,
              numbers[0], numbers[1]);
    else
        print("%s: %llu tokens, %llu of them scored, %llu bytes\n    log-probability %.6f\n    "
              "perplexity %s\n"
              "    bits per byte %s\n",
              name, tokens, scored, bytes, t->logprob, numbers[0], numbers[1]);
}

static void print_totals(const struct score *score)
{
    struct total all = {0};
    size_t n = 0;
    if (tsv && only_total)
        print("sequence\ttokens\tscored\tbytes\tlogprob\tperplexity\tbits_per_byte\n");
    for (size_t i = 0; i < score->n_sequences; i++) {
        const struct score_sequence *s = &score->sequence[i];
        struct total total = {s->n_tokens, s->n_scored, s->n_bytes, s->logprob};
        char name[24];
        snprintf(name, sizeof name, json || tsv ? "%u" : "sequence %u", s->id);
        if (s->n_tokens == 0)
            continue; /* it was dropped */
        if (!tsv || only_total)
            print_total(name, &total);
        all = (struct total){all.tokens + total.tokens, all.scored + total.scored,
                             all.bytes + total.bytes, all.logprob + total.logprob};
        n++;
    }
    if (n > 1 && !json && !tsv)
        print_total("all sequences", &all);
    if (all.tokens == 0)
        reader_die(reader, STATUS_INPUT, "no tokens in the input");
    if (all.scored == 0 && all.tokens > n)
        reader_die(reader, STATUS_INPUT,
                   "%llu tokens, but no logits of the positions before them (prefill --logits all)",
                   (unsigned long long)all.tokens);
}

/* ---- all ------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);
    if (tsv && json)
        die(STATUS_USAGE, "give --tsv or --json, not both");

    output_open(&output, output_path, false, false);
    reader = reader_open(argv + first, argc - first);
    vocab = naming_open(&naming, "model");
    struct score score = {.reader = reader, .tell = take};
    if (tsv && !only_total)
        print("sequence\tposition\tid\tlogprob\ttext\n");

    for (struct record record; reader_next(reader, &record);) {
        if (record.type == RECORD_TOKENS || record.type == RECORD_LOGITS)
            naming_check_record(&naming, reader, &record);
        score_take(&score, &record);
    }
    score_finish(&score);
    print_totals(&score);

    output_close(&output);
    score_free(&score);
    naming_close(&naming);
    reader_close(reader);
    return program_end();
}
