/* The merges of a byte-level BPE vocabulary, found by their bytes.  They are not tied to token ids:
 * a merge may make a symbol that is no token, and a later one may make a token of it. */
#include "vocab/table.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64 };
static const char key[] = "tokenizer.ggml.merges";

/* Decodes "LEFT RIGHT" into `bytes`; false when it is not that.  No byte is written as a space, so
 * the first one divides. */
static bool decode(struct gguf_string text, uint8_t *bytes, struct merge *merge)
{
    const char *space = text.length ? memchr(text.bytes, ' ', text.length) : NULL;
    if (!space || text.length > UINT16_MAX)
        return false;
    struct gguf_string left = {text.bytes, (size_t)(space - text.bytes)};
    struct gguf_string right = {space + 1, text.length - left.length - 1};
    size_t n_left = byte_level_decode(left, bytes);
    if (n_left == SIZE_MAX || n_left == 0)
        return false;
    size_t n_right = byte_level_decode(right, bytes + n_left);
    if (n_right == SIZE_MAX || n_right == 0)
        return false;
    merge->left = (uint16_t)n_left;
    merge->length = (uint16_t)(n_left + n_right);
    return true;
}

static bool known(const struct merges *merges, uint64_t hash, const struct merge *merge)
{
    uint64_t at = hash;
    for (uint32_t i; (i = table_next(&merges->table, hash, &at)) != VOCAB_NONE;) {
        const struct merge *other = &merges->items[i];
        if (other->left == merge->left && other->length == merge->length &&
            memcmp(merges->bytes + other->start, merges->bytes + merge->start, merge->length) == 0)
            return true;
    }
    return false;
}

/* Adds merges begin .. end - 1, whose texts begin at *next in the file.  Hashing a block before
 * inserting it lets the cache lines of the table come while the next texts are decoded. */
static bool read_block(struct merges *merges, uint32_t begin, uint32_t end, const uint8_t **next,
                       uint32_t *start, struct error *error)
{
    uint64_t hashes[BLOCK];
    for (uint32_t i = begin; i < end; i++) {
        struct merge *merge = &merges->items[i];
        struct gguf_string text = {(const char *)*next + 8, (size_t)load_u64(*next)};
        *next += 8 + text.length;
        if (!decode(text, merges->bytes + *start, merge))
            return error_set(error, STATUS_INPUT,
                             "key '%s': merge %u is not two byte-level texts: '%.*s'", key, i,
                             SHOW(text));
        merge->start = *start;
        *start += merge->length;
        if (merge->length > merges->longest)
            merges->longest = merge->length;
        uint64_t hash = hash_pair(merges->bytes + merge->start, merge->left, merge->length);
        __builtin_prefetch(&merges->table.slots[hash & merges->table.mask], 1);
        hashes[i - begin] = hash;
    }
    for (uint32_t i = begin; i < end; i++) /* of two that are the same the first counts */
        if (!known(merges, hashes[i - begin], &merges->items[i]))
            table_insert(&merges->table, hashes[i - begin], i);
    return true;
}

bool merges_read(struct merges *merges, const struct gguf *gguf, struct error *error)
{
    const struct gguf_value *array;
    enum gguf_answer answer = gguf_array(gguf, key, GGUF_STRING, &array, error);
    if (answer == GGUF_ABSENT)
        error_set(error, STATUS_INPUT, "key '%s' is missing", key);
    if (answer != GGUF_FOUND)
        return false;
    uint64_t total = 0;
    const uint8_t *next = array->data;
    for (uint64_t i = 0; i < array->count; i++) {
        total += load_u64(next);
        next += 8 + load_u64(next);
    }
    if (total > UINT32_MAX || array->count > INT32_MAX)
        return error_set(error, STATUS_INPUT, "key '%s': %llu merges of %llu bytes are too many",
                         key, (unsigned long long)array->count, (unsigned long long)total);
    uint32_t n = (uint32_t)array->count, start = 0;
    merges->bytes = allocate((size_t)total, 1);
    merges->items = allocate(n, sizeof *merges->items);
    table_make(&merges->table, n);
    next = array->data;
    for (uint32_t i = 0; i < n; i += BLOCK)
        if (!read_block(merges, i, n - i < BLOCK ? n : i + BLOCK, &next, &start, error))
            return false;
    return true;
}

void merges_free(struct merges *merges)
{
    free(merges->bytes);
    free(merges->items);
    free(merges->table.slots);
}
