/* Products with quantised weights in AMX tiles: sixteen rows of x times a panel of sixteen outputs.
 * Few rows of x go the way of AVX-512.
 *
 * A tile instruction of 16 cycles takes 64 bytes of each row, and while one is under way the
 * processor starts one floating-point instruction of 512 bits a cycle instead of two.
 *
 * Blocks of 32 (short): the sum of each block of each output must be scaled and added by itself:
 * two floating-point instructions for sixteen outputs, a third if the sum is an integer.  So x and
 * weights are given to the tiles as bfloat16, which holds bytes exactly and fills a tile with a
 * block of 32; sums below 2^24 are exact in the order of the tile too and come out as floats.
 *
 * Blocks of 256 (long): weights are multiplied with their sub-scales beforehand.  Where the
 * products do not fit a byte they are two bytes, in two tiles, whose sums S = low + high * 2^shift.
 * The mins meet the sums of x in one more tile of bfloat16, the sums of x as two numbers of at most
 * eight bits. */
#include "kernel/quant.h"

#if defined(__x86_64__)

#include "kernel/bytes_avx512.h"

#include "kernel/quant_types.inc"

#include <string.h>

#define TILE 1024 /* bytes: 16 rows of 64 */

/* ---- x in tiles ------------------------------------------------------------------------------ */

/* 32 small integers as bfloat16, in their order. */
INLINE __m512i to_bf16(__m256i bytes)
{
    __m512 low = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(bytes)));
    __m512 high = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(bytes, 1)));
    const __m512i odd =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                         25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(_mm512_castps_si512(low), odd, _mm512_castps_si512(high));
}

/* Sixteen sums of sixteen bytes each, as pairs: a multiple of 16 and the rest. */
INLINE __m512i to_bf16_pairs(const int16_t *sums)
{
    /* They are stored in the order 0 2 1 3 of each four; the mins are put in the same order. */
    __m512i sum = _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)sums));
    __m512i rest = _mm512_and_si512(sum, _mm512_set1_epi32(15));
    __m512 low = _mm512_cvtepi32_ps(rest), high = _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, rest));
    return _mm512_or_si512(
        _mm512_srli_epi32(_mm512_castps_si512(low), 16),
        _mm512_and_si512(_mm512_castps_si512(high), _mm512_set1_epi32((int)0xffff0000u)));
}

static void quantise(const struct activations *x, struct quantised *out, size_t begin, size_t end)
{
    quant_avx512.quantise(x, out, begin, end);
    if (!out->tiles)
        return;
    for (size_t r = begin; r < end; r++)
        for (size_t b = 0; b < out->n_blocks; b++) {
            size_t from = r * out->n_blocks + b, to = r / 16 * out->n_blocks + b;
            const int8_t *q = out->q + r * out->stride + b * out->block;
            out->tile_d[to * 16 + r % 16] = out->d[from];
            if (out->block == 32) {
                out->tile_sum[to * 16 + r % 16] = out->sum[from];
                _mm512_store_si512(out->tiles + to * TILE + r % 16 * 64,
                                   to_bf16(_mm256_loadu_si256((const __m256i *)q)));
            } else {
                for (size_t k = 0; k < 4; k++)
                    memcpy(out->tiles + (to * 4 + k) * TILE + r % 16 * 64, q + 64 * k, 64);
                _mm512_store_si512(out->sum_tiles + to * TILE + r % 16 * 64,
                                   to_bf16_pairs(out->sums_16 + 16 * from));
            }
        }
}

/* ---- weights in tiles ------------------------------------------------------------------------ */

/* The pieces that work is done in, for the caches: of two panels, 256 inputs (weights, prepared:
 * the first level), of x, 512 rows (the second); sums of 8 panels by 512 rows wait in the second.
 */
#define SHORT_BLOCKS 8
#define LONG_BLOCKS  1
#define RANGE        8
#define GROUPS       32

struct weights {
    _Alignas(
        64) uint8_t tiles[9 * TILE]; /* a tile for each short block; planes and mins of a long */
    vf d[SHORT_BLOCKS], m[SHORT_BLOCKS];
};

