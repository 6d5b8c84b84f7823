/* The automaton at work.  A configuration is a set of stacks with states that wait for a byte on
 * top: all ways in which the text so far can be understood.  Configurations, their transitions and
 * their masks are made when they are first needed, so a text that goes where another went costs a
 * look-up a byte. */
#include "grammar/stacks.h"
#include "grammar/trie.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_LIMIT ((size_t)64 << 20)
#define NOT_KNOWN     UINT32_MAX
#define NO_MASK       UINT32_MAX

enum { DEAD = 0 }; /* configuration of no stacks */

struct configuration {
    uint32_t set;
    uint32_t mask; /* slot, or NO_MASK */
    bool may_end;
};

struct mask {
    uint64_t *bits;
    uint32_t n_allowed;
    uint32_t owner; /* configuration; NOT_KNOWN: none */
    bool used;      /* since the hand passed */
};

struct grammar_matcher {
    const struct grammar *grammar;
    struct trie trie;
    uint32_t n_tokens;
    size_t n_words; /* of a mask */
    uint32_t *eog;
    size_t n_eog;

    struct stacks stacks;
    struct configuration *configuration;
    size_t n_configurations, configurations_capacity;
    uint32_t *next; /* (n_configurations, n_classes) */
    size_t next_capacity;
    uint32_t *of_set; /* configuration of each set; NOT_KNOWN */
    size_t n_of_set, of_set_capacity;
    uint32_t start;

    struct mask *mask;
    size_t n_masks, masks_capacity, masks_limit, hand;
    size_t limit;   /* bytes of stacks and configurations */
    uint32_t *path; /* (max_depth + 1) configurations on the way through the trie */

    /* what a transition has reached */
    uint32_t *stamp, *reached; /* by state: of this round; the set of stacks beneath it */
    uint32_t *pending;         /* by state: what of them was not followed yet */
    uint32_t round;
    uint32_t *todo; /* states with something pending: a heap, the least rank first */
    size_t n_todo, todo_capacity;
    uint32_t *waiting; /* states that wait for a byte */
    size_t n_waiting, waiting_capacity;
    struct pair *pairs;
    size_t pairs_capacity;
    bool may_end, too_deep;

    struct grammar_state *states; /* all that were not freed */
    struct grammar_work work;
};

struct grammar_state {
    struct grammar_matcher *matcher;
    uint32_t configuration;
    struct grammar_state *next, *previous;
};

/* ---- following states that take no byte ---------------------------------------------------- */

static bool precedes(const struct grammar_matcher *m, uint32_t a, uint32_t b)
{
    return m->grammar->state[a].rank < m->grammar->state[b].rank;
}

static void todo_put(struct grammar_matcher *m, uint32_t state)
{
    m->todo = grow(m->todo, &m->todo_capacity, m->n_todo + 1, sizeof *m->todo);
    size_t at = m->n_todo++;
    for (; at > 0 && precedes(m, state, m->todo[(at - 1) / 2]); at = (at - 1) / 2)
        m->todo[at] = m->todo[(at - 1) / 2];
    m->todo[at] = state;
}

static uint32_t todo_take(struct grammar_matcher *m)
{
    uint32_t first = m->todo[0], last = m->todo[--m->n_todo];
    size_t at = 0, child;
    for (; (child = 2 * at + 1) < m->n_todo; at = child) {
        if (child + 1 < m->n_todo && precedes(m, m->todo[child + 1], m->todo[child]))
            child++;
        if (!precedes(m, m->todo[child], last))
            break;
        m->todo[at] = m->todo[child];
    }
    m->todo[at] = last;
    return first;
}

/* Reaches a state with these stacks beneath; what was there already is not followed again.  States
 * are followed in the order of their ranks, so that a state has all its stacks before it is: else
 * an ambiguous grammar would have it followed for each way that leads to it. */
static void reach(struct grammar_matcher *m, uint32_t state, uint32_t rest)
{
    m->work.steps++;
    if (rest == NO_STACKS || state == NOWHERE)
        return;
    bool first = m->stamp[state] != m->round;
    uint32_t all = first ? rest : stacks_union(&m->stacks, m->reached[state], rest);
    if (!first && all == m->reached[state])
        return;
    m->stamp[state] = m->round;
    m->reached[state] = all;
    if (m->grammar->state[state].kind != STATE_BYTES) {
        if (m->pending[state] == NO_STACKS)
            todo_put(m, state);
        m->pending[state] = stacks_union(&m->stacks, m->pending[state], rest);
    } else if (first) {
        m->waiting = grow(m->waiting, &m->waiting_capacity, m->n_waiting + 1, sizeof *m->waiting);
        m->waiting[m->n_waiting++] = state;
    }
}

