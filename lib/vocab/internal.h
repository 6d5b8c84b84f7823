/* What the files of this folder share. */
#ifndef UNROLL_VOCAB_INTERNAL_H
#define UNROLL_VOCAB_INTERNAL_H

#include "vocab/vocab.h"

/* Arguments for "%.*s" of a text from a file. */
#define SHOW(string) ((string).length < 60 ? (int)(string).length : 60), (string).bytes

/* ---- the tokens as the file has them (tokens.c) -------------------------------------------- */

struct tokens {
    struct gguf_string *texts; /* (count), in the mapped file */
    uint8_t *kinds;            /* (count), enum token_kind */
    uint32_t count;            /* padding included */
    bool spm;                  /* tokenizer.ggml.model: "llama", else "gpt2" */
};
/* Reads tokens, kinds and the facts that follow from them; `pre` overrides tokenizer.ggml.pre. */
bool tokens_read(struct tokens *tokens, struct vocab_facts *facts, const struct gguf *gguf,
                 const char *pre, struct error *error);
void tokens_free(struct tokens *tokens);
/* The token that ends the assistant's turn in the model's own chat template (chat.c); VOCAB_NONE
 * where there is no such token or no template that is known. */
uint32_t chat_end_token(const struct gguf *gguf, const struct tokens *tokens, uint32_t n_tokens);

/* ---- pre-tokenisers (pre_table.c, pre.c) --------------------------------------------------- */

enum { PRE_MAX_PATTERNS = 7 };
enum pre_flags {
    PRE_IGNORE_MERGES =
        1,           /* a word that is a token is that token, whatever the merges make of it */
    PRE_ADD_BOS = 2, /* add_bos_token is true unless the file says otherwise */
    PRE_THREES = 4,  /* matches of the first pattern, digits, are cut into threes from their end */
};
struct pre_facts {
    const char *names;                      /* of tokenizer.ggml.pre, separated by spaces */
    const char *patterns[PRE_MAX_PATTERNS]; /* each splits what the ones before it left */
    unsigned flags;
    const char *source; /* where the fact is from */
};
/* NULL for a name that is not in the table. */
const struct pre_facts *pre_find(struct gguf_string name);

/* Compiled patterns, and what PCRE2 needs to match them. */
struct pre;
struct pre *pre_compile(const struct pre_facts *facts, struct error *error);
void pre_free(struct pre *pre);
/* Calls word(context, offset, length) for the words of a text that is valid UTF-8, in order;
 * together they are the whole text.  Stops when `word` returns false, and returns that. */
typedef bool pre_word(void *context, size_t offset, size_t length);
bool pre_split(struct pre *pre, const uint8_t *text, size_t length, pre_word *word, void *context,
               struct error *error);

/* ---- tables from bytes to numbers (table.h) ------------------------------------------------ */

struct table {
    uint64_t *slots; /* upper half of the hash, index + 1; 0: empty */
    uint64_t mask;
};

/* ---- merges of the byte-pair encoding (merges.c) ------------------------------------------- */

struct merge {
    uint32_t start;  /* in `bytes`: left and right side, one after the other */
    uint16_t left;   /* length of the left side */
    uint16_t length; /* of both */
};
struct merges {
    uint8_t *bytes;
    struct merge *items; /* the index is the rank: lower is earlier */
    uint32_t longest;
    struct table table;
};
bool merges_read(struct merges *merges, const struct gguf *gguf, struct error *error);
void merges_free(struct merges *merges);

/* ---- tokens that are found in the text before anything else (special.c) --------------------- */

struct special {
    const uint8_t *bytes;
    uint32_t length, id;
    bool control;
    bool mark; /* user-defined, and to be found only where control tokens are (encode_marked) */
};
struct specials {
    struct special *items; /* ascending bytes */
    size_t count;
    bool starts[2][256]; /* [control ones too?][first byte]: one can begin here */
    bool any[2];
};
void specials_make(struct specials *specials, const struct vocab *vocab);
void specials_free(struct specials *specials);
/* Says which user-defined tokens are marks: those that look like <this>, and those that occur in
 * the text of `marks`.  NULL: none is. */
