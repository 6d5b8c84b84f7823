#include "kernel/quant.h"

#include <string.h>

const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

bool kernel_supports(uint32_t tensor_type)
{
    return tensor_type == TENSOR_F32 || tensor_type == TENSOR_F16 || tensor_type == TENSOR_BF16 ||
           units_of(tensor_type).words;
}

size_t matrix_row_bytes(const struct matrix *matrix)
{
    const struct tensor_type_facts *facts = tensor_type_facts(matrix->type);
    return matrix->cols / facts->block_items * (size_t)facts->block_bytes;
}

/* ---- interleaved layout --------------------------------------------------------------------- */

bool matrix_can_interleave(enum tensor_type type)
{
    return units_of(type).words != 0;
}

size_t matrix_interleaved_bytes(const struct matrix *matrix)
{
    return ((size_t)matrix->rows + PANEL - 1) / PANEL * PANEL * matrix_row_bytes(matrix);
}

/* Moves a block between its plain place and row `row` of a panel's block. */
static void put_block(struct block_units units, const uint8_t *plain, uint8_t *panel, unsigned row)
{
    for (unsigned i = 0; i < units.lead; i++, plain += 2, panel += 2 * PANEL)
        memcpy(panel + 2 * row, plain, 2);
    for (unsigned i = 0; i < units.words; i++, plain += 4, panel += 4 * PANEL)
        memcpy(panel + 4 * row, plain, 4);
    for (unsigned i = 0; i < units.tail; i++, plain += 2, panel += 2 * PANEL)
        memcpy(panel + 2 * row, plain, 2);
}

static void take_block(struct block_units units, uint8_t *plain, const uint8_t *panel, unsigned row)
{
    for (unsigned i = 0; i < units.lead; i++, plain += 2, panel += 2 * PANEL)
        memcpy(plain, panel + 2 * row, 2);
    for (unsigned i = 0; i < units.words; i++, plain += 4, panel += 4 * PANEL)
        memcpy(plain, panel + 4 * row, 4);
    for (unsigned i = 0; i < units.tail; i++, plain += 2, panel += 2 * PANEL)
        memcpy(plain, panel + 2 * row, 2);
}

void matrix_gather(const struct matrix *matrix, uint32_t row, size_t first_block, size_t n_blocks,
                   uint8_t *out)
{
    struct block_units units = units_of(matrix->type);
    size_t bytes = block_bytes(units), row_bytes = matrix_row_bytes(matrix);
    unsigned n_rows = matrix->rows - row < PANEL ? matrix->rows - row : PANEL;
    const uint8_t *plain = matrix->data + row * row_bytes + first_block * bytes;
    if (n_rows < PANEL)
        memset(out, 0, n_blocks * PANEL * bytes);
    for (size_t b = 0; b < n_blocks; b++)
        for (unsigned r = 0; r < n_rows; r++)
            put_block(units, plain + r * row_bytes + b * bytes, out + b * PANEL * bytes, r);
}

void matrix_interleave(const struct matrix *in, uint8_t *out)
{
    size_t row_bytes = matrix_row_bytes(in), n_blocks = row_bytes / block_bytes(units_of(in->type));
    for (uint32_t row = 0; row < in->rows; row += PANEL, out += PANEL * row_bytes)
        matrix_gather(in, row, 0, n_blocks, out);
}

const uint8_t *matrix_block(const struct matrix *matrix, uint32_t row, size_t index, uint8_t *bytes)
{
    struct block_units units = units_of(matrix->type);
    size_t size = block_bytes(units), row_bytes = matrix_row_bytes(matrix);
    if (!matrix->interleaved)
        return matrix->data + row * row_bytes + index * size;
    const uint8_t *panel = matrix->data + row / PANEL * PANEL * row_bytes;
    take_block(units, bytes, panel + index * PANEL * size, row % PANEL);
    return bytes;
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* Nibbles of blocks of 32: the low ones first, then the high ones. */
static void unpack_nibbles(const uint8_t *bytes, int8_t *q)
{
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)(bytes[i] & 15);
        q[i + 16] = (int8_t)(bytes[i] >> 4);
    }
}

