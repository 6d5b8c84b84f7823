/* vocab: text to tokens and back, from the tokenizer.ggml.* metadata of a GGUF file. */
#ifndef UNROLL_VOCAB_H
#define UNROLL_VOCAB_H

#include "base/base.h"
#include "gguf/gguf.h"

#define VOCAB_NONE UINT32_MAX /* no such token */

enum token_kind { /* numbered as tokenizer.ggml.token_type */
                  TOKEN_NORMAL = 1,
                  TOKEN_UNKNOWN = 2,
                  TOKEN_CONTROL = 3,
                  TOKEN_USER_DEFINED = 4,
                  TOKEN_UNUSED = 5,
                  TOKEN_BYTE = 6,
};

/* What the stages that hold no text need to know of a vocabulary; cheap to make (no merges). */
struct vocab_facts {
    uint32_t n_tokens;    /* ids with text: the last run of UNUSED tokens is padding, not counted */
    uint32_t fingerprint; /* CRC-32 over the texts of ids 0..n_tokens-1: u32 length, bytes */
    uint32_t bos;         /* VOCAB_NONE: the model has none */
    uint32_t eos;         /* the same */
    bool add_bos;         /* the model wants it before a text */
    uint32_t *eog;        /* end-of-generation set, ascending */
    size_t n_eog;
};
bool vocab_facts(struct vocab_facts *facts, const struct gguf *gguf, struct error *error);
void vocab_facts_free(struct vocab_facts *facts);

struct vocab;
/* pre: overrides tokenizer.ggml.pre; NULL: as the file says.  NULL on error.  What only encoding
 * needs (merges, scores, a pre-tokeniser that is known) is read and checked when the first text is
 * encoded: most programs only print.  So the GGUF file must stay open as long as the vocabulary. */
struct vocab *vocab_open(const struct gguf *gguf, const char *pre, struct error *error);
void vocab_close(struct vocab *vocab);
const struct vocab_facts *vocab_facts_of(const struct vocab *vocab);
enum token_kind vocab_kind(const struct vocab *vocab, uint32_t id);

/* Growing list of ids. */
struct token_list {
    uint32_t *ids;
    size_t count, capacity;
};

enum vocab_encode_flags {
    ENCODE_SPECIAL = 1,  /* texts of control tokens in the text become them; those of user-defined
                          * tokens (added words, runs of spaces) always do */
    ENCODE_CONTINUE = 2, /* the text goes on after other text: no prefix space */
};
/* Appends the ids of any bytes (BOS is the caller's business).  Fails where the vocabulary's
 * encoding metadata are missing, wrong or of an unknown kind, or where a vocabulary without byte
 * tokens cannot express the text: then the error names the byte and its offset.  One thread at a
 * time. */
bool vocab_encode(const struct vocab *vocab, const void *text, size_t length, unsigned flags,
                  struct token_list *tokens, struct error *error);

/* Where in a text special tokens may be found: in what a template wrote, not in what a person
 * did.  The text between special tokens is one text all the same, as the models were trained. */
struct vocab_span {
    size_t begin, end;
};
struct vocab_marks {
    struct vocab_span *spans; /* ascending, apart */
    size_t n_spans;
    char *text; /* the template: what is user-defined and occurs in it is found in the spans only */
};
/* As vocab_encode.  Control tokens are found inside the spans only, as are user-defined tokens
 * that the template uses or that look like <this>; other user-defined ones everywhere.
 * White space after a token that takes it in (Phi-3) is left out inside a span. */
bool vocab_encode_marked(const struct vocab *vocab, const void *text, size_t length,
                         const struct vocab_marks *marks, struct token_list *tokens,
                         struct error *error);

/* The bytes that a token stands for: length, *bytes pointing into the vocabulary.  Control tokens
 * and ids without text have none unless `special`, when control tokens give their text.  SPM pieces
 * keep their leading space here; the one that the tokenizer put before a text is dropped by the
 * detokenizer below. */
size_t vocab_piece(const struct vocab *vocab, uint32_t id, bool special, const char **bytes);

/* Whether a text that is printed from its first token on loses one leading space (SPM's prefix). */
bool vocab_strips_space(const struct vocab *vocab);

#endif
