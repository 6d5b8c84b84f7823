/* The tables of encoding, made when the first text comes. */
#include "vocab/table.h"
#include "vocab/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t token_find(const struct vocab *vocab, const struct encoder *encoder, const uint8_t *bytes,
                    size_t length)
{
    if (length > encoder->longest)
        return VOCAB_NONE;
    uint64_t hash = hash_bytes(bytes, length), at = hash;
    for (uint32_t id; (id = table_next(&encoder->table, hash, &at)) != VOCAB_NONE;) {
        size_t size;
        const uint8_t *piece = piece_of(vocab, id, &size);
        if (size == length && memcmp(piece, bytes, length) == 0)
            return id;
    }
    return VOCAB_NONE;
}

/* Normal tokens only: a text must never become a control token by merging, and user-defined ones
 * are found before merging begins.  Of two with the same bytes the lower id is used. */
static void make_table(const struct vocab *vocab, struct encoder *encoder)
{
    table_make(&encoder->table, vocab->facts.n_tokens);
    encoder->longest = 0;
    for (uint32_t id = 0; id < vocab->facts.n_tokens; id++) {
        size_t length;
        const uint8_t *piece = piece_of(vocab, id, &length);
        if (vocab->kinds[id] != TOKEN_NORMAL || length == 0)
            continue;
        if (length > encoder->longest)
            encoder->longest = (uint32_t)length;
        if (token_find(vocab, encoder, piece, length) == VOCAB_NONE)
            table_insert(&encoder->table, hash_bytes(piece, length), id);
    }
}

/* A byte's own token: one of kind BYTE, or for byte-level BPE the normal token of one byte. */
static void find_byte_tokens(const struct vocab *vocab, struct encoder *encoder)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t text = (uint8_t)byte;
        encoder->byte_tokens[byte] = vocab->spm ? VOCAB_NONE : token_find(vocab, encoder, &text, 1);
    }
    for (uint32_t id = 0; id < vocab->facts.n_tokens; id++) {
        if (vocab->kinds[id] != TOKEN_BYTE)
            continue;
        size_t length;
        uint8_t byte = *piece_of(vocab, id, &length);
        if (encoder->byte_tokens[byte] == VOCAB_NONE)
            encoder->byte_tokens[byte] = id;
    }
}

/* The higher score merges first.  The bits of a float, sign and all, in the order of its value. */
static bool make_priorities(const struct vocab *vocab, struct encoder *encoder, struct error *error)
{
    static const char key[] = "tokenizer.ggml.scores";
    const struct gguf_value *scores;
    enum gguf_answer answer = gguf_array(vocab->gguf, key, GGUF_F32, &scores, error);
    if (answer == GGUF_ABSENT)
        error_set(error, STATUS_INPUT, "key '%s' is missing", key);
    if (answer != GGUF_FOUND)
        return false;
    if (scores->count != vocab->n_all)
        return error_set(error, STATUS_INPUT, "key '%s': %llu entries, but there are %u tokens",
                         key, (unsigned long long)scores->count, vocab->n_all);
    encoder->priorities = allocate(vocab->facts.n_tokens, sizeof *encoder->priorities);
    for (uint32_t id = 0; id < vocab->facts.n_tokens; id++) {
        const uint8_t *score = scores->data + 4 * (size_t)id;
        if (isnan(load_f32(score)))
            return error_set(error, STATUS_INPUT, "key '%s': the score of token %u is not a number",
                             key, id);
        uint32_t bits = load_f32(score) == 0 ? 0 : load_u32(score); /* -0 is 0 */
        encoder->priorities[id] = bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
    }
    return true;
}

/* Nothing of a text may get lost.  No converter writes this for a model that decodes text. */
static bool check_spaces(const struct vocab *vocab, struct error *error)
{
    static const char key[] = "tokenizer.ggml.remove_extra_whitespaces";
    bool removes = false;
    if (gguf_bool(vocab->gguf, key, &removes, error) == GGUF_WRONG)
        return false;
    return !removes ||
           error_set(error, STATUS_INPUT,
                     "key '%s' is true: a tokenizer that drops spaces is not supported", key);
}

