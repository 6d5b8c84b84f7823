/* Rotary position embedding (Su et al. 2021, arXiv 2104.09864) and its context extensions: linear
 * (arXiv 2306.15595), YaRN (arXiv 2309.00071), LongRoPE (arXiv 2402.13753). */
#include "model/internal.h"

#include <math.h>
#include <stdio.h>

static const char *const scalings[] = {"none", "linear", "yarn", "longrope"};
enum { NO_SCALING, LINEAR, YARN, LONGROPE, N_SCALINGS };

/* Of the kinds only files made lately tell: a factor alone is linear, tables of factors are
 * LongRoPE's. */
static bool read_scaling(struct rope_settings *rope, const struct gguf *gguf, const char *key,
                         float factor, struct error *error)
{
    struct gguf_string type = {"none", 4};
    enum gguf_answer answer = gguf_text(gguf, key, &type, error);
    if (answer == GGUF_WRONG)
        return false;
    rope->scaling = 0;
    while (rope->scaling < N_SCALINGS && !gguf_equal(type, scalings[rope->scaling]))
        rope->scaling++;
    if (rope->scaling == N_SCALINGS)
        return error_set(error, STATUS_INPUT,
                         "%s: '%.*s' is not implemented (none, linear, yarn, longrope are)", key,
                         (int)(type.length < 100 ? type.length : 100), type.bytes);
    if (answer == GGUF_ABSENT && gguf_tensor(gguf, "rope_factors_long.weight"))
        rope->scaling = LONGROPE;
    else if (answer == GGUF_ABSENT && factor > 0 && factor != 1)
        rope->scaling = LINEAR;
    return true;
}

/* Local layers may have another base, or be spared the scaling. */
static void derive_local(struct hyperparameters *hyper, const struct family *family, float base)
{
    struct rope_settings *local = &hyper->local_rope;
    *local = hyper->rope;
    local->base = base;
    if (family->local_unscaled) {
        local->scaling = NO_SCALING;
        local->scale = local->attention_factor = 1;
    }
    hyper->has_local_rope =
        hyper->window > 0 &&
        (local->base != hyper->rope.base || local->scaling != hyper->rope.scaling ||
         local->attention_factor != hyper->rope.attention_factor);
}

