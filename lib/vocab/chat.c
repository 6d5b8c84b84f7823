/* Rendering a conversation: which template, and its pieces around the messages. */
#include "vocab/chat_table.h"
#include "vocab/internal.h"
#include "vocab/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char key[] = "tokenizer.chat_template";

const char *chat_role_name(enum chat_role role)
{
    static const char *const names[CHAT_ROLES] = {"system", "user", "assistant"};
    return names[role];
}

/* ---- the model's own template -------------------------------------------------------------- */

/* A template, ready to be searched: ends in a zero byte. */
struct source {
    char *text; /* NULL: the model has none */
};

/* The escapes of Jinja's string literals; any other backslash stands for itself. */
static char unescape(char letter)
{
    switch (letter) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case '\\':
    case '\'':
    case '"':
        return letter;
    }
    return 0;
}

/* Removes  ' + '  between two literals, so that what is written together can be found together. */
static void join_literals(char *text)
{
    static const char *const seams[] = {"' + '", "\" + \"", "'+'", "\"+\""};
    char *out = text;
    for (const char *in = text; *in;) {
        size_t i = 0;
        while (i < 4 && strncmp(in, seams[i], strlen(seams[i])) != 0)
            i++;
        if (i < 4)
            in += strlen(seams[i]);
        else
            *out++ = *in++;
    }
    *out = 0;
}

static struct source source_make(struct gguf_string text)
{
    struct source source = {allocate(text.length + 1, 1)};
    char *out = source.text;
    for (size_t i = 0; i < text.length; i++) {
        char plain = text.bytes[i] == '\\' && i + 1 < text.length ? unescape(text.bytes[i + 1]) : 0;
        *out++ = plain ? plain : text.bytes[i] ? text.bytes[i] : ' ';
        i += plain != 0;
    }
    join_literals(source.text);
    return source;
}

static bool has(const struct source *source, const char *mark)
{
    return source->text && strstr(source->text, mark) != NULL;
}

/* ---- which template ------------------------------------------------------------------------ */

static bool is_named(const struct chat_template *row, const char *name, size_t length)
{
    for (const char *at = row->names; *at;) {
        size_t size = strcspn(at, " ");
        if (size == length && memcmp(at, name, length) == 0)
            return true;
        at += size;
        at += *at == ' ';
    }
    return false;
}

const char *chat_template_names(void)
{
    static char names[1024];
    if (!*names)
        for (size_t i = 0; i < chat_table_length; i++)
            if (i == 0 || strcmp(chat_table[i].names, chat_table[i - 1].names) != 0) {
                if (i)
                    strcat(names, " ");
                strcat(names, chat_table[i].names);
            }
    return names;
}

static bool matches(const struct chat_template *row, const struct source *source)
{
    for (size_t i = 0; i < CHAT_MARKS && row->marks[i]; i++)
        if (!has(source, row->marks[i]))
            return false;
    for (size_t i = 0; i < sizeof row->without / sizeof *row->without && row->without[i]; i++)
        if (has(source, row->without[i]))
            return false;
    return true;
}

static const struct chat_template *recognise(const struct source *source)
{
    for (size_t i = 0; i < chat_table_length; i++)
        if (matches(&chat_table[i], source))
            return &chat_table[i];
    return NULL;
}

static bool unknown_template(struct gguf_string text, struct error *error)
{
    const char *begin = text.bytes, *end = text.bytes + text.length;
    while (begin < end && (*begin == '\n' || *begin == ' ' || *begin == '\r'))
        begin++;
    const char *line = begin < end ? memchr(begin, '\n', (size_t)(end - begin)) : NULL;
    size_t length = (size_t)((line ? line : end) - begin);
    return error_set(error, STATUS_INPUT,
                     "the model's chat template is not a known one; it begins '%.*s'; if its "
                     "conversations are written as those of a known one, name that with "
                     "--template NAME (the names are in the manual)",
                     length > 160 ? 160 : (int)length, begin);
}

