#include "select/select.h"
#include "select/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The candidates stay in ascending order of ids: a filter only takes some out.  So "the lower id"
 * of equal ones is the one that comes first, and sums have an order that does not depend on a sort.
 */
struct selector {
    struct select_options options;
    size_t first_k; /* the chain begins with this top-k; 0: with something else */
    uint32_t *id;   /* (n) */
    float *logit;   /* (n) */
    float *weight;  /* (n) probabilities times a common factor */
    float *key;     /* (n) what typical goes by */
    size_t n, capacity, key_capacity;
    double temperature; /* what logits are to be divided by */
    double greatest;    /* logit, when the weights were taken */
    bool weighted;      /* the weights are those of this temperature */
    double xtc;         /* the number that decides */
    uint32_t chosen;    /* the last answer */
};

void selector_free(struct selector *s)
{
    if (!s)
        return;
    free(s->id);
    free(s->logit);
    free(s->weight);
    free(s->key);
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

/* Whether something in a block is greater than `best`, or NaN.  Written so that compilers make
 * vector instructions of it. */
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
            return error_set(error, STATUS_INPUT, "the logit of token %u for position %u is %s", i,
                             q->position, isnan(q->logits[i]) ? "NaN" : "+infinity");
        if (i < q->n_selectable && !is_banned(q, i)) {
            best = q->logits[i];
            *id = i;
            found = true;
        }
    }
    if (!found)
        return error_set(error, STATUS_INPUT,
                         "no token can be selected for position %u: every logit is -infinity",
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

/* Softmax without its division: weight = exp((logit - greatest logit) / temperature), the
 * difference and the quotient in f64, then rounded to f32.  Put off until a filter or the draw asks
 * for it: top-k does not, and leaves few. */
static void need_weights(struct selector *s)
{
    if (s->weighted)
        return;
    float greatest = -INFINITY;
    for (size_t i = 0; i < s->n; i++)
        greatest = s->logit[i] > greatest ? s->logit[i] : greatest;
    select_weights(s->logit, s->n, greatest, s->temperature, s->weight);
    s->greatest = (double)greatest;
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

/* How a filter that keeps the greatest goes: by which numbers, and whether what it keeps is counted
 * or weighed. */
struct measure {
    const float *key; /* (n) */
    bool weighed;
};

static double measure_of(const struct selector *s, const struct measure *by, size_t i)
{
    return by->weighed ? (double)s->weight[i] : 1.0;
}

/* Moves candidate i to the place `to`. */
static void move(struct selector *s, size_t to, size_t i)
{
    s->id[to] = s->id[i];
    s->logit[to] = s->logit[i];
    s->weight[to] = s->weight[i];
}

/* Where a filter that keeps the greatest cuts: all keys above `key` stay, and of those that equal
 * it the first ones, until the measure has reached the target. */
struct cut {
    uint32_t key;
    double above; /* the measure of the keys above */
};

/* Radix selection: the measure of each value of the key's leading 11 bits, from the greatest down
 * until the target is reached; then the next 11 bits of those that share that value, then the
 * last 10.  Linear in n whatever the logits are.  Order of the sums: each bin in ascending order of
 * ids, the bins in descending order of keys. */
static struct cut find_cut(const struct selector *s, const struct measure *by, double target)
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
            uint32_t key = ordered(by->key[i]);
            if ((key & mask) != cut.key)
                continue;
            uint32_t at = key >> digits[d].shift & last;
            sum[at] += measure_of(s, by, i);
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
static void keep_greatest(struct selector *s, struct measure by, double target)
{
    struct cut cut = find_cut(s, &by, target);
    double sum = cut.above;
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++) {
        uint32_t key = ordered(by.key[i]); /* of i: what was moved is before it */
        if (key < cut.key || (key == cut.key && sum >= target))
            continue;
        if (key == cut.key)
            sum += measure_of(s, &by, i);
        move(s, kept++, i);
    }
    s->n = kept;
}

static void keep_count(struct selector *s, size_t k)
{
    keep_greatest(s, (struct measure){s->logit, false}, (double)k);
}

static void add_candidate(struct selector *s, uint32_t id, float logit)
{
    s->id[s->n] = id;
    s->logit[s->n++] = logit;
}

static float least_logit(const struct selector *s)
{
    float least = INFINITY;
    for (size_t i = 0; i < s->n; i++)
        least = s->logit[i] < least ? s->logit[i] : least;
    return least;
}

/* Gathers the candidates among n logits, but not those of -infinity; where only the k greatest are
 * wanted, those that may be among them: whenever there are many more, the others go, and what does
 * not exceed the least that is left need not be looked at. */
static void gather(struct selector *s, const float *logits, uint32_t n, size_t k,
                   const uint32_t *banned, size_t n_banned)
{
    size_t many = k < n / 4 ? 2 * k + 256 : SIZE_MAX, next = 0;
    float least = -INFINITY;
    make_room(s, many < n ? many : n);
    s->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        while (i % BLOCK == 0 && n - i >= BLOCK && !block_exceeds(logits + i, least))
            i += BLOCK;
        if (i >= n || logits[i] <= least)
            continue;
        while (next < n_banned && banned[next] < i)
            next++;
        if (next < n_banned && banned[next] == i)
            continue;
        add_candidate(s, i, isnan(logits[i]) ? NAN : logits[i]);
        if (s->n < many)
            continue;
        keep_count(s, k);
        least = least_logit(s);
    }
}

