/* What is true of rules as a whole: what they match is found by letting facts spread from the parts
 * of expressions to the expressions, each once. */
#include "grammar/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The expressions that each expression is a part of, one list after another. */
struct parents {
    uint32_t *begin; /* (n_nodes + 1) */
    expression *parent;
};

/* Calls with each part of an expression; a rule's body is its part. */
static size_t parts_of(const struct builder *b, expression e, expression part[2])
{
    const struct expression_node *node = &b->node[e];
    size_t n = node->kind == KIND_SEQUENCE || node->kind == KIND_CHOICE ? 2
               : node->kind >= KIND_REPEAT                              ? 1
                                                                        : 0;
    part[0] = node->kind == KIND_RULE ? b->rule[node->a].body : node->a;
    part[1] = node->b;
    return n;
}

static struct parents parents_of(const struct builder *b)
{
    struct parents p = {allocate(b->n_nodes + 2, sizeof *p.begin), NULL};
    expression part[2];
    size_t total = 0;
    for (expression e = 0; e < b->n_nodes; e++)
        for (size_t i = parts_of(b, e, part); i > 0; i--, total++)
            p.begin[part[i - 1] + 2]++;
    for (size_t i = 2; i < b->n_nodes + 2; i++)
        p.begin[i] += p.begin[i - 1];
    p.parent = allocate(total + 1, sizeof *p.parent);
    for (expression e = 0; e < b->n_nodes; e++)
        for (size_t i = parts_of(b, e, part); i > 0; i--)
            p.parent[p.begin[part[i - 1] + 1]++] = e;
    return p;
}

/* Whether the fact is true of an expression, from what is known of its parts. */
typedef bool fact(const struct builder *b, const bool *known, expression e);

static bool is_nullable(const struct builder *b, const bool *known, expression e)
{
    const struct expression_node *node = &b->node[e];
    switch (node->kind) {
    case KIND_EMPTY:
        return true;
    case KIND_SEQUENCE:
        return known[node->a] && known[node->b];
    case KIND_CHOICE:
        return known[node->a] || known[node->b];
    case KIND_REPEAT:
        return node->low == 0 || known[node->a];
    case KIND_RULE:
        return known[b->rule[node->a].body];
    default:
        return false;
    }
}

static bool is_productive(const struct builder *b, const bool *known, expression e)
{
    return b->node[e].kind == KIND_BYTES || is_nullable(b, known, e);
}

static bool *find_out(const struct builder *b, const struct parents *p, fact *is_true)
{
    bool *known = allocate(b->n_nodes, sizeof *known);
    expression *todo = allocate(b->n_nodes, sizeof *todo);
    size_t n = 0;
    for (expression e = 0; e < b->n_nodes; e++)
        if (is_true(b, known, e))
            known[e] = true, todo[n++] = e;
    while (n > 0) {
        expression e = todo[--n];
        for (uint32_t i = p->begin[e]; i < p->begin[e + 1]; i++) {
            expression parent = p->parent[i];
            if (!known[parent] && is_true(b, known, parent))
                known[parent] = true, todo[n++] = parent;
        }
    }
    free(todo);
    return known;
}

/* ---- left recursion ------------------------------------------------------------------------ */

/* What an expression can begin with, one after another: its first part, and the second where the
 * first may be empty. */
static size_t beginnings_of(const struct builder *b, expression e, expression part[2])
{
    size_t n = parts_of(b, e, part);
    if (b->node[e].kind == KIND_SEQUENCE && !b->node[part[0]].nullable)
        n = 1;
    return n;
}

bool error_at(struct error *error, const char *name, uint32_t line)
{
    char place[300];
    if (line)
        snprintf(place, sizeof place, "%.250s:%u", name, line);
    else
        snprintf(place, sizeof place, "%.250s", name);
    return error_prefix(error, place);
}

struct visit {
    expression e;
    size_t next;
};

/* Rules that are made of a JSON Schema are named by JSON pointers. */
static const char *kind_of(const struct rule *rule)
{
    return rule->name[0] == '#' ? "schema" : "rule";
}

