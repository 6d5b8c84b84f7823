#include "kernel/quantize.h"

#include <math.h>
#include <string.h>

/* Block layouts as in ggml-common.h of https://github.com/ggml-org/ggml. */

/* Q8_0: f16 d, int8 q[32]; d = amax / 127. */
static void block_q8_0(const float *x, uint8_t *out)
{
    float largest = 0;
    for (int i = 0; i < 32; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    float d = largest / 127, inverse = d > 0 ? 1 / d : 0;
    store_u16(out, f32_to_f16(d));
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)(int8_t)lroundf(x[i] * inverse);
}

/* Q4_0: f16 d, then nibbles of q + 8, elements 0-15 low, 16-31 high; the value of largest size is -8. */
static void block_q4_0(const float *x, uint8_t *out)
{
    float largest = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(largest))
            largest = x[i];
    float d = largest / -8, inverse = d != 0 ? 1 / d : 0;
    store_u16(out, f32_to_f16(d));
    for (int i = 0; i < 16; i++) {
        long low = lrintf(x[i] * inverse) + 8, high = lrintf(x[i + 16] * inverse) + 8;
        out[2 + i] = (uint8_t)((low > 15 ? 15 : low) | (high > 15 ? 15 : high) << 4);
    }
}

/* ---- K-quants: blocks of 256 whose scales are integers themselves ------------------------------ */

static long clamp(float value, long low, long high)
{
    long n = lrintf(value);
    return n < low ? low : n > high ? high : n;
}

/* Scale and minimum of 32 values as scale * q + minimum, q in 0 ... 15, minimum <= 0: of the levels that a few
 * trial scales give, those whose least-squares fit leaves the smallest error. */
