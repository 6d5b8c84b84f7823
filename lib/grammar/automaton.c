/* Expressions to states.  What an expression becomes depends on the state that follows it, so
 * states are made from the end of a text to its beginning, and those of one expression before one
 * state are made once. */
#include "grammar/internal.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STATES (1u << 23)

struct assembly {
    struct builder *b;
    struct grammar *g;
    struct made {
        expression e;
        uint32_t next, state; /* state + 1; 0: free */
    } * made;                 /* hash table */
    size_t size, used;
    uint32_t
        *begin; /* of each rule, + 1: a CHOICE whose parts are both the first state of its body */
    size_t begin_capacity;
    uint32_t *todo; /* rules that are called and not built */
    size_t n_todo, todo_capacity;
    bool too_large;
};

static uint32_t build(struct assembly *a, expression e, uint32_t next);

static struct made *slot_of(struct assembly *a, expression e, uint32_t next)
{
    size_t slot =
        (size_t)((e * 0x9E3779B97F4A7C15u ^ next * 0xC2B2AE3D27D4EB4Fu) >> 20) & (a->size - 1);
    while (a->made[slot].state && (a->made[slot].e != e || a->made[slot].next != next))
        slot = (slot + 1) & (a->size - 1);
    return &a->made[slot];
}

static void remember(struct assembly *a, expression e, uint32_t next, uint32_t state)
{
    if (2 * (a->used + 1) > a->size) {
        struct made *old = a->made;
        size_t old_size = a->size;
        a->size = old_size ? 2 * old_size : 1024;
        a->made = allocate(a->size, sizeof *a->made);
        for (size_t i = 0; i < old_size; i++)
            if (old[i].state)
                *slot_of(a, old[i].e, old[i].next) = old[i];
        free(old);
    }
    *slot_of(a, e, next) = (struct made){e, next, state + 1};
    a->used++;
}

static bool recall(struct assembly *a, expression e, uint32_t next, uint32_t *state)
{
    struct made *made = a->size ? slot_of(a, e, next) : NULL;
    if (!made || !made->state)
        return false;
    *state = made->state - 1;
    return true;
}

static uint32_t add_state(struct assembly *a, struct state state)
{
    struct grammar *g = a->g;
    if (g->n_states >= MAX_STATES) {
        a->too_large = true;
        return NOWHERE;
    }
    g->state = grow(g->state, &g->states_capacity, g->n_states + 1, sizeof *g->state);
    g->state[g->n_states] = state;
    return (uint32_t)g->n_states++;
}

/* The state where a rule begins, to be filled in when its body is built. */
static uint32_t beginning_of(struct assembly *a, uint32_t rule)
{
    size_t had = a->begin_capacity;
    a->begin = grow(a->begin, &a->begin_capacity, (size_t)rule + 1, sizeof *a->begin);
    if (a->begin_capacity > had)
        memset(a->begin + had, 0, (a->begin_capacity - had) * sizeof *a->begin);
    if (!a->begin[rule]) {
        a->begin[rule] =
            add_state(a, (struct state){.kind = STATE_CHOICE, .a = NOWHERE, .next = NOWHERE}) + 1;
        a->todo = grow(a->todo, &a->todo_capacity, a->n_todo + 1, sizeof *a->todo);
        a->todo[a->n_todo++] = rule;
    }
    return a->begin[rule] - 1;
}

/* As long as the list goes on and its rest was not built before this state: from its end to its
 * beginning. */
static uint32_t build_list(struct assembly *a, expression e, uint32_t next)
{
    const struct builder *b = a->b;
    uint8_t kind = b->node[e].kind;
    expression *list = NULL;
    size_t n = 0, capacity = 0;
    uint32_t state;
    bool known = false;
    while (b->node[e].kind == kind && !(known = recall(a, e, next, &state))) {
        list = grow(list, &capacity, n + 1, sizeof *list);
        list[n++] = e;
        e = b->node[e].b;
    }
    if (!known)
        state = build(a, e, next);
    while (n > 0) {
        e = list[--n];
        if (kind == KIND_SEQUENCE)
            state = build(a, b->node[e].a, state);
        else
            state = add_state(a, (struct state){.kind = STATE_CHOICE,
                                                .a = build(a, b->node[e].a, next),
                                                .next = state});
        remember(a, e, next, state);
    }
    free(list);
    return state;
}

/* A body that may be empty is repeated without its empty text: then a round always takes a byte,
 * and a count that was reached without one says nothing that a lower one does not. */
static uint32_t build_repeat(struct assembly *a, expression e, uint32_t next)
{
    struct expression_node node = a->b->node[e];
    if (a->b->node[node.a].nullable) {
        node.a = nonempty_of(a->b, node.a);
        node.low = 0;
        if (node.a == NOTHING)
            return next;
    }
    if (node.high == FOREVER) {
        uint32_t loop =
            add_state(a, (struct state){.kind = STATE_CHOICE, .a = NOWHERE, .next = next});
        if (a->too_large)
            return NOWHERE;
        uint32_t body = build(a, node.a, loop);
        a->g->state[loop].a = body;
        next = loop;
        node.high = node.low;
        if (node.low == 0)
            return loop;
    }
    if (node.high == 1) {
        uint32_t body = build(a, node.a, next);
        return node.low
                   ? body
                   : add_state(a, (struct state){.kind = STATE_CHOICE, .a = body, .next = next});
    }
    uint32_t body = build(a, node.a, THE_END);
    return add_state(
        a, (struct state){
               .kind = STATE_REPEAT, .a = body, .next = next, .low = node.low, .high = node.high});
}

