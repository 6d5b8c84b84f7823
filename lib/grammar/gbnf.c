/* The notation of llama.cpp's grammars: rules of texts, character sets, groups and repetitions. */
#include "grammar/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NESTING 500
#define MAX_COUNT   (1u << 30)

struct parser {
    struct builder b;
    const uint8_t *at, *end;
    uint32_t line, depth;
    uint32_t rule; /* that is being defined */
    bool in_rule;
    const char *name;
    struct error *error;
};

static bool fail(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct parser *p, const char *format, ...)
{
    char text[300], rule[100] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (p->in_rule)
        snprintf(rule, sizeof rule, "rule '%.80s': ", p->b.rule[p->rule].name);
    error_set(p->error, STATUS_INPUT, "%s%s", rule, text);
    return error_at(p->error, p->name, p->line);
}

/* What is found, for messages. */
static const char *found(const struct parser *p, char text[16])
{
    uint32_t code;
    size_t n = utf8_get(p->at, (size_t)(p->end - p->at), &code);
    if (p->at == p->end)
        return "the end";
    if (*p->at == '\n' || *p->at == '\r')
        return "the end of the line";
    if (n && *p->at > 0x20)
        snprintf(text, 16, "'%.*s'", (int)n, p->at);
    else
        snprintf(text, 16, "byte 0x%02x", *p->at);
    return text;
}

static bool looking_at(const struct parser *p, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(p->end - p->at) >= n && memcmp(p->at, text, n) == 0;
}

static bool accept(struct parser *p, const char *text)
{
    bool here = looking_at(p, text);
    if (here)
        p->at += strlen(text);
    return here;
}

/* Passes over blanks and comments, and over ends of lines where they may stand. */
static void skip_space(struct parser *p, bool lines)
{
    for (; p->at < p->end; p->at++) {
        if (*p->at == '#')
            while (p->at + 1 < p->end && p->at[1] != '\n' && p->at[1] != '\r')
                p->at++;
        else if (*p->at == '\n' && lines)
            p->line++;
        else if (*p->at != ' ' && *p->at != '\t' && (*p->at != '\r' || !lines))
            return;
    }
}

/* At the end of a line: whether the next that is not empty goes on with an alternative. */
static bool line_goes_on(struct parser *p)
{
    struct parser ahead = *p;
    skip_space(&ahead, true);
    if (!looking_at(&ahead, "|"))
        return false;
    p->at = ahead.at;
    p->line = ahead.line;
    return true;
}

static bool is_name(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static size_t name_length(const struct parser *p)
{
    size_t n = 0;
    while (p->at + n < p->end && is_name(p->at[n]))
        n++;
    return n;
}

static bool parse_hex(struct parser *p, size_t digits, uint32_t *code)
{
    *code = 0;
    for (size_t i = 0; i < digits; i++, p->at++) {
        int c = p->at < p->end ? *p->at : 0;
        int value = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (value < 0)
            return fail(p, "expected %zu hexadecimal digits after the escape, found %zu", digits,
                        i);
        *code = *code << 4 | (uint32_t)value;
    }
    if (*code > MAX_CODE_POINT || (*code >= 0xd800 && *code <= 0xdfff))
        return fail(p, "an escape stands for no character: code point %x", *code);
    return true;
}

/* One character of a text or of a set. */
static bool parse_character(struct parser *p, uint32_t *code)
{
    static const char plain[] = "\\\"[]-^", names[] = "trn", values[] = "\t\r\n";
    char text[16];
    if (*p->at != '\\') {
        size_t n = utf8_get(p->at, (size_t)(p->end - p->at), code);
        if (!n)
            return fail(p, "the grammar is not UTF-8: %s", found(p, text));
        p->line += *p->at == '\n';
        p->at += n;
        return true;
    }
    if (++p->at == p->end)
        return fail(p, "expected a character after '\\', found the end");
    uint8_t c = *p->at++;
    const char *name = c ? strchr(names, c) : NULL;
    if (c == 'x' || c == 'u' || c == 'U')
        return parse_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, code);
    if (name)
        *code = (uint32_t)values[name - names];
    else if (c && strchr(plain, c))
        *code = c;
    else
        return p->at--, fail(p, "unknown escape: '\\' before %s", found(p, text));
    return true;
}

