/* lib/vocab: how each pre-tokeniser splits a text, by hand from the patterns of the models named in
 * its table. */
#include "vocab/internal.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *text;
    char words[4000];
    size_t length;
} split;

static bool take(void *context, size_t offset, size_t length)
{
    (void)context;
    if (split.length)
        split.words[split.length++] = '~';
    memcpy(split.words + split.length, split.text + offset, length);
    split.length += length;
    return true;
}

/* The words of a text with '~' between them. */
static const char *words(const char *name, const char *text)
{
    struct error error;
    const struct pre_facts *facts = pre_find((struct gguf_string){name, strlen(name)});
    ck_assert_msg(facts != NULL, "%s is not known", name);
    struct pre *pre = pre_compile(facts, &error);
    ck_assert_msg(pre != NULL, "%s", error.text);
    split.text = text;
    split.length = 0;
    ck_assert(pre_split(pre, (const uint8_t *)text, strlen(text), take, NULL, &error));
    pre_free(pre);
    split.words[split.length] = 0;
    return split.words;
}

static const struct {
    const char *names, *text, *words;
} cases[] = {
    /* Contractions: small letters only, or any; the word after an apostrophe otherwise. */
    {"gpt-2 starcoder", "we'll WE'LL don't", "we~'ll~ WE~'~LL~ don~'t"},
    {"llama-bpe qwen2 gpt-2 smaug-bpe jais-2", "we'll don't", "we~'ll~ don~'t"},
    {"llama-bpe qwen2 qwen35 stablelm2 dbrx chatglm-bpe", "WE'LL it'Sx", "WE~'LL~ it~'S~x"},
    {"gpt-4o llama4", "we'll WE'LL HELLOthere CamelCase", "we'll~ WE'LL~ HELLOthere~ Camel~Case"},
    {"tekken", "we'll CamelCase", "we~'ll~ Camel~Case"},
    {"ufakzeka", "Ankara'da it's", "Ankara~'da~ it~'s"},
    {"bailingmoe", "we'll 'tis", "we~'ll~ '~tis"},
    /* Digits: as a number, in threes from the left, one by one, in threes from the right. */
    {"gpt-2 mpt olmo phi-2", "a 12345", "a~ 12345"},
    {"llama-bpe gpt-4o kimi-k2 jais-2", "a 12345", "a~ ~123~45"},
    {"qwen2 tekken deepseek-r1-qwen seed-coder", "a 12345", "a~ ~1~2~3~4~5"},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b", "a 123", "a~ ~1~2~3"},
    {"deepseek-v3 hunyuan-dense", "a 12345", "a~ ~123~45"},
    {"deepseek-coder", "a 123", "a~ ~1~2~3"},
    {"deepseek-llm", "a 123", "a~ ~123"}, /* no token joins two digits */
    {"falcon", "a 12345 678", "a~ ~123~45~ ~678"},
    {"default", "a 12345 678", "a~ ~123~45~ ~678"},
    {"viking", "a 12", "a~ ~1~2"},
    {"bloom poro-chat gpt3-finnish", "a 12", "a~ 12"},
    {"minicpm5", "a 12345", "a~ ~123~45"},
    {"tiny_aya afmoe superbpe", "12345", "12~345"},
    {"tiny_aya afmoe", "a 1234567,123", "a~ ~1~234~567~,~123"},
    {"superbpe", "a 1234567,123", "a ~1~234~567~,~123"},
    {"tiny_aya", "1234abc", "123~4~abc"},
    {"superbpe", "one of two 1", "one of two ~1"},
    {"spark2_5", "a 1234", "a~ ~1~2~3~4"},
    {"chameleon", "ab 12, c", "ab~ ~1~2~,~ c"},
    /* Spaces: the last one belongs to the word, of several lines the end belongs to the spaces. */
    {"gpt-2 llama-bpe qwen2 starcoder gpt-4o tekken command-r deepseek-v3 kimi-k2", "a   b",
     "a~  ~ b"},
    {"gpt-2 starcoder command-r", "a \n\n b  ", "a~ \n\n~ b~  "},
    {"llama-bpe qwen2 gpt-4o tekken deepseek-v3 smaug-bpe", "a \n\n b  ", "a~ \n\n~ b~  "},
    {"llama-bpe qwen2 tekken", "a\r\n\r\n\tb", "a~\r\n\r\n~\tb"},
    {"gpt-2", "a\r\n\tb", "a~\r\n~\t~b"},
    {"bailingmoe", "a\n\nb", "a~\n\n~b"},
    {"laguna", "a\n\n b", "a~\n\n~ b"},
    {"deepseek-coder", "a\n\n b", "a~\n~\n~ b"},
    {"jais-2", "a         b", "a~        ~ b"}, /* 8, and one for the word */
    {"jais-2", "a  \n   b", "a~  \n~  ~ b"},
    {"jais-2", "a       b", "a~    ~  ~ b"},
    {"llama-bpe", "a\xc2\xa0\xe3\x80\x80 b", "a~\xc2\xa0\xe3\x80\x80~ b"},
    /* Signs take a space before them, and with some the line's end after them. */
    {"gpt-2", "a !!\nb", "a~ !!~\n~b"},
    {"llama-bpe qwen2", "a !!\n\nb", "a~ !!\n\n~b"},
    {"gpt-4o tekken", "a/b ./\n/", "a~/b~ ./\n/"},
    {"seed-coder", "a !!\nb", "a~ !!~\n~b"},
    {"deepseek-v3", "(hello) .x", "(hello~)~ .~x"},
    {"falcon default", "(a) b", "(~a~)~ b"},
    {"bloom", "a, (b) c", "a~, (~b~)~ c"},
    /* Letters: marks belong to them or not, scripts apart. */
    {"llama-bpe qwen2", "e\xcc\x81x", "e~\xcc\x81x"},
    {"qwen35 deepseek-v3 gpt-4o", "e\xcc\x81x", "e\xcc\x81x"},
    {"gpt-2", "e\xcc\x81x", "e~\xcc\x81~x"},
    {"deepseek-v3 deepseek-coder deepseek-llm",
     "a\xe4\xb8\x80\xe4\xba\x8c"
     "b",
     "a~\xe4\xb8\x80\xe4\xba\x8c~b"},
    {"kimi-k2",
     "a\xe4\xb8\x80\xe4\xba\x8c"
     "b",
     "a~\xe4\xb8\x80\xe4\xba\x8c~b"},
    {"llama-bpe gpt-4o",
     "a\xe4\xb8\x80"
     "b",
     "a\xe4\xb8\x80"
     "b"},
    {"exaone-moe", "one two 3", "one two~ ~3"},
    {"gpt-2 llama-bpe gpt-4o", "\xf0\x9f\x98\x80!", "\xf0\x9f\x98\x80!"},
    {"youtu", "a\xe3\x80\x82\xe4\xb8\x80", "a~\xe3\x80\x82~\xe4\xb8\x80"},
};

