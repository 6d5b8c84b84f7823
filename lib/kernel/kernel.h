/* kernel: the arithmetic of the forward pass.
 *
 * One interface, one set of files per instruction set, chosen at run time.  Every function here has
 * one canonical result: the plain C files (*_generic.c) define it and the others equal them bit for
 * bit, for any number of rows, threads and any split of the work.  The rules are design section 4:
 *
 *   - no sum crosses a thread: work is divided by output, never by the reduced dimension;
 *   - F32, F16, BF16 weights: lane l of sixteen sums the k = l (mod 16) in ascending order, one
 * fused multiply-add each; then lanes fold l += l+8, l+4, l+2, l+1.  Sums of the norms: same shape;
 *   - quantised weights: activations are quantised in the weight's own blocks, products of a block
 *     are summed in integers, blocks accumulate in ascending order, one fused multiply-add each;
 *   - attention: see kernel_attend.
 */
#ifndef UNROLL_KERNEL_H
#define UNROLL_KERNEL_H

#include "base/base.h"

/* Raised whenever the canonical arithmetic changes: a state made under another is refused. */
#define KERNEL_ARITHMETIC_REVISION 1

enum kernel_level { KERNEL_GENERIC, KERNEL_AVX2, KERNEL_AVX512, KERNEL_AMX };

struct kernel; /* tables of functions for one level */

/* The best level of this CPU, or the one that UNROLL_CPU names (generic, avx2, avx512, amx).
 * An unknown name or a level that this CPU lacks is an error (STATUS_USAGE) that lists what there
 * is. AMX asks the kernel of the system for permission to use tiles. */
const struct kernel *kernel_choose(struct error *error);
/* The given level, or NULL where this CPU lacks it; for tests. */
const struct kernel *kernel_at(enum kernel_level level);
const char *kernel_name(const struct kernel *kernel);

/* ---- matrices ------------------------------------------------------------------------------ */

/* A weight matrix as it lies in the file: `rows` outputs by `cols` inputs, row after row, each row
 * whole blocks of its type.  Interleaved: sixteen rows at a time, in the layout that
 * matrix_interleave made (same bits out). */
struct matrix {
    enum tensor_type type;
    bool interleaved;
    uint32_t rows, cols;
    const uint8_t *data;
};

/* Whether matrices of this type can be multiplied and dequantised. */
bool kernel_supports(uint32_t tensor_type);
size_t matrix_row_bytes(const struct matrix *matrix);
/* Row `row`, either layout, as f32: out (cols). */
void matrix_row_f32(const struct matrix *matrix, uint32_t row, float *out);

/* The interleaved layout: panels of sixteen rows, the last filled up with zeros; in a panel the
 * blocks in their order; and in a block its units in their order, each as sixteen units, one of
 * each row. Units are 4 bytes long, but 2 for the f16 fields (d, m, dmin) and the high bits of
 * IQ4_XS's scales, all of which lie at the beginning or the end of a block.  So a Q8_0 panel's
 * block is 16 d, then 8 times 16 times 4 q. */
bool matrix_can_interleave(enum tensor_type type);
size_t matrix_interleaved_bytes(const struct matrix *matrix);
/* out (matrix_interleaved_bytes); `in` is plain. */
void matrix_interleave(const struct matrix *in, uint8_t *out);

/* The right-hand side of a product: x (rows, cols) in f32, and what the kernels derive from it
 * (quantised forms), each made once, when a product first needs it. */
struct activations;
struct activations *activations_new(void);
void activations_free(struct activations *activations);
/* Points at x, which must stay unchanged until the next set; forgets derived forms. */
void activations_set(struct activations *activations, const float *x, uint32_t rows, uint32_t cols);

/* y[r][o] = sum over k of w[o][k] * x[r][k], for all rows r of x and outputs o of w.
 * `stride` is the distance between rows of y, in floats. */
struct product {
    const struct matrix *w;
    float *y;
    size_t stride;
};
/* Computes several products of the same x in one go (q, k, v; gate, up).  Block scales of x that
 * are not finite give NaN outputs, on every level alike; the caller checks its residuals. */
void kernel_multiply(const struct kernel *kernel, struct threads *threads,
                     const struct product *products, size_t n_products, struct activations *x);

/* The same where product i multiplies an x of its own, x[i]: experts. */
void kernel_multiply_each(const struct kernel *kernel, struct threads *threads,
                          const struct product *products, size_t n_products,
                          struct activations *const *x);

/* ---- row operations ------------------------------------------------------------------------ */

/* y = x / sqrt(mean(x^2) + epsilon) * w   (n); the mean's sum in sixteen lanes; w may be NULL. */
void kernel_rms_norm(const struct kernel *kernel, float *y, const float *x, const float *w,
                     uint32_t n, float epsilon);