static void collect(struct selector *s, const struct select_question *q)
{
    uint32_t n = q->n < q->n_selectable ? q->n : q->n_selectable;
    gather(s, q->logits, n, s->first_k ? s->first_k : n, q->banned, q->n_banned);
    s->temperature = 1;
    s->weighted = false;
}

/* The entropy of the candidates, and *log_total, the logarithm of what all weights add up to.  Sums
 * in ascending order of ids. */
static double entropy(struct selector *s, double *log_total)
{
    need_weights(s);
    double total = total_weight(s), sum = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->weight[i] > 0)
            sum += (double)s->weight[i] * (((double)s->logit[i] - s->greatest) / s->temperature);
    *log_total = exact_log(total);
    return *log_total - sum / total;
}

static void apply_temperature(struct selector *s)
{
    const struct select_options *o = &s->options;
    double temperature = o->temperature;
    if (o->dynatemp_range > 0 && s->n > 1) {
        double low = temperature > o->dynatemp_range ? temperature - o->dynatemp_range : 0,
               log_total;
        double share = entropy(s, &log_total) / exact_log((double)s->n);
        share = share < 0 ? 0 : share > 1 ? 1 : share;
        double power = o->dynatemp_exponent == 1 ? share
                       : share > 0               ? exact_pow(share, o->dynatemp_exponent)
                                                 : o->dynatemp_exponent == 0;
        temperature = low + (temperature + o->dynatemp_range - low) * power;
        temperature = temperature < 1e-6 ? 1e-6 : temperature;
    }
    s->temperature = temperature;
    s->weighted = false;
}

/* Takes out what is less than the limit. */
static void keep_at_least(struct selector *s, const float *key, double limit)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
        if ((double)key[i] >= limit)
            move(s, kept++, i);
    s->n = kept;
}

/* Sums in ascending order of ids. */
static void apply_top_n_sigma(struct selector *s)
{
    double sum = 0, squares = 0, greatest = -INFINITY;
    for (size_t i = 0; i < s->n; i++) {
        sum += (double)s->logit[i];
        greatest = (double)s->logit[i] > greatest ? (double)s->logit[i] : greatest;
    }
    double mean = sum / (double)s->n;
    for (size_t i = 0; i < s->n; i++)
        squares += ((double)s->logit[i] - mean) * ((double)s->logit[i] - mean);
    keep_at_least(s, s->logit, greatest - s->options.top_n_sigma * sqrt(squares / (double)s->n));
}

