/* lib/grammar: what grammars and schemas allow, beside languages that are counted out; the work it
 * takes. */
#include "grammar/grammar.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t random_state[2] = {7, 0};

static uint32_t random_below(uint32_t n)
{
    const uint32_t counter[4] = {random_state[1]++, 0, 0, 3};
    uint32_t word[4];
    philox4x32(random_state, counter, word);
    return (uint32_t)((uint64_t)word[0] * n >> 32);
}

/* ---- helpers ------------------------------------------------------------------------------- */

/* Every byte is a token, 256 ends a text, and some texts are tokens too. */
enum { EOG = 256, N_BYTES = 257 };
static const char *const words[] = {"a",
                                    "ab",
                                    "abc",
                                    "bab",
                                    "aaaa",
                                    "\"",
                                    "\":",
                                    "\",",
                                    "{\"",
                                    "\"}",
                                    "},",
                                    "tr",
                                    "true",
                                    "12",
                                    "1",
                                    "0.",
                                    ".5",
                                    "\xf0\x9f",
                                    "\x98\x80",
                                    "\xf0\x9f\x98\x80",
                                    "\xf0\x9f\x98\x80\xf0",
                                    "  ",
                                    "",
                                    "\\",
                                    "\\\"",
                                    "x\"y",
                                    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                    "bb",
                                    "ba",
                                    "aab",
                                    "]]",
                                    "[[",
                                    "[1,",
                                    ", "};
enum { N_WORDS = sizeof words / sizeof *words, N_TOKENS = N_BYTES + N_WORDS };

static struct grammar_vocabulary vocabulary(void)
{
    static const uint32_t eog[1] = {EOG};
    static char bytes[256];
    static const char *piece[N_TOKENS];
    static uint32_t length[N_TOKENS];
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        bytes[i & 255] = i < 256 ? (char)i : bytes[i & 255];
        piece[i] = i < 256 ? &bytes[i] : i == EOG ? "" : words[i - N_BYTES];
        length[i] = i < 256 ? 1 : (uint32_t)strlen(piece[i]);
    }
    return (struct grammar_vocabulary){piece, length, N_TOKENS, eog, 1};
}

static struct grammar_matcher *matcher_of(const struct grammar *g)
{
    struct grammar_vocabulary v = vocabulary();
    return grammar_matcher_new(g, &v);
}

static bool is_schema_text(const char *text)
{
    return *text == '{' || strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
}

static struct grammar *make(const char *text)
{
    struct error error = {0};
    struct grammar *g = is_schema_text(text)
                            ? grammar_from_schema(text, strlen(text), "test", &error)
                            : grammar_parse(text, strlen(text), "test", &error);
    ck_assert_msg(g != NULL, "%s: %s", text, error.text);
    return g;
}

static bool matches(struct grammar_matcher *m, const char *text, size_t length)
{
    struct grammar_state *state = grammar_state_new(m);
    bool all = grammar_advance(state, text, length) == length && grammar_may_end(state);
    grammar_state_free(state);
    return all;
}

/* Of texts, separated by TAB, all match (or none does). */
static void check_texts(const char *grammar, const char *texts, bool wanted)
{
    struct grammar *g = make(grammar);
    struct grammar_matcher *m = matcher_of(g);
    for (const char *at = texts, *end; texts; at = end + 1) {
        end = strchr(at, '\t') ? strchr(at, '\t') : at + strlen(at);
        ck_assert_msg(matches(m, at, (size_t)(end - at)) == wanted, "%s: '%.*s' %s", grammar,
                      (int)(end - at), at, wanted ? "does not match" : "matches");
        if (!*end)
            break;
    }
    grammar_matcher_free(m);
    grammar_free(g);
}

static void check_both(const char *grammar, const char *match, const char *fail)
{
    check_texts(grammar, match, true);
    check_texts(grammar, fail, false);
}

static bool is_set(const uint64_t *mask, uint32_t i)
{
    return mask[i / 64] >> (i % 64) & 1;
}

/* The mask beside what each token does by itself. */
static void check_mask(struct grammar_matcher *m, struct grammar_state *state, const char *text,
                       size_t length)
{
    struct grammar_vocabulary v = vocabulary();
    uint64_t mask[(N_TOKENS + 63) / 64];
    uint32_t n_allowed, n = 0;
    memcpy(mask, grammar_mask(state, &n_allowed), sizeof mask);
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        struct grammar_state *other = grammar_state_new(m);
        ck_assert_uint_eq(grammar_advance(other, text, length), length);
        bool allowed = v.length[i] ? grammar_advance(other, v.piece[i], v.length[i]) == v.length[i]
                                   : i == EOG && grammar_may_end(other);
        ck_assert_msg(is_set(mask, i) == allowed, "token %u after '%.*s'", i, (int)length, text);
        n += allowed;
        grammar_state_free(other);
    }
    ck_assert_uint_eq(n, n_allowed);
}

/* Draws texts from the masks; each mask is checked, and each text that ended must match. */
static void draw(const char *grammar, int n_texts, size_t most)
{
    struct grammar_vocabulary v = vocabulary();
    struct grammar *g = make(grammar);
    struct grammar_matcher *m = matcher_of(g);
    for (int n = 0; n < n_texts; n++) {
        char text[4096];
        size_t length = 0;
        struct grammar_state *state = grammar_state_new(m);
        while (length < most) {
            uint32_t n_allowed, token;
            if (n % 10 == 0)
                check_mask(m, state, text, length);
            const uint64_t *mask = grammar_mask(state, &n_allowed);
            ck_assert_msg(n_allowed > 0, "%s: dead end after '%.*s'", grammar, (int)length, text);
            do
                token = random_below(N_TOKENS);
            while (!is_set(mask, token));
            if (token == EOG) {
                ck_assert(matches(m, text, length));
                break;
            }
            memcpy(text + length, v.piece[token], v.length[token]);
            length += v.length[token];
            ck_assert_uint_eq(grammar_advance(state, v.piece[token], v.length[token]),
                              v.length[token]);
        }
        grammar_state_free(state);
    }
    grammar_matcher_free(m);
    grammar_free(g);
}

static void check_error(const char *grammar, const char *wanted)
{
    struct error error = {0};
    struct grammar *g = is_schema_text(grammar)
                            ? grammar_from_schema(grammar, strlen(grammar), "test", &error)
                            : grammar_parse(grammar, strlen(grammar), "test", &error);
    ck_assert_msg(g == NULL, "%s: was accepted, expected '%s'", grammar, wanted);
    ck_assert_msg(strstr(error.text, wanted) != NULL, "%s: found '%s', expected '%s'", grammar,
                  error.text, wanted);
    ck_assert_int_eq(error.status, STATUS_INPUT);
}

/* ---- GBNF ---------------------------------------------------------------------------------- */

