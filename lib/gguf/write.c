/* Writing a GGUF file, version 3. */
#include "gguf/internal.h"

#include <stdlib.h>
#include <string.h>

struct buffer {
    uint8_t *bytes;
    size_t size, capacity;
};

struct entry {
    char *key;
    struct buffer value; /* as stored: type, then the value */
};

struct planned {
    char *name;
    const struct tensor_type_facts *type;
    uint32_t n_dims;
    uint64_t dims[GGUF_MAX_DIMS];
    uint64_t bytes;
};

struct gguf_writer {
    struct entry *entries;
    size_t n_entries, entry_capacity;
    struct planned *tensors;
    size_t n_tensors, tensor_capacity;
    uint64_t alignment;
    size_t current;   /* the tensor whose data come next */
    uint64_t written; /* of its data */
};

struct gguf_writer *gguf_writer_new(void)
{
    struct gguf_writer *writer = allocate(1, sizeof *writer);
    writer->alignment = GGUF_ALIGNMENT;
    return writer;
}

void gguf_writer_free(struct gguf_writer *writer)
{
    if (!writer)
        return;
    for (size_t i = 0; i < writer->n_entries; i++) {
        free(writer->entries[i].key);
        free(writer->entries[i].value.bytes);
    }
    for (size_t i = 0; i < writer->n_tensors; i++)
        free(writer->tensors[i].name);
    free(writer->entries);
    free(writer->tensors);
    free(writer);
}

/* ---- encoding ------------------------------------------------------------------------------ */

static void put_bytes(struct buffer *buffer, const void *bytes, size_t size)
{
    if (!size)
        return;
    buffer->bytes = grow(buffer->bytes, &buffer->capacity, buffer->size + size, 1);
    memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
}

static void put_u32(struct buffer *buffer, uint32_t value)
{
    uint8_t bytes[4];
    store_u32(bytes, value);
    put_bytes(buffer, bytes, sizeof bytes);
}

static void put_u64(struct buffer *buffer, uint64_t value)
{
    uint8_t bytes[8];
    store_u64(bytes, value);
    put_bytes(buffer, bytes, sizeof bytes);
}

static void put_string(struct buffer *buffer, const char *bytes, size_t length)
{
    put_u64(buffer, length);
    put_bytes(buffer, bytes, length);
}

/* One number in native layout, to little-endian. */
static void put_number(struct buffer *buffer, enum gguf_type type, const void *item)
{
    uint16_t half;
    uint32_t word;
    uint64_t both;
    switch (gguf_type_size(type)) {
    case 1:
        put_bytes(buffer, item, 1);
        break;
    case 2:
        memcpy(&half, item, 2);
        put_bytes(buffer, (uint8_t[]){(uint8_t)half, (uint8_t)(half >> 8)}, 2);
        break;
    case 4:
        memcpy(&word, item, 4), put_u32(buffer, word);
        break;
    case 8:
        memcpy(&both, item, 8), put_u64(buffer, both);
        break;
    default:
        die(STATUS_SYSTEM, "a GGUF array of %s cannot be written", gguf_type_name(type));
    }
}

/* ---- metadata ------------------------------------------------------------------------------ */

/* The buffer for the value of a key, with its type in it; a value given before is dropped. */
static struct buffer *start_value(struct gguf_writer *writer, const char *key, size_t length,
                                  enum gguf_type type)
{
    struct entry *entry = NULL;
    for (size_t i = 0; i < writer->n_entries && !entry; i++)
        if (gguf_equal((struct gguf_string){key, length}, writer->entries[i].key))
            entry = &writer->entries[i];
    if (!entry) {
        writer->entries = grow(writer->entries, &writer->entry_capacity, writer->n_entries + 1,
                               sizeof *writer->entries);
        entry = &writer->entries[writer->n_entries++];
        *entry = (struct entry){.key = allocate(length + 1, 1)};
        memcpy(entry->key, key, length);
    }
    entry->value.size = 0;
    put_u32(&entry->value, type);
    return &entry->value;
}

static void set_alignment(struct gguf_writer *writer, uint64_t alignment)
{
    if (!gguf_alignment_valid(alignment))
        die(STATUS_SYSTEM, "GGUF alignment %llu is not valid", (unsigned long long)alignment);
    writer->alignment = alignment;
}

void gguf_write_u32(struct gguf_writer *writer, const char *key, uint32_t value)
{
    if (strcmp(key, "general.alignment") == 0)
        set_alignment(writer, value);
    put_u32(start_value(writer, key, strlen(key), GGUF_U32), value);
}

void gguf_write_f32(struct gguf_writer *writer, const char *key, float value)
{
    put_number(start_value(writer, key, strlen(key), GGUF_F32), GGUF_F32, &value);
}

void gguf_write_bool(struct gguf_writer *writer, const char *key, bool value)
{
    uint8_t byte = value;
    put_bytes(start_value(writer, key, strlen(key), GGUF_BOOL), &byte, 1);
}

void gguf_write_text(struct gguf_writer *writer, const char *key, const char *bytes, size_t length)
{
    put_string(start_value(writer, key, strlen(key), GGUF_STRING), bytes, length);
}

