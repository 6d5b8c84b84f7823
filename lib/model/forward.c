/* The forward pass, top to bottom.  Shapes are in comments; `rows` is the number of tokens
 * evaluated together, whatever sequences they belong to. */
#include "model/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory -------------------------------------------------------------------------------- */

static void renew(float **buffer, uint32_t rows, size_t width)
{
    free(*buffer);
    *buffer = allocate_aligned((size_t)rows * width, sizeof **buffer);
}

static void rows_free(struct rows *rows)
{
    free(rows->x);
    free(rows->cosine);
    free(rows->sine);
    free(rows->row);
    free(rows->seen);
    *rows = (struct rows){0};
}

/* Angles of a row: for each of the model's rotary settings. */
static size_t n_angles(const struct model *m)
{
    return (size_t)m->n_ropes * (m->hyper.rope.dim / 2);
}

static struct rows rows_new(const struct model *m, uint32_t n)
{
    struct rows rows = {.n = n};
    size_t angles = n_angles(m);
    renew(&rows.x, n, m->hyper.dim);
    renew(&rows.cosine, n, angles);
    renew(&rows.sine, n, angles);
    rows.row = allocate(n, sizeof *rows.row);
    rows.seen = allocate(n, sizeof *rows.seen);
    return rows;
}

/* Rows [begin, begin + n) of some. */
static struct rows rows_part(const struct model *m, const struct rows *all, uint32_t begin,
                             uint32_t n)
{
    size_t dim = m->hyper.dim, angles = n_angles(m);
    return (struct rows){n,
                         all->x + begin * dim,
                         all->cosine + begin * angles,
                         all->sine + begin * angles,
                         all->row + begin,
                         all->seen + begin};
}

void scratch_free(struct scratch *s)
{
    rows_free(&s->rows);
    free(s->h);
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->attended);
    free(s->gate);
    free(s->up);
}

static void reserve(struct model *m, uint32_t rows)
{
    const struct hyperparameters *h = &m->hyper;
    struct scratch *s = &m->scratch;
    if (rows <= s->capacity)
        return;
    s->capacity = rows;
    renew(&s->h, rows, h->dim);
    renew(&s->q, rows, (size_t)h->n_heads * h->cache.key_dim);
    renew(&s->k, rows, (size_t)h->cache.n_kv_heads * h->cache.key_dim);
    renew(&s->v, rows, (size_t)h->cache.n_kv_heads * h->cache.value_dim);
    renew(&s->attended, rows, (size_t)h->n_heads * h->cache.value_dim);
    renew(&s->gate, rows, h->n_ffn);
    renew(&s->up, rows, h->n_ffn);
    if (h->experts.n > 0)
        experts_reserve(m, rows);
}

/* ---- steps over rows, divided among threads ------------------------------------------------ */

struct norm_job {
    const struct model *model;
    float *y;       /* (rows, n) */
    const float *x; /* (rows, n) */
    const struct norm *norm;
    uint32_t n;
};

static void norm_row(const struct model *m, float *y, const float *x, const struct norm *norm,
                     uint32_t n)
{
    if (m->family->layer_norm)
        kernel_layer_norm(m->kernel, y, x, norm->weight, norm->bias, n, m->hyper.norm_epsilon);
    else
        kernel_rms_norm(m->kernel, y, x, norm->weight, n, m->hyper.norm_epsilon);
}

static void norm_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct norm_job *job = context;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        norm_row(job->model, job->y + i * job->n, job->x + i * job->n, job->norm, job->n);
}

/* The input of a block (rows, dim): in scratch, or x itself where it is not normalised. */
static const float *normalise(struct model *m, const float *x, const struct norm *norm,
                              uint32_t rows)
{
    struct norm_job job = {m, m->scratch.h, x, norm, m->hyper.dim};
    if (!norm->weight)
        return x;
    threads_run(m->threads, rows, 8, norm_rows, &job);
    return job.y;
}

void multiply(struct model *m, const float *x, uint32_t cols, const struct product *products,
              size_t n, uint32_t rows)
{
    activations_set(m->activations, x, rows, cols);
    kernel_multiply(m->kernel, m->threads, products, n, m->activations);
}

struct rows_job {
    struct model *model;
    const struct rows *rows;
};

