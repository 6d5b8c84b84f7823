/* What one instruction set provides; private to lib/kernel.  Each level has one float_ops (built
 * from the one text float_ops.inc over sixteen lanes) and one quant_ops. */
#ifndef UNROLL_KERNEL_TABLE_H
#define UNROLL_KERNEL_TABLE_H

#include "kernel/kernel.h"

/* Outputs [begin, end) of one product for all rows of x; begin is a multiple of 16. */
typedef void multiply_range(const struct matrix *w, const struct activations *x, float *y,
                            size_t stride, uint32_t begin, uint32_t end);

/* One page of keys and values of one KV head, for some rows (a row here is one query head at one
 * position).  The page is summed as kernel_attend says, and merged into the rows' state. */
struct attend_page {
    const void *keys;   /* (key_dim, KERNEL_PAGE) */
    const void *values; /* (KERNEL_PAGE, value_dim) */
    bool half;          /* both F16; otherwise F32 */
    bool first;         /* the rows have no state yet: it begins with this page */
    uint32_t key_dim, value_dim;
    float scale, softcap;
    const void *next_keys;         /* those of the page to come */
    size_t key_bytes, value_bytes; /* to ask for ahead, of next_keys and values; 0: nothing */
    uint32_t n_rows;
    const uint32_t *from, *to; /* (n_rows): visible keys of the page, at least one */
    const float *q;            /* (n_rows, key_dim); readable for ATTEND_SLACK rows more */
    float *scores;             /* (n_rows + ATTEND_SLACK, KERNEL_PAGE): scratch */
    float *factors;            /* (2, n_rows): scratch */
    float *largest, *sum;      /* (n_rows): M and L */
    float *out;                /* (n_rows, value_dim): O */
};
#define ATTEND_SLACK 11

struct float_ops {
    multiply_range *multiply_f32, *multiply_f16, *multiply_bf16;
    void (*rms_norm)(float *y, const float *x, const float *w, uint32_t n, float epsilon);
    void (*layer_norm)(float *y, const float *x, const float *w, const float *b, uint32_t n,
                       float epsilon);
    void (*add)(float *y, const float *x, size_t n);
    void (*add_scaled)(float *y, const float *x, float factor, size_t n);
    void (*scale)(float *x, float factor, size_t n);
    void (*softcap)(float *x, float cap, size_t n);
    void (*silu_multiply)(float *gate, const float *up, size_t n);
    void (*gelu_multiply)(float *gate, const float *up, size_t n);
    void (*gelu)(float *x, size_t n);
    void (*rope)(float *x, uint32_t heads, uint32_t dim, uint32_t rotated, const float *cosine,
                 const float *sine, bool adjacent);
    void (*f32_to_f16)(uint16_t *y, const float *x, size_t n);
    size_t (*find_not_finite)(const float *x, size_t n);
    void (*attend_page)(const struct attend_page *page);
    /* Merges a page's own m, l and o (of page->n_rows rows) into the state that `page` names. */
    void (*attend_merge)(const struct attend_page *page, const float *m, const float *l,
                         const float *o);
    void (*divide)(float *y, const float *x, float by, size_t n); /* y = x / by */
    void (*widen_f16)(float *y, const uint16_t *x, size_t n);
};

/* x in int8, quantised in blocks of one size (activations.c): see "Quantised activations" in
 * quant.h for the arithmetic. */
struct quantised {
    bool made;
    uint32_t block;  /* 32 or 256 */
    size_t stride;   /* distance between rows of q, in bytes */
    size_t n_blocks; /* in a row */
    int8_t *q;       /* (rows, stride) */
    float *d;        /* (rows, n_blocks): scales; a NaN where the block is not finite */
    float *sum;      /* (rows, n_blocks): sums of q; made for blocks of 32 only, as are: */
    int32_t *minus;  /* (rows, n_blocks): the same, times -128 */
    int16_t
        *sums_16; /* (rows, cols / 16): sums of each 16 of q; made for blocks of 256 only, as: */
    int16_t *sums_32; /* (rows, cols / 32) */
    /* The same once more for AMX, or NULL: sixteen rows and one block together (quant_amx.c). */
    uint8_t *tiles, *sum_tiles;
    float *tile_d, *tile_sum; /* (rows / 16, n_blocks, 16) */
    size_t capacity;          /* bytes in `memory`, which holds all of the above */
    uint8_t *memory;
};
struct activations {
    const float *x; /* (rows, cols) */
    uint32_t rows, cols;
    struct quantised by_32, by_256;
};
/* Makes the quantised form of x that weights of this type are multiplied with, if that is not yet
 * made; nothing for F32, F16 and BF16.  `threads` may be NULL. */
void activations_prepare(const struct kernel *kernel, struct threads *threads,
                         struct activations *x, enum tensor_type weight_type);

struct quant_ops {
    /* Quantises rows [begin, end) of x into `out`, whose memory is there. */
    void (*quantise)(const struct activations *x, struct quantised *out, size_t begin, size_t end);
    multiply_range *multiply[31];         /* by tensor type; NULL where the type is not quantised */
    uint32_t tile_rows_32, tile_rows_256; /* rows of x from which on tiles are made; 0: never */
};

struct kernel {
    enum kernel_level level;
    const char *name;
    const struct float_ops *floats;
    const struct quant_ops *quants;
};

extern const struct float_ops float_generic, float_avx2, float_avx512;
extern const struct quant_ops quant_generic, quant_avx2, quant_avx512, quant_amx;

#endif