static bool make_spm(const struct vocab *vocab, struct encoder *encoder, struct error *error)
{
    return check_spaces(vocab, error) && make_priorities(vocab, encoder, error);
}

/* Which pairs (last byte of a character, first byte of the next) occur inside a token.  Merging can
 * never cross any other pair, so an SPM text falls into words there, which are merged one by one
 * and cached like those of BPE; the result is the same. */
static void find_inside(const struct vocab *vocab, struct encoder *encoder)
{
    encoder->inside = allocate(65536 / 8, 1);
    for (uint32_t id = 0; id < vocab->facts.n_tokens; id++) {
        size_t length, size;
        const uint8_t *piece = piece_of(vocab, id, &length);
        if (vocab->kinds[id] != TOKEN_NORMAL)
            continue;
        for (size_t at = 0; at < length; at += size) {
            if (at) {
                unsigned pair = (unsigned)piece[at - 1] << 8 | piece[at];
                encoder->inside[pair / 8] |= (uint8_t)(1 << pair % 8);
            }
            size = utf8_character(piece + at, length - at);
            size = size ? size : 1;
        }
    }
}

/* The pre-tokeniser: what was said with --pre, or what the file says. */
static const struct pre_facts *choose_pre(const struct vocab *vocab, struct error *error)
{
    static const char key[] = "tokenizer.ggml.pre";
    struct gguf_string name;
    if (vocab->pre)
        return vocab->pre;
    enum gguf_answer answer = gguf_text(vocab->gguf, key, &name, error);
    if (answer == GGUF_ABSENT)
        error_set(
            error, STATUS_INPUT,
            "key '%s' is missing: which pre-tokeniser the model needs must be said with --pre "
            "(default, gpt-2, llama-bpe, qwen2 ...)",
            key);
    if (answer != GGUF_FOUND)
        return NULL;
    const struct pre_facts *pre = pre_find(name);
    if (!pre)
        error_set(
            error, STATUS_INPUT,
            "key '%s': '%.*s' is not a known pre-tokeniser; if it is the same as a known one, "
            "name that with --pre",
            key, SHOW(name));
    return pre;
}

static bool make_bpe(const struct vocab *vocab, struct encoder *encoder, struct error *error)
{
    const struct pre_facts *pre = choose_pre(vocab, error);
    if (!pre)
        return false;
    encoder->ignore_merges = (pre->flags & PRE_IGNORE_MERGES) != 0;
    if (gguf_bool(vocab->gguf, "tokenizer.ggml.ignore_merges", &encoder->ignore_merges, error) ==
        GGUF_WRONG)
        return false;
    encoder->pre = pre_compile(pre, error);
    return encoder->pre && merges_read(&encoder->merges, vocab->gguf, error);
}

bool encoder_make(const struct vocab *vocab, struct encoder *encoder, struct error *error)
{
    make_table(vocab, encoder);
    find_byte_tokens(vocab, encoder);
    specials_make(&encoder->specials, vocab);
    if (vocab->spm)
        find_inside(vocab, encoder);
    if (!(vocab->spm ? make_spm : make_bpe)(vocab, encoder, error)) {
        encoder_clear(encoder);
        return false;
    }
    encoder->cache = cache_make();
    encoder->made = true;
    return true;
}

void encoder_clear(struct encoder *encoder)
{
    free(encoder->table.slots);
    free(encoder->priorities);
    free(encoder->inside);
    merges_free(&encoder->merges);
    pre_free(encoder->pre);
    specials_free(&encoder->specials);
    free(encoder->cache);
    free(encoder->workspace.symbols);
    free(encoder->workspace.queue.items);
    free(encoder->workspace.queue.heap);
    free(encoder->workspace.queue.tails);
    free(encoder->workspace.lengths);
    free(encoder->workspace.prefixed);
    *encoder = (struct encoder){0};
}