static void apply_top_k(struct selector *s)
{
    if ((uint64_t)s->options.top_k < s->n)
        keep_count(s, (size_t)s->options.top_k);
}

static double at_least_one(double target)
{
    return target > 0 ? target : 0x1p-1000;
}

static void apply_typical(struct selector *s)
{
    double log_total, expected = entropy(s, &log_total);
    s->key = grow(s->key, &s->key_capacity, s->n, sizeof *s->key);
    for (size_t i = 0; i < s->n; i++) {
        double surprise = log_total - ((double)s->logit[i] - s->greatest) / s->temperature;
        s->key[i] = -(float)fabs(surprise - expected);
    }
    keep_greatest(s, (struct measure){s->key, true},
                  at_least_one(s->options.typical * total_weight(s)));
}

/* All candidates that are lighter than (1 - p) / 2n of the total weigh less than (1 - p) / 2
 * together: p is reached without them.  Taking them out first leaves few to select from. */
static void apply_top_p(struct selector *s)
{
    double p = s->options.top_p;
    need_weights(s);
    double total = total_weight(s);
    if (p < 1 - 1e-6) /* far more than what rounding does to the sums */
        keep_at_least(s, s->weight, (1 - p) / 2 / (double)s->n * total);
    keep_greatest(s, (struct measure){s->weight, true}, at_least_one(p * total));
}

static void apply_min_p(struct selector *s)
{
    need_weights(s);
    float greatest = 0;
    for (size_t i = 0; i < s->n; i++)
        greatest = s->weight[i] > greatest ? s->weight[i] : greatest;
    keep_at_least(s, s->weight, s->options.min_p * (double)greatest);
}

static void apply_xtc(struct selector *s)
{
    if (s->xtc >= s->options.xtc_probability)
        return;
    need_weights(s);
    double limit = s->options.xtc_threshold * total_weight(s);
    size_t n_top = 0, least = 0, kept = 0;
    for (size_t i = 0; i < s->n; i++)
        if ((double)s->weight[i] >= limit && (n_top++ == 0 || s->weight[i] < s->weight[least]))
            least = i;
    for (size_t i = 0; i < s->n && n_top > 1; i++)
        if ((double)s->weight[i] < limit || i == least)
            move(s, kept++, i);
    s->n = n_top > 1 ? kept : s->n;
}

/* ---- the order ----------------------------------------------------------------------------- */

static bool temperature_on(const struct select_options *o)
{
    return o->temperature > 0 && (o->temperature != 1 || o->dynatemp_range > 0);
}
static bool top_n_sigma_on(const struct select_options *o)
{
    return o->top_n_sigma > 0;
}
static bool top_k_on(const struct select_options *o)
{
    return o->top_k > 0;
}
static bool typical_on(const struct select_options *o)
{
    return o->typical < 1;
}
static bool top_p_on(const struct select_options *o)
{
    return o->top_p < 1;
}
static bool min_p_on(const struct select_options *o)
{
    return o->min_p > 0;
}
static bool xtc_on(const struct select_options *o)
{
    return o->xtc_probability > 0 && o->xtc_threshold <= 0.5;
}

static const struct step {
    const char *name;
    bool (*on)(const struct select_options *options);
    void (*apply)(struct selector *selector);
} steps[SELECT_STEPS] = {
    [SELECT_TEMPERATURE] = {"temperature", temperature_on, apply_temperature},
    [SELECT_TOP_N_SIGMA] = {"top-n-sigma", top_n_sigma_on, apply_top_n_sigma},
    [SELECT_TOP_K] = {"top-k", top_k_on, apply_top_k},
    [SELECT_TYPICAL] = {"typical", typical_on, apply_typical},
    [SELECT_TOP_P] = {"top-p", top_p_on, apply_top_p},
    [SELECT_MIN_P] = {"min-p", min_p_on, apply_min_p},
    [SELECT_XTC] = {"xtc", xtc_on, apply_xtc},
};