bool rope_read(struct hyperparameters *hyper, const struct family *family, const struct gguf *gguf,
               struct error *error)
{
    struct rope_settings *rope = &hyper->rope;
    char key[96];
    float factor = 0, local_base = 0;
    bool rotates = true;
    *rope = (struct rope_settings){
        .scale = 1, .attention_factor = 1, .adjacent = family->rope == ROPE_ADJACENT};
#define KEY(text) (snprintf(key, sizeof key, "%s.%s", family->name, text), key)
    /* Granite's switch; elsewhere a note on how the model came about. */
    if (gguf_bool(gguf, KEY("rope.scaling.finetuned"), &rotates, error) < 0)
        return false;
    if (family->rope == ROPE_NONE_BUT_LEARNED || (family->rope_switch && !rotates))
        return true;
    rope->dim = hyper->cache.key_dim;
    rope->base = 10000;
    rope->original_context = hyper->model_context;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    if (gguf_u32(gguf, KEY("rope.dimension_count"), &rope->dim, error) < 0 ||
        gguf_f32(gguf, KEY("rope.freq_base"), &rope->base, error) < 0 ||
        gguf_f32(gguf, KEY("rope.scale_linear"), &factor, error) < 0 ||
        gguf_f32(gguf, KEY("rope.scaling.factor"), &factor, error) < 0 ||
        gguf_f32(gguf, KEY("rope.scaling.attn_factor"), &rope->attention_factor, error) < 0 ||
        gguf_f32(gguf, KEY("rope.scaling.yarn_beta_fast"), &rope->beta_fast, error) < 0 ||
        gguf_f32(gguf, KEY("rope.scaling.yarn_beta_slow"), &rope->beta_slow, error) < 0 ||
        gguf_u32(gguf, KEY("rope.scaling.original_context_length"), &rope->original_context,
                 error) < 0 ||
        !read_scaling(rope, gguf, KEY("rope.scaling.type"), factor, error))
        return false;
    local_base = family->local_base > 0 ? family->local_base : rope->base;
    if (gguf_f32(gguf, KEY("rope.freq_base_swa"), &local_base, error) < 0)
        return false;
    if (rope->dim == 0 || rope->dim % 2 || rope->dim > hyper->cache.key_dim)
        return error_set(error, STATUS_INPUT, "%s: expected an even number up to %u, found %u",
                         KEY("rope.dimension_count"), hyper->cache.key_dim, rope->dim);
    if (!(rope->base > 1) || !isfinite(rope->base) || !(local_base > 1) || !isfinite(local_base))
        return error_set(error, STATUS_INPUT,
                         "%s: expected a number above 1, found %g and %g for local layers",
                         KEY("rope.freq_base"), (double)rope->base, (double)local_base);
    if (!(factor >= 0) || !isfinite(factor) || !(rope->attention_factor > 0) ||
        !isfinite(rope->attention_factor))
        return error_set(error, STATUS_INPUT, "%s: found %g, with attention factor %g",
                         KEY("rope.scaling.factor"), (double)factor,
                         (double)rope->attention_factor);
    if (!(rope->beta_slow > 0) || !(rope->beta_fast >= rope->beta_slow) ||
        !isfinite(rope->beta_fast))
        return error_set(error, STATUS_INPUT, "%s: found %g, with a slow one of %g",
                         KEY("rope.scaling.yarn_beta_fast"), (double)rope->beta_fast,
                         (double)rope->beta_slow);
    if (rope->original_context == 0)
        return error_set(error, STATUS_INPUT, "%s: is 0",
                         KEY("rope.scaling.original_context_length"));
#undef KEY
    rope->scale = rope->scaling != NO_SCALING && factor > 0 ? 1 / factor : 1;
    if (rope->scaling == YARN) /* section 3.4: attention temperature; 0.1 ln(s) + 1 */
        rope->attention_factor *= 1 + 0.1f * (float)exact_log(1 / (double)rope->scale);
    derive_local(hyper, family, local_base);
    return true;
}

/* YaRN's ramp: 1 for dimensions that turn often within the original context (left as they are), 0
 * for those that turn less than once (interpolated).  The paper's bounds are 32 turns and 1. */
static double yarn_share(const struct rope_settings *rope, uint32_t pair)
{
    double per_turns[2], turns[2] = {rope->beta_fast, rope->beta_slow};
    for (int i = 0; i < 2; i++)
        per_turns[i] = rope->dim *
                       exact_log(rope->original_context / (turns[i] * 2 * 3.14159265358979323846)) /
                       (2 * exact_log(rope->base));
    double low = floor(per_turns[0]), high = ceil(per_turns[1]);
    low = low < 0 ? 0 : low;
    high = high > rope->dim - 1 ? rope->dim - 1 : high;
    double width = high - low < 0.001 ? 0.001 : high - low, at = (pair - low) / width;
    return 1 - (at < 0 ? 0 : at > 1 ? 1 : at);
}

double *rope_frequencies(const struct rope_settings *rope, const float *factors)
{
    double *frequency = allocate(rope->dim / 2, sizeof *frequency);
    for (uint32_t i = 0; i < rope->dim / 2; i++) {
        double plain =
            exact_pow(rope->base, -2.0 * i / rope->dim) / (factors ? (double)factors[i] : 1);
        double share = rope->scaling == YARN ? yarn_share(rope, i) : 0;
        double scale =
            rope->scaling == LONGROPE ? 1 : rope->scale; /* LongRoPE scales by its factors */
        frequency[i] = plain * (scale * (1 - share) + share);
    }
    return frequency;
}

void rope_angles(const struct rope_settings *rope, const double *frequency, uint32_t position,
                 float *cosine, float *sine)
{
    for (uint32_t i = 0; i < rope->dim / 2; i++) {
        double s, c;
        exact_sincos(position * frequency[i], &s, &c);
        cosine[i] = (float)c * rope->attention_factor;
        sine[i] = (float)s * rope->attention_factor;
    }
}