/* Bytes of the words 0 and 1, or 2 and 3, as pairs of bfloat16. */
INLINE vu pair_bf16(vu w, bool second)
{
    vf even = __builtin_convertvector((vi)(w << (second ? 8 : 24)) >> 24, vf);
    vf odd = __builtin_convertvector((vi)(second ? w : w << 16) >> 24, vf);
    return (vu)even >> 16 | ((vu)odd & 0xffff0000u);
}

/* Type of 256: tiles for one block, and how their sums become S. */
INLINE unsigned planes_of(enum tensor_type type)
{
    return type == TENSOR_Q2_K || type == TENSOR_Q3_K ? 1 : 2;
}
INLINE unsigned shift_of(enum tensor_type type)
{
    return type == TENSOR_Q4_K || type == TENSOR_Q5_K ? 3 : 7;
}
/* Whether the tiles hold -S: then the products go from -128 to 124, not from -124 to 128. */
INLINE bool is_negated(enum tensor_type type)
{
    return type == TENSOR_Q3_K;
}
INLINE bool is_signed(enum tensor_type type)
{
    return type == TENSOR_Q3_K || type == TENSOR_Q6_K || type == TENSOR_IQ4_XS;
}

INLINE vu multiply_16(vu a, vu b)
{
    return (vu)((vs)a * (vs)b);
}

/* Of each two bytes. */
#define EVEN 0x00ff00ffu
#define ODD  0xff00ff00u

/* Weights times scale (twice in each word, as int16), in bytes. */
INLINE void scale_weights(enum tensor_type type, vu w, vu scale, vu *low, vu *high)
{
    switch (type) {
    case TENSOR_Q2_K: /* at most 3 * 15; no product reaches into the next byte */
        *low = multiply_16(w, scale);
        break;
    case TENSOR_Q4_K:
    case TENSOR_Q5_K: /* at most 31 * 7 for each half of the scale */
        *low = multiply_16(w, scale & 0x00070007u);
        *high = multiply_16(w, scale >> 3 & 0x00070007u);
        break;
    case TENSOR_Q3_K: { /* (4 - w) * scale, modulo 256 */
        vu product = (multiply_16(w, scale) & EVEN) | multiply_16(w & ODD, scale);
        vu four = (vu)((vs)scale << 2) & EVEN;
        *low = (vu)((vb)(four | four << 8) - (vb)product);
        break;
    }
    default: { /* Q6_K, IQ4_XS: at most 4096, as 7 bits and a signed rest */
        vs a = (vs)(w << 8) >> 8, b = (vs)w >> 8;
        if (type == TENSOR_Q6_K) {
            a -= 32;
            b -= 32;
        }
        vu x = multiply_16((vu)a, scale), y = multiply_16((vu)b, scale);
        *low = (x & 0x007f007fu) | (y & 0x007f007fu) << 8;
        *high = (x >> 7 & EVEN) | (y << 1 & ODD);
        break;
    }
    }
}

INLINE vu both_halves(vs pair, bool high)
{
    return high ? ((vu)pair & 0xffff0000u) | (vu)pair >> 16 : ((vu)pair & 0xffffu) | (vu)pair << 16;
}

/* A min for both numbers that make up a sum, as bfloat16. */
INLINE vu both_bf16(vs pair, bool high)
{
    vf min = __builtin_convertvector(high ? (vi)pair >> 16 : (vi)pair << 16 >> 16, vf);
    return ((vu)min & 0xffff0000u) | (vu)min >> 16;
}

INLINE void store_words(uint8_t *to, vu words)
{
    _mm512_store_si512(to, (__m512i)words);
}

INLINE void prepare_short(enum tensor_type type, const uint8_t *block, uint8_t *tiles)
{
    struct fields at = fields_of(type, block, 0);
    UNROLL
    for (unsigned g = 0; g < 8; g++) {
        vu w = expand(type, at.words, 0, 0, g);
        if (!is_wide(type) && offset_bits(type) >= 0)
            w = (vu)((vb)w - (int8_t)(1 << offset_bits(type)));
        store_words(tiles + 128 * g, pair_bf16(w, false));
        store_words(tiles + 128 * g + 64, pair_bf16(w, true));
    }
}

