/* Products with quantised weights in plain C.  This file is the definition of the canonical
 * arithmetic (stated in quant.h); the other quant_*.c files equal it bit for bit. */
#include "kernel/quant.h"

#include <math.h>
#include <string.h>

static void quantise_block(const float *x, unsigned items, int8_t *q, float *d)
{
    float largest = 0;
    bool finite = true;
    for (unsigned i = 0; i < items; i++) {
        finite = finite && isfinite(x[i]);
        largest = fmaxf(largest, fabsf(x[i]));
    }
    float inverse = 1 / (largest / 127);
    memset(q, 0, items);
    if (!finite) {
        *d = NAN;
    } else if (!isfinite(inverse)) {
        *d = 0;
    } else {
        *d = largest / 127;
        for (unsigned i = 0; i < items; i++)
            q[i] = (int8_t)rintf(x[i] * inverse);
    }
}

static int sum_of(const int8_t *q, unsigned items)
{
    int sum = 0;
    for (unsigned i = 0; i < items; i++)
        sum += q[i];
    return sum;
}

static void quantise(const struct activations *x, struct quantised *out, size_t begin, size_t end)
{
    for (size_t b = begin * out->n_blocks; b < end * out->n_blocks; b++) {
        int8_t *q = out->q + b / out->n_blocks * out->stride + b % out->n_blocks * out->block;
        quantise_block(x->x + b * out->block, out->block, q, &out->d[b]);
        int32_t sums[16];
        for (unsigned j = 0; j < out->block / 16; j++)
            sums[j] = sum_of(q + 16 * j, 16);
        quantised_store_sums(out, b, sums);
    }
}

/* Beginning at y = 0, adds the terms of block after block.  The result is the accumulator itself,
 * so that a block of weights is taken apart once for all rows of x. */
static void multiply(const struct matrix *w, const struct activations *x, float *y, size_t stride,
                     uint32_t begin, uint32_t end)
{
    const struct quantised *form = activations_form(x, w->type);
    for (uint32_t o = begin; o < end; o++) {
        for (size_t r = 0; r < x->rows; r++)
            y[r * stride + o] = 0;
        for (size_t i = 0; i < form->n_blocks; i++) {
            struct block b;
            uint8_t together[256];
            block_unpack(w->type, matrix_block(w, o, i, together), &b);
            for (size_t r = 0; r < x->rows; r++) {
                const int8_t *q = form->q + r * form->stride + i * form->block;
                float d = form->d[r * form->n_blocks + i], *sum = &y[r * stride + o];
                int32_t s = 0, m = 0;
                for (unsigned j = 0; j < b.items / b.run; j++) {
                    int32_t products = 0;
                    for (unsigned k = j * b.run; k < (j + 1) * b.run; k++)
                        products += b.q[k] * q[k];
                    s += b.scale[j] * products;
                    if (b.has_min)
                        m += b.min[j] * sum_of(q + j * b.run, b.run);
                }
                *sum = fmaf(b.d * d, (float)s, *sum);
                if (b.has_min)
                    *sum = fmaf(b.m * d, (float)m, *sum);
            }
        }
    }
}

const struct quant_ops quant_generic = {
    .quantise = quantise,
    .multiply = {[TENSOR_Q4_0] = multiply,
                 [TENSOR_Q4_1] = multiply,
                 [TENSOR_Q5_0] = multiply,
                 [TENSOR_Q5_1] = multiply,
                 [TENSOR_Q8_0] = multiply,
                 [TENSOR_Q2_K] = multiply,
                 [TENSOR_Q3_K] = multiply,
                 [TENSOR_Q4_K] = multiply,
                 [TENSOR_Q5_K] = multiply,
                 [TENSOR_Q6_K] = multiply,
                 [TENSOR_IQ4_NL] = multiply,
                 [TENSOR_IQ4_XS] = multiply},
};
