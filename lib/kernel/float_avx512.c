/* Operations on floats with AVX-512 (F, BW, VL, DQ). */
#if defined(__x86_64__)
#include "kernel/lanes_avx512.h"

#define FLOAT_OPS float_avx512
#include "kernel/float_ops.inc"
#endif
