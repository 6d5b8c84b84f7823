/* The families, and their settings in the file's metadata.
 *
 * Sources: llama (Touvron et al. 2023, arXiv 2302.13971; its mixture Mixtral, 2401.04088), qwen2
 * and qwen2moe (2407.10671), qwen3 and qwen3moe (2505.09388), gpt2 (Radford et al. 2019), gemma
 * (2403.08295), gemma2 (2408.00118), gemma3 (2503.19786), phi3 (2404.14219), olmo2 (2501.00656),
 * granite and granitemoe (2505.08699 and the model cards). Names of keys and what holds without
 * them: gguf-py's constants and the readers of llama.cpp. */
#include "model/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Groups of settings that a family may read. */
enum {
    READS_ROPE = 1,
    READS_WINDOW = 2,
    READS_LOCAL_ROPE = 4,
    READS_SCORE_SOFTCAP = 8,
    READS_LOGIT_SOFTCAP = 16,
    READS_SCALES = 32,
    READS_EXPERTS = 64,
    READS_SHARED_EXPERT = 128,
    READS_LAYER_NORM = 256,
    READS_RMS_NORM = 512,
    READS_ALWAYS = 1024,
};

#define ROTARY (READS_ROPE | READS_RMS_NORM)
static const struct family families[] = {
    {.name = "llama", .reads = ROTARY | READS_WINDOW | READS_EXPERTS, .rope = ROPE_ADJACENT},
    {.name = "qwen2", .reads = ROTARY, .rope = ROPE_HALVES, .biases = true},
    {.name = "qwen3", .reads = ROTARY, .rope = ROPE_HALVES, .qk_norm = QK_NORM_HEAD},
    {.name = "gpt2",
     .reads = READS_LAYER_NORM,
     .layer_norm = true,
     .biases = true,
     .ungated = true,
     .activation = ACTIVATION_GELU},
    {.name = "gemma",
     .reads = ROTARY,
     .rope = ROPE_HALVES,
     .activation = ACTIVATION_GELU,
     .embedding_by_root = true},
    {.name = "gemma2",
     .reads = ROTARY | READS_WINDOW | READS_LOCAL_ROPE | READS_SCORE_SOFTCAP | READS_LOGIT_SOFTCAP,
     .rope = ROPE_HALVES,
     .activation = ACTIVATION_GELU,
     .post_norm = true,
     .embedding_by_root = true,
     .period = 2,
     .window = 4096,
     .attention_softcap = 50,
     .logit_softcap = 30,
     .wide_layers = 46},
    {.name = "gemma3",
     .reads = ROTARY | READS_WINDOW | READS_LOCAL_ROPE | READS_LOGIT_SOFTCAP,
     .rope = ROPE_HALVES,
     .qk_norm = QK_NORM_HEAD,
     .activation = ACTIVATION_GELU,
     .post_norm = true,
     .embedding_by_root = true,
     .period = 6,
     .local_unscaled = true,
     .local_base = 10000,
     .wide_layers = 62},
    {.name = "phi3", .reads = ROTARY | READS_WINDOW, .rope = ROPE_HALVES, .fused_gate = true},
    {.name = "olmo2",
     .reads = ROTARY | READS_WINDOW | READS_LOCAL_ROPE,
     .rope = ROPE_HALVES,
     .qk_norm = QK_NORM_WHOLE,
     .no_pre_norm = true,
     .post_norm = true,
     .period = 4,
     .local_unscaled = true},
    {.name = "granite", .reads = ROTARY | READS_SCALES, .rope = ROPE_ADJACENT, .rope_switch = true},
    {.name = "granitemoe",
     .reads = ROTARY | READS_SCALES | READS_EXPERTS | READS_SHARED_EXPERT,
     .rope = ROPE_ADJACENT,
     .rope_switch = true,
     .needs_experts = true},
    {.name = "qwen2moe",
     .reads = ROTARY | READS_EXPERTS | READS_SHARED_EXPERT,
     .rope = ROPE_HALVES,
     .biases = true,
     .needs_experts = true,
     .raw_expert_weights = true,
     .divided_width = true,
     .shared_gate = true},
    {.name = "qwen3moe",
     .reads = ROTARY | READS_EXPERTS,
     .rope = ROPE_HALVES,
     .qk_norm = QK_NORM_HEAD,
     .needs_experts = true,
     .divided_width = true},
};
#define N_FAMILIES (sizeof families / sizeof *families)

