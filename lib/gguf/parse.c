/* The header of a GGUF file in memory, checked before use. */
#include "gguf/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Real files have hundreds of keys and thousands of tensors.  The limits keep what a hostile file
 * can make us allocate far below 50 MB, whatever its size. */
enum {
    MAX_VALUES = 1 << 16,
    MAX_TENSORS = 1 << 17,
    MAX_NAME = 65535, /* the format's limit for keys */
    MIN_VALUE_BYTES = 8 + 1 + 4 + 1,
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8,
};

/* The part of the file that has not been read yet. */
struct cursor {
    const uint8_t *next;
    size_t left;
};

/* Returns the next `size` bytes and steps over them; NULL, with the error set, when the file is
 * shorter.  `what` names them. */
static const uint8_t *take(struct cursor *cursor, uint64_t size, const char *what,
                           struct error *error)
{
    if (size > cursor->left) {
        error_set(error, STATUS_INPUT, "%s needs %llu bytes, but the file has only %zu more", what,
                  (unsigned long long)size, cursor->left);
        return NULL;
    }
    const uint8_t *bytes = cursor->next;
    cursor->next += size;
    cursor->left -= (size_t)size;
    return bytes;
}

static bool take_u32(struct cursor *cursor, uint32_t *value, const char *what, struct error *error)
{
    const uint8_t *bytes = take(cursor, 4, what, error);
    if (bytes)
        *value = load_u32(bytes);
    return bytes != NULL;
}

static bool take_u64(struct cursor *cursor, uint64_t *value, const char *what, struct error *error)
{
    const uint8_t *bytes = take(cursor, 8, what, error);
    if (bytes)
        *value = load_u64(bytes);
    return bytes != NULL;
}

static bool take_string(struct cursor *cursor, struct gguf_string *string, const char *what,
                        struct error *error)
{
    uint64_t length;
    if (!take_u64(cursor, &length, what, error))
        return false;
    const uint8_t *bytes = take(cursor, length, what, error);
    if (!bytes)
        return false;
    *string = (struct gguf_string){(const char *)bytes, (size_t)length};
    return true;
}

/* A key or a tensor's name. */
static bool take_name(struct cursor *cursor, struct gguf_string *name, const char *what,
                      struct error *error)
{
    if (!take_string(cursor, name, what, error))
        return false;
    if (name->length == 0)
        return error_set(error, STATUS_INPUT, "%s is empty", what);
    if (name->length > MAX_NAME)
        return error_set(error, STATUS_INPUT, "%s is %zu bytes long, the limit is %d", what,
                         name->length, MAX_NAME);
    return true;
}

/* ---- metadata ------------------------------------------------------------------------------ */

static bool check_bools(const uint8_t *bytes, uint64_t count, struct error *error)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] > 1)
            return error_set(error, STATUS_INPUT, "a bool must be 0 or 1, found %u", bytes[i]);
    return true;
}

/* Steps over `count` values of one type that is not an array. */
static bool skip_values(struct cursor *cursor, enum gguf_type type, uint64_t count,
                        struct error *error)
{
    if (type == GGUF_STRING) {
        if (count > cursor->left / 8)
            return error_set(error, STATUS_INPUT,
                             "%llu strings cannot fit in the %zu bytes that are left",
                             (unsigned long long)count, cursor->left);
        struct gguf_string string;
        for (uint64_t i = 0; i < count; i++)
            if (!take_string(cursor, &string, "string", error))
                return false;
        return true;
    }
    size_t size = gguf_type_size(type);
    if (count > cursor->left / size)
        return error_set(error, STATUS_INPUT, "%llu %s cannot fit in the %zu bytes that are left",
                         (unsigned long long)count, gguf_type_name(type), cursor->left);
    const uint8_t *bytes = take(cursor, count * size, "value", error);
    return type != GGUF_BOOL || check_bools(bytes, count, error);
}

