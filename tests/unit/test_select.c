/* lib/select against a selection that sorts everything, and stop strings against a search of the
 * whole text. */
#include "select/internal.h"
#include "select/select.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t random_state[2] = {1, 0};

static uint32_t random_word(void)
{
    const uint32_t counter[4] = {random_state[1]++, 0, 0, 7};
    uint32_t word[4];
    philox4x32(random_state, counter, word);
    return word[0];
}

static float random_float(float low, float high)
{
    return low + (high - low) * (float)(random_word() >> 8) * 0x1p-24f;
}

/* ---- greedy -------------------------------------------------------------------------------- */

static bool choose(const struct select_options *options, struct select_question question,
                   uint32_t *id, struct error *error)
{
    struct selector *selector = selector_new(options);
    if (!question.n_selectable)
        question.n_selectable = question.n;
    bool ok = select_choose(selector, &question, id, error);
    selector_free(selector);
    return ok;
}

static uint32_t greedy(const float *logits, uint32_t n)
{
    struct error error = {0};
    uint32_t id = UINT32_MAX;
    ck_assert_msg(choose(&(struct select_options){.typical = 1, .top_p = 1},
                         (struct select_question){.logits = logits, .n = n}, &id, &error),
                  "%s", error.text);
    return id;
}

START_TEST(greedy_takes_the_greatest_and_the_lower_of_equals)
{
    float logits[100];
    ck_assert_uint_eq(greedy((const float[]){-0.0f, 0.0f, -1.0f}, 3), 0);
    ck_assert_uint_eq(greedy((const float[]){-INFINITY, -3e38f, -INFINITY}, 3), 1);
    for (uint32_t n = 1; n <= 100; n++)
        for (uint32_t at = 0; at < n; at++) {
            for (uint32_t i = 0; i < n; i++)
                logits[i] = -5;
            logits[at] = -4;
            ck_assert_uint_eq(greedy(logits, n), at);
            logits[n - 1] = -4;
            ck_assert_uint_eq(greedy(logits, n), at);
        }
}
END_TEST

START_TEST(some_ids_are_never_selected)
{
    const float logits[20] = {[3] = 9, [7] = 8, [17] = 10, [18] = 7};
    const uint32_t banned[] = {3, 7};
    struct error error;
    uint32_t id;
    for (int temperature = 0; temperature < 2; temperature++) {
        struct select_options options = {
            .temperature = temperature * 1e-3, .typical = 1, .top_p = 1};
        struct select_question q = {.logits = logits, .n = 20};
        ck_assert(choose(&options, q, &id, &error) && id == 17);
        q.n_selectable = 17;
        ck_assert(choose(&options, q, &id, &error) && id == 3);
        q.banned = banned, q.n_banned = 1;
        ck_assert(choose(&options, q, &id, &error) && id == 7);
        q.n_banned = 2;
        ck_assert(choose(&(struct select_options){.typical = 1, .top_p = 1}, q, &id, &error) &&
                  id == 0);
        q.n_selectable = 20;
        ck_assert(choose(&options, q, &id, &error) && id == 17);
    }
}
END_TEST

START_TEST(what_is_no_distribution_is_refused)
{
    float logits[50];
    struct error error;
    uint32_t id;
    for (uint32_t at = 0; at < 50; at++)
        for (int temperature = 0; temperature < 2; temperature++) {
            struct select_options options = {.temperature = temperature, .typical = 1, .top_p = 1};
            struct select_question q = {
                .logits = logits, .n = 50, .n_selectable = 40, .position = 123};
            for (uint32_t i = 0; i < 50; i++)
                logits[i] = random_float(-5, 5);
            logits[at] = NAN;
            ck_assert(!choose(&options, q, &id, &error));
            ck_assert_ptr_nonnull(strstr(error.text, "position 123 is NaN"));
            ck_assert_int_eq(error.status, STATUS_INPUT);
            logits[at] = INFINITY;
            ck_assert(!choose(&options, q, &id, &error));
            ck_assert_ptr_nonnull(strstr(error.text, "position 123 is +infinity"));
            for (uint32_t i = 0; i < 50; i++)
                logits[i] = i < 40 ? -INFINITY : 0;
            ck_assert(!choose(&options, q, &id, &error));
            ck_assert_ptr_nonnull(strstr(error.text, "every logit is -infinity"));
        }
}
END_TEST

/* ---- the chain, written in the plainest way ------------------------------------------------- */

struct plain {
    uint32_t id;
    float logit, weight;
    double score; /* what the step sorts by: the greatest first */
};

static int plain_by_score(const void *left, const void *right)
{
    const struct plain *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}
static int plain_by_id(const void *left, const void *right)
{
    return ((const struct plain *)left)->id < ((const struct plain *)right)->id ? -1 : 1;
}

/* Weights at a temperature; returns their total. */
static double plain_softmax(struct plain *c, uint32_t n, double temperature, double *greatest)
{
    double total = 0;
    *greatest = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        *greatest = fmax(*greatest, (double)c[i].logit);
    for (uint32_t i = 0; i < n; i++) {
        c[i].weight = exact_exp((float)(((double)c[i].logit - *greatest) / temperature));
        total += (double)c[i].weight;
    }
    return total;
}

static double plain_entropy(const struct plain *c, uint32_t n, double total)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (c[i].weight > 0)
            sum -= (double)c[i].weight / total * log((double)c[i].weight / total);
    return sum;
}

/* The shortest beginning of c, sorted by its scores, that weighs as much as the target. */
static uint32_t plain_reach(struct plain *c, uint32_t n, double target)
{
    double sum = 0;
    qsort(c, n, sizeof *c, plain_by_score);
    for (uint32_t i = 0; i < n; i++)
        if ((sum += (double)c[i].weight) >= target)
            return i + 1;
    return n;
}

static uint32_t plain_keep(struct plain *c, uint32_t n, double least)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (c[i].score >= least)
            c[kept++] = c[i];
    return kept;
}

