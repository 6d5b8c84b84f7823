/* lib/vocab: small vocabularies that the tests write, and the reference vocabularies where they
 * are. */
#include "vocab/vocab.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- small vocabularies -------------------------------------------------------------------- */

static char directory[] = "/tmp/unroll-vocab-XXXXXX";

static const char *path_in(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* A vocabulary that is being written; arrays may be spoilt before it is finished. */
static struct {
    struct gguf_string texts[2000];
    int32_t kinds[2000];
    float scores[2000];
    uint32_t n;
    struct gguf_string merges[2000];
    uint32_t n_merges;
    struct gguf_writer *writer;
} draft;

static uint32_t add_bytes(const char *bytes, size_t length, int32_t kind, float score)
{
    char *copy = allocate(length + 1, 1);
    memcpy(copy, bytes, length);
    draft.texts[draft.n] = (struct gguf_string){copy, length};
    draft.kinds[draft.n] = kind;
    draft.scores[draft.n] = score;
    return draft.n++;
}

static uint32_t add(const char *text, int32_t kind, float score)
{
    return add_bytes(text, strlen(text), kind, score);
}

static void add_merge(const char *merge)
{
    draft.merges[draft.n_merges++] = (struct gguf_string){copy_string(merge), strlen(merge)};
}

/* The byte-level alphabet, written down once more, from its definition. */
static char *byte_level(const uint8_t *bytes, size_t length)
{
    char *text = allocate(2 * length + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned character = bytes[i], moved = 256;
        for (unsigned b = 0; b < 256; b++) {
            bool itself = (b > 32 && b < 127) || (b > 160 && b != 173);
            if (b == bytes[i] && !itself)
                character = moved;
            moved += !itself;
        }
        if (character >= 128) {
            text[n++] = (char)(0xc0 | character >> 6);
            text[n++] = (char)(0x80 | (character & 63));
        } else {
            text[n++] = (char)character;
        }
    }
    return text;
}

static void start(const char *model)
{
    draft.n = draft.n_merges = 0;
    draft.writer = gguf_writer_new();
    gguf_write_text(draft.writer, "tokenizer.ggml.model", model, strlen(model));
}

/* <unk> <s> </s>, the bytes at 3 + byte, then what the test adds from 259 on. */
static void start_spm(void)
{
    start("llama");
    add("<unk>", TOKEN_UNKNOWN, 0);
    add("<s>", TOKEN_CONTROL, 0);
    add("</s>", TOKEN_CONTROL, 0);
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        add(text, TOKEN_BYTE, 0);
    }
}

/* Token i is byte i; what the test adds begins at 256. */
static void start_bpe(const char *pre)
{
    start("gpt2");
    if (pre)
        gguf_write_text(draft.writer, "tokenizer.ggml.pre", pre, strlen(pre));
    for (int byte = 0; byte < 256; byte++) {
        char *text = byte_level(&(uint8_t){(uint8_t)byte}, 1);
        add(text, TOKEN_NORMAL, 0);
        free(text);
    }
}

static void write_arrays(bool scores, bool kinds, bool merges)
{
    struct gguf_writer *writer = draft.writer;
    gguf_write_strings(writer, "tokenizer.ggml.tokens", draft.texts, draft.n);
    if (scores)
        gguf_write_array(writer, "tokenizer.ggml.scores", GGUF_F32, draft.scores, draft.n);
    if (kinds)
        gguf_write_array(writer, "tokenizer.ggml.token_type", GGUF_I32, draft.kinds, draft.n);
    if (merges)
        gguf_write_strings(writer, "tokenizer.ggml.merges", draft.merges, draft.n_merges);
}

static void save(const char *name)
{
    struct output output;
    output_open(&output, path_in(name), false, false);
    gguf_write_header(draft.writer, &output);
    output_close(&output);
    gguf_writer_free(draft.writer);
    for (uint32_t i = 0; i < draft.n; i++)
        free((char *)(uintptr_t)draft.texts[i].bytes);
    for (uint32_t i = 0; i < draft.n_merges; i++)
        free((char *)(uintptr_t)draft.merges[i].bytes);
}

static struct gguf *gguf;
static struct vocab *vocab;
static struct token_list tokens;

static void open_path(const char *path)
{
    struct error error;
    gguf = gguf_open(path, &error);
    ck_assert_msg(gguf != NULL, "%s", error.text);
    vocab = vocab_open(gguf, NULL, &error);
    ck_assert_msg(vocab != NULL, "%s", error.text);
}

static void finish(void)
{
    write_arrays(true, true, true);
    save("vocab.gguf");
    open_path(path_in("vocab.gguf"));
}

static void done(void)
{
    vocab_close(vocab);
    gguf_close(gguf);
    free(tokens.ids);
    tokens = (struct token_list){0};
}

/* Opening what was drafted fails, and the message has this text. */
static void refused(const char *pre, const char *reason)
{
    struct error error = {0};
    save("bad.gguf");
    struct gguf *file = gguf_open(path_in("bad.gguf"), &error);
    ck_assert_msg(file != NULL, "%s", error.text);
    struct vocab *opened = vocab_open(file, pre, &error);
    bool good = opened != NULL;
    if (good) { /* merges are read when the first text comes */
        good = vocab_encode(opened, "x", 1, 0, &tokens, &error);
        vocab_close(opened);
    }
    gguf_close(file);
    ck_assert_msg(!good, "accepted: %s", reason);
    ck_assert_msg(strstr(error.text, reason) != NULL, "'%s' not in '%s'", reason, error.text);
}

static void encode(const void *text, size_t length, unsigned flags)
{
    struct error error;
    tokens.count = 0;
    ck_assert_msg(vocab_encode(vocab, text, length, flags, &tokens, &error), "%s", error.text);
}

