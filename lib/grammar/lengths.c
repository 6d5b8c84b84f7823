/* Texts of a regular expression that have so many characters: its states beside a count, each pair
 * a rule that goes on to others at its end, so that nothing is left on a stack. */
#include "grammar/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STEPS (1u << 14) /* states of the expression */
#define MAX_WORK  (1u << 22) /* characters that follow a state, for all states and counts */

enum step_kind { STEP_END, STEP_CHARACTER, STEP_EITHER };
struct step {
    uint8_t kind;
    expression character;
    uint32_t a, next;
};
struct lengths {
    struct builder *b;
    uint64_t least, most; /* most: UINT64_MAX: no bound */
    uint32_t levels;      /* counts that are told apart: 0..levels - 1 */
    struct step *step;
    size_t n, capacity;
    bool too_large;
    bool *possible; /* (levels, n): a text that is right can follow */
    size_t *begin; /* (n + 1) of each step that texts can be at: where the list begins of the ... */
    uint32_t *leads; /* ... characters, or the end, that it leads to */
    size_t n_leads, leads_capacity;
    uint32_t *seen, *stack; /* (n) of a walk */
    uint32_t (*todo)[2];    /* pairs whose rules are not defined */
    size_t n_todo, todo_capacity;
    unsigned serial;
};

/* ---- steps --------------------------------------------------------------------------------- */

static uint32_t add_step(struct lengths *l, struct step step)
{
    if (l->n >= MAX_STEPS) {
        l->too_large = true;
        return 0;
    }
    l->step = grow(l->step, &l->capacity, l->n + 1, sizeof *l->step);
    l->step[l->n] = step;
    return (uint32_t)l->n++;
}

static uint32_t build(struct lengths *l, expression e, uint32_t next);

/* More rounds than characters are allowed are none. */
static uint32_t build_repeat(struct lengths *l, struct expression_node node, uint32_t next)
{
    uint32_t to = next;
    if (node.high == FOREVER) {
        to = add_step(l, (struct step){.kind = STEP_EITHER, .next = next});
        uint32_t body = build(l, node.a, to);
        l->step[to].a = body;
    }
    for (uint64_t i = node.low;
         node.high != FOREVER && i < node.high && i <= l->most && !l->too_large; i++)
        to = add_step(l,
                      (struct step){.kind = STEP_EITHER, .a = build(l, node.a, to), .next = next});
    for (uint32_t i = 0; i < node.low && !l->too_large; i++)
        to = build(l, node.a, to);
    return to;
}

static uint32_t build(struct lengths *l, expression e, uint32_t next)
{
    expression *list = NULL;
    size_t n = 0, capacity = 0;
    uint8_t kind = l->b->node[e].kind;
    if (kind == KIND_EMPTY || l->too_large)
        return next;
    if (kind == KIND_REPEAT)
        return build_repeat(l, l->b->node[e], next);
    if (kind != KIND_SEQUENCE && kind != KIND_CHOICE)
        return add_step(l, (struct step){.kind = STEP_CHARACTER, .character = e, .next = next});
    for (; l->b->node[e].kind == kind; e = l->b->node[e].b) {
        list = grow(list, &capacity, n + 1, sizeof *list);
        list[n++] = l->b->node[e].a;
    }
    uint32_t to = build(l, e, next);
    while (n > 0) {
        n--;
        if (kind == KIND_SEQUENCE)
            to = build(l, list[n], to);
        else
            to = add_step(
                l, (struct step){.kind = STEP_EITHER, .a = build(l, list[n], next), .next = to});
    }
    free(list);
    return to;
}

/* Appends the characters and the end that a step leads to. */
static void reach(struct lengths *l, uint32_t from)
{
    size_t depth = 0;
    l->stack[depth++] = from;
    l->seen[from] = from + 1;
    while (depth > 0) {
        uint32_t at = l->stack[--depth];
        const struct step *s = &l->step[at];
        if (s->kind != STEP_EITHER) {
            l->leads = grow(l->leads, &l->leads_capacity, l->n_leads + 1, sizeof *l->leads);
            l->leads[l->n_leads++] = at;
            continue;
        }
        const uint32_t to[2] = {s->next, s->a};
        for (int i = 0; i < 2; i++)
            if (l->seen[to[i]] != from + 1) {
                l->seen[to[i]] = from + 1;
                l->stack[depth++] = to[i];
            }
    }
}

/* The lists of the step that begins and of those after a character.  False where they are too long.
 */
