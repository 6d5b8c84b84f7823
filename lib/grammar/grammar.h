/* grammar: what may come next.  A grammar (GBNF, or a JSON Schema) becomes an automaton over bytes;
 * a matcher follows a text through it and says which tokens of a vocabulary may go on with it.
 *
 * Everything works on bytes: a character may span tokens, and a token may hold many characters.
 * Nothing here depends on a model: the vocabulary is a list of pieces of bytes. */
#ifndef UNROLL_GRAMMAR_H
#define UNROLL_GRAMMAR_H

#include "base/base.h"

/* ---- grammars (gbnf.c, schema.c) ----------------------------------------------------------- */

/* Immutable once it is made; may be shared by matchers. */
struct grammar;

/* GBNF, the notation of llama.cpp; constrain(1) is its definition for users.  `name` stands for the
 * text in messages: "NAME:LINE: rule 'x': ...".  NULL on error: a text that is not GBNF, no rule
 * `root`, a rule that is used and not defined, left recursion, a rule that can match no text of
 * finite length. */
struct grammar *grammar_parse(const char *text, size_t length, const char *name,
                              struct error *error);

/* The texts of JSON values that a JSON Schema (draft 2020-12, the subset of constrain(1)) allows,
 * or some of them: what is left out is listed there.  NULL on error: text that is not JSON, and
 * every keyword that would constrain the value and is not supported, by its name and place. */
struct grammar *grammar_from_schema(const char *text, size_t length, const char *name,
                                    struct error *error);

/* Any JSON value: the schema `true`. */
struct grammar *grammar_of_json(void);

void grammar_free(struct grammar *grammar);

/* ---- following a text (matcher.c) ---------------------------------------------------------- */

/* A vocabulary as bytes.  A piece of length 0 is never allowed. */
struct grammar_vocabulary {
    const char *const *piece; /* (n_tokens) */
    const uint32_t *length;   /* (n_tokens) bytes of each piece */
    uint32_t n_tokens;
    const uint32_t *
        eog; /* (n_eog) tokens that end a text: allowed where the grammar may end, and only there */
    size_t n_eog;
};

/* A grammar, a vocabulary, and what was found out about them so far: configurations of the
 * automaton, their transitions and their masks, made when they are first needed.  One thread at a
 * time. */
struct grammar_matcher;

/* The pieces are copied. */
struct grammar_matcher *grammar_matcher_new(const struct grammar *grammar,
                                            const struct grammar_vocabulary *vocabulary);
void grammar_matcher_free(struct grammar_matcher *matcher);

/* Bytes that the matcher may keep, for configurations and for masks (defaults: 64 MB each).  What
 * exceeds them is thrown away and made again when it is needed; the current states are kept. */
void grammar_matcher_limit(struct grammar_matcher *matcher, size_t configurations, size_t masks);

/* A place in a text that is being followed.  To be freed before its matcher. */
struct grammar_state;
struct grammar_state *grammar_state_new(struct grammar_matcher *matcher); /* at the beginning */
void grammar_state_free(struct grammar_state *state);
/* Back to the beginning. */
void grammar_restart(struct grammar_state *state);

/* Goes on by `length` bytes; returns how many of them the grammar allows.  When these are fewer,
 * the state is that before the first one that is not allowed. */
size_t grammar_advance(struct grammar_state *state, const void *bytes, size_t length);

/* Whether the text may end here. */
bool grammar_may_end(const struct grammar_state *state);

/* The tokens that may come next: bit i % 64 of word i / 64 is token i; (n_tokens + 63) / 64 words,
 * valid until the next call for this matcher.  *n_allowed (may be NULL) is their number: 0 is a
 * dead end. */
const uint64_t *grammar_mask(struct grammar_state *state, uint32_t *n_allowed);

/* What may come next as bytes, for messages: `'"', '0'-'9' or the end`. */
void grammar_expected(struct grammar_state *state, char *text, size_t size);

/* Nested so deep that the matcher did not follow: GRAMMAR_MAX_DEPTH calls of rules and repetitions
 * that are not finished.  What nests deeper is not allowed; this tells the reason. */
#define GRAMMAR_MAX_DEPTH 4096
bool grammar_was_too_deep(const struct grammar_matcher *matcher);

/* What was done, for tests and benchmarks: they count work, not time. */
struct grammar_work {
    uint64_t configurations; /* of the automaton that were made */
    uint64_t steps;          /* items that were followed to make them */
    uint64_t masks;          /* that were computed */
    uint64_t collections;    /* times that the limit was reached */
};
struct grammar_work grammar_work_of(const struct grammar_matcher *matcher);

#endif