/* The settings that there are, who reads them, and the values that change nothing (NONE: no such
 * value).  A family's setting that is not here, and one that its family does not read and that
 * would change something, is refused. */
#define NONE NAN
static const struct setting {
    const char *key;
    unsigned readers;
    float neutral[2];
} settings[] = {
    {"block_count", READS_ALWAYS, {NONE, NONE}},
    {"context_length", READS_ALWAYS, {NONE, NONE}},
    {"embedding_length", READS_ALWAYS, {NONE, NONE}},
    {"feed_forward_length", READS_ALWAYS, {NONE, NONE}},
    {"attention.head_count", READS_ALWAYS, {NONE, NONE}},
    {"attention.head_count_kv", READS_ALWAYS, {NONE, NONE}},
    {"attention.key_length", READS_ALWAYS, {NONE, NONE}},
    {"attention.value_length", READS_ALWAYS, {NONE, NONE}},
    {"attention.layer_norm_epsilon", READS_LAYER_NORM, {NONE, NONE}},
    {"attention.layer_norm_rms_epsilon", READS_RMS_NORM, {NONE, NONE}},
    {"vocab_size", READS_ALWAYS, {NONE, NONE}},         /* token_embd.weight tells */
    {"tensor_data_layout", READS_ALWAYS, {NONE, NONE}}, /* how the file was made */
    {"rope.dimension_count", READS_ROPE, {NONE, NONE}},
    {"rope.freq_base", READS_ROPE, {NONE, NONE}},
    {"rope.scale_linear", READS_ROPE, {0, 1}},
    {"rope.scaling.type", READS_ROPE, {NONE, NONE}},
    {"rope.scaling.factor", READS_ROPE, {0, 1}},
    {"rope.scaling.attn_factor", READS_ROPE, {1, 1}},
    {"rope.scaling.original_context_length", READS_ROPE, {NONE, NONE}},
    {"rope.scaling.yarn_beta_fast", READS_ROPE, {NONE, NONE}},
    {"rope.scaling.yarn_beta_slow", READS_ROPE, {NONE, NONE}},
    {"rope.scaling.yarn_ext_factor", 0, {1, 1}},
    {"rope.scaling.yarn_attn_factor", 0, {1, 1}},
    {"rope.scaling.yarn_log_multiplier", 0, {0, 0}},
    {"rope.scaling.finetuned",
     READS_ALWAYS,
     {NONE, NONE}}, /* granite reads it, elsewhere it is a note */
    {"rope.freq_base_swa", READS_LOCAL_ROPE, {NONE, NONE}},
    {"attention.sliding_window", READS_WINDOW, {0, 0}},
    {"attention.sliding_window_pattern", READS_WINDOW, {NONE, NONE}},
    {"attn_logit_softcapping", READS_SCORE_SOFTCAP, {0, 0}},
    {"final_logit_softcapping", READS_LOGIT_SOFTCAP, {0, 0}},
    {"embedding_scale", READS_SCALES, {0, 1}},
    {"residual_scale", READS_SCALES, {0, 1}},
    {"logit_scale", READS_SCALES, {0, 1}},
    {"attention.scale", READS_SCALES, {0, 0}},
    {"expert_count", READS_EXPERTS, {0, 0}},
    {"expert_used_count", READS_EXPERTS, {0, 0}},
    {"expert_feed_forward_length", READS_EXPERTS, {0, 0}},
    {"expert_weights_norm", READS_EXPERTS, {NONE, NONE}},
    {"expert_weights_scale", READS_EXPERTS, {0, 1}},
    {"expert_shared_feed_forward_length", READS_SHARED_EXPERT, {0, 0}},
    {"expert_shared_count", READS_SHARED_EXPERT, {0, 0}},
    {"expert_gating_func", 0, {0, 1}}, /* 1: softmax */
    {"expert_group_count", 0, {0, 1}},
    {"expert_group_used_count", 0, {0, 1}},
    {"leading_dense_block_count", 0, {0, 0}},
    {"interleave_moe_layer_step", 0, {0, 1}},
    {"nextn_predict_layers", 0, {0, 0}},
    {"attention.causal", 0, {1, 1}},
    {"attention.clamp_kqv", 0, {0, 0}},
    {"attention.max_alibi_bias", 0, {0, 0}},
    {"use_parallel_residual", 0, {0, 0}},
    {"pooling_type", 0, {0, 0}},
};
#define N_SETTINGS (sizeof settings / sizeof *settings)

