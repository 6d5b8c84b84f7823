#include "select/select.h"

#include <stdlib.h>
#include <string.h>

#define NO_STRING SIZE_MAX

/* A node is a beginning of one or more of the strings; node 0 is the empty one.  Children are
 * lists: there are few, and a table of 256 each would make long strings dear. */
struct node {
    uint8_t byte;             /* its last byte */
    uint32_t child, sibling;  /* 0: none */
    uint32_t parent, shorter; /* the longest proper ending of it that is a node too */
    uint32_t depth;           /* its length */
    size_t string;            /* the longest string that ends here, or NO_STRING */
};

struct stop_matcher {
    struct node *nodes;
    size_t n_nodes, capacity;
    size_t *lengths; /* of the strings */
};

static uint32_t find_child(const struct stop_matcher *m, uint32_t node, uint8_t byte)
{
    uint32_t child = m->nodes[node].child;
    while (child && m->nodes[child].byte != byte)
        child = m->nodes[child].sibling;
    return child;
}

static uint32_t add_child(struct stop_matcher *m, uint32_t parent, uint8_t byte)
{
    uint32_t child = find_child(m, parent, byte);
    if (child)
        return child;
    m->nodes = grow(m->nodes, &m->capacity, m->n_nodes + 1, sizeof *m->nodes);
    child = (uint32_t)m->n_nodes++;
    m->nodes[child] = (struct node){.byte = byte,
                                    .sibling = m->nodes[parent].child,
                                    .parent = parent,
                                    .depth = m->nodes[parent].depth + 1,
                                    .string = NO_STRING};
    m->nodes[parent].child = child;
    return child;
}

/* The longest node that the text ends with, one byte later. */
static uint32_t advance(const struct stop_matcher *m, uint32_t node, uint8_t byte)
{
    for (;;) {
        uint32_t child = find_child(m, node, byte);
        if (child || node == 0)
            return child;
        node = m->nodes[node].shorter;
    }
}

/* The links to shorter endings, in the order of the depths (breadth first). */
static void link_endings(struct stop_matcher *m)
{
    uint32_t *queue = allocate(m->n_nodes, sizeof *queue);
    size_t begin = 0, end = 1;
    for (; begin < end; begin++) {
        uint32_t at = queue[begin];
        struct node *node = &m->nodes[at];
        if (node->depth > 1)
            node->shorter = advance(m, m->nodes[node->parent].shorter, node->byte);
        if (node->string == NO_STRING)
            node->string = m->nodes[node->shorter].string;
        for (uint32_t child = node->child; child; child = m->nodes[child].sibling)
            queue[end++] = child;
    }
    free(queue);
}

struct stop_matcher *stop_new(const char *const *strings, size_t n)
{
    struct stop_matcher *m = allocate(1, sizeof *m);
    m->lengths = allocate(n, sizeof *m->lengths);
    m->nodes = grow(NULL, &m->capacity, 1, sizeof *m->nodes);
    m->nodes[m->n_nodes++] = (struct node){.string = NO_STRING};
    for (size_t i = 0; i < n; i++) {
        uint32_t node = 0;
        m->lengths[i] = strlen(strings[i]);
        for (const char *byte = strings[i]; *byte; byte++)
            node = add_child(m, node, (uint8_t)*byte);
        m->nodes[node].string = i;
    }
    link_endings(m);
    return m;
}

void stop_free(struct stop_matcher *m)
{
    if (!m)
        return;
    free(m->nodes);
    free(m->lengths);
    free(m);
}

enum stop_outcome stop_feed(const struct stop_matcher *m, uint32_t *state, const void *bytes,
                            size_t length, struct stop_match *match)
{
    const uint8_t *text = bytes;
    for (size_t i = 0; i < length; i++) {
        *state = advance(m, *state, text[i]);
        size_t string = m->nodes[*state].string;
        if (string != NO_STRING) {
            *match = (struct stop_match){string, m->lengths[string] + (length - i - 1)};
            *state = 0;
            return STOP_MATCHED;
        }
    }
    return *state ? STOP_PARTIAL : STOP_NONE;
}

bool stop_ends_in(const struct stop_matcher *m, uint32_t *state, const void *bytes, size_t length)
{
    const uint8_t *text = bytes;
    bool ends = false;
    for (size_t i = 0; i < length; i++) {
        *state = advance(m, *state, text[i]);
        ends |= m->nodes[*state].string != NO_STRING;
    }
    return ends;
}