/* One step; returns how many are left.  *temperature is what logits are divided by. */
static uint32_t plain_step(const struct select_options *o, enum select_step step, struct plain *c,
                           uint32_t n, double *temperature, double xtc)
{
    double greatest, total = plain_softmax(c, n, *temperature, &greatest), sum = 0, mean = 0,
                     least = 2;
    uint32_t n_top = 0, kept = 0;
    for (uint32_t i = 0; i < n; i++)
        c[i].score = step == SELECT_TOP_K || step == SELECT_TOP_N_SIGMA ? (double)c[i].logit
                                                                        : (double)c[i].weight;
    switch (step) {
    case SELECT_TEMPERATURE:
        *temperature = o->temperature;
        if (o->dynatemp_range > 0 && n > 1) {
            double low = fmax(0, o->temperature - o->dynatemp_range),
                   high = o->temperature + o->dynatemp_range;
            double share = fmax(0, plain_entropy(c, n, total) / log(n));
            *temperature = fmax(1e-6, low + (high - low) * pow(share, o->dynatemp_exponent));
        }
        return n;
    case SELECT_TOP_N_SIGMA:
        for (uint32_t i = 0; i < n; i++)
            mean += (double)c[i].logit / n;
        for (uint32_t i = 0; i < n; i++)
            sum += ((double)c[i].logit - mean) * ((double)c[i].logit - mean) / n;
        return o->top_n_sigma > 0 ? plain_keep(c, n, greatest - o->top_n_sigma * sqrt(sum)) : n;
    case SELECT_TOP_K:
        qsort(c, n, sizeof *c, plain_by_score);
        return o->top_k > 0 && o->top_k < n ? (uint32_t)o->top_k : n;
    case SELECT_TYPICAL:
        for (uint32_t i = 0; i < n;
             i++) /* rounded, since ties that are none on paper are broken by rounding */
            c[i].score =
                -(double)(float)fabs(log(total) - ((double)c[i].logit - greatest) / *temperature -
                                     plain_entropy(c, n, total));
        return o->typical < 1 ? plain_reach(c, n, o->typical * total) : n;
    case SELECT_TOP_P:
        return o->top_p < 1 ? plain_reach(c, n, o->top_p * total) : n;
    case SELECT_MIN_P:
        return plain_keep(c, n, o->min_p);
    default:
        if (!(xtc < o->xtc_probability) || o->xtc_threshold > 0.5)
            return n;
        for (uint32_t i = 0; i < n; i++)
            if ((double)c[i].weight >= o->xtc_threshold * total) {
                n_top++;
                least = fmin(least, (double)c[i].weight);
            }
        qsort(c, n, sizeof *c, plain_by_id);
        for (uint32_t i = 0; i < n; i++) {
            bool top = (double)c[i].weight >= o->xtc_threshold * total;
            if (n_top > 1 && top && !(least >= 0 && (double)c[i].weight == least))
                continue;
            if (n_top > 1 && top)
                least = -1; /* the first of the least stays */
            c[kept++] = c[i];
        }
        return kept;
    }
}

/* Its sums are taken in another order and may differ in their last bits: random logits do not come
 * that near to a border. */
static uint32_t plain_choose(const struct select_options *o, const float *logits, uint32_t n,
                             uint32_t position)
{
    const uint32_t key[2] = {(uint32_t)o->seed, (uint32_t)(o->seed >> 32)},
                   counter[4] = {position, 0, 0, 0};
    uint32_t word[4], left = 0;
    struct plain *c = allocate(n, sizeof *c);
    double temperature = 1, sum = 0, greatest;
    philox4x32(key, counter, word);
    for (uint32_t i = 0; i < n; i++)
        if (logits[i] > -INFINITY)
            c[left++] = (struct plain){.id = i, .logit = logits[i]};
    for (size_t i = 0; i < (o->n_order ? o->n_order : SELECT_STEPS); i++) {
        left = plain_step(o, o->n_order ? o->order[i] : (enum select_step)i, c, left, &temperature,
                          word[2] * 0x1p-32);
        qsort(c, left, sizeof *c, plain_by_id);
    }
    double target =
        select_uniform(o->seed, 0, position) * plain_softmax(c, left, temperature, &greatest);
    uint32_t at = 0;
    while ((sum += (double)c[at].weight) <= target)
        at++;
    uint32_t id = c[at].id;
    free(c);
    return id;
}

static void shuffle_order(struct select_options *o)
{
    for (o->n_order = 0; o->n_order < SELECT_STEPS; o->n_order++)
        o->order[o->n_order] = (enum select_step)o->n_order;
    for (size_t i = SELECT_STEPS; i > 1; i--) {
        size_t k = random_word() % i;
        enum select_step step = o->order[k];
        o->order[k] = o->order[i - 1];
        o->order[i - 1] = step;
    }
}

START_TEST(the_chain_equals_the_plain_one)
{
    static float logits[3000];
    for (uint32_t round = 0; round < 6000; round++) {
        uint32_t n = 1 + random_word() % (round % 10 ? 40 : 3000), kind = random_word() % 3;
        bool all = round % 2; /* ties make sums meet their targets, where their last bits count:
                                 without sums of logarithms */
        struct select_options options = {
            .temperature = (const double[]){1, 0.5, 2, 0.1}[random_word() % 4],
            .top_k = (const int64_t[]){0, -1, 1, 5, 20, 5000}[random_word() % 6],
            .top_p = (const double[]){1, 0.9, 0.5, 0, 0.999}[random_word() % 5],
            .min_p = (const double[]){0, 0.05, 1, 0.001}[random_word() % 4],
            .typical = all ? (const double[]){1, 0.9, 0.3, 0, 1}[random_word() % 5] : 1,
            .top_n_sigma = all ? (const double[]){-1, 0, 1, 2.3}[random_word() % 4] : 0,
            .xtc_probability = all ? (const double[]){0, 1, 0.5}[random_word() % 3] : 0,
            .xtc_threshold = (const double[]){0.1, 0.03, 0.4, 0.6}[random_word() % 4],
            .dynatemp_range = all ? (const double[]){0, 0, 0.4, 3}[random_word() % 4] : 0,
            .dynatemp_exponent = (const double[]){1, 0.5, 2}[random_word() % 3],
            .seed = round,
        };
        kind = all ? 0 : kind;
        if (round % 4 >= 2)
            shuffle_order(&options);
        for (uint32_t i = 0; i < n; i++) /* distinct, or with many ties, or with impossible ones */
            logits[i] = kind == 0   ? random_float(-10, 10)
                        : kind == 1 ? (float)(random_word() % 5)
                                    : (random_word() % 2 ? -INFINITY : random_float(-3, 3));
        logits[random_word() % n] = 3;
        struct error error = {0};
        uint32_t id = UINT32_MAX, expected = plain_choose(&options, logits, n, round);
        struct select_question q = {.logits = logits, .n = n, .position = round};
        char words[400];
        select_describe(&options, words, sizeof words);
        ck_assert_msg(choose(&options, q, &id, &error), "%s", error.text);
        ck_assert_msg(id == expected, "round %u: n %u, kind %u, %s: %u, expected %u", round, n,
                      kind, words, id, expected);
    }
}
END_TEST