/* ---- which family -------------------------------------------------------------------------- */

const struct family *family_find(const struct gguf *gguf, struct error *error)
{
    struct gguf_string name;
    enum gguf_answer answer = gguf_text(gguf, "general.architecture", &name, error);
    if (answer == GGUF_ABSENT)
        error_set(error, STATUS_INPUT, "general.architecture is missing: not a model");
    if (answer != GGUF_FOUND)
        return NULL;
    char known[256] = "";
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (gguf_equal(name, families[i].name))
            return &families[i];
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 families[i].name);
    }
    error_set(error, STATUS_INPUT, "model family '%.*s' is not supported (these are: %s)",
              (int)(name.length < 100 ? name.length : 100), name.bytes, known);
    return NULL;
}

/* ---- nothing is passed over ------------------------------------------------------------------ */

/* A number or truth value as a number; NAN for anything else. */
static double number_of(const struct gguf *gguf, const struct gguf_value *value)
{
    struct error ignored;
    char key[128];
    uint32_t whole = 0;
    float real = 0;
    snprintf(key, sizeof key, "%.*s", (int)value->key.length, value->key.bytes);
    if (value->type == GGUF_BOOL)
        return value->data[0] != 0;
    if (gguf_u32(gguf, key, &whole, &ignored) == GGUF_FOUND)
        return whole;
    return gguf_f32(gguf, key, &real, &ignored) == GGUF_FOUND ? (double)real : (double)NAN;
}

static bool check_setting(const struct hyperparameters *h, const struct family *family,
                          const struct gguf *gguf, const struct gguf_value *value,
                          struct error *error)
{
    char key[128];
    const char *suffix = key + strlen(family->name) + 1;
    if (value->key.length >= sizeof key)
        return error_set(error, STATUS_INPUT, "%.*s is not implemented", 100, value->key.bytes);
    snprintf(key, sizeof key, "%.*s", (int)value->key.length, value->key.bytes);
    const struct setting *setting = settings;
    while (setting < settings + N_SETTINGS && strcmp(setting->key, suffix) != 0)
        setting++;
    if (setting == settings + N_SETTINGS)
        return error_set(error, STATUS_INPUT, "%s is not implemented", key);
    double number = number_of(gguf, value);
    if (setting->readers & (family->reads | READS_ALWAYS) ||
        number == (double)setting->neutral[0] || number == (double)setting->neutral[1])
        return true;
    if (strcmp(suffix, "attention.sliding_window") == 0 && number >= h->model_context)
        return true; /* as wide as the context */
    if (isnan(number))
        return error_set(error, STATUS_INPUT, "%s is not implemented", key);
    return error_set(error, STATUS_INPUT, "%s = %g is not implemented", key, number);
}

static bool check_settings(const struct hyperparameters *h, const struct family *family,
                           const struct gguf *gguf, struct error *error)
{
    size_t length = strlen(family->name);
    for (size_t i = 0; i < gguf->n_values; i++) {
        const struct gguf_value *value = &gguf->values[i];
        if (value->key.length > length && memcmp(value->key.bytes, family->name, length) == 0 &&
            value->key.bytes[length] == '.' && !check_setting(h, family, gguf, value, error))
            return false;
    }
    return true;
}

/* ---- reading ------------------------------------------------------------------------------- */

struct reader {
    const struct gguf *gguf;
    const char *family;
    struct error *error;
    char key[96];
};

static const char *key_of(struct reader *r, const char *suffix)
{
    snprintf(r->key, sizeof r->key, "%s.%s", r->family, suffix);
    return r->key;
}

/* A size of 1 to `high`; `fallback` 0: required. */
static bool read_size(struct reader *r, const char *suffix, uint32_t high, uint32_t fallback,
                      uint32_t *value)
{
    *value = fallback;
    enum gguf_answer answer = gguf_u32(r->gguf, key_of(r, suffix), value, r->error);
    if (answer == GGUF_WRONG)
        return false;
    if (answer == GGUF_ABSENT && !fallback)
        return error_set(r->error, STATUS_INPUT, "%s is missing", r->key);
    if (*value == 0 || *value > high)
        return error_set(r->error, STATUS_INPUT, "%s: expected 1 to %u, found %u", r->key, high,
                         *value);
    return true;
}

