#include "select/select.h"
#include "select/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The candidates stay in ascending order of ids: a filter only takes some out.  So "the lower id" of
 * equal ones is the one that comes first, and sums have an order that does not depend on a sort. */
struct selector {
    struct select_options options;
    uint32_t *id;  /* (n) */
    float *logit;  /* (n) */
    float *weight; /* (n) probabilities times a common factor */
    size_t n, capacity;
    double temperature; /* what logits are to be divided by */
    bool weighted;      /* the weights are those of this temperature */
};

struct selector *selector_new(const struct select_options *options)
{
    struct selector *s = allocate(1, sizeof *s);
    s->options = *options;
    return s;
}

void selector_free(struct selector *s)
{
    if (!s)
        return;
    free(s->id);
    free(s->logit);
    free(s->weight);
    free(s);
}

static void make_room(struct selector *s, size_t n)
{
    size_t capacities[3] = {s->capacity, s->capacity, s->capacity};
    s->id = grow(s->id, &capacities[0], n, sizeof *s->id);
    s->logit = grow(s->logit, &capacities[1], n, sizeof *s->logit);
    s->weight = grow(s->weight, &capacities[2], n, sizeof *s->weight);
    s->capacity = capacities[0];
}

/* ---- the greatest logit, and errors -------------------------------------------------------- */

enum { BLOCK = 16 };

/* Whether something in a block is greater than `best`, or NaN.  Written so that compilers make vector
 * instructions of it. */
static bool block_exceeds(const float *logits, float best)
{
    int any = 0;
    for (int i = 0; i < BLOCK; i++)
        any |= !(logits[i] <= best);
    return any;
}

static bool is_banned(const struct select_question *q, uint32_t id)
{
    size_t low = 0, high = q->n_banned;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (q->banned[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < q->n_banned && q->banned[low] == id;
}

static bool find_best(const struct select_question *q, uint32_t *id, struct error *error)
{
    float best = -INFINITY;
    bool found = false;
    for (uint32_t i = 0; i < q->n; i++) {
        while (i % BLOCK == 0 && q->n - i >= BLOCK && !block_exceeds(q->logits + i, best))
            i += BLOCK;
        if (i >= q->n || q->logits[i] <= best)
            continue;
        if (isnan(q->logits[i]) || isinf(q->logits[i]))
            return error_set(error, STATUS_INPUT, "the logit of token %u for position %u is %s", i, q->position,
                             isnan(q->logits[i]) ? "NaN" : "+infinity");
        if (i < q->n_selectable && !is_banned(q, i)) {
            best = q->logits[i];
            *id = i;
            found = true;
        }
    }
    if (!found)
        return error_set(error, STATUS_INPUT, "no token can be selected for position %u: every logit is -infinity",
                         q->position);
    return true;
}

/* ---- the chain ----------------------------------------------------------------------------- */

/* Bits that are ordered as the numbers are. */
static uint32_t ordered(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) == 0)
        bits = 0; /* -0 equals 0 */
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

/* Softmax without its division: weight = exp((logit - greatest logit) / temperature), the difference
 * and the quotient in f64, then rounded to f32.  Put off until a filter or the draw asks for it: top-k
 * does not, and leaves few. */
static void need_weights(struct selector *s)
{
    if (s->weighted)
        return;
    float greatest = -INFINITY;
    for (size_t i = 0; i < s->n; i++)
        greatest = s->logit[i] > greatest ? s->logit[i] : greatest;
    select_weights(s->logit, s->n, greatest, s->temperature, s->weight);
    s->weighted = true;
}

/* In ascending order of ids. */
static double total_weight(const struct selector *s)
{
    double total = 0;
    for (size_t i = 0; i < s->n; i++)
        total += (double)s->weight[i];
    return total;
}

enum measure { BY_COUNT, BY_WEIGHT };

static uint32_t key_of(const struct selector *s, size_t i, enum measure measure)
{
    return ordered(measure == BY_COUNT ? s->logit[i] : s->weight[i]);
}

/* Moves candidate i to the place `to`. */
static void move(struct selector *s, size_t to, size_t i)
{
    s->id[to] = s->id[i];
    s->logit[to] = s->logit[i];
    s->weight[to] = s->weight[i];
}

/* Where a filter that keeps the greatest cuts: all keys above `key` stay, and of those that equal it
 * the first ones, until the measure has reached the target. */
struct cut {
    uint32_t key;
    double above; /* the measure of the keys above */
};

/* Radix selection: the measure of each value of the key's leading 11 bits, from the greatest down until the
 * target is reached; then the next 11 bits of those that share that value, then the last 10.  Linear in n
 * whatever the logits are.  Order of the sums: each bin in ascending order of ids, the bins in
 * descending order of keys. */
static struct cut find_cut(const struct selector *s, enum measure measure, double target)
{
    static const struct {
        int shift;
        uint32_t bins;
    } digits[] = {{21, 2048}, {10, 2048}, {0, 1024}};
    double sum[2048];
    struct cut cut = {0, 0};
    uint32_t mask = 0;
    for (size_t d = 0; d < sizeof digits / sizeof *digits; d++) {
        uint32_t last = digits[d].bins - 1, bin = last;
        bool used[2048] = {false};
        memset(sum, 0, sizeof sum);
        for (size_t i = 0; i < s->n; i++) {
            uint32_t key = key_of(s, i, measure);
            if ((key & mask) != cut.key)
                continue;
            uint32_t at = key >> digits[d].shift & last;
            sum[at] += measure == BY_COUNT ? 1.0 : (double)s->weight[i];
            used[at] = true;
        }
        uint32_t lowest = 0; /* where rounding keeps the sum below the target, everything stays */
        while (!used[lowest])
            lowest++;
        while (bin > lowest && (!used[bin] || cut.above + sum[bin] < target))
            cut.above += sum[bin--];
        cut.key |= bin << digits[d].shift;
        mask |= last << digits[d].shift;
    }
    return cut;
}

/* Keeps the smallest set of the greatest candidates whose measure is at least the target. */
static void keep_greatest(struct selector *s, enum measure measure, double target)
{
    struct cut cut = find_cut(s, measure, target);
    double sum = cut.above;
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++) {
        uint32_t key = key_of(s, i, measure);
        if (key < cut.key || (key == cut.key && sum >= target))
            continue;
        if (key == cut.key)
            sum += measure == BY_COUNT ? 1.0 : (double)s->weight[i];
        move(s, kept++, i);
    }
    s->n = kept;
}

