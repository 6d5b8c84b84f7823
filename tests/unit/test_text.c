/* lib/text: what waits and what is ready, and the printable form of any bytes. */
#include "text/text.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct error error;

static void add(struct text_flow *flow, const char *text, bool held)
{
    text_flow_add(flow, text, strlen(text), held);
}

static void expect(struct text_flow *flow, const char *text)
{
    const uint8_t *bytes;
    size_t length = text_flow_take(flow, &bytes);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert(memcmp(bytes, text, length) == 0);
}

START_TEST(text_is_ready_unless_held)
{
    struct text_flow flow = {0};
    expect(&flow, "");
    add(&flow, "one", false);
    add(&flow, " two", false);
    expect(&flow, "one two");
    expect(&flow, "");
    add(&flow, " three", true);
    add(&flow, "", true);
    add(&flow, " four", true);
    expect(&flow, "");
    add(&flow, "!", false);
    expect(&flow, " three four!");
    add(&flow, " five", false);
    add(&flow, " six", true);
    expect(&flow, " five");
    text_flow_end(&flow, 2);
    expect(&flow, " s");
    add(&flow, "!", true);
    text_flow_end(&flow, 5);
    expect(&flow, "");
    add(&flow, "dropped", true);
    text_flow_free(&flow);
    expect(&flow, "");
}
END_TEST

/* The numbers in the order of the list, as digits; the current one in brackets. */
static void expect_order(const struct text_order *o, const char *expected)
{
    char found[64] = "";
    size_t previous = TEXT_NONE;
    for (size_t i = o->first; i != TEXT_NONE; i = o->place[i].next) {
        ck_assert_uint_eq(o->place[i].previous, previous);
        sprintf(found + strlen(found), i == o->current ? "[%zu]" : "%zu", i);
        previous = i;
    }
    ck_assert_uint_eq(o->last, previous);
    ck_assert_str_eq(found, expected);
}

START_TEST(copies_come_after_what_they_are_copies_of)
{
    struct text_order o;
    text_order_init(&o);
    expect_order(&o, "");
    for (size_t i = 0; i < 3; i++)
        text_order_add(&o, i, TEXT_NONE);
    expect_order(&o, "[0]12");
    text_order_add(&o, 3, 0), text_order_add(&o, 4, 1), text_order_add(&o, 5, 0),
        text_order_add(&o, 6, 3);
    expect_order(&o, "[0]356142");
    text_order_add(&o, 1, 6); /* is there already */
    expect_order(&o, "[0]356142");
    ck_assert(text_order_advance(&o) && text_order_advance(&o));
    text_order_remove(&o, 6);
    expect_order(&o, "03[5]142");
    text_order_add(&o, 6, 4);
    expect_order(&o, "03[5]1462");
    text_order_remove(&o, 5);
    expect_order(&o, "03[1]462");
    text_order_add(&o, 5, 0); /* too late to follow 3 */
    expect_order(&o, "03[1]5462");
    text_order_remove(&o, 0), text_order_remove(&o, 2);
    expect_order(&o, "3[1]546");
    while (text_order_advance(&o))
        ;
    expect_order(&o, "3154[6]");
    text_order_remove(&o, 6);
    expect_order(&o, "3154");
    text_order_add(&o, 2, TEXT_NONE);
    expect_order(&o, "3154[2]");
    text_order_free(&o);
}
END_TEST

START_TEST(characters_are_ready_when_they_are_complete)
{
    struct text_flow flow = {0}, raw = {.raw = true};
    add(&flow, "a\xf0\x9f", false);
    expect(&flow, "a");
    add(&flow, "\x98", false);
    expect(&flow, "");
    add(&flow, "\x80\xc3", false);
    expect(&flow, "\xf0\x9f\x98\x80");
    add(&flow, "\xa4\xff\x80", false); /* what is not UTF-8 does not wait */
    expect(&flow, "\xc3\xa4\xff\x80");
    add(&flow, "\xe2\x82", false);
    text_flow_end(&flow, 0);
    expect(&flow, "\xe2\x82");
    add(&raw, "\xe2", false);
    expect(&raw, "\xe2");
    text_flow_free(&flow);
    text_flow_free(&raw);
}
END_TEST

