/* cache: keys and values of past positions, in pages that sequences share.
 *
 * A page holds CACHE_PAGE positions of all layers.  For each layer: keys (n_kv_heads, key_dim,
 * CACHE_PAGE), then values (n_kv_heads, CACHE_PAGE, value_dim); keys are transposed because scores
 * are sums over the dimension for many positions at once.  Where fewer positions are packed (a
 * CACHE record of `count` positions) the same order holds with `count` in the place of CACHE_PAGE.
 */
#ifndef UNROLL_CACHE_H
#define UNROLL_CACHE_H

#include "base/base.h"

#define CACHE_PAGE 64

struct cache_shape {
    uint32_t n_layers, n_kv_heads, key_dim, value_dim;
    enum tensor_type element; /* TENSOR_F16 or TENSOR_F32 */
};
/* Bytes of `count` positions, all layers. */
size_t cache_bytes(const struct cache_shape *shape, uint32_t count);
/* Where a layer's keys and values begin in a page. */
size_t cache_key_offset(const struct cache_shape *shape, uint32_t layer);
size_t cache_value_offset(const struct cache_shape *shape, uint32_t layer);

struct cache_page;
/* The cache of one sequence.  Begin with {.shape = shape}; pages may be shared with other sequences
 * or lie in a mapped file: they are copied when a position is written into them. */
struct cache_sequence {
    const struct cache_shape *shape;
    uint32_t n_positions; /* positions that are complete */
    size_t n_pages, capacity, data_capacity;
    struct cache_page **page;
    const uint8_t **data; /* (n_pages) what attention reads */
};

/* Makes room for positions up to `end` (exclusive), writable from n_positions on. */
void cache_extend(struct cache_sequence *sequence, uint32_t end);
/* Forgets positions from `end` on. */
void cache_cut(struct cache_sequence *sequence, uint32_t end);
/* dst (empty) becomes the first `end` positions of src: pages are counted, not copied. */
void cache_share(struct cache_sequence *dst, const struct cache_sequence *src, uint32_t end);
void cache_release(struct cache_sequence *sequence);

/* Where a sequence is divided over machines, the pages that are elsewhere are absent: data[i] is
 * NULL.
 *
 * Appends `count` positions at n_positions, within one page, that are elsewhere. */
void cache_append_absent(struct cache_sequence *sequence, uint32_t count);
/* Makes page `index` this sequence's own: zeros where it was absent, a copy where it was shared. */
uint8_t *cache_own(struct cache_sequence *sequence, size_t index);
/* Makes page `index` absent. */
void cache_disown(struct cache_sequence *sequence, size_t index);

/* Rounds and stores one layer's keys (n_kv_heads, key_dim) and values (n_kv_heads, value_dim) of a
 * position that was extended to. */
void cache_store(struct cache_sequence *sequence, uint32_t layer, uint32_t position,
                 const float *keys, const float *values);

/* Appends `count` positions at n_positions, within one page, packed as in a CACHE record.
 * `lasting`: the bytes stay valid and unchanged (a mapping), so a whole page of them, aligned to
 * 64, is used where it lies. */
void cache_append(struct cache_sequence *sequence, uint32_t count, const uint8_t *bytes,
                  bool lasting);
/* Positions [begin, begin + count) within one page, packed; either where they lie or in `scratch`
 * (cache_bytes(shape, CACHE_PAGE)). */
const uint8_t *cache_packed(const struct cache_sequence *sequence, uint32_t begin, uint32_t count,
                            uint8_t *scratch);

#endif