/* The manual's worked numbers: logits 3, 2, 1, top-p 0.8, temperature 0.5. */
START_TEST(the_order_matters)
{
    const float logits[] = {3, 2, 1};
    struct select_options o = {.typical = 1, .top_p = 0.8, .temperature = 0.5};
    struct select_question q = {.logits = logits, .n = 3, .n_selectable = 3};
    struct error error;
    for (int last = 0; last < 2; last++) {
        bool seen[3] = {0};
        ck_assert(select_parse_order(last ? "top-p,temperature" : "temperature,top-p", &o, &error));
        struct selector *s = selector_new(&o);
        for (q.position = 0; q.position < 200; q.position++) {
            uint32_t id;
            ck_assert(select_choose(s, &q, &id, &error));
            seen[id] = true;
        }
        selector_free(s);
        ck_assert(seen[0] && seen[1] == last && !seen[2]);
    }
    ck_assert(!select_parse_order("top-p,temp", &o, &error) && strstr(error.text, "found 'temp'"));
    ck_assert(!select_parse_order("", &o, &error) && !select_parse_order("top-p,", &o, &error) &&
              !select_parse_order("top-pp", &o, &error));
    ck_assert(!select_parse_order("top-p,xtc,top-p", &o, &error) &&
              strstr(error.text, "top-p comes twice"));
    ck_assert(select_parse_order("min-p", &o, &error));
    ck_assert(!select_check_order(&o, &error) &&
              strstr(error.text, "temperature is asked for, but the order leaves it out"));
    o.temperature = 1;
    ck_assert(!select_check_order(&o, &error) && strstr(error.text, "top-p"));
    o.top_p = 1;
    ck_assert(select_check_order(&o, &error));
}
END_TEST

/* How often each of n ids is drawn in `draws` questions. */
static void count_draws(const struct select_options *options, const float *logits, uint32_t n,
                        uint32_t draws, uint32_t *counts)
{
    struct selector *selector = selector_new(options);
    struct error error;
    memset(counts, 0, n * sizeof *counts);
    for (uint32_t position = 0; position < draws; position++) {
        uint32_t id;
        struct select_question q = {
            .logits = logits, .n = n, .n_selectable = n, .position = position};
        ck_assert(select_choose(selector, &q, &id, &error));
        ck_assert_uint_lt(id, n);
        counts[id]++;
    }
    selector_free(selector);
}

/* Pearson's statistic of counted draws; -1 where something was drawn that cannot be. */
static double chi_square(const uint32_t *counts, const double *expected, uint32_t n, uint32_t draws,
                         uint32_t *degrees)
{
    double sum = 0;
    *degrees = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (expected[i] == 0 && counts[i])
            return -1;
        if (expected[i] > 0) {
            sum += (counts[i] - draws * expected[i]) * (counts[i] - draws * expected[i]) /
                   (draws * expected[i]);
            ++*degrees;
        }
    }
    --*degrees;
    return sum;
}

/* Logits are logarithms of 0.30 0.25 0.20 0.15 0.08 0.02; what each setting leaves is worked out by
 * hand. */
START_TEST(draws_follow_the_probabilities)
{
    enum { N = 7, DRAWS = 10000 };
    static const double p[N] = {0.30, 0.25, 0.20, 0.15, 0.08, 0.02, 0};
    static const struct {
        struct select_options options;
        double expected[N]; /* up to a factor */
    } cases[] = {
        {{.temperature = 1, .typical = 1, .top_p = 1}, {30, 25, 20, 15, 8, 2}},
        {{.temperature = 0.5, .typical = 1, .top_p = 1}, {900, 625, 400, 225, 64, 4}},
        {{.temperature = 1, .typical = 1, .top_p = 1, .top_k = 3}, {30, 25, 20}},
        {{.temperature = 1, .typical = 1, .top_p = 0.6}, {30, 25, 20}},
        {{.temperature = 1, .typical = 1, .top_p = 1, .min_p = 0.26}, {30, 25, 20, 15, 8}},
        {{.temperature = 0.5, .typical = 1, .top_p = 1, .min_p = 0.26},
         {900, 625, 400}}, /* 225 / 900 is less */
        {{.temperature = 1, .typical = 1, .top_p = 0.6, .top_k = 4},
         {30, 25}}, /* of 0.9, 0.54 are reached by two */
        /* -log p: 1.204 1.386 1.609 1.897 2.526 3.912; entropy 1.5945: nearest is 2, then 1
           (0.208), 3 (0.303), 0 (0.391) */
        {{.temperature = 1, .typical = 0.44, .top_p = 1}, {0, 25, 20}},
        {{.temperature = 1, .typical = 0.55, .top_p = 1}, {0, 25, 20, 15}},
        /* logits -1.204 ... -3.912: mean -2.089, standard deviation 0.918 */
        {{.temperature = 1, .typical = 1, .top_p = 1, .top_n_sigma = 0.5}, {30, 25, 20}},
        {{.temperature = 2, .typical = 1, .top_p = 1, .top_n_sigma = 0.5}, {5.4772, 5, 4.4721}},
        {{.temperature = 1, .typical = 1, .top_p = 1, .xtc_probability = 1, .xtc_threshold = 0.18},
         {0, 0, 20, 15, 8, 2}},
        {{.temperature = 1,
          .typical = 1,
          .top_p = 1,
          .xtc_probability = 0.5,
          .xtc_threshold = 0.18}, /* half of each */
         {15, 12.5, 10 + 10 / 0.45, 7.5 + 7.5 / 0.45, 4 + 4 / 0.45, 1 + 1 / 0.45}},
        {{.temperature = 1, .typical = 1, .top_p = 1, .xtc_probability = 1, .xtc_threshold = 0.3},
         {30, 25, 20, 15, 8, 2}}, /* one alone */
        /* H / log 6 = 0.8899, of six candidates: temperature 0.5 + 1 * 0.8899 */
        {{.temperature = 1,
          .typical = 1,
          .top_p = 1,
          .dynatemp_range = 0.5,
          .dynatemp_exponent = 1},
         {0.42054, 0.36884, 0.31413, 0.25540, 0.16248, 0.05993}},
    };
    float logits[N];
    uint32_t counts[N], degrees;
    for (int i = 0; i < N; i++)
        logits[i] = p[i] > 0 ? (float)log(p[i]) : -INFINITY;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            struct select_options options = cases[k].options;
            double total = 0, expected[N];
            options.seed = seed << 33 | seed;
            for (int i = 0; i < N; i++)
                total += cases[k].expected[i];
            for (int i = 0; i < N; i++)
                expected[i] = cases[k].expected[i] / total;
            count_draws(&options, logits, N, DRAWS, counts);
            double found = chi_square(counts, expected, N, DRAWS, &degrees);
            /* Beyond this for one of a hundred thousand right generators. */
            static const double limit[] = {0, 19.5, 23.0, 25.9, 28.5, 30.9};
            ck_assert_msg(found >= 0 && found <= limit[degrees],
                          "case %zu, seed %d: chi-square %g with %u degrees: %u %u %u %u %u %u %u",
                          k, (int)seed, found, degrees, counts[0], counts[1], counts[2], counts[3],
                          counts[4], counts[5], counts[6]);
        }
}
END_TEST

