#include "cache/cache.h"

#include <stdlib.h>
#include <string.h>

struct cache_page {
    uint32_t references;
    bool lasting; /* the bytes are a mapping's: read only, not ours to free */
    uint8_t *bytes;
};

static size_t element_bytes(const struct cache_shape *shape)
{
    return shape->element == TENSOR_F32 ? 4 : 2;
}

size_t cache_bytes(const struct cache_shape *s, uint32_t count)
{
    return (size_t)s->n_layers * s->n_kv_heads * (s->key_dim + s->value_dim) * count *
           element_bytes(s);
}

size_t cache_key_offset(const struct cache_shape *s, uint32_t layer)
{
    return cache_bytes(s, CACHE_PAGE) / s->n_layers * layer;
}

size_t cache_value_offset(const struct cache_shape *s, uint32_t layer)
{
    return cache_key_offset(s, layer) +
           (size_t)s->n_kv_heads * s->key_dim * CACHE_PAGE * element_bytes(s);
}

/* ---- pages --------------------------------------------------------------------------------- */

static struct cache_page *page_new(const struct cache_shape *shape)
{
    struct cache_page *page = allocate(1, sizeof *page);
    page->references = 1;
    page->bytes = allocate_aligned(cache_bytes(shape, CACHE_PAGE), 1);
    return page;
}

static void page_release(struct cache_page *page)
{
    if (!page || --page->references > 0)
        return;
    if (!page->lasting)
        free(page->bytes);
    free(page);
}

static void push_page(struct cache_sequence *s, struct cache_page *page)
{
    s->page = grow(s->page, &s->capacity, s->n_pages + 1, sizeof(struct cache_page *));
    s->data = grow(s->data, &s->data_capacity, s->n_pages + 1, sizeof(uint8_t *));
    s->page[s->n_pages] = page;
    s->data[s->n_pages++] = page ? page->bytes : NULL;
}

/* The page becomes this sequence's alone. */
static void make_private(struct cache_sequence *s, size_t index)
{
    struct cache_page *page = s->page[index];
    if (!page || (page->references == 1 && !page->lasting))
        return;
    struct cache_page *copy = page_new(s->shape);
    memcpy(copy->bytes, page->bytes, cache_bytes(s->shape, CACHE_PAGE));
    page_release(page);
    s->page[index] = copy;
    s->data[index] = copy->bytes;
}

void cache_extend(struct cache_sequence *s, uint32_t end)
{
    if (end > s->n_positions && s->n_positions % CACHE_PAGE)
        make_private(s, s->n_positions / CACHE_PAGE);
    while (s->n_pages < (end + (size_t)CACHE_PAGE - 1) / CACHE_PAGE)
        push_page(s, page_new(s->shape));
}

void cache_cut(struct cache_sequence *s, uint32_t end)
{
    while (s->n_pages > (end + (size_t)CACHE_PAGE - 1) / CACHE_PAGE)
        page_release(s->page[--s->n_pages]);
    if (s->n_positions > end)
        s->n_positions = end;
}

void cache_share(struct cache_sequence *dst, const struct cache_sequence *src, uint32_t end)
{
    dst->shape = src->shape;
    dst->n_positions = end < src->n_positions ? end : src->n_positions;
    for (size_t i = 0; i * CACHE_PAGE < dst->n_positions; i++) {
        if (src->page[i])
            src->page[i]->references++;
        push_page(dst, src->page[i]);
    }
}

void cache_release(struct cache_sequence *s)
{
    cache_cut(s, 0);
    free(s->page);
    free(s->data);
    *s = (struct cache_sequence){.shape = s->shape};
}

/* ---- pages that are elsewhere -------------------------------------------------------------- */

void cache_append_absent(struct cache_sequence *s, uint32_t count)
{
    s->n_positions += count;
    while (s->n_pages < (s->n_positions + (size_t)CACHE_PAGE - 1) / CACHE_PAGE)
        push_page(s, NULL);
}

uint8_t *cache_own(struct cache_sequence *s, size_t index)
{
    while (s->n_pages <= index)
        push_page(s, NULL);
    if (!s->page[index])
        s->page[index] = page_new(s->shape);
    else
        make_private(s, index);
    s->data[index] = s->page[index]->bytes;
    return s->page[index]->bytes;
}