static bool take_type(struct cursor *cursor, enum gguf_type *type, const char *what,
                      struct error *error)
{
    uint32_t number;
    if (!take_u32(cursor, &number, what, error))
        return false;
    if (number > GGUF_F64)
        return error_set(error, STATUS_INPUT, "unknown %s %u", what, number);
    *type = (enum gguf_type)number;
    return true;
}

/* Reads what follows the key. */
static bool take_value(struct cursor *cursor, struct gguf_value *value, struct error *error)
{
    if (!take_type(cursor, &value->type, "value type", error))
        return false;
    value->element = value->type;
    value->count = 1;
    if (value->type == GGUF_ARRAY) {
        if (!take_type(cursor, &value->element, "array element type", error))
            return false;
        if (value->element == GGUF_ARRAY)
            return error_set(error, STATUS_INPUT, "arrays of arrays are not supported");
        if (!take_u64(cursor, &value->count, "array length", error))
            return false;
    }
    value->data = cursor->next;
    return skip_values(cursor, value->element, value->count, error);
}

static bool parse_values(struct gguf *gguf, struct cursor *cursor, uint64_t count,
                         struct error *error)
{
    size_t capacity = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct gguf_value value;
        char where[160];
        snprintf(where, sizeof where, "metadata entry %llu of %llu", (unsigned long long)i + 1,
                 (unsigned long long)count);
        if (!take_name(cursor, &value.key, "key", error))
            return error_prefix(error, where);
        snprintf(where, sizeof where, "key '%.*s'", SHOW(value.key));
        if (!take_value(cursor, &value, error))
            return error_prefix(error, where);
        gguf->values = grow(gguf->values, &capacity, gguf->n_values + 1, sizeof value);
        gguf->values[gguf->n_values++] = value;
    }
    return gguf_index_values(gguf, error);
}

/* ---- tensors ------------------------------------------------------------------------------- */

/* Reads dimensions and type, and computes how many bytes the tensor has. */
static bool take_shape(struct cursor *cursor, struct gguf_tensor *tensor, struct error *error)
{
    if (!take_u32(cursor, &tensor->n_dims, "number of dimensions", error))
        return false;
    if (tensor->n_dims < 1 || tensor->n_dims > GGUF_MAX_DIMS)
        return error_set(error, STATUS_INPUT, "%u dimensions, expected 1 to %d", tensor->n_dims,
                         GGUF_MAX_DIMS);
    uint64_t rows = 1;
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++)
        tensor->dims[i] = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        if (!take_u64(cursor, &tensor->dims[i], "dimension", error))
            return false;
        if (tensor->dims[i] == 0)
            return error_set(error, STATUS_INPUT, "dimension %u is 0", i);
        if (i > 0 && __builtin_mul_overflow(rows, tensor->dims[i], &rows))
            return error_set(error, STATUS_INPUT,
                             "the product of the dimensions overflows at "
                             "dimension %u, %llu",
                             i, (unsigned long long)tensor->dims[i]);
    }
    uint32_t type;
    if (!take_u32(cursor, &type, "tensor type", error))
        return false;
    tensor->type = tensor_type_facts(type);
    if (!tensor->type)
        return error_set(error, STATUS_INPUT, "tensor type %u is not supported", type);
    if (tensor->dims[0] % tensor->type->block_items)
        return error_set(
            error, STATUS_INPUT, "rows of %llu items are not whole blocks of %u, as type %s needs",
            (unsigned long long)tensor->dims[0], tensor->type->block_items, tensor->type->name);
    if (__builtin_mul_overflow(tensor->dims[0] / tensor->type->block_items,
                               (uint64_t)tensor->type->block_bytes, &tensor->bytes) ||
        __builtin_mul_overflow(tensor->bytes, rows, &tensor->bytes) || tensor->bytes > SIZE_MAX / 2)
        return error_set(error, STATUS_INPUT,
                         "the size in bytes overflows: dimension 0 is %llu, "
                         "with %llu rows",
                         (unsigned long long)tensor->dims[0], (unsigned long long)rows);
    return true;
}