INLINE void prepare_long(enum tensor_type type, const uint8_t *block, uint8_t *tiles)
{
    struct fields at = fields_of(type, block, 0);
    unsigned groups = run_of(type) / 4, runs = 256 / run_of(type), stretch = stretch_of(type);
    vu scales[4], mins[4], scale[16];
    unpack_scales(type, at.words, at.lead, scales, mins);
    UNROLL
    for (unsigned i = 0; i < runs / 4; i++) {
        vs even = (vs)(scales[i] << 8) >> 8, odd = (vs)scales[i] >> 8;
        UNROLL
        for (unsigned k = 0; k < 4; k++)
            scale[4 * i + k] = both_halves(k & 1 ? odd : even, k >> 1);
    }
    for (unsigned first = 0; first < runs; first += stretch) {
        UNROLL
        for (unsigned j = 0; j < stretch; j++)
            UNROLL
        for (unsigned g = 0; g < groups; g++) {
            vu low, high, w = expand(type, at.words, first, j, g);
            uint8_t *to = tiles + 64 * (groups * (first + j) + g);
            scale_weights(type, w, scale[first + j], &low, &high);
            store_words(to, low);
            if (planes_of(type) == 2)
                store_words(to + 4 * TILE, high);
        }
    }
    if (!has_minimum(type))
        return;
    tiles += 4 * TILE * planes_of(type);
    UNROLL
    for (unsigned i = 0; i < runs / 4; i++) {
        vs even = (vs)(mins[i] << 8) >> 8, odd = (vs)mins[i] >> 8;
        UNROLL
        for (unsigned k = 0; k < 4; k++) {
            vu min = both_bf16(k & 1 ? odd : even, k >> 1);
            /* In the order 0 2 1 3 of each four, as the sums of x: runs of 32 are pairs of 16. */
            if (runs == 16) {
                store_words(tiles + 64 * (4 * i + 2 * (k & 1) + (k >> 1)), min);
            } else {
                store_words(tiles + 64 * (8 * i + 4 * (k >> 1) + (k & 1)), min);
                store_words(tiles + 64 * (8 * i + 4 * (k >> 1) + 2 + (k & 1)), min);
            }
        }
    }
}

/* Makes tiles of `n` blocks of a panel. */
INLINE void prepare(enum tensor_type type, const uint8_t *panel, size_t n, struct weights *w)
{
    size_t bytes = PANEL * block_bytes(units_of(type));
    for (size_t b = 0; b < n; b++, panel += bytes) {
        for (size_t k = 0; k < bytes; k += 64)
            __builtin_prefetch(panel + 4096 + k);
        struct fields at = fields_of(type, panel, 0);
        const uint8_t *halves = units_of(type).tail ? at.tail : at.lead;
        w->d[b] = load_halves(halves);
        if (has_minimum(type))
            w->m[b] = has_scales(type) ? -load_halves(halves + 2 * PANEL)
                                       : load_halves(halves + 2 * PANEL);
        if (has_scales(type))
            prepare_long(type, panel, w->tiles);
        else
            prepare_short(type, panel, w->tiles + b * TILE);
    }
}

/* ---- tiles times tiles ----------------------------------------------------------------------- */

/* The tile intrinsics of GCC 12 do not say that they read and write memory. */
#define BARRIER() __asm__ volatile("" ::: "memory")

static void configure_tiles(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = 64;
        config.rows[i] = 16;
    }
    BARRIER();
    _tile_loadconfig(&config);
}

/* `groups` times sixteen rows of x, times `n` blocks of one or two panels, added to y. */
struct tile_task {
    const struct weights *w; /* (n_panels) */
    unsigned n_panels, groups;
    size_t n;
    /* Of the first group's first block; `step` blocks further on are those of the next group. */
    const uint8_t *x, *sum_tiles;
    const float *d, *sum;
    size_t step;
    vf (*y)[2][16]; /* (groups): for each panel sixteen rows of sixteen outputs */
};

INLINE vf load_sum(const float *sums, unsigned row)
{
    return (vf)load_words(sums + 16 * row);
}

/* Where the tiles stand: group, panel and block. */
struct place {
    unsigned group, panel;
    size_t block;
};

