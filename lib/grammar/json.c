/* The texts of JSON (RFC 8259), as expressions. */
#include "grammar/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS                                                                                     \
    15 /* of the integer part and of the fraction, where nothing bounds them: a f64 tells 15 apart \
        */

static expression bytes_of(struct builder *b, const char *set)
{
    expression *parts = allocate(strlen(set) + 1, sizeof *parts);
    size_t n = 0;
    for (; *set; set++)
        parts[n++] = expression_byte_range(b, (uint8_t)*set, (uint8_t)*set);
    expression all = expression_choice(b, parts, n);
    free(parts);
    return all;
}

static expression text(struct builder *b, const char *text)
{
    return expression_text(b, text, strlen(text));
}

static expression digits(struct builder *b, uint32_t low, uint32_t high)
{
    return expression_repeat(b, expression_byte_range(b, '0', '9'), low, high);
}

expression texts_of_space(struct builder *b)
{
    expression lines = expression_repeat(b, text(b, "\n"), 1, 2),
               indent = expression_repeat(b, bytes_of(b, " \t"), 0, 20);
    return CHOICE(b, EMPTY, text(b, " "), SEQUENCE(b, lines, indent));
}

/* ---- strings ------------------------------------------------------------------------------- */

static void add_others(struct code_points *set, uint32_t low, uint32_t high)
{
    if (low <= high)
        code_points_add(set, low, high);
}

/* Those of a set that stand for themselves in a string. */
static expression plain_characters(struct builder *b, const struct code_points *set)
{
    struct code_points plain = {0};
    for (size_t i = 0; i < set->n; i++) {
        static const struct code_range allowed[] = {
            {0x20, 0x21}, {0x23, 0x5b}, {0x5d, MAX_CODE_POINT}};
        for (size_t k = 0; k < 3; k++) {
            uint32_t low = set->range[i].low, high = set->range[i].high;
            add_others(&plain, low < allowed[k].low ? allowed[k].low : low,
                       high > allowed[k].high ? allowed[k].high : high);
        }
    }
    expression e = expression_characters(b, &plain);
    free(plain.range);
    return e;
}

expression texts_of_character(struct builder *b, uint32_t code)
{
    static const char names[] = "\"\"\\\\b\bf\fn\nr\rt\t";
    char escape[8];
    for (size_t i = 0; i + 1 < sizeof names; i += 2)
        if (code == (uint8_t)names[i + 1])
            return expression_text(b, (const char[]){'\\', names[i]}, 2);
    if (code >= 0x20)
        return expression_character(b, code);
    snprintf(escape, sizeof escape, "\\u%04x", code);
    return text(b, escape);
}

expression texts_of_characters(struct builder *b, struct code_points *set)
{
    expression parts[36];
    size_t n = 0;
    code_points_sort(set);
    parts[n++] = plain_characters(b, set);
    for (uint32_t code = 0; code < 0x5d; code++)
        if ((code < 0x20 || code == '"' || code == '\\') && code_points_has(set, code))
            parts[n++] = texts_of_character(b, code);
    return expression_choice(b, parts, n);
}

/* Surrogates stand in pairs. */
static expression unicode_escape(struct builder *b)
{
    expression hex = bytes_of(b, "0123456789abcdefABCDEF"), hex2 = expression_repeat(b, hex, 2, 2);
    expression plain = CHOICE(b, SEQUENCE(b, bytes_of(b, "0123456789abcefABCEF"), hex, hex2),
                              SEQUENCE(b, bytes_of(b, "dD"), bytes_of(b, "01234567"), hex2));
    expression pair = SEQUENCE(b, bytes_of(b, "dD"), bytes_of(b, "89abAB"), hex2, text(b, "\\u"),
                               bytes_of(b, "dD"), bytes_of(b, "cdefCDEF"), hex2);
    return SEQUENCE(b, text(b, "u"), CHOICE(b, plain, pair));
}

expression texts_of_string(struct builder *b, uint32_t low, uint32_t high)
{
    struct code_points all = {0};
    code_points_negate(&all);
    expression plain = plain_characters(b, &all);
    expression escaped =
        SEQUENCE(b, text(b, "\\"), CHOICE(b, bytes_of(b, "\"\\/bfnrt"), unicode_escape(b)));
    free(all.range);
    return SEQUENCE(b, text(b, "\""), expression_repeat(b, CHOICE(b, plain, escaped), low, high),
                    text(b, "\""));
}