static const struct {
    const char *grammar, *match, *fail; /* texts, separated by TAB */
} worked[] = {
    {"root ::= \"yes\" | \"no\"", "yes\tno", "y\tyesno\t\tYes"},
    {"root::=\"yes\"|\n  \"no\"\n", "yes\tno", "ye"},
    {"root ::= \"yes\"\n  | \"no\"\n  |\n", "yes\tno\t", "ye"},
    {"# a comment\nroot ::= # another\n  greeting \", \" name # and more\ngreeting ::= \"hello\" | "
     "\"hi\"\r\nname ::= [A-Z] [a-z]*",
     "hello, World\thi, X", "hello World\thi, x\thi, "},
    {"root ::= \"a\"* \"b\"+ \"c\"?", "b\taabbc\tbc", "\taa\tcb\tabcc"},
    {"root ::= (\"ab\" | \"c\"){2,3} \".\"", "abab.\tcabc.\tccc.", "c.\tcccc.\tab."},
    {"root ::= \"x\"{3} [0-9]{2,}", "xxx00\txxx12345", "xx00\txxxx00\txxx0"},
    {"root ::= [^a-c\\n] .", "d.\tz\n\t.\xc3\xa9", "a.\t\n.\td\t\xc3\xa9\xc3"},
    {"root ::= [\\]\\[\\\"\\\\-] \"\\\"\\x41\\u00e9\\U0001F600\\r\\n\"",
     "]\"A\xc3\xa9\xf0\x9f\x98\x80\r\n\t-\"A\xc3\xa9\xf0\x9f\x98\x80\r\n", "A"},
    {"root ::= [a-]+ [-a]", "--\ta-a", "b-"},
    {"root ::= [\xc3\xa0-\xc3\xbf] \"\xe2\x82\xac\"", "\xc3\xa9\xe2\x82\xac",
     "\xc3\x9f\xe2\x82\xac\t\xe9\xe2\x82\xac"},
    {"root ::= a-rule_2\na-rule_2 ::= \"x\" 3rd\n3rd ::= \"y\"", "xy", "x"},
    {"root ::= \"(\" root \")\" | \"\"", "\t()\t((()))", "(\t(()\t)("},
    {"root ::= \"a\" root \"b\" | \"c\"", "c\tacb\taacbb", "acbb\taacb"},
    {"root ::= (\n  \"a\"\n  \"b\"\n  | \"c\" # or\n) \"d\"", "abd\tcd", "ab\tabcd"},
    {"root ::= expr\nexpr ::= term (\"+\" term)*\nterm ::= [0-9]+ | \"(\" expr \")\"",
     "1+2\t(1+(23))+4", "1+\t()\t(1"},
    {"root ::= \"\"", "", "a"},
    {"root ::= ", "", "a"},
    {"root ::= \"a\" {0} \"b\" { 1 , 2 }", "b\tbb", "ab\tbbb"},
    {"root ::= \"a\"{2}{3}", "aaaaaa", "aaaaa\taaaaaaa\taa"},
    {"root ::= (\"a\"{2})?{2}", "\taa\taaaa", "a\taaa\taaaaaa"},
    {"root ::= (\"a\"{2,3}){2}", "aaaa\taaaaa\taaaaaa", "aaa\taaaaaaa"},
    /* repetitions whose body may be empty */
    {"root ::= (\"a\"?)* \"b\"", "b\taaab", "a\tba"},
    {"root ::= ((\"a\"* \"b\"*)*)+", "\tabba\tbbbaab", "c"},
    {"root ::= (\"a\"? \"b\"?){2} \"c\"", "c\tac\tababc\tbac\tbbc", "abababc\taaac"},
    {"root ::= (\"a\"? \"b\"?){0,1000000} \"c\"", "c\tabbaabc", "d"},
    {"root ::= e{3} \"x\"\ne ::= \"a\"?", "x\tax\taaax", "aaaax"},
    {"root ::= e{2,3} \"x\"\ne ::= f f | \"\"\nf ::= \"a\" | \"\"", "x\taaaaaax", "aaaaaaax"},
    {"root ::= (e e)* \"x\"\ne ::= \"\"", "x", "ax"},
    {"root ::= e{5}\ne ::= \"\" | \"\"", "", "a"},
    {"root ::= (e*){3}\ne ::= (\"a\" | \"\")*", "\taaaaaa", "b"},
    /* recursion at the end */
    {"root ::= \"a\" root | \"b\"", "b\taaab", "a\tbb"},
    {"root ::= \"a\" x\nx ::= \"b\" root | \"c\"", "ac\tabac", "ab"},
};

START_TEST(worked_grammars)
{
    for (size_t i = 0; i < sizeof worked / sizeof *worked; i++) {
        check_both(worked[i].grammar, worked[i].match, worked[i].fail);
    }
}
END_TEST

START_TEST(masks_are_those_of_the_tokens)
{
    for (size_t i = 0; i < sizeof worked / sizeof *worked; i++)
        draw(worked[i].grammar, 20, 60);
}
END_TEST

