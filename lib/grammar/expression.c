#include "grammar/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EXPRESSIONS (1u << 23)

/* ---- numbers by content -------------------------------------------------------------------- */

static uint64_t hash_of(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * 0x100000001b3;
    return hash ^ hash >> 29;
}

static void index_put(struct index *index, uint64_t hash, uint32_t number)
{
    size_t slot = (size_t)hash & (index->size - 1);
    while (index->slot[slot])
        slot = (slot + 1) & (index->size - 1);
    index->slot[slot] = number + 1;
    index->used++;
}

/* ---- the builder --------------------------------------------------------------------------- */

void builder_init(struct builder *b)
{
    *b = (struct builder){0};
    b->node = grow(NULL, &b->nodes_capacity, 2, sizeof *b->node);
    b->node[NOTHING] = (struct expression_node){.kind = KIND_NOTHING};
    b->node[EMPTY] = (struct expression_node){.kind = KIND_EMPTY, .nullable = true};
    b->n_nodes = 2;
}

void builder_free(struct builder *b)
{
    for (size_t i = 0; i < b->n_rules; i++)
        free(b->rule[i].name);
    free(b->rule);
    free(b->node);
    free(b->set);
    free(b->nodes.slot);
    free(b->sets.slot);
    free(b->rules.slot);
    free(b->nonempty);
}

/* The fields that make a node what it is. */
struct node_key {
    uint32_t kind, a, b, low, high;
};

static struct node_key key_of(const struct expression_node *node)
{
    return (struct node_key){node->kind, node->a, node->b, node->low, node->high};
}

static bool nullable_by_parts(const struct builder *b, const struct expression_node *node)
{
    switch (node->kind) {
    case KIND_EMPTY:
        return true;
    case KIND_SEQUENCE:
        return b->node[node->a].nullable && b->node[node->b].nullable;
    case KIND_CHOICE:
        return b->node[node->a].nullable || b->node[node->b].nullable;
    case KIND_REPEAT:
        return node->low == 0 || b->node[node->a].nullable;
    case KIND_RULE:
        return b->rule[node->a].nullable;
    default:
        return false;
    }
}

static void widen_nodes(struct builder *b)
{
    if (2 * (b->nodes.used + 1) <= b->nodes.size)
        return;
    free(b->nodes.slot);
    b->nodes.size = b->nodes.size ? 2 * b->nodes.size : 1024;
    b->nodes.used = 0;
    b->nodes.slot = allocate(b->nodes.size, sizeof *b->nodes.slot);
    for (uint32_t i = 2; i < b->n_nodes; i++) {
        struct node_key key = key_of(&b->node[i]);
        index_put(&b->nodes, hash_of(&key, sizeof key), i);
    }
}

static expression make(struct builder *b, struct expression_node node)
{
    widen_nodes(b);
    struct node_key key = key_of(&node);
    uint64_t hash = hash_of(&key, sizeof key);
    for (size_t slot = (size_t)hash & (b->nodes.size - 1); b->nodes.slot[slot];
         slot = (slot + 1) & (b->nodes.size - 1)) {
        struct node_key found = key_of(&b->node[b->nodes.slot[slot] - 1]);
        if (memcmp(&found, &key, sizeof key) == 0)
            return b->nodes.slot[slot] - 1;
    }
    if (b->n_nodes >= MAX_EXPRESSIONS) {
        b->too_large = true;
        return NOTHING;
    }
    node.nullable = nullable_by_parts(b, &node);
    b->node = grow(b->node, &b->nodes_capacity, b->n_nodes + 1, sizeof *b->node);
    b->node[b->n_nodes] = node;
    index_put(&b->nodes, hash, (uint32_t)b->n_nodes);
    return (expression)b->n_nodes++;
}

/* ---- rules --------------------------------------------------------------------------------- */

uint32_t builder_rule(struct builder *b, const char *name, size_t length, uint32_t line)
{
    if (2 * (b->rules.used + 1) > b->rules.size) {
        free(b->rules.slot);
        b->rules.size = b->rules.size ? 2 * b->rules.size : 64;
        b->rules.used = 0;
        b->rules.slot = allocate(b->rules.size, sizeof *b->rules.slot);
        for (uint32_t i = 0; i < b->n_rules; i++)
            index_put(&b->rules, hash_of(b->rule[i].name, strlen(b->rule[i].name)), i);
    }
    uint64_t hash = hash_of(name, length);
    for (size_t slot = (size_t)hash & (b->rules.size - 1); b->rules.slot[slot];
         slot = (slot + 1) & (b->rules.size - 1)) {
        const char *found = b->rule[b->rules.slot[slot] - 1].name;
        if (strlen(found) == length && memcmp(found, name, length) == 0)
            return b->rules.slot[slot] - 1;
    }
    char *copy = allocate(length + 1, 1);
    memcpy(copy, name, length);
    b->rule = grow(b->rule, &b->rules_capacity, b->n_rules + 1, sizeof *b->rule);
    b->rule[b->n_rules] = (struct rule){.name = copy, .line = line};
    index_put(&b->rules, hash, (uint32_t)b->n_rules);
    return (uint32_t)b->n_rules++;
}

