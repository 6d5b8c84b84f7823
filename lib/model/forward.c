/* The forward pass, top to bottom.  Shapes are in comments; `rows` is the number of tokens evaluated
 * together, whatever sequences they belong to. */
#include "model/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- scratch ------------------------------------------------------------------------------- */

static void renew(float **buffer, uint32_t rows, size_t width)
{
    free(*buffer);
    *buffer = allocate_aligned((size_t)rows * width, sizeof **buffer);
}

static void reserve(struct model *m, uint32_t rows)
{
    const struct hyperparameters *h = &m->hyper;
    struct scratch *s = &m->scratch;
    if (rows <= s->rows)
        return;
    s->rows = rows;
    renew(&s->x, rows, h->dim);
    renew(&s->h, rows, h->dim);
    renew(&s->q, rows, (size_t)h->n_heads * h->cache.key_dim);
    renew(&s->k, rows, (size_t)h->cache.n_kv_heads * h->cache.key_dim);
    renew(&s->v, rows, (size_t)h->cache.n_kv_heads * h->cache.value_dim);
    renew(&s->attended, rows, (size_t)h->n_heads * h->cache.value_dim);
    renew(&s->gate, rows, h->n_ffn);
    renew(&s->up, rows, h->n_ffn);
    renew(&s->cosine, rows, h->rope.dim / 2);
    renew(&s->sine, rows, h->rope.dim / 2);
    free(s->seen);
    free(s->row);
    s->seen = allocate(rows, sizeof *s->seen);
    s->row = allocate(rows, sizeof *s->row);
}

/* ---- steps over rows, divided among threads ------------------------------------------------ */

/* y = norm(x) * w, row by row */
struct norm_job {
    const struct model *model;
    float *y;       /* (rows, n) */
    const float *x; /* (rows, n) */
    const float *w; /* (n) */
    uint32_t n;
};

static void norm_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct norm_job *job = context;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        kernel_rms_norm(job->model->kernel, job->y + i * job->n, job->x + i * job->n, job->w, job->n,
                        job->model->hyper.norm_epsilon);
}

static void norm(struct model *m, float *y, const float *x, const float *w, uint32_t n, uint32_t rows)
{
    struct norm_job job = {m, y, x, w, n};
    threads_run(m->threads, rows, 8, norm_rows, &job);
}

static void multiply(struct model *m, const float *x, uint32_t cols, const struct product *products,
                     size_t n, uint32_t rows)
{
    activations_set(m->activations, x, rows, cols);
    kernel_multiply(m->kernel, m->threads, products, n, m->activations);
}

/* Embeddings and angles of each row. */
static void embed_rows(void *context, int thread, size_t begin, size_t end)
{
    struct model *m = context;
    struct scratch *s = &m->scratch;
    uint32_t dim = m->hyper.dim, half = m->hyper.rope.dim / 2;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        matrix_row_f32(&m->embedding, s->row[i].token, s->x + i * dim);
        rope_angles(&m->hyper, m->rope_frequency, s->row[i].position, s->cosine + i * half, s->sine + i * half);
    }
}

/* Everything between the products that make q, k, v and attention: biases, norms of the heads,
 * rotation, and the rounding of keys and values into the cache. */
struct place_job {
    struct model *model;
    uint32_t layer;
};