/* The same where 0 and absence mean that there is none. */
static bool read_count(struct reader *r, const char *suffix, uint32_t high, uint32_t *value)
{
    *value = 0;
    if (gguf_u32(r->gguf, key_of(r, suffix), value, r->error) < 0)
        return false;
    if (*value > high)
        return error_set(r->error, STATUS_INPUT, "%s: expected 0 to %u, found %u", r->key, high,
                         *value);
    return true;
}

/* A factor or bound: where it is 0, as where it is absent, *value stays. */
static bool read_factor(struct reader *r, const char *suffix, float *value)
{
    float found = 0;
    if (gguf_f32(r->gguf, key_of(r, suffix), &found, r->error) < 0)
        return false;
    if (!(found >= 0) || !isfinite(found))
        return error_set(r->error, STATUS_INPUT, "%s: expected 0 or more, found %g", r->key,
                         (double)found);
    *value = found > 0 ? found : *value;
    return true;
}

static bool read_sizes(struct reader *r, struct hyperparameters *h)
{
    struct cache_shape *c = &h->cache;
    if (!read_size(r, "block_count", 4096, 0, &h->n_layers) ||
        !read_size(r, "embedding_length", 1 << 18, 0, &h->dim) ||
        !read_size(r, "attention.head_count", 4096, 0, &h->n_heads) ||
        !read_size(r, "attention.head_count_kv", 4096, h->n_heads, &c->n_kv_heads) ||
        !read_size(r, "attention.key_length", 1 << 12, h->dim / h->n_heads, &c->key_dim) ||
        !read_size(r, "attention.value_length", 1 << 12, h->dim / h->n_heads, &c->value_dim) ||
        !read_count(r, "feed_forward_length", 1 << 20, &h->n_ffn) ||
        !read_size(r, "context_length", 1 << 24, 0, &h->model_context))
        return false;
    if (h->n_heads % c->n_kv_heads)
        return error_set(r->error, STATUS_INPUT,
                         "%s.attention.head_count_kv: %u does not divide the %u heads", r->family,
                         c->n_kv_heads, h->n_heads);
    return true;
}

static bool read_epsilon(struct reader *r, struct hyperparameters *h, const struct family *family)
{
    const char *suffix =
        family->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
    enum gguf_answer answer = gguf_f32(r->gguf, key_of(r, suffix), &h->norm_epsilon, r->error);
    if (answer == GGUF_ABSENT)
        return error_set(r->error, STATUS_INPUT, "%s is missing", r->key);
    if (answer == GGUF_WRONG)
        return false;
    if (!(h->norm_epsilon >= 0) || !(h->norm_epsilon < 1))
        return error_set(r->error, STATUS_INPUT, "%s: expected 0 to 1, found %g", r->key,
                         (double)h->norm_epsilon);
    return true;
}

static bool read_scales(struct reader *r, struct hyperparameters *h, const struct family *family)
{
    float logits = 1; /* the file has its inverse */
    bool wide = family->wide_layers && h->n_layers == family->wide_layers;
    h->attention_scale = 1.0f / sqrtf((float)(wide ? h->dim / h->n_heads : h->cache.key_dim));
    h->embedding_scale = family->embedding_by_root ? sqrtf((float)h->dim) : 1;
    h->residual_scale = 1;
    h->attention_softcap = family->attention_softcap;
    h->logit_softcap = family->logit_softcap;
    if (!read_factor(r, "attention.scale", &h->attention_scale) ||
        !read_factor(r, "embedding_scale", &h->embedding_scale) ||
        !read_factor(r, "residual_scale", &h->residual_scale) ||
        !read_factor(r, "logit_scale", &logits) ||
        !read_factor(r, "attn_logit_softcapping", &h->attention_softcap) ||
        !read_factor(r, "final_logit_softcapping", &h->logit_softcap))
        return false;
    h->logit_scale = 1 / logits;
    if (family->reads & READS_SCALES && !gguf_find(r->gguf, key_of(r, "logit_scale")))
        return error_set(r->error, STATUS_INPUT, "%s is missing", r->key);
    return true;
}