/* Embeddings and angles of each row. */
static void embed_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct rows_job *job = context;
    const struct model *m = job->model;
    const struct hyperparameters *h = &m->hyper;
    const struct rows *rows = job->rows;
    size_t dim = h->dim, half = h->rope.dim / 2, angles = n_angles(m);
    float *learned = m->positions.data ? allocate(dim, sizeof *learned) : NULL;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        uint32_t position = rows->row[i].position;
        float *x = rows->x + i * dim;
        matrix_row_f32(&m->embedding, rows->row[i].token, x);
        if (h->embedding_scale != 1)
            kernel_scale(m->kernel, x, h->embedding_scale, dim);
        if (learned) {
            matrix_row_f32(&m->positions, position, learned);
            kernel_add(m->kernel, x, learned, dim);
        }
        for (uint32_t r = 0; r < m->n_ropes; r++)
            rope_angles(r ? &h->local_rope : &h->rope, m->rope_frequency[r], position,
                        rows->cosine + i * angles + r * half, rows->sine + i * angles + r * half);
    }
    free(learned);
}

/* Which of a layer's three projections; lib/dist has keys and values made a layer ahead. */
enum { QUERIES = 1, KEYS_AND_VALUES = 2 };

/* Everything between the products that make q, k, v and attention: biases, norms of the heads,
 * rotation, and the rounding of keys and values into the cache. */
struct place_job {
    struct model *model;
    const struct rows *rows;
    uint32_t layer;
    int which;
};

/* One row's heads: x (heads, dim) += bias, normalised where the family does it, rotated. */
static void finish_heads(const struct place_job *job, float *x, uint32_t heads, const float *bias,
                         const struct norm *norm, size_t row)
{
    const struct model *m = job->model;
    const struct rope_settings *rope = &m->hyper.rope; /* local layers pair alike */
    uint32_t dim = m->hyper.cache.key_dim, half = rope->dim / 2;
    size_t angle = row * n_angles(m) + (size_t)m->layers[job->layer].rope * half;
    if (bias)
        kernel_add(m->kernel, x, bias, (size_t)heads * dim);
    if (m->family->qk_norm == QK_NORM_WHOLE)
        norm_row(m, x, x, norm, heads * dim);
    for (uint32_t head = 0; m->family->qk_norm == QK_NORM_HEAD && head < heads; head++)
        norm_row(m, x + head * dim, x + head * dim, norm, dim);
    if (half > 0)
        kernel_rope(m->kernel, x, heads, dim, rope->dim, job->rows->cosine + angle,
                    job->rows->sine + angle, rope->adjacent);
}

static void place_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct place_job *job = context;
    const struct model *m = job->model;
    const struct hyperparameters *h = &m->hyper;
    const struct layer *layer = &m->layers[job->layer];
    uint32_t kv_heads = h->cache.n_kv_heads;
    size_t n_q = (size_t)h->n_heads * h->cache.key_dim, n_k = (size_t)kv_heads * h->cache.key_dim,
           n_v = (size_t)kv_heads * h->cache.value_dim;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *q = m->scratch.q + i * n_q, *k = m->scratch.k + i * n_k, *v = m->scratch.v + i * n_v;
        if (job->which & QUERIES)
            finish_heads(job, q, h->n_heads, layer->query_bias, &layer->query_norm, i);
        if (job->which & KEYS_AND_VALUES) {
            finish_heads(job, k, kv_heads, layer->key_bias, &layer->key_norm, i);
            if (layer->value_bias)
                kernel_add(m->kernel, v, layer->value_bias, n_v);
            cache_store(job->rows->row[i].sequence, job->layer, job->rows->row[i].position, k, v);
        }
    }
}

/* What becomes of a block's output on its way into the residual stream. */
struct finish_job {
    const struct model *model;
    float *x; /* (rows, dim) */
    float *h; /* (rows, dim) */
    const float *bias;
    const struct norm *post_norm;
};

static void finish_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct finish_job *job = context;
    const struct model *m = job->model;
    size_t dim = m->hyper.dim;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *h = job->h + i * dim;
        if (job->bias)
            kernel_add(m->kernel, h, job->bias, dim);
        if (job->post_norm->weight)
            norm_row(m, h, h, job->post_norm, m->hyper.dim);
        if (m->hyper.residual_scale != 1)
            kernel_add_scaled(m->kernel, job->x + i * dim, h, m->hyper.residual_scale, dim);
        else
            kernel_add(m->kernel, job->x + i * dim, h, dim);
    }
}