/* Reads the tensors' descriptions; offsets[i] is where tensor i begins in the data section. */
static bool parse_tensors(struct gguf *gguf, struct cursor *cursor, uint64_t count,
                          uint64_t *offsets, struct error *error)
{
    for (uint64_t i = 0; i < count; i++) {
        struct gguf_tensor tensor = {0};
        char where[160];
        snprintf(where, sizeof where, "tensor %llu of %llu", (unsigned long long)i + 1,
                 (unsigned long long)count);
        if (!take_name(cursor, &tensor.name, "name", error))
            return error_prefix(error, where);
        snprintf(where, sizeof where, "tensor '%.*s'", SHOW(tensor.name));
        if (!take_shape(cursor, &tensor, error) ||
            !take_u64(cursor, &offsets[i], "data offset", error))
            return error_prefix(error, where);
        gguf->tensors[gguf->n_tensors++] = tensor;
    }
    return gguf_index_tensors(gguf, error);
}

/* By place in the file; empty data do not exist, so two equal places overlap. */
static int compare_data(const void *a, const void *b)
{
    const struct gguf_tensor *left = *(const struct gguf_tensor *const *)a;
    const struct gguf_tensor *right = *(const struct gguf_tensor *const *)b;
    return left->data < right->data ? -1 : left->data > right->data;
}

static bool check_overlap(const struct gguf *gguf, struct error *error)
{
    size_t n = gguf->n_tensors;
    const struct gguf_tensor **order = allocate(n, sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = &gguf->tensors[i];
    qsort(order, n, sizeof *order, compare_data);
    bool good = true;
    for (size_t i = 1; i < n && good; i++)
        if ((uint64_t)(order[i]->data - order[i - 1]->data) < order[i - 1]->bytes)
            good = error_set(error, STATUS_INPUT,
                             "tensor '%.*s': its data overlap those of tensor '%.*s'",
                             SHOW(order[i]->name), SHOW(order[i - 1]->name));
    free(order);
    return good;
}

/* Finds the tensors' data, which begin at the first multiple of the alignment after the header. */
static bool place_data(struct gguf *gguf, const uint8_t *bytes, size_t size, size_t header,
                       uint32_t alignment, const uint64_t *offsets, struct error *error)
{
    uint64_t start = ((uint64_t)header + alignment - 1) & ~((uint64_t)alignment - 1);
    uint64_t available = start < size ? size - start : 0;
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        struct gguf_tensor *tensor = &gguf->tensors[i];
        if (offsets[i] % alignment)
            return error_set(
                error, STATUS_INPUT,
                "tensor '%.*s': data offset %llu is not a multiple of the alignment, %u",
                SHOW(tensor->name), (unsigned long long)offsets[i], alignment);
        if (offsets[i] > available || tensor->bytes > available - offsets[i])
            return error_set(error, STATUS_INPUT,
                             "tensor '%.*s': %llu bytes at data offset %llu, but the file has only "
                             "%llu bytes of data (is it cut off?)",
                             SHOW(tensor->name), (unsigned long long)tensor->bytes,
                             (unsigned long long)offsets[i], (unsigned long long)available);
        tensor->data = bytes + start + offsets[i];
    }
    return check_overlap(gguf, error);
}

/* ---- the file ------------------------------------------------------------------------------ */

