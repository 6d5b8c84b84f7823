#include "base/base.h"

#include <libdeflate.h>

/* libdeflate's routine gives zlib's crc32 at ten times its speed (carry-less multiplication). */
uint32_t crc32_update(uint32_t crc, const void *bytes, size_t size)
{
    return size ? libdeflate_crc32(crc, bytes, size) : crc;
}