void builder_define(struct builder *b, uint32_t rule, expression body)
{
    b->rule[rule].body = body;
    b->rule[rule].defined = true;
}

expression expression_rule(struct builder *b, uint32_t rule)
{
    return make(b, (struct expression_node){.kind = KIND_RULE, .a = rule});
}

/* ---- bytes --------------------------------------------------------------------------------- */

static bool is_empty_set(const struct byte_set *set)
{
    return !(set->word[0] | set->word[1] | set->word[2] | set->word[3]);
}

static uint32_t set_number(struct builder *b, const struct byte_set *set)
{
    if (2 * (b->sets.used + 1) > b->sets.size) {
        free(b->sets.slot);
        b->sets.size = b->sets.size ? 2 * b->sets.size : 256;
        b->sets.used = 0;
        b->sets.slot = allocate(b->sets.size, sizeof *b->sets.slot);
        for (uint32_t i = 0; i < b->n_sets; i++)
            index_put(&b->sets, hash_of(&b->set[i], sizeof *set), i);
    }
    uint64_t hash = hash_of(set, sizeof *set);
    for (size_t slot = (size_t)hash & (b->sets.size - 1); b->sets.slot[slot];
         slot = (slot + 1) & (b->sets.size - 1))
        if (memcmp(&b->set[b->sets.slot[slot] - 1], set, sizeof *set) == 0)
            return b->sets.slot[slot] - 1;
    b->set = grow(b->set, &b->sets_capacity, b->n_sets + 1, sizeof *b->set);
    b->set[b->n_sets] = *set;
    index_put(&b->sets, hash, (uint32_t)b->n_sets);
    return (uint32_t)b->n_sets++;
}

expression expression_bytes(struct builder *b, const struct byte_set *set)
{
    if (is_empty_set(set))
        return NOTHING;
    return make(b, (struct expression_node){.kind = KIND_BYTES, .a = set_number(b, set)});
}

expression expression_byte_range(struct builder *b, uint8_t low, uint8_t high)
{
    struct byte_set set = {{0}};
    for (unsigned i = low; i <= high; i++)
        set.word[i / 64] |= (uint64_t)1 << (i % 64);
    return expression_bytes(b, &set);
}

expression expression_text(struct builder *b, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    expression *parts = allocate(length + 1, sizeof *parts);
    for (size_t i = 0; i < length; i++)
        parts[i] = expression_byte_range(b, at[i], at[i]);
    expression all = expression_sequence(b, parts, length);
    free(parts);
    return all;
}

/* ---- sequence, choice, repetition ---------------------------------------------------------- */

/* What is repeated, and how often. */
static void repetition_of(const struct builder *b, expression e, expression *body, uint32_t *low,
                          uint32_t *high)
{
    const struct expression_node *node = &b->node[e];
    bool repeats = node->kind == KIND_REPEAT;
    *body = repeats ? node->a : e;
    *low = repeats ? node->low : 1;
    *high = repeats ? node->high : 1;
}

static uint32_t saturating(uint64_t n)
{
    return n >= FOREVER ? FOREVER : (uint32_t)n;
}

/* x{a,b} x{c,d} is x{a+c,b+d}.  NOTHING when they do not repeat the same. */
static expression merge_repetitions(struct builder *b, expression left, expression right)
{
    expression body, other;
    uint32_t low[2], high[2];
    if (b->node[left].kind != KIND_REPEAT && b->node[right].kind != KIND_REPEAT)
        return NOTHING;
    repetition_of(b, left, &body, &low[0], &high[0]);
    repetition_of(b, right, &other, &low[1], &high[1]);
    if (body != other)
        return NOTHING;
    uint64_t most = (uint64_t)high[0] + high[1], least = (uint64_t)low[0] + low[1];
    bool endless = high[0] == FOREVER || high[1] == FOREVER;
    if (least >= FOREVER || (!endless && most >= FOREVER))
        return NOTHING;
    return expression_repeat(b, body, (uint32_t)least, endless ? FOREVER : (uint32_t)most);
}

