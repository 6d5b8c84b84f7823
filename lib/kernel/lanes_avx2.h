/* Sixteen lanes as two AVX registers.  lanes_generic.h says what the operations mean. */
#ifndef UNROLL_LANES_AVX2_H
#define UNROLL_LANES_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    __m256 low, high;
} lanes;

/* Register blocks that suit 16 registers. */
#define DOT_ONE_ROW         4
#define DOT_OUTPUTS         2
#define DOT_ROWS            3
#define PRODUCT_ROWS        6
#define PRODUCT_WIDTH(rows) ((rows) > 2 ? 1 : (rows) > 1 ? 2 : 4)

/* All bits set in the lanes below n (n may be negative or above 8). */
static inline __m256i first_mask(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline lanes lanes_zero(void)
{
    return (lanes){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

static inline lanes lanes_set(float x)
{
    return (lanes){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

static inline lanes lanes_load(const float *p)
{
    return (lanes){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline lanes lanes_load_first(const float *p, uint32_t n)
{
    return (lanes){_mm256_maskload_ps(p, first_mask((int)n)),
                   _mm256_maskload_ps(p + 8, first_mask((int)n - 8))};
}

static inline void lanes_store(float *p, lanes v)
{
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
}

static inline void lanes_store_first(float *p, lanes v, uint32_t n)
{
    _mm256_maskstore_ps(p, first_mask((int)n), v.low);
    _mm256_maskstore_ps(p + 8, first_mask((int)n - 8), v.high);
}

static inline lanes lanes_load_f16(const uint16_t *p)
{
    return (lanes){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                   _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}

static inline lanes lanes_load_f16_first(const uint16_t *p, uint32_t n)
{
    uint16_t copy[16] = {0};
    memcpy(copy, p, n * sizeof *p);
    return lanes_load_f16(copy);
}

static inline __m256 widen_bf16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline lanes lanes_load_bf16(const uint16_t *p)
{
    return (lanes){widen_bf16(p), widen_bf16(p + 8)};
}

static inline lanes lanes_load_bf16_first(const uint16_t *p, uint32_t n)
{
    uint16_t copy[16] = {0};
    memcpy(copy, p, n * sizeof *p);
    return lanes_load_bf16(copy);
}

static inline void lanes_store_f16_first(uint16_t *p, lanes v, uint32_t n)
{
    __m128i low = _mm256_cvtps_ph(v.low, _MM_FROUND_TO_NEAREST_INT);
    __m128i high = _mm256_cvtps_ph(v.high, _MM_FROUND_TO_NEAREST_INT);
    if (n == 16) {
        _mm_storeu_si128((__m128i *)p, low);
        _mm_storeu_si128((__m128i *)(p + 8), high);
        return;
    }
    uint16_t copy[16];
    _mm_storeu_si128((__m128i *)copy, low);
    _mm_storeu_si128((__m128i *)(copy + 8), high);
    memcpy(p, copy, n * sizeof *p);
}

static inline lanes lanes_add(lanes a, lanes b)
{
    return (lanes){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

static inline lanes lanes_subtract(lanes a, lanes b)
{
    return (lanes){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}

static inline lanes lanes_multiply(lanes a, lanes b)
{
    return (lanes){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

static inline lanes lanes_divide(lanes a, lanes b)
{
    return (lanes){_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}

static inline lanes lanes_max(lanes a, lanes b)
{
    return (lanes){_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return (lanes){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

static inline lanes blend(lanes off, lanes on, __m256i low, __m256i high)
{
    return (lanes){_mm256_blendv_ps(off.low, on.low, _mm256_castsi256_ps(low)),
                   _mm256_blendv_ps(off.high, on.high, _mm256_castsi256_ps(high))};
}

static inline lanes lanes_fma_first(lanes a, lanes b, lanes c, uint32_t n)
{
    return blend(c, lanes_fma(a, b, c), first_mask((int)n), first_mask((int)n - 8));
}

static inline lanes lanes_select(lanes v, lanes other, uint32_t from, uint32_t to)
{
    return blend(other, v, _mm256_andnot_si256(first_mask((int)from), first_mask((int)to)),
                 _mm256_andnot_si256(first_mask((int)from - 8), first_mask((int)to - 8)));
}

static inline float lanes_fold(lanes v)
{
    __m256 a = _mm256_add_ps(v.low, v.high);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* Each step combines the upper half of what is left of a vector with its lower half, for two
 * vectors at once. */
#define FOLD_8(f, v)    f(v.low, v.high)
#define FOLD_4(f, a, b) f(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31))
#define FOLD_2(f, a, b) f(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee))
#define FOLD_1(f, a, b) f(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd))
#define FOLD_SIXTEEN(f, v)                                                                         \
    __m256 half[2];                                                                                \
    for (int i = 0; i < 2; i++) {                                                                  \
        __m256 part[4];                                                                            \
        for (int j = 0; j < 4; j++) {                                                              \
            __m256 a = FOLD_8(f, v[8 * i + j]), b = FOLD_8(f, v[8 * i + j + 4]);                   \
            part[j] = FOLD_4(f, a, b);                                                             \
        }                                                                                          \
        __m256 a = FOLD_2(f, part[0], part[1]), b = FOLD_2(f, part[2], part[3]);                   \
        half[i] = FOLD_1(f, a, b);                                                                 \
    }                                                                                              \
    return (lanes)                                                                                 \
    {                                                                                              \
        half[0], half[1]                                                                           \
    }

static inline lanes lanes_fold_sixteen(const lanes v[16])
{
    FOLD_SIXTEEN(_mm256_add_ps, v);
}

static inline lanes lanes_largest_sixteen(const lanes v[16])
{
    FOLD_SIXTEEN(_mm256_max_ps, v);
}

static inline uint32_t not_finite(__m256 v)
{
    __m256i exponent = _mm256_set1_epi32(0x7f800000);
    __m256i all = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(v), exponent), exponent);
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(all));
}

static inline uint32_t lanes_not_finite(lanes v)
{
    return not_finite(v.low) | not_finite(v.high) << 8;
}

static inline lanes lanes_evens_twice(lanes v)
{
    return (lanes){_mm256_moveldup_ps(v.low), _mm256_moveldup_ps(v.high)};
}

static inline lanes lanes_odds_twice(lanes v)
{
    return (lanes){_mm256_movehdup_ps(v.low), _mm256_movehdup_ps(v.high)};
}

static inline lanes lanes_zip(lanes a, lanes b)
{
    __m256 x = _mm256_unpacklo_ps(a.low, b.low), y = _mm256_unpackhi_ps(a.low, b.low);
    return (lanes){_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31)};
}

static inline lanes lanes_negative(lanes v)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (lanes){_mm256_xor_ps(v.low, sign), _mm256_xor_ps(v.high, sign)};
}

static inline __m256 absolute(__m256 v)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

static inline lanes lanes_absolute(lanes v)
{
    return (lanes){absolute(v.low), absolute(v.high)};
}

static inline __m256 sign_of(__m256 v, __m256 x)
{
    __m256 negative = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
    return _mm256_xor_ps(v, _mm256_and_ps(negative, _mm256_set1_ps(-0.0f)));
}

static inline lanes lanes_sign_of(lanes v, lanes x)
{
    return (lanes){sign_of(v.low, x.low), sign_of(v.high, x.high)};
}

static inline lanes lanes_where_less(lanes x, lanes limit, lanes v, lanes other)
{
    __m256 low = _mm256_cmp_ps(x.low, limit.low, _CMP_LT_OQ);
    __m256 high = _mm256_cmp_ps(x.high, limit.high, _CMP_LT_OQ);
    return blend(other, v, _mm256_castps_si256(low), _mm256_castps_si256(high));
}

static inline lanes lanes_round(lanes v)
{
    return (lanes){_mm256_round_ps(v.low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                   _mm256_round_ps(v.high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

static inline __m256 power_of_two(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

static inline __m256 scale(__m256 v, __m256 n)
{
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    v = _mm256_mul_ps(v, power_of_two(half));
    return _mm256_mul_ps(v, power_of_two(_mm256_sub_epi32(whole, half)));
}

static inline lanes lanes_scale(lanes v, lanes n)
{
    return (lanes){scale(v.low, n.low), scale(v.high, n.high)};
}

/* The smaller; b where one is NaN. */
static inline lanes lanes_min(lanes a, lanes b)
{
    return (lanes){_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}

/* v, but 0 where x < limit */
static inline lanes lanes_unless_less(lanes x, lanes limit, lanes v)
{
    return (lanes){_mm256_and_ps(v.low, _mm256_cmp_ps(x.low, limit.low, _CMP_NLT_UQ)),
                   _mm256_and_ps(v.high, _mm256_cmp_ps(x.high, limit.high, _CMP_NLT_UQ))};
}

#include "kernel/lanes_math.h"

#endif
