/* Penalties, DRY and biases: the manual's worked numbers, and random texts against the plainest way
 * to count. */
#include "select/select.h"
#include "stage/naming.h"
#include "stage/stage.h"
#include "text/text.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t random_counter;

static uint32_t random_word(void)
{
    const uint32_t key[2] = {2, 0}, counter[4] = {random_counter++, 0, 0, 7};
    uint32_t word[4];
    philox4x32(key, counter, word);
    return word[0];
}

enum { GENERATED = 8 };

/* ---- repetition, presence, frequency ------------------------------------------------------- */

START_TEST(penalties_are_those_of_the_manual)
{
    struct penalizer *p = penalizer_new();
    const uint32_t tokens[] = {0, 1}, twice[] = {0, 0};
    const uint8_t given[] = {0, GENERATED}, selected[] = {GENERATED, GENERATED};
    float logits[] = {2, -1, 0.5f}, level[] = {3, 3, 3};
    select_penalize(p, &(struct select_penalties){.repeat = 2, .last = -1},
                    &(struct select_context){tokens, given, GENERATED, 2}, logits, 3);
    ck_assert(logits[0] == 1 && logits[1] == -2 && logits[2] == 0.5f);
    select_penalize(
        p, &(struct select_penalties){.repeat = 1, .presence = 0.25, .frequency = 0.5, .last = -1},
        &(struct select_context){twice, selected, GENERATED, 2}, level, 3);
    ck_assert(level[0] == 1.75f && level[1] == 3 && level[2] == 3);
    penalizer_free(p);
}
END_TEST

START_TEST(penalties_equal_plain_counting)
{
    enum { N = 12 };
    struct penalizer *p = penalizer_new();
    for (int round = 0; round < 5000; round++) {
        uint32_t tokens[60], n_tokens = random_word() % 60, n = 1 + random_word() % N;
        uint8_t flags[60];
        float logits[N], expected[N];
        struct select_penalties o = {
            .repeat = (const double[]){1, 1.3, 0.7}[random_word() % 3],
            .presence = (const double[]){0, 0.6, -0.4}[random_word() % 3],
            .frequency = (const double[]){0, 0.1, -0.3}[random_word() % 3],
            .prompt = random_word() % 2,
            .last = (int64_t)(random_word() % 70) - 5,
        };
        for (uint32_t i = 0; i < n_tokens; i++) {
            tokens[i] = random_word() % N;
            flags[i] = (random_word() % 2 ? GENERATED : 0) | 2;
        }
        for (uint32_t id = 0; id < n; id++) {
            expected[id] = logits[id] =
                random_word() % 20 ? (float)random_word() * 0x1p-30f - 2 : -INFINITY;
            uint32_t seen = 0, count = 0;
            for (uint32_t i = 0; i < n_tokens; i++) {
                bool counts =
                    tokens[i] == id && (o.last < 0 || (int64_t)i >= (int64_t)n_tokens - o.last);
                seen += counts;
                count += counts && (o.prompt || (flags[i] & GENERATED));
            }
            if (seen)
                expected[id] = (float)(expected[id] > 0 ? (double)expected[id] / o.repeat
                                                        : (double)expected[id] * o.repeat);
            if (count)
                expected[id] = (float)((double)expected[id] - (count * o.frequency + o.presence));
        }
        select_penalize(p, &o, &(struct select_context){tokens, flags, GENERATED, n_tokens}, logits,
                        n);
        ck_assert_mem_eq(logits, expected, n * sizeof *logits);
    }
    penalizer_free(p);
}
END_TEST

START_TEST(penalties_stay_finite)
{
    struct penalizer *p = penalizer_new();
    const uint32_t tokens[] = {0, 1};
    const uint8_t flags[] = {GENERATED, GENERATED};
    float logits[] = {3e38f, -3e38f};
    select_penalize(p, &(struct select_penalties){.repeat = 1e-3, .last = -1},
                    &(struct select_context){tokens, flags, GENERATED, 2}, logits, 2);
    ck_assert(logits[0] == FLT_MAX && logits[1] == -3e35f);
    select_penalize(p, &(struct select_penalties){.repeat = 1e3, .last = -1},
                    &(struct select_context){tokens, flags, GENERATED, 2}, logits, 2);
    select_penalize(p, &(struct select_penalties){.repeat = 1e3, .last = -1},
                    &(struct select_context){tokens, flags, GENERATED, 2}, logits, 2);
    ck_assert(logits[1] == -FLT_MAX);
    penalizer_free(p);
}
END_TEST