/* The ids as text, "1 2 3". */
static const char *ids_of(const char *text, unsigned flags)
{
    static char ids[4000];
    encode(text, strlen(text), flags);
    size_t n = 0;
    ids[0] = 0;
    for (size_t i = 0; i < tokens.count; i++)
        n += (size_t)snprintf(ids + n, sizeof ids - n, "%s%u", i ? " " : "", tokens.ids[i]);
    return ids;
}

/* The pieces one after the other are the text, without the space that was put before it.  (Each
 * ck_assert writes to a file, so there is none in the loop.) */
static void check_back(const uint8_t *text, size_t length)
{
    size_t at = 0, skip = vocab_strips_space(vocab) && length;
    bool same = true;
    for (size_t i = 0; i < tokens.count && same; i++) {
        const char *bytes;
        size_t size = vocab_piece(vocab, tokens.ids[i], false, &bytes), from = i ? 0 : skip;
        same = size >= from && at + size - from <= length &&
               memcmp(text + at, bytes + from, size - from) == 0;
        at += size - from;
    }
    ck_assert(same);
    ck_assert_uint_eq(at, length);
}

static uint64_t state = 1;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)((state >> 33) % below);
}

/* ---- encoding ------------------------------------------------------------------------------ */

#define LOW "\xe2\x96\x81" /* U+2581, a space in SentencePiece's texts */

START_TEST(spm_merges_by_score)
{
    start_spm();
    add(LOW, TOKEN_NORMAL, -9);        /* 259 */
    add("a", TOKEN_NORMAL, -8);        /* 260 */
    add("b", TOKEN_NORMAL, -8);        /* 261 */
    add("ab", TOKEN_NORMAL, -3);       /* 262 */
    add("bb", TOKEN_NORMAL, -2);       /* 263 */
    add("aa", TOKEN_NORMAL, -2);       /* 264 */
    add(LOW "a", TOKEN_NORMAL, -4);    /* 265 */
    add(LOW LOW, TOKEN_NORMAL, -1);    /* 266 */
    add("\xc3\xa9", TOKEN_NORMAL, -5); /* 267: e with an acute accent */
    finish();
    ck_assert(vocab_strips_space(vocab));
    ck_assert_str_eq(ids_of("", 0), "");
    ck_assert_str_eq(ids_of("ab", 0), "259 262");
    ck_assert_str_eq(ids_of("abb", 0), "265 263");
    ck_assert_str_eq(ids_of("aaa", 0), "259 264 260"); /* equal scores: the leftmost */
    ck_assert_str_eq(ids_of("ab", ENCODE_CONTINUE), "262");
    ck_assert_str_eq(ids_of("a", 0), "265");
    ck_assert_str_eq(ids_of("  a", 0), "266 265");
    ck_assert_str_eq(ids_of("a a", 0), "265 265");
    ck_assert_str_eq(ids_of("\xc3\xa9", ENCODE_CONTINUE), "267");
    ck_assert_str_eq(ids_of("\xc3", ENCODE_CONTINUE), "198");
    ck_assert_str_eq(ids_of("x", ENCODE_CONTINUE), "123");
    /* A real U+2581 is not a space, so it is bytes. */
    ck_assert_str_eq(ids_of(LOW, ENCODE_CONTINUE), "229 153 132");
    /* The texts of control and byte tokens are plain text. */
    ck_assert_str_eq(ids_of("<s>", ENCODE_CONTINUE), "63 118 65");
    ck_assert_str_eq(ids_of("<s>", ENCODE_CONTINUE | ENCODE_SPECIAL), "1");
    ck_assert_str_eq(ids_of("<s>a", ENCODE_SPECIAL), "1 265");
    ck_assert_str_eq(ids_of("a</s>b", ENCODE_SPECIAL), "265 2 259 261");
    ck_assert_str_eq(ids_of("<0x41>", ENCODE_CONTINUE), "63 51 123 55 52 65");
    const char *bytes;
    ck_assert_uint_eq(vocab_piece(vocab, 1, false, &bytes), 0);
    ck_assert_uint_eq(vocab_piece(vocab, 1, true, &bytes), 3);
    ck_assert_uint_eq(vocab_piece(vocab, 0, false, &bytes), 0);
    ck_assert_uint_eq(vocab_piece(vocab, 100000, true, &bytes), 0);
    ck_assert_uint_eq(vocab_piece(vocab, 3 + 0x41, false, &bytes), 1);
    ck_assert_int_eq(*bytes, 'A');
    ck_assert_int_eq(vocab_kind(vocab, 3), TOKEN_BYTE);
    ck_assert_int_eq(vocab_kind(vocab, 100000), TOKEN_UNUSED);
    done();
}
END_TEST

START_TEST(spm_without_prefix_space)
{
    start_spm();
    gguf_write_bool(draft.writer, "tokenizer.ggml.add_space_prefix", false);
    add("a", TOKEN_NORMAL, -8);
    finish();
    ck_assert(!vocab_strips_space(vocab));
    ck_assert_str_eq(ids_of("a", 0), "259");
    done();
}
END_TEST

