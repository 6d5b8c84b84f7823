#include "select/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A token of some hypothesis, and the one before it: hypotheses share their beginnings. */
struct node {
    size_t previous; /* NO_NODE: it is the first */
    uint32_t id;
};
#define NO_NODE SIZE_MAX

/* A running hypothesis and a token that it may go on by. */
struct candidate {
    double sum;
    uint32_t beam, order, id; /* order: among those of the beam, the greatest logit first */
    bool ends;
};

struct beam_search {
    struct beam_options options;
    struct beam_hypothesis *running, *next; /* (width), in descending order of their sums */
    uint32_t n_running;
    struct beam_hypothesis *kept; /* (width + 1), in descending order of their scores */
    uint32_t n_kept;
    struct candidate *candidate;
    size_t n_candidates, candidates_capacity;
    struct node *node;
    size_t n_nodes, nodes_capacity;
    uint32_t *id; /* the greatest logits of a beam */
    size_t ids_capacity;
    uint32_t length; /* of those that run */
};

struct beam_search *beam_new(const struct beam_options *options)
{
    struct beam_search *s = allocate(1, sizeof *s);
    *s = (struct beam_search){.options = *options, .n_running = 1};
    s->running = allocate(options->width, sizeof *s->running);
    s->next = allocate(options->width, sizeof *s->next);
    s->kept = allocate(options->width + (size_t)1, sizeof *s->kept);
    s->running[0].node = NO_NODE;
    return s;
}

void beam_free(struct beam_search *s)
{
    if (!s)
        return;
    free(s->running);
    free(s->next);
    free(s->kept);
    free(s->candidate);
    free(s->node);
    free(s->id);
    free(s);
}

/* ---- candidates ---------------------------------------------------------------------------- */

static bool check_logits(const struct select_question *q, struct error *error)
{
    for (uint32_t i = 0; i < q->n; i++)
        if (isnan(q->logits[i]) || q->logits[i] == INFINITY)
            return error_set(error, STATUS_INPUT, "the logit of token %u for position %u is %s", i,
                             q->position, isnan(q->logits[i]) ? "NaN" : "+infinity");
    return true;
}

static bool is_banned(const struct select_question *q, uint32_t id)
{
    for (size_t i = 0; i < q->n_banned; i++)
        if (q->banned[i] == id)
            return true;
    return false;
}

/* The greatest logits of a beam, down to the last that can matter: so many that `width` of them do
 * not end it.  False where more than k are needed for that. */
static bool add_candidates(struct beam_search *s, uint32_t beam, const struct select_question *q,
                           size_t k, beam_ends *ends, void *context)
{
    uint32_t n = q->n < q->n_selectable ? q->n : q->n_selectable, going_on = 0, order = 0;
    size_t before = s->n_candidates;
    s->id = grow(s->id, &s->ids_capacity, k, sizeof *s->id);
    size_t found = select_top(q->logits, n, k, s->id);
    double total = select_log_total(q->logits, q->n), sum = s->running[beam].sum;
    for (size_t i = 0; i < found && going_on < s->options.width; i++) {
        uint32_t id = s->id[i];
        if (q->logits[id] == -INFINITY)
            return true;
        if (is_banned(q, id))
            continue;
        struct candidate c = {sum + ((double)q->logits[id] - total), beam, order++, id,
                              ends(context, beam, id)};
        s->candidate =
            grow(s->candidate, &s->candidates_capacity, s->n_candidates + 1, sizeof *s->candidate);
        s->candidate[s->n_candidates++] = c;
        going_on += !c.ends;
    }
    if (going_on == s->options.width || found == n)
        return true;
    s->n_candidates = before;
    return false;
}

bool beam_offer(struct beam_search *s, uint32_t beam, const struct select_question *q,
                beam_ends *ends, void *context, struct error *error)
{
    if (!check_logits(q, error))
        return false;
    size_t k = s->options.width + (size_t)8;
    while (!add_candidates(s, beam, q, k, ends, context))
        k *= 4;
    return true;
}

