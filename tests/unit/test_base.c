#include "base/base.h"

#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Known answers of the Random123 distribution (kat_vectors, philox4x32 10). */
START_TEST(philox_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; i++) {
        uint32_t out[4];
        philox4x32(known[i].key, known[i].counter, out);
        ck_assert_mem_eq(out, known[i].out, sizeof out);
    }
}
END_TEST

/* What strings of files can hold never leaves a message with more than plain characters. */
START_TEST(messages_are_one_line_of_text)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"a\nb\tc\x1b[31m\x7f", "a?b?c?[31m?"},
        {"\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80", "\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80"},
        {"\xff\xfe\xc0\x80\xed\xa0\x80", "???????"}, /* no UTF-8 */
        {"cut \xe6\xbc", "cut ??"},                  /* a character that was cut */
        {"\xc2\x9b"
         "31m",
         "?31m"}, /* the control sequence introducer of C1 */
        {"\xe2\x80\xaeright \xe2\x80\xa8line", "?right ?line"}, /* to the left; a line separator */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error;
        ck_assert(!error_set(&error, STATUS_INPUT, "%s", cases[i].text));
        ck_assert_str_eq(error.text, cases[i].shown);
        ck_assert(!error_prefix(&error, "again"));
        ck_assert_str_eq(error.text + strlen("again: "), cases[i].shown);
    }
}
END_TEST

START_TEST(numbers_are_strict)
{
    int64_t i;
    uint64_t u;
    double d;
    ck_assert(parse_integer("-17", -20, 20, &i) && i == -17);
    ck_assert(parse_integer("0x1f", 0, 100, &i) && i == 31);
    ck_assert(parse_integer("010", 0, 100, &i) && i == 10);
    static const char *const bad[] = {
        "", " 1", "1 ", "+1", "1.5", "x", "0x", "--1", "99999999999999999999", "21", "-21", "-"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        ck_assert_msg(!parse_integer(bad[k], -20, 20, &i), "'%s'", bad[k]);
    ck_assert(parse_unsigned("18446744073709551615", UINT64_MAX, &u) && u == UINT64_MAX);
    ck_assert(!parse_unsigned("18446744073709551616", UINT64_MAX, &u));
    ck_assert(!parse_unsigned("-1", UINT64_MAX, &u));
    ck_assert(parse_real("-1e-3", -1, 1, &d) && d == -1e-3);
    ck_assert(parse_real("-inf", -INFINITY, 0, &d) && isinf(d));
    static const char *const unreal[] = {"nan", "", "1x", " 1", "2", "infinity", "e5"};
    for (size_t k = 0; k < sizeof unreal / sizeof *unreal; k++)
        ck_assert_msg(!parse_real(unreal[k], -1, 1, &d), "'%s'", unreal[k]);
}
END_TEST

/* Every half, and the neighbourhood of every rounding boundary. */
START_TEST(halves_round_to_even)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float value = f16_to_f32((uint16_t)h);
        if (!isnan(value)) {
            ck_assert_uint_eq(f32_to_f16(value), h);
            double expected = h & 0x7c00 ? ldexp(1024 + (h & 0x3ff), (int)(h >> 10 & 31) - 25)
                                         : ldexp(h & 0x3ff, -24);
            if ((h & 0x7c00) != 0x7c00)
                ck_assert(fabs((double)value) == expected);
        }
        float above = f16_to_f32((uint16_t)((h & 0x7fff) + 1));
        if ((h & 0x7fff) < 0x7bff) {
            float below = fabsf(value), middle = (below + above) / 2;
            uint16_t low = (uint16_t)(h & 0x7fff);
            ck_assert_uint_eq(f32_to_f16(middle), low + (low & 1));
            ck_assert_uint_eq(f32_to_f16(nextafterf(middle, 0)), low);
            ck_assert_uint_eq(f32_to_f16(nextafterf(middle, INFINITY)), low + 1);
        }
    }
    ck_assert_uint_eq(f32_to_f16(65520), 0x7c00);
    ck_assert_uint_eq(f32_to_f16(65519), 0x7bff);
    ck_assert_uint_eq(f32_to_bf16(1.00390625f), 0x3f80); /* halfway, to even */
    ck_assert(bf16_to_f32(0x3f80) == 1);
}
END_TEST