START_TEST(spm_user_defined)
{
    start_spm();
    add(LOW, TOKEN_NORMAL, -9);              /* 259 */
    add("a", TOKEN_NORMAL, -8);              /* 260 */
    add("<a>", TOKEN_USER_DEFINED, 0);       /* 261 */
    add(LOW LOW LOW, TOKEN_USER_DEFINED, 0); /* 262: three spaces */
    add("<a>a", TOKEN_USER_DEFINED, 0);      /* 263 */
    finish();
    ck_assert_str_eq(ids_of("a<a>", 0), "259 260 261");
    ck_assert_str_eq(ids_of("<a><a>a<a", ENCODE_CONTINUE), "261 263 63 260");
    ck_assert_str_eq(ids_of("a    a", ENCODE_CONTINUE), "260 262 259 260");
    static const char *const texts[] = {"<a>", "   <a>a", "<a>a   a ", LOW LOW LOW};
    for (size_t i = 0; i < 4; i++) {
        encode(texts[i], strlen(texts[i]), 0);
        check_back((const uint8_t *)texts[i], strlen(texts[i]));
    }
    done();
}
END_TEST

START_TEST(spm_without_bytes)
{
    struct error error;
    start("llama");
    add("<unk>", TOKEN_UNKNOWN, 0);
    add(LOW "a", TOKEN_NORMAL, -1);
    add("a", TOKEN_NORMAL, -1);
    add(LOW, TOKEN_NORMAL, -1);
    finish();
    ck_assert_str_eq(ids_of("aa", 0), "1 2");
    ck_assert(!vocab_encode(vocab, "aab", 3, 0, &tokens, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "byte 0x62 at offset 2"));
    ck_assert_uint_eq(vocab_facts_of(vocab)->bos, 1);
    done();
}
END_TEST

START_TEST(bpe_merges_by_rank)
{
    start_bpe("gpt-2");
    add("ab", TOKEN_NORMAL, 0);  /* 256 */
    add("abc", TOKEN_NORMAL, 0); /* 257 */
    add("bc", TOKEN_NORMAL, 0);  /* 258 */
    add("\xc4\xa0"
        "a",
        TOKEN_NORMAL, 0);             /* 259: " a" */
    add("<|x|>", TOKEN_CONTROL, 0);   /* 260 */
    add("  ", TOKEN_USER_DEFINED, 0); /* 261: two spaces, as they are */
    add("dd", TOKEN_UNUSED, 0);       /* 262 */
    add("abcd", TOKEN_NORMAL, 0);     /* 263 */
    add_merge("b c");
    add_merge("a b");
    add_merge("ab c");
    add_merge("\xc4\xa0 a");
    add_merge("b c"); /* a second time: the first counts */
    add_merge("z z"); /* makes no token, but the next one does */
    add_merge("d d");
    add_merge("zz z");
    finish();
    ck_assert_str_eq(ids_of("abc", 0), "97 258");
    ck_assert_str_eq(ids_of("abab", 0), "256 256");
    ck_assert_str_eq(ids_of("a a", 0), "97 259");
    ck_assert_str_eq(ids_of("a  a", 0), "97 261 97");
    ck_assert_str_eq(ids_of("<|x|>", 0), "60 124 120 124 62");
    ck_assert_str_eq(ids_of("a<|x|>a", ENCODE_SPECIAL), "97 260 97");
    ck_assert_str_eq(ids_of("zzz", 0), "122 122 122");
    ck_assert_str_eq(ids_of("dd", 0), "100 100"); /* no text, never made */
    ck_assert_str_eq(ids_of("abcd", 0), "97 258 100");
    ck_assert_str_eq(ids_of("\xff\xfe", 0), "255 254");
    const char *bytes;
    ck_assert_uint_eq(vocab_piece(vocab, 259, false, &bytes), 2);
    ck_assert_int_eq(memcmp(bytes, " a", 2), 0);
    ck_assert_uint_eq(vocab_piece(vocab, 261, false, &bytes), 2);
    done();
}
END_TEST

START_TEST(bpe_words_that_are_tokens)
{
    start_bpe("llama-bpe");
    add("abcd", TOKEN_NORMAL, 0); /* 256 */
    add_merge("a b");
    finish();
    ck_assert_str_eq(ids_of("abcd", 0), "256");
    ck_assert_str_eq(ids_of("abcde", 0), "97 98 99 100 101");
    done();
    start_bpe("llama-bpe");
    gguf_write_bool(draft.writer, "tokenizer.ggml.ignore_merges", false);
    add("abcd", TOKEN_NORMAL, 0);
    finish();
    ck_assert_str_eq(ids_of("abcd", 0), "97 98 99 100");
    done();
}
END_TEST

/* Tokens that a file may hold: no text, NUL, newline, half a character, the same text twice. */
START_TEST(odd_tokens)
{
    start_spm();
    add_bytes("", 0, TOKEN_NORMAL, 0);          /* 259 */
    add_bytes("\0", 1, TOKEN_NORMAL, -5);       /* 260 */
    add_bytes("\n", 1, TOKEN_NORMAL, -5);       /* 261 */
    add_bytes("\xe2\x82", 2, TOKEN_NORMAL, -5); /* 262 */
    add("b", TOKEN_NORMAL, -5);                 /* 263 */
    add("b", TOKEN_NORMAL, -1);                 /* 264 */
    add_bytes("\0\n", 2, TOKEN_NORMAL, -2);     /* 265 */
    finish();
    ck_assert_str_eq(ids_of("bb", ENCODE_CONTINUE), "263 263");
    encode("\0\n\0", 3, ENCODE_CONTINUE);
    ck_assert_uint_eq(tokens.count, 2);
    ck_assert_uint_eq(tokens.ids[0], 265);
    ck_assert_uint_eq(tokens.ids[1], 260);
    for (int i = 0; i < 200; i++) {
        uint8_t text[24];
        for (size_t k = 0; k < sizeof text; k++)
            text[k] = (uint8_t) "\0\n\xe2\x82\xac b"[draw(7)];
        encode(text, sizeof text, 0);
        check_back(text, sizeof text);
    }
    done();
}
END_TEST

/* The same for byte-level BPE, whose texts should be of its alphabet: others are taken as they are.
 */
