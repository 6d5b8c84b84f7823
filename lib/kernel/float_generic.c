/* The definition of the operations on floats; runs everywhere. */
#include "kernel/lanes_generic.h"

#define FLOAT_OPS float_generic
#include "kernel/float_ops.inc"
