/* Finding the tensors.  Names as in gguf-py's constants. */
#include "model/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Finds tensors one by one and remembers which were asked for, so that leftovers show. */
struct finder {
    const struct gguf *gguf;
    bool *used; /* (n_tensors) */
    struct error *error;
    bool failed;
};

/* A tensor of shape (count, rows, cols), cols being the fastest; NULL: absent or wrong. */
static const struct gguf_tensor *find(struct finder *f, const char *name, uint64_t count,
                                      uint64_t rows, uint64_t cols, bool required)
{
    const struct gguf_tensor *t = f->failed ? NULL : gguf_tensor(f->gguf, name);
    if (f->failed || (!t && !required))
        return NULL;
    f->failed = true;
    if (!t) {
        error_set(f->error, STATUS_INPUT, "tensor %s is missing", name);
        return NULL;
    }
    if (t->dims[0] != cols || t->dims[1] != rows || t->dims[2] != count || t->dims[3] != 1) {
        error_set(f->error, STATUS_INPUT,
                  "tensor %s: expected %llu x %llu x %llu, found %llu x %llu x %llu%s", name,
                  (unsigned long long)cols, (unsigned long long)rows, (unsigned long long)count,
                  (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
                  (unsigned long long)t->dims[2], t->dims[3] != 1 ? " x more" : "");
        return NULL;
    }
    if (!kernel_supports(t->type->type)) {
        error_set(f->error, STATUS_INPUT, "tensor %s: no kernel for type %s (%u)", name,
                  t->type->name, t->type->type);
        return NULL;
    }
    f->failed = false;
    f->used[t - f->gguf->tensors] = true;
    return t;
}

static struct matrix matrix_of(const struct gguf_tensor *t, uint64_t first, uint64_t rows)
{
    struct matrix m = {(enum tensor_type)t->type->type, false, (uint32_t)rows, (uint32_t)t->dims[0],
                       t->data};
    m.data += first * matrix_row_bytes(&m);
    return m;
}

static struct matrix find_matrix(struct finder *f, const char *name, uint64_t rows, uint64_t cols)
{
    const struct gguf_tensor *t = find(f, name, 1, rows, cols, true);
    return t ? matrix_of(t, 0, rows) : (struct matrix){0};
}

/* Matrices that lie one below the other in one tensor. */
static void find_fused(struct finder *f, const char *name, struct matrix *const *parts,
                       const uint64_t *rows, size_t n, uint64_t cols)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += rows[i];
    const struct gguf_tensor *t = find(f, name, 1, all, cols, true);
    for (uint64_t i = 0, first = 0; t && i < n; first += rows[i++])
        *parts[i] = matrix_of(t, first, rows[i]);
}

/* One matrix for each expert: blk.N.PART_exps.weight, or in files of the first days
 * blk.N.PART.EXPERT.weight. */
static struct matrix *find_experts(struct finder *f, uint32_t layer, const char *part, uint32_t n,
                                   uint64_t rows, uint64_t cols)
{
    char name[64];
    struct matrix *matrices = allocate(n, sizeof *matrices);
    snprintf(name, sizeof name, "blk.%u.%s.0.weight", layer, part);
    bool apart = gguf_tensor(f->gguf, name);
    snprintf(name, sizeof name, "blk.%u.%s_exps.weight", layer, part);
    const struct gguf_tensor *t = apart ? NULL : find(f, name, n, rows, cols, true);
    for (uint32_t i = 0; i < n && (t || apart); i++) {
        snprintf(name, sizeof name, "blk.%u.%s.%u.weight", layer, part, i);
        matrices[i] = apart ? find_matrix(f, name, rows, cols) : matrix_of(t, i * rows, rows);
    }
    return matrices;
}

/* A vector, which must be F32: norms and biases always are. */
static const float *find_vector(struct finder *f, const char *name, uint64_t n, bool required)
{
    const struct gguf_tensor *t = find(f, name, 1, 1, n, required);
    if (t && t->type->type != TENSOR_F32) {
        f->failed = true;
        error_set(f->error, STATUS_INPUT, "tensor %s: expected type F32, found %s", name,
                  t->type->name);
        return NULL;
    }
    return t ? (const float *)(const void *)t->data : NULL;
}

/* NAME.weight, and NAME.bias where the family has it. */
static struct norm find_norm(struct finder *f, const char *name, uint64_t n, bool bias)
{
    char full[80];
    struct norm norm = {0};
    snprintf(full, sizeof full, "%s.weight", name);
    norm.weight = find_vector(f, full, n, true);
    snprintf(full, sizeof full, "%s.bias", name);
    if (bias)
        norm.bias = find_vector(f, full, n, true);
    return norm;
}

/* ---- a layer ------------------------------------------------------------------------------- */

