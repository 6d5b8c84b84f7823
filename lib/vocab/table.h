/* An open-addressing hash table from bytes to indices.  It holds no bytes: whoever looks up
 * compares them, so this is a hash function, a walk, and an insertion. */
#ifndef UNROLL_VOCAB_TABLE_H
#define UNROLL_VOCAB_TABLE_H

#include "vocab/internal.h"

#include <string.h>

/* Most keys are shorter than eight bytes; those are read in one or two overlapping pieces. */
static inline uint64_t hash_bytes(const uint8_t *bytes, size_t length)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = length * odd, word = 0;
    while (length > 8) {
        memcpy(&word, bytes, 8);
        hash = (hash ^ word) * odd;
        hash ^= hash >> 29;
        bytes += 8;
        length -= 8;
    }
    if (length >= 4) {
        uint32_t first, last;
        memcpy(&first, bytes, 4);
        memcpy(&last, bytes + length - 4, 4);
        word = (uint64_t)first << 32 | last;
    } else if (length) {
        word = (uint64_t)bytes[0] << 16 | (uint64_t)bytes[length / 2] << 8 | bytes[length - 1];
    }
    hash = (hash ^ word) * odd;
    hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 32;
}

/* A key of two parts: their bytes are adjacent, `left` of them belong to the first. */
static inline uint64_t hash_pair(const uint8_t *bytes, size_t left, size_t length)
{
    return (hash_bytes(bytes, length) ^ left) * UINT64_C(0x9fb21c651e98df25);
}

/* Room for `count` entries, at most two thirds full. */
static inline void table_make(struct table *table, size_t count)
{
    uint64_t size = 16;
    while (2 * size < 3 * (uint64_t)count)
        size *= 2;
    table->slots = allocate((size_t)size, sizeof *table->slots);
    table->mask = size - 1;
}

/* Walks over the indices whose hash may be the same: start with at = hash, `at` moves on.
 * VOCAB_NONE ends the walk. */
static inline uint32_t table_next(const struct table *table, uint64_t hash, uint64_t *at)
{
    for (;;) {
        uint64_t slot = table->slots[(*at)++ & table->mask];
        if (!slot)
            return VOCAB_NONE;
        if (slot >> 32 == hash >> 32)
            return (uint32_t)slot - 1;
    }
}

static inline void table_insert(struct table *table, uint64_t hash, uint32_t index)
{
    uint64_t at = hash;
    while (table->slots[at & table->mask])
        at++;
    table->slots[at & table->mask] = hash >> 32 << 32 | (index + 1);
}

#endif
