/* Regular expressions of ECMA-262, as far as they are regular, over the characters of a JSON
 * string. */
#include "grammar/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NESTING 200
#define MAX_COUNT   (1u << 20)

/* What was read, and how many characters it has. */
struct piece {
    expression e;
    uint64_t low, high; /* UINT64_MAX: no end */
};

struct regex {
    struct builder *b;
    const uint8_t *at, *end, *begin;
    int depth;
    bool marked; /* characters are rules: what has so many of them can be told */
    struct error *error;
};

static bool fail(struct regex *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct regex *r, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_set(r->error, STATUS_INPUT, "%s, at character %zu of the pattern", text,
                     (size_t)(r->at - r->begin) + 1);
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return a && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

static bool looking_at(const struct regex *r, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(r->end - r->at) >= n && memcmp(r->at, text, n) == 0;
}

static bool accept(struct regex *r, const char *text)
{
    bool here = looking_at(r, text);
    if (here)
        r->at += strlen(text);
    return here;
}

/* One of these characters. */
static expression one_of(struct regex *r, struct code_points *set)
{
    expression e = texts_of_characters(r->b, set);
    if (!r->marked || e == NOTHING)
        return e;
    char name[40];
    int n = snprintf(name, sizeof name, " characters %u", e);
    uint32_t rule = builder_rule(r->b, name, (size_t)n, 0);
    builder_define(r->b, rule, e);
    return expression_rule(r->b, rule);
}

static struct piece any_text(struct regex *r)
{
    struct code_points all = {0};
    code_points_negate(&all);
    expression e = expression_repeat(r->b, one_of(r, &all), 0, FOREVER);
    free(all.range);
    return (struct piece){e, 0, UINT64_MAX};
}

/* ---- characters ---------------------------------------------------------------------------- */

/* Where ten decimal digits begin that are not ASCII (general category Nd of Unicode 14.0.0). */
static const uint32_t other_digits[] = {
    0x660,   0x6f0,   0x7c0,   0x966,   0x9e6,   0xa66,   0xae6,   0xb66,   0xbe6,   0xc66,
    0xce6,   0xd66,   0xde6,   0xe50,   0xed0,   0xf20,   0x1040,  0x1090,  0x17e0,  0x1810,
    0x1946,  0x19d0,  0x1a80,  0x1a90,  0x1b50,  0x1bb0,  0x1c40,  0x1c50,  0xa620,  0xa8d0,
    0xa900,  0xa9d0,  0xa9f0,  0xaa50,  0xabf0,  0xff10,  0x104a0, 0x10d30, 0x11066, 0x110f0,
    0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950,
    0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec,
    0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
};

/* What \d, \w and \s mean in ECMA-262 and what engines that look at Unicode take them for differ.
 * Those characters are disputed: whoever validates a text may see them otherwise, so neither the
 * name nor its opposite makes them. */
static void add_disputed(struct code_points *set, uint8_t name)
{
    if (name == 'w')
        code_points_add(set, 0x80, MAX_CODE_POINT);
    for (size_t i = 0; name == 'd' && i < sizeof other_digits / sizeof *other_digits; i++)
        code_points_add(set, other_digits[i], other_digits[i] + 9);
    if (name == 's') {
        code_points_add(set, 0x1c, 0x1f);
        code_points_add(set, 0x85, 0x85);
        code_points_add(set, 0xfeff, 0xfeff);
    }
}

/* \d, \w, \s and their opposites; with what is disputed where the set will be taken away. */
static bool add_named(struct code_points *set, uint8_t name, bool taken_away)
{
    static const struct code_range digits[] = {{'0', '9'}},
                                   words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                                   spaces[] = {
                                       {9, 13},          {' ', ' '},       {0xa0, 0xa0},
                                       {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
                                       {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
    uint8_t lower = name | 0x20;
    const struct code_range *range = lower == 'd'   ? digits
                                     : lower == 'w' ? words
                                     : lower == 's' ? spaces
                                                    : NULL;
    size_t n = lower == 'd' ? 1 : lower == 'w' ? 4 : sizeof spaces / sizeof *spaces;
    struct code_points own = {0};
    if (!range)
        return false;
    for (size_t i = 0; i < n; i++)
        code_points_add(&own, range[i].low, range[i].high);
    if ((name == lower) == taken_away)
        add_disputed(&own, lower);
    if (name != lower)
        code_points_negate(&own);
    for (size_t i = 0; i < own.n; i++)
        code_points_add(set, own.range[i].low, own.range[i].high);
    free(own.range);
    return true;
}

static bool parse_hex(struct regex *r, size_t low, size_t high, uint32_t *code)
{
    size_t n = 0;
    *code = 0;
    for (; n < high && r->at < r->end; n++, r->at++) {
        int c = *r->at, value = c >= '0' && c <= '9'   ? c - '0'
                                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                       : -1;
        if (value < 0)
            break;
        *code = *code << 4 | (uint32_t)value;
    }
    return n >= low || fail(r, "expected %zu hexadecimal digits after the escape", low);
}

static bool parse_unicode(struct regex *r, uint32_t *code)
{
    uint32_t second;
    if (accept(r, "{")) {
        if (!parse_hex(r, 1, 6, code))
            return false;
        if (!accept(r, "}"))
            return fail(r, "expected '}' after \\u{");
    } else if (!parse_hex(r, 4, 4, code)) {
        return false;
    } else if (*code >= 0xd800 && *code <= 0xdbff && accept(r, "\\u")) {
        if (!parse_hex(r, 4, 4, &second))
            return false;
        *code = second >= 0xdc00 && second <= 0xdfff
                    ? 0x10000 + ((*code & 0x3ff) << 10) + (second & 0x3ff)
                    : MAX_CODE_POINT + 1;
    }
    if (*code > MAX_CODE_POINT || (*code >= 0xd800 && *code <= 0xdfff))
        return fail(r, "an escape stands for no character");
    return true;
}

/* One character, by itself or by an escape. */
static bool parse_code(struct regex *r, uint32_t *code)
{
    static const char names[] = "tnvfr0", values[] = "\t\n\v\f\r";
    size_t n = utf8_get(r->at, (size_t)(r->end - r->at), code);
    if (n == 0)
        return fail(r, "it is not UTF-8");
    r->at += n;
    if (*code != '\\')
        return true;
    if (r->at == r->end)
        return fail(r, "it ends with a '\\'");
    uint8_t c = *r->at++;
    const char *name = c ? strchr(names, c) : NULL;
    if (name)
        *code = (uint8_t)values[name - names];
    else if (c == 'x')
        return parse_hex(r, 2, 2, code);
    else if (c == 'u')
        return parse_unicode(r, code);
    else if (c == 'c' && r->at < r->end && ((*r->at | 0x20) >= 'a' && (*r->at | 0x20) <= 'z'))
        *code = *r->at++ & 0x1f;
    else if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
             c >= 0x80)
        return r->at--, fail(r, "\\%c is not supported", c < 0x80 ? c : '?');
    else
        *code = c;
    return true;
}

static bool parse_class(struct regex *r, struct code_points *set)
{
    bool negated = accept(r, "^");
    uint32_t low, high;
    while (!accept(r, "]")) {
        if (r->at == r->end)
            return fail(r, "a class in brackets does not end");
        if (looking_at(r, "\\") && r->at + 1 < r->end && add_named(set, r->at[1], negated)) {
            r->at += 2;
            continue;
        }
        if (accept(r, "\\b"))
            low = high = '\b';
        else if (!parse_code(r, &low))
            return false;
        high = low;
        if (looking_at(r, "-") && r->at + 1 < r->end && r->at[1] != ']') {
            r->at++;
            if (!parse_code(r, &high))
                return false;
        }
        if (high < low)
            return fail(r, "a range in brackets runs backwards");
        code_points_add(set, low, high);
    }
    if (negated)
        code_points_negate(set);
    return true;
}

/* ---- structure ----------------------------------------------------------------------------- */

static bool parse_alternatives(struct regex *r, struct piece *all, bool top);

static bool parse_group(struct regex *r, struct piece *all)
{
    if (++r->depth > MAX_NESTING)
        return fail(r, "parentheses are nested more than %d deep", MAX_NESTING);
    if (accept(r, "?")) {
        if (looking_at(r, "=") || looking_at(r, "!") || looking_at(r, "<=") || looking_at(r, "<!"))
            return fail(r, "looking ahead or behind is not supported");
        bool named = accept(r, "<");
        while (named && r->at < r->end && *r->at != '>')
            r->at++;
        if (!accept(r, named ? ">" : ":"))
            return fail(r, "this kind of group is not supported");
    }
    if (!parse_alternatives(r, all, false))
        return false;
    if (!accept(r, ")"))
        return fail(r, "a group in parentheses does not end");
    r->depth--;
    return true;
}

static bool parse_atom(struct regex *r, struct piece *one)
{
    struct code_points set = {0};
    bool ok = true;
    uint32_t code;
    if (accept(r, "("))
        return parse_group(r, one);
    if (accept(r, ".")) {
        code_points_add(&set, '\n', '\n');
        code_points_add(&set, '\r', '\r');
        code_points_add(&set, 0x2028, 0x2029);
        code_points_negate(&set);
    } else if (accept(r, "[")) {
        ok = parse_class(r, &set);
    } else if (looking_at(r, "^") || looking_at(r, "$")) {
        return fail(r, "'%c' is supported at the ends of the pattern only", *r->at);
    } else if (looking_at(r, ")")) {
        return fail(r, "there is no '(' for this ')'");
    } else if (looking_at(r, "*") || looking_at(r, "+") || looking_at(r, "?") ||
               looking_at(r, "{")) {
        return fail(r, "there is nothing before '%c' that it could repeat", *r->at);
    } else if (looking_at(r, "\\") && r->at + 1 < r->end && add_named(&set, r->at[1], false)) {
        r->at += 2;
    } else {
        ok = parse_code(r, &code);
        if (ok)
            code_points_add(&set, code, code);
    }
    if (ok)
        *one = (struct piece){one_of(r, &set), 1, 1};
    free(set.range);
    return ok;
}

static bool parse_count(struct regex *r, uint32_t *count)
{
    *count = 0;
    if (r->at == r->end || *r->at < '0' || *r->at > '9')
        return fail(r, "expected a number in braces");
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        *count = *count * 10 + (uint32_t)(*r->at - '0');
        if (*count > MAX_COUNT)
            return fail(r, "a repetition of more than %u", MAX_COUNT);
    }
    return true;
}

static bool parse_quantifier(struct regex *r, struct piece *one)
{
    uint32_t low, high;
    if (accept(r, "*"))
        low = 0, high = FOREVER;
    else if (accept(r, "+"))
        low = 1, high = FOREVER;
    else if (accept(r, "?"))
        low = 0, high = 1;
    else if (accept(r, "{")) {
        if (!parse_count(r, &low))
            return false;
        high = low;
        if (accept(r, ",")) {
            high = FOREVER;
            if (!looking_at(r, "}") && !parse_count(r, &high))
                return false;
        }
        if (!accept(r, "}"))
            return fail(r, "expected '}'");
        if (high < low)
            return fail(r, "a repetition runs backwards");
    } else {
        return true;
    }
    accept(r, "?"); /* lazy: the texts are the same */
    one->e = expression_repeat(r->b, one->e, low, high);
    one->low = times(one->low, low);
    one->high = high == FOREVER ? (one->high ? UINT64_MAX : 0) : times(one->high, high);
    return true;
}

/* One alternative; at the top its ends may be bound to those of the text. */
static bool parse_sequence(struct regex *r, struct piece *all, bool top)
{
    expression *parts = NULL;
    size_t n = 0, capacity = 0;
    struct piece one;
    bool ok = true, begins = !top || accept(r, "^"), ends = !top;
    all->low = all->high = 0;
    for (bool more = true; ok && more;) {
        if (top && looking_at(r, "$") && (r->at + 1 == r->end || r->at[1] == '|'))
            ends = accept(r, "$");
        more = r->at < r->end && !looking_at(r, "|") && (top || !looking_at(r, ")"));
        if (n == 0 && !begins)
            one = any_text(r), more = true;
        else if (!more && !ends)
            one = any_text(r);
        else if (!more)
            break;
        else
            ok = parse_atom(r, &one) && parse_quantifier(r, &one);
        begins = true;
        parts = grow(parts, &capacity, n + 1, sizeof *parts);
        parts[n++] = ok ? one.e : EMPTY;
        all->low = plus(all->low, ok ? one.low : 0);
        all->high = plus(all->high, ok ? one.high : 0);
    }
    all->e = expression_sequence(r->b, parts, n);
    free(parts);
    return ok;
}

static bool parse_alternatives(struct regex *r, struct piece *all, bool top)
{
    expression *parts = NULL;
    size_t n = 0, capacity = 0;
    struct piece one;
    bool ok;
    all->low = UINT64_MAX, all->high = 0;
    do {
        ok = parse_sequence(r, &one, top);
        parts = grow(parts, &capacity, n + 1, sizeof *parts);
        parts[n++] = one.e;
        all->low = one.low < all->low ? one.low : all->low;
        all->high = one.high > all->high ? one.high : all->high;
    } while (ok && accept(r, "|"));
    all->e = expression_choice(r->b, parts, n);
    free(parts);
    return ok;
}

static bool parse(struct builder *b, const char *pattern, size_t length, bool marked,
                  struct piece *all, struct error *error)
{
    const uint8_t *begin = (const uint8_t *)pattern;
    struct regex r = {.b = b,
                      .at = begin,
                      .begin = begin,
                      .end = begin + length,
                      .marked = marked,
                      .error = error};
    return parse_alternatives(&r, all, true);
}

bool texts_of_pattern(struct builder *b, const char *pattern, size_t length, uint64_t least,
                      uint64_t most, expression *e, struct error *error)
{
    struct piece all;
    if (!parse(b, pattern, length, false, &all, error))
        return false;
    *e = all.low > most || all.high < least ? NOTHING : all.e;
    if (*e == NOTHING || (all.low >= least && all.high <= most))
        return true;
    return parse(b, pattern, length, true, &all, error) &&
           (expression_of_length(b, all.e, least, most, e) ||
            error_set(error, STATUS_INPUT, "its states and the lengths beside it are too many"));
}
