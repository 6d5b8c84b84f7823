/* A model file, or all parts of a split one, opened and mapped. */
#include "gguf/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a file says about the split model that it is a part of; count is 1 for a whole model. */
struct split {
    uint32_t no, count, tensors;
};

static bool read_split(const struct gguf *gguf, struct split *split, struct error *error)
{
    *split = (struct split){0, 1, 0};
    enum gguf_answer count = gguf_u32(gguf, "split.count", &split->count, error);
    if (count == GGUF_WRONG)
        return false;
    if (count == GGUF_ABSENT || split->count == 1)
        return true;
    enum gguf_answer no = gguf_u32(gguf, "split.no", &split->no, error);
    if (no == GGUF_WRONG)
        return false;
    enum gguf_answer tensors = gguf_u32(gguf, "split.tensors.count", &split->tensors, error);
    if (tensors == GGUF_WRONG)
        return false;
    if (no == GGUF_ABSENT || tensors == GGUF_ABSENT)
        return error_set(error, STATUS_INPUT, "split.count is %u, but key '%s' is missing",
                         split->count, no == GGUF_ABSENT ? "split.no" : "split.tensors.count");
    if (split->count == 0 || split->count > 99999)
        return error_set(error, STATUS_INPUT, "key 'split.count': %u, expected 1 to 99999",
                         split->count);
    if (split->no >= split->count)
        return error_set(error, STATUS_INPUT, "key 'split.no': %u, but split.count is %u",
                         split->no, split->count);
    return true;
}

/* Writes the end of the name of a part, numbered from 0. */
static void part_suffix(char suffix[32], uint32_t no, uint32_t count)
{
    snprintf(suffix, 32, "-%05u-of-%05u.gguf", no + 1, count);
}

/* Maps and reads one file; the mapping stays open only on success. */
static bool open_file(struct gguf *gguf, struct mapping *mapping, const char *path,
                      struct error *error)
{
    if (!mapping_open(mapping, path, error))
        return false;
    if (gguf_parse(gguf, mapping->data, mapping->size, error))
        return true;
    mapping_close(mapping);
    return error_prefix(error, path);
}

/* Moves the tensors of a part to the whole. */
static void take_tensors(struct gguf *whole, struct gguf *part)
{
    size_t total = whole->n_tensors + part->n_tensors;
    whole->tensors = reallocate(whole->tensors, total, sizeof *whole->tensors);
    if (part->n_tensors)
        memcpy(whole->tensors + whole->n_tensors, part->tensors,
               part->n_tensors * sizeof *part->tensors);
    whole->n_tensors = total;
}

/* Opens part `no` and adds it; its values are those of the first part, or about the split only. */
static bool add_part(struct gguf *whole, const char *path, uint32_t no,
                     const struct split *expected, struct error *error)
{
    struct gguf part;
    struct mapping *mapping = &whole->parts[no];
    if (!open_file(&part, mapping, path, error))
        return false;
    whole->n_parts = no + 1;
    struct split split;
    bool good = read_split(&part, &split, error);
    if (good &&
        (split.no != no || split.count != expected->count || split.tensors != expected->tensors))
        good = error_set(error, STATUS_INPUT,
                         "says it is part %u of %u with %u tensors in all, expected part %u of %u "
                         "with %u",
                         split.no + 1, split.count, split.tensors, no + 1, expected->count,
                         expected->tensors);
    if (!good) {
        gguf_close(&part);
        return error_prefix(error, path);
    }
    if (no == 0) {
        whole->version = part.version;
        whole->values = part.values;
        whole->n_values = part.n_values;
        whole->values_by_key = part.values_by_key;
        part.values = NULL;
        part.values_by_key = NULL;
    }
    take_tensors(whole, &part);
    gguf_close(&part);
    return true;
}

/* Opens all parts, given the path of any and what that one says. */
static bool open_parts(struct gguf *whole, const char *path, const struct split *split,
                       struct error *error)
{
    char suffix[32];
    part_suffix(suffix, split->no, split->count);
    size_t length = strlen(path), end = strlen(suffix);
    if (length < end || strcmp(path + length - end, suffix) != 0)
        return error_set(error, STATUS_INPUT,
                         "%s: part %u of %u of a split model, but its name does not end in %s, so "
                         "the other parts cannot be found",
                         path, split->no + 1, split->count, suffix);
    whole->parts = allocate(split->count, sizeof *whole->parts);
    char *name = copy_string(path);
    bool good = true;
    for (uint32_t no = 0; no < split->count && good; no++) {
        part_suffix(suffix, no, split->count);
        memcpy(name + length - end, suffix, end);
        good = add_part(whole, name, no, split, error);
    }
    free(name);
    if (!good)
        return false;
    if (whole->n_tensors != split->tensors)
        return error_set(error, STATUS_INPUT,
                         "%s: the %u parts have %zu tensors, but split.tensors.count is %u", path,
                         split->count, whole->n_tensors, split->tensors);
    return gguf_index_tensors(whole, error) || error_prefix(error, path);
}

static bool open_whole(struct gguf *gguf, const char *path, struct error *error)
{
    struct mapping mapping;
    struct gguf file;
    struct split split;
    if (!open_file(&file, &mapping, path, error))
        return false;
    bool good = read_split(&file, &split, error) || error_prefix(error, path);
    if (good && split.count == 1) {
        file.path = gguf->path;
        *gguf = file;
        gguf->parts = allocate(1, sizeof *gguf->parts);
        gguf->parts[0] = mapping;
        gguf->n_parts = 1;
        return true;
    }
    /* The parts are opened in their order, this one among them. */
    gguf_close(&file);
    mapping_close(&mapping);
    return good && open_parts(gguf, path, &split, error);
}

struct gguf *gguf_open(const char *path, struct error *error)
{
    struct gguf *gguf = allocate(1, sizeof *gguf);
    gguf->path = copy_string(path);
    if (open_whole(gguf, path, error))
        return gguf;
    gguf_close(gguf);
    return NULL;
}

void gguf_close(struct gguf *gguf)
{
    if (!gguf)
        return;
    free(gguf->values);
    free(gguf->values_by_key);
    free(gguf->tensors);
    free(gguf->tensors_by_name);
    for (size_t i = 0; i < gguf->n_parts; i++)
        mapping_close(&gguf->parts[i]);
    free(gguf->parts);
    char *path = gguf->path;
    *gguf = (struct gguf){0};
    if (!path)
        return; /* the structure is the caller's */
    free(path);
    free(gguf);
}