/* Any bits as logits, options at their ends: an answer that can be selected, or a message. */
START_TEST(any_logits_have_an_answer_or_an_error)
{
    static const float extremes[] = {0,        -0.0f, 1e-45f,    -1e-45f, 3.4e38f,
                                     -3.4e38f, 1,     -INFINITY, 88,      -104};
    int answers = 0, errors = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        float logits[70];
        uint32_t n = 1 + random_word() % 70, id = UINT32_MAX, ids[70];
        double values[70], chosen;
        struct select_options options = {
            .temperature = (const double[]){0, 1, 1e6, 1e-300, 0.5}[random_word() % 5],
            .top_k = random_word() % 3 ? 0 : random_word() % 80,
            .top_p = (const double[]){1, 0, 0.5, 1 - 1e-9}[random_word() % 4],
            .min_p = (const double[]){0, 1, 1e-9}[random_word() % 3],
            .typical = (const double[]){1, 0, 0.5, 1 - 1e-9}[random_word() % 4],
            .top_n_sigma = (const double[]){0, 1e-9, 1e6, 1}[random_word() % 4],
            .xtc_probability = random_word() % 2,
            .xtc_threshold = (const double[]){0, 0.5, 0.1}[random_word() % 3],
            .dynatemp_range = (const double[]){0, 1e6, 0.5}[random_word() % 3],
            .dynatemp_exponent = (const double[]){0, 1, 1e3}[random_word() % 3],
            .seed = round,
        };
        bool wild = round % 2;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t bits = random_word();
            logits[i] = extremes[random_word() % (sizeof extremes / sizeof *extremes)];
            if (wild && n < 20)
                memcpy(&logits[i], &bits, sizeof bits);
        }
        shuffle_order(&options);
        struct error error = {0};
        struct selector *s = selector_new(&options);
        struct select_question q = {.logits = logits, .n = n, .n_selectable = n, .position = round};
        if (select_choose(s, &q, &id, &error)) {
            ck_assert(id < n && logits[id] > -INFINITY && logits[id] < INFINITY);
            size_t k = select_processed(s, n, ids, values, &chosen);
            ck_assert(k >= 1 && chosen <= 0 && !isnan(chosen));
            for (size_t i = 0; i < k; i++)
                ck_assert(ids[i] < n && values[i] <= 0 && (i == 0 || values[i] <= values[i - 1]));
            k = select_raw(logits, n, id, n, ids, values, &chosen);
            ck_assert(k >= 1 && chosen <= 0 && !isnan(chosen));
            answers++;
        } else {
            ck_assert(error.text[0] && error.status == STATUS_INPUT);
            errors++;
        }
        selector_free(s);
    }
    ck_assert(answers > 1000 && errors > 100);
}
END_TEST

START_TEST(xtc_has_a_word_of_its_own)
{
    const float logits[] = {0, 0};
    struct select_options o = {.temperature = 1,
                               .typical = 1,
                               .top_p = 1,
                               .xtc_probability = 0.3,
                               .xtc_threshold = 0.1,
                               .seed = 9};
    struct selector *s = selector_new(&o);
    struct error error;
    for (uint32_t position = 0; position < 1000; position++) {
        const uint32_t key[2] = {9, 0}, counter[4] = {position, 4, 0, 0};
        uint32_t word[4], id;
        philox4x32(key, counter, word);
        struct select_question q = {
            .logits = logits, .n = 2, .n_selectable = 2, .position = position, .draw_stream = 4};
        ck_assert(select_choose(s, &q, &id, &error));
        bool cut = word[2] < 0.3 * 0x1p32;
        ck_assert_uint_eq(id, cut || select_uniform(9, 4, position) < 0.5 ? 0 : 1);
    }
    selector_free(s);
}
END_TEST

/* Both lists against the plainest softmax. */
START_TEST(log_probabilities_are_those_of_the_choice)
{
    for (uint32_t round = 0; round < 500; round++) {
        enum { N = 50, K = 5 };
        float logits[N];
        uint32_t ids[N], id;
        double values[N], chosen, sum = 0;
        struct error error;
        struct select_options o = {.temperature = (const double[]){0, 1, 0.7}[round % 3],
                                   .typical = 1,
                                   .top_p = round % 2 ? 1 : 0.8,
                                   .seed = round};
        for (uint32_t i = 0; i < N; i++)
            logits[i] = random_word() % 10 ? random_float(-5, 5) : -INFINITY;
        struct selector *s = selector_new(&o);
        ck_assert(
            select_choose(s, &(struct select_question){.logits = logits, .n = N, .n_selectable = N},
                          &id, &error));

        double total = 0;
        for (uint32_t i = 0; i < N; i++)
            total += exp((double)logits[i]);
        ck_assert_uint_eq(select_raw(logits, N, id, K, ids, values, &chosen), K);
        ck_assert(fabs(chosen - ((double)logits[id] - log(total))) < 1e-12);
        for (uint32_t i = 0; i < K; i++) {
            ck_assert(values[i] == (double)logits[ids[i]] - select_log_total(logits, N));
            ck_assert(i == 0 || values[i] <= values[i - 1]);
        }
        size_t n = select_processed(s, N, ids, values, &chosen);
        ck_assert(o.temperature > 0 ? n > 1
                                    : n == 1 && ids[0] == id && chosen == 0 && values[0] == 0);
        bool found = false;
        for (size_t i = 0; i < n; i++) {
            sum += exp(values[i]);
            found |= ids[i] == id && values[i] == chosen;
            double ratio = o.temperature > 0
                               ? ((double)logits[ids[i]] - (double)logits[ids[0]]) / o.temperature
                               : 0;
            ck_assert(fabs(values[i] - values[0] - ratio) < 1e-12);
        }
        ck_assert(found && fabs(sum - 1) < 1e-12);
        if (o.temperature == 1 && o.top_p == 1) /* nothing was done */
            ck_assert(fabs(chosen - ((double)logits[id] - select_log_total(logits, N))) < 1e-14);
        selector_free(s);
    }
    uint32_t ids[4];
    double values[4], chosen;
    ck_assert_uint_eq(
        select_raw((const float[]){0, -INFINITY, 0, -INFINITY}, 4, 0, 4, ids, values, &chosen), 2);
    ck_assert(chosen == -exact_log(2));
}
END_TEST