static bool parse_text(struct parser *p, expression *e)
{
    expression *parts = NULL;
    size_t n = 0, capacity = 0;
    uint32_t line = p->line, code;
    bool ok = true;
    while (ok && !accept(p, "\"")) {
        if (p->at == p->end) {
            p->line = line;
            ok = fail(p, "a text in quotes does not end");
            break;
        }
        ok = parse_character(p, &code);
        parts = grow(parts, &capacity, n + 1, sizeof *parts);
        parts[n++] = ok ? expression_character(&p->b, code) : EMPTY;
    }
    *e = expression_sequence(&p->b, parts, n);
    free(parts);
    return ok;
}

static bool parse_set(struct parser *p, expression *e)
{
    struct code_points set = {0};
    uint32_t line = p->line, low, high;
    bool negated = accept(p, "^"), ok = true;
    while (ok && !accept(p, "]")) {
        if (p->at == p->end) {
            p->line = line;
            ok = fail(p, "a set in brackets does not end");
            break;
        }
        ok = parse_character(p, &low);
        high = low;
        if (ok && looking_at(p, "-") && p->at + 1 < p->end && p->at[1] != ']') {
            p->at++;
            ok = parse_character(p, &high);
        }
        if (ok && high < low)
            ok = fail(p, "a range in brackets runs backwards, from code point %x to %x", low, high);
        if (ok)
            code_points_add(&set, low, high);
    }
    if (ok && negated)
        code_points_negate(&set);
    *e = ok ? expression_characters(&p->b, &set) : EMPTY;
    free(set.range);
    if (ok && *e == NOTHING)
        ok = fail(p, "a set in brackets holds no character");
    return ok;
}

static bool parse_count(struct parser *p, uint32_t *count)
{
    char text[16];
    *count = 0;
    if (p->at == p->end || *p->at < '0' || *p->at > '9')
        return fail(p, "expected a number in braces, found %s", found(p, text));
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        *count = *count * 10 + (uint32_t)(*p->at - '0');
        if (*count > MAX_COUNT)
            return fail(p, "a repetition of more than %u", MAX_COUNT);
    }
    return true;
}

static bool parse_braces(struct parser *p, uint32_t *low, uint32_t *high, bool nested)
{
    char text[16];
    skip_space(p, nested);
    if (!parse_count(p, low))
        return false;
    *high = *low;
    skip_space(p, nested);
    if (accept(p, ",")) {
        *high = FOREVER;
        skip_space(p, nested);
        if (!looking_at(p, "}") && !parse_count(p, high))
            return false;
        skip_space(p, nested);
    }
    if (!accept(p, "}"))
        return fail(p, "expected '}', found %s", found(p, text));
    if (*high < *low)
        return fail(p, "a repetition runs backwards, from %u to %u", *low, *high);
    return true;
}

/* A repetition of the part before it, if there is one here. */
static bool parse_repetitions(struct parser *p, expression *e, bool nested)
{
    for (;;) {
        uint32_t low, high;
        skip_space(p, nested);
        if (accept(p, "*"))
            low = 0, high = FOREVER;
        else if (accept(p, "+"))
            low = 1, high = FOREVER;
        else if (accept(p, "?"))
            low = 0, high = 1;
        else if (!accept(p, "{"))
            return true;
        else if (!parse_braces(p, &low, &high, nested))
            return false;
        *e = expression_repeat(&p->b, *e, low, high);
    }
}

static bool parse_alternatives(struct parser *p, expression *e, bool nested);

static bool parse_group(struct parser *p, expression *e)
{
    char text[16];
    uint32_t line = p->line;
    if (++p->depth > MAX_NESTING)
        return fail(p, "parentheses are nested more than %d deep", MAX_NESTING);
    skip_space(p, true);
    if (!parse_alternatives(p, e, true))
        return false;
    if (p->at == p->end) {
        p->line = line;
        return fail(p, "a group in parentheses does not end");
    }
    if (!accept(p, ")"))
        return fail(p, "expected ')', found %s", found(p, text));
    p->depth--;
    return true;
}