static bool check_magic(struct cursor *cursor, uint32_t *version, struct error *error)
{
    const uint8_t *magic = take(cursor, 4, "magic", error);
    if (!magic)
        return false;
    if (memcmp(magic, "FUGG", 4) == 0)
        return error_set(error, STATUS_INPUT, "a big-endian GGUF file is not supported");
    if (memcmp(magic, "lmgg", 4) == 0 || memcmp(magic, "tjgg", 4) == 0 ||
        memcmp(magic, "fmgg", 4) == 0 || memcmp(magic, "algg", 4) == 0)
        return error_set(error, STATUS_INPUT,
                         "a model in a format older than GGUF; it must be converted again");
    if (memcmp(magic, "GGUF", 4) != 0)
        return error_set(error, STATUS_INPUT,
                         "not a GGUF file: it begins with %02x %02x %02x %02x, not with GGUF",
                         magic[0], magic[1], magic[2], magic[3]);
    if (!take_u32(cursor, version, "version", error))
        return false;
    if (*version && (*version & 0xffff) == 0)
        return error_set(error, STATUS_INPUT,
                         "a big-endian GGUF file (version field 0x%08x) is not supported",
                         *version);
    if (*version != 2 && *version != 3)
        return error_set(error, STATUS_INPUT,
                         "GGUF version %u is not supported, only versions 2 and 3 are", *version);
    return true;
}

/* Reads a count and checks that so many items of at least `least` bytes can follow. */
static bool check_count(const struct cursor *cursor, uint64_t count, uint64_t least, uint64_t limit,
                        const char *what, struct error *error)
{
    if (count > cursor->left / least)
        return error_set(error, STATUS_INPUT, "%s %llu cannot fit in the %zu bytes that follow",
                         what, (unsigned long long)count, cursor->left);
    if (count > limit)
        return error_set(error, STATUS_INPUT, "%s %llu is over the limit of %llu", what,
                         (unsigned long long)count, (unsigned long long)limit);
    return true;
}

static bool parse_alignment(const struct gguf *gguf, uint32_t *alignment, struct error *error)
{
    *alignment = GGUF_ALIGNMENT;
    if (gguf_u32(gguf, "general.alignment", alignment, error) == GGUF_WRONG)
        return false;
    return gguf_alignment_valid(*alignment) ||
           error_set(
               error, STATUS_INPUT,
               "key 'general.alignment': must be a power of two and a multiple of 8, found %u",
               *alignment);
}

static bool parse(struct gguf *gguf, const uint8_t *bytes, size_t size, uint64_t **offsets,
                  struct error *error)
{
    struct cursor cursor = {bytes, size};
    uint64_t n_tensors, n_values;
    uint32_t alignment;
    if (!check_magic(&cursor, &gguf->version, error) ||
        !take_u64(&cursor, &n_tensors, "tensor count", error) ||
        !take_u64(&cursor, &n_values, "metadata count", error) ||
        !check_count(&cursor, n_values, MIN_VALUE_BYTES, MAX_VALUES, "metadata count", error) ||
        !check_count(&cursor, n_tensors, MIN_TENSOR_BYTES, MAX_TENSORS, "tensor count", error) ||
        !parse_values(gguf, &cursor, n_values, error) ||
        !parse_alignment(gguf, &alignment, error) ||
        !check_count(&cursor, n_tensors, MIN_TENSOR_BYTES, MAX_TENSORS, "tensor count", error))
        return false;
    *offsets = allocate((size_t)n_tensors, sizeof **offsets);
    gguf->tensors = allocate((size_t)n_tensors, sizeof *gguf->tensors);
    return parse_tensors(gguf, &cursor, n_tensors, *offsets, error) &&
           place_data(gguf, bytes, size, size - cursor.left, alignment, *offsets, error);
}

bool gguf_parse(struct gguf *gguf, const uint8_t *bytes, size_t size, struct error *error)
{
    *gguf = (struct gguf){0};
    uint64_t *offsets = NULL;
    bool good = parse(gguf, bytes, size, &offsets, error);
    free(offsets);
    if (!good)
        gguf_close(gguf);
    return good;
}

#ifdef UNROLL_FUZZ
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct gguf gguf;
    struct error error;
    if (gguf_parse(&gguf, bytes, size, &error)) {
        for (size_t i = 0; i < gguf.n_values; i++)
            if (gguf.values[i].element == GGUF_STRING)
                free(gguf_strings(&gguf.values[i]));
        gguf_close(&gguf);
    }
    return 0;
}
#endif