START_TEST(a_flow_is_cut_back)
{
    struct text_flow flow = {0};
    add(&flow, "one", false);
    expect(&flow, "one");
    add(&flow, " two", true);
    add(&flow, " three", true);
    ck_assert(text_flow_cut(&flow, 2, &error));
    add(&flow, "!", false);
    expect(&flow, " two!");
    ck_assert(!text_flow_cut(&flow, 1, &error));
    ck_assert(text_flow_cut(&flow, 3, &error));
    text_flow_free(&flow);
}
END_TEST

START_TEST(incomplete_characters_are_found)
{
    static const struct {
        const char *text;
        size_t n;
    } cases[] = {{"", 0},
                 {"a", 0},
                 {"a\xc3", 1},
                 {"\xc3\xa4", 0},
                 {"\xe2", 1},
                 {"\xe2\x82", 2},
                 {"\xe2\x82\xac", 0},
                 {"\xf0\x9f\x98", 3},
                 {"\xf0\x9f\x98\x80", 0},
                 {"\x80\x80\x80\x80", 0},
                 {"\xff", 0},
                 {"\xc0", 0},
                 {"\xf5\x80", 0},
                 {"\xc3\xa4\x80", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_uint_eq(text_incomplete((const uint8_t *)cases[i].text, strlen(cases[i].text)),
                          cases[i].n);
}
END_TEST

static void expect_escape(const char *bytes, size_t length, size_t limit, const char *wanted)
{
    char *escaped = text_escape(bytes, length, limit);
    ck_assert_str_eq(escaped, wanted);
    ck_assert(!limit || text_columns(escaped) <= limit);
    free(escaped);
}

START_TEST(any_bytes_have_a_printable_form)
{
    expect_escape("a b", 3, 0, "a b");
    expect_escape("\n\t\r\\\"\0\x1b\x7f", 8, 0, "\\n\\t\\r\\\\\\\"\\x00\\x1b\\x7f");
    expect_escape("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, 0,
                  "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    expect_escape("\xc3", 1, 0, "\\xc3");
    expect_escape("\xc3(\xff", 3, 0, "\\xc3(\\xff");
    expect_escape("\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80", 9, 0,
                  "\\xc0\\x80\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
    expect_escape("\xe2\x80\xae\xc2\x85", 5, 0,
                  "\\xe2\\x80\\xae\\xc2\\x85"); /* right-to-left override, next line */
    expect_escape("abcdefgh", 8, 8, "abcdefgh");
    expect_escape("abcdefghi", 9, 8, "abcde...");
    expect_escape("abcd\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 14, 8, "abcd\xc3\xa4...");
    expect_escape("abcd\xff\xff", 6, 8, "abcd...");
}
END_TEST

START_TEST(json_strings_hold_any_text)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *wanted;
        bool exact;
    } cases[] = {
        {"", 0, "\"\"", true},
        {"a\n\t\r\b\f\\\"\0\x1f\x7f", 11, "\"a\\n\\t\\r\\b\\f\\\\\\\"\\u0000\\u001f\\u007f\"",
         true},
        {"\xc3\xa4\xf0\x9f\x98\x80", 6, "\"\xc3\xa4\xf0\x9f\x98\x80\"", true},
        {"\xc3(\xff", 3, "\"\xef\xbf\xbd(\xef\xbf\xbd\"", false},
        {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json json = {0};
        ck_assert_int_eq(json_add_string(&json, cases[i].bytes, cases[i].length), cases[i].exact);
        ck_assert_str_eq(json.text, cases[i].wanted);
        json_free(&json);
    }
    struct json json = {0};
    json_add_number(&json, 0.1);
    json_add(&json, " ");
    json_add_number(&json, -1.0 / 0.0);
    json_add_bytes(&json, "\xff\0", 2);
    json_add_bytes(&json, "", 0);
    json_add_integer(&json, UINT32_MAX);
    ck_assert_str_eq(json.text, "0.10000000000000001 null[255,0][]4294967295");
    json_free(&json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tests = tcase_create("text");
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, text_is_ready_unless_held);
    tcase_add_test(tests, copies_come_after_what_they_are_copies_of);
    tcase_add_test(tests, characters_are_ready_when_they_are_complete);
    tcase_add_test(tests, a_flow_is_cut_back);
    tcase_add_test(tests, incomplete_characters_are_found);
    tcase_add_test(tests, any_bytes_have_a_printable_form);
    tcase_add_test(tests, json_strings_hold_any_text);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