START_TEST(bad_grammars_are_refused_by_line_and_rule)
{
    static const struct {
        const char *grammar, *error;
    } bad[] = {
        {"", "test: there is no rule 'root'"},
        {"rot ::= \"a\"", "test: there is no rule 'root'"},
        {"root ::= a\nb ::= \"b\"", "test:1: rule 'a' is used and not defined"},
        {"root ::= \"a\"\n\nroot ::= \"b\"", "test:3: rule 'root': it is defined a second time"},
        {"root ::= \"a\nb", "test:1: rule 'root': a text in quotes does not end"},
        {"root ::=\n [a", "test:2: rule 'root': a set in brackets does not end"},
        {"root ::= (\"a\"\n", "test:1: rule 'root': a group in parentheses does not end"},
        {"root ::= \"a\")",
         "test:1: rule 'root': expected a name, a text, a set or a group, found ')'"},
        {"root ::= (\"a\" | \"b\"]", "found ']'"},
        {"root = \"a\"", "test:1: rule 'root': expected '::=', found '='"},
        {"root ::= * \"a\"", "there is nothing before '*'"},
        {"root ::= \"a\" | {2}", "there is nothing before '{'"},
        {"root ::= \"a\"{,2}", "expected a number in braces, found ','"},
        {"root ::= \"a\"{3,2}", "a repetition runs backwards, from 3 to 2"},
        {"root ::= \"a\"{2", "expected '}', found the end"},
        {"root ::= \"a\"{99999999999}", "a repetition of more than"},
        {"root ::= \"\\q\"", "unknown escape: '\\' before 'q'"},
        {"root ::= \"\\x4\"", "expected 2 hexadecimal digits"},
        {"root ::= \"\\ud83d\"", "code point d83d"},
        {"root ::= [\\U00110000]", "code point 110000"},
        {"root ::= [z-a]", "a range in brackets runs backwards"},
        {"root ::= []", "a set in brackets holds no character"},
        {"root ::= [^\\U00000000-\\U0010FFFF]", "a set in brackets holds no character"},
        {"root ::= \"\xff\"", "is not UTF-8"},
        {"root ::= <think>", "tokens in a grammar ('<') are not supported"},
        {"root ::= !<[3]>", "tokens in a grammar"},
        {"root ::= \"a\"\n= b", "test:2: expected the name of a rule, found '='"},
        /* left recursion */
        {"root ::= root \"a\" | \"a\"", "test:1: rule 'root' begins with itself (root, root)"},
        {"root ::= a\na ::= b \"x\"\nb ::= \"y\" | c\nc ::= a", "begins with itself (a, b, c, a)"},
        {"root ::= \"x\" a\na ::= \"y\"? a | \"z\"", "test:2: rule 'a' begins with itself"},
        {"root ::= a a | \"x\"\na ::= \"y\"* root?", "left recursion"},
        {"root ::= (\"\" root)* \"x\"", "test:1: rule 'root' begins with itself"},
        {"root ::= \"x\"\nunused ::= unused", "test:2: rule 'unused' begins with itself"},
        /* what cannot end */
        {"root ::= \"a\" root", "test:1: rule 'root' matches no text that ends"},
        {"root ::= \"a\" | b\nb ::= \"b\" c\nc ::= \"c\" b",
         "test:2: rule 'b' matches no text that ends"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_error(bad[i].grammar, bad[i].error);
}
END_TEST

/* Characters of a range that may come in pieces: whole ones come out, and none beside the range. */
START_TEST(characters_span_tokens)
{
    struct grammar_vocabulary v = vocabulary();
    struct grammar *g = make("root ::= [\\U0001F600-\\U0001F64F]+");
    struct grammar_matcher *m = matcher_of(g);
    bool seen[0x50] = {false};
    for (int n = 0; n < 2000; n++) {
        struct grammar_state *state = grammar_state_new(m);
        uint8_t text[400];
        size_t length = 0;
        for (;;) {
            uint32_t token;
            const uint64_t *mask = grammar_mask(state, NULL);
            do
                token = random_below(N_TOKENS);
            while (!is_set(mask, token));
            if (token == EOG)
                break;
            memcpy(text + length, v.piece[token], v.length[token]);
            length += v.length[token];
            ck_assert_uint_eq(grammar_advance(state, v.piece[token], v.length[token]),
                              v.length[token]);
            if (length > 380)
                break;
        }
        for (size_t i = 0; i + 4 <= length; i += 4) {
            ck_assert(text[i] == 0xf0 && text[i + 1] == 0x9f &&
                      (text[i + 2] == 0x98 || text[i + 2] == 0x99));
            unsigned at = (unsigned)(text[i + 2] - 0x98) * 64 + (text[i + 3] & 0x3fu);
            ck_assert(text[i + 3] >= 0x80 && text[i + 3] < 0xc0 && at < 0x50);
            seen[at] = true;
        }
        ck_assert(length % 4 == 0 || length > 380);
        grammar_state_free(state);
    }
    for (size_t i = 0; i < 0x50; i++)
        ck_assert_msg(seen[i], "U+%zx never came", 0x1f600 + i);
    grammar_matcher_free(m);
    grammar_free(g);
}
END_TEST

/* Every character of a negated set, and nothing that is none. */
START_TEST(sets_hold_characters_of_utf8)
{
    struct grammar *g = make("root ::= [^\\x41\\u00e9\\u0800-\\uFFFF]");
    struct grammar_matcher *m = matcher_of(g);
    for (uint32_t code = 0; code < 0x200000; code += code < 0x12000 || code > 0x10f000 ? 1 : 97) {
        char text[4] = {(char)code};
        size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        for (size_t i = n - 1, rest = code; n > 1 && i < n; i--, rest >>= 6)
            text[i] = (char)(i ? 0x80 | (rest & 0x3f) : (0xf00u >> n & 0xff) | rest);
        bool wanted =
            code <= 0x10ffff && code != 0x41 && code != 0xe9 && (code < 0x800 || code > 0xffff);
        ck_assert_msg(matches(m, text, n) == wanted, "U+%04x", code);
    }
    static const char *const none[] = {"\x80",         "\xc0\x80",         "\xc1\xbf",
                                       "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf",
                                       "\xed\xa0\x80", "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ck_assert(!matches(m, none[i], strlen(none[i])));
    grammar_matcher_free(m);
    grammar_free(g);
}
END_TEST

/* ---- work ---------------------------------------------------------------------------------- */

/* Steps and configurations that it takes to follow n times "x " and to make the masks on the way.
 */
static struct grammar_work work_of(const char *grammar, int n)
{
    struct grammar *g = make(grammar);
    struct grammar_matcher *m = matcher_of(g);
    struct grammar_state *state = grammar_state_new(m);
    for (int i = 0; i < n; i++) {
        grammar_mask(state, NULL);
        ck_assert_uint_eq(grammar_advance(state, "aa", 2), 2);
    }
    grammar_mask(state, NULL);
    struct grammar_work work = grammar_work_of(m);
    grammar_state_free(state);
    grammar_matcher_free(m);
    grammar_free(g);
    return work;
}

static void repeat_text(char *to, const char *text, int n)
{
    for (; n > 0; n--)
        to = stpcpy(to, text);
}

START_TEST(a_hundred_optional_items_cost_what_a_counted_repetition_does)
{
    static const struct {
        const char *counted, *begin, *item, *end;
    } forms[] = {
        {"root ::= \"aa\"{0,100}", "root ::= ", "\"aa\"? ", ""},
        {"root ::= x{0,100}\nx ::= [ab] \"a\"", "root ::= ", "x? ", "\nx ::= [ab] \"a\""},
        {"root ::= x{0,100} \"b\"\nx ::= \"aa\" | \"b\"", "root ::= ", "(x)? ",
         "\"b\"\nx ::= \"aa\" | \"b\""},
        {"root ::= \"aa\"{0,100}", "root ::= ", "\"aa\"{0,1} ", ""},
    };
    char text[4000];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        strcpy(text, forms[i].begin);
        repeat_text(text + strlen(text), forms[i].item, 100);
        strcat(text, forms[i].end);
        struct grammar_work counted = work_of(forms[i].counted, 100), chained = work_of(text, 100);
        ck_assert_msg(chained.steps <= 2 * counted.steps, "%s: %llu steps, counted %llu",
                      forms[i].item, (unsigned long long)chained.steps,
                      (unsigned long long)counted.steps);
        ck_assert(chained.configurations <= 2 * counted.configurations);
        ck_assert_msg(counted.steps < 100 * 200, "%s: %llu steps", forms[i].counted,
                      (unsigned long long)counted.steps);
    }
    strcpy(text, "root ::= "); /* one within the other */
    repeat_text(text + strlen(text), "(\"aa\" ", 100);
    repeat_text(text + strlen(text), ")?", 100);
    struct grammar_work counted = work_of("root ::= \"aa\"{0,100}", 100),
                        nested = work_of(text, 100);
    ck_assert(nested.steps <= 2 * counted.steps &&
              nested.configurations <= 2 * counted.configurations);
}
END_TEST

/* Items that differ: each is followed once in each configuration, and configurations are kept. */
START_TEST(a_long_count_costs_nothing_before_it_is_reached)
{
    struct grammar_work few = work_of("root ::= [a-z]{0,200}", 100),
                        many = work_of("root ::= [a-z]{0,1000000000}", 100);
    ck_assert(many.steps <= few.steps + 500);
    few = work_of("root ::= (\"a\"{0,1000} \"b\"?){0,1000}", 100);
    ck_assert_msg(few.steps < 2000000, "%llu", (unsigned long long)few.steps);
}
END_TEST

/* Grammars with as many readings of a text as there are subsets: what they share is kept once. */
START_TEST(ambiguity_costs_no_more_than_the_length)
{
    static const char *const ambiguous[] = {
        "root ::= s\ns ::= \"a\" s \"x\" | \"a\" s \"y\" | \"b\"",
        "root ::= s\ns ::= \"a\" s s | \"a\"",
        "root ::= (\"a\" | \"aa\" | \"aaa\")* \"b\"",
        "root ::= (\"a\" | \"aa\"){0,500} \"b\"",
        "root ::= (\"a\"* \"a\"*)* \"b\"",
        "root ::= a1 \"b\"\na1 ::= a2 \"a\" | a2 \"aa\" | \"a\"\na2 ::= a3 \"a\" | a3 \"aa\"\na3 "
        "::= a4 \"a\" | a4 \"aa\"\na4 ::= a5 \"a\" | a5 \"aa\"\n"
        "a5 ::= a6 \"a\" | a6 \"aa\"\na6 ::= a7 \"a\" | a7 \"aa\"\na7 ::= a8 \"a\" | a8 \"aa\"\na8 "
        "::= \"a\"* (\"a\"* | \"\")",
        "root ::= w w w w w w w w w w \"b\"\nw ::= \"a\"* v\nv ::= \"a\"* u\nu ::= \"a\"*",
    };
    for (size_t i = 0; i < sizeof ambiguous / sizeof *ambiguous; i++) {
        struct grammar_work short_text = work_of(ambiguous[i], 100),
                            long_text = work_of(ambiguous[i], 200);
        ck_assert_msg(long_text.steps < 6 * short_text.steps && long_text.steps < 3000000,
                      "%s: %llu steps, then %llu", ambiguous[i],
                      (unsigned long long)short_text.steps, (unsigned long long)long_text.steps);
    }
}
END_TEST

/* A rule that is reached in two ways by one that is reached in two ways, and so on, is followed
 * once. */
START_TEST(ways_that_meet_are_followed_together)
{
    char text[2000], *at = stpcpy(text, "root ::= a1\n");
    for (int i = 1; i <= 24; i++)
        at += sprintf(at, "a%d ::= a%d \"b\" | a%d \"c\"\n", i, i + 1, i + 1);
    strcpy(at, "a25 ::= \"a\"+");
    struct grammar_work work = work_of(text, 3);
    ck_assert_msg(work.steps < 2000, "%llu steps", (unsigned long long)work.steps);
}
END_TEST

START_TEST(nesting_is_bounded)
{
    struct grammar *g = make("root ::= \"[\" root \"]\" | \"x\"");
    struct grammar_matcher *m = matcher_of(g);
    struct grammar_state *state = grammar_state_new(m);
    uint32_t n_allowed, n = 0;
    while (grammar_advance(state, "[", 1) == 1)
        ck_assert_uint_le(++n, GRAMMAR_MAX_DEPTH);
    ck_assert_uint_eq(n, GRAMMAR_MAX_DEPTH);
    ck_assert(grammar_was_too_deep(m));
    ck_assert(is_set(grammar_mask(state, &n_allowed), 'x') && n_allowed == 1);
    ck_assert_uint_eq(grammar_advance(state, "x", 1), 1);
    while (grammar_advance(state, "]", 1) == 1)
        n--;
    ck_assert(n == 0 && grammar_may_end(state));
    grammar_state_free(state);
    grammar_matcher_free(m);
    grammar_free(g);

    char text[9000] = "root ::= ";
    repeat_text(text + strlen(text), "(", 4000);
    check_error(text, "parentheses are nested more than");
}
END_TEST

/* Whatever the limits are, the masks are the same. */
START_TEST(limits_change_nothing)
{
    static const char grammar[] =
        "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":40}}";
    struct grammar *g = make(grammar);
    struct grammar_matcher *roomy = matcher_of(g), *tight = matcher_of(g);
    struct grammar_state *a[3], *b[3];
    struct grammar_vocabulary v = vocabulary();
    grammar_matcher_limit(tight, 30000, 1);
    for (int i = 0; i < 3; i++)
        a[i] = grammar_state_new(roomy), b[i] = grammar_state_new(tight);
    for (int step = 0; step < 6000; step++) {
        int i = (int)random_below(3);
        uint64_t mask[(N_TOKENS + 63) / 64];
        uint32_t token, n;
        memcpy(mask, grammar_mask(a[i], &n), sizeof mask);
        ck_assert(memcmp(mask, grammar_mask(b[i], NULL), sizeof mask) == 0);
        do
            token = random_below(N_TOKENS);
        while (!is_set(mask, token));
        if (token == EOG || step % 1000 == 999) {
            grammar_restart(a[i]);
            grammar_restart(b[i]);
            continue;
        }
        ck_assert_uint_eq(grammar_advance(a[i], v.piece[token], v.length[token]), v.length[token]);
        ck_assert_uint_eq(grammar_advance(b[i], v.piece[token], v.length[token]), v.length[token]);
    }
    ck_assert_uint_gt(grammar_work_of(tight).collections, 3);
    ck_assert_uint_eq(grammar_work_of(roomy).collections, 0);
    ck_assert_uint_gt(grammar_work_of(tight).masks, grammar_work_of(roomy).masks);
    for (int i = 0; i < 3; i++)
        grammar_state_free(a[2 - i]), grammar_state_free(b[i]);
    grammar_matcher_free(roomy);
    grammar_matcher_free(tight);
    grammar_free(g);
}
END_TEST