static struct buffer *start_array(struct gguf_writer *writer, const char *key,
                                  enum gguf_type element, uint64_t count)
{
    struct buffer *buffer = start_value(writer, key, strlen(key), GGUF_ARRAY);
    put_u32(buffer, element);
    put_u64(buffer, count);
    return buffer;
}

void gguf_write_array(struct gguf_writer *writer, const char *key, enum gguf_type element,
                      const void *items, uint64_t count)
{
    struct buffer *buffer = start_array(writer, key, element, count);
    const uint8_t *item = items;
    for (uint64_t i = 0; i < count; i++, item += gguf_type_size(element))
        put_number(buffer, element, item);
}

void gguf_write_strings(struct gguf_writer *writer, const char *key,
                        const struct gguf_string *items, uint64_t count)
{
    struct buffer *buffer = start_array(writer, key, GGUF_STRING, count);
    for (uint64_t i = 0; i < count; i++)
        put_string(buffer, items[i].bytes, items[i].length);
}

void gguf_write_value(struct gguf_writer *writer, const struct gguf_value *value)
{
    if (gguf_equal(value->key, "general.alignment"))
        set_alignment(writer, value->type == GGUF_U32 ? load_u32(value->data) : 0);
    struct buffer *buffer = start_value(writer, value->key.bytes, value->key.length, value->type);
    if (value->type == GGUF_ARRAY) {
        put_u32(buffer, value->element);
        put_u64(buffer, value->count);
    }
    if (value->element != GGUF_STRING) {
        put_bytes(buffer, value->data, (size_t)value->count * gguf_type_size(value->element));
        return;
    }
    struct gguf_string *strings = gguf_strings(value);
    for (uint64_t i = 0; i < value->count; i++)
        put_string(buffer, strings[i].bytes, strings[i].length);
    free(strings);
}

/* ---- tensors ------------------------------------------------------------------------------- */

static uint64_t aligned(const struct gguf_writer *writer, uint64_t size)
{
    return (size + writer->alignment - 1) / writer->alignment * writer->alignment;
}

void gguf_write_tensor(struct gguf_writer *writer, const char *name, uint32_t type, uint32_t n_dims,
                       const uint64_t *dims)
{
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    if (!facts || n_dims < 1 || n_dims > GGUF_MAX_DIMS || dims[0] % facts->block_items)
        die(STATUS_SYSTEM, "tensor '%s' of type %u with %u dimensions cannot be written", name,
            type, n_dims);
    writer->tensors = grow(writer->tensors, &writer->tensor_capacity, writer->n_tensors + 1,
                           sizeof *writer->tensors);
    struct planned *tensor = &writer->tensors[writer->n_tensors++];
    *tensor = (struct planned){.name = copy_string(name), .type = facts, .n_dims = n_dims};
    tensor->bytes = dims[0] / facts->block_items * facts->block_bytes;
    for (uint32_t i = 0; i < n_dims; i++)
        tensor->dims[i] = dims[i];
    for (uint32_t i = 1; i < n_dims; i++)
        tensor->bytes *= dims[i];
}

static void pad(const struct gguf_writer *writer, struct output *output, uint64_t size)
{
    static const uint8_t zeros[64];
    for (uint64_t left = aligned(writer, size) - size; left;) {
        size_t piece = left < sizeof zeros ? (size_t)left : sizeof zeros;
        output_write(output, zeros, piece);
        left -= piece;
    }
}

void gguf_write_header(struct gguf_writer *writer, struct output *output)
{
    struct buffer header = {0};
    put_bytes(&header, "GGUF", 4);
    put_u32(&header, 3);
    put_u64(&header, writer->n_tensors);
    put_u64(&header, writer->n_entries);
    for (size_t i = 0; i < writer->n_entries; i++) {
        const struct entry *entry = &writer->entries[i];
        put_string(&header, entry->key, strlen(entry->key));
        put_bytes(&header, entry->value.bytes, entry->value.size);
    }
    uint64_t offset = 0;
    for (size_t i = 0; i < writer->n_tensors; i++) {
        const struct planned *tensor = &writer->tensors[i];
        put_string(&header, tensor->name, strlen(tensor->name));
        put_u32(&header, tensor->n_dims);
        for (uint32_t d = 0; d < tensor->n_dims; d++)
            put_u64(&header, tensor->dims[d]);
        put_u32(&header, tensor->type->type);
        put_u64(&header, offset);
        offset += aligned(writer, tensor->bytes);
    }
    output_write(output, header.bytes, header.size);
    pad(writer, output, header.size);
    free(header.bytes);
}

void gguf_write_data(struct gguf_writer *writer, struct output *output, const void *data,
                     size_t bytes)
{
    if (writer->current == writer->n_tensors)
        die(STATUS_SYSTEM, "more tensor data than the %zu tensors announced", writer->n_tensors);
    const struct planned *tensor = &writer->tensors[writer->current];
    if (bytes > tensor->bytes - writer->written)
        die(STATUS_SYSTEM, "tensor '%s': more data than the %llu bytes announced", tensor->name,
            (unsigned long long)tensor->bytes);
    output_write(output, data, bytes);
    writer->written += bytes;
    if (writer->written < tensor->bytes)
        return;
    pad(writer, output, tensor->bytes);
    writer->current++;
    writer->written = 0;
}
