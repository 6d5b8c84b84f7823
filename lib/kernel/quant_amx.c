/* Products with quantised weights in AMX int8 tiles; few rows of x go the way of AVX-512. */
#include "kernel/quant.h"

#if defined(__x86_64__)

static void quantise(const struct activations *x, struct quantised *out, size_t begin, size_t end)
{
    quant_avx512.quantise(x, out, begin, end);
}

static void multiply(const struct matrix *w, const struct activations *x, float *y, size_t stride,
                     uint32_t begin, uint32_t end)
{
    quant_avx512.multiply[w->type](w, x, y, stride, begin, end);
}

const struct quant_ops quant_amx = {
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

#endif
