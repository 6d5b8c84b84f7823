#include "select/internal.h"
#include "select/select.h"

#include <float.h>
#include <stdlib.h>

/* What is known of a token in the window. */
struct tally {
    uint32_t seen;   /* how often it stands there; for DRY: the longest repetition before it */
    uint32_t counts; /* how often it counts for presence and frequency */
};

struct penalizer {
    struct tally *tally; /* by id: zero but while a call is at work */
    uint32_t *touched;   /* ids whose tally is not zero */
    uint32_t *match;     /* by place, of DRY */
    size_t n_tally, n_touched, touched_capacity, match_capacity;
};

struct penalizer *penalizer_new(void)
{
    return allocate(1, sizeof(struct penalizer));
}

void penalizer_free(struct penalizer *p)
{
    if (!p)
        return;
    free(p->tally);
    free(p->touched);
    free(p->match);
    free(p);
}

static void need_tally(struct penalizer *p, uint32_t n)
{
    if (n <= p->n_tally)
        return;
    free(p->tally);
    p->tally = allocate(n, sizeof *p->tally);
    p->n_tally = n;
}

static struct tally *touch(struct penalizer *p, uint32_t id)
{
    if (!p->tally[id].seen) {
        p->touched = grow(p->touched, &p->touched_capacity, p->n_touched + 1, sizeof *p->touched);
        p->touched[p->n_touched++] = id;
    }
    return &p->tally[id];
}

static uint32_t window(uint32_t n, int64_t last)
{
    return last < 0 || last > n ? n : (uint32_t)last;
}

void select_penalize(struct penalizer *p, const struct select_penalties *o,
                     const struct select_context *context, float *logits, uint32_t n)
{
    if (o->repeat == 1 && o->presence == 0 && o->frequency == 0)
        return;
    need_tally(p, n);
    for (uint32_t i = context->n - window(context->n, o->last); i < context->n; i++) {
        uint32_t id = context->tokens[i];
        if (id >= n)
            continue;
        struct tally *tally = touch(p, id);
        tally->seen++;
        tally->counts += o->prompt || (context->flags[i] & context->generated);
    }
    for (size_t i = 0; i < p->n_touched; i++) {
        float *logit = &logits[p->touched[i]];
        struct tally *tally = &p->tally[p->touched[i]];
        if (o->repeat != 1)
            *logit =
                select_round(*logit > 0 ? (double)*logit / o->repeat : (double)*logit * o->repeat);
        if (tally->counts && (o->presence != 0 || o->frequency != 0))
            *logit =
                select_round((double)*logit - ((double)tally->counts * o->frequency + o->presence));
        *tally = (struct tally){0};
    }
    p->n_touched = 0;
}

/* ---- DRY ----------------------------------------------------------------------------------- */

/* match[i] (n): how many tokens, reading backwards from the end, equal those that one reads
 * backwards from the token i places before it.  The part [left, right) was last found to equal the
 * beginning, so what is known of the beginning tells of it: each token is compared at most twice.
 */
static void find_matches(const uint32_t *tokens, uint32_t n, uint32_t *match)
{
    const uint32_t *last = tokens + n - 1;
    uint32_t left = 0, right = 0;
    match[0] = n;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t length = 0;
        if (i < right)
            length = match[i - left] < right - i ? match[i - left] : right - i;
        while (i + length < n && last[-(ptrdiff_t)length] == last[-(ptrdiff_t)(i + length)])
            length++;
        match[i] = length;
        if (i + length > right) {
            left = i;
            right = i + length;
        }
    }
}

/* By squaring: exact where the result is. */
static double power(double base, uint64_t exponent)
{
    double result = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

void select_dry(struct penalizer *p, const struct select_dry *o, const uint32_t *tokens,
                uint32_t n_tokens, uint32_t clear, bool (*breaks)(void *context, uint32_t id),
                void *breaks_context, float *logits, uint32_t n)
{
    uint32_t size = window(n_tokens, o->last);
    tokens += n_tokens - size;
    if (o->multiplier == 0 || size < 2 || clear < o->allowed_length)
        return;
    need_tally(p, n);
    p->match = grow(p->match, &p->match_capacity, size, sizeof *p->match);
    find_matches(tokens, size, p->match);
    for (uint32_t i = 1; i < size; i++) {
        uint32_t length = p->match[i] < clear ? p->match[i] : clear, next = tokens[size - i];
        if (length == 0 || length < o->allowed_length || next >= n ||
            (breaks && breaks(breaks_context, next)))
            continue;
        struct tally *tally = touch(p, next);
        tally->seen = tally->seen > length ? tally->seen : length;
    }
    for (size_t i = 0; i < p->n_touched; i++) {
        uint32_t id = p->touched[i];
        double penalty =
            o->multiplier * power(o->base, (uint64_t)(p->tally[id].seen - o->allowed_length));
        if (penalty > (double)FLT_MAX)
            penalty = (double)FLT_MAX;
        logits[id] = select_round((double)logits[id] - penalty);
        p->tally[id] = (struct tally){0};
    }
    p->n_touched = 0;
}