/* x += scale * norm(h + bias), h in scratch */
static void add_block(struct model *m, const struct rows *rows, const float *bias,
                      const struct norm *post_norm)
{
    struct finish_job job = {m, rows->x, m->scratch.h, bias, post_norm};
    threads_run(m->threads, rows->n, 16, finish_rows, &job);
}

struct activate_job {
    const struct model *model;
    const struct layer *biased;
    float *gate, *up;
    uint32_t width;
};

static void activate_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct activate_job *job = context;
    const struct kernel *kernel = job->model->kernel;
    bool gelu = job->model->family->activation == ACTIVATION_GELU;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *gate = job->gate + i * job->width, *up = job->up + i * job->width;
        if (job->biased && job->biased->gate_bias)
            kernel_add(kernel, gate, job->biased->gate_bias, job->width);
        if (job->biased && job->biased->up_bias)
            kernel_add(kernel, up, job->biased->up_bias, job->width);
        if (job->model->family->ungated)
            kernel_gelu(kernel, up, job->width);
        else
            (gelu ? kernel_gelu_multiply : kernel_silu_multiply)(kernel, gate, up, job->width);
    }
}

void activate(struct model *m, const struct layer *biased, float *gate, float *up, uint32_t width,
              uint32_t rows)
{
    struct activate_job job = {m, biased, gate, up, width};
    threads_run(m->threads, rows, 4, activate_rows, &job);
}

/* ---- the parts of a layer ------------------------------------------------------------------ */

/* Queries to scratch, keys, values to the cache: rope(W_q h), rope(W_k h), W_v h (h = norm(x)). */
static void project(struct model *m, uint32_t index, const struct rows *rows, int which)
{
    const struct layer *layer = &m->layers[index];
    struct scratch *s = &m->scratch;
    const float *h = normalise(m, rows->x, &layer->attention_norm, rows->n);
    const struct product products[] = {{&layer->query, s->q, layer->query.rows},
                                       {&layer->key, s->k, layer->key.rows},
                                       {&layer->value, s->v, layer->value.rows}};
    size_t first = which & QUERIES ? 0 : 1, end = which & KEYS_AND_VALUES ? 3 : 1;
    multiply(m, h, m->hyper.dim, products + first, end - first, rows->n);
    struct place_job place = {m, rows, index, which};
    threads_run(m->threads, rows->n, 4, place_rows, &place);
}

/* Keeps the rows that want logits: above the last layer's keys and values the others are idle. */
static void keep_wanted(struct model *m, struct rows *rows)
{
    size_t dim = m->hyper.dim, n_q = (size_t)m->hyper.n_heads * m->hyper.cache.key_dim;
    float *q = m->scratch.q;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < rows->n; i++) {
        if (!rows->row[i].wants_logits)
            continue;
        if (kept != i) {
            memcpy(rows->x + kept * dim, rows->x + i * dim, dim * sizeof *rows->x);
            memcpy(q + kept * n_q, q + i * n_q, n_q * sizeof *q);
            rows->row[kept] = rows->row[i];
            rows->seen[kept] = rows->seen[i];
        }
        kept++;
    }
    rows->n = kept;
}

/* x += W_o attention(q, keys, values), q in scratch.  The layer's keys and values lie at these
 * offsets in the pages that rows->seen names; a window leaves out what is too far behind. */
static void attend(struct model *m, uint32_t index, const struct rows *rows, size_t key_offset,
                   size_t value_offset)
{
    const struct hyperparameters *h = &m->hyper;
    const struct layer *layer = &m->layers[index];
    struct scratch *s = &m->scratch;
    struct attention attention = {
        .n_heads = h->n_heads,
        .n_kv_heads = h->cache.n_kv_heads,
        .key_dim = h->cache.key_dim,
        .value_dim = h->cache.value_dim,
        .element = h->cache.element,
        .key_offset = key_offset,
        .value_offset = value_offset,
        .scale = h->attention_scale,
        .softcap = h->attention_softcap,
    };
    for (uint32_t i = 0; i < rows->n; i++) {
        uint32_t end = rows->seen[i].end;
        rows->seen[i].first = layer->window > 0 && end > layer->window ? end - layer->window : 0;
    }
    kernel_attend(m->kernel, m->threads, &attention, rows->seen, rows->n, s->q, s->attended);
    multiply(m, s->attended, layer->output.cols, &(struct product){&layer->output, s->h, h->dim}, 1,
             rows->n);
    add_block(m, rows, layer->output_bias, &layer->attention_post_norm);
}

