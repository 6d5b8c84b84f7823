/* The tokens' texts and kinds, and the facts that need nothing else: beginning and end. */
#include "vocab/internal.h"

#include <stdlib.h>
#include <string.h>

/* Control tokens by their text: many files do not say in their metadata which tokens end a turn, or
 * mark such tokens as user-defined.  The families' own names, as llama.cpp (src/llama-vocab.cpp,
 * special_eog_ids) gathers them too. */
static const struct {
    const char *text;
    bool ends;
} known_texts[] = {
    {"<|eot_id|>", true},      /* Llama 3 */
    {"<|eom_id|>", true},      /* Llama 3, before a tool's answer */
    {"<|im_end|>", true},      /* ChatML: Qwen, Yi, SmolLM ... */
    {"<end_of_turn>", true},   /* Gemma */
    {"<|end|>", true},         /* Phi-3 */
    {"<|endoftext|>", true},   /* GPT-2, Qwen, Phi, Falcon ... */
    {"<|end_of_text|>", true}, /* Llama 3, Granite */
    {"</s>", true},            /* SentencePiece models */
    {"<eos>", true},           /* Gemma */
    {"<|return|>", true},      /* gpt-oss */
    {"<|call|>", true},        /* gpt-oss */
    {"<|flush|>", true},       /* Solar Open */
    {"<|calls|>", true},       /* Solar Open */
    {"<EOT>", true},           /* CodeLlama */
    {"_<EOT>", true},
    {"\xe2\x96\x81<EOT>", true}, /* CodeLlama, with its prefix space */
    {"[EOT]", true},             /* Kimi K2 */
    {"[EOS]", true},             /* Kimi K2 */
    {"[PAD]", true},             /* Kimi K2 */
    {"<\xef\xbd\x9c"
     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
     true},                       /* DeepSeek */
    {"<end_of_utterance>", true}, /* SmolDocling */
    {"[e~[", true},               /* MiniMax */
    {"<|fim_pad|>", true},        /* Qwen coder: the end of a filled-in middle */
    {"<fim-pad>", true},
    {"<fim_pad>", true}, /* StarCoder, Granite */
    {"<PAD>", true},
    {"<|fim_repo|>", true},
    {"<|repo_name|>", true}, /* Qwen coder: the next file or repository would begin */
    {"<fim-repo>", true},
    {"<REPO>", true},
    {"<reponame>", true},   /* Granite */
    {"<|file_sep|>", true}, /* Qwen coder */
    {"<|fim_prefix|>", false},
    {"<|fim_suffix|>", false},
    {"<|fim_middle|>", false},
    {"<fim_prefix>", false},
    {"<fim_suffix>", false},
    {"<fim_middle>", false},
    {"<fim-prefix>", false},
    {"<fim-suffix>", false},
    {"<fim-middle>", false},
    {"<PRE>", false}, /* CodeLlama */
    {"<SUF>", false},
    {"<MID>", false},
    {"\xe2\x96\x81<PRE>", false}, /* CodeLlama, with its prefix space */
    {"\xe2\x96\x81<SUF>", false},
    {"\xe2\x96\x81<MID>", false},
    {"<|code_prefix|>", false}, /* GLM */
    {"<|code_suffix|>", false},
    {"<|code_middle|>", false},
    {"<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "begin\xef\xbd\x9c>",
     false}, /* DeepSeek */
    {"<\xef\xbd\x9c"
     "fim\xe2\x96\x81hole\xef\xbd\x9c>",
     false},
    {"<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "end\xef\xbd\x9c>",
     false},
};
enum { N_KNOWN = sizeof known_texts / sizeof *known_texts };

/* ---- arrays -------------------------------------------------------------------------------- */

static bool missing(const char *key, struct error *error)
{
    return error_set(error, STATUS_INPUT, "key '%s' is missing", key);
}

static bool read_model(struct tokens *tokens, const struct gguf *gguf, struct error *error)
{
    static const char key[] = "tokenizer.ggml.model";
    struct gguf_string model;
    enum gguf_answer answer = gguf_text(gguf, key, &model, error);
    if (answer != GGUF_FOUND)
        return answer == GGUF_ABSENT && missing(key, error);
    tokens->spm = gguf_equal(model, "llama");
    return tokens->spm || gguf_equal(model, "gpt2") ||
           error_set(error, STATUS_INPUT,
                     "key '%s': '%.*s' is not supported, only 'llama' (SentencePiece) and 'gpt2' "
                     "(byte-level BPE) are",
                     key, SHOW(model));
}

