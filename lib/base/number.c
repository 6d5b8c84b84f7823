#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The digits after an optional sign, and their base: strtoll alone would take white space, '+', and
 * a leading 0 for octal. */
static int base_of(const char *digits)
{
    if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
        return isxdigit((unsigned char)digits[2]) ? 16 : 0;
    return isdigit((unsigned char)digits[0]) ? 10 : 0;
}

bool parse_integer(const char *text, int64_t low, int64_t high, int64_t *value)
{
    int base = base_of(text + (text[0] == '-'));
    if (!base)
        return false;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, base);
    if (*end || errno || number < low || number > high)
        return false;
    *value = number;
    return true;
}

bool parse_unsigned(const char *text, uint64_t high, uint64_t *value)
{
    int base = base_of(text);
    if (!base)
        return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, base);
    if (*end || errno || number > high)
        return false;
    *value = number;
    return true;
}

bool parse_real(const char *text, double low, double high, double *value)
{
    const char *digits = text + (text[0] == '-');
    if (!isdigit((unsigned char)digits[0]) && digits[0] != '.' && strcmp(digits, "inf"))
        return false;
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || isnan(number) || number < low || number > high)
        return false;
    *value = number;
    return true;
}

uint16_t load_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

uint32_t load_u32(const uint8_t *bytes)
{
    return load_u16(bytes) | (uint32_t)load_u16(bytes + 2) << 16;
}

uint64_t load_u64(const uint8_t *bytes)
{
    return load_u32(bytes) | (uint64_t)load_u32(bytes + 4) << 32;
}

void store_u16(uint8_t *bytes, uint16_t value)
{
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
}

void store_u32(uint8_t *bytes, uint32_t value)
{
    store_u16(bytes, (uint16_t)value);
    store_u16(bytes + 2, (uint16_t)(value >> 16));
}

void store_u64(uint8_t *bytes, uint64_t value)
{
    store_u32(bytes, (uint32_t)value);
    store_u32(bytes + 4, (uint32_t)(value >> 32));
}

static float f32_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float load_f32(const uint8_t *bytes)
{
    return f32_of(load_u32(bytes));
}

double load_f64(const uint8_t *bytes)
{
    uint64_t bits = load_u64(bytes);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void store_f32(uint8_t *bytes, float value)
{
    store_u32(bytes, bits_of(value));
}

void store_f64(uint8_t *bytes, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    store_u64(bytes, bits);
}

float f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest >= 0x7c00) /* infinity and NaN (made quiet, as the instruction does) */
        return f32_of(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000 : 0));
    if (rest < 0x400) /* subnormal: rest * 2^-24, exact */
        return f32_of(sign | bits_of((float)rest * 0x1p-24f));
    return f32_of(sign | ((rest << 13) + 0x38000000));
}

uint16_t f32_to_f16(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) { /* below 2^-14: adding 0.5 aligns and rounds to a multiple of 2^-24 */
        float aligned = f32_of(rest) + 0.5f;
        return (uint16_t)(sign | (bits_of(aligned) - 0x3f000000));
    }
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | (rest - 0x38000000) >> 13);
}

float bf16_to_f32(uint16_t half)
{
    return f32_of((uint32_t)half << 16);
}

uint16_t f32_to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
