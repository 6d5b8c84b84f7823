/* Text to tokens: special tokens are cut out, what lies between them is split into words, and each
 * word is merged. */
#include "vocab/table.h"
#include "vocab/utf8.h"

#include <string.h>

/* Words that were merged before, with their ids; a word replaces the one that has its place.  One
 * entry is one cache line. */
enum { CACHE_WORDS = 1 << 15, CACHE_BYTES = 30, CACHE_IDS = 8 };
struct word {
    uint8_t length, n_ids;
    uint8_t bytes[CACHE_BYTES];
    uint32_t ids[CACHE_IDS];
};

struct word *cache_make(void)
{
    return allocate(CACHE_WORDS, sizeof(struct word));
}

struct encoding {
    const struct vocab *vocab;
    struct encoder *encoder;
    struct token_list *tokens;
    struct error *error;
    size_t offset; /* of the segment's first byte in the whole text, for messages */
    const uint8_t *segment;
};

static inline void append(struct token_list *tokens, const uint32_t *ids, size_t n)
{
    if (tokens->count + n > tokens->capacity)
        tokens->ids = grow(tokens->ids, &tokens->capacity, tokens->count + n, sizeof *tokens->ids);
    for (size_t i = 0; i < n; i++)
        tokens->ids[tokens->count + i] = ids[i];
    tokens->count += n;
}

/* ---- words --------------------------------------------------------------------------------- */

/* A symbol that is no token becomes the tokens of its bytes. */
static bool append_bytes(struct encoding *encoding, const uint8_t *bytes, size_t length,
                         size_t offset)
{
    for (size_t i = 0; i < length; i++) {
        uint32_t id = encoding->encoder->byte_tokens[bytes[i]];
        if (id == VOCAB_NONE)
            return error_set(
                encoding->error, STATUS_INPUT,
                "byte 0x%02x at offset %zu of the text: the vocabulary has no token for it",
                bytes[i], offset + i);
        append(encoding->tokens, &id, 1);
    }
    return true;
}

/* Merges a word and appends its tokens; `offset` is the word's in the whole text. */
static bool encode_merged(struct encoding *encoding, const uint8_t *word, size_t length,
                          size_t offset)
{
    struct encoder *encoder = encoding->encoder;
    if (encoder->ignore_merges) {
        uint32_t id = token_find(encoding->vocab, encoder, word, length);
        if (id != VOCAB_NONE) {
            append(encoding->tokens, &id, 1);
            return true;
        }
    }
    merge_word(encoding->vocab, encoder, word, length);
    for (size_t i = 0, at = 0; i < encoder->workspace.n_lengths; i++) {
        size_t size = encoder->workspace.lengths[i];
        uint32_t id = token_find(encoding->vocab, encoder, word + at, size);
        if (id != VOCAB_NONE)
            append(encoding->tokens, &id, 1);
        else if (!append_bytes(encoding, word + at, size, offset + at))
            return false;
        at += size;
    }
    return true;
}

static bool encode_word(struct encoding *encoding, const uint8_t *word, size_t length,
                        size_t offset)
{
    if (length > CACHE_BYTES)
        return encode_merged(encoding, word, length, offset);
    struct word *entry = &encoding->encoder->cache[hash_bytes(word, length) % CACHE_WORDS];
    if (entry->length == length && memcmp(entry->bytes, word, length) == 0) {
        append(encoding->tokens, entry->ids, entry->n_ids);
        return true;
    }
    size_t before = encoding->tokens->count;
    if (!encode_merged(encoding, word, length, offset))
        return false;
    size_t n = encoding->tokens->count - before;
    if (n <= CACHE_IDS) {
        entry->length = (uint8_t)length;
        entry->n_ids = (uint8_t)n;
        memcpy(entry->bytes, word, length);
        memcpy(entry->ids, encoding->tokens->ids + before, n * sizeof *entry->ids);
    }
    return true;
}