static uint32_t push(struct grammar_matcher *m, uint32_t state, uint32_t count, uint32_t rest)
{
    if (m->stacks.set[rest].depth >= GRAMMAR_MAX_DEPTH) {
        m->too_deep = true;
        return NO_STACKS;
    }
    return stacks_push(&m->stacks, state, count, rest);
}

/* Whoever ends a rule or a last round by its last step leaves nothing on the stack: recursion at
 * the end of a rule is a loop. */
static uint32_t push_return(struct grammar_matcher *m, uint32_t state, uint32_t rest)
{
    return state == THE_END ? rest : push(m, state, 0, rest);
}

/* Repetitions of one state after 0 rounds (n = 1, count 0), or after those of n pairs: all go into
 * the body at once, since an ambiguous body has many counts. */
static void repeat(struct grammar_matcher *m, uint32_t state, const struct pair *pairs, uint32_t n)
{
    const struct state *s = &m->grammar->state[state];
    struct pair *rounds = allocate(n, sizeof *rounds);
    uint32_t n_rounds = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t done = pairs[i].count, rest = pairs[i].rest;
        if (done + 1 < s->high && m->stacks.set[rest].depth < GRAMMAR_MAX_DEPTH)
            rounds[n_rounds++] = (struct pair){state, done + 1, rest};
        else if (done + 1 < s->high)
            m->too_deep = true;
        else if (done < s->high)
            reach(m, s->a, push_return(m, s->next, rest));
        if (done >= s->low)
            reach(m, s->next, rest);
    }
    if (n_rounds)
        reach(m, s->a, stacks_set(&m->stacks, rounds, n_rounds));
    free(rounds);
}

static void return_to(struct grammar_matcher *m, uint32_t set)
{
    const struct stack_set from = m->stacks.set[set];
    struct pair *pairs = allocate(from.n, sizeof *pairs); /* the set's own may move */
    memcpy(pairs, m->stacks.pair + from.first, from.n * sizeof *pairs);
    for (uint32_t i = 0, n; i < from.n; i += n) {
        for (n = 1; pairs[i].count > 0 && i + n < from.n && pairs[i + n].state == pairs[i].state;)
            n++;
        if (pairs[i].state == BOTTOM)
            m->may_end = true;
        else if (pairs[i].count > 0)
            repeat(m, pairs[i].state, pairs + i, n);
        else
            reach(m, pairs[i].state, pairs[i].rest);
    }
    free(pairs);
}

static void follow(struct grammar_matcher *m)
{
    while (m->n_todo > 0) {
        uint32_t state = todo_take(m), rest = m->pending[state];
        const struct state *s = &m->grammar->state[state];
        m->pending[state] = NO_STACKS;
        switch (s->kind) {
        case STATE_END:
            return_to(m, rest);
            break;
        case STATE_CHOICE:
            reach(m, s->a, rest);
            reach(m, s->next, rest);
            break;
        case STATE_CALL:
            reach(m, s->a, push_return(m, s->next, rest));
            break;
        case STATE_REPEAT:
            repeat(m, state, &(struct pair){state, 0, rest}, 1);
            break;
        }
    }
}

static void begin_round(struct grammar_matcher *m)
{
    if (++m->round == 0) {
        memset(m->stamp, 0, m->grammar->n_states * sizeof *m->stamp);
        m->round = 1;
    }
    m->n_waiting = 0;
    m->may_end = false;
}

/* ---- configurations ------------------------------------------------------------------------ */

static uint32_t configuration_of(struct grammar_matcher *m, uint32_t set, bool may_end)
{
    size_t n_classes = m->grammar->n_classes;
    m->of_set = grow(m->of_set, &m->of_set_capacity, m->stacks.n_sets, sizeof *m->of_set);
    while (m->n_of_set < m->stacks.n_sets)
        m->of_set[m->n_of_set++] = NOT_KNOWN;
    if (m->of_set[set] != NOT_KNOWN)
        return m->of_set[set];
    uint32_t c = (uint32_t)m->n_configurations++;
    m->configuration = grow(m->configuration, &m->configurations_capacity, m->n_configurations,
                            sizeof *m->configuration);
    m->configuration[c] = (struct configuration){set, NO_MASK, may_end};
    m->next = grow(m->next, &m->next_capacity, m->n_configurations * n_classes, sizeof *m->next);
    memset(m->next + c * n_classes, 0xff, n_classes * sizeof *m->next);
    m->of_set[set] = c;
    m->work.configurations++;
    return c;
}