/* Older files give only feed_forward_length: the experts' width, or that of all experts used
 * together. */
static bool read_experts(struct reader *r, struct hyperparameters *h, const struct family *family)
{
    struct expert_settings *e = &h->experts;
    uint32_t shared;
    *e = (struct expert_settings){.normalised = !family->raw_expert_weights, .scale = 1};
    if (!read_count(r, "expert_count", 1024, &e->n))
        return false;
    if (e->n == 0) {
        if (family->needs_experts)
            return error_set(r->error, STATUS_INPUT, "%s: a model of this family has experts",
                             r->key);
        return h->n_ffn ||
               error_set(r->error, STATUS_INPUT, "%s is missing", key_of(r, "feed_forward_length"));
    }
    if (!read_size(r, "expert_used_count", e->n, 0, &e->n_used))
        return false;
    uint32_t width = family->divided_width ? h->n_ffn / e->n_used : h->n_ffn;
    if (!read_size(r, "expert_feed_forward_length", 1 << 20, width, &e->n_ffn) ||
        !read_count(r, "expert_shared_feed_forward_length", 1 << 20, &shared) ||
        gguf_bool(r->gguf, key_of(r, "expert_weights_norm"), &e->normalised, r->error) < 0 ||
        !read_factor(r, "expert_weights_scale", &e->scale))
        return false;
    h->n_ffn = shared ? shared : family->shared_gate ? h->n_ffn : 0;
    return true;
}

static bool read_window(struct reader *r, struct hyperparameters *h, const struct family *family)
{
    h->window = family->window;
    if (!(family->reads & READS_WINDOW))
        return true;
    if (gguf_u32(r->gguf, key_of(r, "attention.sliding_window"), &h->window, r->error) < 0)
        return false;
    if (h->window >= h->model_context)
        h->window = 0;
    return true;
}

bool family_read(struct hyperparameters *h, const struct family *family, const struct gguf *gguf,
                 const struct model_options *options, struct error *error)
{
    struct reader reader = {gguf, family->name, error, ""}, *r = &reader;
    struct gguf_string name = {"", 0};
    h->family = family->name;
    if (gguf_text(gguf, "general.name", &name, error) < 0)
        return false;
    snprintf(h->name, sizeof h->name, "%.*s", (int)(name.length < 100 ? name.length : 100),
             name.bytes);
    if (!read_sizes(r, h) || !check_settings(h, family, gguf, error) ||
        !read_epsilon(r, h, family) || !read_scales(r, h, family) || !read_experts(r, h, family) ||
        !read_window(r, h, family))
        return false;
    if (options->n_context > h->model_context)
        return error_set(error, STATUS_USAGE,
                         "a context of %u positions was asked for, the model was made for %u",
                         options->n_context, h->model_context);
    h->n_context = options->n_context ? options->n_context : h->model_context;
    h->cache.n_layers = h->n_layers;
    h->cache.element = options->element;
    return rope_read(h, family, gguf, error);
}

/* The pattern in the file is a period, or says it of each layer. */
bool family_local_layers(bool *local, const struct hyperparameters *h, const struct family *family,
                         const struct gguf *gguf, struct error *error)
{
    struct reader reader = {gguf, family->name, error, ""}, *r = &reader;
    const char *key = key_of(r, "attention.sliding_window_pattern");
    const struct gguf_value *value = gguf_find(gguf, key);
    uint32_t period = family->period;
    if (value && value->type == GGUF_ARRAY) {
        if (gguf_array(gguf, key, GGUF_BOOL, &value, error) < 0)
            return false;
        if (value->count != h->n_layers)
            return error_set(error, STATUS_INPUT, "%s: expected %u values, found %llu", key,
                             h->n_layers, (unsigned long long)value->count);
        for (uint32_t i = 0; i < h->n_layers; i++)
            local[i] = h->window > 0 && value->data[i] != 0;
        return true;
    }
    if (gguf_u32(gguf, key, &period, error) < 0)
        return false;
    for (uint32_t i = 0; i < h->n_layers; i++)
        local[i] = h->window > 0 && (period == 0 || i % period < period - 1);
    return true;
}
