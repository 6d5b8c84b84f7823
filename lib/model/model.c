/* Opening a model: family, settings, tensors, fingerprint. */
#include "model/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(CACHE_PAGE == KERNEL_PAGE, "attention works on the cache's pages");

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

/* A setting that most families lack counts where it changes something, so that the fingerprints of
 * the others stay what they are when a new one comes. */
static uint32_t hash_variation(uint32_t crc, const char *name, float value, float neutral)
{
    return value == neutral ? crc : hash_real(crc32_update(crc, name, strlen(name)), value);
}

static uint32_t hash_variations(uint32_t crc, const struct model *m)
{
    const struct hyperparameters *h = &m->hyper;
    const struct expert_settings *e = &h->experts;
    crc = hash_variation(crc, "attention_scale", h->attention_scale,
                         1.0f / sqrtf((float)h->cache.key_dim));
    crc = hash_variation(crc, "attention_softcap", h->attention_softcap, 0);
    crc = hash_variation(crc, "embedding_scale", h->embedding_scale, 1);
    crc = hash_variation(crc, "residual_scale", h->residual_scale, 1);
    crc = hash_variation(crc, "logit_scale", h->logit_scale, 1);
    crc = hash_variation(crc, "logit_softcap", h->logit_softcap, 0);
    crc = hash_variation(crc, "experts_used", (float)e->n_used, 0);
    crc = hash_variation(crc, "expert_weights_norm", e->n > 0 && !e->normalised, 0);
    crc = hash_variation(crc, "expert_weights_scale", e->scale, 1);
    for (uint32_t i = 0; i < h->n_layers; i++)
        if (m->layers[i].window > 0)
            crc = hash_number(hash_number(crc, i), m->layers[i].window);
    for (uint32_t i = 0; h->has_local_rope && i < h->rope.dim / 2; i++)
        crc = hash_real(crc, (float)m->rope_frequency[1][i]);
    return hash_variation(crc, "local_attention_factor",
                          h->has_local_rope ? h->local_rope.attention_factor : 1, 1);
}

static uint32_t fingerprint(const struct model *m, const struct gguf *gguf)
{
    const struct hyperparameters *h = &m->hyper;
    const uint32_t numbers[] = {
        h->n_layers,        h->dim,           h->n_heads,          h->n_ffn,
        h->n_logits,        h->model_context, h->cache.n_kv_heads, h->cache.key_dim,
        h->cache.value_dim, h->rope.dim};
    uint32_t crc = crc32_update(0, h->family, strlen(h->family));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        crc = hash_number(crc, numbers[i]);
    crc = hash_real(crc, h->norm_epsilon);
    crc = hash_real(crc, h->rope.attention_factor);
    for (uint32_t i = 0; i < h->rope.dim / 2; i++)
        crc = hash_real(crc, (float)m->rope_frequency[0][i]);
    crc = hash_variations(crc, m);
    for (size_t i = 0; i < gguf->n_tensors; i++)
        crc = hash_tensor(crc, &gguf->tensors[i]);
    return crc;
}

/* ---- the model ----------------------------------------------------------------------------- */

struct model *model_open(const struct gguf *gguf, const struct model_options *options,
                         struct error *error)
{
    struct model *m = allocate(1, sizeof *m);
    m->family = family_find(gguf, error);
    m->kernel = m->family ? kernel_choose(error) : NULL;
    if (!m->kernel || !family_read(&m->hyper, m->family, gguf, options, error) ||
        !find_tensors(m, gguf, error)) {
        model_close(m);
        return NULL;
    }
    m->fingerprint = fingerprint(m, gguf);
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
    experts_free(m);
    scratch_free(&m->scratch);
    free(m->rope_frequency[0]);
    free(m->rope_frequency[1]);
    free_tensors(m);
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
