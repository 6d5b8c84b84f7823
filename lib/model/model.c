/* Opening a model: hyperparameters, tensors, fingerprint. */
#include "model/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(CACHE_PAGE == KERNEL_PAGE, "attention works on the cache's pages");

/* How the families differ. */
static const struct family {
    const char *name;
    bool adjacent; /* rotary pairs */
    bool biases;   /* of queries, keys and values */
    bool qk_norm;
} families[] = {
    {"llama", true, false, false},
    {"qwen2", false, true, false},
    {"qwen3", false, false, true},
};
#define N_FAMILIES (sizeof families / sizeof *families)

/* ---- hyperparameters ----------------------------------------------------------------------- */

static const struct family *find_family(const struct gguf *gguf, struct error *error)
{
    struct gguf_string name;
    enum gguf_answer answer = gguf_text(gguf, "general.architecture", &name, error);
    if (answer == GGUF_ABSENT)
        error_set(error, STATUS_INPUT, "general.architecture is missing: not a model");
    if (answer != GGUF_FOUND)
        return NULL;
    char known[128] = "";
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (gguf_equal(name, families[i].name))
            return &families[i];
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", families[i].name);
    }
    error_set(error, STATUS_INPUT, "model family '%.*s' is not supported (these are: %s)",
              (int)name.length, name.bytes, known);
    return NULL;
}

/* One size out of the metadata; `fallback` 0: required. */
static bool read_size(const struct gguf *gguf, const char *family, const char *suffix, uint32_t high,
                      uint32_t fallback, uint32_t *value, struct error *error)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", family, suffix);
    *value = fallback;
    enum gguf_answer answer = gguf_u32(gguf, key, value, error);
    if (answer == GGUF_WRONG)
        return false;
    if (answer == GGUF_ABSENT && !fallback)
        return error_set(error, STATUS_INPUT, "%s is missing", key);
    if (*value == 0 || *value > high)
        return error_set(error, STATUS_INPUT, "%s: expected 1 to %u, found %u", key, high, *value);
    return true;
}

/* Settings that some files of these families carry and this pass does not implement: never a silent
 * approximation. */
static bool refuse_unimplemented(const struct gguf *gguf, const char *family, struct error *error)
{
    static const char *const numbers[] = {"expert_count", "attention.sliding_window", "attn_logit_softcapping",
                                          "final_logit_softcapping", "residual_scale", "embedding_scale",
                                          "logit_scale", "attention.scale", "attention.clamp_kqv"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char key[96];
        float value = 0;
        snprintf(key, sizeof key, "%s.%s", family, numbers[i]);
        if (gguf_f32(gguf, key, &value, error) < 0)
            return false;
        if (value != 0)
            return error_set(error, STATUS_INPUT, "%s = %g is not implemented", key, (double)value);
    }
    return true;
}