/* "rule 'a' begins with itself: a, b, a". */
static bool report_recursion(const struct builder *b, const struct visit *path, size_t n,
                             expression again, const char *name, struct error *error)
{
    char names[200] = "";
    const struct rule *rule = NULL;
    size_t from = n, length = 0;
    while (path[from - 1].e != again)
        from--;
    for (size_t i = from - 1; i < n; i++) {
        if (b->node[path[i].e].kind != KIND_RULE)
            continue;
        const struct rule *one = &b->rule[b->node[path[i].e].a];
        rule = rule ? rule : one;
        if (length + 4 < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%.60s, ", one->name);
    }
    error_set(error, STATUS_INPUT,
              "%s '%.80s' begins with itself (%s%.60s): left recursion is not supported",
              kind_of(rule), rule->name, names, rule->name);
    return error_at(error, name, rule->line);
}

static bool check_recursion(const struct builder *b, const char *name, struct error *error)
{
    enum { NEW, OPEN, DONE };
    uint8_t *mark = allocate(b->n_nodes, 1);
    struct visit *path = allocate(b->n_nodes + 1, sizeof *path);
    bool ok = true;
    for (expression root = 0; root < b->n_nodes && ok; root++) {
        size_t n = 0;
        if (mark[root] == NEW)
            path[n++] = (struct visit){root, 0}, mark[root] = OPEN;
        while (n > 0 && ok) {
            struct visit *top = &path[n - 1];
            expression part[2];
            if (top->next == beginnings_of(b, top->e, part)) {
                mark[top->e] = DONE;
                n--;
                continue;
            }
            expression e = part[top->next++];
            if (mark[e] == OPEN)
                ok = report_recursion(b, path, n, e, name, error);
            else if (mark[e] == NEW)
                path[n++] = (struct visit){e, 0}, mark[e] = OPEN;
        }
    }
    free(mark);
    free(path);
    return ok;
}

/* ---- all of it ----------------------------------------------------------------------------- */

bool builder_check(struct builder *b, const char *name, struct error *error)
{
    if (b->too_large)
        return error_set(error, STATUS_INPUT, "%s: the grammar is too large", name);
    for (size_t i = 0; i < b->n_rules; i++)
        if (!b->rule[i].defined) {
            error_set(error, STATUS_INPUT, "rule '%.80s' is used and not defined", b->rule[i].name);
            return error_at(error, name, b->rule[i].line);
        }
    struct parents p = parents_of(b);
    bool *productive = find_out(b, &p, is_productive), *nullable = find_out(b, &p, is_nullable);
    const struct rule *barren = NULL;
    for (expression e = 0; e < b->n_nodes; e++)
        b->node[e].nullable = nullable[e];
    for (size_t i = 0; i < b->n_rules; i++) {
        struct rule *rule = &b->rule[i];
        rule->nullable = nullable[rule->body];
        if (!productive[rule->body] && (!barren || rule->line < barren->line))
            barren = rule;
    }
    free(productive);
    free(nullable);
    free(p.begin);
    free(p.parent);
    b->complete = true;
    bool ok = check_recursion(b, name, error);
    if (ok && barren) {
        error_set(error, STATUS_INPUT, "%s '%.80s' matches no text that ends", kind_of(barren),
                  barren->name);
        ok = error_at(error, name, barren->line);
    }
    return ok;
}

/* ---- without the empty text ---------------------------------------------------------------- */

static expression *remembered(struct builder *b, expression e)
{
    size_t had = b->nonempty_capacity;
    b->nonempty = grow(b->nonempty, &b->nonempty_capacity, (size_t)e + 1, sizeof *b->nonempty);
    if (b->nonempty_capacity > had)
        memset(b->nonempty + had, 0, (b->nonempty_capacity - had) * sizeof *b->nonempty);
    return &b->nonempty[e];
}

/* The rule of the same texts but the empty one.  Its body follows when it is built: rules may be
 * many. */
static expression nonempty_rule(struct builder *b, uint32_t of)
{
    if (!b->rule[of].nonempty) {
        char name[32];
        int n = snprintf(name, sizeof name, " %u", of); /* no rule of a grammar has a space */
        uint32_t made = builder_rule(b, name, (size_t)n, b->rule[of].line);
        b->rule[of].nonempty = made + 1;
        b->rule[made].nonempty_of = of;
    }
    return expression_rule(b, b->rule[of].nonempty - 1);
}

static expression nonempty_part(struct builder *b, expression e)
{
    struct expression_node node = b->node[e];
    switch (node.kind) {
    case KIND_EMPTY:
        return NOTHING;
    case KIND_REPEAT:
        return expression_repeat(b, nonempty_of(b, node.a), 1, node.high);
    case KIND_RULE:
        return nonempty_rule(b, node.a);
    default:
        return e;
    }
}

/* Of a sequence whose parts may all be empty, a first part that is not, and the rest as it is. From
 * the last part to the first, since sequences and choices are long lists. */
expression nonempty_of(struct builder *b, expression e)
{
    expression *list = NULL;
    size_t n = 0, capacity = 0;
    for (;;) {
        bool known = *remembered(b, e) != 0;
        list = grow(list, &capacity, n + 1, sizeof *list);
        list[n++] = e;
        if (known || !b->node[e].nullable ||
            (b->node[e].kind != KIND_SEQUENCE && b->node[e].kind != KIND_CHOICE))
            break;
        e = b->node[e].b;
    }
    expression found = NOTHING;
    while (n > 0) {
        e = list[--n];
        struct expression_node node = b->node[e];
        if (*remembered(b, e))
            found = *remembered(b, e) - 1;
        else if (!node.nullable)
            found = e;
        else if (node.kind == KIND_SEQUENCE)
            found = CHOICE(b, SEQUENCE(b, nonempty_of(b, node.a), node.b), found);
        else if (node.kind == KIND_CHOICE)
            found = CHOICE(b, nonempty_of(b, node.a), found);
        else
            found = nonempty_part(b, e);
        *remembered(b, e) = found + 1;
    }
    free(list);
    return found;
}