/* The row by its name, or of the model's own template, whose text goes to *source; *source is to
 * be freed in any case. */
static const struct chat_template *choose(const struct gguf *gguf, const char *name,
                                          struct source *source, struct error *error)
{
    struct gguf_string text;
    *source = (struct source){0};
    if (name) {
        for (size_t i = 0; i < chat_table_length; i++)
            if (is_named(&chat_table[i], name, strlen(name)))
                return &chat_table[i];
        error_set(error, STATUS_USAGE, "--template: '%.40s' is none of %s", name,
                  chat_template_names());
        return NULL;
    }
    enum gguf_answer answer = gguf_text(gguf, key, &text, error);
    if (answer == GGUF_ABSENT)
        error_set(error, STATUS_INPUT,
                  "the model has no chat template (key '%s'): name one with --template", key);
    if (answer != GGUF_FOUND)
        return NULL;
    *source = source_make(text);
    const struct chat_template *row = recognise(source);
    if (!row)
        unknown_template(text, error);
    return row;
}

/* ---- the order of the roles ---------------------------------------------------------------- */

static bool check_order(const struct chat_template *row, const struct source *source,
                        const struct chat_messages *messages, struct error *error)
{
    bool alternates = has(source, "must alternate");
    bool in_user = row->flags & (CHAT_SYSTEM_IN_FIRST | CHAT_SYSTEM_IN_LAST);
    size_t first = messages->count && messages->items[0].role == CHAT_SYSTEM;
    if (messages->count == first)
        return error_set(error, STATUS_INPUT, "the conversation has no message of the user");
    for (size_t i = first; i < messages->count; i++) {
        enum chat_role role = messages->items[i].role;
        if (role == CHAT_SYSTEM && (alternates || !(row->flags & CHAT_SYSTEM_ANYWHERE)))
            return error_set(error, STATUS_INPUT,
                             "message %zu: the template %.*s has a system message only as the "
                             "first one",
                             i + 1, (int)strcspn(row->names, " "), row->names);
        if ((alternates || (in_user && i == first)) &&
            (role == CHAT_USER) != ((i - first) % 2 == 0))
            return error_set(error, STATUS_INPUT,
                             "message %zu: expected role '%s', found '%s': the model's template "
                             "wants user and assistant in turn",
                             i + 1, chat_role_name((i - first) % 2 ? CHAT_ASSISTANT : CHAT_USER),
                             chat_role_name(role));
    }
    return true;
}

/* ---- the text ------------------------------------------------------------------------------ */

struct rendering {
    struct chat_text *text;
    size_t capacity, span_capacity;
    const struct vocab *vocab;
    const struct chat_template *row;
    const struct source *source;
    const struct chat_messages *messages;
    const char *preset; /* a default system prompt of the model's template, NULL without one */
    size_t preset_length;
    bool trims, drops_thoughts, drops_lines;
};