void feed_forward_dense(struct model *m, const struct layer *layer, const float *x, float *y,
                        uint32_t rows)
{
    struct scratch *s = &m->scratch;
    uint32_t dim = m->hyper.dim, n_ffn = m->hyper.n_ffn;
    bool gated = !m->family->ungated;
    const struct product products[] = {{&layer->gate, s->gate, n_ffn}, {&layer->up, s->up, n_ffn}};
    multiply(m, x, dim, gated ? products : products + 1, gated ? 2 : 1, rows);
    activate(m, layer, s->gate, s->up, n_ffn, rows);
    multiply(m, gated ? s->gate : s->up, n_ffn, &(struct product){&layer->down, y, dim}, 1, rows);
}

/* x += W_down act(W_gate h, W_up h), or the layer's experts of h; h = norm(x) */
static void feed_forward(struct model *m, uint32_t index, const struct rows *rows)
{
    const struct layer *layer = &m->layers[index];
    const float *h = normalise(m, rows->x, &layer->ffn_norm, rows->n);
    (m->hyper.experts.n > 0 ? feed_forward_experts : feed_forward_dense)(m, layer, h, m->scratch.h,
                                                                         rows->n);
    add_block(m, rows, layer->down_bias, &layer->ffn_post_norm);
}

static bool check_finite(const struct model *m, const struct rows *rows, const float *x,
                         uint32_t width, uint32_t layer, struct error *error)
{
    size_t n = (size_t)rows->n * width, at = kernel_find_not_finite(m->kernel, x, n);
    if (at == n)
        return true;
    uint32_t position = rows->row[at / width].position;
    if (layer == m->hyper.n_layers)
        return error_set(error, STATUS_INPUT, "logits at position %u are not finite", position);
    return error_set(error, STATUS_INPUT, "values in layer %u at position %u are not finite", layer,
                     position);
}

struct logits_job {
    const struct model *model;
    float *logits;
};

static void finish_logits(void *context, int thread, size_t begin, size_t end)
{
    const struct logits_job *job = context;
    const struct hyperparameters *h = &job->model->hyper;
    (void)thread;
    if (h->logit_scale != 1)
        kernel_scale(job->model->kernel, job->logits + begin, h->logit_scale, end - begin);
    if (h->logit_softcap != 0)
        kernel_softcap(job->model->kernel, job->logits + begin, h->logit_softcap, end - begin);
}

/* logits (n, n_logits) = softcap(scale * W norm(x)) */
static bool make_logits(struct model *m, const struct rows *rows, float *logits,
                        struct error *error)
{
    const struct hyperparameters *h = &m->hyper;
    const float *x = normalise(m, rows->x, &m->output_norm, rows->n);
    multiply(m, x, h->dim, &(struct product){&m->output, logits, h->n_logits}, 1, rows->n);
    struct logits_job job = {m, logits};
    if (h->logit_scale != 1 || h->logit_softcap != 0)
        threads_run(m->threads, (size_t)rows->n * h->n_logits, 4096, finish_logits, &job);
    return check_finite(m, rows, logits, h->n_logits, h->n_layers, error);
}

/* ---- the pass ------------------------------------------------------------------------------ */

static bool check_tokens(const struct model *m, const struct model_row *rows, uint32_t n_rows,
                         struct error *error)
{
    for (uint32_t i = 0; i < n_rows; i++)
        if (rows[i].token >= m->hyper.n_logits)
            return error_set(error, STATUS_INPUT,
                             "token %u at position %u: the model knows 0 to %u", rows[i].token,
                             rows[i].position, m->hyper.n_logits - 1);
    return true;
}

