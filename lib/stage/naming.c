#include "stage/naming.h"
#include "stage/stage.h"
#include "text/text.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct vocab *naming_open(struct naming *naming, const char *option)
{
    struct error error;
    if (naming->vocab)
        return naming->vocab;
    naming->needed_by = option;
    naming->model = model_path(naming->model);
    naming->gguf = gguf_open(naming->model, &error);
    naming->vocab = naming->gguf ? vocab_open(naming->gguf, NULL, &error) : NULL;
    if (!naming->vocab)
        die_error(&error);
    return naming->vocab;
}

void naming_close(struct naming *naming)
{
    vocab_close(naming->vocab);
    gguf_close(naming->gguf);
}

void naming_check(const struct naming *naming, struct record_reader *reader)
{
    uint32_t found = reader_vocabulary(reader);
    if (!naming->vocab || !found || found == vocab_facts_of(naming->vocab)->fingerprint)
        return;
    reader_die(reader, STATUS_INPUT,
               "made with vocabulary %08x, but that of '%s' is %08x (--%s needs the stream's own)",
               found, naming->model, vocab_facts_of(naming->vocab)->fingerprint, naming->needed_by);
}

void naming_check_record(const struct naming *naming, struct record_reader *reader,
                         const struct record *record)
{
    const struct model_facts *facts = reader_model(reader);
    uint32_t found = record->binding ? record->binding : facts ? facts->vocabulary_fingerprint : 0;
    uint32_t expected = vocab_facts_of(naming->vocab)->fingerprint;
    if (found && found != expected)
        reader_die(reader, STATUS_INPUT,
                   "made with vocabulary %08x%s%s%s, but that of '%s' is %08x (-m names the model)",
                   found, facts ? " (model '" : "", facts ? facts->name : "", facts ? "')" : "",
                   naming->model, expected);
}

/* ---- one token ----------------------------------------------------------------------------- */

static size_t count_digits(const char *word, size_t length)
{
    size_t n = 0;
    while (n < length && word[n] >= '0' && word[n] <= '9')
        n++;
    return n;
}

static bool refuse(const struct vocab *vocab, const char *text, size_t length,
                   const struct token_list *tokens, struct error *error)
{
    char list[160] = "";
    char *shown = text_escape(text, length, 40);
    for (size_t i = 0, at = 0; i < tokens->count && i < 6 && at < sizeof list; i++) {
        const char *bytes;
        size_t n = vocab_piece(vocab, tokens->ids[i], true, &bytes);
        char *piece = text_escape(bytes, n, 12);
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%u \"%s\"", i ? ", " : ": ",
                               tokens->ids[i], piece);
        free(piece);
    }
    error_set(error, STATUS_USAGE,
              "expected a text that is one token, found \"%s\", which is %zu%s", shown,
              tokens->count, list);
    free(shown);
    return false;
}

static bool token_of_text(struct naming *naming, const char *option, const char *text,
                          size_t length, uint32_t *id, struct error *error)
{
    struct token_list tokens = {0};
    const struct vocab *vocab = naming_open(naming, option);
    bool good = vocab_encode(vocab, text, length, ENCODE_SPECIAL | ENCODE_CONTINUE, &tokens, error);
    error->status = STATUS_USAGE;
    if (good && tokens.count != 1)
        good = refuse(vocab, text, length, &tokens, error);
    if (good)
        *id = tokens.ids[0];
    free(tokens.ids);
    return good;
}

bool naming_text(const char *word, size_t length, char **bytes, size_t *n, struct error *error)
{
    bool quoted = length >= 2 && word[0] == '"' && word[length - 1] == '"';
    *bytes = allocate(length + 1, 1);
    *n = length;
    if (!quoted)
        memcpy(*bytes, word, length);
    else if (!text_unescape(word + 1, length - 2, *bytes, n)) {
        free(*bytes);
        return error_set(error, STATUS_USAGE,
                         "expected the escapes \\n \\t \\r \\\\ \\\" \\xHH, found others in %.*s",
                         (int)(length < 80 ? length : 80), word);
    }
    return true;
}