#define BLOCK(text) (snprintf(name, sizeof name, "blk.%u." text, index), name)

static void find_attention(struct finder *f, struct layer *layer, const struct model *m,
                           uint32_t index)
{
    const struct hyperparameters *h = &m->hyper;
    const struct family *family = m->family;
    char name[64];
    uint64_t dim = h->dim, kv = h->cache.n_kv_heads;
    uint64_t n_q = (uint64_t)h->n_heads * h->cache.key_dim, n_k = kv * h->cache.key_dim,
             n_v = kv * h->cache.value_dim, n_o = (uint64_t)h->n_heads * h->cache.value_dim;
    if (!family->no_pre_norm)
        layer->attention_norm = find_norm(f, BLOCK("attn_norm"), dim, family->layer_norm);
    if (gguf_tensor(f->gguf, BLOCK("attn_qkv.weight"))) {
        find_fused(f, name, (struct matrix *const[]){&layer->query, &layer->key, &layer->value},
                   (const uint64_t[]){n_q, n_k, n_v}, 3, dim);
        layer->query_bias = find_vector(f, BLOCK("attn_qkv.bias"), n_q + n_k + n_v, family->biases);
        layer->key_bias = layer->query_bias ? layer->query_bias + n_q : NULL;
        layer->value_bias = layer->query_bias ? layer->key_bias + n_k : NULL;
    } else {
        layer->query = find_matrix(f, BLOCK("attn_q.weight"), n_q, dim);
        layer->key = find_matrix(f, BLOCK("attn_k.weight"), n_k, dim);
        layer->value = find_matrix(f, BLOCK("attn_v.weight"), n_v, dim);
        layer->query_bias = find_vector(f, BLOCK("attn_q.bias"), n_q, family->biases);
        layer->key_bias = find_vector(f, BLOCK("attn_k.bias"), n_k, family->biases);
        layer->value_bias = find_vector(f, BLOCK("attn_v.bias"), n_v, family->biases);
    }
    if (family->qk_norm != QK_NORM_NONE) {
        bool whole = family->qk_norm == QK_NORM_WHOLE;
        layer->query_norm =
            find_norm(f, BLOCK("attn_q_norm"), whole ? n_q : h->cache.key_dim, false);
        layer->key_norm = find_norm(f, BLOCK("attn_k_norm"), whole ? n_k : h->cache.key_dim, false);
    }
    layer->output = find_matrix(f, BLOCK("attn_output.weight"), dim, n_o);
    layer->output_bias = find_vector(f, BLOCK("attn_output.bias"), dim, family->layer_norm);
    if (family->post_norm)
        layer->attention_post_norm = find_norm(f, BLOCK("post_attention_norm"), dim, false);
}

static void find_dense(struct finder *f, struct layer *layer, const struct model *m, uint32_t index)
{
    const struct family *family = m->family;
    char name[64];
    uint64_t dim = m->hyper.dim, ffn = m->hyper.n_ffn;
    if (family->fused_gate) {
        find_fused(f, BLOCK("ffn_up.weight"), (struct matrix *const[]){&layer->gate, &layer->up},
                   (const uint64_t[]){ffn, ffn}, 2, dim);
    } else {
        layer->up = find_matrix(f, BLOCK("ffn_up.weight"), ffn, dim);
        layer->up_bias = find_vector(f, BLOCK("ffn_up.bias"), ffn, family->layer_norm);
    }
    if (!family->ungated && !family->fused_gate) {
        layer->gate = find_matrix(f, BLOCK("ffn_gate.weight"), ffn, dim);
        layer->gate_bias = find_vector(f, BLOCK("ffn_gate.bias"), ffn, false);
    }
    layer->down = find_matrix(f, BLOCK("ffn_down.weight"), dim, ffn);
    layer->down_bias = find_vector(f, BLOCK("ffn_down.bias"), dim, family->layer_norm);
}

static void find_mixture(struct finder *f, struct layer *layer, const struct model *m,
                         uint32_t index)
{
    const struct expert_settings *e = &m->hyper.experts;
    struct experts *experts = &layer->experts;
    char name[64];
    uint64_t dim = m->hyper.dim, ffn = m->hyper.n_ffn;
    experts->router = find_matrix(f, BLOCK("ffn_gate_inp.weight"), e->n, dim);
    experts->gate = find_experts(f, index, "ffn_gate", e->n, e->n_ffn, dim);
    experts->up = find_experts(f, index, "ffn_up", e->n, e->n_ffn, dim);
    experts->down = find_experts(f, index, "ffn_down", e->n, dim, e->n_ffn);
    if (ffn == 0)
        return;
    layer->gate = find_matrix(f, BLOCK("ffn_gate_shexp.weight"), ffn, dim);
    layer->up = find_matrix(f, BLOCK("ffn_up_shexp.weight"), ffn, dim);
    layer->down = find_matrix(f, BLOCK("ffn_down_shexp.weight"), dim, ffn);
    if (m->family->shared_gate)
        experts->shared_gate = find_matrix(f, BLOCK("ffn_gate_inp_shexp.weight"), 1, dim);
}