START_TEST(messages_say_what_is_expected)
{
    struct grammar *g = make("root ::= \"a\" ([0-9] | \"x\" | \"yz\")? | \"\\t\"");
    struct grammar_matcher *m = matcher_of(g);
    struct grammar_state *state = grammar_state_new(m);
    char text[200];
    grammar_expected(state, text, sizeof text);
    ck_assert_str_eq(text, "\\x09, 'a'");
    ck_assert_uint_eq(grammar_advance(state, "aq", 2), 1);
    grammar_expected(state, text, sizeof text);
    ck_assert_str_eq(text, "'0'-'9', 'x', 'y' or the end");
    ck_assert_uint_eq(grammar_advance(state, "x", 1), 1);
    grammar_expected(state, text, sizeof text);
    ck_assert_str_eq(text, "the end");
    grammar_restart(state);
    grammar_state_free(state);
    grammar_matcher_free(m);
    grammar_free(g);
}
END_TEST

/* ---- random grammars beside their languages ------------------------------------------------ */

/* All texts of a and b up to 6 letters: text of length n and bits x is number 2^n - 1 + x; the
 * number of the empty one is 0. */
enum { LONGEST = 6, N_TEXTS = 127, N_RULES = 4 };
struct language {
    uint64_t has[2];
};
struct tree {
    char kind;           /* a b . (either) | & (sequence) { (repetition) r (rule) e (empty) */
    int low, high, rule; /* high -1: no end */
    struct tree *part[2];
};

static bool has(const struct language *l, unsigned i)
{
    return l->has[i / 64] >> (i % 64) & 1;
}

static void add(struct language *l, unsigned i)
{
    l->has[i / 64] |= (uint64_t)1 << (i % 64);
}

static unsigned length_of(unsigned i)
{
    unsigned n = 0;
    while ((1u << (n + 1)) - 1 <= i)
        n++;
    return n;
}

static struct language join(const struct language *a, const struct language *b)
{
    struct language all = {{0}};
    for (unsigned i = 0; i < N_TEXTS; i++)
        for (unsigned k = 0; has(a, i) && k < N_TEXTS; k++) {
            unsigned n = length_of(i), m = length_of(k);
            if (has(b, k) && n + m <= LONGEST)
                add(&all, (1u << (n + m)) - 1 + ((i - (1u << n) + 1) << m | (k - (1u << m) + 1)));
        }
    return all;
}

static struct language both(struct language a, struct language b)
{
    return (struct language){{a.has[0] | b.has[0], a.has[1] | b.has[1]}};
}

static struct language language_of(const struct tree *t, const struct language *rules)
{
    struct language all = {{0}}, one, times = {{1}};
    switch (t->kind) {
    case 'e':
        add(&all, 0);
        return all;
    case 'a':
    case 'b':
    case '.':
        if (t->kind != 'b')
            add(&all, 1);
        if (t->kind != 'a')
            add(&all, 2);
        return all;
    case 'r':
        return rules[t->rule];
    case '|':
        return both(language_of(t->part[0], rules), language_of(t->part[1], rules));
    case '&':
        one = language_of(t->part[0], rules);
        all = language_of(t->part[1], rules);
        return join(&one, &all);
    }
    one = language_of(t->part[0], rules);
    for (int i = 0; i <= (t->high < 0 ? t->low + LONGEST : t->high); i++) {
        if (i >= t->low)
            all = both(all, times);
        times = join(&times, &one);
    }
    return all;
}

static struct tree *random_tree(int depth)
{
    static const char kinds[] = "aab..er||&&&&{{{";
    struct tree *t = allocate(1, sizeof *t);
    t->kind = kinds[random_below(depth > 0 ? sizeof kinds - 1 : 7)];
    t->rule = (int)random_below(N_RULES);
    t->low = (int)random_below(3);
    t->high = random_below(3) ? t->low + (int)random_below(3) : -1;
    for (int i = 0; i < 2 && strchr("|&{", t->kind); i++)
        t->part[i] = t->kind == '{' && i ? NULL : random_tree(depth - 1);
    return t;
}

static void free_tree(struct tree *t)
{
    if (!t)
        return;
    free_tree(t->part[0]);
    free_tree(t->part[1]);
    free(t);
}

static void print_tree(const struct tree *t, FILE *to)
{
    switch (t->kind) {
    case 'e':
        fputs("\"\"", to);
        return;
    case '.':
        fputs("[ab]", to);
        return;
    case 'r':
        fprintf(to, "%s", (const char *[]){"root", "r1", "r2", "r3"}[t->rule]);
        return;
    case 'a':
    case 'b':
        fprintf(to, "\"%c\"", t->kind);
        return;
    }
    fputc('(', to);
    print_tree(t->part[0], to);
    if (t->kind == '{') {
        fprintf(to, "){%d,", t->low);
        if (t->high >= 0)
            fprintf(to, "%d", t->high);
        fputc('}', to);
        return;
    }
    fputs(t->kind == '|' ? " | " : " ", to);
    print_tree(t->part[1], to);
    fputc(')', to);
}

