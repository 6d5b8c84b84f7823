/* lib/select against a selection that sorts everything, and stop strings against a search of the whole text. */
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

static bool choose(const struct select_options *options, struct select_question question, uint32_t *id, struct error *error)
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
    ck_assert_msg(choose(&(struct select_options){.top_p = 1}, (struct select_question){.logits = logits, .n = n}, &id, &error), "%s",
                  error.text);
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
        struct select_options options = {.temperature = temperature * 1e-3, .top_p = 1};
        struct select_question q = {.logits = logits, .n = 20};
        ck_assert(choose(&options, q, &id, &error) && id == 17);
        q.n_selectable = 17;
        ck_assert(choose(&options, q, &id, &error) && id == 3);
        q.banned = banned, q.n_banned = 1;
        ck_assert(choose(&options, q, &id, &error) && id == 7);
        q.n_banned = 2;
        ck_assert(choose(&(struct select_options){.top_p = 1}, q, &id, &error) && id == 0);
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
            struct select_options options = {.temperature = temperature, .top_p = 1};
            struct select_question q = {.logits = logits, .n = 50, .n_selectable = 40, .position = 123};
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
    bool kept;
};

static int plain_by_logit(const void *left, const void *right)
{
    const struct plain *a = left, *b = right;
    if (a->logit != b->logit)
        return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}
static int plain_by_weight(const void *left, const void *right)
{
    const struct plain *a = left, *b = right;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}
static int plain_by_id(const void *left, const void *right)
{
    return ((const struct plain *)left)->id < ((const struct plain *)right)->id ? -1 : 1;
}

/* Its sums are taken in another order and may differ in their last bits: random logits do not come that near to
 * a border. */
static uint32_t plain_choose(const struct select_options *o, const float *logits, uint32_t n, uint32_t position)
{
    struct plain *c = allocate(n, sizeof *c);
    float greatest = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        greatest = fmaxf(greatest, logits[i]);
    for (uint32_t i = 0; i < n; i++)
        c[i] = (struct plain){i, logits[i], exact_exp((float)(((double)logits[i] - (double)greatest) / o->temperature)), false};
    uint32_t left = n;
    qsort(c, n, sizeof *c, plain_by_logit);
    if (o->top_k > 0 && o->top_k < n)
        left = (uint32_t)o->top_k;
    double total = 0, sum = 0;
    for (uint32_t i = 0; i < left; i++)
        total += (double)c[i].weight;
    qsort(c, left, sizeof *c, plain_by_weight);
    for (uint32_t i = 0; i < left && o->top_p < 1; i++) {
        sum += (double)c[i].weight;
        if (sum >= o->top_p * total)
            left = i + 1;
    }
    while (o->min_p > 0 && (double)c[left - 1].weight < o->min_p)
        left--;
    qsort(c, left, sizeof *c, plain_by_id);
    total = sum = 0;
    for (uint32_t i = 0; i < left; i++)
        total += (double)c[i].weight;
    double target = select_uniform(o->seed, 0, position) * total;
    uint32_t at = 0;
    while ((sum += (double)c[at].weight) <= target)
        at++;
    uint32_t id = c[at].id;
    free(c);
    return id;
}

