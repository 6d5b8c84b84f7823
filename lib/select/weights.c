/* The exponentials of a whole vocabulary.  exact_exp once for each would take longer than all the
 * rest of the selection: on machines without it in their baseline, a fused multiply-add is a call.
 * Here is the same sequence of operations in a form that compilers make vector instructions of, and
 * for x86 once more with the instructions that most have; the tests hold both to the bits of
 * exact_exp. */
#include "select/internal.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 16 };

__attribute__((always_inline)) static inline float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

__attribute__((always_inline)) static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* exact_exp of base/math.c for x <= 0.  Its comparisons are made of the bits, which for negative
 * numbers are ordered the other way round: compilers do not turn comparisons of floats into vector
 * instructions. */
__attribute__((always_inline)) static inline float exponential(float x)
{
    const uint32_t least = 0xc2d00000; /* -104 */
    uint32_t bits = bits_of(x), inside = bits < least ? bits : least,
             keep = bits > least ? 0 : UINT32_MAX;
    float n = rintf(of_bits(inside) * 0x1.715476p+0f);
    float r = fmaf(n, -0x1.62e4p-1f, of_bits(inside));
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float p = 0x1.a01a02p-13f;
    p = fmaf(p, r, 0x1.6c16c2p-10f);
    p = fmaf(p, r, 0x1.111112p-7f);
    p = fmaf(p, r, 0x1.555556p-5f);
    p = fmaf(p, r, 0x1.555556p-3f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    int whole = (int)n, half = whole >> 1;
    p = p * of_bits((uint32_t)(half + 127) << 23) * of_bits((uint32_t)(whole - half + 127) << 23);
    return of_bits(bits_of(p) & keep);
}

__attribute__((always_inline)) static inline void weights_of(const float *restrict logits, size_t n,
                                                             double greatest, double temperature,
                                                             float *restrict weights)
{
    size_t i = 0;
    for (; n - i >= BLOCK; i += BLOCK) {
        float x[BLOCK];
        for (int l = 0; l < BLOCK; l++)
            x[l] = (float)(((double)logits[i + (size_t)l] - greatest) / temperature);
        for (int l = 0; l < BLOCK; l++)
            weights[i + (size_t)l] = exponential(x[l]);
    }
    for (; i < n; i++)
        weights[i] = exponential((float)(((double)logits[i] - greatest) / temperature));
}

void select_weights_plain(const float *logits, size_t n, float greatest, double temperature,
                          float *weights)
{
    weights_of(logits, n, (double)greatest, temperature, weights);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void
weights_avx2(const float *logits, size_t n, double greatest, double temperature, float *weights)
{
    weights_of(logits, n, greatest, temperature, weights);
}
#endif

void select_weights(const float *logits, size_t n, float greatest, double temperature,
                    float *weights)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        weights_avx2(logits, n, (double)greatest, temperature, weights);
        return;
    }
#endif
    select_weights_plain(logits, n, greatest, temperature, weights);
}