bool naming_token(struct naming *naming, const char *option, const char *word, size_t length,
                  uint32_t *id, struct error *error)
{
    if (length > 0 && count_digits(word, length) == length) {
        char digits[16];
        int64_t number;
        snprintf(digits, sizeof digits, "%.*s", (int)(length < 15 ? length : 15), word);
        if (!parse_integer(digits, 0, RECORD_MAX_VOCABULARY - 1, &number))
            return error_set(error, STATUS_USAGE, "expected an id below %u, found '%s'",
                             RECORD_MAX_VOCABULARY, digits);
        *id = (uint32_t)number;
        return true;
    }
    char *bytes;
    size_t n;
    if (!naming_text(word, length, &bytes, &n, error))
        return false;
    bool good = token_of_text(naming, option, bytes, n, id, error);
    free(bytes);
    return good;
}

bool naming_list(struct naming *naming, const char *option, const char *word,
                 struct token_list *list, struct error *error)
{
    size_t length = strlen(word);
    bool ids = strchr(word, ',') && word[0] != ',' && strspn(word, "0123456789,") == length;
    for (const char *at = word; at; at = *at == ',' ? at + 1 : NULL) {
        uint32_t id;
        size_t n = ids ? strcspn(at, ",") : length;
        if (!naming_token(naming, option, at, n, &id, error))
            return false;
        list->ids = grow(list->ids, &list->capacity, list->count + 1, sizeof *list->ids);
        list->ids[list->count++] = id;
        at += n;
    }
    return true;
}

/* ---- biases -------------------------------------------------------------------------------- */

bool naming_bias(struct naming *naming, const char *option, const char *word, size_t length,
                 struct bias_list *list, struct error *error)
{
    size_t digits = count_digits(word, length), name = length;
    struct select_bias bias;
    char value[40] = "";
    const char *equals = memrchr(word, '=', length), *number = NULL;
    if (equals) {
        name = (size_t)(equals - word);
        number = equals + 1;
    } else if (digits && digits < length && (word[digits] == '+' || word[digits] == '-')) {
        name = digits;
        number = word + digits;
    }
    if (!number || name == 0)
        return error_set(error, STATUS_USAGE, "expected TOKEN=VALUE, found '%.*s'",
                         (int)(length < 80 ? length : 80), word);
    if (number < word + length && *number == '+')
        number++;
    size_t rest = (size_t)(word + length - number);
    if (rest < sizeof value && !memchr(number, 0, rest))
        memcpy(value, number, rest);
    if (!parse_real(value, -1e6, 1e6, &bias.value)) {
        bias.value = -INFINITY;
        if (strcmp(value, "-inf") != 0)
            return error_set(error, STATUS_USAGE,
                             "expected a number from -1e6 to 1e6 or -inf, found '%.*s'",
                             (int)(rest < 40 ? rest : 40), number);
    }
    if (!naming_token(naming, option, word, name, &bias.id, error))
        return false;
    list->item = grow(list->item, &list->capacity, list->count + 1, sizeof *list->item);
    list->item[list->count++] = bias;
    return true;
}

void naming_bias_file(struct naming *naming, const char *option, const char *path,
                      struct bias_list *list)
{
    struct error error;
    size_t size, line = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die(STATUS_SYSTEM, "--%s: %s: cannot open:", option, path);
    char *text = (char *)read_all(fd, &size, path);
    close(fd);
    for (size_t at = 0; at < size; line++) {
        const char *begin = text + at, *newline = memchr(begin, '\n', size - at);
        size_t length = newline ? (size_t)(newline - begin) : size - at;
        at += length + 1;
        if (length && begin[length - 1] == '\r')
            length--;
        if (length && *begin != '#' && !naming_bias(naming, option, begin, length, list, &error))
            die(STATUS_INPUT, "--%s: %s: line %zu: %s", option, path, line, error.text);
    }
    free(text);
}