START_TEST(filters_keep_what_they_should)
{
    const float ties[6] = {1, 2, 2, 2, 2, 1};
    uint32_t counts[6];
    count_draws(&(struct select_options){.temperature = 1, .top_k = 3, .typical = 1, .top_p = 1},
                ties, 6, 1000, counts);
    ck_assert(!counts[0] && counts[1] && counts[2] && counts[3] && !counts[4] && !counts[5]);
    count_draws(&(struct select_options){.temperature = 100, .top_k = 5, .typical = 1, .top_p = 1},
                ties, 6, 1000, counts);
    ck_assert(counts[0] && counts[1] && counts[4] && !counts[5]);

    /* Four equal ones: the half is reached by two of them, and by no less. */
    const float equal[4] = {7, 7, 7, 7};
    count_draws(&(struct select_options){.temperature = 1, .typical = 1, .top_p = 0.5}, equal, 4,
                1000, counts);
    ck_assert(counts[0] && counts[1] && !counts[2] && !counts[3]);
    count_draws(&(struct select_options){.temperature = 1, .typical = 1, .top_p = 0.50001}, equal,
                4, 1000, counts);
    ck_assert(counts[0] && counts[1] && counts[2] && !counts[3]);
    count_draws(&(struct select_options){.temperature = 1, .typical = 1, .top_p = 0}, equal, 4,
                1000, counts);
    ck_assert(counts[0] == 1000);

    /* Probabilities 2/3 and 1/3: renormalised for top-p after top-k. */
    const float halves[3] = {0, -0x1.62e43p-1f, -0x1.62e43p-1f};
    count_draws(&(struct select_options){.temperature = 1, .top_k = 2, .typical = 1, .top_p = 0.6},
                halves, 3, 1000, counts);
    ck_assert(counts[0] == 1000);
    count_draws(&(struct select_options){.temperature = 1, .typical = 1, .top_p = 0.6}, halves, 3,
                1000, counts);
    ck_assert(counts[0] && counts[1] && !counts[2]);
    count_draws(&(struct select_options){.temperature = 1, .typical = 1, .top_p = 1, .min_p = 0.51},
                halves, 3, 1000, counts);
    ck_assert(counts[0] == 1000);
    count_draws(&(struct select_options){.temperature = 1, .typical = 1, .top_p = 1, .min_p = 0.49},
                halves, 3, 1000, counts);
    ck_assert(counts[0] && counts[1] && counts[2]);
}
END_TEST

START_TEST(extreme_temperatures_do_no_harm)
{
    const float logits[3] = {3e38f, -3e38f, 2.9e38f};
    uint32_t counts[3];
    count_draws(&(struct select_options){.temperature = 1e-320, .typical = 1, .top_p = 1}, logits,
                3, 100, counts);
    ck_assert_uint_eq(counts[0], 100);
    count_draws(&(struct select_options){.temperature = 1e6, .typical = 1, .top_p = 0.9},
                (const float[]){1, 2, 3}, 3, 100, counts);
    ck_assert(counts[0] < 100 && counts[1] < 100 && counts[2] < 100);
}
END_TEST

START_TEST(the_draw_is_a_function_of_seed_stream_and_position)
{
    const uint32_t key[2] = {0x89abcdef, 0x01234567}, counter[4] = {7, 3, 0, 0};
    uint32_t word[4];
    philox4x32(key, counter, word);
    double u = (double)(((uint64_t)word[1] << 32 | word[0]) >> 11) / 9007199254740992.0;
    ck_assert(select_uniform(0x0123456789abcdef, 3, 7) == u);
    ck_assert(select_uniform(0, 0, 0) != select_uniform(0, 0, 1));
    ck_assert(select_uniform(0, 0, 0) != select_uniform(0, 1, 0));
    ck_assert(select_uniform(0, 0, 0) != select_uniform((uint64_t)1 << 32, 0, 0));
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert(select_uniform(i, 0, i) >= 0 && select_uniform(i, 0, i) < 1);
}
END_TEST

START_TEST(weights_are_exact_exponentials)
{
    enum { N = 100003 };
    float *logits = allocate(N, sizeof *logits), *weights = allocate(N, sizeof *weights),
          *plain = allocate(N, sizeof *plain);
    const float borders[] = {0,      -104,       -104.00001f, -103.99999f, -87.3f,
                             -88.7f, -0x1p-140f, -3e38f,      -INFINITY,   -1e-10f};
    for (int round = 0; round < 8; round++) {
        double temperature = (const double[]){1, 1, 0.1, 7, 1e-300, 1e6, 3, 1}[round];
        float greatest = round % 2 ? 10 : 0;
        for (uint32_t i = 0; i < N; i++)
            logits[i] = i < 10 ? borders[i] : random_float(round < 4 ? -120 : -1, greatest);
        select_weights(logits, N, greatest, temperature, weights);
        select_weights_plain(logits, N, greatest, temperature, plain);
        ck_assert_mem_eq(weights, plain, N * sizeof *weights);
        for (uint32_t i = 0; i < N; i++) {
            float expected =
                exact_exp((float)(((double)logits[i] - (double)greatest) / temperature));
            ck_assert_msg(memcmp(&expected, &weights[i], sizeof expected) == 0,
                          "%a at %g: %a, expected %a", (double)logits[i], temperature,
                          (double)weights[i], (double)expected);
        }
    }
    free(logits);
    free(weights);
    free(plain);
}
END_TEST

START_TEST(log_totals_are_those_of_the_definition)
{
    enum { N = 3000 };
    float logits[N];
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t n = 1 + random_word() % (round % 2 ? 70 : N);
        float low = (const float[]){-1, -30, -800, -1e30f}[round / 2 % 4], greatest = -INFINITY;
        double temperature = (const double[]){1, 1, 0.1, 3}[round / 8 % 4], lane[16] = {0};
        long double reference = 0;
        for (uint32_t i = 0; i < n; i++) {
            logits[i] = random_word() % 9   ? random_float(low, 10)
                        : random_word() % 3 ? 10 - random_float(700, 712)
                                            : -INFINITY;
            greatest = fmaxf(greatest, logits[i]);
        }
        if (greatest == -INFINITY)
            greatest = logits[n - 1] = 0;
        for (uint32_t i = 0; i < n; i++) {
            double x = ((double)logits[i] - (double)greatest) / temperature;
            lane[i % 16] += exact_exp_f64(x);
            reference += expl((long double)x);
        }
        for (int half = 8; half; half /= 2)
            for (int l = 0; l < half; l++)
                lane[l] += lane[l + half];
        double sum = select_exponentials(logits, n, greatest, temperature);
        ck_assert_msg(sum == lane[0], "%a, expected %a", sum, lane[0]);
        ck_assert(sum == select_exponentials_plain(logits, n, greatest, temperature));
        ck_assert(fabsl((long double)sum - reference) < 1e-14L * reference);
        if (temperature == 1)
            ck_assert(select_log_total(logits, n) == (double)greatest + exact_log(sum));
    }
    ck_assert(select_log_total((const float[]){0, 0}, 2) == exact_log(2));
    ck_assert(select_log_total((const float[]){-INFINITY, 5, -INFINITY}, 3) == 5);
    ck_assert(select_log_total((const float[]){-INFINITY, -INFINITY}, 2) == -INFINITY);
    ck_assert(isnan(select_log_total((const float[]){1, NAN}, 2)) &&
              isnan(select_log_total((const float[]){INFINITY, 1}, 2)));
}
END_TEST

