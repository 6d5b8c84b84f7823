/* Quantised weights: what the quant_*.c files and matrix.c share; private to lib/kernel.
 *
 * Block formats.  Layouts are those of ggml (ggml-common.h of https://github.com/ggml-org/ggml): a
 * row is a sequence of blocks of 32 or 256 weights.  Every type is one case of
 *
 *     weight[i] = d * scale[i / run] * q[i] + m * min[i / run]
 *
 * with f16 d and m (m is -dmin for the K types), small integers q, scale and min, and runs of 16 or
 * 32 weights; types without sub-scales have scale 1, types without minimum have no second term.
 *
 * Quantised activations.  Per block of x (32 or 256 values, as the weight's): d = amax/127, q =
 * rint(x * (1/d)), to nearest even.  Where 1/d is not finite: d = 0, q = 0.  Where x is not: d is
 * NaN, q = 0, so that the product is NaN.
 *
 * Canonical product.  For each block in ascending order, in integers:
 *     S = sum of scale[j] * (sum over run j of q_w * q_x)        M = sum of min[j] * (sum of q_x)
 * and then, beginning with y = +0:
 *     y = fma(d * d_x, (float)S, y)
 *     y = fma(m * d_x, (float)M, y)        for types with a minimum
 *
 * All integers fit 32 bits: |S| is largest for Q6_K, 256 * 32 * 128 * 127 = 1.4e8.
 */
#ifndef UNROLL_KERNEL_QUANT_H
#define UNROLL_KERNEL_QUANT_H

#include "kernel/table.h"

#define PANEL 16 /* rows that are interleaved */

#define INLINE static inline __attribute__((always_inline))

/* Before a loop with a small constant count whose arrays are to live in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* How the bytes of a block divide into units: `lead` of 2 bytes, `words` of 4, `tail` of 2. */
struct block_units {
    uint8_t lead, words, tail;
};
/* All zero for a type that is not a quantised one. */
static inline struct block_units units_of(uint32_t type)
{
    static const struct block_units units[] = {
        [TENSOR_Q4_0] = {1, 4, 0},   /* d, q */
        [TENSOR_Q4_1] = {2, 4, 0},   /* d, m, q */
        [TENSOR_Q5_0] = {1, 5, 0},   /* d, fifth bits, q */
        [TENSOR_Q5_1] = {2, 5, 0},   /* d, m, fifth bits, q */
        [TENSOR_Q8_0] = {1, 8, 0},   /* d, q */
        [TENSOR_Q2_K] = {0, 20, 2},  /* scales and mins, q, d, dmin */
        [TENSOR_Q3_K] = {0, 27, 1},  /* third bits, q, scales, d */
        [TENSOR_Q4_K] = {2, 35, 0},  /* d, dmin, scales and mins, q */
        [TENSOR_Q5_K] = {2, 43, 0},  /* d, dmin, scales and mins, fifth bits, q */
        [TENSOR_Q6_K] = {0, 52, 1},  /* low bits, high bits, scales, d */
        [TENSOR_IQ4_NL] = {1, 4, 0}, /* d, q */
        [TENSOR_IQ4_XS] = {2, 33, 0} /* d, high bits of scales, low bits of scales, q */
    };
    return type < sizeof units / sizeof *units ? units[type] : (struct block_units){0};
}
static inline size_t block_bytes(struct block_units units)
{
    return 2u * units.lead + 4u * units.words + 2u * units.tail;
}

/* A block taken apart: see above. */
struct block {
    unsigned items, run;
    bool has_min;
    float d, m;
    int8_t q[256];
    int8_t scale[16], min[16];
};
void block_unpack(enum tensor_type type, const uint8_t *bytes, struct block *block);

/* Block `index` of row `row`, either layout, as it lies in a plain row; `bytes` (block_bytes) is
 * used when it must be put together. */
const uint8_t *matrix_block(const struct matrix *matrix, uint32_t row, size_t index,
                            uint8_t *bytes);

/* Interleaves `n_blocks` blocks from `first_block` on of the up to sixteen rows of a plain matrix
 * from `row` on; rows that are not there become zeros. */
void matrix_gather(const struct matrix *matrix, uint32_t row, size_t first_block, size_t n_blocks,
                   uint8_t *out);

/* The sixteen values of a 4-bit code of IQ4_NL and IQ4_XS. */
extern const int8_t iq4_values[16];

/* Form of the activations for a quantised type. */
static inline const struct quantised *activations_form(const struct activations *x,
                                                       enum tensor_type type)
{
    return tensor_type_facts(type)->block_items == 32 ? &x->by_32 : &x->by_256;
}

/* Stores the sums of a block of q, given those of each 16.  Sums of 256 lie in the order 0 2 1 3 of
 * each four: so the kernels find them paired, as they take scales out of the bytes of a word. */
static inline void quantised_store_sums(struct quantised *form, size_t index, const int32_t *sums)
{
    if (form->block == 32) {
        form->sum[index] = (float)(sums[0] + sums[1]);
        form->minus[index] = -128 * (sums[0] + sums[1]);
        return;
    }
    for (unsigned j = 0; j < 16; j++) {
        unsigned place = (j & ~3u) | (j & 1) << 1 | (j >> 1 & 1);
        form->sums_16[16 * index + place] = (int16_t)sums[j];
    }
    for (unsigned j = 0; j < 8; j++) {
        unsigned place = (j & ~3u) | (j & 1) << 1 | (j >> 1 & 1);
        form->sums_32[8 * index + place] = (int16_t)(sums[2 * j] + sums[2 * j + 1]);
    }
}

#endif