static bool in_order(const struct select_options *o, enum select_step step)
{
    for (size_t i = 0; i < o->n_order; i++)
        if (o->order[i] == step)
            return true;
    return o->n_order == 0;
}

bool select_parse_order(const char *names, struct select_options *o, struct error *error)
{
    size_t n = 0;
    for (const char *at = names; at; at = *at ? at + 1 : NULL) {
        size_t length = strcspn(at, ","), step = 0;
        while (step < SELECT_STEPS &&
               (strlen(steps[step].name) != length || memcmp(steps[step].name, at, length) != 0))
            step++;
        if (step == SELECT_STEPS)
            return error_set(error, STATUS_USAGE,
                             "expected names of "
                             "temperature,top-n-sigma,top-k,typical,top-p,min-p,xtc, found '%.*s'",
                             (int)length, at);
        o->n_order = n;
        if (n > 0 && in_order(o, (enum select_step)step))
            return error_set(error, STATUS_USAGE, "%s comes twice", steps[step].name);
        o->order[n++] = (enum select_step)step;
        at += length;
    }
    o->n_order = n;
    return true;
}

bool select_check_order(const struct select_options *o, struct error *error)
{
    for (size_t step = 0; step < SELECT_STEPS; step++)
        if (steps[step].on(o) && !in_order(o, (enum select_step)step))
            return error_set(error, STATUS_USAGE, "%s is asked for, but the order leaves it out",
                             steps[step].name);
    return true;
}

struct selector *selector_new(const struct select_options *options)
{
    struct selector *s = allocate(1, sizeof *s);
    struct select_options *o = &s->options;
    *o = *options;
    for (size_t i = 0; options->n_order == 0 && i < SELECT_STEPS; i++)
        o->order[o->n_order++] = (enum select_step)i;
    size_t n = o->n_order;
    o->n_order = 0;
    for (size_t i = 0; i < n; i++) /* only those that are on */
        if (steps[o->order[i]].on(o))
            o->order[o->n_order++] = o->order[i];
    /* A temperature that is fixed changes nothing in which logits are the greatest. */
    size_t first = o->n_order > 0 && o->order[0] == SELECT_TEMPERATURE && o->dynatemp_range <= 0;
    if (first < o->n_order && o->order[first] == SELECT_TOP_K)
        s->first_k = (size_t)o->top_k;
    return s;
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void random_words(uint64_t seed, uint32_t draw_stream, uint32_t position, uint32_t word[4])
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {position, draw_stream, 0, 0};
    philox4x32(key, counter, word);
}

static double uniform(const uint32_t word[4])
{
    return (double)(((uint64_t)word[1] << 32 | word[0]) >> 11) * 0x1p-53;
}

uint32_t select_copy_stream(bool prompt, uint32_t draw_stream, uint32_t position, uint32_t k)
{
    const uint32_t key[2] = {0, 1}, counter[4] = {position, draw_stream, k, 0};
    uint32_t word[4];
    if (prompt && draw_stream == 0)
        return k;
    philox4x32(key, counter, word);
    return word[0] | 0x80000000;
}

