#include "kernel/quantize.h"

#include <math.h>
#include <string.h>

/* Block layouts as in ggml-common.h of https://github.com/ggml-org/ggml. */

/* Q8_0: f16 d, int8 q[32]; d = amax / 127. */
static void block_q8_0(const float *x, uint8_t *out)
{
    float largest = 0;
    for (int i = 0; i < 32; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    float d = largest / 127, inverse = d > 0 ? 1 / d : 0;
    store_u16(out, f32_to_f16(d));
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)(int8_t)lroundf(x[i] * inverse);
}

/* Q4_0: f16 d, then nibbles of q + 8, elements 0-15 low, 16-31 high; the value of largest size is -8. */
static void block_q4_0(const float *x, uint8_t *out)
{
    float largest = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(largest))
            largest = x[i];
    float d = largest / -8, inverse = d != 0 ? 1 / d : 0;
    store_u16(out, f32_to_f16(d));
    for (int i = 0; i < 16; i++) {
        long low = lrintf(x[i] * inverse) + 8, high = lrintf(x[i + 16] * inverse) + 8;
        out[2 + i] = (uint8_t)((low > 15 ? 15 : low) | (high > 15 ? 15 : high) << 4);
    }
}

static void block_f32(const float *x, uint8_t *out)
{
    store_f32(out, *x);
}

static void block_f16(const float *x, uint8_t *out)
{
    store_u16(out, f32_to_f16(*x));
}

static void block_bf16(const float *x, uint8_t *out)
{
    store_u16(out, f32_to_bf16(*x));
}

typedef void quantize_block(const float *x, uint8_t *out);

static quantize_block *block_function(uint32_t type)
{
    switch (type) {
    case TENSOR_F32:
        return block_f32;
    case TENSOR_F16:
        return block_f16;
    case TENSOR_BF16:
        return block_bf16;
    case TENSOR_Q8_0:
        return block_q8_0;
    case TENSOR_Q4_0:
        return block_q4_0;
    default:
        return NULL;
    }
}

bool quantize_supports(uint32_t type)
{
    return block_function(type) != NULL;
}

void quantize_row(uint32_t type, const float *x, uint32_t n, uint8_t *out)
{
    quantize_block *block = block_function(type);
    if (!block)
        die(STATUS_USAGE, "cannot write tensors of type %u", type);
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    for (uint32_t i = 0; i < n; i += facts->block_items, out += facts->block_bytes)
        block(x + i, out);
}