static bool read_hyperparameters(struct hyperparameters *h, const struct family *family,
                                 const struct gguf *gguf, const struct model_options *options,
                                 struct error *error)
{
    const char *f = h->family = family->name;
    struct gguf_string name = {"", 0};
    char key[96];
    if (gguf_text(gguf, "general.name", &name, error) < 0)
        return false;
    snprintf(h->name, sizeof h->name, "%.*s", (int)(name.length < 100 ? name.length : 100), name.bytes);
    struct cache_shape *c = &h->cache;
    if (!read_size(gguf, f, "block_count", 4096, 0, &h->n_layers, error) ||
        !read_size(gguf, f, "embedding_length", 1 << 18, 0, &h->dim, error) ||
        !read_size(gguf, f, "attention.head_count", 4096, 0, &h->n_heads, error) ||
        !read_size(gguf, f, "attention.head_count_kv", 4096, h->n_heads, &c->n_kv_heads, error) ||
        !read_size(gguf, f, "attention.key_length", 1 << 12, h->dim / h->n_heads, &c->key_dim, error) ||
        !read_size(gguf, f, "attention.value_length", 1 << 12, h->dim / h->n_heads, &c->value_dim, error) ||
        !read_size(gguf, f, "feed_forward_length", 1 << 20, 0, &h->n_ffn, error) ||
        !read_size(gguf, f, "context_length", 1 << 24, 0, &h->model_context, error))
        return false;
    if (h->n_heads % c->n_kv_heads)
        return error_set(error, STATUS_INPUT, "%s.attention.head_count_kv: %u does not divide the %u heads", f,
                         c->n_kv_heads, h->n_heads);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", f);
    enum gguf_answer answer = gguf_f32(gguf, key, &h->norm_epsilon, error);
    if (answer == GGUF_ABSENT)
        return error_set(error, STATUS_INPUT, "%s is missing", key);
    if (answer == GGUF_WRONG)
        return false;
    if (!(h->norm_epsilon >= 0) || !(h->norm_epsilon < 1))
        return error_set(error, STATUS_INPUT, "%s: expected 0 to 1, found %g", key, (double)h->norm_epsilon);
    if (options->n_context > h->model_context)
        return error_set(error, STATUS_USAGE, "a context of %u positions was asked for, the model was made for %u",
                         options->n_context, h->model_context);
    h->n_context = options->n_context ? options->n_context : h->model_context;
    c->n_layers = h->n_layers;
    c->element = options->element;
    h->rope.adjacent = family->adjacent;
    h->qk_norm = family->qk_norm;
    return refuse_unimplemented(gguf, f, error) && rope_read(h, gguf, error);
}

/* ---- tensors ------------------------------------------------------------------------------- */

/* Finds tensors one by one and remembers which were asked for, so that leftovers show. */
struct finder {
    const struct gguf *gguf;
    bool *used; /* (n_tensors) */
    struct error *error;
    bool failed;
};

/* A tensor of shape (rows, cols), cols being the fastest; NULL: absent or wrong. */
static const struct gguf_tensor *find(struct finder *f, const char *name, uint64_t rows, uint64_t cols,
                                      bool required)
{
    const struct gguf_tensor *t = f->failed ? NULL : gguf_tensor(f->gguf, name);
    if (f->failed || (!t && !required))
        return NULL;
    f->failed = true;
    if (!t) {
        error_set(f->error, STATUS_INPUT, "tensor %s is missing", name);
        return NULL;
    }
    if (t->dims[0] != cols || t->dims[1] != rows || t->dims[2] != 1 || t->dims[3] != 1) {
        error_set(f->error, STATUS_INPUT, "tensor %s: expected %llu x %llu, found %llu x %llu%s", name,
                  (unsigned long long)cols, (unsigned long long)rows, (unsigned long long)t->dims[0],
                  (unsigned long long)t->dims[1], t->dims[2] * t->dims[3] != 1 ? " x more" : "");
        return NULL;
    }
    if (!kernel_supports(t->type->type)) {
        error_set(f->error, STATUS_INPUT, "tensor %s: no kernel for type %s (%u)", name, t->type->name, t->type->type);
        return NULL;
    }
    f->failed = false;
    f->used[t - f->gguf->tensors] = true;
    return t;
}

static struct matrix find_matrix(struct finder *f, const char *name, uint64_t rows, uint64_t cols)
{
    const struct gguf_tensor *t = find(f, name, rows, cols, true);
    if (!t)
        return (struct matrix){0};
    return (struct matrix){(enum tensor_type)t->type->type, false, (uint32_t)rows, (uint32_t)cols, t->data};
}

/* A vector, which must be F32: norms and biases always are. */
static const float *find_vector(struct finder *f, const char *name, uint64_t n, bool required)
{
    const struct gguf_tensor *t = find(f, name, 1, n, required);
    if (t && t->type->type != TENSOR_F32) {
        f->failed = true;
        error_set(f->error, STATUS_INPUT, "tensor %s: expected type F32, found %s", name, t->type->name);
        return NULL;
    }
    return t ? (const float *)(const void *)t->data : NULL;
}

