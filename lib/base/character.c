/* Characters of UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
#include "base/base.h"

size_t character_length(uint8_t first)
{
    return first >= 0xc2 && first < 0xe0   ? 2
           : first >= 0xe0 && first < 0xf0 ? 3
           : first >= 0xf0 && first < 0xf5 ? 4
                                           : 1;
}

size_t character_decode(const uint8_t *bytes, size_t length, uint32_t *code)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (length == 0)
        return 0;
    size_t n = character_length(bytes[0]);
    if (n > length || (n == 1 && bytes[0] >= 0x80))
        return 0;
    *code = n == 1 ? bytes[0] : bytes[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (bytes[i] & 0x3f);
    }
    bool surrogate = *code >= 0xd800 && *code < 0xe000;
    return *code < least[n] || *code > 0x10ffff || surrogate ? 0 : n;
}

bool character_is_plain(uint32_t code)
{
    return code >= 0x20 && !(code >= 0x7f && code < 0xa1) && code != 0xad && code != 0x61c &&
           !(code >= 0x200b && code < 0x2010) && !(code >= 0x2028 && code < 0x2030) &&
           !(code >= 0x2060 && code < 0x2070) && code != 0xfeff &&
           !(code >= 0xfff0 && code < 0xfffd) && (code & 0xfffe) != 0xfffe && code < 0xe0000;
}