double select_uniform(uint64_t seed, uint32_t draw_stream, uint32_t position)
{
    uint32_t word[4];
    random_words(seed, draw_stream, position, word);
    return uniform(word);
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

bool select_choose(struct selector *s, const struct select_question *q, uint32_t *id,
                   struct error *error)
{
    uint32_t word[4];
    s->n = 0;
    if (!find_best(q, id, error))
        return false;
    s->chosen = *id;
    if (s->options.temperature <= 0)
        return true;
    collect(s, q);
    random_words(s->options.seed, q->draw_stream, q->position, word);
    s->xtc = (double)word[2] * 0x1p-32;
    for (size_t i = 0; i < s->options.n_order; i++)
        steps[s->options.order[i]].apply(s);
    *id = s->chosen = draw(s, uniform(word));
    return true;
}

size_t select_processed(const struct selector *s, size_t k, uint32_t *ids, double *values,
                        double *chosen)
{
    if (s->n == 0) { /* greedy: nothing else was possible */
        *chosen = 0;
        if (k > 0) {
            ids[0] = s->chosen;
            values[0] = 0;
        }
        return k > 0;
    }
    float greatest = -INFINITY;
    for (size_t i = 0; i < s->n; i++)
        greatest = s->logit[i] > greatest ? s->logit[i] : greatest;
    double log_sum = exact_log(select_exponentials(s->logit, s->n, greatest, s->temperature)),
           plain = (double)greatest + log_sum;
    size_t count = select_top(s->logit, (uint32_t)s->n, k, ids);
    for (size_t i = 0; i < count; i++) {
        double logit = (double)s->logit[ids[i]];
        values[i] = s->temperature == 1 ? logit - plain
                                        : (logit - (double)greatest) / s->temperature - log_sum;
        ids[i] = s->id[ids[i]];
    }
    for (size_t i = 0; i < s->n; i++)
        if (s->id[i] == s->chosen)
            *chosen = s->temperature == 1
                          ? (double)s->logit[i] - plain
                          : ((double)s->logit[i] - (double)greatest) / s->temperature - log_sum;
    return count;
}

static size_t describe_step(const struct select_options *o, enum select_step step, char *text,
                            size_t size)
{
    switch (step) {
    case SELECT_TEMPERATURE:
        if (o->dynatemp_range > 0)
            return (size_t)snprintf(
                text, size, "temperature %g to %g by entropy^%g",
                o->temperature > o->dynatemp_range ? o->temperature - o->dynatemp_range : 0,
                o->temperature + o->dynatemp_range, o->dynatemp_exponent);
        return (size_t)snprintf(text, size, "temperature %g", o->temperature);
    case SELECT_TOP_N_SIGMA:
        return (size_t)snprintf(text, size, "top-n-sigma %g", o->top_n_sigma);
    case SELECT_TOP_K:
        return (size_t)snprintf(text, size, "top-k %lld", (long long)o->top_k);
    case SELECT_TYPICAL:
        return (size_t)snprintf(text, size, "typical %g", o->typical);
    case SELECT_TOP_P:
        return (size_t)snprintf(text, size, "top-p %g", o->top_p);
    case SELECT_MIN_P:
        return (size_t)snprintf(text, size, "min-p %g", o->min_p);
    default:
        return (size_t)snprintf(text, size, "xtc %g from %g", o->xtc_probability, o->xtc_threshold);
    }
}

void select_describe(const struct select_options *options, char *text, size_t size)
{
    size_t at = 0;
    if (options->temperature <= 0) {
        snprintf(text, size, "greedy");
        return;
    }
    snprintf(text, size, "temperature 1");
    for (size_t i = 0; i < (options->n_order ? options->n_order : SELECT_STEPS) && at < size; i++) {
        enum select_step step = options->n_order ? options->order[i] : (enum select_step)i;
        if (!steps[step].on(options) && step != SELECT_TEMPERATURE)
            continue;
        at += (size_t)snprintf(text + at, size - at, "%s", at ? ", " : "");
        at += at < size ? describe_step(options, step, text + at, size - at) : 0;
    }
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
    struct selector s = {0};
    k = k < n ? k : n;
    if (k == 0)
        return 0;
    gather(&s, logits, n, k, NULL, 0);
    if (s.n < k) { /* those of -infinity are wanted, too */
        make_room(&s, n);
        s.n = 0;
        for (uint32_t i = 0; i < n; i++)
            add_candidate(&s, i, isnan(logits[i]) ? NAN : logits[i]);
    }
    if (k < s.n)
        keep_count(&s, k);
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
