/* A vocabulary: the pieces of all tokens, ready to be printed. */
#include "vocab/internal.h"

#include <stdlib.h>
#include <string.h>

/* Copies a text; U+2581, which SentencePiece writes for a space, becomes one again. */
static size_t unescape_spaces(struct gguf_string text, uint8_t *bytes)
{
    uint8_t *out = bytes;
    for (size_t i = 0; i < text.length;) {
        if (text.length - i >= 3 && memcmp(text.bytes + i, "\xe2\x96\x81", 3) == 0) {
            *out++ = ' ';
            i += 3;
        } else {
            *out++ = (uint8_t)text.bytes[i++];
        }
    }
    return (size_t)(out - bytes);
}

static uint8_t hexadecimal(char digit)
{
    return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'A' + 10);
}

/* Writes what a token stands for; room for its text is enough. */
static size_t make_piece(struct gguf_string text, enum token_kind kind, bool spm, uint8_t *bytes)
{
    size_t length;
    switch (kind) {
    case TOKEN_UNUSED:
        return 0;
    case TOKEN_BYTE:
        *bytes = (uint8_t)(hexadecimal(text.bytes[3]) << 4 | hexadecimal(text.bytes[4]));
        return 1;
    case TOKEN_NORMAL:
        if (!spm && (length = byte_level_decode(text, bytes)) != SIZE_MAX)
            return length;
        /* fallthrough */
    case TOKEN_USER_DEFINED:
        if (spm)
            return unescape_spaces(text, bytes);
        /* fallthrough */
    case TOKEN_UNKNOWN:
    case TOKEN_CONTROL:
        memcpy(bytes, text.bytes, text.length);
    }
    return text.length;
}

static bool make_pieces(struct vocab *vocab, const struct tokens *tokens, struct error *error)
{
    uint32_t n = vocab->facts.n_tokens;
    uint64_t total = 0;
    for (uint32_t id = 0; id < n; id++)
        total += tokens->texts[id].length;
    if (total > UINT32_MAX)
        return error_set(error, STATUS_INPUT, "the tokens' texts are too long: %llu bytes in all",
                         (unsigned long long)total);
    vocab->pieces = allocate((size_t)total, 1);
    vocab->piece_ends = allocate(n, sizeof *vocab->piece_ends);
    size_t end = 0;
    for (uint32_t id = 0; id < n; id++) {
        end += make_piece(tokens->texts[id], (enum token_kind)tokens->kinds[id], tokens->spm,
                          vocab->pieces + end);
        vocab->piece_ends[id] = (uint32_t)end;
    }
    return true;
}

/* Whether an override can be used; what the file itself says matters only to encoding, and is
 * checked there, so that tokens can be printed without a known pre-tokeniser. */
static bool check_pre(struct vocab *vocab, const char *pre, struct error *error)
{
    if (!pre)
        return true;
    if (vocab->spm)
        return error_set(
            error, STATUS_USAGE,
            "--pre: the vocabulary is one of SentencePiece, which has no pre-tokeniser");
    vocab->pre = pre_find((struct gguf_string){pre, strlen(pre)});
    return vocab->pre ||
           error_set(error, STATUS_USAGE, "--pre: '%.60s' is not a known pre-tokeniser", pre);
}

/* Phi-3's tokenizer takes the white space after its marks away (tokenizer_config.json, "rstrip");
 * GGUF files do not say so. */
static bool is_phi3(const struct gguf *gguf)
{
    struct gguf_string architecture = {"", 0};
    struct error ignored;
    return gguf_text(gguf, "general.architecture", &architecture, &ignored) == GGUF_FOUND &&
           gguf_equal(architecture, "phi3");
}

struct vocab *vocab_open(const struct gguf *gguf, const char *pre, struct error *error)
{
    struct vocab *vocab = allocate(1, sizeof *vocab);
    struct tokens tokens;
    vocab->gguf = gguf;
    vocab->encoder = allocate(1, sizeof *vocab->encoder);
    bool good = tokens_read(&tokens, &vocab->facts, gguf, pre, error);
    vocab->spm = tokens.spm;
    vocab->add_space_prefix = tokens.spm;
    vocab->strips_right = tokens.spm && is_phi3(gguf);
    good = good && check_pre(vocab, pre, error) && make_pieces(vocab, &tokens, error) &&
           (!tokens.spm || gguf_bool(gguf, "tokenizer.ggml.add_space_prefix",
                                     &vocab->add_space_prefix, error) != GGUF_WRONG);
    vocab->n_all = tokens.count;
    vocab->kinds = tokens.kinds;
    tokens.kinds = NULL;
    tokens_free(&tokens);
    if (good)
        return vocab;
    vocab_close(vocab);
    return NULL;
}

void vocab_close(struct vocab *vocab)
{
    if (!vocab)
        return;
    encoder_clear(vocab->encoder);
    free(vocab->encoder);
    vocab_facts_free(&vocab->facts);
    free(vocab->kinds);
    free(vocab->pieces);
    free(vocab->piece_ends);
    free(vocab);
}

const struct vocab_facts *vocab_facts_of(const struct vocab *vocab)
{
    return &vocab->facts;
}

enum token_kind vocab_kind(const struct vocab *vocab, uint32_t id)
{
    return id < vocab->facts.n_tokens ? (enum token_kind)vocab->kinds[id] : TOKEN_UNUSED;
}

size_t vocab_piece(const struct vocab *vocab, uint32_t id, bool special, const char **bytes)
{
    enum token_kind kind = vocab_kind(vocab, id);
    *bytes = "";
    if (kind == TOKEN_UNUSED || (!special && (kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN)))
        return 0;
    size_t length;
    *bytes = (const char *)piece_of(vocab, id, &length);
    return length;
}

bool vocab_strips_space(const struct vocab *vocab)
{
    return vocab->spm && vocab->add_space_prefix;
}
