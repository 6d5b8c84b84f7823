#include "text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

size_t text_incomplete(const uint8_t *bytes, size_t length)
{
    for (size_t n = 1; n <= 3 && n <= length; n++) {
        uint8_t byte = bytes[length - n];
        if (!continues(byte))
            return character_length(byte) > n ? n : 0;
    }
    return 0;
}

size_t text_character(const uint8_t *bytes, size_t length)
{
    uint32_t code;
    return character_decode(bytes, length, &code);
}

char *text_escape(const void *bytes, size_t length, size_t limit)
{
    static const char plain[] = "\n\t\r\\\"", letters[] = "ntr\\\"";
    const uint8_t *at = bytes;
    if (limit && length > 4 * (limit + 1))
        length = 4 * (limit + 1); /* this many bytes pass the limit */
    char *out = allocate(4 * length + 4, 1), *end = out, *cut = out; /* cut: where "..." would go */
    size_t columns = 0;
    for (size_t i = 0; i < length;) {
        uint32_t code = 0;
        size_t n = character_decode(at + i, length - i, &code), width = 1;
        const char *escape = n == 1 && code ? strchr(plain, (int)code) : NULL;
        char form[8];
        if (escape) {
            width = (size_t)snprintf(form, sizeof form, "\\%c", letters[escape - plain]);
        } else if (n && character_is_plain(code)) {
            memcpy(form, at + i, n);
            form[n] = 0;
        } else {
            n = 1;
            width = (size_t)snprintf(form, sizeof form, "\\x%02x", at[i]);
        }
        if (limit && columns + width > limit) {
            memcpy(cut, "...", 4);
            return out;
        }
        columns += width;
        i += n;
        end = stpcpy(end, form);
        if (columns + 3 <= limit)
            cut = end;
    }
    return out;
}

size_t text_columns(const char *escaped)
{
    size_t columns = 0;
    for (; *escaped; escaped++)
        columns += !continues((uint8_t)*escaped);
    return columns;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool text_unescape(const char *escaped, size_t size, char *bytes, size_t *length)
{
    static const char letters[] = "ntr\\\"", plain[] = "\n\t\r\\\"";
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (escaped[i] != '\\') {
            bytes[n++] = escaped[i];
            continue;
        }
        const char *letter =
            i + 1 < size && escaped[i + 1] ? strchr(letters, escaped[i + 1]) : NULL;
        if (letter) {
            bytes[n++] = plain[letter - letters];
            i++;
            continue;
        }
        bool hexadecimal = i + 3 < size && escaped[i + 1] == 'x' && digit_of(escaped[i + 2]) >= 0 &&
                           digit_of(escaped[i + 3]) >= 0;
        if (!hexadecimal)
            return false;
        bytes[n++] = (char)(digit_of(escaped[i + 2]) * 16 + digit_of(escaped[i + 3]));
        i += 3;
    }
    *length = n;
    return true;
}