/* Layer normalisation (arXiv 1607.06450): y = fma((x - mean) * f, w, b), f = 1 / sqrt(mean((x -
 * mean)^2)
 * + epsilon)  (n); both sums in sixteen lanes. */
void kernel_layer_norm(const struct kernel *kernel, float *y, const float *x, const float *w,
                       const float *b, uint32_t n, float epsilon);
/* y += x  (n) */
void kernel_add(const struct kernel *kernel, float *y, const float *x, size_t n);
/* y = fma(x, factor, y)  (n) */
void kernel_add_scaled(const struct kernel *kernel, float *y, const float *x, float factor,
                       size_t n);
/* x *= factor  (n) */
void kernel_scale(const struct kernel *kernel, float *x, float factor, size_t n);
/* x = cap * tanh(x / cap)  (n) */
void kernel_softcap(const struct kernel *kernel, float *x, float cap, size_t n);
/* gate = silu(gate) * up  (n), silu(x) = x / (1 + exp(-x)) */
void kernel_silu_multiply(const struct kernel *kernel, float *gate, const float *up, size_t n);
/* gate = gelu(gate) * up  (n), and x = gelu(x) alone; GELU by its tanh form (arXiv 1606.08415):
 * h = x / 2, u = x * fma(x * x, 0.044715 c, c), c = sqrt(2 / pi); fma(h, tanh(u), h) */
void kernel_gelu_multiply(const struct kernel *kernel, float *gate, const float *up, size_t n);
void kernel_gelu(const struct kernel *kernel, float *x, size_t n);
/* Rotary embedding, in place, of `heads` vectors of `dim` floats, the first `rotated` of each.
 * cosine and sine hold rotated/2 entries.  Adjacent: pairs (2i, 2i+1), as the llama family stores
 * them; otherwise pairs (i, i + rotated/2), "NeoX".
 * (a, b) becomes (fma(a, cos, -(b*sin)), fma(a, sin, b*cos)). */
void kernel_rope(const struct kernel *kernel, float *x, uint32_t heads, uint32_t dim,
                 uint32_t rotated, const float *cosine, const float *sine, bool adjacent);
/* Rounds to half precision, to nearest even. */
void kernel_f32_to_f16(const struct kernel *kernel, uint16_t *y, const float *x, size_t n);
/* Index of the first value that is not finite; n when there is none. */
size_t kernel_find_not_finite(const struct kernel *kernel, const float *x, size_t n);

/* ---- attention ----------------------------------------------------------------------------- */

/* The cache's page: this many positions, aligned to a multiple of it.  Also the block of the
 * canonical order of attention. */
#define KERNEL_PAGE 64

/* One layer's attention over paged keys and values.  In each page of a sequence lie, for this
 * layer, at byte key_offset: keys (n_kv_heads, key_dim, KERNEL_PAGE), and at byte value_offset:
 * values (n_kv_heads, KERNEL_PAGE, value_dim); elements F16 or F32.  Keys are stored transposed, so
 * scores and outputs are both "row of factors times rows of 64".  Both offsets are multiples of 64
 * bytes. */
struct attention {
    uint32_t n_heads, n_kv_heads, key_dim, value_dim; /* n_heads a multiple of n_kv_heads */
    enum tensor_type element;                         /* TENSOR_F16 or TENSOR_F32 */
    size_t key_offset, value_offset;
    float scale;   /* of the scores */
    float softcap; /* 0: none; otherwise score = softcap * tanh(score / softcap) */
};
/* One query row: the pages of its sequence and the positions it sees, [first, end), first < end.
 * All KERNEL_PAGE positions of a page that holds one of them must be readable; what lies at others
 * is not used. */
struct attention_row {
    const uint8_t *const *pages;
    uint32_t first, end;
};
/* out (n_rows, n_heads, value_dim) from q (n_rows, n_heads, key_dim).
 *
 * Canonical order, for each row and head: for each page, over its visible keys j in [lo, hi) only:
 *   s[j]  = accumulate d ascending from +0, s = fma(q[d], k[d][j], s); then s *= scale; then
 * softcap m     = max s[j];  p[j] = exact_exp(s[j] - m) l     = sum of p[j]: sixteen lanes by j mod
 * 16 ascending j, then the fold o[d]  = accumulate j ascending from +0, o = fma(p[j], v[j][d], o)
 * Pages merge in ascending order into (M, L, O), beginning with the first page's own (m, l, o):
 *   M' = max(M, m); a = exact_exp(M - M'); b = exact_exp(m - M');
 *   L = fma(l, b, L * a); O[d] = fma(o[d], b, O[d] * a)
 * and out[d] = O[d] / L.  Pages may therefore be computed by different threads or machines. */
void kernel_attend(const struct kernel *kernel, struct threads *threads,
                   const struct attention *attention, const struct attention_row *rows,
                   uint32_t n_rows, const float *q, float *out);

#endif
