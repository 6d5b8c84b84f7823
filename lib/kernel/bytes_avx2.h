/* Vectors of words, bytes and floats for eight outputs in AVX2, for quant_types.inc and
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

#define LANES 8
#define ROWS  4

typedef uint32_t vu __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));
typedef int16_t vs __attribute__((vector_size(32)));
typedef int8_t vb __attribute__((vector_size(32)));
typedef float vf __attribute__((vector_size(32)));

INLINE vu load_words(const void *p)
{
    return (vu)_mm256_loadu_si256(p);
}

INLINE vf load_halves(const uint8_t *p)
{
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

INLINE vu widen_halves(const uint8_t *p)
{
    return (vu)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
}

INLINE __m256i first(unsigned n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE vf load_floats(const float *p, unsigned n)
{
    return (vf)_mm256_maskload_ps(p, first(n));
}

INLINE void store_floats(float *p, vf x, unsigned n)
{
    _mm256_maskstore_ps(p, first(n), (__m256)x);
}

INLINE vu all_words(const void *p)
{
    int32_t word;
    __builtin_memcpy(&word, p, sizeof word);
    return (vu)_mm256_set1_epi32(word);
}

INLINE vf all_floats(const float *p)
{
    return (vf)_mm256_set1_ps(*p);
}

INLINE vf multiply_add(vf a, vf b, vf c)
{
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

INLINE vi larger(vi a, vi b)
{
    return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

INLINE vu lookup(const int8_t *table, vu codes)
{
    __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
    return (vu)_mm256_shuffle_epi8(t, (__m256i)codes);
}

/* Sums of products of bytes: VPMADDUBSW adds two products of an unsigned and a signed byte in 16
 * bits, with saturation.  It cannot happen: unsigned weights are below 64, and of signed ones, at
 * most 128 in magnitude, the sign is moved to x, at most 127: 2 * 128 * 127 = 32512.  Groups are
 * added in 16 bits as far as groups_in_16_bits() says; VPMADDWD then adds pairs, times the scale.
 */
#define WIDE_OFFSET -1

struct sum {
    vs part;
    vi total;
};

INLINE void sum_begin(struct sum *s, vi start)
{
    s->part = (vs){0};
    s->total = start;
}

INLINE void sum_narrow(struct sum *s, vu w, vu x)
{
    s->part += (vs)_mm256_maddubs_epi16((__m256i)w, (__m256i)x);
}

INLINE void sum_wide(struct sum *s, vu w, vu x)
{
    s->part += (vs)_mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)w),
                                        _mm256_sign_epi8((__m256i)x, (__m256i)w));
}

INLINE vi add_pairs(vi sum, vs a, vu b)
{
    return sum + (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}

INLINE void sum_fold(struct sum *s)
{
    s->total = add_pairs(s->total, s->part, (vu)_mm256_set1_epi16(1));
    s->part = (vs){0};
}

INLINE vi sum_end(const struct sum *s)
{
    return s->total;
}

INLINE void sum_fold_scaled(struct sum *s, vi scale, bool end)
{
    (void)end;
    s->total = add_pairs(s->total, s->part, (vu)scale);
    s->part = (vs){0};
}

INLINE vi sum_end_scaled(const struct sum *s)
{
    return s->total;
}

/* A scale, for both products of VPMADDWD. */
INLINE vi low_scale(vs pair)
{
    return (vi)(((vu)pair & 0xffff) | (vu)pair << 16);
}

INLINE vi high_scale(vs pair)
{
    return (vi)(((vu)pair & 0xffff0000u) | (vu)pair >> 16);
}

/* Four words of each of sixteen rows become four pairs of vectors, one for each word. */
INLINE void gather_words(const uint8_t *rows, size_t row_bytes, uint8_t *out)
{
#define HALF(r) _mm_loadu_si128((const __m128i *)(rows + (r)*row_bytes))
    for (unsigned half = 0; half < 2; half++, rows += 8 * row_bytes, out += 32) {
        __m256i a[4];
        UNROLL
        for (unsigned i = 0; i < 4; i++) /* rows i and 4+i side by side */
            a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(HALF(i)), HALF(4 + i), 1);
        __m256i b0 = _mm256_unpacklo_epi32(a[0], a[1]), b1 = _mm256_unpackhi_epi32(a[0], a[1]);
        __m256i b2 = _mm256_unpacklo_epi32(a[2], a[3]), b3 = _mm256_unpackhi_epi32(a[2], a[3]);
        _mm256_storeu_si256((__m256i *)out, _mm256_unpacklo_epi64(b0, b2));
        _mm256_storeu_si256((__m256i *)(out + 64), _mm256_unpackhi_epi64(b0, b2));
        _mm256_storeu_si256((__m256i *)(out + 128), _mm256_unpacklo_epi64(b1, b3));
        _mm256_storeu_si256((__m256i *)(out + 192), _mm256_unpackhi_epi64(b1, b3));
    }
}

INLINE int32_t largest(vi x)
{
    __m128i half =
        _mm_max_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
}

INLINE __m256i quantise_8(const float *x, float inverse)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), _mm256_set1_ps(inverse)));
}

/* q = x * inverse, rounded, of 32; and the sums of each 16. */
INLINE void quantise_32(const float *x, float inverse, int8_t *q, int32_t *sums)
{
    __m256i a = _mm256_packs_epi32(quantise_8(x, inverse), quantise_8(x + 8, inverse));
    __m256i b = _mm256_packs_epi32(quantise_8(x + 16, inverse), quantise_8(x + 24, inverse));
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b),
                                                _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)q, bytes);
    /* Sums of four, then of sixteen in each half. */
    const __m256i ones = _mm256_set1_epi8(1);
    __m256i sum = _mm256_madd_epi16(_mm256_maddubs_epi16(ones, bytes), _mm256_set1_epi16(1));
    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0x4e));
    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0xb1));
    sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(sum));
    sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(sum, 1));
}
