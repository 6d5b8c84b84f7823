/* lib/vocab: chat templates: where turns end, and templates, messages and JSON that are damaged. */
#include "vocab/chat.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[] = "/tmp/unroll-chat-XXXXXX";
static struct gguf *gguf;
static struct vocab *vocab;

static const char *const specials[] = {"<s>",      "</s>",          "<|im_start|>",    "<|im_end|>",
                                       "<|user|>", "<|assistant|>", "[INST]",          "[/INST]",
                                       "<tool>",   "   ",           "<|end_of_turn|>", "<|eot|>"};
enum { N_SPECIALS = sizeof specials / sizeof *specials, FIRST_USER = 8, N_TOKENS = 300 };

/* Ids: the specials, of which the last four are user-defined, then the printable characters. */
static void open_vocabulary(const char *template, size_t length, bool spm)
{
    struct gguf_string texts[N_TOKENS];
    static char letters[N_TOKENS][8];
    int32_t kinds[N_TOKENS];
    float scores[N_TOKENS] = {0};
    struct gguf_writer *writer = gguf_writer_new();
    uint32_t n = 0;
    for (; n < N_SPECIALS; n++) {
        texts[n] = (struct gguf_string){specials[n], strlen(specials[n])};
        kinds[n] = n < FIRST_USER ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
    }
    for (int byte = 0; byte < 256; byte++, n++) {
        snprintf(letters[n], sizeof letters[n], "<0x%02X>", (unsigned)byte);
        texts[n] = (struct gguf_string){letters[n], 6};
        kinds[n] = TOKEN_BYTE;
    }
    gguf_write_text(writer, "tokenizer.ggml.model", spm ? "llama" : "gpt2", spm ? 5 : 4);
    gguf_write_text(writer, "tokenizer.ggml.pre", "gpt-2", 5);
    gguf_write_strings(writer, "tokenizer.ggml.tokens", texts, n);
    gguf_write_array(writer, "tokenizer.ggml.token_type", GGUF_I32, kinds, n);
    gguf_write_array(writer, "tokenizer.ggml.scores", GGUF_F32, scores, n);
    gguf_write_strings(writer, "tokenizer.ggml.merges", texts, 0);
    gguf_write_u32(writer, "tokenizer.ggml.bos_token_id", 0);
    gguf_write_u32(writer, "tokenizer.ggml.eos_token_id", 1);
    if (template)
        gguf_write_text(writer, "tokenizer.chat_template", template, length);
    struct output output;
    struct error error;
    char path[300];
    snprintf(path, sizeof path, "%s/chat.gguf", directory);
    output_open(&output, path, false, false);
    gguf_write_header(writer, &output);
    output_close(&output);
    gguf_writer_free(writer);
    gguf = gguf_open(path, &error);
    ck_assert_msg(gguf != NULL, "%s", error.text);
    vocab = vocab_open(gguf, NULL, &error);
    ck_assert_msg(vocab != NULL, "%s", error.text);
}

static void close_vocabulary(void)
{
    vocab_close(vocab);
    gguf_close(gguf);
}

static bool is_end(uint32_t id)
{
    const struct vocab_facts *facts = vocab_facts_of(vocab);
    for (size_t i = 0; i < facts->n_eog; i++)
        if (facts->eog[i] == id)
            return true;
    return false;
}

static void check_stop(const char *name, const char *wanted)
{
    struct error error;
    char *text = chat_stop_text(vocab, name, &error);
    if (wanted)
        ck_assert_str_eq(text, wanted);
    else
        ck_assert_ptr_null(text);
    free(text);
}

/* The token that ends a turn of the model's own template ends a text, whatever its kind. */
START_TEST(ends_of_turns)
{
    open_vocabulary(NULL, 0, false);
    ck_assert(is_end(1) && is_end(3) && !is_end(10));
    check_stop("chatml", NULL);  /* by its token */
    check_stop("mistral", NULL); /* EOS */
    check_stop("gemma", "<end_of_turn>");
    check_stop("openchat", "<|end_of_turn|>");
    check_stop("solar", "### User:");
    check_stop("deepseek", "<|EOT|>");
    close_vocabulary();
    static const char openchat[] = "{{ 'GPT4 Correct User' }}";
    open_vocabulary(openchat, sizeof openchat - 1, false);
    ck_assert(is_end(10) && !is_end(4));
    ck_assert_int_eq(vocab_kind(vocab, 10), TOKEN_CONTROL);
    check_stop(NULL, NULL);
    close_vocabulary();
    static const char glm[] = "[gMASK]<sop><|user|>"; /* a turn ends where the next begins */
    open_vocabulary(glm, sizeof glm - 1, false);
    ck_assert(is_end(4));
    close_vocabulary();
}
END_TEST

static uint64_t state = 1;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)((state >> 33) % below);
}

