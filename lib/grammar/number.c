/* Numbers between bounds, digit by digit: nothing is rounded. */
#include "grammar/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 15

/* ---- decimals ------------------------------------------------------------------------------ */

static void decimal_from_digits(struct decimal *d, bool negative, const char *digits, int n,
                                int exponent)
{
    *d = (struct decimal){.negative = negative};
    while (n > 0 && digits[n - 1] == '0')
        n--;
    for (int i = 0; i < n; i++) { /* digit i counts 10^(exponent - i) */
        if (exponent - i >= 0)
            d->integer[d->n_integer++] = (uint8_t)(digits[i] - '0');
        else if (i == 0)
            for (int zero = -1; zero > exponent; zero--)
                d->fraction[d->n_fraction++] = 0;
        if (exponent - i < 0)
            d->fraction[d->n_fraction++] = (uint8_t)(digits[i] - '0');
    }
    for (int i = n; n > 0 && i <= exponent; i++)
        d->integer[d->n_integer++] = 0;
    if (n == 0)
        d->negative = false;
}

/* Prints with more and more digits until the value comes back. */
void decimal_from_real(struct decimal *decimal, double value)
{
    char text[40], digits[20];
    int n = 0, precision = 0;
    do
        snprintf(text, sizeof text, "%.*e", precision, value < 0 ? -value : value);
    while (strtod(text, NULL) != (value < 0 ? -value : value) && ++precision < 17);
    for (const char *at = text; *at != 'e'; at++)
        if (*at != '.')
            digits[n++] = *at;
    int exponent = atoi(strchr(text, 'e') + 1);
    if (value == 0)
        n = 0;
    decimal_from_digits(decimal, value < 0, digits, n, exponent);
}

void decimal_from_integer(struct decimal *decimal, long long value)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%llu",
                     value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value);
    decimal_from_digits(decimal, value < 0, text, value ? n : 0, n - 1);
}

static int compare_magnitudes(const struct decimal *a, const struct decimal *b)
{
    if (a->n_integer != b->n_integer)
        return a->n_integer < b->n_integer ? -1 : 1;
    int order = memcmp(a->integer, b->integer, a->n_integer);
    return order ? order
                 : memcmp(a->fraction, b->fraction, DECIMAL_DIGITS); /* zeros after the last */
}