/* Sequences are right-nested, so that what follows a part is one expression. */
static expression sequence2(struct builder *b, expression a, expression rest)
{
    if (a == NOTHING || rest == NOTHING)
        return NOTHING;
    if (a == EMPTY)
        return rest;
    if (rest == EMPTY)
        return a;
    bool longer = b->node[rest].kind == KIND_SEQUENCE;
    expression head = longer ? b->node[rest].a : rest, after = longer ? b->node[rest].b : EMPTY;
    expression merged = merge_repetitions(b, a, head);
    if (merged != NOTHING)
        return after == EMPTY ? merged : sequence2(b, merged, after);
    if (b->node[a].kind != KIND_SEQUENCE)
        return make(b, (struct expression_node){.kind = KIND_SEQUENCE, .a = a, .b = rest});
    expression *parts = NULL;
    size_t n = 0, capacity = 0;
    for (; b->node[a].kind == KIND_SEQUENCE; a = b->node[a].b) {
        parts = grow(parts, &capacity, n + 1, sizeof *parts);
        parts[n++] = b->node[a].a;
    }
    rest = sequence2(b, a, rest);
    while (n > 0)
        rest = sequence2(b, parts[--n], rest);
    free(parts);
    return rest;
}

expression expression_sequence(struct builder *b, const expression *parts, size_t n)
{
    expression all = EMPTY;
    while (n > 0)
        all = sequence2(b, parts[--n], all);
    return all;
}

/* Alternatives that are one byte make one set; an empty one makes the others optional. */
expression expression_choice(struct builder *b, const expression *parts, size_t n)
{
    struct byte_set bytes = {{0}};
    bool optional = false;
    expression *others = NULL, all = NOTHING;
    size_t n_others = 0, capacity = 0;
    for (size_t i = 0; i < n; i++) {
        for (expression e = parts[i], next; e != NOTHING; e = next) {
            bool more = b->node[e].kind == KIND_CHOICE;
            next = more ? b->node[e].b : NOTHING;
            expression one = more ? b->node[e].a : e;
            if (b->node[one].kind == KIND_BYTES) {
                for (int w = 0; w < 4; w++)
                    bytes.word[w] |= b->set[b->node[one].a].word[w];
            } else if (one == EMPTY) {
                optional = true;
            } else if (n_others == 0 || others[n_others - 1] != one) {
                others = grow(others, &capacity, n_others + 1, sizeof *others);
                others[n_others++] = one;
            }
        }
    }
    if (!is_empty_set(&bytes))
        all = expression_bytes(b, &bytes);
    while (n_others > 0) {
        expression one = others[--n_others];
        all = all == NOTHING || all == one
                  ? one
                  : make(b, (struct expression_node){.kind = KIND_CHOICE, .a = one, .b = all});
    }
    free(others);
    if (!optional)
        return all;
    return all == NOTHING ? EMPTY : expression_optional(b, all);
}

/* (y{n,m}){p,q} with n of 0 or 1 is y{np,mq}: every number between is reached. */
expression expression_repeat(struct builder *b, expression body, uint32_t low, uint32_t high)
{
    if (high == 0 || body == EMPTY)
        return EMPTY;
    if (body == NOTHING)
        return low == 0 ? EMPTY : NOTHING;
    if (low == 1 && high == 1)
        return body;
    const struct expression_node *node = &b->node[body];
    bool endless = node->high == FOREVER || high == FOREVER;
    if (node->kind == KIND_REPEAT && node->low <= 1 &&
        (endless || (uint64_t)node->high * high < FOREVER)) {
        uint32_t least = node->low * low, most = endless ? FOREVER : node->high * high;
        return expression_repeat(b, node->a, least, most);
    }
    return make(b, (struct expression_node){
                       .kind = KIND_REPEAT, .a = body, .low = low, .high = saturating(high)});
}

expression expression_optional(struct builder *b, expression body)
{
    return expression_repeat(b, body, 0, 1);
}

/* ---- characters ---------------------------------------------------------------------------- */