/* ---- byte-level BPE ------------------------------------------------------------------------ */

static bool take_word(void *context, size_t offset, size_t length)
{
    struct encoding *encoding = context;
    return encode_word(encoding, encoding->segment + offset, length, encoding->offset + offset);
}

/* The patterns work on characters, so bytes that are not UTF-8 are kept from them: each longest run
 * of such bytes is a word. */
static bool encode_bpe(struct encoding *encoding, const uint8_t *text, size_t length, size_t offset)
{
    for (size_t at = 0; at < length;) {
        size_t valid = utf8_valid(text + at, length - at);
        encoding->segment = text + at;
        encoding->offset = offset + at;
        if (valid && !pre_split(encoding->encoder->pre, text + at, valid, take_word, encoding,
                                encoding->error))
            return false;
        at += valid;
        size_t begin = at;
        while (at < length && !utf8_character(text + at, length - at))
            at++;
        if (at > begin && !encode_word(encoding, text + begin, at - begin, offset + begin))
            return false;
    }
    return true;
}

/* ---- SPM ----------------------------------------------------------------------------------- */

/* Whether some token has these two bytes, the last and the first of characters, side by side. */
static inline bool inside(const struct encoder *encoder, uint8_t last, uint8_t first)
{
    unsigned pair = (unsigned)last << 8 | first;
    return encoder->inside[pair / 8] >> pair % 8 & 1;
}

/* Bytes up to the first place that merging cannot cross. */
static size_t spm_word(const struct encoder *encoder, const uint8_t *text, size_t length)
{
    size_t at = 0;
    do {
        size_t size = utf8_character(text + at, length - at);
        at += size ? size : 1;
    } while (at < length && inside(encoder, text[at - 1], text[at]));
    return at;
}

/* The first word, with the space before it that these models want before a text. */
static bool encode_prefixed(struct encoding *encoding, const uint8_t *word, size_t length,
                            size_t offset)
{
    struct workspace *workspace = &encoding->encoder->workspace;
    workspace->prefixed = grow(workspace->prefixed, &workspace->prefixed_capacity, length + 1, 1);
    workspace->prefixed[0] = ' ';
    memcpy(workspace->prefixed + 1, word, length);
    return encode_word(encoding, workspace->prefixed, length + 1, offset ? offset - 1 : 0);
}

static bool encode_spm(struct encoding *encoding, const uint8_t *text, size_t length, size_t offset,
                       bool prefix)
{
    const uint8_t space = ' ';
    if (prefix && (length == 0 || !inside(encoding->encoder, space, text[0]))) {
        if (!encode_word(encoding, &space, 1, offset))
            return false;
        prefix = false;
    }
    for (size_t at = 0, size; at < length; at += size, prefix = false) {
        size = spm_word(encoding->encoder, text + at, length - at);
        if (!(prefix ? encode_prefixed : encode_word)(encoding, text + at, size, offset + at))
            return false;
    }
    return true;
}

/* ---- the whole text ------------------------------------------------------------------------ */

/* Where control tokens are looked for; spans that lie behind are left behind. */
struct places {
    bool control; /* everywhere */
    bool marked;  /* in the spans, and user-defined tokens that are no marks everywhere */
    const struct vocab_span *span, *end;
};

/* The longest special token at a place. */
static const struct special *special_at(const struct specials *specials, struct places *places,
                                        const uint8_t *text, size_t length, size_t at)
{
    if (!places->marked)
        return specials->starts[places->control][text[at]]
                   ? specials_match(specials, text + at, length - at, places->control)
                   : NULL;
    if (!specials->starts[1][text[at]])
        return NULL;
    while (places->span < places->end && places->span->end <= at)
        places->span++;
    const struct special *found = specials_match(specials, text + at, length - at, false);
    if (places->span < places->end && places->span->begin <= at) {
        const struct special *inside =
            specials_match(specials, text + at, places->span->end - at, true);
        if (inside && (!found || inside->length > found->length))
            return inside;
    }
    return found;
}

