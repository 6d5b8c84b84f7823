#include "kernel/quantize.h"

#include <math.h>
#include <string.h>

/* Nearest integer, to even. */
static inline float round_near(float x)
{
    return rintf(x);
}

static inline float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

static float rounded_f16(float x)
{
    return f16_to_f32(f32_to_f16(x));
}

static float inverse(float x)
{
    return x != 0 && isfinite(1 / x) ? 1 / x : 0;
}

/* Of largest magnitude, with its sign. */
static float extreme(const float *x, unsigned n)
{
    float most = 0;
    for (unsigned i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(most))
            most = x[i];
    return most;
}

/* Vectors of four, which every machine has. */
#define LANES 4
typedef float lanes __attribute__((vector_size(16)));
typedef int32_t masks __attribute__((vector_size(16)));

static inline lanes load(const float *x)
{
    lanes v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline lanes choose(masks mask, lanes yes, lanes no)
{
    return (lanes)((mask & (masks)yes) | (~mask & (masks)no));
}

/* x rounded to the nearest integer, |x| < 2^22, and kept in [low, high]. */
static inline lanes to_level(lanes x, lanes low, lanes high)
{
    const float shift = 12582912; /* 1.5 * 2^23 */
    x = x + shift - shift;
    x = choose(x < low, low, x);
    return choose(x > high, high, x);
}

static inline lanes all(float x)
{
    return (lanes){x, x, x, x};
}

static float total(lanes v)
{
    return v[0] + v[1] + v[2] + v[3];
}

struct sums {
    float q, qq, xq;
};

/* Sums over q = (x - from) * factor, rounded and kept in [low, high]. */
static struct sums sum_levels(const float *x, unsigned n, float from, float factor, float low,
                              float high)
{
    lanes sum_q = {0}, sum_qq = {0}, sum_xq = {0}, lows = all(low), highs = all(high);
    for (unsigned i = 0; i < n; i += LANES) {
        lanes q = to_level((load(x + i) - from) * factor, lows, highs);
        sum_q += q;
        sum_qq += q * q;
        sum_xq += load(x + i) * q;
    }
    return (struct sums){total(sum_q), total(sum_qq), total(sum_xq)};
}

/* The s for which the sum of (x - s * q)^2 is least, q in [-levels, levels - 1] being the integer
 * nearest to x / s.  Tries scales that put the extreme value near -levels; for the q of each, the
 * best s is sum(x*q) / sum(q*q), and the error sum(x*x) - sum(x*q)^2 / sum(q*q). */
static float symmetric_scale(const float *x, unsigned n, float levels)
{
    float unit = inverse(extreme(x, n)), best = 0, best_gain = 0;
    for (int step = -3; step <= 3; step++) {
        float factor = -(levels + 0.3f * (float)step) * unit;
        struct sums s = sum_levels(x, n, 0, factor, -levels, levels - 1);
        if (s.qq > 0 && s.xq * s.xq > best_gain * s.qq) {
            best_gain = s.xq * s.xq / s.qq;
            best = s.xq / s.qq;
        }
    }
    return best;
}

/* The sum of (x - (s * q - m))^2, q in [0, levels] being the nearest. */
static float affine_error(const float *x, unsigned n, float levels, float s, float m)
{
    lanes error = {0}, highs = all(levels);
    float per = inverse(s);
    for (unsigned i = 0; i < n; i += LANES) {
        lanes q = to_level((load(x + i) + m) * per, (lanes){0}, highs);
        lanes off = load(x + i) - (s * q - m);
        error += off * off;
    }
    return total(error);
}

/* The s and m, neither negative, for which that is least. */
static void affine_scale(const float *x, unsigned n, float levels, float *s, float *m)
{
    float low = 0, high = x[0], sum_x = 0, count = (float)n;
    for (unsigned i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
        sum_x += x[i];
    }
    *s = 0;
    *m = -low;
    float unit = inverse(high - low), best = affine_error(x, n, levels, *s, *m);
    for (int step = -3; step <= 1 && unit > 0; step++) {
        float factor = (levels + 0.3f * (float)step) * unit;
        struct sums f = sum_levels(x, n, low, factor, 0, levels);
        float determinant = count * f.qq - f.q * f.q, scale = f.xq / f.qq, min = 0;
        if (determinant > 0 && f.q * f.xq > f.qq * sum_x) {
            scale = (count * f.xq - sum_x * f.q) / determinant;
            min = (f.q * f.xq - f.qq * sum_x) / determinant;
        }
        float error = scale > 0 ? affine_error(x, n, levels, scale, min) : INFINITY;
        if (error < best) {
            best = error;
            *s = scale;
            *m = min;
        }
    }
}

static void quantize_q8_0(const float *x, uint8_t *out)
{
    float d = rounded_f16(fabsf(extreme(x, 32)) / 127), per = inverse(d);
    store_u16(out, f32_to_f16(d));
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)(int8_t)clamp(round_near(x[i] * per), -128, 127);
}