static void fit_affine(const float *x, float *scale, float *minimum)
{
    float low = 0, high = 0, best = INFINITY;
    for (int i = 0; i < 32; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    *scale = 0;
    *minimum = low;
    if (high == low)
        return;
    for (int trial = 0; trial <= 20; trial++) {
        float inverse = (14 + 0.1f * (float)trial) / (high - low);
        float sum_x = 0, sum_l = 0, sum_ll = 0, sum_lx = 0, error = 0;
        float level[32];
        for (int i = 0; i < 32; i++) {
            float l = level[i] = (float)clamp(inverse * (x[i] - low), 0, 15);
            sum_x += x[i], sum_l += l, sum_ll += l * l, sum_lx += l * x[i];
        }
        float determinant = 32 * sum_ll - sum_l * sum_l;
        if (!(determinant > 0))
            continue;
        float a = (32 * sum_lx - sum_x * sum_l) / determinant, b = (sum_ll * sum_x - sum_l * sum_lx) / determinant;
        if (b > 0) {
            b = 0;
            a = sum_lx / sum_ll;
        }
        for (int i = 0; i < 32; i++) {
            float miss = a * level[i] + b - x[i];
            error += miss * miss;
        }
        if (error < best) {
            best = error;
            *scale = a;
            *minimum = b;
        }
    }
}

/* Q4_K: f16 d, f16 dmin, eight 6-bit scales and minima in 12 bytes, nibbles; value = d sc q - dmin m. */
static void block_q4_k(const float *x, uint8_t *out)
{
    float scale[8], minimum[8], largest_scale = 0, largest_minimum = 0;
    uint8_t *packed = out + 4, *nibbles = out + 16;
    for (int j = 0; j < 8; j++) {
        fit_affine(x + 32 * j, &scale[j], &minimum[j]);
        largest_scale = fmaxf(largest_scale, scale[j]);
        largest_minimum = fmaxf(largest_minimum, -minimum[j]);
    }
    store_u16(out, f32_to_f16(largest_scale / 63));
    store_u16(out + 2, f32_to_f16(largest_minimum / 63));
    float d = f16_to_f32(load_u16(out)), d_minimum = f16_to_f32(load_u16(out + 2));
    memset(packed, 0, 12 + 128);
    for (int j = 0; j < 8; j++) {
        long sc = d > 0 ? clamp(scale[j] / d, 0, 63) : 0, m = d_minimum > 0 ? clamp(-minimum[j] / d_minimum, 0, 63) : 0;
        if (j < 4) {
            packed[j] |= (uint8_t)sc;
            packed[j + 4] |= (uint8_t)m;
        } else {
            packed[j + 4] = (uint8_t)((sc & 15) | (m & 15) << 4);
            packed[j - 4] |= (uint8_t)(sc >> 4 << 6);
            packed[j] |= (uint8_t)(m >> 4 << 6);
        }
        float step = d * (float)sc, offset = d_minimum * (float)m;
        for (int i = 0; i < 32; i++) {
            long q = step > 0 ? clamp((x[32 * j + i] + offset) / step, 0, 15) : 0;
            nibbles[j / 2 * 32 + i] |= (uint8_t)(q << (j % 2 * 4));
        }
    }
}

/* Scale of 16 values as scale * q, q in -32 ... 31: as above, without a minimum, weighed by the squares. */
static float fit_symmetric(const float *x)
{
    float extreme = 0, scale = 0, best = 0;
    for (int i = 0; i < 16; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    for (int trial = -9; trial <= 9 && extreme != 0; trial++) {
        float inverse = -(32 + 0.1f * (float)trial) / extreme, lx = 0, ll = 0;
        for (int i = 0; i < 16; i++) {
            float l = (float)clamp(inverse * x[i], -32, 31), w = x[i] * x[i];
            lx += w * x[i] * l;
            ll += w * l * l;
        }
        if (ll > 0 && lx * lx > best * ll) {
            scale = lx / ll;
            best = lx * lx / ll;
        }
    }
    return scale;
}

/* Q6_K: low nibbles, high pairs of bits, sixteen int8 scales, f16 d; value = d sc (q - 32). */
static void block_q6_k(const float *x, uint8_t *out)
{
    uint8_t *low = out, *high = out + 128;
    float scale[16], extreme = 0;
    memset(out, 0, 210);
    for (int j = 0; j < 16; j++) {
        scale[j] = fit_symmetric(x + 16 * j);
        if (fabsf(scale[j]) > fabsf(extreme))
            extreme = scale[j];
    }
    store_u16(out + 208, f32_to_f16(extreme / -128));
    float d = f16_to_f32(load_u16(out + 208));
    for (int i = 0; i < 256; i++) {
        long sc = d != 0 ? clamp(scale[i / 16] / d, -128, 127) : 0;
        float step = d * (float)sc;
        long q = 32 + (step != 0 ? clamp(x[i] / step, -32, 31) : 0);
        int half = i / 128, quarter = i % 128 / 32, column = i % 32;
        out[192 + i / 16] = (uint8_t)(int8_t)sc;
        low[half * 64 + quarter % 2 * 32 + column] |= (uint8_t)((q & 15) << (quarter / 2 * 4));
        high[half * 32 + column] |= (uint8_t)(q >> 4 << (2 * quarter));
    }
}

static void block_f32(const float *x, uint8_t *out)
{
    store_f32(out, *x);
}

static void block_f16(const float *x, uint8_t *out)
{
    store_u16(out, f32_to_f16(*x));
}

static void block_bf16(const float *x, uint8_t *out)
{
    store_u16(out, f32_to_bf16(*x));
}

typedef void quantize_block(const float *x, uint8_t *out);

static quantize_block *block_function(uint32_t type)
{
    switch (type) {
    case TENSOR_F32:
        return block_f32;
    case TENSOR_F16:
        return block_f16;
    case TENSOR_BF16:
        return block_bf16;
    case TENSOR_Q8_0:
        return block_q8_0;
    case TENSOR_Q4_0:
        return block_q4_0;
    case TENSOR_Q4_K:
        return block_q4_k;
    case TENSOR_Q6_K:
        return block_q6_k;
    default:
        return NULL;
    }
}

bool quantize_supports(uint32_t type)
{
    return block_function(type) != NULL;
}

void quantize_row(uint32_t type, const float *x, uint32_t n, uint8_t *out)
{
    quantize_block *block = block_function(type);
    if (!block)
        die(STATUS_USAGE, "cannot write tensors of type %u", type);
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    for (uint32_t i = 0; i < n; i += facts->block_items, out += facts->block_bytes)
        block(x + i, out);
}