static bool find_leads(struct lengths *l, uint32_t start)
{
    bool *needed = allocate(l->n, sizeof *needed), fits = true;
    l->begin = allocate(l->n + 1, sizeof *l->begin);
    l->seen = allocate(l->n, sizeof *l->seen);
    l->stack = allocate(l->n, sizeof *l->stack);
    needed[start] = true;
    for (size_t i = 0; i < l->n; i++)
        if (l->step[i].kind == STEP_CHARACTER)
            needed[l->step[i].next] = true;
    for (uint32_t i = 0; i < l->n; i++) {
        l->begin[i] = l->n_leads;
        if (needed[i] && fits)
            reach(l, i);
        fits = (l->n_leads + l->n) <= MAX_WORK / l->levels;
    }
    l->begin[l->n] = l->n_leads;
    free(needed);
    return fits;
}

/* ---- counts -------------------------------------------------------------------------------- */

/* The count after one more character; without an upper bound those from `least` on are one.  Past
 * the bound: levels. */
static uint32_t level_after(const struct lengths *l, uint32_t level)
{
    bool last = level + 1 == l->levels;
    return last && l->most == UINT64_MAX ? level : level + 1;
}

static bool is_possible(struct lengths *l, uint32_t step, uint32_t level)
{
    return level < l->levels && l->possible[(size_t)level * l->n + step];
}

static bool leads_on(struct lengths *l, uint32_t step, uint32_t level)
{
    const struct step *s = &l->step[step];
    if (s->kind == STEP_END)
        return level >= l->least;
    return s->character != NOTHING && is_possible(l, s->next, level_after(l, level));
}

/* From the highest count down; that one until nothing changes, since it may lead to itself. */
static void find_possible(struct lengths *l)
{
    l->possible = allocate((size_t)l->levels * l->n, sizeof *l->possible);
    for (uint32_t level = l->levels; level-- > 0;) {
        bool changed = true;
        while (changed) {
            changed = false;
            for (uint32_t step = 0; step < l->n; step++) {
                bool *possible = &l->possible[(size_t)level * l->n + step], any = *possible;
                for (size_t i = l->begin[step]; i < l->begin[step + 1] && !any; i++)
                    any = leads_on(l, l->leads[i], level);
                changed |= any != *possible;
                *possible = any;
            }
            changed &= level + 1 == l->levels;
        }
    }
}

/* ---- rules --------------------------------------------------------------------------------- */

static expression rule_of(struct lengths *l, uint32_t step, uint32_t level)
{
    char name[60];
    int n = snprintf(name, sizeof name, " length %u %u %u", l->serial, step, level);
    size_t before = l->b->n_rules;
    uint32_t rule = builder_rule(l->b, name, (size_t)n, 0);
    if (rule == before) {
        l->todo = grow(l->todo, &l->todo_capacity, l->n_todo + 1, sizeof *l->todo);
        l->todo[l->n_todo][0] = step;
        l->todo[l->n_todo++][1] = level;
    }
    return expression_rule(l->b, rule);
}

static void define_rule(struct lengths *l, uint32_t step, uint32_t level)
{
    char name[60];
    int n_name = snprintf(name, sizeof name, " length %u %u %u", l->serial, step, level);
    size_t n_parts = 0;
    expression *parts = allocate(l->begin[step + 1] - l->begin[step] + 1, sizeof *parts);
    for (size_t i = l->begin[step]; i < l->begin[step + 1]; i++) {
        const struct step s = l->step[l->leads[i]];
        if (!leads_on(l, l->leads[i], level))
            continue;
        parts[n_parts++] = s.kind == STEP_END ? EMPTY
                                              : SEQUENCE(l->b, s.character,
                                                         rule_of(l, s.next, level_after(l, level)));
    }
    builder_define(l->b, builder_rule(l->b, name, (size_t)n_name, 0),
                   expression_choice(l->b, parts, n_parts));
    free(parts);
}

bool expression_of_length(struct builder *b, expression e, uint64_t least, uint64_t most,
                          expression *limited)
{
    struct lengths l = {.b = b, .least = least, .most = most, .serial = (unsigned)b->n_rules};
    uint64_t levels = (most == UINT64_MAX ? least : most) + 1;
    *limited = NOTHING;
    if (least > most)
        return true;
    add_step(&l, (struct step){.kind = STEP_END});
    uint32_t start = build(&l, e, 0);
    bool ok = !l.too_large && levels <= MAX_WORK;
    l.levels = (uint32_t)levels;
    ok = ok && find_leads(&l, start);
    if (ok) {
        find_possible(&l);
        if (is_possible(&l, start, 0))
            *limited = rule_of(&l, start, 0);
        while (l.n_todo > 0) {
            l.n_todo--;
            define_rule(&l, l.todo[l.n_todo][0], l.todo[l.n_todo][1]);
        }
    }
    free(l.step);
    free(l.possible);
    free(l.begin);
    free(l.leads);
    free(l.seen);
    free(l.stack);
    free(l.todo);
    return ok;
}