/* Encodes, and checks that no special token lies in what the user wrote. */
static void encode(const struct chat_text *text)
{
    struct token_list tokens = {0};
    struct error error;
    ck_assert_msg(
        vocab_encode_marked(vocab, text->bytes, text->length, &text->marks, &tokens, &error), "%s",
        error.text);
    size_t at = 0, span = 0;
    for (size_t i = 0; i < tokens.count; i++) {
        const char *bytes;
        uint32_t id = tokens.ids[i];
        size_t size = vocab_piece(vocab, id, true, &bytes);
        while (span < text->marks.n_spans && text->marks.spans[span].end <= at)
            span++;
        if (id < N_SPECIALS && id != 9 &&
            (span == text->marks.n_spans || text->marks.spans[span].begin > at ||
             text->marks.spans[span].end < at + size))
            ck_abort_msg("token %u at %zu of what is not the template's", id, at);
        if (at + size > text->length || memcmp(text->bytes + at, bytes, size) != 0)
            ck_abort_msg("other bytes at %zu", at);
        at += size;
    }
    ck_assert_uint_eq(at, text->length);
    free(tokens.ids);
}

static const char *const parts[] = {"{{ bos_token }}",
                                    "<|im_start|>",
                                    "'\\n' + ",
                                    "[INST]",
                                    "<<SYS>>",
                                    "content.strip()",
                                    "</think>",
                                    "split('</think>')[-1].lstrip('\\n')",
                                    "must alternate",
                                    "<|assistant|>",
                                    "eos_token",
                                    "message['content']",
                                    "<start_of_turn>",
                                    "<|im_start|>system\nx<|im_end|>\n",
                                    "\\",
                                    "'",
                                    "\" + \"",
                                    "loop.last and system_message",
                                    "<|start_header_id|>",
                                    "Cutting Knowledge Date: December 2023",
                                    "set default_system_message = \"",
                                    "\" %}",
                                    "[SYSTEM_PROMPT]",
                                    "\xff",
                                    "\n"};
enum { N_PARTS = sizeof parts / sizeof *parts };

/* Templates and conversations at random: rendered or refused, never a crash, and a user writes no
 * special token. */
START_TEST(anything)
{
    size_t rendered = 0;
    for (int round = 0; round < 400; round++) {
        char template[2000];
        size_t length = 0;
        for (uint32_t i = draw(8); i > 0; i--) {
            const char *part = parts[draw(N_PARTS)];
            memcpy(template + length, part, strlen(part));
            length += strlen(part);
            if (draw(10) == 0)
                template[length++] = (char)draw(256);
        }
        open_vocabulary(template, length, false);
        for (int k = 0; k < 10; k++) {
            struct chat_messages messages = {0};
            struct chat_text text = {0};
            struct error error;
            for (uint32_t i = 1 + draw(4); i > 0; i--) {
                char content[200];
                size_t n = 0;
                for (uint32_t p = draw(6); p > 0; p--) {
                    const char *part = draw(2) ? specials[draw(N_SPECIALS)] : parts[draw(N_PARTS)];
                    memcpy(content + n, part, strlen(part));
                    n += strlen(part);
                }
                chat_messages_add(&messages, (enum chat_role)draw(3), content, n);
            }
            const char *names = chat_template_names();
            char name[40] = "";
            uint32_t skip = draw(40);
            while (skip-- && strchr(names, ' '))
                names = strchr(names, ' ') + 1;
            snprintf(name, sizeof name, "%.*s", (int)strcspn(names, " "), names);
            if (chat_render(&text, vocab, k % 2 ? name : NULL, &messages, &error)) {
                encode(&text);
                rendered++;
            }
            chat_text_free(&text);
            chat_messages_free(&messages);
        }
        close_vocabulary();
    }
    ck_assert_uint_gt(rendered, 400);
}
END_TEST

START_TEST(damaged_json)
{
    static const char good[] =
        "[{\"role\": \"system\", \"content\": \"a\\u0000\\ud83d\\ude00b\"},\n"
        " {\"content\": \"\xc3\xa9\", \"role\": \"user\"}]";
    for (int i = 0; i < 20000; i++) {
        char bytes[sizeof good];
        struct chat_messages messages = {0};
        struct error error = {0};
        memcpy(bytes, good, sizeof good);
        for (int k = 0; k < i % 4; k++)
            bytes[draw(sizeof good - 1)] =
                (char)(draw(2) ? "[]{}\",:\\u0"[draw(10)] : (int)draw(256));
        bool parsed = chat_messages_parse(&messages, bytes,
                                          draw(8) ? sizeof good - 1 : draw(sizeof good), &error);
        ck_assert(parsed || (error.status == STATUS_INPUT && *error.text));
        if (i % 4 == 0 && parsed) {
            ck_assert_uint_eq(messages.count, 2);
            ck_assert_uint_eq(messages.items[0].length, 7);
        }
        chat_messages_free(&messages);
    }
}
END_TEST

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    Suite *suite = suite_create("chat");
    TCase *tests = tcase_create("chat");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, ends_of_turns);
    tcase_add_test(tests, anything);
    tcase_add_test(tests, damaged_json);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    char command[sizeof directory + 16];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) || failed != 0;
}
