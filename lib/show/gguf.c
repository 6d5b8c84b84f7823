#include "show/show.h"
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

enum { ITEMS = 8, COLUMNS = 70 };

static void print_text(const struct show *show, struct gguf_string text)
{
    char *escaped = text_escape(text.bytes, text.length, show->everything ? 0 : COLUMNS);
    fprintf(show->out, "\"%s\"", escaped);
    free(escaped);
}

static size_t size_of(enum gguf_type type)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return sizes[type];
}

/* With as many digits as tell it from its neighbours. */
static void print_f32(FILE *out, float value)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    fputs(text, out);
}

static void print_number(FILE *out, enum gguf_type type, const uint8_t *data)
{
    switch (type) {
    case GGUF_U8:
        fprintf(out, "%u", data[0]);
        break;
    case GGUF_I8:
        fprintf(out, "%d", (int8_t)data[0]);
        break;
    case GGUF_U16:
        fprintf(out, "%u", load_u16(data));
        break;
    case GGUF_I16:
        fprintf(out, "%d", (int16_t)load_u16(data));
        break;
    case GGUF_U32:
        fprintf(out, "%u", load_u32(data));
        break;
    case GGUF_I32:
        fprintf(out, "%d", (int32_t)load_u32(data));
        break;
    case GGUF_F32:
        print_f32(out, load_f32(data));
        break;
    case GGUF_BOOL:
        fprintf(out, "%s", data[0] ? "true" : "false");
        break;
    case GGUF_U64:
        fprintf(out, "%llu", (unsigned long long)load_u64(data));
        break;
    case GGUF_I64:
        fprintf(out, "%lld", (long long)load_u64(data));
        break;
    case GGUF_F64:
        fprintf(out, "%.17g", load_f64(data));
        break;
    case GGUF_STRING:
    case GGUF_ARRAY:
        break;
    }
}

/* A string as it lies in the file: u64 length and the bytes (checked when the file was opened). */
static struct gguf_string stored_string(const uint8_t *data)
{
    return (struct gguf_string){(const char *)data + 8, (size_t)load_u64(data)};
}

static void print_array(const struct show *show, const struct gguf_value *value)
{
    uint64_t shown = show->everything || value->count <= ITEMS ? value->count : ITEMS;
    const uint8_t *at = value->data;
    if (value->element == GGUF_ARRAY) {
        fprintf(show->out, "%llu arrays", (unsigned long long)value->count);
        return;
    }
    for (uint64_t i = 0; i < shown; i++) {
        if (i)
            fputc(' ', show->out);
        if (value->element == GGUF_STRING) {
            struct gguf_string text = stored_string(at);
            print_text(show, text);
            at += 8 + text.length;
        } else {
            print_number(show->out, value->element, at);
            at += size_of(value->element);
        }
    }
    if (shown < value->count)
        fprintf(show->out, " ... (-v shows all %llu)", (unsigned long long)value->count);
}

static void print_value(const struct show *show, const struct gguf_value *value)
{
    char type[48];
    snprintf(type, sizeof type, value->type == GGUF_ARRAY ? "%s[%llu]" : "%s",
             gguf_type_name(value->type == GGUF_ARRAY ? value->element : value->type),
             (unsigned long long)value->count);
    char *key = text_escape(value->key.bytes, value->key.length, 0);
    fprintf(show->out, "  %-42s  %-12s  ", key, type);
    free(key);
    if (value->type == GGUF_ARRAY)
        print_array(show, value);
    else if (value->type == GGUF_STRING)
        print_text(show, stored_string(value->data));
    else
        print_number(show->out, value->type, value->data);
    fputc('\n', show->out);
}

static uint64_t n_weights(const struct gguf_tensor *tensor)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < tensor->n_dims; d++)
        n *= tensor->dims[d];
    return n;
}

static void print_tensor(const struct show *show, const struct gguf_tensor *tensor)
{
    char shape[96] = "";
    size_t length = 0;
    for (uint32_t d = 0; d < tensor->n_dims; d++)
        length += (size_t)snprintf(shape + length, sizeof shape - length, "%s%llu", d ? " x " : "",
                                   (unsigned long long)tensor->dims[d]);
    char *name = text_escape(tensor->name.bytes, tensor->name.length, 0);
    fprintf(show->out, "  %-36s  %-7s  %16s  %12llu bytes\n", name, tensor->type->name, shape,
            (unsigned long long)tensor->bytes);
    free(name);
}

static void print_total(FILE *out, const char *name, size_t n, uint64_t weights, uint64_t bytes)
{
    if (n)
        fprintf(out, "  %-8s %6zu tensors %14llu weights %14llu bytes  %6.3f bits a weight\n", name,
                n, (unsigned long long)weights, (unsigned long long)bytes,
                weights ? 8.0 * (double)bytes / (double)weights : 0.0);
}

/* One line for each type, by its number, and one for all. */
static void print_totals(const struct show *show, const struct gguf *gguf)
{
    uint64_t all_weights = 0, all_bytes = 0;
    for (uint32_t type = 0; type < 256; type++) {
        const struct tensor_type_facts *facts = tensor_type_facts(type);
        uint64_t weights = 0, bytes = 0;
        size_t n = 0;
        for (size_t i = 0; facts && i < gguf->n_tensors; i++) {
            const struct gguf_tensor *tensor = &gguf->tensors[i];
            if (tensor->type != facts)
                continue;
            n++;
            weights += n_weights(tensor);
            bytes += tensor->bytes;
        }
        if (facts)
            print_total(show->out, facts->name, n, weights, bytes);
        all_weights += weights;
        all_bytes += bytes;
    }
    print_total(show->out, "all", gguf->n_tensors, all_weights, all_bytes);
}

void show_gguf(struct show *show, const struct gguf *gguf)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < gguf->n_parts; i++)
        bytes += gguf->parts[i].size;
    fprintf(show->out, "GGUF version %u, %zu values, %zu tensors, %zu %s, %llu bytes\n",
            gguf->version, gguf->n_values, gguf->n_tensors, gguf->n_parts,
            gguf->n_parts == 1 ? "file" : "files", (unsigned long long)bytes);
    fprintf(show->out, "values\n");
    for (size_t i = 0; i < gguf->n_values; i++)
        print_value(show, &gguf->values[i]);
    fprintf(show->out, "tensors\n");
    for (size_t i = 0; i < gguf->n_tensors; i++)
        print_tensor(show, &gguf->tensors[i]);
    fprintf(show->out, "totals\n");
    print_totals(show, gguf);
}