void specials_mark(struct specials *specials, const struct vocab_marks *marks);
/* The longest special token that the text begins with; NULL when there is none.  `control`: control
 * tokens and marks too. */
const struct special *specials_match(const struct specials *specials, const uint8_t *text,
                                     size_t length, bool control);

/* ---- merging (merge.c) --------------------------------------------------------------------- */

struct symbol {        /* named by the place of its first byte */
    uint32_t next;     /* where it ends; 0: merged into the one before it */
    uint32_t previous; /* VOCAB_NONE for the first */
};
struct candidate {
    uint64_t key;  /* priority, then place: lower is earlier */
    uint32_t size; /* of the joined symbol, when it was proposed */
    uint32_t next; /* in its run */
};
struct queue { /* of candidates; see merge.c */
    struct candidate *items;
    size_t capacity, used;
    uint32_t vacant; /* list of items that can be used again */
    uint32_t *heap;  /* the first of each run, and those that are in none */
    size_t heap_capacity, n_heap;
    uint32_t *tails; /* the last of each run */
};
/* Memory that is used again for every word. */
struct workspace {
    struct symbol *symbols;
    size_t symbol_capacity;
    struct queue queue;
    uint32_t *lengths; /* of the symbols that merging left */
    size_t length_capacity, n_lengths;
    uint8_t *prefixed; /* SPM: the first word with the space before it */
    size_t prefixed_capacity;
};

/* ---- the vocabulary ------------------------------------------------------------------------ */

/* What only encoding needs; made at the first text, since most programs never encode. */
struct encoder {
    bool made;
    struct table table;        /* from the bytes of NORMAL tokens to their ids */
    uint32_t longest;          /* of those tokens */
    uint32_t byte_tokens[256]; /* VOCAB_NONE: that byte has none of its own */
    uint32_t *priorities;      /* (n_tokens), SPM: lower merges earlier */
    uint8_t *inside;           /* SPM: 64 Ki bits, see encoder_make */
    struct merges merges;      /* BPE */
    struct pre *pre;           /* BPE */
    bool ignore_merges;        /* BPE */
    struct specials specials;
    struct word *cache;
    struct workspace workspace;
};

struct vocab {
    struct vocab_facts facts;
    bool spm, add_space_prefix;
    bool strips_right; /* special tokens take in the white space after them, but for BOS and such */
    uint8_t *kinds;    /* (n_tokens) */
    uint8_t *pieces;   /* all one after the other */
    uint32_t *piece_ends; /* (n_tokens); piece i begins where piece i-1 ends */
    const struct gguf *gguf;
    const struct pre_facts *pre; /* BPE: what --pre says, or NULL */
    uint32_t n_all;              /* tokens with padding, as the arrays of the file have them */
    struct encoder *encoder;     /* filled in and changed by vocab_encode */
};

/* The bytes of any token, control tokens too. */
static inline const uint8_t *piece_of(const struct vocab *vocab, uint32_t id, size_t *length)
{
    uint32_t start = id ? vocab->piece_ends[id - 1] : 0;
    *length = vocab->piece_ends[id] - start;
    return vocab->pieces + start;
}

/* Decodes the byte-level alphabet (printable characters that stand for bytes) into `bytes`, which
 * has room for text.length.  Returns the length, or SIZE_MAX for a text that is not of it. */
size_t byte_level_decode(struct gguf_string text, uint8_t *bytes);

/* Fills in an encoder that is all zero; clearing makes it so again. */
bool encoder_make(const struct vocab *vocab, struct encoder *encoder, struct error *error);
void encoder_clear(struct encoder *encoder);

/* An empty cache of words (encode.c). */
struct word *cache_make(void);

/* The NORMAL token with these bytes, or VOCAB_NONE. */
uint32_t token_find(const struct vocab *vocab, const struct encoder *encoder, const uint8_t *bytes,
                    size_t length);

/* Merges the characters (SPM) or bytes (BPE) of a word until nothing more can be merged, and leaves
 * the lengths of the symbols, in order, in the workspace. */
void merge_word(const struct vocab *vocab, struct encoder *encoder, const uint8_t *word,
                size_t length);

#endif
