/* Products with quantised weights in AVX-512 VNNI. */
#include "kernel/quant.h"

#if defined(__x86_64__)

#include "kernel/bytes_avx512.h"

#include "kernel/quant_panel.inc"

const struct quant_ops quant_avx512 = {.quantise = quantise, .multiply = MULTIPLY_TABLE};

#endif