START_TEST(the_chain_equals_the_plain_one)
{
    static float logits[3000];
    for (uint32_t round = 0; round < 3000; round++) {
        uint32_t n = 1 + random_word() % (round % 10 ? 40 : 3000), kind = random_word() % 3;
        struct select_options options = {
            .temperature = (const double[]){1, 0.5, 2, 0.1}[random_word() % 4],
            .top_k = (const int64_t[]){0, -1, 1, 5, 20, 5000}[random_word() % 6],
            .top_p = (const double[]){1, 0.9, 0.5, 0, 0.999}[random_word() % 5],
            .min_p = (const double[]){0, 0.05, 1, 0.001}[random_word() % 4],
            .seed = round,
        };
        for (uint32_t i = 0; i < n; i++) /* distinct, or with many ties, or with impossible ones */
            logits[i] = kind == 0   ? random_float(-10, 10)
                        : kind == 1 ? (float)(random_word() % 5)
                                    : (random_word() % 2 ? -INFINITY : random_float(-3, 3));
        logits[random_word() % n] = 3;
        struct error error = {0};
        uint32_t id = UINT32_MAX, expected = plain_choose(&options, logits, n, round);
        struct select_question q = {.logits = logits, .n = n, .position = round};
        ck_assert_msg(choose(&options, q, &id, &error), "%s", error.text);
        ck_assert_msg(id == expected, "round %u: n %u, kind %u, temperature %g, top-k %d, top-p %g, min-p %g: %u, expected %u", round, n,
                      kind, options.temperature, (int)options.top_k, options.top_p, options.min_p, id, expected);
    }
}
END_TEST

/* How often each of n ids is drawn in `draws` questions. */
static void count_draws(const struct select_options *options, const float *logits, uint32_t n, uint32_t draws, uint32_t *counts)
{
    struct selector *selector = selector_new(options);
    struct error error;
    memset(counts, 0, n * sizeof *counts);
    for (uint32_t position = 0; position < draws; position++) {
        uint32_t id;
        struct select_question q = {.logits = logits, .n = n, .n_selectable = n, .position = position};
        ck_assert(select_choose(selector, &q, &id, &error));
        ck_assert_uint_lt(id, n);
        counts[id]++;
    }
    selector_free(selector);
}

START_TEST(draws_follow_the_probabilities)
{
    const float logits[4] = {0, 1, 2, -INFINITY};
    uint32_t counts[4];
    const double e = exp(1), total = 1 + e + e * e, expected[4] = {1 / total, e / total, e * e / total, 0};
    count_draws(&(struct select_options){.temperature = 1, .top_p = 1, .seed = 5}, logits, 4, 100000, counts);
    for (int i = 0; i < 4; i++) /* within five standard deviations */
        ck_assert(fabs(counts[i] - 1e5 * expected[i]) <= 5 * sqrt(1e5 * expected[i] * (1 - expected[i])));
}
END_TEST

START_TEST(filters_keep_what_they_should)
{
    const float ties[6] = {1, 2, 2, 2, 2, 1};
    uint32_t counts[6];
    count_draws(&(struct select_options){.temperature = 1, .top_k = 3, .top_p = 1}, ties, 6, 1000, counts);
    ck_assert(!counts[0] && counts[1] && counts[2] && counts[3] && !counts[4] && !counts[5]);
    count_draws(&(struct select_options){.temperature = 100, .top_k = 5, .top_p = 1}, ties, 6, 1000, counts);
    ck_assert(counts[0] && counts[1] && counts[4] && !counts[5]);

    /* Four equal ones: the half is reached by two of them, and by no less. */
    const float equal[4] = {7, 7, 7, 7};
    count_draws(&(struct select_options){.temperature = 1, .top_p = 0.5}, equal, 4, 1000, counts);
    ck_assert(counts[0] && counts[1] && !counts[2] && !counts[3]);
    count_draws(&(struct select_options){.temperature = 1, .top_p = 0.50001}, equal, 4, 1000, counts);
    ck_assert(counts[0] && counts[1] && counts[2] && !counts[3]);
    count_draws(&(struct select_options){.temperature = 1, .top_p = 0}, equal, 4, 1000, counts);
    ck_assert(counts[0] == 1000);

    /* Probabilities 2/3 and 1/3: renormalised for top-p after top-k. */
    const float halves[3] = {0, -0x1.62e43p-1f, -0x1.62e43p-1f};
    count_draws(&(struct select_options){.temperature = 1, .top_k = 2, .top_p = 0.6}, halves, 3, 1000, counts);
    ck_assert(counts[0] == 1000);
    count_draws(&(struct select_options){.temperature = 1, .top_p = 0.6}, halves, 3, 1000, counts);
    ck_assert(counts[0] && counts[1] && !counts[2]);
    count_draws(&(struct select_options){.temperature = 1, .top_p = 1, .min_p = 0.51}, halves, 3, 1000, counts);
    ck_assert(counts[0] == 1000);
    count_draws(&(struct select_options){.temperature = 1, .top_p = 1, .min_p = 0.49}, halves, 3, 1000, counts);
    ck_assert(counts[0] && counts[1] && counts[2]);
}
END_TEST

