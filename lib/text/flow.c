#include "text/text.h"

#include <stdlib.h>
#include <string.h>

void text_flow_free(struct text_flow *f)
{
    free(f->bytes);
    free(f->ends);
    *f = (struct text_flow){0};
}

void text_flow_add(struct text_flow *f, const void *bytes, size_t length, bool held)
{
    if (f->begin && f->length)
        memmove(f->bytes, f->bytes + f->begin, f->length);
    f->begin = 0;
    f->bytes = grow(f->bytes, &f->capacity, f->length + length, 1);
    if (length)
        memcpy(f->bytes + f->length, bytes, length);
    f->length += length;
    f->ends = grow(f->ends, &f->ends_capacity, f->n_tokens + 1, sizeof *f->ends);
    f->ends[f->n_tokens++] = f->taken + f->length;
    if (!held)
        f->ready = f->length - (f->raw || !f->length ? 0 : text_incomplete(f->bytes, f->length));
}

void text_flow_end(struct text_flow *f, uint32_t trim)
{
    f->length -= trim < f->length ? trim : f->length;
    f->ready = f->length;
}

bool text_flow_cut(struct text_flow *f, size_t n_tokens, struct error *error)
{
    uint64_t end = n_tokens ? f->ends[n_tokens - 1] : 0;
    if (end < f->taken)
        return error_set(error, STATUS_INPUT,
                         "%llu bytes are to be taken back that were shown already",
                         (unsigned long long)(f->taken - end));
    f->n_tokens = n_tokens;
    if (f->length > end - f->taken)
        f->length = (size_t)(end - f->taken);
    f->ready = f->ready < f->length ? f->ready : f->length;
    return true;
}

size_t text_flow_take(struct text_flow *f, const uint8_t **bytes)
{
    size_t n = f->ready;
    *bytes = n ? f->bytes + f->begin : (const uint8_t *)"";
    f->begin += n;
    f->taken += n;
    f->length -= n;
    f->ready = 0;
    return n;
}
