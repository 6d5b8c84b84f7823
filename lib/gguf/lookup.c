/* Values and tensors by name. */
#include "gguf/internal.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},     [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

const char *gguf_type_name(enum gguf_type type)
{
    return types[type].name;
}

size_t gguf_type_size(enum gguf_type type)
{
    return types[type].size;
}

bool gguf_alignment_valid(uint64_t alignment)
{
    return alignment >= 8 && (alignment & (alignment - 1)) == 0;
}

bool gguf_equal(struct gguf_string a, const char *b)
{
    size_t length = strlen(b);
    return a.length == length && memcmp(a.bytes, b, length) == 0;
}

/* ---- the index: pointers in the order of names --------------------------------------------- */

/* A hash table would do too, but a file could be made to collide; sorting has no worst case. */
static int compare_strings(struct gguf_string a, struct gguf_string b)
{
    size_t common = a.length < b.length ? a.length : b.length;
    int order = memcmp(a.bytes, b.bytes, common);
    if (order)
        return order;
    return a.length < b.length ? -1 : a.length > b.length;
}

static int compare_values(const void *a, const void *b)
{
    return compare_strings((*(const struct gguf_value *const *)a)->key,
                           (*(const struct gguf_value *const *)b)->key);
}

static int compare_tensors(const void *a, const void *b)
{
    return compare_strings((*(const struct gguf_tensor *const *)a)->name,
                           (*(const struct gguf_tensor *const *)b)->name);
}

bool gguf_index_values(struct gguf *gguf, struct error *error)
{
    const struct gguf_value **index = allocate(gguf->n_values, sizeof *index);
    gguf->values_by_key = index;
    for (size_t i = 0; i < gguf->n_values; i++)
        index[i] = &gguf->values[i];
    qsort(index, gguf->n_values, sizeof *index, compare_values);
    for (size_t i = 1; i < gguf->n_values; i++)
        if (compare_values(&index[i - 1], &index[i]) == 0)
            return error_set(error, STATUS_INPUT, "key '%.*s' occurs twice", SHOW(index[i]->key));
    return true;
}

bool gguf_index_tensors(struct gguf *gguf, struct error *error)
{
    const struct gguf_tensor **index = allocate(gguf->n_tensors, sizeof *index);
    free(gguf->tensors_by_name);
    gguf->tensors_by_name = index;
    for (size_t i = 0; i < gguf->n_tensors; i++)
        index[i] = &gguf->tensors[i];
    qsort(index, gguf->n_tensors, sizeof *index, compare_tensors);
    for (size_t i = 1; i < gguf->n_tensors; i++)
        if (compare_tensors(&index[i - 1], &index[i]) == 0)
            return error_set(error, STATUS_INPUT, "tensor '%.*s' occurs twice",
                             SHOW(index[i]->name));
    return true;
}

const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key)
{
    struct gguf_value wanted = {.key = {key, strlen(key)}};
    const struct gguf_value *pointer = &wanted;
    if (!gguf->n_values)
        return NULL;
    const struct gguf_value **found =
        bsearch(&pointer, gguf->values_by_key, gguf->n_values, sizeof pointer, compare_values);
    return found ? *found : NULL;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *gguf, const char *name)
{
    struct gguf_tensor wanted = {.name = {name, strlen(name)}};
    const struct gguf_tensor *pointer = &wanted;
    if (!gguf->n_tensors)
        return NULL;
    const struct gguf_tensor **found =
        bsearch(&pointer, gguf->tensors_by_name, gguf->n_tensors, sizeof pointer, compare_tensors);
    return found ? *found : NULL;
}

/* ---- typed look-ups ------------------------------------------------------------------------ */

static enum gguf_answer wrong_type(const struct gguf_value *value, const char *expected,
                                   struct error *error)
{
    bool array = value->type == GGUF_ARRAY;
    error_set(error, STATUS_INPUT, "key '%.*s': expected %s, found %s%s", SHOW(value->key),
              expected, array ? "array of " : "", gguf_type_name(value->element));
    return GGUF_WRONG;
}