/* Gathers the candidates; where top-k comes next, only those that it could keep: whenever there are
 * many more, the others go, and what does not exceed the least that is left need not be looked at. */
static void collect(struct selector *s, const struct select_question *q)
{
    uint32_t n = q->n < q->n_selectable ? q->n : q->n_selectable;
    size_t k = s->options.top_k > 0 && s->options.top_k < n ? (size_t)s->options.top_k : n;
    size_t many = k < n / 4 ? 2 * k + 256 : SIZE_MAX, banned = 0;
    float least = -INFINITY;
    make_room(s, many < n ? many : n);
    s->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        while (i % BLOCK == 0 && n - i >= BLOCK && !block_exceeds(q->logits + i, least))
            i += BLOCK;
        if (i >= n || q->logits[i] <= least)
            continue;
        while (banned < q->n_banned && q->banned[banned] < i)
            banned++;
        if (banned < q->n_banned && q->banned[banned] == i)
            continue;
        s->id[s->n] = i;
        s->logit[s->n++] = q->logits[i];
        if (s->n < many)
            continue;
        keep_greatest(s, BY_COUNT, (double)k);
        least = INFINITY;
        for (size_t j = 0; j < s->n; j++)
            least = s->logit[j] < least ? s->logit[j] : least;
    }
    s->temperature = 1;
    s->weighted = false;
}

static void apply_temperature(struct selector *s)
{
    s->temperature = s->options.temperature;
    s->weighted = false;
}

static void apply_top_k(struct selector *s)
{
    if (s->options.top_k > 0 && (uint64_t)s->options.top_k < s->n)
        keep_greatest(s, BY_COUNT, (double)s->options.top_k);
}

