/* Rotary position embedding (Su et al. 2021, arXiv 2104.09864) and its context extensions: linear
 * (arXiv 2306.15595), YaRN (arXiv 2309.00071), LongRoPE (arXiv 2402.13753). */
#include "model/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool rope_read(struct hyperparameters *hyper, const struct gguf *gguf, struct error *error)
{
    struct rope_settings *rope = &hyper->rope;
    const char *family = hyper->family;
    char key[96];
    float factor = 0, attention = 1;
    struct gguf_string type = {"none", 4};
    rope->dim = hyper->cache.key_dim;
    rope->base = 10000;
    rope->original_context = hyper->model_context;
#define KEY(text) (snprintf(key, sizeof key, "%s.%s", family, text), key)
    if (gguf_u32(gguf, KEY("rope.dimension_count"), &rope->dim, error) < 0 ||
        gguf_f32(gguf, KEY("rope.freq_base"), &rope->base, error) < 0 ||
        gguf_text(gguf, KEY("rope.scaling.type"), &type, error) < 0 ||
        gguf_f32(gguf, KEY("rope.scale_linear"), &factor, error) < 0 ||
        gguf_f32(gguf, KEY("rope.scaling.factor"), &factor, error) < 0 ||
        gguf_f32(gguf, KEY("rope.scaling.attn_factor"), &attention, error) < 0 ||
        gguf_u32(gguf, KEY("rope.scaling.original_context_length"), &rope->original_context, error) < 0)
        return false;
    if (rope->dim == 0 || rope->dim % 2 || rope->dim > hyper->cache.key_dim)
        return error_set(error, STATUS_INPUT, "%s: expected an even number up to %u, found %u",
                         KEY("rope.dimension_count"), hyper->cache.key_dim, rope->dim);
    if (!(rope->base > 1) || !isfinite(rope->base))
        return error_set(error, STATUS_INPUT, "%s: expected a number above 1, found %g", KEY("rope.freq_base"),
                         (double)rope->base);
    if (!(factor >= 0) || !isfinite(factor) || !(attention > 0) || !isfinite(attention))
        return error_set(error, STATUS_INPUT, "%s: found %g, with attention factor %g", KEY("rope.scaling.factor"),
                         (double)factor, (double)attention);
    static const char *const names[] = {"none", "linear", "yarn", "longrope"};
    uint32_t scaling = 0;
    while (scaling < 4 && !gguf_equal(type, names[scaling]))
        scaling++;
    if (scaling == 4)
        return error_set(error, STATUS_INPUT, "%s: '%.*s' is not implemented (none, linear, yarn, longrope are)",
                         KEY("rope.scaling.type"), (int)type.length, type.bytes);
    if (scaling == 0 && factor > 0 && factor != 1) /* older files give the factor alone */
        scaling = gguf_find(gguf, KEY("rope.scaling.type")) ? 0 : 1;
    rope->scaling = scaling;
    rope->scale = scaling != 0 && factor > 0 ? 1 / factor : 1;
    rope->attention_factor = attention;
    if (scaling == 2) /* YaRN, section 3.4: attention temperature; 0.1 ln(s) + 1 */
        rope->attention_factor *= 1 + 0.1f * (float)exact_log(1 / (double)rope->scale);
    if (rope->original_context == 0)
        return error_set(error, STATUS_INPUT, "%s: is 0", KEY("rope.scaling.original_context_length"));
#undef KEY
    return true;
}

/* YaRN's ramp: 1 for dimensions that turn often within the original context (left as they are), 0 for
 * those that turn less than once (interpolated).  Bounds of 32 and 1 turns, as in the paper. */
static double yarn_share(const struct rope_settings *rope, uint32_t pair)
{
    double per_turns[2], turns[2] = {32, 1};
    for (int i = 0; i < 2; i++)
        per_turns[i] = rope->dim * exact_log(rope->original_context / (turns[i] * 2 * 3.14159265358979323846)) /
                       (2 * exact_log(rope->base));
    double low = floor(per_turns[0]), high = ceil(per_turns[1]);
    low = low < 0 ? 0 : low;
    high = high > rope->dim - 1 ? rope->dim - 1 : high;
    double width = high - low < 0.001 ? 0.001 : high - low, at = (pair - low) / width;
    return 1 - (at < 0 ? 0 : at > 1 ? 1 : at);
}

double *rope_frequencies(const struct hyperparameters *hyper, const float *factors)
{
    const struct rope_settings *rope = &hyper->rope;
    double *frequency = allocate(rope->dim / 2, sizeof *frequency);
    for (uint32_t i = 0; i < rope->dim / 2; i++) {
        double plain = exact_pow(rope->base, -2.0 * i / rope->dim) / (factors ? (double)factors[i] : 1);
        double share = rope->scaling == 2 ? yarn_share(rope, i) : 0;
        double scale = rope->scaling == 3 ? 1 : rope->scale; /* LongRoPE scales by its factors */
        frequency[i] = plain * (scale * (1 - share) + share);
    }
    return frequency;
}

void rope_angles(const struct hyperparameters *hyper, const double *frequency, uint32_t position,
                 float *cosine, float *sine)
{
    for (uint32_t i = 0; i < hyper->rope.dim / 2; i++) {
        double s, c;
        exact_sincos(position * frequency[i], &s, &c);
        cosine[i] = (float)c * hyper->rope.attention_factor;
        sine[i] = (float)s * hyper->rope.attention_factor;
    }
}