static void find_layer(struct finder *f, struct layer *layer, const struct hyperparameters *h,
                       const struct family *family, uint32_t index)
{
    char name[64];
#define BLOCK(text) (snprintf(name, sizeof name, "blk.%u." text, index), name)
    uint64_t dim = h->dim, kv = h->cache.n_kv_heads;
    uint64_t n_q = (uint64_t)h->n_heads * h->cache.key_dim, n_k = kv * h->cache.key_dim,
             n_v = kv * h->cache.value_dim, n_o = (uint64_t)h->n_heads * h->cache.value_dim;
    layer->attention_norm = find_vector(f, BLOCK("attn_norm.weight"), dim, true);
    layer->query = find_matrix(f, BLOCK("attn_q.weight"), n_q, dim);
    layer->key = find_matrix(f, BLOCK("attn_k.weight"), n_k, dim);
    layer->value = find_matrix(f, BLOCK("attn_v.weight"), n_v, dim);
    layer->output = find_matrix(f, BLOCK("attn_output.weight"), dim, n_o);
    if (family->biases) {
        layer->query_bias = find_vector(f, BLOCK("attn_q.bias"), n_q, true);
        layer->key_bias = find_vector(f, BLOCK("attn_k.bias"), n_k, true);
        layer->value_bias = find_vector(f, BLOCK("attn_v.bias"), n_v, true);
    }
    if (family->qk_norm) {
        layer->query_norm = find_vector(f, BLOCK("attn_q_norm.weight"), h->cache.key_dim, true);
        layer->key_norm = find_vector(f, BLOCK("attn_k_norm.weight"), h->cache.key_dim, true);
    }
    layer->ffn_norm = find_vector(f, BLOCK("ffn_norm.weight"), dim, true);
    layer->gate = find_matrix(f, BLOCK("ffn_gate.weight"), h->n_ffn, dim);
    layer->up = find_matrix(f, BLOCK("ffn_up.weight"), h->n_ffn, dim);
    layer->down = find_matrix(f, BLOCK("ffn_down.weight"), dim, h->n_ffn);
#undef BLOCK
}

/* The divisors of the rotary frequencies that a file may bring along. */
static const float *find_rope_factors(struct finder *f, const struct hyperparameters *h)
{
    uint64_t n = h->rope.dim / 2;
    const float *plain = find_vector(f, "rope_freqs.weight", n, false);
    bool longrope = h->rope.scaling == 3;
    const float *longer = find_vector(f, "rope_factors_long.weight", n, longrope);
    const float *shorter = find_vector(f, "rope_factors_short.weight", n, longrope);
    if (!longrope)
        return plain;
    return h->n_context > h->rope.original_context ? longer : shorter;
}

static bool find_tensors(struct model *m, const struct gguf *gguf, const struct family *family,
                         struct error *error)
{
    struct hyperparameters *h = &m->hyper;
    struct finder f = {gguf, allocate(gguf->n_tensors + 1, 1), error, false};
    const struct gguf_tensor *embedding = gguf_tensor(gguf, "token_embd.weight");
    h->n_logits = embedding ? (uint32_t)embedding->dims[1] : 1;
    m->embedding = find_matrix(&f, "token_embd.weight", h->n_logits, h->dim);
    if (!f.failed && (embedding->dims[1] > (1u << 24) || embedding->dims[1] == 0)) {
        f.failed = true;
        error_set(error, STATUS_INPUT, "tensor token_embd.weight: vocabulary of %llu, expected 1 to %u",
                  (unsigned long long)embedding->dims[1], 1u << 24);
    }
    m->output_norm = find_vector(&f, "output_norm.weight", h->dim, true);
    m->output = gguf_tensor(gguf, "output.weight") ? find_matrix(&f, "output.weight", h->n_logits, h->dim)
                                                   : m->embedding;
    const float *factors = f.failed ? NULL : find_rope_factors(&f, h);
    if (!f.failed)
        m->rope_frequency = rope_frequencies(h, factors);
    m->layers = allocate(h->n_layers, sizeof *m->layers);
    for (uint32_t i = 0; i < h->n_layers && !f.failed; i++)
        find_layer(&f, &m->layers[i], h, family, i);
    for (size_t i = 0; i < gguf->n_tensors && !f.failed; i++)
        if (!f.used[i]) {
            f.failed = true;
            error_set(error, STATUS_INPUT, "tensor %.*s is not one that the forward pass of family %s uses",
                      (int)gguf->tensors[i].name.length, gguf->tensors[i].name.bytes, h->family);
        }
    free(f.used);
    return !f.failed;
}