static uint32_t build(struct assembly *a, expression e, uint32_t next)
{
    struct expression_node node = a->b->node[e];
    uint32_t state;
    if (node.kind == KIND_NOTHING || a->too_large)
        return NOWHERE;
    if (node.kind == KIND_EMPTY)
        return next;
    if (node.kind == KIND_SEQUENCE || node.kind == KIND_CHOICE)
        return build_list(a, e, next);
    if (recall(a, e, next, &state))
        return state;
    if (node.kind == KIND_BYTES)
        state = add_state(a, (struct state){.kind = STATE_BYTES, .a = node.a, .next = next});
    else if (node.kind == KIND_RULE)
        state = add_state(a, (struct state){.kind = STATE_CALL,
                                            .a = beginning_of(a, node.a),
                                            .next = next,
                                            .nullable = node.nullable});
    else
        state = build_repeat(a, e, next);
    remember(a, e, next, state);
    return state;
}

/* Splits the classes by each set in turn. */
static void find_classes(struct grammar *g, const struct builder *b)
{
    g->n_classes = 1;
    for (size_t s = 0; s < b->n_sets && g->n_classes < 256; s++) {
        int inside[256];
        bool outside[256] = {0};
        memset(inside, -1, sizeof inside);
        for (unsigned i = 0; i < 256; i++)
            outside[g->class_of[i]] |= !set_has(&b->set[s], i);
        uint32_t n = g->n_classes;
        for (unsigned i = 0; i < 256; i++) {
            uint8_t old = g->class_of[i];
            if (!set_has(&b->set[s], i) || !outside[old])
                continue;
            if (inside[old] < 0)
                inside[old] = (int)n++;
            g->class_of[i] = (uint8_t)inside[old];
        }
        g->n_classes = n;
    }
    g->n_sets = b->n_sets;
    g->classes = allocate(b->n_sets + 1, sizeof *g->classes);
    for (size_t s = 0; s < b->n_sets; s++)
        for (unsigned i = 0; i < 256; i++)
            if (set_has(&b->set[s], i))
                g->classes[s].word[g->class_of[i] / 64] |= (uint64_t)1 << (g->class_of[i] % 64);
}

/* States that a state leads to without a byte. */
static size_t followers_of(const struct state *s, uint32_t follower[2])
{
    size_t n = 0;
    if (s->kind == STATE_BYTES || s->kind == STATE_END)
        return 0;
    follower[n++] = s->a;
    if (s->kind == STATE_CHOICE || s->nullable || (s->kind == STATE_REPEAT && s->low == 0))
        follower[n++] = s->next;
    return n;
}

/* Without left recursion, and with no empty round of a repetition, they make no circle: states are
 * numbered from the last that a depth-first walk leaves to the first. */
static void find_ranks(struct grammar *g)
{
    struct visit {
        uint32_t state, next;
    } *path = allocate(g->n_states + 1, sizeof *path);
    bool *seen = allocate(g->n_states, sizeof *seen);
    uint32_t rank = (uint32_t)g->n_states, follower[2];
    for (uint32_t root = 0; root < g->n_states; root++) {
        size_t n = 0;
        if (!seen[root])
            path[n++] = (struct visit){root, 0}, seen[root] = true;
        while (n > 0) {
            struct visit *top = &path[n - 1];
            if (top->next == followers_of(&g->state[top->state], follower)) {
                g->state[top->state].rank = rank--;
                n--;
            } else {
                uint32_t to = follower[top->next++];
                if (!seen[to])
                    path[n++] = (struct visit){to, 0}, seen[to] = true;
            }
        }
    }
    g->state[THE_END].rank = 0;
    free(path);
    free(seen);
}

struct grammar *grammar_build(struct builder *b, uint32_t root, const char *name,
                              struct error *error)
{
    if (!builder_check(b, name, error))
        return NULL;
    struct assembly a = {.b = b, .g = allocate(1, sizeof *a.g)};
    add_state(&a, (struct state){.kind = STATE_END});
    add_state(&a, (struct state){.kind = STATE_CHOICE, .a = NOWHERE, .next = NOWHERE});
    a.g->start = beginning_of(&a, root);
    while (a.n_todo > 0) {
        uint32_t rule = a.todo[--a.n_todo];
        if (!b->rule[rule].defined)
            builder_define(b, rule, nonempty_of(b, b->rule[b->rule[rule].nonempty_of].body));
        uint32_t body = build(&a, b->rule[rule].body, THE_END);
        a.g->state[a.begin[rule] - 1] =
            (struct state){.kind = STATE_CHOICE, .a = body, .next = body};
    }
    free(a.made);
    free(a.begin);
    free(a.todo);
    if (a.too_large || b->too_large) {
        error_set(error, STATUS_INPUT, "%s: the grammar is too large", name);
        grammar_free(a.g);
        return NULL;
    }
    find_classes(a.g, b);
    find_ranks(a.g);
    return a.g;
}

void grammar_free(struct grammar *g)
{
    if (!g)
        return;
    free(g->state);
    free(g->classes);
    free(g);
}