START_TEST(odd_tokens_of_bpe)
{
    start_bpe("gpt-2");
    add_bytes("", 0, TOKEN_NORMAL, 0);               /* 256 */
    add_bytes("a\nb", 3, TOKEN_NORMAL, 0);           /* 257 */
    add_bytes("\0", 1, TOKEN_NORMAL, 0);             /* 258: byte 0 has a token of its own */
    add_bytes("\xff\xfe", 2, TOKEN_USER_DEFINED, 0); /* 259 */
    add_bytes("x\0y", 3, TOKEN_USER_DEFINED, 0);     /* 260 */
    add_bytes("<\n>", 3, TOKEN_CONTROL, 0);          /* 261 */
    add("ab", TOKEN_NORMAL, 0);                      /* 262 */
    add("ab", TOKEN_NORMAL, 0);                      /* 263: the first counts */
    add("<\n>", TOKEN_CONTROL, 0);                   /* 264: here too */
    add_merge("a b");
    add_merge("qq ab"); /* qq is no token: found only where it was made */
    add_merge("ab qq");
    finish();
    ck_assert_str_eq(ids_of("ab", 0), "262");
    ck_assert_str_eq(ids_of("qqab", 0), "113 113 262");
    ck_assert_str_eq(ids_of("a\nb", 0), "97 10 98");
    ck_assert_str_eq(ids_of("a<\n>", ENCODE_SPECIAL), "97 261");
    ck_assert_str_eq(ids_of("a<\n>", 0), "97 60 10 62");
    encode("x\0y\xff\xfe\0", 6, 0);
    ck_assert_uint_eq(tokens.count, 3);
    ck_assert_uint_eq(tokens.ids[0], 260);
    ck_assert_uint_eq(tokens.ids[1], 259);
    ck_assert_uint_eq(tokens.ids[2], 0);
    const char *bytes;
    ck_assert_uint_eq(vocab_piece(vocab, 257, false, &bytes), 3);
    ck_assert_int_eq(memcmp(bytes, "a\nb", 3), 0);
    done();
}
END_TEST

/* ---- against the definition ---------------------------------------------------------------- */

/* Merges the word as the papers say: again and again the best pair, the leftmost of equals. */
static size_t merge_slowly(const uint8_t *word, size_t length, size_t *lengths,
                           int (*rank)(const uint8_t *bytes, size_t left, size_t length))
{
    size_t n = length;
    for (size_t i = 0; i < n; i++)
        lengths[i] = 1;
    for (;;) {
        int best = -1;
        size_t where = 0, at = 0;
        for (size_t i = 0; i + 1 < n; at += lengths[i++]) {
            int found = rank(word + at, lengths[i], lengths[i] + lengths[i + 1]);
            if (found >= 0 && (best < 0 || found < best)) {
                best = found;
                where = i;
            }
        }
        if (best < 0)
            return n;
        lengths[where] += lengths[where + 1];
        n--;
        memmove(lengths + where + 1, lengths + where + 2, (n - where - 1) * sizeof *lengths);
    }
}

enum { N_RANDOM = 60 };
static struct {
    char text[12]; /* joined */
    size_t left, length;
    int score;
} random_merges[N_RANDOM];

static int bpe_rank(const uint8_t *bytes, size_t left, size_t length)
{
    for (int i = 0; i < N_RANDOM; i++)
        if (random_merges[i].left == left && random_merges[i].length == length &&
            memcmp(bytes, random_merges[i].text, length) == 0)
            return i;
    return -1;
}

static int spm_rank(const uint8_t *bytes, size_t left, size_t length)
{
    (void)left;
    for (int i = 0; i < N_RANDOM; i++)
        if (random_merges[i].length == length && memcmp(bytes, random_merges[i].text, length) == 0)
            return -random_merges[i].score;
    return -1;
}

/* Scores are small whole numbers, so that many are equal; equal texts have equal scores. */
static void draw_merges(void)
{
    for (int i = 0; i < N_RANDOM; i++) {
        random_merges[i].left = 1 + draw(4);
        random_merges[i].length = random_merges[i].left + 1 + draw(4);
        for (size_t k = 0; k < random_merges[i].length; k++)
            random_merges[i].text[k] = "abc"[draw(3)];
        random_merges[i].text[random_merges[i].length] = 0;
        random_merges[i].score = -(int)draw(12);
        for (int k = 0; k < i; k++)
            if (strcmp(random_merges[k].text, random_merges[i].text) == 0)
                random_merges[i].score = random_merges[k].score;
    }
}

/* Words of every length, from random pairs that need not be in an order that training would give.
 */
static void compare_with_definition(int (*rank)(const uint8_t *, size_t, size_t))
{
    static uint8_t word[700];
    static size_t lengths[700];
    for (size_t length = 1; length < 700; length += 1 + length / 4)
        for (int repeat = 0; repeat < 4; repeat++) {
            size_t period = 1 + draw(4); /* long words repeat themselves, so that runs occur */
            for (size_t i = 0; i < length; i++)
                word[i] = repeat < 2 || i < period ? (uint8_t) "abc"[draw(3)] : word[i - period];
            size_t n = merge_slowly(word, length, lengths, rank);
            encode(word, length, ENCODE_CONTINUE);
            size_t k = 0;
            for (size_t i = 0; i < n; i++) {
                const char *bytes;
                size_t size = 0; /* a symbol that is no token is its bytes */
                while (size < lengths[i] && k < tokens.count)
                    size += vocab_piece(vocab, tokens.ids[k++], false, &bytes);
                if (size != lengths[i])
                    ck_abort_msg("length %zu: symbol %zu of %zu differs", length, i, n);
            }
            ck_assert_uint_eq(k, tokens.count);
            check_back(word, length);
        }
}