static void add_fifth_bits(const uint8_t *bytes, int8_t *q)
{
    uint32_t bits = load_u32(bytes);
    for (int i = 0; i < 32; i++)
        q[i] = (int8_t)(q[i] | (int)(bits >> i & 1) << 4);
}

static void subtract(int8_t *q, int items, int offset)
{
    for (int i = 0; i < items; i++)
        q[i] = (int8_t)(q[i] - offset);
}

/* The 12 bytes of Q4_K and Q5_K: eight 6-bit scales and eight 6-bit mins. */
static void unpack_scales(const uint8_t *bytes, int8_t *scale, int8_t *min)
{
    for (int j = 0; j < 4; j++) {
        scale[j] = (int8_t)(bytes[j] & 63);
        min[j] = (int8_t)(bytes[j + 4] & 63);
        scale[j + 4] = (int8_t)((bytes[j + 8] & 15) | bytes[j] >> 6 << 4);
        min[j + 4] = (int8_t)(bytes[j + 8] >> 4 | bytes[j + 4] >> 6 << 4);
    }
}

/* Q4_K, Q5_K: each 32 bytes hold two runs of 32, low nibbles first. */
static void unpack_long_nibbles(const uint8_t *bytes, int8_t *q)
{
    for (int i = 0; i < 256; i++)
        q[i] = (int8_t)(bytes[i / 64 * 32 + i % 32] >> (i & 32 ? 4 : 0) & 15);
}

/* Q2_K, Q3_K: each 32 bytes hold four runs of 32, two bits each. */
static void unpack_pairs(const uint8_t *bytes, int8_t *q)
{
    for (int i = 0; i < 256; i++)
        q[i] = (int8_t)(bytes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3);
}

