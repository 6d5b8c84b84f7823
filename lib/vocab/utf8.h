/* UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef UNROLL_VOCAB_UTF8_H
#define UNROLL_VOCAB_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes of the character that begins here; 0 when there is no valid one.  length > 0. */
static inline size_t utf8_character(const uint8_t *bytes, size_t length)
{
    uint8_t lead = bytes[0];
    if (lead < 0x80)
        return 1;
    size_t size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead < 0xc2 || lead > 0xf4 || length < size)
        return 0;
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < low || bytes[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    return size;
}

/* Bytes of the longest valid beginning. */
static inline size_t utf8_valid(const uint8_t *bytes, size_t length)
{
    size_t at = 0, size;
    while (at < length) {
        uint64_t eight;
        if (length - at >= 8 &&
            (memcpy(&eight, bytes + at, 8), (eight & UINT64_C(0x8080808080808080)) == 0))
            at += 8;
        else if ((size = utf8_character(bytes + at, length - at)) != 0)
            at += size;
        else
            break;
    }
    return at;
}

#endif