/* Sends the products of the block to one of two tiles, and goes on to the next. */
INLINE void product_short(const struct tile_task *t, struct place *at, bool second)
{
    if (at->group == t->groups)
        return;
    const uint8_t *x = t->x + (at->group * t->step + at->block) * TILE;
    const uint8_t *w = t->w[at->panel].tiles + at->block * TILE;
    BARRIER();
    if (second) {
        _tile_loadd(5, x, 64);
        _tile_loadd(7, w, 64);
        _tile_zero(1);
        _tile_dpbf16ps(1, 5, 7);
    } else {
        _tile_loadd(4, x, 64);
        _tile_loadd(6, w, 64);
        _tile_zero(0);
        _tile_dpbf16ps(0, 4, 6);
    }
    if (++at->block < t->n)
        return;
    at->block = 0;
    if (++at->panel < t->n_panels)
        return;
    at->panel = 0;
    at->group++;
}

INLINE void store_tile(bool second, float *sums)
{
    if (second)
        _tile_stored(1, sums, 64);
    else
        _tile_stored(0, sums, 64);
    BARRIER();
}

/* Block after block, the tiles working on the next but one while the sums of the last but one are
 * scaled and added. */
INLINE void multiply_short(bool min, const struct tile_task *t)
{
    _Alignas(64) float sums[2][256];
    struct place ahead = {0, 0, 0};
    bool second = false; /* which tile and sums the block has */
    product_short(t, &ahead, false);
    product_short(t, &ahead, true);
    store_tile(false, sums[0]);
    for (unsigned g = 0; g < t->groups; g++)
        for (unsigned p = 0; p < t->n_panels; p++) {
            const float *d_x = t->d + 16 * g * t->step, *sum_x = t->sum + 16 * g * t->step;
            const struct weights *w = &t->w[p];
            vf y[16];
            UNROLL
            for (unsigned r = 0; r < 16; r++)
                y[r] = t->y[g][p][r];
            for (size_t b = 0; b < t->n; b++, second = !second, d_x += 16, sum_x += 16) {
                vf d = w->d[b], m = w->m[b];
                product_short(t, &ahead, second);
                store_tile(!second, sums[!second]);
                UNROLL
                for (unsigned r = 0; r < 16; r++) {
                    vf x = all_floats(d_x + r);
                    y[r] = multiply_add(d * x, load_sum(sums[second], r), y[r]);
                    if (min)
                        y[r] = multiply_add(m * x, all_floats(sum_x + r), y[r]);
                }
            }
            UNROLL
            for (unsigned r = 0; r < 16; r++)
                t->y[g][p][r] = y[r];
        }
}

#define DOT(is_signed, sum, x, w)                                                                  \
    do {                                                                                           \
        if (is_signed)                                                                             \
            _tile_dpbssd(sum, x, w);                                                               \
        else                                                                                       \
            _tile_dpbsud(sum, x, w);                                                               \
    } while (0)

/* A block of 256 of one or two panels: in the tiles 0 to 3 low and high of each, in 5 and 7 the
 * mins. */
INLINE void products_long(enum tensor_type type, const struct tile_task *t, unsigned group)
{
    const uint8_t *x = t->x + group * t->step * 4 * TILE;
    const uint8_t *w0 = t->w[0].tiles, *w1 = t->w[1].tiles;
    bool two = t->n_panels == 2;
    unsigned mins = 4 * planes_of(type) * TILE;
    BARRIER();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
#define PRODUCT(i, at)                                                                             \
    do {                                                                                           \
        _tile_loadd(6, at, 64);                                                                    \
        DOT(is_signed(type), i, 4, 6);                                                             \
    } while (0)
    UNROLL
    for (unsigned k = 0; k < 4; k++) {
        _tile_loadd(4, x + k * TILE, 64);
        PRODUCT(0, w0 + k * TILE);
        if (planes_of(type) == 2)
            PRODUCT(1, w0 + (4 + k) * TILE);
        if (two)
            PRODUCT(2, w1 + k * TILE);
        if (two && planes_of(type) == 2)
            PRODUCT(3, w1 + (4 + k) * TILE);
    }
#undef PRODUCT
    if (!has_minimum(type))
        return;
    _tile_loadd(4, t->sum_tiles + group * t->step * TILE, 64);
    _tile_loadd(6, w0 + mins, 64);
    _tile_zero(5);
    _tile_dpbf16ps(5, 4, 6);
    if (!two)
        return;
    _tile_loadd(6, w1 + mins, 64);
    _tile_zero(7);
    _tile_dpbf16ps(7, 4, 6);
}