static int by_number(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* What the round has reached. */
static uint32_t end_round(struct grammar_matcher *m)
{
    follow(m);
    if (m->n_waiting > 1)
        qsort(m->waiting, m->n_waiting, sizeof *m->waiting, by_number);
    m->pairs = grow(m->pairs, &m->pairs_capacity, m->n_waiting + 1, sizeof *m->pairs);
    size_t n = 0;
    for (; n < m->n_waiting; n++)
        m->pairs[n] = (struct pair){m->waiting[n], 0, m->reached[m->waiting[n]]};
    if (m->may_end)
        m->pairs[n++] = (struct pair){BOTTOM, 0, NO_STACKS};
    return configuration_of(m, stacks_set(&m->stacks, m->pairs, n), m->may_end);
}

/* Whether two classes of bytes are the same to every state that waits in a set. */
static bool are_alike(const struct grammar_matcher *m, struct stack_set set, uint8_t a, uint8_t b)
{
    const struct grammar *g = m->grammar;
    for (uint32_t i = 0; i < set.n; i++) {
        uint32_t state = m->stacks.pair[set.first + i].state;
        const struct byte_set *classes = state == BOTTOM ? NULL : &g->classes[g->state[state].a];
        if (classes && set_has(classes, a) != set_has(classes, b))
            return false;
    }
    return true;
}

/* For all classes that are alike at once: most are, within a string. */
static uint32_t make_transition(struct grammar_matcher *m, uint32_t c, uint8_t class)
{
    const struct grammar *g = m->grammar;
    const struct stack_set set = m->stacks.set[m->configuration[c].set];
    begin_round(m);
    for (uint32_t i = 0; i < set.n; i++) {
        struct pair pair = m->stacks.pair[set.first + i];
        if (pair.state != BOTTOM && set_has(&g->classes[g->state[pair.state].a], class))
            reach(m, g->state[pair.state].next, pair.rest);
    }
    uint32_t next = end_round(m), *row = m->next + (size_t)c * g->n_classes;
    row[class] = next;
    for (uint32_t k = 0; k < g->n_classes; k++)
        if (row[k] == NOT_KNOWN && are_alike(m, set, class, (uint8_t)k))
            row[k] = next;
    return next;
}

static inline uint32_t transition(struct grammar_matcher *m, uint32_t c, uint8_t class)
{
    uint32_t next = m->next[(size_t)c * m->grammar->n_classes + class];
    return next != NOT_KNOWN ? next : make_transition(m, c, class);
}

/* The two configurations that are always there. */
static void make_first(struct grammar_matcher *m)
{
    configuration_of(m, NO_STACKS, false);
    begin_round(m);
    reach(m, m->grammar->start, ONE_EMPTY_STACK);
    m->start = end_round(m);
}

/* ---- the limit ----------------------------------------------------------------------------- */

static size_t bytes_held(const struct grammar_matcher *m)
{
    return stacks_bytes(&m->stacks) + m->n_of_set * sizeof *m->of_set +
           m->n_configurations *
               (sizeof *m->configuration + m->grammar->n_classes * sizeof *m->next);
}

/* The same set among the stacks of m, from those of `old`; `moved` has what was taken over, + 1. */
static uint32_t take_over(struct grammar_matcher *m, const struct stacks *old, uint32_t set,
                          uint32_t *moved)
{
    if (set <= ONE_EMPTY_STACK)
        return set;
    if (moved[set])
        return moved[set] - 1;
    const struct stack_set *from = &old->set[set];
    struct pair *pairs = allocate(from->n + 1, sizeof *pairs);
    for (uint32_t i = 0; i < from->n; i++) {
        pairs[i] = old->pair[from->first + i];
        pairs[i].rest =
            pairs[i].state == BOTTOM ? NO_STACKS : take_over(m, old, pairs[i].rest, moved);
    }
    uint32_t made = stacks_set(&m->stacks, pairs, from->n);
    free(pairs);
    moved[set] = made + 1;
    return made;
}

static void forget_masks(struct grammar_matcher *m)
{
    for (size_t i = 0; i < m->n_masks; i++)
        m->mask[i].owner = NOT_KNOWN;
}

/* Throws away everything but the configurations of the current states. */
static void collect(struct grammar_matcher *m)
{
    struct stacks old = m->stacks;
    struct configuration *were = m->configuration;
    uint32_t *moved = allocate(old.n_sets, sizeof *moved);
    stacks_init(&m->stacks);
    m->configuration = NULL;
    m->configurations_capacity = m->n_configurations = m->n_of_set = 0;
    make_first(m);
    for (struct grammar_state *state = m->states; state; state = state->next) {
        struct configuration was = were[state->configuration];
        state->configuration = configuration_of(m, take_over(m, &old, was.set, moved), was.may_end);
    }
    forget_masks(m);
    free(moved);
    free(were);
    stacks_free(&old);
    m->work.collections++;
}

/* Between two questions, never within one.  What the current states need may be more than the
 * limit: then that is collected again only when it has doubled. */
static void keep_limit(struct grammar_matcher *m)
{
    if (bytes_held(m) <= m->limit)
        return;
    collect(m);
    if (2 * bytes_held(m) > m->limit)
        m->limit = 2 * bytes_held(m);
}

/* ---- matchers and states ------------------------------------------------------------------- */

struct grammar_matcher *grammar_matcher_new(const struct grammar *grammar,
                                            const struct grammar_vocabulary *v)
{
    struct grammar_matcher *m = allocate(1, sizeof *m);
    m->grammar = grammar;
    m->n_tokens = v->n_tokens;
    m->n_words = ((size_t)v->n_tokens + 63) / 64;
    m->eog = allocate(v->n_eog + 1, sizeof *m->eog);
    for (size_t i = 0; i < v->n_eog; i++)
        if (v->eog[i] < v->n_tokens)
            m->eog[m->n_eog++] = v->eog[i];
    trie_make(&m->trie, v, grammar->class_of);
    m->path = allocate(m->trie.max_depth + 1, sizeof *m->path);
    m->stamp = allocate(grammar->n_states, sizeof *m->stamp);
    m->reached = allocate(grammar->n_states, sizeof *m->reached);
    m->pending = allocate(grammar->n_states, sizeof *m->pending);
    grammar_matcher_limit(m, DEFAULT_LIMIT, DEFAULT_LIMIT);
    stacks_init(&m->stacks);
    make_first(m);
    return m;
}

void grammar_matcher_limit(struct grammar_matcher *m, size_t configurations, size_t masks)
{
    size_t n = masks / ((m->n_words + 1) * sizeof(uint64_t));
    m->limit = configurations;
    m->masks_limit = n > 2 ? n : 2;
}

void grammar_matcher_free(struct grammar_matcher *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_masks; i++)
        free(m->mask[i].bits);
    trie_free(&m->trie);
    stacks_free(&m->stacks);
    free(m->eog);
    free(m->configuration);
    free(m->next);
    free(m->of_set);
    free(m->mask);
    free(m->path);
    free(m->stamp);
    free(m->reached);
    free(m->pending);
    free(m->todo);
    free(m->waiting);
    free(m->pairs);
    free(m);
}