START_TEST(elementary_functions_are_close)
{
    ck_assert(exact_exp(0) == 1 && exact_exp(-0.0f) == 1);
    ck_assert(exact_exp(-200) == 0 && isinf(exact_exp(89.5f)) && isnan(exact_exp(NAN)));
    ck_assert(exact_exp_f64(0) == 1 && exact_exp_f64(-708.1) == 0 && isinf(exact_exp_f64(709.1)) &&
              isnan(exact_exp_f64(NAN)));
    for (int i = -10300; i < 8870; i++) {
        float x = (float)i * 0.01f;
        double r = exp((double)x);
        ck_assert_msg(fabs((double)exact_exp(x) - r) <= 1.2e-7 * r + 1.5e-45, "exp(%g)", (double)x);
        double t = tanh((double)x * 0.01);
        ck_assert_msg(fabs((double)exact_tanh(x * 0.01f) - t) <= 2e-7 * fabs(t) + 1e-9, "tanh(%g)",
                      (double)x);
    }
    for (int i = 1; i < 5000; i++) {
        double s, c, x = i * 0.37 * i, y = i * 0.013;
        exact_sincos(x, &s, &c);
        ck_assert(fabs(s - sin(x)) < 1e-14 && fabs(c - cos(x)) < 1e-14);
        double z = i % 2 ? -0.008 * i : -709 + 0.2837 * i;
        ck_assert(z < -708 || z > 709 || fabs(exact_exp_f64(z) - exp(z)) <= 2.3e-16 * exp(z));
        ck_assert(fabs(exact_log(y) - log(y)) <= 1e-14 * fabs(log(y)) + 1e-15);
        ck_assert(fabs(exact_pow(10000, -y / 65) - pow(10000, -y / 65)) < 1e-13);
    }
}
END_TEST

static void mark(void *context, int thread, size_t begin, size_t end)
{
    (void)thread;
    for (size_t i = begin; i < end; i++)
        ((unsigned char *)context)[i]++;
}

START_TEST(threads_cover_every_item_once)
{
    static unsigned char seen[10007];
    for (int n = 1; n <= 5; n++) {
        struct threads *t = threads_start(n);
        for (size_t items = 0; items < 10007; items = items * 3 + 1)
            for (size_t grain = 1; grain < 40; grain += 13) {
                memset(seen, 0, sizeof seen);
                threads_run(t, items, grain, mark, seen);
                for (size_t i = 0; i < sizeof seen; i++)
                    ck_assert_uint_eq(seen[i], i < items);
            }
        threads_stop(t);
    }
    ck_assert_int_ge(threads_available(), 1);
}
END_TEST

START_TEST(output_appears_when_complete)
{
    char path[] = "/tmp/unroll-test-XXXXXX", text[8] = "";
    int fd = mkstemp(path);
    write_full(fd, "old", 3, path);
    close(fd);
    struct output out;
    output_open(&out, path, false, false);
    output_write(&out, "new", 3);
    fd = open(path, O_RDONLY);
    ck_assert_uint_eq(read_full(fd, text, sizeof text, path), 3);
    close(fd);
    ck_assert_str_eq(text, "old");
    output_close(&out);
    fd = open(path, O_RDONLY);
    ck_assert_uint_eq(read_full(fd, text, sizeof text, path), 3);
    close(fd);
    ck_assert_str_eq(text, "new");
    unlink(path);
}
END_TEST

START_TEST(crc_is_zlibs)
{
    ck_assert_uint_eq(crc32_update(0, "123456789", 9), 0xcbf43926);
    ck_assert_uint_eq(crc32_update(crc32_update(0, "1234", 4), "56789", 5), 0xcbf43926);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *tests = tcase_create("base");
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, philox_known_answers);
    tcase_add_test(tests, messages_are_one_line_of_text);
    tcase_add_test(tests, numbers_are_strict);
    tcase_add_test(tests, halves_round_to_even);
    tcase_add_test(tests, elementary_functions_are_close);
    tcase_add_test(tests, threads_cover_every_item_once);
    tcase_add_test(tests, output_appears_when_complete);
    tcase_add_test(tests, crc_is_zlibs);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
