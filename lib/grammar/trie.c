#include "grammar/trie.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PIECE 65535u /* longer pieces are never allowed */

/* Tokens in the order of their pieces, by one byte after another: those of one byte stay together,
 * so that each is looked at about as often as it has bytes that others share. */
struct sorting {
    const struct grammar_vocabulary *v;
    uint32_t *ids, *other;
};

static int byte_at(const struct grammar_vocabulary *v, uint32_t id, size_t depth)
{
    return depth < v->length[id] ? (uint8_t)v->piece[id][depth] : -1;
}

/* A few: by insertion. */
static void sort_few(const struct grammar_vocabulary *v, uint32_t *ids, size_t n, size_t depth)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0; k--) {
            uint32_t a = ids[k - 1], b = ids[k];
            size_t la = v->length[a] - depth, lb = v->length[b] - depth;
            int order = memcmp(v->piece[a] + depth, v->piece[b] + depth, la < lb ? la : lb);
            if (order < 0 || (order == 0 && la <= lb))
                break;
            ids[k - 1] = b, ids[k] = a;
        }
}

/* All n have the same first `depth` bytes.  Goes on with the greatest part in a loop, so that the
 * recursion is as deep as the logarithm of n. */
static void sort_ids(struct sorting *s, size_t from, size_t n, size_t depth)
{
    while (n > 12) {
        size_t begin[258] = {0};
        for (size_t i = from; i < from + n; i++)
            begin[byte_at(s->v, s->ids[i], depth) + 2]++;
        for (size_t i = 1; i < 258; i++)
            begin[i] += begin[i - 1];
        size_t at[257];
        memcpy(at, begin, sizeof at);
        for (size_t i = from; i < from + n; i++)
            s->other[at[byte_at(s->v, s->ids[i], depth) + 1]++] = s->ids[i];
        memcpy(s->ids + from, s->other, n * sizeof *s->ids);
        size_t greatest = 1;
        for (size_t c = 2; c < 257; c++)
            if (begin[c + 1] - begin[c] > begin[greatest + 1] - begin[greatest])
                greatest = c;
        for (size_t c = 1; c < 257; c++)
            if (c != greatest && begin[c + 1] > begin[c])
                sort_ids(s, from + begin[c], begin[c + 1] - begin[c], depth + 1);
        from += begin[greatest];
        n = begin[greatest + 1] - begin[greatest];
        depth++;
    }
    sort_few(s->v, s->ids + from, n, depth);
}

static size_t common(const struct grammar_vocabulary *v, uint32_t a, uint32_t b)
{
    size_t n = 0, most = v->length[a] < v->length[b] ? v->length[a] : v->length[b];
    while (n < most && v->piece[a][n] == v->piece[b][n])
        n++;
    return n;
}

/* Nodes that are open are those above the current one; a node that is not beneath them closes them.
 */
static void find_skips(struct trie *t)
{
    uint32_t *open = allocate(t->max_depth + 1, sizeof *open);
    size_t n = 0;
    for (uint32_t i = 0; i <= t->n_nodes; i++) {
        while (n > 0 && t->node[open[n - 1]].depth >= t->node[i].depth)
            t->node[open[--n]].skip = i;
        if (i < t->n_nodes)
            open[n++] = i;
    }
    free(open);
}

void trie_make(struct trie *t, const struct grammar_vocabulary *v, const uint8_t class_of[256])
{
    *t = (struct trie){.token = allocate((size_t)v->n_tokens + 1, sizeof *t->token)};
    struct sorting sorting = {v, t->token, allocate((size_t)v->n_tokens + 1, sizeof *t->token)};
    size_t capacity = 0;
    for (uint32_t id = 0; id < v->n_tokens; id++)
        if (v->length[id] > 0 && v->length[id] <= MAX_PIECE)
            t->token[t->n_tokens++] = id;
    sort_ids(&sorting, 0, t->n_tokens, 0);
    free(sorting.other);
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        uint32_t id = t->token[i], length = v->length[id];
        size_t shared = i ? common(v, t->token[i - 1], id) : 0;
        t->max_depth = length > t->max_depth ? length : t->max_depth;
        t->node = grow(t->node, &capacity, t->n_nodes + length + 1, sizeof *t->node);
        for (size_t d = shared; d < length; d++) /* the token ends at the last of them */
            t->node[t->n_nodes++] = (struct trie_node){.token = i,
                                                       .depth = (uint16_t)(d + 1),
                                                       .class = class_of[(uint8_t)v->piece[id][d]]};
    }
    t->node = grow(t->node, &capacity, t->n_nodes + 1, sizeof *t->node);
    t->node[t->n_nodes] = (struct trie_node){.token = t->n_tokens};
    find_skips(t);
}

void trie_free(struct trie *t)
{
    free(t->node);
    free(t->token);
}
