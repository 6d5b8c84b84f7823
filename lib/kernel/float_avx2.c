/* Operations on floats with AVX2, FMA and F16C. */
#if defined(__x86_64__)
#include "kernel/lanes_avx2.h"

#define FLOAT_OPS float_avx2
#include "kernel/float_ops.inc"
#endif