void cache_disown(struct cache_sequence *s, size_t index)
{
    page_release(s->page[index]);
    s->page[index] = NULL;
    s->data[index] = NULL;
}

/* ---- elements ------------------------------------------------------------------------------ */

static void store_element(uint8_t *at, enum tensor_type element, float value)
{
    if (element == TENSOR_F32) {
        memcpy(at, &value, sizeof value);
    } else {
        uint16_t half = f32_to_f16(value);
        memcpy(at, &half, sizeof half);
    }
}

void cache_store(struct cache_sequence *s, uint32_t layer, uint32_t position, const float *keys,
                 const float *values)
{
    const struct cache_shape *shape = s->shape;
    size_t size = element_bytes(shape), column = position % CACHE_PAGE;
    uint8_t *bytes = s->page[position / CACHE_PAGE]->bytes;
    uint8_t *k = bytes + cache_key_offset(shape, layer),
            *v = bytes + cache_value_offset(shape, layer);
    for (size_t d = 0; d < (size_t)shape->n_kv_heads * shape->key_dim; d++)
        store_element(k + (d * CACHE_PAGE + column) * size, shape->element, keys[d]);
    for (size_t head = 0; head < shape->n_kv_heads; head++)
        for (size_t d = 0; d < shape->value_dim; d++)
            store_element(v + ((head * CACHE_PAGE + column) * shape->value_dim + d) * size,
                          shape->element, values[head * shape->value_dim + d]);
}

/* ---- packed positions ---------------------------------------------------------------------- */

/* Rows of `from_stride` elements to rows of `to_stride`: `n` elements of each of `rows` rows. */
static void copy_rows(uint8_t *to, size_t to_stride, const uint8_t *from, size_t from_stride,
                      size_t n, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        memcpy(to + i * to_stride, from + i * from_stride, n);
}

/* Copies `count` positions between a page, from column `column` on, and packed bytes. */
static void copy_positions(const struct cache_shape *shape, uint8_t *page, uint32_t column,
                           uint8_t *packed, uint32_t count, bool pack)
{
    size_t size = element_bytes(shape), value_row = shape->value_dim * size;
    for (uint32_t layer = 0; layer < shape->n_layers; layer++) {
        uint8_t *k = page + cache_key_offset(shape, layer) + column * size;
        uint8_t *v = page + cache_value_offset(shape, layer) + column * value_row;
        size_t key_rows = (size_t)shape->n_kv_heads * shape->key_dim;
        uint8_t *packed_v = packed + key_rows * count * size;
        if (pack) {
            copy_rows(packed, count * size, k, CACHE_PAGE * size, count * size, key_rows);
            copy_rows(packed_v, count * value_row, v, CACHE_PAGE * value_row, count * value_row,
                      shape->n_kv_heads);
        } else {
            copy_rows(k, CACHE_PAGE * size, packed, count * size, count * size, key_rows);
            copy_rows(v, CACHE_PAGE * value_row, packed_v, count * value_row, count * value_row,
                      shape->n_kv_heads);
        }
        packed = packed_v + (size_t)shape->n_kv_heads * count * value_row;
    }
}

void cache_append(struct cache_sequence *s, uint32_t count, const uint8_t *bytes, bool lasting)
{
    if (lasting && count == CACHE_PAGE && (uintptr_t)bytes % 64 == 0) {
        cache_cut(s, s->n_positions);
        struct cache_page *page = allocate(1, sizeof *page);
        *page = (struct cache_page){1, true, (uint8_t *)(uintptr_t)bytes};
        push_page(s, page);
    } else {
        cache_extend(s, s->n_positions + count);
        copy_positions(s->shape, s->page[s->n_positions / CACHE_PAGE]->bytes,
                       s->n_positions % CACHE_PAGE, (uint8_t *)(uintptr_t)bytes, count, false);
    }
    s->n_positions += count;
}

const uint8_t *cache_packed(const struct cache_sequence *s, uint32_t begin, uint32_t count,
                            uint8_t *scratch)
{
    struct cache_page *page = s->page[begin / CACHE_PAGE];
    if (count == CACHE_PAGE)
        return page->bytes;
    copy_positions(s->shape, page->bytes, begin % CACHE_PAGE, scratch, count, true);
    return scratch;
}