START_TEST(random_grammars_match_their_languages)
{
    int n_compared = 0, n_left_recursive = 0, n_endless = 0;
    for (int round = 0; round < 6000; round++) {
        char *text;
        size_t size;
        struct tree *tree[N_RULES];
        struct language rules[N_RULES] = {{{0}}}, before[N_RULES];
        FILE *to = open_memstream(&text, &size);
        for (int i = 0; i < N_RULES; i++) {
            tree[i] = random_tree(4);
            fprintf(to, "%s ::= ", (const char *[]){"root", "r1", "r2", "r3"}[i]);
            print_tree(tree[i], to);
            fputc('\n', to);
        }
        fclose(to);
        struct error error;
        struct grammar *g = grammar_parse(text, size, "random", &error);
        if (!g) {
            n_left_recursive += strstr(error.text, "left recursion") != NULL;
            n_endless += strstr(error.text, "matches no text") != NULL;
        } else {
            do { /* as long as the languages grow */
                memcpy(before, rules, sizeof rules);
                for (int i = 0; i < N_RULES; i++)
                    rules[i] = language_of(tree[i], rules);
            } while (memcmp(before, rules, sizeof rules) != 0);
            struct grammar_matcher *m = matcher_of(g);
            for (unsigned i = 0; i < N_TEXTS; i++) {
                char letters[LONGEST + 1];
                unsigned n = length_of(i);
                for (unsigned k = 0; k < n; k++)
                    letters[k] = "ab"[(i - (1u << n) + 1) >> (n - 1 - k) & 1];
                ck_assert_msg(matches(m, letters, n) == has(&rules[0], i), "'%.*s' under\n%s",
                              (int)n, letters, text);
            }
            grammar_matcher_free(m);
            grammar_free(g);
            n_compared++;
        }
        for (int i = 0; i < N_RULES; i++)
            free_tree(tree[i]);
        free(text);
    }
    ck_assert_int_gt(n_compared, 1000);
    ck_assert_int_gt(n_left_recursive, 100);
    ck_assert_int_eq(n_compared + n_left_recursive + n_endless, 6000);
}
END_TEST

START_TEST(no_text_of_a_grammar_breaks_the_parser)
{
    static const char *const seeds[] = {
        "root ::= (\"ab\" | [^c-e]{2,3} x)* # comment\nx ::= \"\\x41\\u00e9\" . y?\ny ::= [\\]] "
        "\"q\"+ {1}\n",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/"
        "b\"},\"c\":{\"enum\":[1,\"x\",null]}},\"required\":[\"a\"],\"$defs\":{\"b\":{\"anyOf\":"
        "[{\"type\":\"string\",\"pattern\":\"^[a-z]+(x|y){2,3}$\",\"maxLength\":9},{\"type\":"
        "\"integer\",\"minimum\":-3,\"maximum\":1e2},{\"oneOf\":[{\"const\":1},{\"items\":true}]}]}"
        "}}",
    };
    for (int round = 0; round < 6000; round++) {
        const char *seed = seeds[round % 2];
        char text[700];
        size_t length = strlen(seed);
        struct error error;
        memcpy(text, seed, length);
        for (uint32_t i = 1 + random_below(4); i > 0; i--) {
            size_t at = random_below((uint32_t)length), n = random_below(6);
            switch (random_below(3)) {
            case 0: /* another byte */
                text[at] = random_below(3) ? "\"\\[](){}*+?|:=,-#\nax1.^$~/"[random_below(27)]
                                           : (char)random_below(256);
                break;
            case 1: /* some are missing */
                n = n < length - at ? n : length - at - 1;
                memmove(text + at, text + at + n, length - at - n);
                length -= n;
                break;
            default: /* some come twice */
                if (length + n >= sizeof text || at + n > length)
                    continue;
                memmove(text + at + n, text + at, length - at);
                length += n;
            }
        }
        struct grammar *g = round % 2 ? grammar_from_schema(text, length, "random", &error)
                                      : grammar_parse(text, length, "random", &error);
        if (!g) {
            ck_assert(error.status == STATUS_INPUT && strncmp(error.text, "random", 6) == 0);
            continue;
        }
        struct grammar_matcher *m = matcher_of(g);
        struct grammar_state *state = grammar_state_new(m);
        for (int i = 0; i < 20; i++) {
            struct grammar_vocabulary v = vocabulary();
            uint32_t n_allowed, token;
            const uint64_t *mask = grammar_mask(state, &n_allowed);
            if (n_allowed == 0 || (n_allowed == 1 && is_set(mask, EOG)))
                break;
            do
                token = random_below(N_TOKENS);
            while (!is_set(mask, token));
            ck_assert_uint_eq(grammar_advance(state, v.piece[token], v.length[token]),
                              v.length[token]);
        }
        grammar_state_free(state);
        grammar_matcher_free(m);
        grammar_free(g);
    }
}
END_TEST

/* ---- JSON Schema --------------------------------------------------------------------------- */