static void put(struct rendering *r, const void *bytes, size_t length)
{
    struct chat_text *text = r->text;
    text->bytes = grow(text->bytes, &r->capacity, text->length + length + 1, 1);
    if (length)
        memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

static void put_token(struct rendering *r, uint32_t id)
{
    size_t length = 0;
    const uint8_t *bytes = id == VOCAB_NONE ? NULL : piece_of(r->vocab, id, &length);
    put(r, bytes, length);
}

/* What was put since `begin` is the template's: special tokens may be found in it, and nowhere
 * else. */
static void written_since(struct rendering *r, size_t begin)
{
    struct vocab_marks *marks = &r->text->marks;
    if (r->text->length == begin)
        return;
    if (marks->n_spans && marks->spans[marks->n_spans - 1].end == begin) {
        marks->spans[marks->n_spans - 1].end = r->text->length;
        return;
    }
    marks->spans = grow(marks->spans, &r->span_capacity, marks->n_spans + 1, sizeof *marks->spans);
    marks->spans[marks->n_spans++] = (struct vocab_span){begin, r->text->length};
}

/* A piece of the table. */
static void put_piece(struct rendering *r, const char *piece)
{
    const struct vocab_facts *facts = &r->vocab->facts;
    size_t begin = r->text->length;
    for (const char *at = piece; *at; at++) {
        if (*at == *CHAT_BOS && r->text->length == 0)
            r->text->bos = true;
        else if (*at == *CHAT_BOS)
            put_token(r, facts->bos);
        else if (*at == *CHAT_EOS)
            put_token(r, facts->eos);
        else
            put(r, at, 1);
    }
    written_since(r, begin);
}

/* A text of the model's template. */
static void put_written(struct rendering *r, const char *bytes, size_t length)
{
    size_t begin = r->text->length;
    put(r, bytes, length);
    written_since(r, begin);
}

/* White space as Python's str.strip() has it, which is Jinja's trim: Unicode's, and U+001C-1F. */
static bool is_space(const uint8_t *bytes, size_t size)
{
    static const char *const wide[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80",
                                       "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf",
                                       "\xe2\x81\x9f", "\xe3\x80\x80"};
    if (size == 1)
        return *bytes == ' ' || (*bytes >= 9 && *bytes <= 13) || (*bytes >= 28 && *bytes <= 31);
    if (size == 3 && memcmp(bytes, "\xe2\x80", 2) == 0 && bytes[2] >= 0x80 && bytes[2] <= 0x8a)
        return true; /* U+2000 - U+200A */
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strlen(wide[i]) == size && memcmp(bytes, wide[i], size) == 0)
            return true;
    return false;
}

static size_t leading_space(const uint8_t *bytes, size_t length)
{
    size_t at = 0, size;
    while (at < length && (size = utf8_character(bytes + at, length - at)) != 0 &&
           is_space(bytes + at, size))
        at += size;
    return at;
}

static size_t without_trailing_space(const uint8_t *bytes, size_t length)
{
    while (length) {
        size_t size = 1;
        while (size < 3 && size < length && (bytes[length - size] & 0xc0) == 0x80)
            size++;
        if (!is_space(bytes + length - size, size))
            break;
        length -= size;
    }
    return length;
}

/* The content of an answer without the thoughts before it, where the template drops them. */
static void drop_thoughts(const struct rendering *r, const uint8_t **bytes, size_t *length)
{
    static const char end[] = "</think>";
    const uint8_t *found;
    bool any = false;
    while ((found = memmem(*bytes, *length, end, sizeof end - 1)) != NULL) {
        *length -= (size_t)(found - *bytes) + sizeof end - 1;
        *bytes = found + sizeof end - 1;
        any = true;
    }
    while (any && r->drops_lines && *length && **bytes == '\n') {
        ++*bytes;
        --*length;
    }
}

static void put_content(struct rendering *r, const struct chat_message *message, bool trim_left)
{
    const uint8_t *bytes = message->content;
    size_t length = message->length;
    if (message->role == CHAT_ASSISTANT && r->drops_thoughts &&
        message != &r->messages->items[r->messages->count - 1])
        drop_thoughts(r, &bytes, &length);
    if (r->trims && (r->row->flags >> message->role & CHAT_TRIM_SYSTEM)) {
        size_t lead = trim_left ? leading_space(bytes, length) : 0;
        length = without_trailing_space(bytes + lead, length - lead);
        bytes += lead;
    }
    put(r, bytes, length);
}

/* Whether a text is all of one literal (or of what stands outside of expressions): the literal
 * neither ends at its beginning, nor is something joined to it, nor is there a tag of Jinja. Single
 * braces are text, as in "\\boxed{}". */
static bool is_literal(const char *text, size_t length)
{
    static const char *const tags[] = {"{{", "}}", "{%", "%}", "{#", "#}"};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (memmem(text, length, tags[i], 2))
            return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '\'' && text[i] != '"')
            continue;
        size_t next = i + 1;
        while (next < length && text[next] == ' ')
            next++;
        if (i == 0 || (next < length && (text[next] == '+' || text[next] == '~')))
            return false;
    }
    return true;
}

