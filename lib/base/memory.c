#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t product(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - 64)
        die(STATUS_SYSTEM, "out of memory: %zu items of %zu bytes", count, size);
    return bytes ? bytes : 1;
}

void *allocate(size_t count, size_t size)
{
    size_t bytes = product(count, size);
    void *memory = calloc(1, bytes);
    if (!memory)
        die(STATUS_SYSTEM, "out of memory: %zu bytes", bytes);
    return memory;
}

void *allocate_aligned(size_t count, size_t size)
{
    size_t bytes = (product(count, size) + 63) / 64 * 64;
    void *memory = aligned_alloc(64, bytes);
    if (!memory)
        die(STATUS_SYSTEM, "out of memory: %zu bytes", bytes);
    return memset(memory, 0, bytes);
}

void *reallocate(void *memory, size_t count, size_t size)
{
    size_t bytes = product(count, size);
    memory = realloc(memory, bytes);
    if (!memory)
        die(STATUS_SYSTEM, "out of memory: %zu bytes", bytes);
    return memory;
}

char *copy_string(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(allocate(size, 1), text, size);
}

void *grow(void *array, size_t *capacity, size_t needed, size_t size)
{
    if (needed <= *capacity)
        return array;
    size_t more = *capacity < 8 ? 8 : *capacity;
    while (more < needed)
        more = more > SIZE_MAX / 2 ? needed : more * 2;
    array = reallocate(array, more, size);
    *capacity = more;
    return array;
}