static const struct {
    const char *schema, *match, *fail;
} schemas[] = {
    {"true", " 1\t\"a\\u00e9\\ud83d\\ude00\"\t[1, {\"a\":[]}]\tnull\t -1.5e+3\t{}\t[\n  1,\n  2\n]",
     "01\t\"\x01\"\t\"\\ud83d\"\t[1,]\t{\"a\"}\tnul\t1.\t+1\t'a'\t1 \t  1\t\n1"},
    {"{}", "1\t[]", "["},
    {"{\"type\":\"integer\"}", "0\t-12\t123456789012345", "1.0\t01\t-0\t1234567890123456\t\"1\""},
    {"{\"type\":[\"string\",\"null\"]}", "\"x\"\tnull", "1\ttrue"},
    {"{\"type\":\"boolean\"}", "true\tfalse", "null\t0"},
    {"{\"enum\":[\"red\",1,null,{\"a\":[1.5,\"\\n\"]}]}",
     "\"red\"\t1\tnull\t{\"a\":[1.5,\"\\n\"]}\t{\"a\": [1.5, \"\\n\"]}", "\"blue\"\t2\t{}"},
    {"{\"const\":\"q\\\"u\"}", "\"q\\\"u\"", "\"qu\""},
    {"{\"type\":\"string\",\"enum\":[\"a\",1]}", "\"a\"", "1"},
    {"{\"enum\":[1,5,9],\"minimum\":4,\"exclusiveMaximum\":9}", "5", "1\t9"},
    {"{\"enum\":[\"a\",\"abc\"],\"maxLength\":2}", "\"a\"", "\"abc\""},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     "\"ab\"\t\"\xc3\xa9\\n\\ud83d\\ude00\"", "\"a\"\t\"abcd\""},
    {"{\"type\":\"string\",\"pattern\":\"^a+$\",\"maxLength\":3}", "\"a\"\t\"aaa\"",
     "\"\"\t\"aaaa\""},
    {"{\"pattern\":\"^[a-z][a-z0-9_]*$\",\"minLength\":2,\"maxLength\":4}", "\"ab\"\t\"a1_z\"",
     "\"a\"\t\"abcde\"\t\"1a\"\t\"\""},
    {"{\"pattern\":\"^(aa|bbb)*$\",\"minLength\":5}",
     "\"aabbb\"\t\"bbbaa\"\t\"aaaaaa\"\t\"bbbaaaabbb\"",
     "\"aa\"\t\"aaaa\"\t\"bbb\"\t\"aaaaa\"\t\"\""},
    {"{\"pattern\":\"x\",\"maxLength\":3}", "\"x\"\t\"\xc3\xa9x\\n\"\t\"xxx\"",
     "\"abc\"\t\"abcx\"\t\"\""},
    {"{\"pattern\":\"^(a?b?){0,50}c$\",\"maxLength\":3}", "\"c\"\t\"abc\"\t\"bac\"",
     "\"abac\"\t\"ab\""},
    {"{\"pattern\":\"^(..)*$\",\"minLength\":3,\"maxLength\":5}", "\"abcd\"", "\"abc\"\t\"abcde\""},
    {"{\"pattern\":\"b\"}", "\"b\"\t\"abc\"\t\"\\\"b\\n\"", "\"a\"\t\"\"\t1"},
    {"{\"pattern\":\"^(\\\\([0-9]{3}\\\\))?[0-9]{3}-[0-9]{4}$\"}",
     "\"555-1212\"\t\"(888)555-1212\"", "\"(888)555-1212 ext. 532\"\t\"(800)FLOWERS\""},
    /* what ECMA-262 and Unicode see differently, neither a class nor its opposite makes */
    {"{\"pattern\":\"^[\\\\s\\\\d\\\\w]$\"}", "\"\u00a0\"\t\"7\"\t\"k\"",
     "\"\ufeff\"\t\"\u0663\"\t\"\u00e9\""},
    {"{\"pattern\":\"^\\\\S$\"}", "\"\u00e9\"\t\"x\"", "\"\ufeff\"\t\"\\u001c\"\t\" \""},
    {"{\"pattern\":\"^[^\\\\s]$\"}", "\"\u00e9\"\t\"x\"", "\"\ufeff\"\t\"\\u001c\"\t\" \""},
    {"{\"pattern\":\"^[^\\\\S]$\"}", "\"\u00a0\"\t\" \"", "\"\ufeff\"\t\"\\u001c\"\t\"x\""},
    {"{\"pattern\":\"^\\\\D$\"}", "\"\u00e9\"\t\"x\"", "\"\u0663\"\t\"5\""},
    {"{\"pattern\":\"^[^\\\\D]$\"}", "\"5\"", "\"\u0663\"\t\"x\""},
    {"{\"pattern\":\"^\\\\W$\"}", "\"-\"", "\"\u00e9\"\t\"x\""},
    {"{\"pattern\":\"^[^\\\\W]$\"}", "\"x\"", "\"\u00e9\"\t\"-\""},
    {"{\"pattern\":\"^\\\\d\\\\w\\\\s[^\\\\d\\\\W]|x$\"}", "\"1_ a\"\t\"abcx\"\t\"1a bzz\"",
     "\"xa\"\t\"1a 1\""},
    {"{\"pattern\":\"^(?:a|b)??.\\\\u{1F600}\\\\x41\\\\/$\"}",
     "\"az\xf0\x9f\x98\x80"
     "A/\"",
     "\"aazA/\""},
    {"{\"pattern\":\"^[\\\"\\\\\\\\\\\\n]{3}$\"}", "\"\\\"\\\\\\n\"",
     "\"\\\"\\\"\\\"\\\"\"\t\"abc\""},
    {"{\"pattern\":\"^a$|^b\"}", "\"a\"\t\"bcd\"", "\"ac\"\t\"ab\""},
    {"{\"format\":\"date\"}", "\"2024-02-29\"\t\"2000-02-29\"\t\"1999-12-31\"",
     "\"2023-02-29\"\t\"1900-02-29\"\t\"2024-04-31\"\t\"0000-01-01\"\t\"2024-13-01\""},
    {"{\"format\":\"time\"}", "\"23:59:59Z\"\t\"00:00:00.125+02:30\"",
     "\"24:00:00Z\"\t\"00:00:00\"\t\"00:00:60Z\""},
    {"{\"format\":\"date-time\"}", "\"2024-02-29T23:59:59.5-08:00\"", "\"2024-02-29 23:59:59Z\""},
    {"{\"format\":\"uuid\",\"minLength\":36}", "\"123e4567-e89b-12d3-A456-426614174000\"",
     "\"123e4567e89b12d3a456426614174000\""},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
     "[1]\t[1,2, 3]\t[ 1,\n 2 ]", "[]\t[1,2,3,4]\t[\"a\"]"},
    {"{\"prefixItems\":[{\"const\":1},{\"const\":2},{\"const\":3}],\"minItems\":1}",
     "[1]\t[1,2]\t[1,2,3]", "[]\t[1,3]\t[1,2,3,4]\t[2]"},
    {"{\"prefixItems\":[{\"const\":1}],\"items\":{\"type\":\"boolean\"},\"minItems\":2,"
     "\"maxItems\":3}",
     "[1,true]\t[1,true,false]", "[1]\t[1,2]\t[1,true,true,true]"},
    {"{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"maxItems\":1}", "[]\t[1]", "[1,2]"},
    {"{\"prefixItems\":[{\"const\":1}],\"minItems\":3}", "[1,null,{}]\t[1,2,3,4]",
     "[1]\t[1,2]\t[2,2,2]"},
    {"{\"type\":\"array\",\"maxItems\":0}", "[]\t[ ]", "[1]"},
    {"{\"type\":\"array\",\"items\":false}", "[]", "[1]"},
    {"{\"type\":\"object\"}", "{}\t{\"a\":1,\"b\":{}}", "[]"},
    {"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"const\":0}},\"required\":[\"a\"]}",
     "{\"a\":1}\t{\"a\": 1, \"b\": 0}\t{\n  \"a\": 1\n}",
     "{}\t{\"b\":0}\t{\"b\":0,\"a\":1}\t{\"a\":1,\"c\":1}\t{\"a\":1,}"},
    {"{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{\"const\":3}},\"required\":["
     "\"b\"]}",
     "{\"b\":2}\t{\"a\":1,\"b\":2,\"c\":3}\t{\"b\":2,\"c\":3}",
     "{\"a\":1}\t{\"a\":1,\"c\":3}\t{\"c\":3,\"b\":2}"},
    {"{\"properties\":{\"ab\":{\"const\":1}},\"additionalProperties\":{\"const\":2}}",
     "{}\t{\"ab\":1}\t{\"ab\":1,\"a\":2,\"abc\":2}\t{\"b\":2}\t{\"\":2}\t{\"\\\"\":2}",
     "{\"ab\":2}\t{\"a\":1}\t{\"a\\u0062\":2}\t{\"ab\":1,\"ab\":2}"},
    {"{\"additionalProperties\":{\"type\":\"null\"},\"required\":[\"x\"]}",
     "{\"x\":null}\t{\"x\":null,\"y\":null}", "{}\t{\"y\":null}"},
    {"{\"properties\":{\"a\":false,\"b\":{\"const\":1}}}", "{}\t{\"b\":1}", "{\"a\":1}"},
    {"{\"$ref\":\"#/$defs/a~1b%25\",\"$defs\":{\"a/b%\":{\"const\":7}}}", "7", "8"},
    {"{\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
     "{}\t{\"next\":{\"next\":{}}}", "{\"next\":1}"},
    {"{\"anyOf\":[{\"type\":\"string\",\"maxLength\":1},{\"type\":\"integer\",\"minimum\":0}]}",
     "\"a\"\t5", "\"ab\"\t-1"},
    {"{\"type\":\"integer\",\"anyOf\":[{\"minimum\":5},{\"maximum\":-5}],\"maximum\":6}",
     "5\t6\t-7", "0\t7"},
    {"{\"allOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},{\"properties\":{"
     "\"b\":{\"const\":2}},\"required\":[\"b\"]}]}",
     "{\"a\":1,\"b\":2}", "{\"a\":1}\t{\"b\":2}"},
    {"{\"allOf\":[{\"properties\":{\"a\":{\"minimum\":1}}},{\"properties\":{\"a\":{\"type\":"
     "\"integer\",\"maximum\":3}}}]}",
     "{\"a\":2}\t{}", "{\"a\":4}\t{\"a\":0}"},
    {"{\"allOf\":[{\"$ref\":\"#/$defs/"
     "x\"}],\"maximum\":5,\"$defs\":{\"x\":{\"type\":\"integer\",\"minimum\":4}}}",
     "4\t5", "3\t6"},
    {"{\"oneOf\":[{\"properties\":{\"t\":{\"const\":\"a\"}},\"required\":[\"t\"]},{\"properties\":{"
     "\"t\":{\"const\":\"b\"},\"n\":{\"const\":1}},\"required\":[\"t\"]}]}",
     "{\"t\":\"a\"}\t{\"t\":\"b\",\"n\":1}", "{\"t\":\"a\",\"n\":1}\t{\"t\":\"c\"}"},
    {"{\"oneOf\":[{\"type\":\"integer\",\"maximum\":0},{\"type\":\"number\",\"exclusiveMinimum\":0}"
     ",{\"type\":\"string\"}]}",
     "0\t0.5\t\"\"", "-0.5\ttrue"},
    {"{\"type\":\"object\",\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[2],\"$"
     "comment\":\"c\",\"$schema\":\"s\",\"$id\":\"i\",\"deprecated\":true,"
     "\"readOnly\":true,\"writeOnly\":true,\"additionalProperties\":false}",
     "{}", "{\"a\":1}"},
};