static void place_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct place_job *job = context;
    struct model *m = job->model;
    const struct hyperparameters *h = &m->hyper;
    const struct layer *layer = &m->layers[job->layer];
    const struct kernel *kernel = m->kernel;
    uint32_t key_dim = h->cache.key_dim, kv_heads = h->cache.n_kv_heads, half = h->rope.dim / 2;
    size_t n_q = (size_t)h->n_heads * key_dim, n_k = (size_t)kv_heads * key_dim,
           n_v = (size_t)kv_heads * h->cache.value_dim;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *q = m->scratch.q + i * n_q, *k = m->scratch.k + i * n_k, *v = m->scratch.v + i * n_v;
        const float *cosine = m->scratch.cosine + i * half, *sine = m->scratch.sine + i * half;
        if (layer->query_bias) {
            kernel_add(kernel, q, layer->query_bias, n_q);
            kernel_add(kernel, k, layer->key_bias, n_k);
            kernel_add(kernel, v, layer->value_bias, n_v);
        }
        for (uint32_t head = 0; h->qk_norm && head < h->n_heads; head++)
            kernel_rms_norm(kernel, q + head * key_dim, q + head * key_dim, layer->query_norm, key_dim,
                            h->norm_epsilon);
        for (uint32_t head = 0; h->qk_norm && head < kv_heads; head++)
            kernel_rms_norm(kernel, k + head * key_dim, k + head * key_dim, layer->key_norm, key_dim,
                            h->norm_epsilon);
        kernel_rope(kernel, q, h->n_heads, key_dim, h->rope.dim, cosine, sine, h->rope.adjacent);
        kernel_rope(kernel, k, kv_heads, key_dim, h->rope.dim, cosine, sine, h->rope.adjacent);
        cache_store(m->scratch.row[i].sequence, job->layer, m->scratch.row[i].position, k, v);
    }
}

struct pair_job {
    const struct model *model;
    float *y;
    const float *x;
    uint32_t n;
};

static void add_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct pair_job *job = context;
    (void)thread;
    kernel_add(job->model->kernel, job->y + begin * job->n, job->x + begin * job->n, (end - begin) * job->n);
}

static void silu_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct pair_job *job = context;
    (void)thread;
    kernel_silu_multiply(job->model->kernel, job->y + begin * job->n, job->x + begin * job->n,
                         (end - begin) * job->n);
}

/* ---- the two halves of a layer ------------------------------------------------------------- */

/* Keeps the rows that want logits: above the last layer's keys and values nobody needs the others. */
static uint32_t keep_wanted(struct model *m, uint32_t rows)
{
    struct scratch *s = &m->scratch;
    size_t dim = m->hyper.dim, n_q = (size_t)m->hyper.n_heads * m->hyper.cache.key_dim;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < rows; i++) {
        if (!s->row[i].wants_logits)
            continue;
        if (kept != i) {
            memcpy(s->x + kept * dim, s->x + i * dim, dim * sizeof *s->x);
            memcpy(s->q + kept * n_q, s->q + i * n_q, n_q * sizeof *s->q);
            s->row[kept] = s->row[i];
            s->seen[kept] = s->seen[i];
        }
        kept++;
    }
    return kept;
}

/* x += W_o attention(rope(W_q h), rope(W_k h), W_v h), h = norm(x).  Returns the rows that go on. */
static uint32_t attention_block(struct model *m, uint32_t index, uint32_t rows)
{
    const struct hyperparameters *h = &m->hyper;
    const struct layer *layer = &m->layers[index];
    struct scratch *s = &m->scratch;
    uint32_t dim = h->dim, n_o = h->n_heads * h->cache.value_dim;
    norm(m, s->h, s->x, layer->attention_norm, dim, rows);
    const struct product qkv[] = {{&layer->query, s->q, layer->query.rows},
                                  {&layer->key, s->k, layer->key.rows},
                                  {&layer->value, s->v, layer->value.rows}};
    multiply(m, s->h, dim, qkv, 3, rows);
    struct place_job place = {m, index};
    threads_run(m->threads, rows, 4, place_rows, &place);
    if (index + 1 == h->n_layers)
        rows = keep_wanted(m, rows);
    if (rows == 0)
        return 0;
    struct attention attention = {
        .n_heads = h->n_heads,
        .n_kv_heads = h->cache.n_kv_heads,
        .key_dim = h->cache.key_dim,
        .value_dim = h->cache.value_dim,
        .element = h->cache.element,
        .key_offset = cache_key_offset(&h->cache, index),
        .value_offset = cache_value_offset(&h->cache, index),
        .scale = 1.0f / sqrtf((float)h->cache.key_dim),
    };
    kernel_attend(m->kernel, m->threads, &attention, s->seen, rows, s->q, s->attended);
    multiply(m, s->attended, n_o, &(struct product){&layer->output, s->h, dim}, 1, rows);
    struct pair_job residual = {m, s->x, s->h, dim};
    threads_run(m->threads, rows, 16, add_rows, &residual);
    return rows;
}