START_TEST(bpe_equals_definition)
{
    for (int round = 0; round < 6; round++) {
        start_bpe("gpt-2");
        draw_merges();
        for (int i = 0; i < N_RANDOM; i++) {
            char merge[32];
            snprintf(merge, sizeof merge, "%.*s %s", (int)random_merges[i].left,
                     random_merges[i].text, random_merges[i].text + random_merges[i].left);
            add_merge(merge);
            if (i % 4)
                add(random_merges[i].text, TOKEN_NORMAL, 0);
        }
        finish();
        compare_with_definition(bpe_rank);
        done();
    }
}
END_TEST

START_TEST(spm_equals_definition)
{
    for (int round = 0; round < 6; round++) {
        start_spm();
        gguf_write_bool(draft.writer, "tokenizer.ggml.add_space_prefix", false);
        add("a", TOKEN_NORMAL, 0);
        add("b", TOKEN_NORMAL, 0);
        draw_merges();
        for (int i = 0; i < N_RANDOM; i++)
            add(random_merges[i].text, TOKEN_NORMAL, (float)random_merges[i].score);
        finish();
        compare_with_definition(spm_rank);
        done();
    }
}
END_TEST

/* Any bytes come back, from any kind of vocabulary. */
START_TEST(any_bytes_come_back)
{
    static const char *const pres[] = {"gpt-2",        "llama-bpe",      "qwen2",       "default",
                                       "deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon",
                                       "bloom",        "tekken",         "gpt-4o",      "kimi-k2",
                                       "exaone-moe",   "laguna",         "youtu",       "viking",
                                       "starcoder",    "minicpm5",       "seed-coder",  NULL};
    static uint8_t text[600];
    for (size_t p = 0; p < sizeof pres / sizeof *pres; p++) {
        pres[p] ? start_bpe(pres[p]) : start_spm();
        add(LOW, TOKEN_NORMAL, -1);
        add("ab", TOKEN_NORMAL, -1);
        add_merge("a b");
        add_merge("\xc4\xa0 a");
        finish();
        for (int i = 0; i < 100; i++) {
            size_t length = draw(sizeof text);
            for (size_t k = 0; k < length; k++)
                text[k] = i % 3 ? (uint8_t) "ab 1\n'.\xe2\x96\x81\xc3\xa9\xff\0\t"[draw(15)]
                                : (uint8_t)draw(256);
            encode(text, length, 0);
            check_back(text, length);
        }
        done();
    }
}
END_TEST

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double encoding_seconds(uint8_t *text, size_t length)
{
    double began = processor_seconds();
    encode(text, length, 0);
    return processor_seconds() - began;
}

/* Twice the text takes at most 2.3 times as long; tried again, since others use the machine too. */
static void check_linear(int kind)
{
    size_t length = 1 << 20;
    uint8_t *text = allocate(2 * length, 1);
    for (size_t i = 0; i < 2 * length; i++)
        text[i] = kind == 0 ? 'a' : kind == 1 ? ' ' : kind == 2 ? '1' : (uint8_t)draw(256);
    double once = 1e9, twice = 1e9;
    for (int i = 0; i < 20 && (i < 2 || twice > 2.3 * once); i++) {
        double a = encoding_seconds(text, length), b = encoding_seconds(text, 2 * length);
        once = a < once ? a : once;
        twice = b < twice ? b : twice;
    }
    check_back(text, 2 * length);
    ck_assert_msg(twice <= 2.3 * once || twice < 0.02, "kind %d: %.3f s, then %.3f s", kind, once,
                  twice);
    ck_assert(twice < 5);
    free(text);
}

/* Tokens of 2, 4 ... 32 times a character, merged in that order. */
static void add_doubled(const char *character)
{
    char half[256], whole[256], merge[256];
    snprintf(half, sizeof half, "%s", character);
    for (int i = 0; i < 5; i++) {
        snprintf(merge, sizeof merge, "%.100s %.100s", half, half);
        snprintf(whole, sizeof whole, "%.100s%.100s", half, half);
        add_merge(merge);
        add(whole, TOKEN_NORMAL, (float)(i - 10));
        memcpy(half, whole, sizeof half);
    }
}

START_TEST(long_texts_take_linear_time)
{
    for (int kind = 0; kind < 4; kind++) {
        start_bpe("llama-bpe");
        add_doubled("a");
        add_doubled("\xc4\xa0");
        finish();
        check_linear(kind);
        done();
        start_spm();
        add(LOW, TOKEN_NORMAL, -20);
        add("a", TOKEN_NORMAL, -20);
        add_doubled("a");
        add_doubled(LOW);
        finish();
        check_linear(kind);
        done();
    }
    /* Patterns that look ahead over runs: digits from their end, spaces by halves. */
    static const char *const pres[] = {"tiny_aya", "jais-2", "deepseek-llm"};
    for (size_t i = 0; i < 3; i++) {
        start_bpe(pres[i]);
        add_doubled("\xc4\xa0");
        finish();
        check_linear(1);
        check_linear(2);
        done();
    }
}
END_TEST

/* ---- facts --------------------------------------------------------------------------------- */

