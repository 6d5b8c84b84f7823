/* quantize: from floats to blocks of the quantised types, for the program of that name. */
#ifndef UNROLL_KERNEL_QUANTIZE_H
#define UNROLL_KERNEL_QUANTIZE_H

#include "base/base.h"

/* Whether quantize_row can make this type: F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q6_K. */
bool quantize_supports(uint32_t type);
/* x (n), finite, n a multiple of the type's block, to `out`.  A pure function of its input: scales
 * are searched for the least sum of squared errors, so the result depends on nothing else. */
void quantize_row(enum tensor_type type, const float *x, size_t n, uint8_t *out);

#endif
