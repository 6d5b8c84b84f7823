/* Sets of stacks, each made once.  Private to lib/grammar.
 *
 * A stack says where to go on when the rule that is being matched ends, and so on outwards.  A set
 * of them is a list of pairs: what is on top, and the set of what is beneath it, so stacks with a
 * common top are one pair.  It is a tree of stacks read from the top; since equal sets are one, it
 * is a graph whose size grows by what a byte adds, however many stacks an ambiguous grammar has.
 * (After the graph-structured stack of Tomita, "An efficient augmented-context-free parsing
 * algorithm", Computational Linguistics 13, 1987.) */
#ifndef UNROLL_GRAMMAR_STACKS_H
#define UNROLL_GRAMMAR_STACKS_H

#include "grammar/internal.h"

#define BOTTOM UINT32_MAX /* as a top: there is nothing more to do */

struct pair {
    uint32_t state;
    uint32_t count; /* 0: go on at the state.  n: the state is a repetition whose n-th round is
                       going on */
    uint32_t rest;  /* set of what is beneath */
};
struct stack_set {
    size_t first;
    uint32_t n;
    uint32_t depth; /* of the deepest stack */
};
enum { NO_STACKS = 0, ONE_EMPTY_STACK = 1 };

struct stacks {
    struct pair *pair;
    size_t n_pairs, pairs_capacity;
    struct stack_set *set;
    size_t n_sets, sets_capacity;
    uint32_t *slot; /* set + 1 by its pairs; 0: free */
    size_t n_slots;
    struct merged {
        uint32_t a, b, both; /* both + 1; 0: free */
    } * merged;              /* unions that were made */
    size_t merged_size, n_merged;
    struct pair *scratch;
    size_t scratch_used, scratch_capacity;
};

void stacks_init(struct stacks *s);
void stacks_free(struct stacks *s);
size_t stacks_bytes(const struct stacks *s);

/* The set of these pairs, which ascend by state and count. */
uint32_t stacks_set(struct stacks *s, const struct pair *pairs, size_t n);
/* `rest` with one more on top of each. */
uint32_t stacks_push(struct stacks *s, uint32_t state, uint32_t count, uint32_t rest);
uint32_t stacks_union(struct stacks *s, uint32_t a, uint32_t b);

#endif