START_TEST(facts)
{
    struct error error;
    struct vocab_facts facts;
    static const int32_t ends[] = {7};
    start("gpt2");
    gguf_write_text(draft.writer, "tokenizer.ggml.pre", "qwen2", 5);
    add("a", TOKEN_NORMAL, 0);
    add("<|endoftext|>", TOKEN_CONTROL, 0);   /* 1 */
    add("<|im_end|>", TOKEN_USER_DEFINED, 0); /* 2 */
    add("</s>", TOKEN_NORMAL, 0);             /* 3: text */
    add("<|im_start|>", TOKEN_CONTROL, 0);
    add("unused", TOKEN_UNUSED, 0);
    add("<|fim_prefix|>", TOKEN_USER_DEFINED, 0);
    add("b", TOKEN_NORMAL, 0); /* 7 */
    add("[PAD8]", TOKEN_UNUSED, 0);
    add("[PAD9]", TOKEN_UNUSED, 0);
    gguf_write_u32(draft.writer, "tokenizer.ggml.eos_token_id", 1);
    gguf_write_u32(draft.writer, "tokenizer.ggml.eot_token_id", UINT32_MAX);
    gguf_write_array(draft.writer, "tokenizer.ggml.eos_token_ids", GGUF_I32, ends, 1);
    uint8_t bytes[200];
    size_t n = 0;
    for (uint32_t i = 0; i < 8; i++) {
        store_u32(bytes + n, (uint32_t)draft.texts[i].length);
        memcpy(bytes + n + 4, draft.texts[i].bytes, draft.texts[i].length);
        n += 4 + draft.texts[i].length;
    }
    finish();
    ck_assert(vocab_facts(&facts, gguf, &error));
    ck_assert_uint_eq(facts.n_tokens, 8);
    ck_assert_uint_eq(facts.fingerprint, crc32_update(0, bytes, n));
    ck_assert_uint_eq(facts.fingerprint, vocab_facts_of(vocab)->fingerprint);
    ck_assert_uint_eq(facts.bos, VOCAB_NONE);
    ck_assert(!facts.add_bos);
    ck_assert_uint_eq(facts.n_eog, 3);
    ck_assert(facts.eog[0] == 1 && facts.eog[1] == 2 && facts.eog[2] == 7);
    ck_assert_int_eq(vocab_kind(vocab, 2), TOKEN_CONTROL);
    ck_assert_int_eq(vocab_kind(vocab, 3), TOKEN_NORMAL);
    ck_assert_int_eq(vocab_kind(vocab, 6), TOKEN_CONTROL);
    ck_assert_int_eq(vocab_kind(vocab, 7), TOKEN_NORMAL);
    ck_assert_int_eq(vocab_kind(vocab, 8), TOKEN_UNUSED);
    vocab_facts_free(&facts);
    done();
}
END_TEST

START_TEST(facts_of_the_beginning)
{
    start_spm();
    finish();
    ck_assert_uint_eq(vocab_facts_of(vocab)->bos, 1);
    ck_assert(vocab_facts_of(vocab)->add_bos);
    ck_assert_uint_eq(vocab_facts_of(vocab)->n_eog, 1);
    ck_assert_uint_eq(vocab_facts_of(vocab)->eog[0], 2);
    done();
    start_spm();
    gguf_write_bool(draft.writer, "tokenizer.ggml.add_bos_token", false);
    finish();
    ck_assert(!vocab_facts_of(vocab)->add_bos);
    done();
    start_bpe("llama-bpe");
    gguf_write_u32(draft.writer, "tokenizer.ggml.bos_token_id", 5);
    finish();
    ck_assert_uint_eq(vocab_facts_of(vocab)->bos, 5);
    ck_assert(vocab_facts_of(vocab)->add_bos);
    done();
    start_bpe("llama-bpe"); /* no BOS to add */
    finish();
    ck_assert(!vocab_facts_of(vocab)->add_bos);
    done();
    start_bpe("gpt-2");
    gguf_write_u32(draft.writer, "tokenizer.ggml.bos_token_id", 5);
    finish();
    ck_assert(!vocab_facts_of(vocab)->add_bos);
    done();
    /* In the harmony format <|end|> closes a message, not the turn. */
    start_bpe("gpt-4o");
    add("<|end|>", TOKEN_CONTROL, 0);
    add("<|return|>", TOKEN_CONTROL, 0);
    add("<|call|>", TOKEN_CONTROL, 0);
    finish();
    ck_assert_uint_eq(vocab_facts_of(vocab)->n_eog, 2);
    ck_assert_uint_eq(vocab_facts_of(vocab)->eog[0], 257);
    done();
}
END_TEST

/* Without token types, texts tell. */
START_TEST(kinds_without_the_array)
{
    start_spm();
    add("<|im_end|>", TOKEN_NORMAL, 0);
    write_arrays(true, false, false);
    save("vocab.gguf");
    open_path(path_in("vocab.gguf"));
    ck_assert_int_eq(vocab_kind(vocab, 0), TOKEN_UNKNOWN);
    ck_assert_int_eq(vocab_kind(vocab, 1), TOKEN_CONTROL);
    ck_assert_int_eq(vocab_kind(vocab, 2), TOKEN_CONTROL);
    ck_assert_int_eq(vocab_kind(vocab, 3), TOKEN_BYTE);
    ck_assert_int_eq(vocab_kind(vocab, 259), TOKEN_CONTROL);
    ck_assert_uint_eq(vocab_facts_of(vocab)->n_eog, 2);
    done();
}
END_TEST

/* ---- files that are wrong ------------------------------------------------------------------ */

