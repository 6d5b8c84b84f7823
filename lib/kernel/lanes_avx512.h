/* Sixteen lanes as one AVX-512 register.  lanes_generic.h says what the operations mean. */
#ifndef UNROLL_LANES_AVX512_H
#define UNROLL_LANES_AVX512_H

#include <immintrin.h>
#include <stdint.h>

typedef __m512 lanes;

/* Register blocks that suit 32 registers. */
#define DOT_ONE_ROW         16
#define DOT_OUTPUTS         4
#define DOT_ROWS            6
#define PRODUCT_ROWS        12
#define PRODUCT_WIDTH(rows) ((rows) > 6 ? 2 : 4)

static inline __mmask16 first_mask(uint32_t n)
{
    return (__mmask16)((1u << n) - 1);
}

static inline lanes lanes_zero(void)
{
    return _mm512_setzero_ps();
}

static inline lanes lanes_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline lanes lanes_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline lanes lanes_load_first(const float *p, uint32_t n)
{
    return _mm512_maskz_loadu_ps(first_mask(n), p);
}

static inline void lanes_store(float *p, lanes v)
{
    _mm512_storeu_ps(p, v);
}

static inline void lanes_store_first(float *p, lanes v, uint32_t n)
{
    _mm512_mask_storeu_ps(p, first_mask(n), v);
}

static inline lanes lanes_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline lanes lanes_load_f16_first(const uint16_t *p, uint32_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_mask(n), p));
}

static inline lanes widen_bf16(__m256i half)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

static inline lanes lanes_load_bf16(const uint16_t *p)
{
    return widen_bf16(_mm256_loadu_si256((const __m256i *)p));
}

static inline lanes lanes_load_bf16_first(const uint16_t *p, uint32_t n)
{
    return widen_bf16(_mm256_maskz_loadu_epi16(first_mask(n), p));
}

static inline void lanes_store_f16_first(uint16_t *p, lanes v, uint32_t n)
{
    __m256i half = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(p, first_mask(n), half);
}

static inline lanes lanes_add(lanes a, lanes b)
{
    return _mm512_add_ps(a, b);
}

static inline lanes lanes_subtract(lanes a, lanes b)
{
    return _mm512_sub_ps(a, b);
}

static inline lanes lanes_multiply(lanes a, lanes b)
{
    return _mm512_mul_ps(a, b);
}

static inline lanes lanes_divide(lanes a, lanes b)
{
    return _mm512_div_ps(a, b);
}

static inline lanes lanes_max(lanes a, lanes b)
{
    return _mm512_max_ps(a, b);
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline lanes lanes_fma_first(lanes a, lanes b, lanes c, uint32_t n)
{
    return _mm512_mask3_fmadd_ps(a, b, c, first_mask(n));
}

static inline lanes lanes_select(lanes v, lanes other, uint32_t from, uint32_t to)
{
    return _mm512_mask_blend_ps(first_mask(to) & (__mmask16)~first_mask(from), other, v);
}

static inline float lanes_fold(lanes v)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* Each step combines the upper half of what is left of a vector with its lower half, for two
 * vectors at once.  After the first two, of four vectors, part i of 128 bits belongs to vector i;
 * the last two put element j of part i in the place of the vector it is made of, 4 i + j. */
#define FOLD_8(f, a, b) f(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee))
#define FOLD_4(f, a, b) f(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd))
#define FOLD_2(f, a, b) f(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee))
#define FOLD_1(f, a, b) f(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd))
#define FOLD_SIXTEEN(f, v)                                                                         \
    __m512 part[4];                                                                                \
    for (int i = 0; i < 4; i++) {                                                                  \
        __m512 a = FOLD_8(f, v[i], v[i + 4]), b = FOLD_8(f, v[i + 8], v[i + 12]);                  \
        part[i] = FOLD_4(f, a, b);                                                                 \
    }                                                                                              \
    __m512 a = FOLD_2(f, part[0], part[1]), b = FOLD_2(f, part[2], part[3]);                       \
    return FOLD_1(f, a, b)

static inline lanes lanes_fold_sixteen(const lanes v[16])
{
    FOLD_SIXTEEN(_mm512_add_ps, v);
}

static inline lanes lanes_largest_sixteen(const lanes v[16])
{
    FOLD_SIXTEEN(_mm512_max_ps, v);
}

static inline uint32_t lanes_not_finite(lanes v)
{
    return _mm512_fpclass_ps_mask(v, 0x99); /* NaNs and infinities */
}

static inline lanes lanes_evens_twice(lanes v)
{
    return _mm512_moveldup_ps(v);
}

static inline lanes lanes_odds_twice(lanes v)
{
    return _mm512_movehdup_ps(v);
}

static inline lanes lanes_zip(lanes a, lanes b)
{
    __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(a, order, b);
}

static inline lanes lanes_negative(lanes v)
{
    return _mm512_xor_ps(v, _mm512_set1_ps(-0.0f));
}

static inline lanes lanes_absolute(lanes v)
{
    return _mm512_abs_ps(v);
}

/* v with its sign changed where x < 0 */
static inline lanes lanes_sign_of(lanes v, lanes x)
{
    __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_mask_sub_ps(v, negative, _mm512_set1_ps(-0.0f), v);
}

/* v where x < limit, else other */
static inline lanes lanes_where_less(lanes x, lanes limit, lanes v, lanes other)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ), other, v);
}

static inline lanes lanes_round(lanes v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* v 2^n, rounded once; n whole, in [-151, 129] */
static inline lanes lanes_scale(lanes v, lanes n)
{
    return _mm512_scalef_ps(v, n);
}

/* The smaller; b where one is NaN. */
static inline lanes lanes_min(lanes a, lanes b)
{
    return _mm512_min_ps(a, b);
}

/* v, but 0 where x < limit */
static inline lanes lanes_unless_less(lanes x, lanes limit, lanes v)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), v);
}

#include "kernel/lanes_math.h"

#endif