START_TEST(schemas_allow_their_values)
{
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        check_both(schemas[i].schema, schemas[i].match, schemas[i].fail);
        draw(schemas[i].schema, 20, 300);
    }
}
END_TEST

START_TEST(bad_schemas_are_refused_by_name)
{
    static const struct {
        const char *schema, *error;
    } bad[] = {
        {"{\"type\":\n \"object\"", "test:2: not JSON:"},
        {"{\"type\":\"object\"} x", "test:1: not JSON:"},
        {"{\"a\":1,\"a\":2}", "duplicate object key"},
        {"{\"type\":\"objct\"}", "test: schema '#': 'type': expected the name of a type"},
        {"{\"type\":[]}", "'type': expected"},
        {"{\"properties\":{\"a\":{\"multipleOf\":5}}}",
         "test: schema '#/properties/a': keyword 'multipleOf' is not supported"},
        {"{\"items\":{\"not\":{}}}", "schema '#/items': keyword 'not' is not supported"},
        {"{\"anyOf\":[true,{\"patternProperties\":{}}]}",
         "schema '#/anyOf/1': keyword 'patternProperties' is not supported"},
        {"{\"requierd\":[\"a\"]}", "keyword 'requierd' is unknown"},
        {"{\"uniqueItems\":true}", "'uniqueItems': expected false (true is not supported)"},
        {"{\"required\":\"a\"}", "'required': expected an array of names"},
        {"{\"items\":[{}]}", "'items': expected a schema"},
        {"{\"properties\":{\"a\":1}}", "'properties': expected an object of schemas"},
        {"{\"minLength\":-1}", "'minLength': expected a whole number"},
        {"{\"exclusiveMinimum\":true}", "'exclusiveMinimum': expected a number"},
        {"{\"maximum\":123456789012345678901234567890}", "test:1: not supported: too big integer"},
        {"{\"required\":[\"a\\u0000b\"]}", "'required': expected an array of names"},
        {"{\"type\":\"null\\u0000\"}", "'type': expected the name of a type"},
        {"{\"format\":\"date\\u0000\"}", "'format': expected a name"},
        {"{\"$ref\":\"#\\u0000\"}", "'$ref': expected a name"},
        {"{\"items\":{\"$id\":\"x\"}}", "schema '#/items': '$id' within a schema"},
        {"{\"$ref\":\"#/$defs/x/items\",\"$defs\":{\"x\":{\"$id\":\"y\",\"items\":{}}}}",
         "'$ref' to '#/$defs/x/items', through a schema with its own '$id'"},
        {"{\"format\":\"email\"}", "format 'email' is not supported"},
        {"{\"pattern\":\"a(?=b)\"}",
         "'pattern': looking ahead or behind is not supported, at character 4 of the pattern"},
        {"{\"pattern\":\"(?>a|ab)c\"}", "this kind of group is not supported"},
        {"{\"pattern\":\"(a)\\\\1\"}", "\\1 is not supported"},
        {"{\"pattern\":\"\\\\p{L}\"}", "\\p is not supported"},
        {"{\"pattern\":\"a\\\\b\"}", "\\b is not supported"},
        {"{\"pattern\":\"(a\"}", "a group in parentheses does not end"},
        {"{\"pattern\":\"a)\"}", "there is no '(' for this ')'"},
        {"{\"pattern\":\"a^b\"}", "'^' is supported at the ends of the pattern only"},
        {"{\"format\":\"date-time\",\"maxLength\":30}", "'maxLength' beside 'format'"},
        {"{\"pattern\":\"^(ab|[c-e]{1,300}){90}$\",\"maxLength\":2000}",
         "its states and the lengths beside it are too many"},
        {"{\"pattern\":\"^(a?b?c?){1000}$\",\"maxLength\":2000}",
         "its states and the lengths beside it are too many"},
        {"{\"pattern\":\"^(..)*$\",\"minLength\":3,\"maxLength\":3}",
         "schema '#' matches no text that ends"},
        {"{\"pattern\":\"a\",\"format\":\"date\"}", "'pattern' beside 'format'"},
        {"{\"enum\":[\"a\"],\"pattern\":\"b\"}", "'enum' beside other keywords"},
        {"{\"$ref\":\"other.json\"}",
         "'$ref' to 'other.json': only references into the same schema"},
        {"{\"$ref\":\"#name\"}", "only '#' and JSON pointers"},
        {"{\"$ref\":\"#/$defs/none\"}", "which is not there"},
        {"{\"$ref\":\"#/title\",\"title\":\"x\"}", "which is no schema"},
        {"{\"$ref\":\"#\"}", "schema '#' begins with itself"},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "schema '#' begins with itself"},
        {"{\"type\":\"object\",\"$ref\":\"#\"}", "refer to each other more than"},
        {"{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
         "schema '#' matches no text that ends"},
        {"{\"enum\":[]}", "schema '#' matches no text that ends"},
        {"{\"minimum\":3,\"maximum\":2}", "schema '#' matches no text that ends"},
        {"{\"minItems\":3,\"maxItems\":2}", "schema '#' matches no text that ends"},
        {"false", "schema '#' matches no text that ends"},
        {"{\"oneOf\":[{\"type\":\"string\"},{\"maxLength\":3}]}",
         "'oneOf': a value may satisfy both alternatives 0 and 1"},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "alternatives 0 and 1"},
        {"{\"oneOf\":[{\"const\":[1]},{\"const\":[1.0]}]}", "alternatives 0 and 1"},
        {"{\"oneOf\":[{\"const\":{\"a\":-0.0}},{\"enum\":[1,{\"a\":0}]}]}", "alternatives 0 and 1"},
        /* the members of what is listed, whatever properties would make */
        {"{\"oneOf\":[{\"enum\":[{\"j\":1,\"z\":1}],\"properties\":{},\"required\":[\"z\"]},{"
         "\"type\":"
         "\"object\",\"properties\":{\"j\":{\"type\":\"integer\"}},\"required\":[\"j\"]}]}",
         "alternatives 0 and 1"},
        {"{\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}]}",
         "'pattern' of two schemas that are combined"},
        {"{\"additionalProperties\":false,\"allOf\":[{\"properties\":{\"a\":true}}]}",
         "'additionalProperties' of one schema and 'properties' of another"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_error(bad[i].schema, bad[i].error);
    char deep[9000] = "";
    repeat_text(deep, "{\"items\":", 800);
    strcat(deep, "true");
    repeat_text(deep + strlen(deep), "}", 800);
    check_error(deep, "schemas are nested more than");
}
END_TEST

/* Forty schemas, each of which has the next one twice: 2^40 if each is looked at each time. */
START_TEST(references_that_double_are_refused_at_once)
{
    static const char *const steps[] = {
        "\"allOf\":[{\"$ref\":\"#/$defs/%d\"},{\"$ref\":\"#/$defs/%d\"}]",
        "\"anyOf\":[{\"type\":\"null\",\"$ref\":\"#/$defs/%d\"},"
        "{\"type\":\"null\",\"$ref\":\"#/$defs/%d\"}]"};
    for (size_t way = 0; way < sizeof steps / sizeof *steps; way++) {
        char text[8000] = "{\"$ref\":\"#/$defs/0\",\"$defs\":{", step[200];
        for (int i = 0; i < 40; i++) {
            snprintf(step, sizeof step, steps[way], i + 1, i + 1);
            snprintf(text + strlen(text), sizeof text - strlen(text), "\"%d\":{%s},", i, step);
        }
        strcat(text, "\"40\":{\"type\":\"null\"}}}");
        check_error(text, way ? "combined alternatives are more than" : "as often as it comes");
    }
}
END_TEST