START_TEST(refusals)
{
    start("bert");
    refused(NULL, "'bert' is not supported");
    start("llama");
    refused(NULL, "key 'tokenizer.ggml.tokens' is missing");
    draft.writer = gguf_writer_new();
    draft.n = 0;
    refused(NULL, "key 'tokenizer.ggml.model' is missing");
    start("llama");
    write_arrays(true, true, true);
    refused(NULL, "0 tokens");

    start_spm();
    write_arrays(false, true, false);
    refused(NULL, "key 'tokenizer.ggml.scores' is missing");
    start_spm();
    write_arrays(true, true, false);
    gguf_write_array(draft.writer, "tokenizer.ggml.scores", GGUF_F32, draft.scores, draft.n - 1);
    refused(NULL, "key 'tokenizer.ggml.scores': 258 entries, but there are 259 tokens");
    start_spm();
    write_arrays(true, true, false);
    gguf_write_array(draft.writer, "tokenizer.ggml.scores", GGUF_I32, draft.kinds, draft.n);
    refused(NULL, "key 'tokenizer.ggml.scores': expected array of f32, found array of i32");
    start_spm();
    draft.scores[7] = draft.scores[0] / 0.0f;
    write_arrays(true, true, false);
    refused(NULL, "the score of token 7 is not a number");
    start_spm();
    write_arrays(true, true, false);
    gguf_write_array(draft.writer, "tokenizer.ggml.token_type", GGUF_I32, draft.kinds, 3);
    refused(NULL, "key 'tokenizer.ggml.token_type': 3 entries, but there are 259 tokens");
    start_spm();
    draft.kinds[9] = 7;
    write_arrays(true, true, false);
    refused(NULL, "token 9 has unknown type 7");
    start_spm();
    draft.kinds[1] = TOKEN_BYTE;
    write_arrays(true, true, false);
    refused(NULL, "token 1 is a byte token, expected a text like <0x0A>, found '<s>'");
    start_spm();
    write_arrays(true, true, false);
    refused("gpt-2", "--pre");
    start_spm();
    write_arrays(true, true, false);
    gguf_write_bool(draft.writer, "tokenizer.ggml.remove_extra_whitespaces", true);
    refused(NULL, "'tokenizer.ggml.remove_extra_whitespaces' is true");
    static const char *const models[] = {"t5", "rwkv", "plamo2", "gemma4", "none", ""};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char reason[40];
        snprintf(reason, sizeof reason, "'%s' is not supported", models[i]);
        start(models[i]);
        write_arrays(true, true, false);
        refused(NULL, reason);
    }
    start("llama");
    add("x", TOKEN_UNUSED, 0);
    write_arrays(true, true, false);
    refused(NULL, "all 1 tokens are marked as unused");

    static const char *const ids[] = {"bos", "eos", "eot", "eom", "unknown"};
    for (size_t i = 0; i < 5; i++) {
        char key[64], reason[128];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", ids[i]);
        snprintf(reason, sizeof reason, "key '%s': token 259, but the vocabulary has 259", key);
        start_spm();
        write_arrays(true, true, false);
        gguf_write_u32(draft.writer, key, 259);
        refused(NULL, reason);
    }
    start_spm();
    write_arrays(true, true, false);
    gguf_write_array(draft.writer, "tokenizer.ggml.eog_token_ids", GGUF_I32, (int32_t[]){-1}, 1);
    refused(NULL, "key 'tokenizer.ggml.eog_token_ids': token 4294967295");

    start_bpe("gpt-2");
    write_arrays(false, true, false);
    refused(NULL, "key 'tokenizer.ggml.merges' is missing");
    start_bpe("no-such");
    write_arrays(false, true, true);
    refused(NULL, "'no-such' is not a known pre-tokeniser; if it is the same as a known one, name "
                  "that with --pre");
    start_bpe(NULL);
    write_arrays(false, true, true);
    refused(NULL, "key 'tokenizer.ggml.pre' is missing");
    start_bpe("gpt-2");
    write_arrays(false, true, true);
    refused("qwen", "--pre: 'qwen' is not a known");
    static const char *const merges[] = {"ab", " a", "a ", "a b c", "\xe4\xb8\x80 a", ""};
    for (size_t i = 0; i < 6; i++) {
        start_bpe("gpt-2");
        add_merge("a a");
        add_merge(merges[i]);
        write_arrays(false, true, true);
        refused(NULL, "key 'tokenizer.ggml.merges': merge 1 is not two byte-level texts");
    }
    start_bpe("gpt-2");
    write_arrays(false, true, true);
    gguf_write_bool(draft.writer, "tokenizer.ggml.add_bos_token", true);
    refused(NULL, "'tokenizer.ggml.add_bos_token' is true, but 'tokenizer.ggml.bos_token_id'");
    free(tokens.ids);
    tokens = (struct token_list){0};
}
END_TEST

START_TEST(pre_can_be_said)
{
    struct error error;
    start_bpe(NULL);
    write_arrays(false, true, true);
    save("vocab.gguf");
    gguf = gguf_open(path_in("vocab.gguf"), &error);
    vocab = vocab_open(gguf, "llama3", &error);
    ck_assert_msg(vocab != NULL, "%s", error.text);
    ck_assert_str_eq(ids_of("ab", 0), "97 98");
    done();
}
END_TEST