/* sums (2, 3, 256): panel; low, high, mins. */
INLINE void store_long(enum tensor_type type, bool two, float *sums)
{
    _tile_stored(0, sums, 64);
    if (planes_of(type) == 2)
        _tile_stored(1, sums + 256, 64);
    if (has_minimum(type))
        _tile_stored(5, sums + 512, 64);
    if (two) {
        _tile_stored(2, sums + 768, 64);
        if (planes_of(type) == 2)
            _tile_stored(3, sums + 1024, 64);
        if (has_minimum(type))
            _tile_stored(7, sums + 1280, 64);
    }
    BARRIER();
}

/* Group after group, the tiles working on the next one while the sums of one are scaled and added.
 */
INLINE void multiply_long(enum tensor_type type, const struct tile_task *t)
{
    _Alignas(64) float sums[2][2 * 3 * 256];
    products_long(type, t, 0);
    store_long(type, t->n_panels == 2, sums[0]);
    for (unsigned g = 0; g < t->groups; g++) {
        const float *d_x = t->d + 16 * g * t->step;
        if (g + 1 < t->groups)
            products_long(type, t, g + 1);
        for (unsigned p = 0; p < t->n_panels; p++) {
            const float *sum = sums[g % 2] + 768 * p;
            vf d = t->w[p].d[0], m = t->w[p].m[0];
            UNROLL
            for (unsigned r = 0; r < 16; r++) {
                vf y = t->y[g][p][r], x = all_floats(d_x + r);
                vi s = (vi)load_words(sum + 16 * r);
                if (planes_of(type) == 2)
                    s += (vi)load_words(sum + 256 + 16 * r) << shift_of(type);
                if (is_negated(type))
                    s = -s;
                y = multiply_add(d * x, __builtin_convertvector(s, vf), y);
                if (has_minimum(type))
                    y = multiply_add(m * x, load_sum(sum + 512, r), y);
                t->y[g][p][r] = y;
            }
        }
        if (g + 1 < t->groups)
            store_long(type, t->n_panels == 2, sums[(g + 1) % 2]);
    }
}

INLINE void multiply_tile(enum tensor_type type, const struct tile_task *t)
{
    if (has_scales(type))
        multiply_long(type, t);
    else
        multiply_short(has_minimum(type), t);
}

/* ---- matrices times x ------------------------------------------------------------------------ */

struct type_functions {
    void (*prepare)(const uint8_t *panel, size_t n, struct weights *w);
    void (*gather)(const uint8_t *rows, size_t row_bytes, size_t n_blocks, size_t next,
                   uint8_t *out);
    void (*multiply)(const struct tile_task *task);
};

/* Of the panel at output `o`, from block `first` on. */
static void prepare_panel(const struct type_functions *f, const struct matrix *w, uint32_t o,
                          size_t first, size_t n, struct weights *out)
{
    _Alignas(64) uint8_t scratch[SHORT_BLOCKS * PANEL * 34];
    size_t bytes = block_bytes(units_of(w->type)), row_bytes = matrix_row_bytes(w);
    const uint8_t *panel = scratch;
    if (w->interleaved)
        panel = w->data + o * row_bytes + first * PANEL * bytes;
    else if (w->rows - o < PANEL)
        matrix_gather(w, o, first, n, scratch);
    else
        f->gather(w->data + o * row_bytes + first * bytes, row_bytes, n, n * bytes, scratch);
    f->prepare(panel, n, out);
}

/* Rows of x from `row` on, at most 16 * GROUPS, times outputs [begin, end), at most RANGE panels.
 */