/* Every number of a grid, beside bounds of the same grid: numbers are counted in thousandths. */
static void check_bounds(const char *type, int low, bool low_exclusive, int high,
                         bool high_exclusive)
{
    char schema[200], text[40];
    snprintf(schema, sizeof schema, "{\"type\":\"%s\",\"%s\":%.3f,\"%s\":%.3f}", type,
             low_exclusive ? "exclusiveMinimum" : "minimum", low / 1000.0,
             high_exclusive ? "exclusiveMaximum" : "maximum", high / 1000.0);
    struct error error;
    struct grammar *g = grammar_from_schema(schema, strlen(schema), "bounds", &error);
    struct grammar_matcher *m = g ? matcher_of(g) : NULL;
    bool integer = *type == 'i';
    for (int x = -25000; x <= 25000; x += integer ? 1000 : 1 + (int)random_below(13)) {
        bool wanted =
            (low_exclusive ? x > low : x >= low) && (high_exclusive ? x < high : x <= high);
        int n = snprintf(text, sizeof text, "%s%d", x < 0 ? "-" : "", abs(x) / 1000);
        if (!integer && abs(x) % 1000) {
            n = snprintf(text, sizeof text, "%s%d.%03d", x < 0 ? "-" : "", abs(x) / 1000,
                         abs(x) % 1000);
            for (int zeros = (int)random_below(2); text[n - 1] == '0' && zeros; n--)
                ;
        }
        ck_assert_msg((g && matches(m, text, (size_t)n)) == wanted, "%.*s under %s", n, text,
                      schema);
    }
    grammar_matcher_free(m);
    grammar_free(g);
}

START_TEST(bounds_of_numbers_are_exact)
{
    static const int ends[] = {-20000, -19999, -12340, -1001, -1000, -999, -500, -1,
                               0,      1,      10,     99,    100,   250,  999,  1000,
                               1001,   1234,   9999,   10000, 10500, 20000};
    enum { N = sizeof ends / sizeof *ends };
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < N; k++) {
            int exclusive = (int)random_below(4);
            check_bounds("number", ends[i], exclusive & 1, ends[k], exclusive >> 1);
            check_bounds("integer", ends[i], exclusive & 1, ends[k], exclusive >> 1);
        }
    check_both("{\"type\":\"number\",\"minimum\":0.1}",
               "0.1\t0.10\t0.100000000000001\t5\t999999999999999\t1.5", "0.09\t0\t-1\t0.0999999");
    check_both("{\"type\":\"number\",\"exclusiveMinimum\":-0.5}", "-0.4\t-0.49\t0\t12",
               "-0.5\t-0.50\t-1");
    check_both("{\"type\":\"integer\",\"exclusiveMaximum\":-99}", "-100\t-12345", "-99\t0\t-9\t5");
    check_both("{\"type\":\"integer\",\"minimum\":9007199254740993,\"maximum\":9007199254740995}",
               "9007199254740993\t9007199254740995", "9007199254740992\t9007199254740996");
    check_both(
        "{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807}",
        "-9223372036854775808\t9223372036854775807\t0",
        "9223372036854775808\t-9223372036854775809");
    check_both("{\"type\":\"number\",\"minimum\":1e21,\"maximum\":1.5e21}",
               "1000000000000000000000\t1499999999999999999999",
               "999999999999999999999\t1500000000000000000001");
    check_both("{\"type\":\"number\",\"minimum\":1e-7,\"maximum\":2.5e-7}", "0.0000001\t0.00000025",
               "0.00000026\t0\t0.00000009");
    check_both("{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":2.5}", "1\t2", "0\t3");
}
END_TEST

/* Every day of the Gregorian calendar in some years. */
START_TEST(dates_are_days_that_exist)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31},
                     years[] = {1, 4, 1900, 2000, 2023, 2024, 2100, 9999};
    struct grammar *g = make("{\"format\":\"date\"}");
    struct grammar_matcher *m = matcher_of(g);
    for (size_t y = 0; y < sizeof years / sizeof *years; y++)
        for (int month = 0; month <= 13; month++)
            for (int day = 0; day <= 32; day++) {
                int year = years[y];
                char text[60];
                bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
                bool wanted = month >= 1 && month <= 12 && day >= 1 &&
                              day <= days[month - 1] + (month == 2 && leap);
                int n = snprintf(text, sizeof text, "\"%04d-%02d-%02d\"", year, month, day);
                ck_assert_msg(matches(m, text, (size_t)n) == wanted, "%s", text);
            }
    grammar_matcher_free(m);
    grammar_free(g);
}
END_TEST

/* White space is bounded: where it may stand there is an end to it. */
START_TEST(white_space_is_bounded)
{
    struct grammar *g = grammar_of_json();
    struct grammar_matcher *m = matcher_of(g);
    static const char *const places[] = {"[", "[1,", "{\"a\":", "{\"a\":1,"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct grammar_state *state = grammar_state_new(m);
        ck_assert_uint_eq(grammar_advance(state, places[i], strlen(places[i])), strlen(places[i]));
        int n = 0;
        while (grammar_advance(state, "\n", 1) || grammar_advance(state, " ", 1))
            ck_assert_int_lt(++n, 30);
        ck_assert_int_eq(n, 22);
        grammar_state_free(state);
    }
    grammar_matcher_free(m);
    grammar_free(g);
}
END_TEST

/* A hundred optional members: what follows one is made once, whatever came before. */
START_TEST(many_optional_members_stay_cheap)
{
    char *schema = allocate(20000, 1), *at = stpcpy(schema, "{\"properties\":{");
    for (int i = 0; i < 100; i++)
        at += sprintf(at, "%s\"member%02d\":{\"type\":\"string\"}", i ? "," : "", i);
    strcpy(at, "}}");
    struct grammar *g = make(schema);
    struct grammar_matcher *m = matcher_of(g);
    struct grammar_state *state = grammar_state_new(m);
    char text[60];
    for (int i = 0; i < 100; i += 3) {
        size_t n = (size_t)snprintf(text, sizeof text, "%s\"member%02d\":\"x\"", i ? "," : "{", i);
        ck_assert_uint_eq(grammar_advance(state, text, n), n);
        grammar_mask(state, NULL);
    }
    ck_assert(grammar_advance(state, "}", 1) == 1 && grammar_may_end(state));
    ck_assert_uint_lt(grammar_work_of(m).steps, 100 * 2000);
    grammar_state_free(state);
    grammar_matcher_free(m);
    grammar_free(g);
    free(schema);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grammar");
    TCase *gbnf = tcase_create("gbnf"), *work = tcase_create("work"),
          *languages = tcase_create("languages"), *schema = tcase_create("schema");
    tcase_add_test(gbnf, worked_grammars);
    tcase_add_test(gbnf, masks_are_those_of_the_tokens);
    tcase_add_test(gbnf, bad_grammars_are_refused_by_line_and_rule);
    tcase_add_test(gbnf, characters_span_tokens);
    tcase_add_test(gbnf, sets_hold_characters_of_utf8);
    tcase_add_test(work, a_hundred_optional_items_cost_what_a_counted_repetition_does);
    tcase_add_test(work, a_long_count_costs_nothing_before_it_is_reached);
    tcase_add_test(work, ambiguity_costs_no_more_than_the_length);
    tcase_add_test(work, ways_that_meet_are_followed_together);
    tcase_add_test(work, nesting_is_bounded);
    tcase_add_test(work, limits_change_nothing);
    tcase_add_test(work, messages_say_what_is_expected);
    tcase_add_test(languages, random_grammars_match_their_languages);
    tcase_add_test(languages, no_text_of_a_grammar_breaks_the_parser);
    tcase_add_test(schema, schemas_allow_their_values);
    tcase_add_test(schema, bad_schemas_are_refused_by_name);
    tcase_add_test(schema, references_that_double_are_refused_at_once);
    tcase_add_test(schema, bounds_of_numbers_are_exact);
    tcase_add_test(schema, dates_are_days_that_exist);
    tcase_add_test(schema, white_space_is_bounded);
    tcase_add_test(schema, many_optional_members_stay_cheap);
    TCase *const cases[] = {gbnf, work, languages, schema};
    for (size_t i = 0; i < 4; i++) {
        tcase_set_timeout(cases[i], 120);
        suite_add_tcase(suite, cases[i]);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
