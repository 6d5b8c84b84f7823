/* Vectors of words, bytes and floats for sixteen outputs in AVX-512 VNNI, for quant_types.inc and
 * quant_panel.inc:
 *
 *   LANES        outputs in a vector
 *   ROWS         most rows of x at once
 *   vu, vi, vs, vb, vf: LANES words as unsigned, signed, pairs of int16, fours of int8, and floats
 *   sum_*        exact sums of products of bytes, with or without scales
 *   gather_words four words of each of sixteen rows, interleaved */
#include <float.h>
#include <immintrin.h>
#include <math.h>

#define LANES 16
#define ROWS  8

typedef uint32_t vu __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef int16_t vs __attribute__((vector_size(64)));
typedef int8_t vb __attribute__((vector_size(64)));
typedef float vf __attribute__((vector_size(64)));

INLINE vu load_words(const void *p)
{
    return (vu)_mm512_loadu_si512(p);
}

INLINE vf load_halves(const uint8_t *p)
{
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

INLINE vu widen_halves(const uint8_t *p)
{
    return (vu)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}

INLINE __mmask16 first(unsigned n)
{
    return (__mmask16)(n < 16 ? (1u << n) - 1 : 0xffff);
}

INLINE vf load_floats(const float *p, unsigned n)
{
    return (vf)_mm512_maskz_loadu_ps(first(n), p);
}

INLINE void store_floats(float *p, vf x, unsigned n)
{
    _mm512_mask_storeu_ps(p, first(n), (__m512)x);
}

INLINE vu all_words(const void *p)
{
    int32_t word;
    __builtin_memcpy(&word, p, sizeof word);
    return (vu)_mm512_set1_epi32(word);
}

INLINE vf all_floats(const float *p)
{
    return (vf)_mm512_set1_ps(*p);
}

INLINE vf multiply_add(vf a, vf b, vf c)
{
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

INLINE vi larger(vi a, vi b)
{
    return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

INLINE vu lookup(const int8_t *table, vu codes)
{
    __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table));
    return (vu)_mm512_shuffle_epi8(t, (__m512i)codes);
}

/* Sums of products of bytes: VPDPBUSD adds four products of an unsigned and a signed byte in 32
 * bits. Signed weights are made unsigned by adding 128. */
#define WIDE_OFFSET 7

struct sum {
    vi part, total;
};

INLINE void sum_begin(struct sum *s, vi start)
{
    s->part = start;
    s->total = (vi){0};
}

INLINE void sum_narrow(struct sum *s, vu w, vu x)
{
    s->part = (vi)_mm512_dpbusd_epi32((__m512i)s->part, (__m512i)w, (__m512i)x);
}

INLINE void sum_wide(struct sum *s, vu w, vu x)
{
    sum_narrow(s, w ^ 0x80808080u, x);
}

INLINE void sum_fold(struct sum *s)
{
    (void)s;
}

INLINE vi sum_end(const struct sum *s)
{
    return s->part;
}

INLINE void sum_fold_scaled(struct sum *s, vi scale, bool end)
{
    if (end) {
        s->total += s->part * scale;
        s->part = (vi){0};
    }
}

INLINE vi sum_end_scaled(const struct sum *s)
{
    return s->total;
}

INLINE vi low_scale(vs pair)
{
    return (vi)pair << 16 >> 16;
}

INLINE vi high_scale(vs pair)
{
    return (vi)pair >> 16;
}

INLINE vi add_pairs(vi sum, vs a, vu b)
{
    return (vi)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}

/* Four words of each of sixteen rows become four vectors, one for each word. */
INLINE void gather_words(const uint8_t *rows, size_t row_bytes, uint8_t *out)
{
#define QUARTER(r) _mm_loadu_si128((const __m128i *)(rows + (r)*row_bytes))
    __m512i a[4];
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
        /* Rows i, 4+i, 8+i, 12+i side by side. */
        a[i] = _mm512_castsi128_si512(QUARTER(i));
        a[i] = _mm512_mask_broadcast_i32x4(a[i], 0x00f0, QUARTER(4 + i));
        a[i] = _mm512_mask_broadcast_i32x4(a[i], 0x0f00, QUARTER(8 + i));
        a[i] = _mm512_mask_broadcast_i32x4(a[i], 0xf000, QUARTER(12 + i));
    }
    __m512i b0 = _mm512_unpacklo_epi32(a[0], a[1]), b1 = _mm512_unpackhi_epi32(a[0], a[1]);
    __m512i b2 = _mm512_unpacklo_epi32(a[2], a[3]), b3 = _mm512_unpackhi_epi32(a[2], a[3]);
    _mm512_storeu_si512(out, _mm512_unpacklo_epi64(b0, b2));
    _mm512_storeu_si512(out + 64, _mm512_unpackhi_epi64(b0, b2));
    _mm512_storeu_si512(out + 128, _mm512_unpacklo_epi64(b1, b3));
    _mm512_storeu_si512(out + 192, _mm512_unpackhi_epi64(b1, b3));
}

INLINE int32_t largest(vi x)
{
    return _mm512_reduce_max_epi32((__m512i)x);
}

/* q = x * inverse, rounded, of 32; and the sums of each 16. */
INLINE void quantise_32(const float *x, float inverse, int8_t *q, int32_t *sums)
{
    __m512 factor = _mm512_set1_ps(inverse);
    __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), factor));
    __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), factor));
    __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm512_cvtepi32_epi8(a)),
                                            _mm512_cvtepi32_epi8(b), 1);
    _mm256_storeu_si256((__m256i *)q, bytes);
    /* Sums of four, then of sixteen in each half. */
    const __m256i ones = _mm256_set1_epi8(1);
    __m256i sum = _mm256_madd_epi16(_mm256_maddubs_epi16(ones, bytes), _mm256_set1_epi16(1));
    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0x4e));
    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0xb1));
    sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(sum));
    sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(sum, 1));
}
