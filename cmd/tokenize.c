/* tokenize: text to token ids. */
#include "options.h"
#include "record/record.h"
#include "stage/stage.h"
#include "text/text.h"
#include "vocab/chat.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BOS_AUTO, BOS_ALWAYS, BOS_NEVER };
static const char *model, *prompt, *file, *pre, *output_path, *system_prompt, *user, *template;
static bool special, append, lines, list_ids, only_count, force, chat;
static int bos;
static int64_t sequence;
static int64_t line; /* --lines: the one that is encoded, from 1 on */

static const struct option_spec options[] = {
    ROW_MODEL(&model, 0),
    ROW_PROMPT(&prompt),
    ROW_FILE(&file),
    ROW_CHAT(&chat, 0),
    ROW_SYSTEM(&system_prompt, 0),
    ROW_USER(&user, 0),
    ROW_TEMPLATE(&template, 0),
    ROW_SPECIAL(&special, 0),
    ROW_BOS(&bos, 0),
    {0, "append", NULL, OPTION_FLAG, &append, 0, 0,
     "text that goes on where a state ends: no BOS, no prefix space, position open", 0},
    {0, "sequence", "N", OPTION_INTEGER, &sequence, 0, UINT32_MAX,
     "number of the sequence (default 0)", 0},
    ROW_LINES(&lines, 0),
    ROW_PRE(&pre, 0),
    {0, "ids", NULL, OPTION_FLAG, &list_ids, 0, 0,
     "list id, bytes and kind of each token, for people", 0},
    {0, "count", NULL, OPTION_FLAG, &only_count, 0, 0, "print the number of tokens", 0},
    ROW_OUTPUT(&output_path),
    ROW_FORCE(&force),
    {0},
};
static const struct program program = {"[TEXT ... | -]", "Text to tokens.", options};

struct bytes {
    uint8_t *data;
    size_t length;
};

/* Operands are joined by one space each. */
static struct bytes join(char **words, int n)
{
    struct bytes text = {0};
    for (int i = 0; i < n; i++)
        text.length += strlen(words[i]) + (i > 0);
    text.data = allocate(text.length + 1, 1);
    char *end = (char *)text.data;
    for (int i = 0; i < n; i++)
        end = stpcpy(i ? stpcpy(end, " ") : end, words[i]);
    return text;
}

static struct bytes read_file(const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    struct bytes text;
    int fd = standard ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die(STATUS_SYSTEM, "%s: cannot open:", path);
    if (standard && isatty(0))
        die(STATUS_USAGE,
            "standard input is a terminal: give the text as an argument or by -f FILE");
    text.data = read_all(fd, &text.length, name);
    if (!standard)
        close(fd);
    return text;
}

static struct bytes find_text(char **operands, int n)
{
    bool dash = n == 1 && strcmp(operands[0], "-") == 0;
    if ((prompt != NULL) + (file != NULL) + (n > 0) > 1)
        die(STATUS_USAGE, "give the text once: as operands, by -p, or by -f");
    if (user && (prompt || file || n > 0))
        die(STATUS_USAGE, "give the messages once: by --user, or as JSON");
    if (user)
        return (struct bytes){0};
    if (prompt)
        return join((char **)&prompt, 1);
    if (file || n == 0 || dash)
        return read_file(file ? file : "-");
    return join(operands, n);
}

/* `wanted`: a chat template begins with it. */
static void add_bos(const struct vocab *vocab, bool wanted, struct token_list *tokens)
{
    const struct vocab_facts *facts = vocab_facts_of(vocab);
    if (append || bos == BOS_NEVER || (bos == BOS_AUTO && !facts->add_bos && !wanted))
        return;
    if (facts->bos == VOCAB_NONE && bos == BOS_AUTO)
        return;
    if (facts->bos == VOCAB_NONE)
        die(STATUS_INPUT, "--bos: this model has no BOS token");
    tokens->ids = grow(tokens->ids, &tokens->capacity, 1, sizeof *tokens->ids);
    tokens->ids[tokens->count++] = facts->bos;
}

/* With --special the text may bring a BOS of its own, and so may a chat template. */
static void drop_double_bos(const struct vocab *vocab, struct token_list *tokens)
{
    uint32_t id = vocab_facts_of(vocab)->bos;
    if (bos == BOS_AUTO && tokens->count > 1 && tokens->ids[0] == id && tokens->ids[1] == id)
        memmove(tokens->ids, tokens->ids + 1, --tokens->count * sizeof *tokens->ids);
}

/* What --ids and --count print. */
static void print_list(const struct vocab *vocab, const struct token_list *tokens,
                       struct output *output)
{
    static const char *const kinds[] = {"",       "normal", "unknown", "control", "user-defined",
                                        "unused", "byte"};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        die(STATUS_SYSTEM, "out of memory:");
    for (size_t i = 0; list_ids && i < tokens->count; i++) {
        const char *bytes;
        size_t length = vocab_piece(vocab, tokens->ids[i], true, &bytes);
        char *escaped = text_escape(bytes, length, 0);
        fprintf(out, "%u\t%s\t%s\n", tokens->ids[i], escaped,
                kinds[vocab_kind(vocab, tokens->ids[i])]);
        free(escaped);
    }
    if (only_count)
        fprintf(out, "%zu\n", tokens->count);
    if (fclose(out))
        die(STATUS_SYSTEM, "out of memory:");
    output_write(output, text, size);
    free(text);
}