static bool parse_part(struct parser *p, expression *e, bool nested)
{
    char text[16];
    size_t length = name_length(p);
    if (length) {
        *e = expression_rule(&p->b, builder_rule(&p->b, (const char *)p->at, length, p->line));
        p->at += length;
    } else if (accept(p, "\"")) {
        if (!parse_text(p, e))
            return false;
    } else if (accept(p, "[")) {
        if (!parse_set(p, e))
            return false;
    } else if (accept(p, "(")) {
        if (!parse_group(p, e))
            return false;
    } else if (accept(p, ".")) {
        struct code_points all = {0};
        code_points_negate(&all);
        *e = expression_characters(&p->b, &all);
        free(all.range);
    } else if (looking_at(p, "*") || looking_at(p, "+") || looking_at(p, "?") ||
               looking_at(p, "{")) {
        return fail(p, "there is nothing before %s that it could repeat", found(p, text));
    } else if (looking_at(p, "<") || looking_at(p, "!")) {
        return fail(p, "tokens in a grammar (%s) are not supported: a grammar is about text",
                    found(p, text));
    } else {
        return fail(p, "expected a name, a text, a set or a group, found %s", found(p, text));
    }
    return parse_repetitions(p, e, nested);
}

static bool ends_alternative(struct parser *p, bool nested)
{
    if (p->at == p->end || looking_at(p, "|") || (nested && looking_at(p, ")")))
        return true;
    return !nested && (*p->at == '\n' || *p->at == '\r');
}

static bool parse_sequence(struct parser *p, expression *e, bool nested)
{
    expression *parts = NULL, part;
    size_t n = 0, capacity = 0;
    bool ok = true;
    while (ok && !ends_alternative(p, nested)) {
        ok = parse_part(p, &part, nested);
        parts = grow(parts, &capacity, n + 1, sizeof *parts);
        parts[n++] = ok ? part : EMPTY;
    }
    *e = expression_sequence(&p->b, parts, n);
    free(parts);
    return ok;
}

static bool parse_alternatives(struct parser *p, expression *e, bool nested)
{
    expression *parts = NULL, part;
    size_t n = 0, capacity = 0;
    bool ok, more;
    do {
        ok = parse_sequence(p, &part, nested);
        parts = grow(parts, &capacity, n + 1, sizeof *parts);
        parts[n++] = part;
        more = ok && (nested || looking_at(p, "|") || line_goes_on(p)) && accept(p, "|");
        if (more)
            skip_space(p, true);
    } while (more);
    *e = expression_choice(&p->b, parts, n);
    free(parts);
    return ok;
}

static bool parse_rule(struct parser *p)
{
    char text[16];
    size_t length = name_length(p);
    expression body;
    p->in_rule = false;
    if (!length)
        return fail(p, "expected the name of a rule, found %s", found(p, text));
    p->rule = builder_rule(&p->b, (const char *)p->at, length, p->line);
    p->in_rule = true;
    p->at += length;
    skip_space(p, false);
    if (!accept(p, "::="))
        return fail(p, "expected '::=', found %s", found(p, text));
    if (p->b.rule[p->rule].defined)
        return fail(p, "it is defined a second time");
    p->b.rule[p->rule].line = p->line;
    skip_space(p, true);
    if (!parse_alternatives(p, &body, false))
        return false;
    if (p->at < p->end && *p->at != '\n' && *p->at != '\r')
        return fail(p, "expected the end of the line, found %s", found(p, text));
    builder_define(&p->b, p->rule, body);
    return true;
}

struct grammar *grammar_parse(const char *text, size_t length, const char *name,
                              struct error *error)
{
    struct parser p = {.at = (const uint8_t *)text,
                       .end = (const uint8_t *)text + length,
                       .line = 1,
                       .name = name,
                       .error = error};
    struct grammar *grammar = NULL;
    builder_init(&p.b);
    bool ok = true;
    for (skip_space(&p, true); ok && p.at < p.end; skip_space(&p, true))
        ok = parse_rule(&p);
    if (ok) {
        size_t n = p.b.n_rules;
        uint32_t root = builder_rule(&p.b, "root", 4, 0);
        if (root == n)
            error_set(error, STATUS_INPUT, "%s: there is no rule 'root', where a text begins",
                      name);
        else
            grammar = grammar_build(&p.b, root, name, error);
    }
    builder_free(&p.b);
    return grammar;
}