START_TEST(the_greatest_few_come_in_order)
{
    const float logits[7] = {1, 5, -INFINITY, 5, 0, 2, -1};
    uint32_t ids[7];
    ck_assert_uint_eq(select_top(logits, 7, 4, ids), 4);
    ck_assert(ids[0] == 1 && ids[1] == 3 && ids[2] == 5 && ids[3] == 0);
    ck_assert_uint_eq(select_top(logits, 7, 1, ids), 1);
    ck_assert_uint_eq(ids[0], 1);
    ck_assert_uint_eq(select_top(logits, 7, 0, ids), 0);
    ck_assert_uint_eq(select_top(logits, 7, 100, ids), 7);
    ck_assert_uint_eq(ids[6], 2);
    ck_assert_uint_eq(select_top((const float[]){1, -NAN, INFINITY}, 3, 2, ids), 2);
    ck_assert(ids[0] == 1 && ids[1] == 2);
}
END_TEST

START_TEST(the_chain_is_described)
{
    char text[160];
    select_describe(&(struct select_options){.typical = 1, .top_p = 1}, text, sizeof text);
    ck_assert_str_eq(text, "greedy");
    select_describe(
        &(struct select_options){
            .temperature = 0.8, .top_k = 40, .typical = 1, .top_p = 0.95, .min_p = 0.05},
        text, sizeof text);
    ck_assert_str_eq(text, "temperature 0.8, top-k 40, top-p 0.95, min-p 0.05");
    struct select_options o = {.temperature = 0.8,
                               .typical = 0.9,
                               .top_p = 1,
                               .top_n_sigma = 1.5,
                               .xtc_probability = 0.5,
                               .xtc_threshold = 0.1,
                               .dynatemp_range = 0.5,
                               .dynatemp_exponent = 1};
    ck_assert(
        select_parse_order("xtc,typical,temperature,top-k,top-n-sigma", &o, &(struct error){0}));
    select_describe(&o, text, sizeof text);
    ck_assert_str_eq(
        text,
        "xtc 0.5 from 0.1, typical 0.9, temperature 0.3 to 1.3 by entropy^1, top-n-sigma 1.5");
}
END_TEST

/* ---- stop strings -------------------------------------------------------------------------- */

START_TEST(stop_strings_are_found)
{
    const char *strings[] = {"\n\n", "User:", "er: no", "r"};
    struct stop_match match;
    uint32_t state = 0;
    struct stop_matcher *m = stop_new(strings, 3);
    ck_assert_int_eq(stop_feed(m, &state, "Hello", 5, &match), STOP_NONE);
    ck_assert_int_eq(stop_feed(m, &state, " Us", 3, &match), STOP_PARTIAL);
    ck_assert_int_eq(stop_feed(m, &state, "", 0, &match), STOP_PARTIAL);
    ck_assert_int_eq(stop_feed(m, &state, "er", 2, &match), STOP_PARTIAL);
    ck_assert_int_eq(stop_feed(m, &state, ": now", 5, &match), STOP_MATCHED);
    ck_assert_uint_eq(match.string, 1);
    ck_assert_uint_eq(match.trim, 9); /* "User: now": the first to end, and what comes after it */
    ck_assert_uint_eq(state, 0);
    ck_assert_int_eq(stop_feed(m, &state, "User", 4, &match), STOP_PARTIAL);
    ck_assert_int_eq(stop_feed(m, &state, "s", 1, &match), STOP_NONE);
    ck_assert_int_eq(stop_feed(m, &state, "s\n", 2, &match), STOP_PARTIAL);
    ck_assert_int_eq(stop_feed(m, &state, "er:", 3, &match), STOP_PARTIAL);
    ck_assert_int_eq(stop_feed(m, &state, " no", 3, &match), STOP_MATCHED);
    ck_assert(match.string == 2 && match.trim == 6);
    stop_free(m);

    m = stop_new(strings, 4); /* "er" ends with "r", and that ends first */
    state = 0;
    ck_assert_int_eq(stop_feed(m, &state, "Use", 3, &match), STOP_PARTIAL);
    ck_assert_int_eq(stop_feed(m, &state, "r", 1, &match), STOP_MATCHED);
    ck_assert(match.string == 3 && match.trim == 1);
    stop_free(m);

    const char *nested[] = {"b", "ab", "xab"}; /* all end at the same byte: the longest */
    m = stop_new(nested, 3);
    state = 0;
    ck_assert_int_eq(stop_feed(m, &state, "xabc", 4, &match), STOP_MATCHED);
    ck_assert(match.string == 2 && match.trim == 4);
    state = 0;
    ck_assert_int_eq(stop_feed(m, &state, "yab", 3, &match), STOP_MATCHED);
    ck_assert(match.string == 1 && match.trim == 2);
    stop_free(m);
}
END_TEST

/* Where the text's first match ends (one past its last byte) and how long it is, by comparing
 * everywhere. */
static bool search(const char *text, size_t length, char strings[][8], size_t n, size_t *match_end,
                   size_t *match_length)
{
    for (size_t end = 1; end <= length; end++) {
        *match_length = 0;
        for (size_t i = 0; i < n; i++) {
            size_t size = strlen(strings[i]);
            if (size <= end && size > *match_length &&
                memcmp(text + end - size, strings[i], size) == 0)
                *match_length = size;
        }
        *match_end = end;
        if (*match_length)
            return true;
    }
    return false;
}

/* The longest ending of the text that begins a string. */
static bool ends_partial(const char *text, size_t length, char strings[][8], size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t size = 1; size < strlen(strings[i]) && size <= length; size++)
            if (memcmp(text + length - size, strings[i], size) == 0)
                return true;
    return false;
}