expression texts_of_literal(struct builder *b, const char *bytes, size_t length)
{
    expression *parts = allocate(length + 2, sizeof *parts);
    size_t n = 0;
    uint32_t code;
    parts[n++] = text(b, "\"");
    for (size_t at = 0, taken; at < length; at += taken) {
        taken = utf8_get((const uint8_t *)bytes + at, length - at, &code);
        if (!taken)
            break; /* whoever read it has checked that it is UTF-8 */
        parts[n++] = texts_of_character(b, code);
    }
    parts[n++] = text(b, "\"");
    expression e = expression_sequence(b, parts, n);
    free(parts);
    return e;
}

/* ---- strings that are not ... -------------------------------------------------------------- */

struct forbidden {
    const uint8_t *at;
    size_t length;
};

/* What may follow when n texts are left, of which all before this have been followed.  So deep at
 * most: then what begins like them is left out altogether. */
static expression other_than(struct builder *b, struct forbidden *texts, size_t n, int depth)
{
    struct code_points others = {0};
    expression *parts = allocate(n + 2, sizeof *parts);
    struct forbidden *beneath = allocate(n + 1, sizeof *beneath);
    size_t n_parts = 0;
    bool ends = true;
    uint32_t code, same;
    for (size_t i = 0; i < n; i++) {
        size_t taken = utf8_get(texts[i].at, texts[i].length, &code), m = 0;
        ends &= texts[i].length > 0;
        if (!taken || code_points_has(&others, code))
            continue; /* ends here, or was followed with another */
        code_points_add(&others, code, code);
        for (size_t k = i; k < n; k++) {
            size_t length = utf8_get(texts[k].at, texts[k].length, &same);
            if (length && same == code)
                beneath[m++] = (struct forbidden){texts[k].at + length, texts[k].length - length};
        }
        if (depth > 0)
            parts[n_parts++] =
                SEQUENCE(b, texts_of_character(b, code), other_than(b, beneath, m, depth - 1));
    }
    struct code_points all = {0};
    code_points_negate(&all);
    code_points_negate(&others);
    parts[n_parts++] = SEQUENCE(b, texts_of_characters(b, &others),
                                expression_repeat(b, texts_of_characters(b, &all), 0, FOREVER));
    if (ends)
        parts[n_parts++] = EMPTY;
    expression e = expression_choice(b, parts, n_parts);
    free(others.range);
    free(all.range);
    free(parts);
    free(beneath);
    return e;
}

expression texts_of_other_string(struct builder *b, const char *const *texts, const size_t *lengths,
                                 size_t n)
{
    struct forbidden *forbidden = allocate(n + 1, sizeof *forbidden);
    for (size_t i = 0; i < n; i++)
        forbidden[i] = (struct forbidden){(const uint8_t *)texts[i], lengths[i]};
    expression e = SEQUENCE(b, text(b, "\""), other_than(b, forbidden, n, 200), text(b, "\""));
    free(forbidden);
    return e;
}

/* ---- numbers and values -------------------------------------------------------------------- */

expression texts_of_integer(struct builder *b)
{
    expression positive = SEQUENCE(b, expression_byte_range(b, '1', '9'), digits(b, 0, DIGITS - 1));
    return CHOICE(b, text(b, "0"), SEQUENCE(b, expression_optional(b, text(b, "-")), positive));
}

expression texts_of_number(struct builder *b)
{
    expression whole = CHOICE(
        b, text(b, "0"), SEQUENCE(b, expression_byte_range(b, '1', '9'), digits(b, 0, DIGITS - 1)));
    expression fraction = SEQUENCE(b, text(b, "."), digits(b, 1, DIGITS));
    expression exponent =
        SEQUENCE(b, bytes_of(b, "eE"), expression_optional(b, bytes_of(b, "+-")), digits(b, 1, 2));
    return SEQUENCE(b, expression_optional(b, text(b, "-")), whole,
                    expression_optional(b, fraction), expression_optional(b, exponent));
}