static bool read_texts(struct tokens *tokens, const struct gguf *gguf, struct error *error)
{
    static const char key[] = "tokenizer.ggml.tokens";
    const struct gguf_value *texts;
    enum gguf_answer answer = gguf_array(gguf, key, GGUF_STRING, &texts, error);
    if (answer != GGUF_FOUND)
        return answer == GGUF_ABSENT && missing(key, error);
    if (texts->count == 0 || texts->count > INT32_MAX)
        return error_set(error, STATUS_INPUT, "key '%s': %llu tokens, expected 1 to %d", key,
                         (unsigned long long)texts->count, INT32_MAX);
    tokens->texts = gguf_strings(texts);
    tokens->count = (uint32_t)texts->count;
    return true;
}

/* The value of a token like <0x0A>; -1 for any other text. */
static int byte_value(struct gguf_string text)
{
    static const char digits[] = "0123456789ABCDEF";
    if (text.length != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>')
        return -1;
    const char *high = memchr(digits, text.bytes[3], 16), *low = memchr(digits, text.bytes[4], 16);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

/* Without the array every token is a normal one, but for those that tell by their text. */
static bool read_kinds(struct tokens *tokens, bool *given, const struct gguf *gguf,
                       struct error *error)
{
    static const char key[] = "tokenizer.ggml.token_type";
    const struct gguf_value *kinds;
    enum gguf_answer answer = gguf_array(gguf, key, GGUF_I32, &kinds, error);
    if (answer == GGUF_WRONG)
        return false;
    tokens->kinds = allocate(tokens->count, 1);
    *given = answer == GGUF_FOUND;
    if (*given && kinds->count != tokens->count)
        return error_set(error, STATUS_INPUT, "key '%s': %llu entries, but there are %u tokens",
                         key, (unsigned long long)kinds->count, tokens->count);
    for (uint32_t id = 0; id < tokens->count; id++) {
        bool byte = byte_value(tokens->texts[id]) >= 0;
        uint32_t kind = *given                ? load_u32(kinds->data + 4 * (size_t)id)
                        : tokens->spm && byte ? TOKEN_BYTE
                                              : TOKEN_NORMAL;
        if (kind < TOKEN_NORMAL || kind > TOKEN_BYTE)
            return error_set(error, STATUS_INPUT, "key '%s': token %u has unknown type %u", key, id,
                             kind);
        if (kind == TOKEN_BYTE && !byte)
            return error_set(error, STATUS_INPUT,
                             "token %u is a byte token, expected a text like <0x0A>, found '%.*s'",
                             id, SHOW(tokens->texts[id]));
        tokens->kinds[id] = (uint8_t)kind;
    }
    return true;
}

/* ---- beginning and end --------------------------------------------------------------------- */

/* Reads a token's id; leaves *id as it was when the key is absent.  Some files write -1, as u32,
 * for a token that the model does not have. */
static bool read_id(const struct gguf *gguf, const char *key, uint32_t n_tokens, uint32_t *id,
                    struct error *error)
{
    uint32_t value = VOCAB_NONE;
    enum gguf_answer answer = gguf_u32(gguf, key, &value, error);
    if (answer != GGUF_FOUND)
        return answer == GGUF_ABSENT;
    if (value != VOCAB_NONE && value >= n_tokens)
        return error_set(error, STATUS_INPUT,
                         "key '%s': token %u, but the vocabulary has %u tokens", key, value,
                         n_tokens);
    *id = value;
    return true;
}

static void add_eog(struct vocab_facts *facts, size_t *capacity, uint32_t id)
{
    if (id == VOCAB_NONE)
        return;
    facts->eog = grow(facts->eog, capacity, facts->n_eog + 1, sizeof *facts->eog);
    facts->eog[facts->n_eog++] = id;
}

/* Arrays that name several ends; not llama.cpp's, but found in files of other converters. */
static bool read_eog_array(struct vocab_facts *facts, size_t *capacity, const struct gguf *gguf,
                           const char *key, struct error *error)
{
    const struct gguf_value *found = gguf_find(gguf, key), *ids;
    if (!found)
        return true;
    enum gguf_type element = found->element == GGUF_U32 ? GGUF_U32 : GGUF_I32;
    if (gguf_array(gguf, key, element, &ids, error) != GGUF_FOUND)
        return false;
    for (uint64_t i = 0; i < ids->count; i++) {
        uint32_t id = load_u32(ids->data + 4 * i);
        if (id >= facts->n_tokens)
            return error_set(error, STATUS_INPUT,
                             "key '%s': token %u, but the vocabulary has %u tokens", key, id,
                             facts->n_tokens);
        add_eog(facts, capacity, id);
    }
    return true;
}

/* Finds the tokens of known_texts; found[i] is the first with that text.  Only such texts count
 * that the file does not call normal: "</s>" is a normal token of models that have read HTML. */
static void find_known(struct tokens *tokens, uint32_t n_tokens, bool kinds_given,
                       uint32_t found[N_KNOWN])
{
    for (size_t i = 0; i < N_KNOWN; i++)
        found[i] = VOCAB_NONE;
    for (uint32_t id = 0; id < n_tokens; id++) {
        uint8_t kind = tokens->kinds[id];
        if (kind != TOKEN_CONTROL && kind != TOKEN_USER_DEFINED &&
            (kinds_given || kind != TOKEN_NORMAL))
            continue;
        for (size_t i = 0; i < N_KNOWN; i++) {
            if (!gguf_equal(tokens->texts[id], known_texts[i].text))
                continue;
            tokens->kinds[id] = TOKEN_CONTROL;
            if (found[i] == VOCAB_NONE)
                found[i] = id;
        }
    }
}

static uint32_t *known(uint32_t found[N_KNOWN], const char *text)
{
    size_t i = 0;
    while (strcmp(known_texts[i].text, text) != 0)
        i++;
    return &found[i];
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

/* Gathers the end-of-generation set. */
static bool find_ends(struct tokens *tokens, struct vocab_facts *facts, bool kinds_given,
                      const struct gguf *gguf, struct error *error)
{
    static const char *const keys[] = {
        "tokenizer.ggml.eos_token_id",     "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id",     "tokenizer.ggml.eog_token_id",
        "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
        "tokenizer.ggml.fim_sep_token_id"};
    size_t capacity = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint32_t id = i == 0 && tokens->spm && facts->n_tokens > 2 ? 2 : VOCAB_NONE;
        if (!read_id(gguf, keys[i], facts->n_tokens, &id, error))
            return false;
        add_eog(facts, &capacity, id);
        if (i == 0)
            facts->eos = id;
    }
    if (!read_eog_array(facts, &capacity, gguf, "tokenizer.ggml.eos_token_ids", error) ||
        !read_eog_array(facts, &capacity, gguf, "tokenizer.ggml.eog_token_ids", error))
        return false;

    uint32_t found[N_KNOWN];
    find_known(tokens, facts->n_tokens, kinds_given, found);
    /* In the harmony format and in Solar Open's, <|end|> closes one message of several. */
    if ((*known(found, "<|return|>") != VOCAB_NONE && *known(found, "<|call|>") != VOCAB_NONE) ||
        (*known(found, "<|flush|>") != VOCAB_NONE && *known(found, "<|calls|>") != VOCAB_NONE))
        *known(found, "<|end|>") = VOCAB_NONE;
    for (size_t i = 0; i < N_KNOWN; i++)
        if (known_texts[i].ends)
            add_eog(facts, &capacity, found[i]);
    add_eog(facts, &capacity, chat_end_token(gguf, tokens, facts->n_tokens));

    size_t n = 0;
    if (facts->n_eog)
        qsort(facts->eog, facts->n_eog, sizeof *facts->eog, compare_ids);
    for (size_t i = 0; i < facts->n_eog; i++)
        if (n == 0 || facts->eog[n - 1] != facts->eog[i])
            facts->eog[n++] = facts->eog[i];
    facts->n_eog = n;
    /* An end is nothing to print, whatever the file calls it; but a normal token stays text. */
    for (size_t i = 0; i < n; i++)
        if (tokens->kinds[facts->eog[i]] == TOKEN_USER_DEFINED || !kinds_given)
            tokens->kinds[facts->eog[i]] = TOKEN_CONTROL;
    return true;
}

static bool find_beginning(struct tokens *tokens, struct vocab_facts *facts, bool kinds_given,
                           const struct gguf *gguf, const char *pre, struct error *error)
{
    static const char id_key[] = "tokenizer.ggml.bos_token_id";
    static const char add_key[] = "tokenizer.ggml.add_bos_token";
    facts->bos = tokens->spm && facts->n_tokens > 1 ? 1 : VOCAB_NONE;
    if (!read_id(gguf, id_key, facts->n_tokens, &facts->bos, error))
        return false;
    if (facts->bos != VOCAB_NONE && !kinds_given)
        tokens->kinds[facts->bos] = TOKEN_CONTROL;

    struct gguf_string name = {pre, pre ? strlen(pre) : 0};
    if (!pre && gguf_text(gguf, "tokenizer.ggml.pre", &name, error) == GGUF_WRONG)
        return false;
    const struct pre_facts *pre_facts = tokens->spm ? NULL : pre_find(name);
    facts->add_bos = tokens->spm || (pre_facts && (pre_facts->flags & PRE_ADD_BOS));
    enum gguf_answer answer = gguf_bool(gguf, add_key, &facts->add_bos, error);
    if (answer == GGUF_WRONG)
        return false;
    if (answer == GGUF_FOUND && facts->add_bos && facts->bos == VOCAB_NONE)
        return error_set(error, STATUS_INPUT, "key '%s' is true, but '%s' names no token", add_key,
                         id_key);
    facts->add_bos = facts->add_bos && facts->bos != VOCAB_NONE;
    return true;
}

/* ---- all ----------------------------------------------------------------------------------- */

/* Over each token's length and bytes; gathered in blocks, since the CRC is slow on short pieces. */
static uint32_t fingerprint(const struct tokens *tokens, uint32_t n_tokens)
{
    uint8_t block[16384];
    size_t filled = 0;
    uint32_t crc = 0;
    for (uint32_t id = 0; id < n_tokens; id++) {
        struct gguf_string text = tokens->texts[id];
        if (filled + 4 + text.length > sizeof block) {
            crc = crc32_update(crc, block, filled);
            filled = 0;
        }
        store_u32(block + filled, (uint32_t)text.length);
        filled += 4;
        if (filled + text.length > sizeof block) {
            crc = crc32_update(crc, block, filled);
            crc = crc32_update(crc, text.bytes, text.length);
            filled = 0;
        } else {
            memcpy(block + filled, text.bytes, text.length);
            filled += text.length;
        }
    }
    return crc32_update(crc, block, filled);
}

bool tokens_read(struct tokens *tokens, struct vocab_facts *facts, const struct gguf *gguf,
                 const char *pre, struct error *error)
{
    bool kinds_given;
    *tokens = (struct tokens){0};
    *facts = (struct vocab_facts){.bos = VOCAB_NONE, .eos = VOCAB_NONE};
    if (!read_model(tokens, gguf, error) || !read_texts(tokens, gguf, error) ||
        !read_kinds(tokens, &kinds_given, gguf, error))
        return false;
    facts->n_tokens = tokens->count;
    while (facts->n_tokens && tokens->kinds[facts->n_tokens - 1] == TOKEN_UNUSED)
        facts->n_tokens--;
    if (facts->n_tokens == 0)
        return error_set(error, STATUS_INPUT, "all %u tokens are marked as unused", tokens->count);
    uint32_t unknown = tokens->spm ? 0 : VOCAB_NONE;
    if (!read_id(gguf, "tokenizer.ggml.unknown_token_id", facts->n_tokens, &unknown, error) ||
        !find_beginning(tokens, facts, kinds_given, gguf, pre, error) ||
        !find_ends(tokens, facts, kinds_given, gguf, error))
        return false;
    if (unknown != VOCAB_NONE && !kinds_given && tokens->kinds[unknown] == TOKEN_NORMAL)
        tokens->kinds[unknown] = TOKEN_UNKNOWN;
    facts->fingerprint = fingerprint(tokens, facts->n_tokens);
    return true;
}

void tokens_free(struct tokens *tokens)
{
    free(tokens->texts);
    free(tokens->kinds);
    *tokens = (struct tokens){0};
}

bool vocab_facts(struct vocab_facts *facts, const struct gguf *gguf, struct error *error)
{
    struct tokens tokens;
    bool good = tokens_read(&tokens, facts, gguf, NULL, error);
    tokens_free(&tokens);
    if (!good)
        vocab_facts_free(facts);
    return good;
}

void vocab_facts_free(struct vocab_facts *facts)
{
    free(facts->eog);
    *facts = (struct vocab_facts){.bos = VOCAB_NONE, .eos = VOCAB_NONE};
}