/* The first special token at or after `at`; *begin is its place, `length` when there is none. */
static const struct special *find_special(const struct specials *specials, struct places *places,
                                          const uint8_t *text, size_t length, size_t at,
                                          size_t *begin)
{
    const struct special *found = NULL;
    *begin = length;
    if (!specials->any[places->control || places->marked])
        return NULL;
    for (; at < length && !found; at++)
        if ((found = special_at(specials, places, text, length, at)) != NULL)
            *begin = at;
    return found;
}

/* How much white space after a special token goes with it. */
static size_t taken_in(const struct vocab *vocab, const struct places *places,
                       const struct special *special, const uint8_t *text, size_t length, size_t at)
{
    const struct vocab_facts *facts = &vocab->facts;
    if (!vocab->strips_right || !special->control || special->id == facts->bos ||
        special->id == facts->eos || places->span == places->end || places->span->begin > at)
        return 0;
    size_t end = places->span->end < length ? places->span->end : length, begin = at;
    while (at < end && (text[at] == ' ' || (text[at] >= 9 && text[at] <= 13)))
        at++;
    return at - begin;
}

static bool encode_all(struct encoding *encoding, const uint8_t *text, size_t length,
                       struct places places, bool prefix)
{
    const struct vocab *vocab = encoding->vocab;
    bool wants_prefix = vocab_strips_space(vocab);
    prefix = prefix && wants_prefix;
    for (size_t at = 0; at < length;) {
        size_t end;
        const struct special *found =
            find_special(&encoding->encoder->specials, &places, text, length, at, &end);
        /* The prefix comes before a text, which a user-defined token is a part of, and a control
         * token is not. */
        bool now = prefix && (end > at || (found && !found->control));
        if ((end > at || now) && !(vocab->spm ? encode_spm(encoding, text + at, end - at, at, now)
                                              : encode_bpe(encoding, text + at, end - at, at)))
            return false;
        prefix = prefix && !now;
        if (found) {
            append(encoding->tokens, &found->id, 1);
            end += found->length;
            end += taken_in(vocab, &places, found, text, length, end);
            prefix = prefix || (wants_prefix && found->control);
        }
        at = end;
    }
    return true;
}

/* Checks, and makes the encoder at the first text. */
static bool begin_encoding(struct encoding *encoding, const struct vocab *vocab, size_t length,
                           struct token_list *tokens, struct error *error)
{
    *encoding = (struct encoding){
        .vocab = vocab, .encoder = vocab->encoder, .tokens = tokens, .error = error};
    if (length > INT32_MAX)
        return error_set(error, STATUS_INPUT, "a text of %zu bytes is too long, the limit is %d",
                         length, INT32_MAX);
    return vocab->encoder->made || encoder_make(vocab, vocab->encoder, error);
}

bool vocab_encode(const struct vocab *vocab, const void *text, size_t length, unsigned flags,
                  struct token_list *tokens, struct error *error)
{
    struct encoding encoding;
    return begin_encoding(&encoding, vocab, length, tokens, error) &&
           encode_all(&encoding, text, length, (struct places){.control = flags & ENCODE_SPECIAL},
                      !(flags & ENCODE_CONTINUE));
}

bool vocab_encode_marked(const struct vocab *vocab, const void *text, size_t length,
                         const struct vocab_marks *marks, struct token_list *tokens,
                         struct error *error)
{
    struct encoding encoding;
    if (!begin_encoding(&encoding, vocab, length, tokens, error))
        return false;
    struct places places = {
        .marked = true, .span = marks->spans, .end = marks->spans + marks->n_spans};
    specials_mark(&vocab->encoder->specials, marks);
    bool good = encode_all(&encoding, text, length, places, true);
    specials_mark(&vocab->encoder->specials, NULL);
    return good;
}
