/* Sixteen lanes in plain C: what float_ops.inc is written over, and the definition of each
 * operation. The names that end in _first touch only lanes below n (at most 16) and the memory of
 * those. */
#ifndef UNROLL_LANES_GENERIC_H
#define UNROLL_LANES_GENERIC_H

#include "base/base.h"

#include <math.h>

typedef struct {
    float lane[16];
} lanes;

/* Register blocks: outputs of one row, outputs and rows of a product of matrices; rows and
 * sixteens of columns of a product in attention. */
#define DOT_ONE_ROW         1
#define DOT_OUTPUTS         1
#define DOT_ROWS            1
#define PRODUCT_ROWS        1
#define PRODUCT_WIDTH(rows) 1

#define EACH(i)       for (uint32_t i = 0; i < 16; i++)
#define EACH_BELOW(i) for (uint32_t i = 0; i < n; i++)

static inline lanes lanes_set(float x)
{
    lanes v;
    EACH(i)
    v.lane[i] = x;
    return v;
}

static inline lanes lanes_zero(void)
{
    return lanes_set(0.0f);
}

static inline lanes lanes_load_first(const float *p, uint32_t n) /* the others are 0 */
{
    lanes v = lanes_zero();
    EACH_BELOW(i)
    v.lane[i] = p[i];
    return v;
}

static inline lanes lanes_load(const float *p)
{
    return lanes_load_first(p, 16);
}

static inline void lanes_store_first(float *p, lanes v, uint32_t n)
{
    EACH_BELOW(i)
    p[i] = v.lane[i];
}

static inline void lanes_store(float *p, lanes v)
{
    lanes_store_first(p, v, 16);
}

static inline lanes lanes_load_f16_first(const uint16_t *p, uint32_t n)
{
    lanes v = lanes_zero();
    EACH_BELOW(i)
    v.lane[i] = f16_to_f32(p[i]);
    return v;
}

static inline lanes lanes_load_f16(const uint16_t *p)
{
    return lanes_load_f16_first(p, 16);
}

static inline lanes lanes_load_bf16_first(const uint16_t *p, uint32_t n)
{
    lanes v = lanes_zero();
    EACH_BELOW(i)
    v.lane[i] = bf16_to_f32(p[i]);
    return v;
}

static inline lanes lanes_load_bf16(const uint16_t *p)
{
    return lanes_load_bf16_first(p, 16);
}

static inline void lanes_store_f16_first(uint16_t *p, lanes v, uint32_t n)
{
    EACH_BELOW(i)
    p[i] = f32_to_f16(v.lane[i]);
}

static inline lanes lanes_add(lanes a, lanes b)
{
    EACH(i)
    a.lane[i] += b.lane[i];
    return a;
}

static inline lanes lanes_subtract(lanes a, lanes b)
{
    EACH(i)
    a.lane[i] -= b.lane[i];
    return a;
}

static inline lanes lanes_multiply(lanes a, lanes b)
{
    EACH(i)
    a.lane[i] *= b.lane[i];
    return a;
}

static inline lanes lanes_divide(lanes a, lanes b)
{
    EACH(i)
    a.lane[i] /= b.lane[i];
    return a;
}

static inline lanes lanes_negative(lanes v)
{
    EACH(i)
    v.lane[i] = -v.lane[i];
    return v;
}

static inline lanes lanes_max(lanes a, lanes b) /* b where one is NaN */
{
    EACH(i)
    a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}

static inline lanes lanes_fma_first(lanes a, lanes b, lanes c, uint32_t n) /* c in the others */
{
    EACH_BELOW(i)
    c.lane[i] = fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return c;
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return lanes_fma_first(a, b, c, 16);
}

/* v in the lanes [from, to), elsewhere other; from and to at most 16. */
static inline lanes lanes_select(lanes v, lanes other, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        other.lane[i] = v.lane[i];
    return other;
}

/* The sum of all lanes, in the order of every sum here. */
static inline float lanes_fold(lanes v)
{
    for (uint32_t half = 8; half; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            v.lane[i] += v.lane[i + half];
    return v.lane[0];
}

/* Lane i becomes the fold of v[i]. */
static inline lanes lanes_fold_sixteen(const lanes v[16])
{
    lanes sum;
    EACH(i)
    sum.lane[i] = lanes_fold(v[i]);
    return sum;
}

/* Lane i becomes the largest lane of v[i]. */
static inline lanes lanes_largest_sixteen(const lanes v[16])
{
    lanes largest;
    EACH(i)
    {
        largest.lane[i] = v[i].lane[0];
        EACH(j)
        if (v[i].lane[j] > largest.lane[i])
            largest.lane[i] = v[i].lane[j];
    }
    return largest;
}

/* Bit i: lane i is NaN or infinite. */
static inline uint32_t lanes_not_finite(lanes v)
{
    uint32_t bits = 0;
    EACH(i)
    bits |= (uint32_t)!isfinite(v.lane[i]) << i;
    return bits;
}

/* Lanes 0 0 2 2 4 4 ... */
static inline lanes lanes_evens_twice(lanes v)
{
    for (uint32_t i = 0; i < 16; i += 2)
        v.lane[i + 1] = v.lane[i];
    return v;
}

/* Lanes 1 1 3 3 5 5 ... */
static inline lanes lanes_odds_twice(lanes v)
{
    for (uint32_t i = 0; i < 16; i += 2)
        v.lane[i] = v.lane[i + 1];
    return v;
}

/* a0 b0 a1 b1 ... a7 b7 */
static inline lanes lanes_zip(lanes a, lanes b)
{
    lanes v;
    for (uint32_t i = 0; i < 8; i++) {
        v.lane[2 * i] = a.lane[i];
        v.lane[2 * i + 1] = b.lane[i];
    }
    return v;
}

static inline lanes lanes_exp(lanes v)
{
    EACH(i)
    v.lane[i] = exact_exp(v.lane[i]);
    return v;
}

static inline lanes lanes_tanh(lanes v)
{
    EACH(i)
    v.lane[i] = exact_tanh(v.lane[i]);
    return v;
}

#undef EACH
#undef EACH_BELOW

#endif
