/* The mixture of experts (Shazeer et al. 2017, arXiv 1701.06538): a router chooses a few
 * feed-forward blocks for each token, and their outputs are summed with its weights.
 *
 * The order is canonical: the experts with the largest logits are chosen, of equals the lower id;
 * their weights are exp(logit - largest) over the sum, in ascending id, of those of the chosen (or
 * of all, where the weights are not normalised), times the scale; outputs are summed in ascending
 * id, from 0, with one fused multiply-add each, and then that of the shared expert, weighted by the
 * sigmoid of its own gate where it has one.
 *
 * Rows are grouped by expert, so that each matrix is read once and meets many rows at a time; the
 * bits of a row do not depend on its company. */
#include "model/internal.h"

#include <stdlib.h>
#include <string.h>

void experts_reserve(struct model *m, uint32_t rows)
{
    const struct expert_settings *e = &m->hyper.experts;
    struct expert_scratch *s = &m->scratch.experts;
    size_t used = (size_t)rows * e->n_used, dim = m->hyper.dim;
    experts_free(m);
    s->logits = allocate_aligned((size_t)rows * e->n, sizeof *s->logits);
    s->chosen = allocate(used, sizeof *s->chosen);
    s->weight = allocate(used, sizeof *s->weight);
    s->slot = allocate(used, sizeof *s->slot);
    s->first = allocate(e->n + (size_t)1, sizeof *s->first);
    s->x = allocate_aligned(used * dim, sizeof *s->x);
    s->gate = allocate_aligned(used * e->n_ffn, sizeof *s->gate);
    s->up = allocate_aligned(used * e->n_ffn, sizeof *s->up);
    s->shared = allocate_aligned(rows * dim, sizeof *s->shared);
    s->shared_weight = allocate(rows, sizeof *s->shared_weight);
    s->activations = allocate(e->n, sizeof *s->activations);
    s->x_of = allocate(2 * (size_t)e->n, sizeof *s->x_of);
    s->products = allocate(2 * (size_t)e->n, sizeof *s->products);
    for (uint32_t i = 0; i < e->n; i++)
        s->activations[i] = activations_new();
}

void experts_free(struct model *m)
{
    struct expert_scratch *s = &m->scratch.experts;
    for (uint32_t i = 0; s->activations && i < m->hyper.experts.n; i++)
        activations_free(s->activations[i]);
    free(s->logits);
    free(s->chosen);
    free(s->weight);
    free(s->slot);
    free(s->first);
    free(s->x);
    free(s->gate);
    free(s->up);
    free(s->shared);
    free(s->shared_weight);
    free(s->activations);
    free(s->x_of);
    free(s->products);
    *s = (struct expert_scratch){0};
}

struct experts_job {
    struct model *model;
    const float *x; /* (rows, dim) */
    float *y;       /* (rows, dim) */
    bool shared, shared_gate;
};

/* The largest of the logits beyond those in `taken`, of equals the first. */
static uint32_t best_expert(const float *logits, const bool *taken, uint32_t n)
{
    uint32_t best = 0;
    while (taken[best])
        best++;
    for (uint32_t i = best + 1; i < n; i++)
        if (!taken[i] && logits[i] > logits[best])
            best = i;
    return best;
}

/* One row: which experts, ascending, and their weights. */
static void choose(const struct expert_settings *e, const float *logits, bool *taken,
                   uint32_t *chosen, float *weight)
{
    memset(taken, 0, e->n * sizeof *taken);
    float largest = 0, sum = 0;
    for (uint32_t k = 0; k < e->n_used; k++) {
        uint32_t best = best_expert(logits, taken, e->n);
        largest = k == 0 ? logits[best] : largest;
        taken[best] = true;
    }
    for (uint32_t i = 0, k = 0; i < e->n; i++) {
        if (!taken[i] && e->normalised)
            continue;
        float share = exact_exp(logits[i] - largest);
        sum += share;
        if (taken[i]) {
            chosen[k] = i;
            weight[k++] = share;
        }
    }
    for (uint32_t k = 0; k < e->n_used; k++)
        weight[k] = weight[k] / sum * e->scale;
}

static void choose_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct experts_job *job = context;
    const struct expert_settings *e = &job->model->hyper.experts;
    const struct expert_scratch *s = &job->model->scratch.experts;
    bool *taken = allocate(e->n, sizeof *taken);
    (void)thread;
    for (size_t i = begin; i < end; i++)
        choose(e, s->logits + i * e->n, taken, s->chosen + i * e->n_used,
               s->weight + i * e->n_used);
    free(taken);
}