expression texts_of_value(struct builder *b)
{
    static const char name[] = " value"; /* no name of GBNF */
    uint32_t rule = builder_rule(b, name, sizeof name - 1, 0);
    expression value = expression_rule(b, rule);
    if (b->rule[rule].defined)
        return value;
    expression space = texts_of_space(b), string = texts_of_string(b, 0, FOREVER),
               comma = SEQUENCE(b, text(b, ","), space);
    expression member = SEQUENCE(b, string, text(b, ":"), space, value);
    expression members =
        SEQUENCE(b, member, expression_repeat(b, SEQUENCE(b, comma, member), 0, FOREVER), space);
    expression items =
        SEQUENCE(b, value, expression_repeat(b, SEQUENCE(b, comma, value), 0, FOREVER), space);
    builder_define(
        b, rule,
        CHOICE(b, SEQUENCE(b, text(b, "{"), space, expression_optional(b, members), text(b, "}")),
               SEQUENCE(b, text(b, "["), space, expression_optional(b, items), text(b, "]")),
               string, texts_of_number(b), text(b, "true"), text(b, "false"), text(b, "null")));
    return value;
}

/* ---- formats ------------------------------------------------------------------------------- */

/* A number of two digits from low to high. */
static expression two_digits(struct builder *b, int low, int high)
{
    expression parts[100];
    char number[4];
    size_t n = 0;
    for (int i = low; i <= high; i++) {
        snprintf(number, sizeof number, "%02d", i);
        parts[n++] = text(b, number);
    }
    return expression_choice(b, parts, n);
}

/* Two digits, a multiple of four, not 00. */
static expression leap_digits(struct builder *b)
{
    expression parts[24];
    char number[4];
    for (int i = 0; i < 24; i++) {
        snprintf(number, sizeof number, "%02d", 4 * (i + 1));
        parts[i] = text(b, number);
    }
    return expression_choice(b, parts, 24);
}

/* RFC 3339, full-date, with the days that each month has.  The year 0000 is left out: many
 * libraries have none. */
static expression date(struct builder *b)
{
    expression two = digits(b, 2, 2), zeros = text(b, "00"), dash = text(b, "-");
    expression year =
        CHOICE(b, SEQUENCE(b, two_digits(b, 1, 99), two), SEQUENCE(b, zeros, two_digits(b, 1, 99)));
    expression leap =
        CHOICE(b, SEQUENCE(b, two, leap_digits(b)), SEQUENCE(b, leap_digits(b), zeros));
    expression long_month = CHOICE(b, text(b, "01"), text(b, "03"), text(b, "05"), text(b, "07"),
                                   text(b, "08"), text(b, "10"), text(b, "12"));
    expression short_month = CHOICE(b, text(b, "04"), text(b, "06"), text(b, "09"), text(b, "11"));
    expression day = CHOICE(b, SEQUENCE(b, long_month, dash, two_digits(b, 1, 31)),
                            SEQUENCE(b, short_month, dash, two_digits(b, 1, 30)),
                            SEQUENCE(b, text(b, "02-"), two_digits(b, 1, 28)));
    return CHOICE(b, SEQUENCE(b, year, dash, day), SEQUENCE(b, leap, text(b, "-02-29")));
}

/* RFC 3339, full-time, without leap seconds; up to nine digits of a fraction. */
static expression time_of_day(struct builder *b)
{
    expression hour = two_digits(b, 0, 23), sixty = two_digits(b, 0, 59), colon = text(b, ":");
    expression fraction = expression_optional(b, SEQUENCE(b, text(b, "."), digits(b, 1, 9)));
    expression zone = CHOICE(b, text(b, "Z"), SEQUENCE(b, bytes_of(b, "+-"), hour, colon, sixty));
    return SEQUENCE(b, hour, colon, sixty, colon, sixty, fraction, zone);
}

static expression date_time(struct builder *b)
{
    return SEQUENCE(b, date(b), text(b, "T"), time_of_day(b));
}

static expression uuid(struct builder *b)
{
    expression hex = bytes_of(b, "0123456789abcdefABCDEF"),
               four = SEQUENCE(b, text(b, "-"), expression_repeat(b, hex, 4, 4));
    return SEQUENCE(b, expression_repeat(b, hex, 8, 8), four, four, four, text(b, "-"),
                    expression_repeat(b, hex, 12, 12));
}

expression texts_of_format(struct builder *b, const char *format, uint64_t *low, uint64_t *high)
{
    static const struct {
        const char *name;
        expression (*make)(struct builder *b);
        uint64_t low, high;
    } formats[] = {{"date", date, 10, 10},
                   {"time", time_of_day, 9, 24},
                   {"date-time", date_time, 20, 35},
                   {"uuid", uuid, 36, 36}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, format) == 0) {
            *low = formats[i].low;
            *high = formats[i].high;
            return formats[i].make(b);
        }
    return NOTHING;
}