/* ---- DRY ----------------------------------------------------------------------------------- */

START_TEST(dry_is_that_of_the_manual)
{
    struct penalizer *p = penalizer_new();
    const uint32_t tokens[] = {1, 2, 3, 4, 9, 1, 2, 3};
    float logits[10] = {0};
    struct select_dry o = {.multiplier = 0.8, .base = 1.75, .allowed_length = 2, .last = -1};
    select_dry(p, &o, tokens, 8, 8, NULL, NULL, logits, 10);
    for (uint32_t id = 0; id < 10; id++)
        ck_assert(logits[id] == (id == 4 ? -1.4f : 0));
    penalizer_free(p);
}
END_TEST

static bool breaks(void *context, uint32_t id)
{
    return id == *(const uint32_t *)context;
}

START_TEST(dry_equals_a_search_of_all_places)
{
    enum { N = 5 };
    struct penalizer *p = penalizer_new();
    for (int round = 0; round < 5000; round++) {
        uint32_t tokens[60], n_tokens = random_word() % 60, n = random_word() % 4 ? N : 3,
                             variety = 1 + random_word() % N;
        uint32_t clear = random_word() % 2 ? n_tokens : random_word() % (n_tokens + 1),
                 breaker = random_word() % 8;
        float logits[N] = {0}, expected[N] = {0};
        struct select_dry o = {.multiplier = 0.8,
                               .base = 1.5,
                               .allowed_length = 1 + random_word() % 4,
                               .last = (int64_t)(random_word() % 70) - 5};
        for (uint32_t i = 0; i < n_tokens; i++)
            tokens[i] = random_word() % variety;
        uint32_t begin = o.last >= 0 && o.last < n_tokens ? n_tokens - (uint32_t)o.last : 0,
                 longest[N] = {0};
        for (uint32_t next = begin + 1; next < n_tokens; next++) {
            uint32_t length = 0;
            while (length < clear && next >= begin + length + 1 &&
                   tokens[next - 1 - length] == tokens[n_tokens - 1 - length])
                length++;
            if (tokens[next] != breaker && length > longest[tokens[next]])
                longest[tokens[next]] = length;
        }
        for (uint32_t id = 0; id < n; id++)
            if (longest[id] && longest[id] >= o.allowed_length)
                expected[id] = (float)(0 - 0.8 * pow(1.5, longest[id] - (double)o.allowed_length));
        select_dry(p, &o, tokens, n_tokens, clear, breaks, &breaker, logits, n);
        for (uint32_t id = 0; id < n; id++)
            ck_assert_msg(fabsf(logits[id] - expected[id]) <= 1e-6f * fabsf(expected[id]),
                          "round %d: token %u: %g, expected %g", round, id, (double)logits[id],
                          (double)expected[id]);
    }
    penalizer_free(p);
}
END_TEST

/* A text of one token, and one whose every ending repeats: a search of all places would take
 * minutes. */
START_TEST(dry_takes_linear_time)
{
    enum { N = 1 << 20 };
    struct penalizer *p = penalizer_new();
    uint32_t *tokens = allocate(N, sizeof *tokens);
    struct select_dry o = {.multiplier = 1, .base = 1, .allowed_length = 1, .last = -1};
    for (int period = 1; period < 4; period++) {
        float logits[4] = {0};
        for (uint32_t i = 0; i < N; i++)
            tokens[i] = i % (uint32_t)period;
        double begin = seconds_now();
        select_dry(p, &o, tokens, N, N, NULL, NULL, logits, 4);
        ck_assert(seconds_now() - begin < 1);
        ck_assert(logits[N % period] == -1);
    }
    free(tokens);
    penalizer_free(p);
}
END_TEST