/* Gives each choice its slot: by expert, then by row. */
static void group(const struct expert_settings *e, struct expert_scratch *s, uint32_t rows)
{
    uint32_t used = rows * e->n_used;
    memset(s->first, 0, (e->n + (size_t)1) * sizeof *s->first);
    for (uint32_t i = 0; i < used; i++)
        s->first[s->chosen[i] + 1]++;
    for (uint32_t i = 0; i < e->n; i++)
        s->first[i + 1] += s->first[i];
    for (uint32_t i = 0; i < used; i++)
        s->slot[i] = s->first[s->chosen[i]]++;
    for (uint32_t i = e->n; i > 0; i--)
        s->first[i] = s->first[i - 1];
    s->first[0] = 0;
}

static void gather_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct experts_job *job = context;
    const struct expert_scratch *s = &job->model->scratch.experts;
    size_t dim = job->model->hyper.dim, used = job->model->hyper.experts.n_used;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        for (size_t k = 0; k < used; k++)
            memcpy(s->x + s->slot[i * used + k] * dim, job->x + i * dim, dim * sizeof *job->x);
}

static void sum_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct experts_job *job = context;
    const struct kernel *kernel = job->model->kernel;
    const struct expert_scratch *s = &job->model->scratch.experts;
    size_t dim = job->model->hyper.dim, used = job->model->hyper.experts.n_used;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *y = job->y + i * dim;
        memset(y, 0, dim * sizeof *y);
        for (size_t k = i * used; k < (i + 1) * used; k++)
            kernel_add_scaled(kernel, y, s->x + s->slot[k] * dim, s->weight[k], dim);
        float weight = job->shared_gate ? 1.0f / (1.0f + exact_exp(-s->shared_weight[i])) : 1.0f;
        if (job->shared)
            kernel_add_scaled(kernel, y, s->shared + i * dim, weight, dim);
    }
}

/* Puts one product of each expert that has rows after the `n` there are; returns how many there are
 * then. */
static size_t add_products(struct expert_scratch *s, const struct matrix *w, uint32_t n_experts,
                           float *y, size_t n)
{
    for (uint32_t i = 0; i < n_experts; i++)
        if (s->first[i + 1] > s->first[i]) {
            s->x_of[n] = s->activations[i];
            s->products[n++] =
                (struct product){&w[i], y + (size_t)s->first[i] * w[i].rows, w[i].rows};
        }
    return n;
}

static void set_inputs(struct expert_scratch *s, uint32_t n_experts, const float *x, uint32_t cols)
{
    for (uint32_t i = 0; i < n_experts; i++)
        activations_set(s->activations[i], x + (size_t)s->first[i] * cols,
                        s->first[i + 1] - s->first[i], cols);
}

void feed_forward_experts(struct model *m, const struct layer *layer, const float *x, float *y,
                          uint32_t rows)
{
    const struct expert_settings *e = &m->hyper.experts;
    const struct experts *experts = &layer->experts;
    struct expert_scratch *s = &m->scratch.experts;
    uint32_t dim = m->hyper.dim;
    struct experts_job job = {m, x, y, layer->up.data != NULL, experts->shared_gate.data != NULL};
    const struct product router[] = {{&experts->router, s->logits, e->n},
                                     {&experts->shared_gate, s->shared_weight, 1}};
    multiply(m, x, dim, router, job.shared_gate ? 2 : 1, rows);
    threads_run(m->threads, rows, 8, choose_rows, &job);
    group(e, s, rows);
    threads_run(m->threads, rows, 8, gather_rows, &job);
    if (job.shared)
        feed_forward_dense(m, layer, x, s->shared, rows);

    set_inputs(s, e->n, s->x, dim);
    size_t n = add_products(s, experts->gate, e->n, s->gate, 0);
    n = add_products(s, experts->up, e->n, s->up, n);
    kernel_multiply_each(m->kernel, m->threads, s->products, n, s->x_of);
    activate(m, NULL, s->gate, s->up, e->n_ffn, rows * e->n_used);
    set_inputs(s, e->n, s->gate, e->n_ffn);
    n = add_products(s, experts->down, e->n, s->x, 0);
    kernel_multiply_each(m->kernel, m->threads, s->products, n, s->x_of);
    threads_run(m->threads, rows, 8, sum_rows, &job);
}
