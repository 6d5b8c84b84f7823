/* A vocabulary as a trie of bytes, in the order in which it is walked.  Private to lib/grammar. */
#ifndef UNROLL_GRAMMAR_TRIE_H
#define UNROLL_GRAMMAR_TRIE_H

#include "grammar/grammar.h"

struct trie_node {
    uint32_t skip; /* the next node that is not beneath this one */
    uint32_t
        token; /* where the tokens that end here begin in `token`; up to those of the next node */
    uint16_t depth; /* bytes up to this node; 1: the first */
    uint8_t class;  /* of its byte, under the grammar */
};
struct trie {
    struct trie_node *node; /* (n_nodes + 1) */
    size_t n_nodes;
    uint32_t *token; /* ids in the order of their pieces */
    uint32_t n_tokens;
    size_t max_depth;
};

void trie_make(struct trie *trie, const struct grammar_vocabulary *vocabulary,
               const uint8_t class_of[256]);
void trie_free(struct trie *trie);

#endif