START_TEST(extreme_temperatures_do_no_harm)
{
    const float logits[3] = {3e38f, -3e38f, 2.9e38f};
    uint32_t counts[3];
    count_draws(&(struct select_options){.temperature = 1e-320, .top_p = 1}, logits, 3, 100, counts);
    ck_assert_uint_eq(counts[0], 100);
    count_draws(&(struct select_options){.temperature = 1e6, .top_p = 0.9}, (const float[]){1, 2, 3}, 3, 100, counts);
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
    float *logits = allocate(N, sizeof *logits), *weights = allocate(N, sizeof *weights), *plain = allocate(N, sizeof *plain);
    const float borders[] = {0, -104, -104.00001f, -103.99999f, -87.3f, -88.7f, -0x1p-140f, -3e38f, -INFINITY, -1e-10f};
    for (int round = 0; round < 8; round++) {
        double temperature = (const double[]){1, 1, 0.1, 7, 1e-300, 1e6, 3, 1}[round];
        float greatest = round % 2 ? 10 : 0;
        for (uint32_t i = 0; i < N; i++)
            logits[i] = i < 10 ? borders[i] : random_float(round < 4 ? -120 : -1, greatest);
        select_weights(logits, N, greatest, temperature, weights);
        select_weights_plain(logits, N, greatest, temperature, plain);
        ck_assert_mem_eq(weights, plain, N * sizeof *weights);
        for (uint32_t i = 0; i < N; i++) {
            float expected = exact_exp((float)(((double)logits[i] - (double)greatest) / temperature));
            ck_assert_msg(memcmp(&expected, &weights[i], sizeof expected) == 0, "%a at %g: %a, expected %a", (double)logits[i],
                          temperature, (double)weights[i], (double)expected);
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
            logits[i] = random_word() % 9 ? random_float(low, 10) : random_word() % 3 ? 10 - random_float(700, 712) : -INFINITY;
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
    ck_assert(isnan(select_log_total((const float[]){1, NAN}, 2)) && isnan(select_log_total((const float[]){INFINITY, 1}, 2)));
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
    select_describe(&(struct select_options){.top_p = 1}, text, sizeof text);
    ck_assert_str_eq(text, "greedy");
    select_describe(&(struct select_options){.temperature = 0.8, .top_k = 40, .top_p = 0.95, .min_p = 0.05}, text, sizeof text);
    ck_assert_str_eq(text, "temperature 0.8, top-k 40, top-p 0.95, min-p 0.05");
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

/* Where the text's first match ends (one past its last byte) and how long it is, by comparing everywhere. */
static bool search(const char *text, size_t length, char strings[][8], size_t n, size_t *match_end, size_t *match_length)
{
    for (size_t end = 1; end <= length; end++) {
        *match_length = 0;
        for (size_t i = 0; i < n; i++) {
            size_t size = strlen(strings[i]);
            if (size <= end && size > *match_length && memcmp(text + end - size, strings[i], size) == 0)
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

int main(void)
{
    Suite *suite = suite_create("select");
    TCase *tests = tcase_create("select");
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, greedy_takes_the_greatest_and_the_lower_of_equals);
    tcase_add_test(tests, some_ids_are_never_selected);
    tcase_add_test(tests, what_is_no_distribution_is_refused);
    tcase_add_test(tests, the_chain_equals_the_plain_one);
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
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