static void multiply_part(const struct type_functions *f, const struct matrix *w,
                          const struct activations *x, uint32_t row, uint32_t begin, uint32_t end,
                          float *y, size_t stride)
{
    vf sums[RANGE / 2][GROUPS][2][16];
    struct weights panels[2];
    const struct quantised *form = activations_form(x, w->type);
    size_t at_once = form->block == 32 ? SHORT_BLOCKS : LONG_BLOCKS;
    size_t tiles = form->block == 32 ? TILE : 4 * TILE; /* bytes of a block of x */
    uint32_t n_rows = x->rows - row < 16 * GROUPS ? x->rows - row : 16 * GROUPS;
    for (uint32_t i = 0; i < (end - begin + 2 * PANEL - 1) / (2 * PANEL); i++)
        memset(sums[i], 0, (n_rows + 15) / 16 * sizeof sums[i][0]);
    for (size_t first = 0; first < form->n_blocks; first += at_once) {
        size_t left = form->n_blocks - first;
        size_t at_x = row / 16 * form->n_blocks + first;
        struct tile_task task = {
            .w = panels,
            .groups = (n_rows + 15) / 16,
            .n = left < at_once ? left : at_once,
            .x = form->tiles + at_x * tiles,
            .sum_tiles = form->sum_tiles + at_x * TILE,
            .d = form->tile_d + at_x * 16,
            .sum = form->tile_sum + at_x * 16,
            .step = form->n_blocks,
        };
        for (uint32_t o = begin; o < end; o += 2 * PANEL) {
            unsigned n_panels = o + PANEL < end ? 2 : 1;
            for (unsigned p = 0; p < n_panels; p++)
                prepare_panel(f, w, o + p * PANEL, first, task.n, &panels[p]);
            task.n_panels = n_panels;
            task.y = sums[(o - begin) / (2 * PANEL)];
            f->multiply(&task);
        }
    }
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t o = begin, i = 0; o < end; o += PANEL, i++)
            store_floats(y + (row + r) * stride + o, sums[i / 2][r / 16][i % 2][r % 16], end - o);
}

static void multiply_tiles(const struct type_functions *f, const struct matrix *w,
                           const struct activations *x, float *y, size_t stride, uint32_t begin,
                           uint32_t end)
{
    if (!activations_form(x, w->type)->tiles) {
        quant_avx512.multiply[w->type](w, x, y, stride, begin, end);
        return;
    }
    configure_tiles();
    for (uint32_t from = begin; from < end; from += RANGE * PANEL)
        for (uint32_t row = 0; row < x->rows; row += 16 * GROUPS)
            multiply_part(f, w, x, row, from,
                          end - from < RANGE * PANEL ? end : from + RANGE * PANEL, y, stride);
    _tile_release();
}

#define MULTIPLY(type)                                                                             \
    static void prepare_##type(const uint8_t *panel, size_t n, struct weights *w)                  \
    {                                                                                              \
        prepare(TENSOR_##type, panel, n, w);                                                       \
    }                                                                                              \
    static void gather_##type(const uint8_t *rows, size_t row_bytes, size_t n_blocks, size_t next, \
                              uint8_t *out)                                                        \
    {                                                                                              \
        gather(TENSOR_##type, rows, row_bytes, n_blocks, next, out);                               \
    }                                                                                              \
    static void tiles_##type(const struct tile_task *task)                                         \
    {                                                                                              \
        multiply_tile(TENSOR_##type, task);                                                        \
    }                                                                                              \
    static void multiply_##type(const struct matrix *w, const struct activations *x, float *y,     \
                                size_t stride, uint32_t begin, uint32_t end)                       \
    {                                                                                              \
        static const struct type_functions f = {prepare_##type, gather_##type, tiles_##type};      \
        multiply_tiles(&f, w, x, y, stride, begin, end);                                           \
    }

MULTIPLY(Q4_0)
MULTIPLY(Q4_1)
MULTIPLY(Q5_0)
MULTIPLY(Q5_1)
MULTIPLY(Q8_0)
MULTIPLY(Q2_K)
MULTIPLY(Q3_K)
MULTIPLY(Q4_K)
MULTIPLY(Q5_K)
MULTIPLY(Q6_K)
MULTIPLY(IQ4_NL)
MULTIPLY(IQ4_XS)

const struct quant_ops quant_amx = {
    .quantise = quantise, .multiply = MULTIPLY_TABLE, .tile_rows_32 = 32, .tile_rows_256 = 12};

#endif
