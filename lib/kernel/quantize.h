/* quantize: from f32 to the storage types, for writing models.  Nothing of the forward pass depends on it. */
#ifndef UNROLL_QUANTIZE_H
#define UNROLL_QUANTIZE_H

#include "base/base.h"

/* Whether quantize_row can write this type. */
bool quantize_supports(uint32_t tensor_type);
/* One row of n values (whole blocks of the type) to out, n / block_items * block_bytes bytes.  Values must be finite.
 * Dies on a type that is not supported. */
void quantize_row(uint32_t tensor_type, const float *x, uint32_t n, uint8_t *out);

#endif