START_TEST(words_of_texts)
{
    for (const char *at = cases[_i].names; *at;) {
        char name[40];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
        const char *found = words(name, cases[_i].text);
        ck_assert_msg(strcmp(found, cases[_i].words) == 0, "%s: '%s', expected '%s'", name, found,
                      cases[_i].words);
        at += strcspn(at, " ");
        at += *at == ' ';
    }
}
END_TEST

/* The names of the list and of llama.cpp's tokenizer.ggml.pre for models that decode text.
 */
START_TEST(names)
{
    static const char *const known[] = {"default",      "gpt-2",         "phi-2",
                                        "mpt",          "olmo",          "jais",
                                        "jais-2",       "trillion",      "granite-docling",
                                        "exaone4",      "gigachat",      "a.x-4.0",
                                        "mellum",       "llama-bpe",     "llama3",
                                        "llama-v3",     "falcon3",       "falcon-h1",
                                        "pixtral",      "midm-2.0",      "lfm2",
                                        "smaug-bpe",    "dbrx",          "glm4",
                                        "chatglm-bpe",  "qwen2",         "deepseek-r1-qwen",
                                        "kormo",        "megrez",        "stablelm2",
                                        "hunyuan",      "solar-open",    "grok-2",
                                        "qwen35",       "deepseek-llm",  "deepseek-coder",
                                        "deepseek-v3",  "hunyuan-dense", "joyai-llm",
                                        "hy_v4",        "youtu",         "falcon",
                                        "starcoder",    "refact",        "command-r",
                                        "smollm",       "codeshell",     "exaone",
                                        "minerva-7b",   "mellum2",       "bloom",
                                        "gpt3-finnish", "poro-chat",     "viking",
                                        "tekken",       "gpt-4o",        "llama4",
                                        "kanana2",      "talkie",        "minimax-m2",
                                        "kimi-k2",      "bailingmoe",    "bailingmoe2",
                                        "llada-moe",    "seed-coder",    "exaone-moe",
                                        "minicpm5",     "laguna",        "chameleon",
                                        "superbpe",     "tiny_aya",      "cohere2moe",
                                        "afmoe",        "ufakzeka",      "spark2_5",
                                        "gpt-neox",     "minerva",       "poro",
                                        "chatglm",      "smaug"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        words(known[i], "a");
    static const char *const unknown[] = {"", "gpt", "gpt-2 phi-2", "LLAMA3", "gpt-2 "};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        ck_assert_ptr_null(pre_find((struct gguf_string){unknown[i], strlen(unknown[i])}));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pre");
    TCase *tests = tcase_create("pre");
    tcase_add_loop_test(tests, words_of_texts, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tests, names);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