/* The bits of an integer of any width, sign-extended; *negative tells how to read them. */
static bool load_integer(const struct gguf_value *value, uint64_t *bits, bool *negative)
{
    const uint8_t *data = value->data;
    int64_t number = 0;
    switch (value->type) {
    case GGUF_U8:
        number = data[0];
        break;
    case GGUF_I8:
        number = (int8_t)data[0];
        break;
    case GGUF_U16:
        number = load_u16(data);
        break;
    case GGUF_I16:
        number = (int16_t)load_u16(data);
        break;
    case GGUF_U32:
        number = load_u32(data);
        break;
    case GGUF_I32:
        number = (int32_t)load_u32(data);
        break;
    case GGUF_I64:
        number = (int64_t)load_u64(data);
        break;
    case GGUF_U64:
        *bits = load_u64(data), *negative = false;
        return true;
    default:
        return false;
    }
    *bits = (uint64_t)number;
    *negative = number < 0;
    return true;
}

enum gguf_answer gguf_u32(const struct gguf *gguf, const char *key, uint32_t *value,
                          struct error *error)
{
    const struct gguf_value *found = gguf_find(gguf, key);
    if (!found)
        return GGUF_ABSENT;
    uint64_t bits;
    bool negative;
    if (!load_integer(found, &bits, &negative))
        return wrong_type(found, "u32", error);
    if (negative)
        error_set(error, STATUS_INPUT, "key '%s': %lld is out of range, expected 0 to %u", key,
                  (long long)bits, UINT32_MAX);
    else if (bits > UINT32_MAX)
        error_set(error, STATUS_INPUT, "key '%s': %llu is out of range, expected 0 to %u", key,
                  (unsigned long long)bits, UINT32_MAX);
    if (negative || bits > UINT32_MAX)
        return GGUF_WRONG;
    *value = (uint32_t)bits;
    return GGUF_FOUND;
}

enum gguf_answer gguf_f32(const struct gguf *gguf, const char *key, float *value,
                          struct error *error)
{
    const struct gguf_value *found = gguf_find(gguf, key);
    if (!found)
        return GGUF_ABSENT;
    if (found->type == GGUF_F32) {
        *value = load_f32(found->data);
        return GGUF_FOUND;
    }
    if (found->type != GGUF_F64)
        return wrong_type(found, "f32", error);
    double number = load_f64(found->data);
    if (isfinite(number) && fabs(number) > (double)FLT_MAX) {
        error_set(error, STATUS_INPUT, "key '%s': %g is out of the range of f32", key, number);
        return GGUF_WRONG;
    }
    *value = (float)number;
    return GGUF_FOUND;
}

enum gguf_answer gguf_bool(const struct gguf *gguf, const char *key, bool *value,
                           struct error *error)
{
    const struct gguf_value *found = gguf_find(gguf, key);
    if (!found)
        return GGUF_ABSENT;
    if (found->type != GGUF_BOOL)
        return wrong_type(found, "bool", error);
    *value = found->data[0] != 0;
    return GGUF_FOUND;
}

enum gguf_answer gguf_text(const struct gguf *gguf, const char *key, struct gguf_string *value,
                           struct error *error)
{
    const struct gguf_value *found = gguf_find(gguf, key);
    if (!found)
        return GGUF_ABSENT;
    if (found->type != GGUF_STRING)
        return wrong_type(found, "string", error);
    *value = (struct gguf_string){(const char *)found->data + 8, (size_t)load_u64(found->data)};
    return GGUF_FOUND;
}

enum gguf_answer gguf_array(const struct gguf *gguf, const char *key, enum gguf_type element,
                            const struct gguf_value **value, struct error *error)
{
    const struct gguf_value *found = gguf_find(gguf, key);
    if (!found)
        return GGUF_ABSENT;
    if (found->type != GGUF_ARRAY || found->element != element) {
        error_set(error, STATUS_INPUT, "key '%s': expected array of %s, found %s%s", key,
                  gguf_type_name(element), found->type == GGUF_ARRAY ? "array of " : "",
                  gguf_type_name(found->element));
        return GGUF_WRONG;
    }
    *value = found;
    return GGUF_FOUND;
}

struct gguf_string *gguf_strings(const struct gguf_value *value)
{
    struct gguf_string *strings = allocate((size_t)value->count, sizeof *strings);
    const uint8_t *next = value->data;
    for (uint64_t i = 0; i < value->count; i++) {
        size_t length = (size_t)load_u64(next);
        strings[i] = (struct gguf_string){(const char *)next + 8, length};
        next += 8 + length;
    }
    return strings;
}