/* Damaged metadata: refused, or opened and usable, never a crash (the sanitizers watch). */
START_TEST(mutations)
{
    static const char text[] = "ab  <|x|>ab\xff\xe2\x82\xac 12";
    for (int spm = 0; spm < 2; spm++) {
        start(spm ? "llama" : "gpt2");
        gguf_write_text(draft.writer, "tokenizer.ggml.pre", "gpt-2", 5);
        gguf_write_u32(draft.writer, "tokenizer.ggml.bos_token_id", 1);
        add("a", TOKEN_NORMAL, -1);
        add("<|x|>", TOKEN_CONTROL, 0);
        add("<0x0A>", TOKEN_BYTE, 0);
        add("  ", TOKEN_USER_DEFINED, 0);
        add("b", TOKEN_NORMAL, -3);
        add("ab", TOKEN_NORMAL, -2);
        add("\xc4\xa0", TOKEN_NORMAL, -2);
        add("pad", TOKEN_UNUSED, 0);
        add_merge("a b");
        write_arrays(true, true, true);
        save("vocab.gguf");
        size_t size;
        int fd = open(path_in("vocab.gguf"), O_RDONLY);
        uint8_t *good = read_all(fd, &size, "vocab.gguf"), *bytes = allocate(size, 1);
        close(fd);
        for (int i = 0; i < 3000; i++) {
            struct gguf file;
            struct error error;
            memcpy(bytes, good, size);
            for (int k = 0; k <= i % 3; k++)
                bytes[draw((uint32_t)size)] ^= (uint8_t)(1 << draw(8));
            if (!gguf_parse(&file, bytes, size, &error))
                continue;
            struct vocab *opened = vocab_open(&file, NULL, &error);
            const char *piece;
            if (opened) {
                tokens.count = 0;
                if (i % 4 == 0)
                    vocab_encode(opened, text, sizeof text, i & 4 ? ENCODE_SPECIAL : 0, &tokens,
                                 &error);
                for (size_t k = 0; k < tokens.count; k++)
                    if (tokens.ids[k] >= vocab_facts_of(opened)->n_tokens)
                        ck_abort_msg("an id that does not exist");
                for (uint32_t id = 0; id < 10; id++)
                    vocab_piece(opened, id, true, &piece);
            }
            vocab_close(opened);
            gguf_close(&file);
        }
        free(good);
        free(bytes);
    }
    free(tokens.ids);
    tokens = (struct token_list){0};
}
END_TEST

/* ---- the reference vocabularies ------------------------------------------------------------ */

static const char *data_directory;

static char *load_text(const char *name, const char *end, size_t *size)
{
    char path[300];
    snprintf(path, sizeof path, "%s/vocab/%s.%s", data_directory, name, end);
    int fd = open(path, O_RDONLY);
    ck_assert_msg(fd >= 0, "%s", path);
    char *text = (char *)read_all(fd, size, path);
    close(fd);
    text = reallocate(text, *size + 1, 1);
    text[*size] = 0;
    return text;
}

/* Each text of NAME.inp gives the ids on its line of NAME.out, and comes back. */
static void check_references(const char *name)
{
    static const char between[] = "\n__ggml_vocab_test__\n";
    char path[300];
    snprintf(path, sizeof path, "%s/vocab/%s.gguf", data_directory, name);
    open_path(path);
    size_t size, out_size;
    char *texts = load_text(name, "inp", &size), *ids = load_text(name, "out", &out_size);
    int n = 0;
    for (char *text = texts, *line = ids; text && *line; n++) {
        char *end = strstr(text, between);
        size_t length = end ? (size_t)(end - text) : size - (size_t)(text - texts);
        encode(text, length, 0);
        check_back((const uint8_t *)text, length);
        for (size_t i = 0; i < tokens.count; i++) {
            unsigned long id = strtoul(line, &line, 10);
            ck_assert_msg(id == tokens.ids[i], "%s, text %d '%.*s', token %zu: %u, expected %lu",
                          name, n, (int)length, text, i, tokens.ids[i], id);
        }
        line += strspn(line, " ");
        ck_assert_msg(*line == '\n' || !*line, "%s, text %d: more tokens expected", name, n);
        line += *line == '\n';
        text = end ? end + sizeof between - 1 : NULL;
    }
    ck_assert_int_eq(n, 46);
    free(texts);
    free(ids);
    done();
}

static const char *const references[] = {"gpt-2", "llama-bpe",      "qwen2",  "llama-spm",
                                         "phi-3", "deepseek-coder", "falcon", "starcoder"};

START_TEST(reference_ids)
{
    check_references(references[_i]);
}
END_TEST

int main(void)
{
    data_directory = getenv("UNROLL_TEST_DATA");
    if (!data_directory)
        data_directory = "../shared/data";
    char path[300];
    snprintf(path, sizeof path, "%s/vocab/gpt-2.gguf", data_directory);
    bool have_data = access(path, R_OK) == 0;
    if (!have_data)
        printf("vocab: reference vocabularies skipped: no %s\n", data_directory);
    if (!mkdtemp(directory))
        return 1;
    Suite *suite = suite_create("vocab");
    TCase *encoding = tcase_create("encoding"), *files = tcase_create("files");
    tcase_set_timeout(encoding, 120);
    tcase_set_timeout(files, 120);
    tcase_add_test(encoding, spm_merges_by_score);
    tcase_add_test(encoding, spm_without_prefix_space);
    tcase_add_test(encoding, spm_user_defined);
    tcase_add_test(encoding, spm_without_bytes);
    tcase_add_test(encoding, bpe_merges_by_rank);
    tcase_add_test(encoding, bpe_words_that_are_tokens);
    tcase_add_test(encoding, odd_tokens);
    tcase_add_test(encoding, odd_tokens_of_bpe);
    tcase_add_test(encoding, bpe_equals_definition);
    tcase_add_test(encoding, spm_equals_definition);
    tcase_add_test(encoding, any_bytes_come_back);
    tcase_add_test(encoding, long_texts_take_linear_time);
    tcase_add_test(files, facts);
    tcase_add_test(files, facts_of_the_beginning);
    tcase_add_test(files, kinds_without_the_array);
    tcase_add_test(files, refusals);
    tcase_add_test(files, pre_can_be_said);
    tcase_add_test(files, mutations);
    suite_add_tcase(suite, encoding);
    suite_add_tcase(suite, files);
    if (have_data) {
        TCase *data = tcase_create("references");
        tcase_set_timeout(data, 120);
        tcase_add_loop_test(data, reference_ids, 0, sizeof references / sizeof *references);
        suite_add_tcase(suite, data);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    char command[sizeof directory + 16];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) || failed != 0;
}