/* Takes out what is lighter. */
static void keep_heavy(struct selector *s, double weight)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
        if ((double)s->weight[i] >= weight)
            move(s, kept++, i);
    s->n = kept;
}

/* All candidates that are lighter than (1 - p) / 2n of the total weigh less than (1 - p) / 2 together: p is
 * reached without them.  Taking them out first leaves few to select from. */
static void apply_top_p(struct selector *s)
{
    double p = s->options.top_p;
    if (p >= 1)
        return;
    need_weights(s);
    double total = total_weight(s);
    if (p < 1 - 1e-6) /* far more than what rounding does to the sums */
        keep_heavy(s, (1 - p) / 2 / (double)s->n * total);
    keep_greatest(s, BY_WEIGHT, p > 0 ? p * total : 0x1p-1000); /* always at least one */
}

static void apply_min_p(struct selector *s)
{
    if (s->options.min_p <= 0)
        return;
    need_weights(s);
    float greatest = 0;
    for (size_t i = 0; i < s->n; i++)
        greatest = s->weight[i] > greatest ? s->weight[i] : greatest;
    keep_heavy(s, s->options.min_p * (double)greatest);
}

static void (*const chain[])(struct selector *) = {apply_temperature, apply_top_k, apply_top_p, apply_min_p};

double select_uniform(uint64_t seed, uint32_t draw_stream, uint32_t position)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {position, draw_stream, 0, 0};
    uint32_t word[4];
    philox4x32(key, counter, word);
    return (double)(((uint64_t)word[1] << 32 | word[0]) >> 11) * 0x1p-53;
}

/* u * total < total, and the sum ends at exactly the total: some candidate passes. */
static uint32_t draw(struct selector *s, double u)
{
    need_weights(s);
    double target = u * total_weight(s), sum = 0;
    size_t i = 0;
    for (; i + 1 < s->n; i++) {
        sum += (double)s->weight[i];
        if (sum > target)
            break;
    }
    return s->id[i];
}

bool select_choose(struct selector *s, const struct select_question *q, uint32_t *id, struct error *error)
{
    if (!find_best(q, id, error))
        return false;
    if (s->options.temperature <= 0)
        return true;
    collect(s, q);
    for (size_t i = 0; i < sizeof chain / sizeof *chain; i++)
        chain[i](s);
    *id = draw(s, select_uniform(s->options.seed, q->draw_stream, q->position));
    return true;
}

void select_describe(const struct select_options *o, char *text, size_t size)
{
    if (o->temperature <= 0) {
        snprintf(text, size, "greedy");
        return;
    }
    char top_k[40] = "", top_p[40] = "", min_p[40] = "";
    if (o->top_k > 0)
        snprintf(top_k, sizeof top_k, ", top-k %lld", (long long)o->top_k);
    if (o->top_p < 1)
        snprintf(top_p, sizeof top_p, ", top-p %g", o->top_p);
    if (o->min_p > 0)
        snprintf(min_p, sizeof min_p, ", min-p %g", o->min_p);
    snprintf(text, size, "temperature %g%s%s%s", o->temperature, top_k, top_p, min_p);
}

/* ---- the greatest few, in order ------------------------------------------------------------ */

struct ranked {
    uint32_t key, id;
};

static int by_key(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

size_t select_top(const float *logits, uint32_t n, size_t k, uint32_t *ids)
{
    struct selector s = {.n = n};
    make_room(&s, n);
    for (uint32_t i = 0; i < n; i++) {
        s.id[i] = i;
        s.logit[i] = isnan(logits[i]) ? NAN : logits[i];
        s.weight[i] = 0;
    }
    if (k < n)
        keep_greatest(&s, BY_COUNT, (double)k);
    struct ranked *ranked = allocate(s.n, sizeof *ranked);
    for (size_t i = 0; i < s.n; i++)
        ranked[i] = (struct ranked){ordered(s.logit[i]), s.id[i]};
    qsort(ranked, s.n, sizeof *ranked, by_key);
    for (size_t i = 0; i < s.n; i++)
        ids[i] = ranked[i].id;
    free(ranked);
    free(s.id);
    free(s.logit);
    free(s.weight);
    return s.n;
}