/* ---- fingerprint --------------------------------------------------------------------------- */

static uint32_t hash_number(uint32_t crc, uint64_t number)
{
    uint8_t bytes[8];
    store_u64(bytes, number);
    return crc32_update(crc, bytes, sizeof bytes);
}

static uint32_t hash_real(uint32_t crc, float number)
{
    uint8_t bytes[4];
    store_f32(bytes, number);
    return crc32_update(crc, bytes, sizeof bytes);
}

/* Four samples of 64 bytes, spread evenly: enough to tell fine-tunes and quantisations apart, and a
 * page of the file each at most. */
static uint32_t hash_tensor(uint32_t crc, const struct gguf_tensor *t)
{
    enum { SAMPLES = 4, SAMPLE = 64 };
    crc = crc32_update(crc, t->name.bytes, t->name.length);
    crc = hash_number(crc, t->type->type);
    for (int i = 0; i < 4; i++)
        crc = hash_number(crc, t->dims[i]);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        uint64_t size = t->bytes < SAMPLE ? t->bytes : SAMPLE;
        crc = crc32_update(crc, t->data + (t->bytes - size) / (SAMPLES - 1) * i, size);
    }
    return crc;
}

static uint32_t fingerprint(const struct hyperparameters *h, const double *rope_frequency,
                            const struct gguf *gguf)
{
    const uint32_t numbers[] = {h->n_layers, h->dim, h->n_heads, h->n_ffn, h->n_logits, h->model_context,
                                h->cache.n_kv_heads, h->cache.key_dim, h->cache.value_dim, h->rope.dim};
    uint32_t crc = crc32_update(0, h->family, strlen(h->family));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        crc = hash_number(crc, numbers[i]);
    crc = hash_real(crc, h->norm_epsilon);
    crc = hash_real(crc, h->rope.attention_factor);
    for (uint32_t i = 0; i < h->rope.dim / 2; i++)
        crc = hash_real(crc, (float)rope_frequency[i]);
    for (size_t i = 0; i < gguf->n_tensors; i++)
        crc = hash_tensor(crc, &gguf->tensors[i]);
    return crc;
}

/* ---- the model ----------------------------------------------------------------------------- */

struct model *model_open(const struct gguf *gguf, const struct model_options *options, struct error *error)
{
    struct model *m = allocate(1, sizeof *m);
    const struct family *family = find_family(gguf, error);
    m->kernel = family ? kernel_choose(error) : NULL;
    if (!m->kernel || !read_hyperparameters(&m->hyper, family, gguf, options, error) ||
        !find_tensors(m, gguf, family, error)) {
        model_close(m);
        return NULL;
    }
    m->fingerprint = fingerprint(&m->hyper, m->rope_frequency, gguf);
    m->threads = threads_start(options->n_threads);
    m->activations = activations_new();
    if (!layout_apply(m, gguf, options->repack, error)) {
        model_close(m);
        return NULL;
    }
    return m;
}

void model_close(struct model *m)
{
    if (!m)
        return;
    threads_stop(m->threads);
    activations_free(m->activations);
    scratch_free(&m->scratch);
    free(m->rope_frequency);
    free(m->layers);
    free(m);
}

const struct hyperparameters *model_hyperparameters(const struct model *m)
{
    return &m->hyper;
}

const struct kernel *model_kernel(const struct model *m)
{
    return m->kernel;
}

uint32_t model_fingerprint(const struct model *m)
{
    return m->fingerprint;
}

bool model_repacked(const struct model *m)
{
    return m->output.interleaved || m->layers[0].query.interleaved;
}