struct grammar_state *grammar_state_new(struct grammar_matcher *m)
{
    struct grammar_state *state = allocate(1, sizeof *state);
    *state = (struct grammar_state){.matcher = m, .configuration = m->start, .next = m->states};
    if (m->states)
        m->states->previous = state;
    m->states = state;
    return state;
}

void grammar_state_free(struct grammar_state *state)
{
    if (!state)
        return;
    if (state->next)
        state->next->previous = state->previous;
    if (state->previous)
        state->previous->next = state->next;
    else
        state->matcher->states = state->next;
    free(state);
}

void grammar_restart(struct grammar_state *state)
{
    state->configuration = state->matcher->start;
}

size_t grammar_advance(struct grammar_state *state, const void *bytes, size_t length)
{
    struct grammar_matcher *m = state->matcher;
    const uint8_t *at = bytes;
    for (size_t i = 0; i < length; i++) {
        keep_limit(m);
        uint32_t next = transition(m, state->configuration, m->grammar->class_of[at[i]]);
        if (next == DEAD)
            return i;
        state->configuration = next;
    }
    return length;
}

bool grammar_may_end(const struct grammar_state *state)
{
    return state->matcher->configuration[state->configuration].may_end;
}

bool grammar_was_too_deep(const struct grammar_matcher *m)
{
    return m->too_deep;
}

struct grammar_work grammar_work_of(const struct grammar_matcher *m)
{
    return m->work;
}

/* ---- masks --------------------------------------------------------------------------------- */