static void embed(struct model *m, const struct rows *rows)
{
    struct rows_job job = {m, rows};
    threads_run(m->threads, rows->n, 4, embed_rows, &job);
}

/* Extends the caches of the rows, and notes what each row sees. */
static struct rows prepare(struct model *m, const struct model_row *given, uint32_t n)
{
    struct scratch *s = &m->scratch;
    if (n > s->rows.n) {
        rows_free(&s->rows);
        s->rows = rows_new(m, n);
    }
    reserve(m, n);
    memcpy(s->rows.row, given, n * sizeof *given);
    for (uint32_t i = 0; i < n; i++)
        cache_extend(given[i].sequence, given[i].position + 1);
    for (uint32_t i = 0; i < n; i++)
        s->rows.seen[i] = (struct attention_row){given[i].sequence->data, 0, given[i].position + 1};
    return rows_part(m, &s->rows, 0, n);
}

bool model_evaluate(struct model *m, const struct model_row *given, uint32_t n_rows, float *logits,
                    struct error *error)
{
    const struct hyperparameters *h = &m->hyper;
    if (n_rows == 0)
        return true;
    if (!check_tokens(m, given, n_rows, error))
        return false;
    struct rows rows = prepare(m, given, n_rows);
    bool ok = true;
    embed(m, &rows);
    for (uint32_t layer = 0; layer < h->n_layers && ok && rows.n > 0; layer++) {
        project(m, layer, &rows, QUERIES | KEYS_AND_VALUES);
        if (layer + 1 == h->n_layers)
            keep_wanted(m, &rows);
        if (rows.n == 0)
            break;
        attend(m, layer, &rows, cache_key_offset(&h->cache, layer),
               cache_value_offset(&h->cache, layer));
        feed_forward(m, layer, &rows);
        ok = check_finite(m, &rows, rows.x, h->dim, layer, error);
    }
    if (ok && rows.n > 0)
        ok = make_logits(m, &rows, logits, error);
    for (uint32_t i = 0; i < n_rows; i++) {
        if (ok)
            given[i].sequence->n_positions = given[i].position + 1;
        else
            cache_cut(given[i].sequence, given[i].sequence->n_positions);
    }
    return ok;
}

/* ---- the pass in steps --------------------------------------------------------------------- */

struct model_pass {
    struct model *model;
    struct rows rows; /* all of them */
};

struct model_pass *model_pass_begin(struct model *m, const struct model_row *given, uint32_t n,
                                    struct error *error)
{
    if (!check_tokens(m, given, n, error))
        return NULL;
    struct model_pass *pass = allocate(1, sizeof *pass);
    *pass = (struct model_pass){m, rows_new(m, n)};
    memcpy(pass->rows.row, given, n * sizeof *given);
    embed(m, &pass->rows);
    return pass;
}

void model_pass_keys(struct model_pass *pass, uint32_t layer, uint32_t begin, uint32_t n)
{
    struct rows rows = rows_part(pass->model, &pass->rows, begin, n);
    reserve(pass->model, n);
    project(pass->model, layer, &rows, KEYS_AND_VALUES);
}

bool model_pass_layer(struct model_pass *pass, uint32_t layer, uint32_t begin, uint32_t n,
                      const uint8_t *const *pages, struct error *error)
{
    struct model *m = pass->model;
    const struct cache_shape *shape = &m->hyper.cache;
    struct rows rows = rows_part(m, &pass->rows, begin, n);
    reserve(m, n);
    for (uint32_t i = 0; i < n; i++)
        rows.seen[i] = (struct attention_row){pages, 0, rows.row[i].position + 1};
    project(m, layer, &rows, QUERIES);
    attend(m, layer, &rows, 0, cache_value_offset(shape, 0) - cache_key_offset(shape, 0));
    feed_forward(m, layer, &rows);
    return check_finite(m, &rows, rows.x, m->hyper.dim, layer, error);
}

bool model_pass_logits(struct model_pass *pass, uint32_t begin, uint32_t n, float *logits,
                       struct error *error)
{
    struct rows rows = rows_part(pass->model, &pass->rows, begin, n);
    reserve(pass->model, n);
    return make_logits(pass->model, &rows, logits, error);
}

void model_pass_end(struct model_pass *pass)
{
    if (pass)
        rows_free(&pass->rows);
    free(pass);
}