START_TEST(stop_strings_equal_a_plain_search)
{
    for (int round = 0; round < 20000; round++) {
        char strings[4][8], text[40];
        const char *pointers[4];
        size_t n = 1 + random_word() % 4, length = random_word() % sizeof text;
        for (size_t i = 0; i < n; i++) {
            size_t size = 1 + random_word() % 7;
            for (size_t k = 0; k < size; k++)
                strings[i][k] = (char)('a' + random_word() % 2);
            strings[i][size] = 0;
            pointers[i] = strings[i];
        }
        for (size_t i = 0; i < length; i++)
            text[i] = (char)('a' + random_word() % 2 + (random_word() % 8 == 0));
        struct stop_matcher *m = stop_new(pointers, n);
        uint32_t state = 0;
        for (size_t at = 0; at < length;) {
            size_t size = 1 + random_word() % 5, match_end, match_length;
            size = size < length - at ? size : length - at;
            struct stop_match match;
            enum stop_outcome outcome = stop_feed(m, &state, text + at, size, &match);
            at += size;
            bool found = search(text, at, strings, n, &match_end, &match_length);
            ck_assert_int_eq(outcome == STOP_MATCHED, found);
            if (found) {
                ck_assert_uint_eq(match.trim, at - match_end + match_length);
                ck_assert_uint_eq(strlen(strings[match.string]), match_length);
                break;
            }
            ck_assert_int_eq(outcome == STOP_PARTIAL, ends_partial(text, at, strings, n));
        }
        stop_free(m);
    }
}
END_TEST

START_TEST(copies_draw_apart)
{
    static uint32_t seen[2000];
    size_t n = 0;
    for (uint32_t k = 1; k <= 3; k++)
        ck_assert_uint_eq(select_copy_stream(true, 0, 5, k), k);
    for (uint32_t stream = 0; stream < 10; stream++)
        for (uint32_t position = 5; position < 15; position++)
            for (uint32_t k = 1; k <= 20; k++) {
                seen[n] = select_copy_stream(false, stream, position, k);
                ck_assert_uint_ge(seen[n], 0x80000000);
                ck_assert(stream == 0 || select_copy_stream(true, stream, position, k) == seen[n]);
                for (size_t i = 0; i < n; i++)
                    ck_assert_uint_ne(seen[i], seen[n]);
                n++;
            }
}
END_TEST

/* ---- beam search ------------------------------------------------------------------------------
 */

static bool two_ends(void *context, uint32_t beam, uint32_t id)
{
    (void)context;
    (void)beam;
    return id == 2;
}

/* The distribution for a beam whose last token is this: given as probabilities of the tokens 0,
 * 1, 2. */
static bool offer(struct beam_search *s, uint32_t beam, const double p[3])
{
    float logits[3];
    struct error error;
    for (int i = 0; i < 3; i++)
        logits[i] = p[i] > 0 ? (float)log(p[i]) : -INFINITY;
    return beam_offer(s, beam,
                      &(struct select_question){.logits = logits, .n = 3, .n_selectable = 3},
                      two_ends, NULL, &error);
}

/* Steps until the search is over: every beam has the distribution that its last token has, `begin`
 * at first. */
static struct beam_search *run_search(struct beam_options options, const double begin[3],
                                      const double after[2][3])
{
    struct beam_search *s = beam_new(&options);
    ck_assert(offer(s, 0, begin));
    while (beam_step(s)) {
        uint32_t n;
        const struct beam_hypothesis *running = beam_running(s, &n);
        ck_assert_uint_le(n, options.width);
        for (uint32_t i = n; i-- > 0;) /* in any order */
            ck_assert(offer(s, i, after[running[i].id]));
    }
    return s;
}

/* Hypothesis `rank`: its tokens as digits, and its score. */
static void expect_hypothesis(const struct beam_search *s, uint32_t rank, const char *digits,
                              double score)
{
    uint32_t n, ids[16];
    const struct beam_hypothesis *best = beam_best(s, &n);
    char found[17] = "";
    ck_assert_uint_lt(rank, n);
    beam_tokens(s, &best[rank], ids);
    for (uint32_t i = 0; i < best[rank].length; i++)
        found[i] = (char)('0' + ids[i]);
    ck_assert_str_eq(found, digits);
    ck_assert_double_eq_tol(best[rank].score, score, 1e-6);
}

START_TEST(beam_finds_what_greedy_misses)
{
    /* greedy takes 0 (0.5), after which nothing is likely; 1 (0.4) ends with 0.9 */
    static const double begin[3] = {0.5, 0.4, 0.1},
                        after[2][3] = {{0.35, 0.35, 0.3}, {0.05, 0.05, 0.9}};
    struct beam_search *s =
        run_search((struct beam_options){.width = 2, .n_best = 2, .limit = 5}, begin, after);
    expect_hypothesis(s, 0, "12", log(0.36));
    expect_hypothesis(s, 1, "012", log(0.5 * 0.35 * 0.9));
    beam_free(s);
    /* at the second step 00 and 01 of the first beam are as probable, and the lower id comes first
     */
    s = run_search((struct beam_options){.width = 2, .n_best = 2, .limit = 2}, begin, after);
    expect_hypothesis(s, 0, "12", log(0.36));
    expect_hypothesis(s, 1, "00", log(0.175));
    beam_free(s);
    /* what ends counts only among the two most probable: 02 (0.3), 11 (0.25), not 12 (0.225) */
    static const double even[3] = {0.5, 0.5, 0}, later[2][3] = {{0.2, 0.2, 0.6}, {0.05, 0.5, 0.45}};
    s = run_search(
        (struct beam_options){.width = 2, .n_best = 2, .limit = 9, .stopping = BEAM_ALWAYS}, even,
        later);
    expect_hypothesis(s, 0, "02", log(0.3));
    expect_hypothesis(s, 1, "112", log(0.1125));
    beam_free(s);
    /* a width of 1 is greedy, and so ends where greedy ends, whatever may come later */
    for (int stopping = BEAM_AUTO; stopping <= BEAM_NEVER; stopping++) {
        static const double sure[2][3] = {{0.1, 0.3, 0.6}, {0.5, 0.3, 0.2}};
        s = run_search((struct beam_options){.width = 1,
                                             .n_best = 1,
                                             .limit = 9,
                                             .stopping = (enum beam_stopping)stopping,
                                             .length_penalty = 3},
                       begin, sure);
        expect_hypothesis(s, 0, "02", log(0.3) / 8);
        beam_free(s);
    }
}
END_TEST