static int by_sum(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->sum != b->sum)
        return a->sum > b->sum ? -1 : 1;
    if (a->beam != b->beam)
        return a->beam < b->beam ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* ---- hypotheses ---------------------------------------------------------------------------- */

static double score_of(const struct beam_search *s, double sum, uint32_t length)
{
    double penalty = s->options.length_penalty;
    if (penalty == 0)
        return sum;
    return sum / (penalty == 1 ? (double)length : exact_pow((double)length, penalty));
}

static struct beam_hypothesis extend(struct beam_search *s, const struct candidate *c)
{
    s->node = grow(s->node, &s->nodes_capacity, s->n_nodes + 1, sizeof *s->node);
    s->node[s->n_nodes] = (struct node){s->running[c->beam].node, c->id};
    return (struct beam_hypothesis){.sum = c->sum,
                                    .score = score_of(s, c->sum, s->length + 1),
                                    .length = s->length + 1,
                                    .parent = c->beam,
                                    .id = c->id,
                                    .ended = c->ends,
                                    .node = s->n_nodes++};
}

/* Keeps one that has ended, if it is among the best. */
static void keep(struct beam_search *s, struct beam_hypothesis hypothesis)
{
    uint32_t at = s->n_kept++;
    for (; at > 0 && s->kept[at - 1].score < hypothesis.score; at--)
        s->kept[at] = s->kept[at - 1];
    s->kept[at] = hypothesis;
    if (s->n_kept > s->options.width)
        s->n_kept--;
}

/* The highest score that the best of those that run could get: its sum only falls, and a positive
 * penalty forgives most at the greatest length. */
static double bound(const struct beam_search *s)
{
    return score_of(s, s->running[0].sum,
                    s->options.length_penalty > 0 ? s->options.limit : s->length);
}

static bool is_over(const struct beam_search *s)
{
    const struct beam_options *o = &s->options;
    bool full = s->n_kept == o->width;
    if (s->n_running == 0)
        return true;
    if (o->stopping == BEAM_ALWAYS || o->width == 1)
        return full;
    if (o->stopping == BEAM_AUTO)
        return full && s->running[0].score <= s->kept[s->n_kept - 1].score;
    return s->n_kept >= o->n_best && bound(s) <= s->kept[o->n_best - 1].score;
}

bool beam_step(struct beam_search *s)
{
    uint32_t n = 0, width = s->options.width;
    if (s->n_candidates)
        qsort(s->candidate, s->n_candidates, sizeof *s->candidate, by_sum);
    for (size_t i = 0; i < s->n_candidates && n < width; i++) {
        const struct candidate *c = &s->candidate[i];
        if (!c->ends)
            s->next[n++] = extend(s, c);
        else if (i < width)
            keep(s, extend(s, c));
    }
    struct beam_hypothesis *running = s->next;
    s->next = s->running;
    s->running = running;
    s->n_running = n;
    s->n_candidates = 0;
    s->length++;
    if (s->length >= s->options.limit) {
        for (uint32_t i = 0; i < n; i++)
            keep(s, s->running[i]);
        s->n_running = 0;
    }
    return !is_over(s);
}

const struct beam_hypothesis *beam_running(const struct beam_search *s, uint32_t *n)
{
    *n = s->n_running;
    return s->running;
}

const struct beam_hypothesis *beam_best(const struct beam_search *s, uint32_t *n)
{
    *n = s->n_kept < s->options.n_best ? s->n_kept : s->options.n_best;
    return s->kept;
}

void beam_tokens(const struct beam_search *s, const struct beam_hypothesis *h, uint32_t *ids)
{
    uint32_t at = h->length;
    for (size_t node = h->node; at > 0; node = s->node[node].previous)
        ids[--at] = s->node[node].id;
}
