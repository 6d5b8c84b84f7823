/* Products with quantised weights in AVX2. */
#include "kernel/quant.h"

#if defined(__x86_64__)

#include "kernel/bytes_avx2.h"

#include "kernel/quant_panel.inc"

const struct quant_ops quant_avx2 = {.quantise = quantise, .multiply = MULTIPLY_TABLE};

#endif