/* x += W_down (silu(W_gate h) * W_up h), h = norm(x) */
static void ffn_block(struct model *m, uint32_t index, uint32_t rows)
{
    const struct layer *layer = &m->layers[index];
    struct scratch *s = &m->scratch;
    uint32_t dim = m->hyper.dim, n_ffn = m->hyper.n_ffn;
    norm(m, s->h, s->x, layer->ffn_norm, dim, rows);
    const struct product gate_up[] = {{&layer->gate, s->gate, n_ffn}, {&layer->up, s->up, n_ffn}};
    multiply(m, s->h, dim, gate_up, 2, rows);
    struct pair_job activation = {m, s->gate, s->up, n_ffn}, residual = {m, s->x, s->h, dim};
    threads_run(m->threads, rows, 4, silu_rows, &activation);
    multiply(m, s->gate, n_ffn, &(struct product){&layer->down, s->h, dim}, 1, rows);
    threads_run(m->threads, rows, 16, add_rows, &residual);
}

/* ---- the pass ------------------------------------------------------------------------------ */

/* Checks the rows, extends their caches, and notes what each row sees. */
static bool prepare(struct model *m, const struct model_row *rows, uint32_t n_rows, struct error *error)
{
    for (uint32_t i = 0; i < n_rows; i++)
        if (rows[i].token >= m->hyper.n_logits)
            return error_set(error, STATUS_INPUT, "token %u at position %u: the model knows 0 to %u",
                             rows[i].token, rows[i].position, m->hyper.n_logits - 1);
    reserve(m, n_rows);
    memcpy(m->scratch.row, rows, n_rows * sizeof *rows);
    for (uint32_t i = 0; i < n_rows; i++)
        cache_extend(rows[i].sequence, rows[i].position + 1);
    for (uint32_t i = 0; i < n_rows; i++)
        m->scratch.seen[i] = (struct attention_row){rows[i].sequence->data, 0, rows[i].position + 1};
    return true;
}

static bool check_finite(const struct model *m, const float *x, uint32_t width, uint32_t rows, uint32_t layer,
                         struct error *error)
{
    size_t n = (size_t)rows * width, at = kernel_find_not_finite(m->kernel, x, n);
    if (at == n)
        return true;
    uint32_t position = m->scratch.row[at / width].position;
    if (layer == m->hyper.n_layers)
        return error_set(error, STATUS_INPUT, "logits at position %u are not finite", position);
    return error_set(error, STATUS_INPUT, "values in layer %u at position %u are not finite", layer, position);
}

bool model_evaluate(struct model *m, const struct model_row *rows, uint32_t n_rows, float *logits,
                    struct error *error)
{
    struct scratch *s = &m->scratch;
    const struct hyperparameters *h = &m->hyper;
    uint32_t n = n_rows;
    if (n == 0)
        return true;
    bool ok = prepare(m, rows, n_rows, error);
    if (ok)
        threads_run(m->threads, n, 4, embed_rows, m);
    for (uint32_t layer = 0; layer < h->n_layers && ok && n > 0; layer++) {
        n = attention_block(m, layer, n);
        if (n > 0)
            ffn_block(m, layer, n);
        ok = check_finite(m, s->x, h->dim, n, layer, error);
    }
    if (ok && n > 0) {
        norm(m, s->h, s->x, m->output_norm, h->dim, n);
        multiply(m, s->h, h->dim, &(struct product){&m->output, logits, h->n_logits}, 1, n);
        ok = check_finite(m, logits, h->n_logits, n, h->n_layers, error);
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        if (ok)
            rows[i].sequence->n_positions = rows[i].position + 1;
        else
            cache_cut(rows[i].sequence, rows[i].sequence->n_positions);
    }
    return ok;
}