static void quantize_q4_0(const float *x, uint8_t *out)
{
    float d = rounded_f16(symmetric_scale(x, 32, 8)), per = inverse(d);
    int q[32];
    for (int i = 0; i < 32; i++)
        q[i] = (int)clamp(round_near(x[i] * per), -8, 7) + 8;
    store_u16(out, f32_to_f16(d));
    for (int i = 0; i < 16; i++)
        out[2 + i] = (uint8_t)(q[i] | q[i + 16] << 4);
}

/* The twelve bytes of eight 6-bit scales and eight 6-bit mins. */
static void pack_scales(const int *scale, const int *min, uint8_t *out)
{
    for (int j = 0; j < 4; j++) {
        out[j] = (uint8_t)(scale[j] | scale[j + 4] >> 4 << 6);
        out[j + 4] = (uint8_t)(min[j] | min[j + 4] >> 4 << 6);
        out[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

static void quantize_q4_k(const float *x, uint8_t *out)
{
    float s[8], m[8], most_s = 0, most_m = 0;
    int scale[8], min[8], q[256];
    for (int j = 0; j < 8; j++) {
        affine_scale(x + 32 * j, 32, 15, &s[j], &m[j]);
        most_s = fmaxf(most_s, s[j]);
        most_m = fmaxf(most_m, m[j]);
    }
    float d = rounded_f16(most_s / 63), dmin = rounded_f16(most_m / 63);
    float per_d = inverse(d), per_dmin = inverse(dmin);
    for (int j = 0; j < 8; j++) {
        /* The best of the neighbours: rounding moves scale and min apart. */
        float best = INFINITY, near_s = round_near(s[j] * per_d),
              near_m = round_near(m[j] * per_dmin);
        for (int i = 0; i < 9; i++) {
            float try_s = clamp(near_s + (float)(i / 3 - 1), 0, 63);
            float try_m = clamp(near_m + (float)(i % 3 - 1), 0, 63);
            float error = affine_error(x + 32 * j, 32, 15, d * try_s, dmin * try_m);
            if (error < best) {
                best = error;
                scale[j] = (int)try_s;
                min[j] = (int)try_m;
            }
        }
        float per = inverse(d * (float)scale[j]), shift = dmin * (float)min[j];
        for (int i = 32 * j; i < 32 * j + 32; i++)
            q[i] = (int)clamp(round_near((x[i] + shift) * per), 0, 15);
    }
    store_u16(out, f32_to_f16(d));
    store_u16(out + 2, f32_to_f16(dmin));
    pack_scales(scale, min, out + 4);
    for (int i = 0; i < 128; i++) {
        int low = i / 32 * 64 + i % 32;
        out[16 + i] = (uint8_t)(q[low] | q[low + 32] << 4);
    }
}

static void quantize_q6_k(const float *x, uint8_t *out)
{
    float s[16];
    int q[256];
    for (int j = 0; j < 16; j++)
        s[j] = symmetric_scale(x + 16 * j, 16, 32);
    float d = rounded_f16(extreme(s, 16) / -128), per_d = inverse(d);
    for (int j = 0; j < 16; j++) {
        float scale = clamp(round_near(s[j] * per_d), -128, 127), per = inverse(d * scale);
        out[192 + j] = (uint8_t)(int8_t)scale;
        for (int i = 16 * j; i < 16 * j + 16; i++)
            q[i] = (int)clamp(round_near(x[i] * per), -32, 31) + 32;
    }
    store_u16(out + 208, f32_to_f16(d));
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < 32; i++) {
            const int *at = q + 128 * half + i; /* four runs of 32 share 32 bytes of high bits */
            uint8_t *low = out + 64 * half + i;
            low[0] = (uint8_t)((at[0] & 15) | (at[64] & 15) << 4);
            low[32] = (uint8_t)((at[32] & 15) | (at[96] & 15) << 4);
            out[128 + 32 * half + i] =
                (uint8_t)(at[0] >> 4 | at[32] >> 4 << 2 | at[64] >> 4 << 4 | at[96] >> 4 << 6);
        }
}

bool quantize_supports(uint32_t type)
{
    return type == TENSOR_F32 || type == TENSOR_F16 || type == TENSOR_BF16 || type == TENSOR_Q8_0 ||
           type == TENSOR_Q4_0 || type == TENSOR_Q4_K || type == TENSOR_Q6_K;
}

void quantize_row(enum tensor_type type, const float *x, size_t n, uint8_t *out)
{
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    for (size_t i = 0; i < n; i += facts->block_items, out += facts->block_bytes)
        switch (type) {
        case TENSOR_F16:
            store_u16(out, f32_to_f16(x[i]));
            break;
        case TENSOR_BF16:
            store_u16(out, f32_to_bf16(x[i]));
            break;
        case TENSOR_F32:
            store_f32(out, x[i]);
            break;
        case TENSOR_Q8_0:
            quantize_q8_0(x + i, out);
            break;
        case TENSOR_Q4_0:
            quantize_q4_0(x + i, out);
            break;
        case TENSOR_Q4_K:
            quantize_q4_k(x + i, out);
            break;
        case TENSOR_Q6_K:
            quantize_q6_k(x + i, out);
            break;
        default:
            die(STATUS_USAGE, "cannot write tensors of type %u", (unsigned)type);
        }
}