size_t utf8_put(uint32_t code, uint8_t bytes[4])
{
    if (code < 0x80) {
        bytes[0] = (uint8_t)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        bytes[i] = (uint8_t)(0x80 | (code & 0x3f));
    bytes[0] = (uint8_t)((0xf00 >> n & 0xff) | code);
    return n;
}

size_t utf8_get(const uint8_t *bytes, size_t length, uint32_t *code)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (length == 0)
        return 0;
    uint8_t first = bytes[0];
    size_t n = first < 0x80   ? 1
               : first < 0xc0 ? 0
               : first < 0xe0 ? 2
               : first < 0xf0 ? 3
               : first < 0xf8 ? 4
                              : 0;
    if (n == 0 || n > length)
        return 0;
    *code = n == 1 ? first : first & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (bytes[i] & 0x3f);
    }
    bool valid = *code >= least[n] && *code <= MAX_CODE_POINT && (*code < 0xd800 || *code > 0xdfff);
    return valid ? n : 0;
}

void code_points_add(struct code_points *set, uint32_t low, uint32_t high)
{
    set->range = grow(set->range, &set->capacity, set->n + 1, sizeof *set->range);
    set->range[set->n++] = (struct code_range){low, high};
}

static int by_low(const void *left, const void *right)
{
    const struct code_range *a = left, *b = right;
    return (a->low > b->low) - (a->low < b->low);
}

void code_points_sort(struct code_points *set)
{
    size_t n = 0;
    if (set->n == 0)
        return;
    qsort(set->range, set->n, sizeof *set->range, by_low);
    for (size_t i = 1; i < set->n; i++) {
        struct code_range *last = &set->range[n], *one = &set->range[i];
        if (one->low <= last->high || one->low == last->high + 1)
            last->high = one->high > last->high ? one->high : last->high;
        else
            set->range[++n] = *one;
    }
    set->n = n + 1;
}

void code_points_negate(struct code_points *set)
{
    struct code_points others = {0};
    uint32_t next = 0;
    code_points_sort(set);
    for (size_t i = 0; i < set->n; i++) {
        if (set->range[i].low > next)
            code_points_add(&others, next, set->range[i].low - 1);
        next = set->range[i].high + 1;
    }
    if (next <= MAX_CODE_POINT)
        code_points_add(&others, next, MAX_CODE_POINT);
    free(set->range);
    *set = others;
}

bool code_points_has(const struct code_points *set, uint32_t code)
{
    for (size_t i = 0; i < set->n; i++)
        if (code >= set->range[i].low && code <= set->range[i].high)
            return true;
    return false;
}

/* Characters of n bytes each from low to high: all that begin like low, those between, all that
 * begin like high; within each the following bytes are free but for the outer two. */
static expression span(struct builder *b, const uint8_t *low, const uint8_t *high, size_t n)
{
    static const uint8_t first[3] = {0x80, 0x80, 0x80}, last[3] = {0xbf, 0xbf, 0xbf};
    if (n == 1)
        return expression_byte_range(b, low[0], high[0]);
    if (low[0] == high[0])
        return SEQUENCE(b, expression_byte_range(b, low[0], low[0]),
                        span(b, low + 1, high + 1, n - 1));
    expression part[3];
    size_t n_parts = 0;
    uint8_t from = low[0], to = high[0];
    if (memcmp(low + 1, first, n - 1) != 0)
        part[n_parts++] =
            SEQUENCE(b, expression_byte_range(b, from, from), span(b, low + 1, last, n - 1)),
        from++;
    if (memcmp(high + 1, last, n - 1) != 0)
        part[n_parts++] =
            SEQUENCE(b, expression_byte_range(b, to, to), span(b, first, high + 1, n - 1)),
        to--;
    if (from <= to)
        part[n_parts++] =
            SEQUENCE(b, expression_byte_range(b, from, to), span(b, first, last, n - 1));
    return expression_choice(b, part, n_parts);
}

expression expression_characters(struct builder *b, struct code_points *set)
{
    /* Where the number of bytes changes, and the surrogates are left out. */
    static const struct code_range part[] = {
        {0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, MAX_CODE_POINT}};
    enum { PARTS = sizeof part / sizeof *part };
    code_points_sort(set);
    expression *spans = allocate(PARTS * set->n + 1, sizeof *spans);
    size_t n = 0;
    for (size_t i = 0; i < set->n; i++)
        for (size_t k = 0; k < PARTS; k++) {
            uint32_t low = set->range[i].low, high = set->range[i].high;
            uint8_t from[4], to[4];
            low = low < part[k].low ? part[k].low : low;
            high = high > part[k].high ? part[k].high : high;
            if (low > high)
                continue;
            utf8_put(low, from);
            spans[n++] = span(b, from, to, utf8_put(high, to));
        }
    expression all = expression_choice(b, spans, n);
    free(spans);
    return all;
}

expression expression_character(struct builder *b, uint32_t code)
{
    uint8_t bytes[4];
    return expression_text(b, bytes, utf8_put(code, bytes));
}
