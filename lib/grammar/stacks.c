#include "grammar/stacks.h"

#include <stdlib.h>
#include <string.h>

void stacks_init(struct stacks *s)
{
    const struct pair bottom = {BOTTOM, 0, NO_STACKS};
    *s = (struct stacks){0};
    stacks_set(s, NULL, 0);
    stacks_set(s, &bottom, 1);
}

void stacks_free(struct stacks *s)
{
    free(s->pair);
    free(s->set);
    free(s->slot);
    free(s->merged);
    free(s->scratch);
}

size_t stacks_bytes(const struct stacks *s)
{
    return s->n_pairs * sizeof *s->pair + s->n_sets * sizeof *s->set +
           s->n_slots * sizeof *s->slot + s->merged_size * sizeof *s->merged;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

static uint64_t hash_pairs(const struct pair *pairs, size_t n)
{
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++)
        hash = mix(mix(hash, (uint64_t)pairs[i].state << 32 | pairs[i].count), pairs[i].rest);
    return hash;
}

static bool same_pairs(const struct stacks *s, uint32_t set, const struct pair *pairs, size_t n)
{
    const struct stack_set *found = &s->set[set];
    return found->n == n &&
           (n == 0 || memcmp(s->pair + found->first, pairs, n * sizeof *pairs) == 0);
}

static void place(struct stacks *s, uint64_t hash, uint32_t set)
{
    size_t at = (size_t)hash & (s->n_slots - 1);
    while (s->slot[at])
        at = (at + 1) & (s->n_slots - 1);
    s->slot[at] = set + 1;
}

static void widen(struct stacks *s)
{
    if (2 * (s->n_sets + 1) <= s->n_slots)
        return;
    free(s->slot);
    s->n_slots = s->n_slots ? 2 * s->n_slots : 256;
    s->slot = allocate(s->n_slots, sizeof *s->slot);
    for (uint32_t i = 0; i < s->n_sets; i++)
        place(s, hash_pairs(s->pair + s->set[i].first, s->set[i].n), i);
}

uint32_t stacks_set(struct stacks *s, const struct pair *pairs, size_t n)
{
    widen(s);
    uint64_t hash = hash_pairs(pairs, n);
    for (size_t at = (size_t)hash & (s->n_slots - 1); s->slot[at]; at = (at + 1) & (s->n_slots - 1))
        if (same_pairs(s, s->slot[at] - 1, pairs, n))
            return s->slot[at] - 1;
    struct stack_set set = {s->n_pairs, (uint32_t)n, 0};
    s->pair = grow(s->pair, &s->pairs_capacity, s->n_pairs + n, sizeof *s->pair);
    for (size_t i = 0; i < n; i++) {
        s->pair[s->n_pairs++] = pairs[i];
        uint32_t depth = pairs[i].state == BOTTOM ? 0 : s->set[pairs[i].rest].depth + 1;
        set.depth = depth > set.depth ? depth : set.depth;
    }
    s->set = grow(s->set, &s->sets_capacity, s->n_sets + 1, sizeof *s->set);
    s->set[s->n_sets] = set;
    place(s, hash, (uint32_t)s->n_sets);
    return (uint32_t)s->n_sets++;
}

uint32_t stacks_push(struct stacks *s, uint32_t state, uint32_t count, uint32_t rest)
{
    return stacks_set(s, &(struct pair){state, count, rest}, 1);
}

/* ---- union --------------------------------------------------------------------------------- */

static struct merged *merged_slot(struct stacks *s, uint32_t a, uint32_t b)
{
    size_t at = (size_t)mix(mix(0, a), b) & (s->merged_size - 1);
    while (s->merged[at].both && (s->merged[at].a != a || s->merged[at].b != b))
        at = (at + 1) & (s->merged_size - 1);
    return &s->merged[at];
}

static void remember_union(struct stacks *s, uint32_t a, uint32_t b, uint32_t both)
{
    if (2 * (s->n_merged + 1) > s->merged_size) {
        struct merged *old = s->merged;
        size_t old_size = s->merged_size;
        s->merged_size = old_size ? 2 * old_size : 256;
        s->merged = allocate(s->merged_size, sizeof *s->merged);
        for (size_t i = 0; i < old_size; i++)
            if (old[i].both)
                *merged_slot(s, old[i].a, old[i].b) = old[i];
        free(old);
    }
    *merged_slot(s, a, b) = (struct merged){a, b, both + 1};
    s->n_merged++;
}

static int compare(const struct pair *a, const struct pair *b)
{
    if (a->state != b->state)
        return a->state < b->state ? -1 : 1;
    return (a->count > b->count) - (a->count < b->count);
}

/* Merges two lists; those with the same top go on together, so this is as deep as the stacks are.
 */
uint32_t stacks_union(struct stacks *s, uint32_t a, uint32_t b)
{
    if (a == b || b == NO_STACKS)
        return a;
    if (a == NO_STACKS)
        return b;
    if (a > b) {
        uint32_t other = a;
        a = b, b = other;
    }
    struct merged *known = s->merged_size ? merged_slot(s, a, b) : NULL;
    if (known && known->both)
        return known->both - 1;
    size_t begin = s->scratch_used, i = 0, j = 0;
    size_t n_a = s->set[a].n, n_b = s->set[b].n;
    while (i < n_a || j < n_b) {
        struct pair left = {0}, right = {0}, one;
        if (i < n_a)
            left = s->pair[s->set[a].first + i];
        if (j < n_b)
            right = s->pair[s->set[b].first + j];
        int order = i == n_a ? 1 : j == n_b ? -1 : compare(&left, &right);
        one = order <= 0 ? left : right;
        if (order == 0)
            one.rest = stacks_union(s, left.rest, right.rest);
        i += order <= 0;
        j += order >= 0;
        s->scratch =
            grow(s->scratch, &s->scratch_capacity, s->scratch_used + 1, sizeof *s->scratch);
        s->scratch[s->scratch_used++] = one;
    }
    uint32_t both = stacks_set(s, s->scratch + begin, s->scratch_used - begin);
    s->scratch_used = begin;
    remember_union(s, a, b, both);
    return both;
}