/* A text between two marks of the model's template that is a literal of its own. */
static const char *preset_of(const struct rendering *r, size_t *length)
{
    const char *before =
        r->row->preset.before ? r->row->preset.before : r->row->turn[CHAT_SYSTEM].before;
    const char *after =
        r->row->preset.before ? r->row->preset.after : r->row->turn[CHAT_SYSTEM].after;
    if (!r->source->text || !*before || !*after)
        return NULL;
    /* Each byte is looked at once: a hostile template may be long. */
    const char *at = strstr(r->source->text, before), *end = NULL, *next;
    for (; at; at = next) {
        at += strlen(before);
        if (!end || end < at)
            end = strstr(at, after);
        if (!end)
            return NULL;
        next = strstr(at, before);
        if (next && next < end)
            continue;
        *length = (size_t)(end - at);
        if (is_literal(at, *length))
            return at;
    }
    return NULL;
}

/* Whether words follow the mark of a system turn somewhere in the model's template: a default that
 * preset_of cannot take out of it. */
static bool words_follow(const struct source *source, const struct chat_template *row)
{
    const char *mark = row->turn[CHAT_SYSTEM].before;
    for (const char *at = source->text; at && *mark && (at = strstr(at, mark)) != NULL;) {
        at += strlen(mark);
        if ((*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z'))
            return true;
    }
    return false;
}

/* The conversation's system prompt, or the template's, or this one before the other. */
static void put_system(struct rendering *r, const struct chat_message *message)
{
    put_piece(r, r->row->turn[CHAT_SYSTEM].before);
    if (r->preset)
        put_written(r, r->preset, r->preset_length);
    if (r->preset && message)
        put_piece(r, " ");
    if (message)
        put_content(r, message, true);
    bool ends = r->preset && !message && r->row->preset.end;
    put_piece(r, ends ? r->row->preset.end : r->row->turn[CHAT_SYSTEM].after);
}

/* Which message holds the system prompt, where that has no turn of its own; `first`: the first one
 * after it. */
static size_t host_of_system(const struct rendering *r, size_t first)
{
    bool last = (r->row->flags & CHAT_SYSTEM_IN_LAST) &&
                (!r->source->text || has(r->source, "loop.last and system_message"));
    if (!(r->row->flags & (CHAT_SYSTEM_IN_FIRST | CHAT_SYSTEM_IN_LAST)))
        return SIZE_MAX;
    return last ? r->messages->count - 1 : first;
}

/* own: the conversation's system prompt, or NULL; system: whether there is one at all. */
static void put_conversation(struct rendering *r, const struct chat_message *own, bool system)
{
    const struct chat_template *row = r->row;
    size_t first = own != NULL, host = host_of_system(r, first);
    if (system && host == SIZE_MAX)
        put_system(r, own);
    for (size_t i = first; i < r->messages->count; i++) {
        const struct chat_message *message = &r->messages->items[i];
        put_piece(r, row->turn[message->role].before);
        bool hosts = system && i == host && message->role == CHAT_USER;
        if (hosts)
            put_system(r, own);
        put_content(r, message, !(hosts && (row->flags & CHAT_TRIM_JOINED)));
        put_piece(r, row->turn[message->role].after);
    }
    size_t p = 0;
    while (p + 1 < CHAT_PROMPTS && row->prompts[p + 1] && !has(r->source, row->prompts[p]))
        p++;
    put_piece(r, row->prompts[p]);
}

/* Everything that a template known by its name writes. */
static char *all_pieces(const struct chat_template *row)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        die(STATUS_SYSTEM, "out of memory:");
    fputs(row->begin, out);
    for (int i = 0; i < CHAT_ROLES; i++)
        fprintf(out, "%s\n%s\n", row->turn[i].before, row->turn[i].after);
    for (int i = 0; i < CHAT_PROMPTS && row->prompts[i]; i++)
        fprintf(out, "%s\n", row->prompts[i]);
    if (fclose(out))
        die(STATUS_SYSTEM, "out of memory:");
    return text;
}

bool chat_render(struct chat_text *text, const struct vocab *vocab, const char *name,
                 const struct chat_messages *messages, struct error *error)
{
    struct source source;
    const struct chat_template *row = choose(vocab->gguf, name, &source, error);
    *text = (struct chat_text){.bos = has(&source, "bos_token")};
    if (!row || !check_order(row, &source, messages, error)) {
        free(source.text);
        return false;
    }
    struct rendering r = {
        .text = text,
        .vocab = vocab,
        .row = row,
        .source = &source,
        .messages = messages,
        .trims = source.text ? has(&source, "trim") || has(&source, ".strip()")
                             : !(row->flags & CHAT_TRIM_SOME),
        .drops_thoughts = has(&source, "split('</think>')"),
        .drops_lines = has(&source, "split('</think>')[-1].lstrip('\n')") ||
                       has(&source, "split('</think>')|last).lstrip('\n')"),
    };
    put(&r, "", 0);
    put_piece(&r, row->begin);
    const struct chat_message *own =
        messages->items[0].role == CHAT_SYSTEM ? messages->items : NULL;
    if (!own || (row->flags & CHAT_SYSTEM_AFTER_PRESET))
        r.preset = preset_of(&r, &r.preset_length);
    bool system = own || r.preset || (row->flags & CHAT_SYSTEM_ALWAYS);
    put_conversation(&r, own, system);
    text->lacks_default = !system && (has(&source, "strftime_now") || words_follow(&source, row));
    text->marks.text = source.text ? source.text : all_pieces(row);
    return true;
}

void chat_text_free(struct chat_text *text)
{
    free(text->bytes);
    free(text->marks.spans);
    free(text->marks.text);
    *text = (struct chat_text){0};
}

/* ---- the end of a turn --------------------------------------------------------------------- */

/* What tells that an answer is over: what the template writes after it, or the next turn.  "" where
 * that begins with EOS. */
static const char *end_mark(const struct chat_template *row)
{
    const char *after = row->turn[CHAT_ASSISTANT].after;
    if (!*after)
        after = row->turn[CHAT_USER].before;
    after += strspn(after, "\n ");
    return *after == *CHAT_EOS || *after == *CHAT_BOS ? "" : after;
}

static bool begins(const char *text, const void *bytes, size_t length)
{
    return length && strncmp(text, bytes, length) == 0;
}

uint32_t chat_end_token(const struct gguf *gguf, const struct tokens *tokens, uint32_t n_tokens)
{
    struct source source;
    struct error ignored; /* whoever renders will hear of it */
    const struct chat_template *row = choose(gguf, NULL, &source, &ignored);
    const char *mark = row ? end_mark(row) : "";
    uint32_t found = VOCAB_NONE;
    free(source.text);
    for (uint32_t id = 0; *mark && id < n_tokens; id++) {
        struct gguf_string text = tokens->texts[id];
        uint8_t kind = tokens->kinds[id];
        if ((kind == TOKEN_CONTROL || kind == TOKEN_USER_DEFINED) &&
            begins(mark, text.bytes, text.length) &&
            (found == VOCAB_NONE || text.length > tokens->texts[found].length))
            found = id;
    }
    return found;
}

char *chat_stop_text(const struct vocab *vocab, const char *name, struct error *error)
{
    struct source source;
    const struct chat_template *row = choose(vocab->gguf, name, &source, error);
    const char *mark = row ? end_mark(row) : "";
    free(source.text);
    for (size_t i = 0; i < vocab->facts.n_eog; i++) {
        size_t length;
        const uint8_t *bytes = piece_of(vocab, vocab->facts.eog[i], &length);
        if (begins(mark, bytes, length))
            return NULL;
    }
    size_t length = strcspn(mark, "\n" CHAT_EOS);
    return length ? strndup(mark, length) : NULL;
}