static void write_tokens(const struct vocab *vocab, const struct token_list *tokens,
                         uint32_t number, struct record_writer *writer)
{
    uint8_t *payload = allocate(tokens->count, 4);
    for (size_t i = 0; i < tokens->count; i++)
        store_u32(payload + 4 * i, tokens->ids[i]);
    record_write(writer,
                 (struct record){.type = RECORD_TOKENS,
                                 .sequence = number,
                                 .position = append ? RECORD_APPEND : 0,
                                 .count = (uint32_t)tokens->count,
                                 .binding = vocab_facts_of(vocab)->fingerprint},
                 payload, 4 * tokens->count);
    free(payload);
}

_Noreturn static void refuse(struct error *error)
{
    char where[32];
    snprintf(where, sizeof where, "line %" PRId64, line);
    if (line)
        error_prefix(error, where);
    die_error(error);
}

static void encode_text(const struct vocab *vocab, struct bytes text, struct token_list *tokens)
{
    struct error error;
    add_bos(vocab, false, tokens);
    unsigned flags = (special ? ENCODE_SPECIAL : 0u) | (append ? ENCODE_CONTINUE : 0u);
    if (!vocab_encode(vocab, text.data, text.length, flags, tokens, &error))
        refuse(&error);
}

/* The messages of --system and --user, or those in the JSON text. */
static void encode_chat(const struct vocab *vocab, struct bytes json, struct token_list *tokens)
{
    struct error error;
    struct chat_messages messages = {0};
    struct chat_text text;
    if (system_prompt)
        chat_messages_add(&messages, CHAT_SYSTEM, system_prompt, strlen(system_prompt));
    if (user)
        chat_messages_add(&messages, CHAT_USER, user, strlen(user));
    else if (!chat_messages_parse(&messages, json.data, json.length, &error))
        refuse(&error);
    if (!chat_render(&text, vocab, template, &messages, &error))
        refuse(&error);
    if (text.lacks_default)
        warn("the model's template computes a system prompt when none is given; this conversation "
             "has none (--system)");
    add_bos(vocab, text.bos, tokens);
    if (!vocab_encode_marked(vocab, text.bytes, text.length, &text.marks, tokens, &error))
        refuse(&error);
    chat_text_free(&text);
    chat_messages_free(&messages);
}

static void check_options(void)
{
    if (append && bos == BOS_ALWAYS)
        die(STATUS_USAGE,
            "--append goes on with a text, --bos always begins one: give one of them");
    if (list_ids && only_count)
        die(STATUS_USAGE, "give --ids or --count, not both");
    if (!chat && (system_prompt || user || template))
        die(STATUS_USAGE, "--%s needs --chat",
            system_prompt ? "system"
            : user        ? "user"
                          : "template");
    if (chat && append)
        die(STATUS_USAGE, "--chat writes a conversation from its beginning: it cannot be appended");
    if (chat && special)
        die(STATUS_USAGE,
            "--special is for texts: in the messages of --chat nothing becomes a special token");
    if (system_prompt && !user)
        die(STATUS_USAGE,
            "--system needs --user; with JSON, give the system prompt as its first message");
    if (lines && (list_ids || only_count))
        die(STATUS_USAGE, "--lines makes sequences: it goes with neither --ids nor --count");
    if (lines && user)
        die(STATUS_USAGE,
            "--lines reads a text, or a conversation in JSON, from each line: not with --user");
}

/* The tokens of a text, or of a conversation. */
static void encode(const struct vocab *vocab, struct bytes text, struct token_list *tokens)
{
    tokens->count = 0;
    (chat ? encode_chat : encode_text)(vocab, text, tokens);
    drop_double_bos(vocab, tokens);
    if (tokens->count > RECORD_MAX_TOKENS)
        die(STATUS_INPUT, "the text has %zu tokens, a sequence has at most %u", tokens->count,
            RECORD_MAX_TOKENS);
}

/* A sequence for each line, without its newline; the last line may lack one. */
static void write_lines(const struct vocab *vocab, const struct bytes *text,
                        struct token_list *tokens, struct record_writer *writer)
{
    for (size_t at = 0; at < text->length;) {
        uint8_t *begin = text->data + at, *newline = memchr(begin, '\n', text->length - at);
        size_t length = newline ? (size_t)(newline - begin) : text->length - at;
        line++;
        if (sequence > UINT32_MAX)
            die(STATUS_INPUT, "line %" PRId64 ": no number is left for its sequence", line);
        encode(vocab, (struct bytes){begin, length}, tokens);
        if (tokens->count == 0 && !append)
            die(STATUS_INPUT, "line %" PRId64 " is empty: it has no token to go on from", line);
        write_tokens(vocab, tokens, (uint32_t)sequence++, writer);
        at += length + 1;
    }
    if (text->length == 0)
        die(STATUS_INPUT, "--lines: the text has no line");
}

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);

    struct error error;
    struct output output;
    struct record_writer writer = {.output = &output};
    bool records = !list_ids && !only_count;
    struct token_list tokens = {0};
    check_options();
    output_open(&output, output_path, records, force);
    if (records)
        record_writer_report_errors(&writer);
    struct bytes text = find_text(argv + first, argc - first);
    model = model_path(model);
    struct gguf *gguf = gguf_open(model, &error);
    struct vocab *vocab = gguf ? vocab_open(gguf, pre, &error) : NULL;
    if (!vocab)
        die_error(&error);

    if (lines) {
        write_lines(vocab, &text, &tokens, &writer);
    } else {
        encode(vocab, text, &tokens);
        if (records)
            write_tokens(vocab, &tokens, (uint32_t)sequence, &writer);
        else
            print_list(vocab, &tokens, &output);
    }

    output_close(&output);
    record_writer_free(&writer);
    vocab_close(vocab);
    gguf_close(gguf);
    free(tokens.ids);
    free(text.data);
    return program_end();
}