/* ---- biases -------------------------------------------------------------------------------- */

START_TEST(biases_add_up_and_stay_finite)
{
    const struct select_bias biases[] = {{0, 1.5}, {0, -0.5}, {1, -INFINITY}, {1, 5}, {2, 1e6}};
    const uint32_t allowed[] = {0, 3};
    float logits[] = {1, 2, 3.4e38f, 0, 7};
    select_add_biases(biases, 5, logits, 5);
    ck_assert(logits[0] == 2 && logits[1] == -INFINITY && logits[2] == 3.4e38f && logits[3] == 0);
    select_allow(allowed, 2, logits, 5);
    ck_assert(logits[0] == 2 && logits[1] == -INFINITY && logits[2] == -INFINITY &&
              logits[3] == 0 && logits[4] == -INFINITY);
}
END_TEST

/* What people type, shuffled: whatever comes out is right or a message, and never reads beyond the
 * word. */
START_TEST(words_of_biases_are_parsed_or_refused)
{
    static const char pieces[][8] = {"=", "12", "-",  "+",   "inf", "\"",   "\\x", "\\n",
                                     "0", ".5", "e9", "nan", "\\",  "\x80", ""};
    struct naming naming = {.model = "examples/model/unroll-small.gguf"};
    int good = 0, bad = 0;
    for (int round = 0; round < 20000; round++) {
        struct bias_list list = {0};
        struct error error = {0};
        char text[64];
        size_t length = 0;
        for (uint32_t k = random_word() % 7; k; k--) {
            uint32_t which = random_word() % (sizeof pieces / sizeof *pieces);
            const char *piece =
                pieces[round % 2 && k <= 3 ? k != 2 : which]; /* half of them end in "12=12" */
            size_t size = *piece ? strlen(piece) : 1;
            memcpy(text + length, piece, size);
            length += size;
        }
        char *word = allocate(length + 1, 1);
        memcpy(word, text, length);
        word = reallocate(word, length ? length : 1, 1); /* ends where it ends */
        if (naming_bias(&naming, "bias", word, length, &list, &error)) {
            ck_assert(list.count == 1 && list.item[0].value <= 1e6 &&
                      list.item[0].id < RECORD_MAX_VOCABULARY);
            good++;
        } else {
            ck_assert(error.text[0] && error.status == STATUS_USAGE && list.count == 0);
            bad++;
        }
        free(word);
        free(list.item);
    }
    ck_assert(good > 100 && bad > 100);
    naming_close(&naming);
}
END_TEST

START_TEST(escapes_come_back)
{
    for (int round = 0; round < 5000; round++) {
        uint8_t bytes[20];
        char back[200];
        size_t n = random_word() % sizeof bytes, length = 0;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(random_word() % 3 ? 32 + random_word() % 96 : random_word());
        char *escaped = text_escape(bytes, n, 0);
        ck_assert(text_unescape(escaped, strlen(escaped), back, &length));
        ck_assert_uint_eq(length, n);
        ck_assert_mem_eq(back, bytes, n);
        free(escaped);
    }
    char out[8];
    size_t n;
    ck_assert(!text_unescape("\\", 1, out, &n) && !text_unescape("\\x", 2, out, &n) &&
              !text_unescape("\\x1", 3, out, &n) && !text_unescape("\\xg1", 4, out, &n) &&
              !text_unescape("\\q", 2, out, &n));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("penalty");
    TCase *tests = tcase_create("penalty");
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, penalties_are_those_of_the_manual);
    tcase_add_test(tests, penalties_equal_plain_counting);
    tcase_add_test(tests, penalties_stay_finite);
    tcase_add_test(tests, dry_is_that_of_the_manual);
    tcase_add_test(tests, dry_equals_a_search_of_all_places);
    tcase_add_test(tests, dry_takes_linear_time);
    tcase_add_test(tests, biases_add_up_and_stay_finite);
    tcase_add_test(tests, words_of_biases_are_parsed_or_refused);
    tcase_add_test(tests, escapes_come_back);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