static void find_layer(struct finder *f, struct layer *layer, const struct model *m, uint32_t index)
{
    const struct family *family = m->family;
    char name[64];
    find_attention(f, layer, m, index);
    if (!family->no_pre_norm)
        layer->ffn_norm = find_norm(f, BLOCK("ffn_norm"), m->hyper.dim, family->layer_norm);
    (m->hyper.experts.n > 0 ? find_mixture : find_dense)(f, layer, m, index);
    if (family->post_norm)
        layer->ffn_post_norm = find_norm(f, BLOCK("post_ffw_norm"), m->hyper.dim, false);
}

#undef BLOCK

/* ---- the model ----------------------------------------------------------------------------- */

/* The divisors of the rotary frequencies that a file may bring along.  Those of LongRoPE are for
 * contexts beyond the original and within it. */
static const float *find_rope_factors(struct finder *f, const struct hyperparameters *h)
{
    uint64_t n = h->rope.dim / 2;
    if (h->rope.scaling != 3)
        return n > 0 ? find_vector(f, "rope_freqs.weight", n, false) : NULL;
    const float *longer = find_vector(f, "rope_factors_long.weight", n, true);
    const float *shorter = find_vector(f, "rope_factors_short.weight", n, true);
    return h->n_context > h->rope.original_context ? longer : shorter;
}

static void set_positions(struct finder *f, struct model *m)
{
    const struct hyperparameters *h = &m->hyper;
    const float *factors = find_rope_factors(f, h);
    if (m->family->rope == ROPE_NONE_BUT_LEARNED)
        m->positions = find_matrix(f, "position_embd.weight", h->model_context, h->dim);
    m->n_ropes = h->has_local_rope ? 2 : 1;
    for (uint32_t i = 0; i < m->n_ropes && !f->failed; i++)
        m->rope_frequency[i] = rope_frequencies(i ? &h->local_rope : &h->rope, factors);
}

static void find_layers(struct finder *f, struct model *m)
{
    uint32_t n = m->hyper.n_layers;
    bool *local = allocate(n, sizeof *local);
    m->layers = allocate(n, sizeof *m->layers);
    if (!f->failed && !family_local_layers(local, &m->hyper, m->family, f->gguf, f->error))
        f->failed = true;
    for (uint32_t i = 0; i < n && !f->failed; i++) {
        m->layers[i].window = local[i] ? m->hyper.window : 0;
        m->layers[i].rope = local[i] ? m->n_ropes - 1 : 0;
        find_layer(f, &m->layers[i], m, i);
    }
    free(local);
}

bool find_tensors(struct model *m, const struct gguf *gguf, struct error *error)
{
    struct hyperparameters *h = &m->hyper;
    struct finder f = {gguf, allocate(gguf->n_tensors + 1, 1), error, false};
    const struct gguf_tensor *embedding = gguf_tensor(gguf, "token_embd.weight");
    h->n_logits = embedding ? (uint32_t)embedding->dims[1] : 1;
    m->embedding = find_matrix(&f, "token_embd.weight", h->n_logits, h->dim);
    if (!f.failed && (embedding->dims[1] > (1u << 24) || embedding->dims[1] == 0)) {
        f.failed = true;
        error_set(error, STATUS_INPUT,
                  "tensor token_embd.weight: vocabulary of %llu, expected 1 to %u",
                  (unsigned long long)embedding->dims[1], 1u << 24);
    }
    m->output_norm = find_norm(&f, "output_norm", h->dim, m->family->layer_norm);
    m->output = gguf_tensor(gguf, "output.weight")
                    ? find_matrix(&f, "output.weight", h->n_logits, h->dim)
                    : m->embedding;
    set_positions(&f, m);
    find_layers(&f, m);
    for (size_t i = 0; i < gguf->n_tensors && !f.failed; i++)
        if (!f.used[i]) {
            f.failed = true;
            error_set(error, STATUS_INPUT,
                      "tensor %.*s is not one that the forward pass of family %s uses",
                      (int)gguf->tensors[i].name.length, gguf->tensors[i].name.bytes, h->family);
        }
    free(f.used);
    return !f.failed;
}

void free_tensors(struct model *m)
{
    for (uint32_t i = 0; m->layers && i < m->hyper.n_layers; i++) {
        free(m->layers[i].experts.gate);
        free(m->layers[i].experts.up);
        free(m->layers[i].experts.down);
    }
    free(m->layers);
}