/* A mask for a configuration: a new one, or one that was not asked for since the hand last passed.
 */
static struct mask *mask_for(struct grammar_matcher *m, uint32_t c)
{
    uint32_t slot;
    if (m->n_masks < m->masks_limit) {
        slot = (uint32_t)m->n_masks;
        m->mask = grow(m->mask, &m->masks_capacity, m->n_masks + 1, sizeof *m->mask);
        m->mask[m->n_masks++] =
            (struct mask){.bits = allocate(m->n_words + 1, sizeof(uint64_t)), .owner = NOT_KNOWN};
    } else {
        while (m->mask[m->hand].used && m->mask[m->hand].owner != NOT_KNOWN) {
            m->mask[m->hand].used = false;
            m->hand = (m->hand + 1) % m->n_masks;
        }
        slot = (uint32_t)m->hand;
        m->hand = (m->hand + 1) % m->n_masks;
    }
    struct mask *mask = &m->mask[slot];
    if (mask->owner != NOT_KNOWN)
        m->configuration[mask->owner].mask = NO_MASK;
    mask->owner = c;
    m->configuration[c].mask = slot;
    return mask;
}

/* Through the trie: where a byte cannot follow, everything beneath is passed over. */
static void compute_mask(struct grammar_matcher *m, uint32_t c, struct mask *mask)
{
    const struct trie *t = &m->trie;
    memset(mask->bits, 0, m->n_words * sizeof *mask->bits);
    m->path[0] = c;
    for (size_t i = 0; i < t->n_nodes;) {
        const struct trie_node *node = &t->node[i];
        uint32_t next = transition(m, m->path[node->depth - 1], node->class);
        if (next == DEAD) {
            i = node->skip;
            continue;
        }
        m->path[node->depth] = next;
        for (uint32_t k = node->token; k < node[1].token; k++)
            mask->bits[t->token[k] / 64] |= (uint64_t)1 << (t->token[k] % 64);
        i++;
    }
    for (size_t i = 0; i < m->n_eog; i++) {
        uint64_t bit = (uint64_t)1 << (m->eog[i] % 64), *word = &mask->bits[m->eog[i] / 64];
        *word = m->configuration[c].may_end ? *word | bit : *word & ~bit;
    }
    mask->n_allowed = 0;
    for (size_t i = 0; i < m->n_words; i++)
        mask->n_allowed += (uint32_t)__builtin_popcountll(mask->bits[i]);
    m->work.masks++;
}

const uint64_t *grammar_mask(struct grammar_state *state, uint32_t *n_allowed)
{
    struct grammar_matcher *m = state->matcher;
    keep_limit(m);
    uint32_t c = state->configuration;
    struct mask *mask;
    if (m->configuration[c].mask == NO_MASK) {
        mask = mask_for(m, c);
        compute_mask(m, c, mask);
    } else {
        mask = &m->mask[m->configuration[c].mask];
    }
    mask->used = true;
    if (n_allowed)
        *n_allowed = mask->n_allowed;
    return mask->bits;
}

/* ---- messages ------------------------------------------------------------------------------ */

static size_t put_byte(char *text, size_t size, unsigned byte)
{
    int n = byte >= 0x20 && byte < 0x7f ? snprintf(text, size, "'%c'", (int)byte)
                                        : snprintf(text, size, "\\x%02x", byte);
    return (size_t)n;
}

void grammar_expected(struct grammar_state *state, char *text, size_t size)
{
    struct grammar_matcher *m = state->matcher;
    size_t length = 0;
    bool follows[257] = {false};
    for (unsigned i = 0; i < 256; i++)
        follows[i] = transition(m, state->configuration, m->grammar->class_of[i]) != DEAD;
    text[0] = 0;
    for (unsigned i = 0, end; i < 256; i = end) {
        for (end = i + 1; follows[i] && follows[end]; end++)
            ;
        if (!follows[i])
            continue;
        if (length + 40 > size) {
            snprintf(text + length, size - length, " ...");
            return;
        }
        length += (size_t)snprintf(text + length, size - length, "%s", length ? ", " : "");
        length += put_byte(text + length, size - length, i);
        if (end > i + 1) {
            length +=
                (size_t)snprintf(text + length, size - length, "%s", end > i + 2 ? "-" : ", ");
            length += put_byte(text + length, size - length, end - 1);
        }
    }
    if (grammar_may_end(state))
        snprintf(text + length, size - length, "%s", length ? " or the end" : "the end");
}