void block_unpack(enum tensor_type type, const uint8_t *bytes, struct block *b)
{
    b->items = tensor_type_facts(type)->block_items;
    b->has_min = false;
    b->run = 32;
    b->scale[0] = b->min[0] = 1;
    b->m = 0;
    int8_t *q = b->q;
    switch (type) {
    case TENSOR_Q4_0:
        b->d = f16_to_f32(load_u16(bytes));
        unpack_nibbles(bytes + 2, q);
        subtract(q, 32, 8);
        break;
    case TENSOR_Q4_1:
    case TENSOR_Q5_1:
        b->d = f16_to_f32(load_u16(bytes));
        b->m = f16_to_f32(load_u16(bytes + 2));
        b->has_min = true;
        unpack_nibbles(bytes + (type == TENSOR_Q4_1 ? 4 : 8), q);
        if (type == TENSOR_Q5_1)
            add_fifth_bits(bytes + 4, q);
        break;
    case TENSOR_Q5_0:
        b->d = f16_to_f32(load_u16(bytes));
        unpack_nibbles(bytes + 6, q);
        add_fifth_bits(bytes + 2, q);
        subtract(q, 32, 16);
        break;
    case TENSOR_Q8_0:
        b->d = f16_to_f32(load_u16(bytes));
        memcpy(q, bytes + 2, 32);
        break;
    case TENSOR_IQ4_NL:
        b->d = f16_to_f32(load_u16(bytes));
        unpack_nibbles(bytes + 2, q);
        for (int i = 0; i < 32; i++)
            q[i] = iq4_values[q[i]];
        break;
    case TENSOR_IQ4_XS:
        b->d = f16_to_f32(load_u16(bytes));
        for (int j = 0; j < 8; j++) {
            int low = bytes[4 + j / 2] >> j % 2 * 4 & 15, high = load_u16(bytes + 2) >> 2 * j & 3;
            b->scale[j] = (int8_t)((low | high << 4) - 32);
            unpack_nibbles(bytes + 8 + 16 * j, q + 32 * j);
        }
        for (int i = 0; i < 256; i++)
            q[i] = iq4_values[q[i]];
        break;
    case TENSOR_Q2_K:
        b->d = f16_to_f32(load_u16(bytes + 80));
        b->m = -f16_to_f32(load_u16(bytes + 82));
        b->has_min = true;
        b->run = 16;
        for (int j = 0; j < 16; j++) {
            b->scale[j] = (int8_t)(bytes[j] & 15);
            b->min[j] = (int8_t)(bytes[j] >> 4);
        }
        unpack_pairs(bytes + 16, q);
        break;
    case TENSOR_Q3_K:
        b->d = f16_to_f32(load_u16(bytes + 108));
        b->run = 16;
        for (int j = 0; j < 16; j++) {
            int low = bytes[96 + j % 8] >> j / 8 * 4 & 15,
                high = bytes[104 + j % 4] >> j / 4 * 2 & 3;
            b->scale[j] = (int8_t)((low | high << 4) - 32);
        }
        unpack_pairs(bytes + 32, q);
        for (int i = 0; i < 256; i++)
            q[i] = (int8_t)(q[i] + 4 * (bytes[i % 32] >> i / 32 & 1) - 4);
        break;
    case TENSOR_Q4_K:
    case TENSOR_Q5_K:
        b->d = f16_to_f32(load_u16(bytes));
        b->m = -f16_to_f32(load_u16(bytes + 2));
        b->has_min = true;
        unpack_scales(bytes + 4, b->scale, b->min);
        unpack_long_nibbles(bytes + (type == TENSOR_Q4_K ? 16 : 48), q);
        if (type == TENSOR_Q5_K)
            for (int i = 0; i < 256; i++)
                q[i] = (int8_t)(q[i] | (bytes[16 + i % 32] >> i / 32 & 1) << 4);
        break;
    case TENSOR_Q6_K:
        b->d = f16_to_f32(load_u16(bytes + 208));
        b->run = 16;
        memcpy(b->scale, bytes + 192, 16);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, quarter = i / 32 % 4;
            int low = bytes[half * 64 + (quarter & 1) * 32 + i % 32] >> quarter / 2 * 4 & 15;
            int high = bytes[128 + half * 32 + i % 32] >> quarter * 2 & 3;
            q[i] = (int8_t)((low | high << 4) - 32);
        }
        break;
    case TENSOR_F32:
    case TENSOR_F16:
    case TENSOR_BF16:
        break;
    }
}

void matrix_row_f32(const struct matrix *matrix, uint32_t row, float *out)
{
    const uint8_t *bytes = matrix->data + row * matrix_row_bytes(matrix);
    switch (matrix->type) {
    case TENSOR_F32:
        for (uint32_t i = 0; i < matrix->cols; i++)
            out[i] = load_f32(bytes + 4 * (size_t)i);
        return;
    case TENSOR_F16:
        for (uint32_t i = 0; i < matrix->cols; i++)
            out[i] = f16_to_f32(load_u16(bytes + 2 * (size_t)i));
        return;
    case TENSOR_BF16:
        for (uint32_t i = 0; i < matrix->cols; i++)
            out[i] = bf16_to_f32(load_u16(bytes + 2 * (size_t)i));
        return;
    default:
        break;
    }
    struct block b = {.items = tensor_type_facts(matrix->type)->block_items};
    uint8_t together[256];
    for (size_t i = 0; i < matrix->cols / b.items; i++, out += b.items) {
        block_unpack(matrix->type, matrix_block(matrix, row, i, together), &b);
        for (unsigned k = 0; k < b.items; k++) {
            unsigned j = k / b.run;
            out[k] = b.d * (float)b.scale[j] * (float)b.q[k];
            if (b.has_min)
                out[k] += b.m * (float)b.min[j];
        }
    }
}
