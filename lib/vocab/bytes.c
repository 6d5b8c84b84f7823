/* The byte-level alphabet of GPT-2 (Radford et al. 2019, bytes_to_unicode in its encoder.py): every
 * byte is written as a printable character.  33-126, 161-172 and 174-255 stand for themselves; the
 * other 68 bytes, in order, are U+0100 and the characters after it. */
#include "vocab/internal.h"

static bool stands_for_itself(unsigned character)
{
    return (character >= 33 && character <= 126) || (character >= 161 && character <= 172) ||
           (character >= 174 && character <= 255);
}

/* The byte of U+0100 + index: the index-th one that does not stand for itself. */
static const uint8_t moved[68] = {
    0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,  16,
    17,  18,  19,  20,  21,  22,  23,  24,  25,  26,  27,  28,  29,  30,  31,  32,  127,
    128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141, 142, 143, 144,
    145, 146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 173};

size_t byte_level_decode(struct gguf_string text, uint8_t *bytes)
{
    const uint8_t *in = (const uint8_t *)text.bytes, *end = in + text.length;
    uint8_t *out = bytes;
    while (in < end) {
        if (*in >= 33 && *in <= 126) {
            *out++ = *in++;
            continue;
        }
        if (end - in < 2 || *in < 0xc2 || *in > 0xc5 || (in[1] & 0xc0) != 0x80)
            return SIZE_MAX;
        unsigned character = (unsigned)(*in & 0x1f) << 6 | (in[1] & 0x3f);
        if (character >= 256 + sizeof moved || (character < 256 && !stands_for_itself(character)))
            return SIZE_MAX;
        *out++ = character < 256 ? (uint8_t)character : moved[character - 256];
        in += 2;
    }
    return (size_t)(out - bytes);
}
