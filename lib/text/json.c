#include "text/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_free(struct json *j)
{
    free(j->text);
    *j = (struct json){0};
}

void json_add(struct json *j, const char *text)
{
    size_t n = strlen(text);
    j->text = grow(j->text, &j->capacity, j->length + n + 1, 1);
    memcpy(j->text + j->length, text, n + 1);
    j->length += n;
}

void json_add_number(struct json *j, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.17g", value);
    json_add(j, isfinite(value) ? text : "null");
}

void json_add_integer(struct json *j, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    json_add(j, text);
}

bool json_add_string(struct json *j, const void *bytes, size_t length)
{
    static const char plain[] = "\n\t\r\b\f\\\"", letters[] = "ntrbf\\\"";
    const uint8_t *at = bytes;
    bool exact = true;
    json_add(j, "\"");
    for (size_t i = 0, n; i < length; i += n) {
        char form[8] = "\xef\xbf\xbd"; /* U+FFFD */
        n = text_character(at + i, length - i);
        const char *letter = n == 1 && at[i] ? strchr(plain, at[i]) : NULL;
        if (n == 0)
            exact = false;
        else if (letter)
            snprintf(form, sizeof form, "\\%c", letters[letter - plain]);
        else if (at[i] < 0x20 || at[i] == 0x7f)
            snprintf(form, sizeof form, "\\u%04x", at[i]);
        else {
            memcpy(form, at + i, n);
            form[n] = 0;
        }
        n += n == 0;
        json_add(j, form);
    }
    json_add(j, "\"");
    return exact;
}

void json_add_bytes(struct json *j, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        json_add(j, i ? "," : "[");
        json_add_integer(j, ((const uint8_t *)bytes)[i]);
    }
    json_add(j, length ? "]" : "[]");
}

void json_add_text(struct json *json, const void *bytes, size_t length)
{
    json_add(json, ",\"text\":");
    if (json_add_string(json, bytes, length))
        return;
    json_add(json, ",\"bytes\":");
    json_add_bytes(json, bytes, length);
}

void json_add_count(struct json *json, const char *before, uint64_t value)
{
    json_add(json, before);
    json_add_integer(json, value);
}