int decimal_compare(const struct decimal *a, const struct decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

/* ---- ranges of magnitudes ------------------------------------------------------------------ */

struct range {
    struct builder *b;
    struct decimal low, high;
    bool low_exclusive, high_exclusive;
    uint32_t n_fraction; /* digits of a fraction, at most */
};

static expression digit_range(struct builder *b, int low, int high)
{
    return low > high ? NOTHING
                      : expression_byte_range(b, (uint8_t)('0' + low), (uint8_t)('0' + high));
}

static expression free_digits(struct builder *b, uint32_t low, uint32_t high)
{
    return expression_repeat(b, digit_range(b, 0, 9), low, high);
}

/* Digits of which those at the ends of a range are followed by what is bound further, and those
 * between by what is free. */
struct fork {
    int low, high;
    bool low_bound, high_bound; /* whether a bound lies at the end of the range */
    expression at_low, at_high, at_both, between;
};

static expression fork_digits(struct builder *b, const struct fork *f)
{
    int low = f->low + f->low_bound, high = f->high - f->high_bound;
    if (f->low > f->high)
        return NOTHING;
    if (f->low == f->high && f->low_bound && f->high_bound)
        return SEQUENCE(b, digit_range(b, f->low, f->low), f->at_both);
    return CHOICE(
        b, f->low_bound ? SEQUENCE(b, digit_range(b, f->low, f->low), f->at_low) : NOTHING,
        SEQUENCE(b, digit_range(b, low, high), f->between),
        f->high_bound ? SEQUENCE(b, digit_range(b, f->high, f->high), f->at_high) : NOTHING);
}

/* Integers of exactly n digits, from the i-th on; a bound that has been equal so far binds further.
 */
static expression integer_digits(struct range *r, uint32_t n, uint32_t i, bool low_bound,
                                 bool high_bound)
{
    if (i == n)
        return (low_bound && r->low_exclusive) || (high_bound && r->high_exclusive) ? NOTHING
                                                                                    : EMPTY;
    if (!low_bound && !high_bound && i > 0)
        return free_digits(r->b, n - i, n - i);
    struct fork f = {.low = low_bound ? r->low.integer[i] : i == 0 && n > 1,
                     .high = high_bound ? r->high.integer[i] : 9,
                     .low_bound = low_bound,
                     .high_bound = high_bound,
                     .between = free_digits(r->b, n - i - 1, n - i - 1)};
    bool both = low_bound && high_bound && f.low == f.high;
    if (both)
        f.at_both = integer_digits(r, n, i + 1, true, true);
    else if (low_bound)
        f.at_low = integer_digits(r, n, i + 1, true, false);
    if (!both && high_bound)
        f.at_high = integer_digits(r, n, i + 1, false, true);
    return fork_digits(r->b, &f);
}

/* Integers without leading zeros. */
static expression integers(struct range *r)
{
    uint32_t low = r->low.n_integer, high = r->high.n_integer; /* zero has one digit here */
    low += low == 0, high += high == 0;
    if (low > high)
        return NOTHING;
    if (low == high)
        return integer_digits(r, low, 0, true, true);
    expression between = NOTHING;
    if (high > low + 1)
        between = SEQUENCE(r->b, digit_range(r->b, 1, 9), free_digits(r->b, low, high - 2));
    return CHOICE(r->b, integer_digits(r, low, 0, true, false), between,
                  integer_digits(r, high, 0, false, true));
}

/* Whether a fraction may end after i digits that were equal to the bounds that still bind. */
static bool may_end(const struct range *r, uint32_t i, bool low_bound, bool high_bound)
{
    if (low_bound && (i < r->low.n_fraction || r->low_exclusive))
        return false;
    return !(high_bound && i >= r->high.n_fraction && r->high_exclusive);
}

static expression fraction_rest(struct range *r, uint32_t i, bool low_bound, bool high_bound);

static expression fraction_digits(struct range *r, uint32_t i, bool low_bound, bool high_bound)
{
    if (i >= r->n_fraction)
        return NOTHING;
    struct fork f = {.low = low_bound ? r->low.fraction[i] : 0,
                     .high = high_bound ? r->high.fraction[i] : 9,
                     .low_bound = low_bound,
                     .high_bound = high_bound,
                     .between = free_digits(r->b, 0, r->n_fraction - i - 1)};
    bool both = low_bound && high_bound && f.low == f.high;
    if (both)
        f.at_both = fraction_rest(r, i + 1, true, true);
    else if (low_bound)
        f.at_low = fraction_rest(r, i + 1, true, false);
    if (!both && high_bound)
        f.at_high = fraction_rest(r, i + 1, false, true);
    return fork_digits(r->b, &f);
}

static expression fraction_rest(struct range *r, uint32_t i, bool low_bound, bool high_bound)
{
    if (low_bound && !r->low_exclusive && i >= r->low.n_fraction)
        low_bound = false; /* whatever follows is not less */
    if (!low_bound && !high_bound)
        return free_digits(r->b, 0, r->n_fraction - i);
    expression more = fraction_digits(r, i, low_bound, high_bound);
    return CHOICE(r->b, may_end(r, i, low_bound, high_bound) ? EMPTY : NOTHING, more);
}

static expression fraction(struct range *r, bool low_bound, bool high_bound)
{
    expression more = fraction_digits(r, 0, low_bound, high_bound);
    return CHOICE(r->b, may_end(r, 0, low_bound, high_bound) ? EMPTY : NOTHING,
                  SEQUENCE(r->b, expression_byte_range(r->b, '.', '.'), more));
}

static expression exact_integer(struct builder *b, const struct decimal *d)
{
    char text[DECIMAL_DIGITS + 1] = "0";
    for (size_t i = 0; i < d->n_integer; i++)
        text[i] = (char)('0' + d->integer[i]);
    return expression_text(b, text, d->n_integer ? d->n_integer : 1);
}

/* Decimals: by what their integer part is. */
static expression decimals(struct range *r)
{
    struct builder *b = r->b;
    if (compare_magnitudes(&r->low, &r->high) > 0)
        return NOTHING;
    if (r->low.n_integer == r->high.n_integer &&
        memcmp(r->low.integer, r->high.integer, r->low.n_integer) == 0)
        return SEQUENCE(b, exact_integer(b, &r->low), fraction(r, true, true));
    struct range inner = *r;
    inner.low_exclusive = inner.high_exclusive = true;
    return CHOICE(b, SEQUENCE(b, exact_integer(b, &r->low), fraction(r, true, false)),
                  SEQUENCE(b, integers(&inner), fraction(r, false, false)),
                  SEQUENCE(b, exact_integer(b, &r->high), fraction(r, false, true)));
}

/* An integer beyond a bound with a fraction is beyond its integer part: at the lower end not it, at
 * the upper one it too. */
static expression whole_numbers(struct range *r)
{
    r->low_exclusive |= r->low.n_fraction > 0;
    r->high_exclusive &= r->high.n_fraction == 0;
    return integers(r);
}

/* ---- bounds -------------------------------------------------------------------------------- */

/* The greatest magnitude where there is no bound: 15 digits, or one more than the other bound has.
 */
static void set_greatest(struct decimal *d, const struct decimal *least)
{
    *d = (struct decimal){
        .n_integer = (uint16_t)(least->n_integer >= DIGITS ? least->n_integer + 1 : DIGITS)};
    memset(d->integer, 9, d->n_integer);
}

static uint32_t fraction_length(const struct bound *low, const struct bound *high)
{
    uint32_t n_integer = 0, n = 0;
    for (int i = 0; i < 2; i++) {
        const struct bound *bound = i ? high : low;
        if (!bound->given)
            continue;
        n_integer = bound->value.n_integer > n_integer ? bound->value.n_integer : n_integer;
        n = bound->value.n_fraction > n ? bound->value.n_fraction : n;
    }
    uint32_t enough = n_integer < DIGITS ? DIGITS - n_integer : 0;
    return n > enough ? n : enough;
}

expression texts_of_bounded(struct builder *b, const struct bound *low, const struct bound *high,
                            bool integer)
{
    expression (*between)(struct range *) = integer ? whole_numbers : decimals, positive = NOTHING,
                                       negative = NOTHING;
    struct range r = {.b = b, .n_fraction = fraction_length(low, high)};
    if (!high->given || !high->value.negative) {
        if (low->given && !low->value.negative)
            r.low = low->value, r.low_exclusive = low->exclusive;
        if (high->given)
            r.high = high->value, r.high_exclusive = high->exclusive;
        else
            set_greatest(&r.high, &r.low);
        positive = between(&r);
    }
    if (!low->given || low->value.negative) { /* magnitudes, from the other end; zero has no sign */
        r = (struct range){.b = b, .n_fraction = r.n_fraction, .low_exclusive = true};
        if (high->given && high->value.negative)
            r.low = high->value, r.low_exclusive = high->exclusive;
        if (low->given)
            r.high = low->value, r.high_exclusive = low->exclusive;
        else
            set_greatest(&r.high, &r.low);
        negative = SEQUENCE(b, expression_byte_range(b, '-', '-'), between(&r));
    }
    return CHOICE(b, positive, negative);
}