START_TEST(beam_scores_by_length)
{
    static const double begin[3] = {0.6, 0, 0.4}, after[2][3] = {{0.9, 0, 0.1}};
    /* 2: log 0.4; 02: log(0.06) / 2; 000 at the limit: log(0.6 * 0.81) / 3 */
    struct beam_options options = {
        .width = 3, .n_best = 3, .limit = 3, .length_penalty = 1, .stopping = BEAM_NEVER};
    struct beam_search *s = run_search(options, begin, after);
    expect_hypothesis(s, 0, "000", log(0.486) / 3);
    expect_hypothesis(s, 1, "2", log(0.4));
    expect_hypothesis(s, 2, "002", log(0.054) / 3);
    beam_free(s);
    options.length_penalty = 0;
    s = run_search(options, begin, after);
    expect_hypothesis(s, 0, "000", log(0.486));
    expect_hypothesis(s, 1, "2", log(0.4));
    expect_hypothesis(s, 2, "02", log(0.06));
    beam_free(s);
    options.length_penalty = -1;
    s = run_search(options, begin, after);
    expect_hypothesis(s, 0, "2", log(0.4));
    expect_hypothesis(s, 1, "000", log(0.486) * 3);
    beam_free(s);
    options.length_penalty = 0.5;
    s = run_search(options, begin, after);
    expect_hypothesis(s, 0, "000", log(0.486) / sqrt(3));
    beam_free(s);
}
END_TEST

START_TEST(beam_stops_when_it_is_told)
{
    /* each step goes on with 0.9: 0 ends at once with 0.1, and the longer it goes on the better a
     * penalty of 1 likes it */
    static const double begin[3] = {0.9, 0, 0.1}, after[2][3] = {{0.9, 0, 0.1}};
    struct beam_options options = {.width = 2, .n_best = 1, .limit = 40, .length_penalty = 1};
    options.stopping = BEAM_ALWAYS;
    struct beam_search *s = run_search(options, begin, after);
    expect_hypothesis(s, 0, "02", log(0.09) / 2);
    beam_free(s);
    options.stopping = BEAM_AUTO; /* at every length it is better to go on than to have ended */
    s = run_search(options, begin, after);
    uint32_t n;
    ck_assert_uint_eq(beam_best(s, &n)->length, 40);
    ck_assert(!beam_best(s, &n)->ended);
    beam_free(s);
    options.length_penalty = 0; /* what ended first has the highest sum that an ended one can have;
                                   going on has more for a while */
    for (int stopping = BEAM_AUTO; stopping <= BEAM_NEVER; stopping++) {
        options.stopping = (enum beam_stopping)stopping;
        s = run_search(options, begin, after);
        expect_hypothesis(s, 0, "2", log(0.1));
        beam_free(s);
    }
}
END_TEST

START_TEST(beam_of_odd_distributions)
{
    static const double begin[3] = {0.5, 0.5, 0}, after[2][3] = {{0, 0, 0}, {0.25, 0.5, 0.25}},
                        dead[2][3] = {{0}};
    /* wider than the vocabulary; what goes on from 0 is impossible, and only that is lost */
    struct beam_search *s =
        run_search((struct beam_options){.width = 50, .n_best = 50, .limit = 2}, begin, after);
    uint32_t n;
    beam_best(s, &n);
    ck_assert_uint_eq(n, 3);
    expect_hypothesis(s, 0, "11", log(0.25));
    expect_hypothesis(s, 1, "12", log(0.125)); /* before what the limit ended */
    expect_hypothesis(s, 2, "10", log(0.125));
    beam_free(s);
    s = run_search((struct beam_options){.width = 2, .n_best = 2, .limit = 9}, begin, dead);
    beam_best(s, &n);
    ck_assert_uint_eq(n, 0);
    beam_free(s);
    struct error error;
    const float values[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        const float logits[3] = {1, values[i], 0};
        const struct select_question q = {
            .logits = logits, .n = 3, .n_selectable = 3, .position = 8};
        s = beam_new(&(struct beam_options){.width = 2, .n_best = 1, .limit = 9});
        ck_assert(!beam_offer(s, 0, &q, two_ends, NULL, &error));
        ck_assert_msg(strstr(error.text, "the logit of token 1 for position 8 is ") != NULL, "%s",
                      error.text);
        beam_free(s);
    }
    /* padding and bans are never taken; more tokens that end it than are looked at first */
    float many[64];
    for (int i = 0; i < 64; i++)
        many[i] = (float)-i;
    const uint32_t banned[] = {0};
    const struct select_question q = {
        .logits = many, .n = 64, .n_selectable = 60, .banned = banned, .n_banned = 1};
    s = beam_new(&(struct beam_options){.width = 60, .n_best = 60, .limit = 1});
    ck_assert(beam_offer(s, 0, &q, two_ends, NULL, &error));
    ck_assert(!beam_step(s));
    const struct beam_hypothesis *best = beam_best(s, &n);
    ck_assert_uint_eq(n, 59);
    for (uint32_t i = 0; i < n; i++)
        ck_assert(best[i].id == i + 1 && best[i].ended == (i == 1));
    ck_assert_double_eq(best[4].sum, (double)many[5] - select_log_total(many, 64));
    beam_free(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("select");
    TCase *tests = tcase_create("select");
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, greedy_takes_the_greatest_and_the_lower_of_equals);
    tcase_add_test(tests, some_ids_are_never_selected);
    tcase_add_test(tests, what_is_no_distribution_is_refused);
    tcase_add_test(tests, the_chain_equals_the_plain_one);
    tcase_add_test(tests, the_order_matters);
    tcase_add_test(tests, any_logits_have_an_answer_or_an_error);
    tcase_add_test(tests, xtc_has_a_word_of_its_own);
    tcase_add_test(tests, log_probabilities_are_those_of_the_choice);
    tcase_add_test(tests, draws_follow_the_probabilities);
    tcase_add_test(tests, filters_keep_what_they_should);
    tcase_add_test(tests, extreme_temperatures_do_no_harm);
    tcase_add_test(tests, the_draw_is_a_function_of_seed_stream_and_position);
    tcase_add_test(tests, weights_are_exact_exponentials);
    tcase_add_test(tests, log_totals_are_those_of_the_definition);
    tcase_add_test(tests, the_greatest_few_come_in_order);
    tcase_add_test(tests, the_chain_is_described);
    tcase_add_test(tests, stop_strings_are_found);
    tcase_add_test(tests, stop_strings_equal_a_plain_search);
    tcase_add_test(tests, copies_draw_apart);
    tcase_add_test(tests, beam_finds_what_greedy_misses);
    tcase_add_test(tests, beam_scores_by_length);
    tcase_add_test(tests, beam_stops_when_it_is_told);
    tcase_add_test(tests, beam_of_odd_distributions);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
