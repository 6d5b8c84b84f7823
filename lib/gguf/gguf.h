/* gguf: the model file, read and written.  Format: GGUF versions 2 and 3, little-endian,
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */
#ifndef UNROLL_GGUF_H
#define UNROLL_GGUF_H

#include "base/base.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
};

/* Bytes in the mapped file; not terminated, any byte may occur. */
struct gguf_string {
    const char *bytes;
    size_t length;
};
struct gguf_value {
    struct gguf_string key;
    enum gguf_type type;
    enum gguf_type element; /* of an array */
    uint64_t count;         /* of an array */
    const uint8_t *data;    /* first byte of the value, or of the first element */
};
struct gguf_tensor {
    struct gguf_string name;
    const struct tensor_type_facts *type;
    uint32_t n_dims;
    uint64_t dims[4]; /* dims[0] is the fastest, the row's length; unused ones are 1 */
    const uint8_t *data;
    uint64_t bytes;
};
struct gguf {
    char *path; /* as it was given to gguf_open; NULL after gguf_parse */
    uint32_t version;
    size_t n_values;
    struct gguf_value *values;
    size_t n_tensors;
    struct gguf_tensor *tensors;
    struct mapping *parts; /* more than one for a split model */
    size_t n_parts;
    const struct gguf_value **values_by_key; /* for the look-ups */
    const struct gguf_tensor **tensors_by_name;
};

/* Reads the header of one file that lies in memory.  A pure function of the bytes, which must
 * outlive the result: every count, length, type, dimension, offset and alignment is checked
 * against them before use, time and memory are bounded by `size`; the error names the key or
 * tensor, what was expected and what was found.  Tensor data are not read.  On success release with
 * gguf_close. */
bool gguf_parse(struct gguf *gguf, const uint8_t *bytes, size_t size, struct error *error);

/* Opens a file, mapped read-only; any part NAME-0000i-of-0000N.gguf of a split model opens all its
 * parts.  NULL on error, which names the file. */
struct gguf *gguf_open(const char *path, struct error *error);
void gguf_close(struct gguf *gguf);

/* Looks up by name; NULL when it is absent. */
const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key);
const struct gguf_tensor *gguf_tensor(const struct gguf *gguf, const char *name);

/* Typed look-ups.  GGUF_ABSENT leaves *value as it was; a value of another kind, or out of range,
 * is an error that names key, expected and found type.  Integers of any width and sign are
 * accepted where the number fits. */
enum gguf_answer { GGUF_WRONG = -1, GGUF_ABSENT = 0, GGUF_FOUND = 1 };
enum gguf_answer gguf_u32(const struct gguf *gguf, const char *key, uint32_t *value,
                          struct error *error);
enum gguf_answer gguf_f32(const struct gguf *gguf, const char *key, float *value,
                          struct error *error);
enum gguf_answer gguf_bool(const struct gguf *gguf, const char *key, bool *value,
                           struct error *error);
enum gguf_answer gguf_text(const struct gguf *gguf, const char *key, struct gguf_string *value,
                           struct error *error);
/* An array with elements of one type (GGUF_STRING, GGUF_F32, GGUF_I32 ...). */
enum gguf_answer gguf_array(const struct gguf *gguf, const char *key, enum gguf_type element,
                            const struct gguf_value **value, struct error *error);
/* All strings of an array, in one pass: new array of value->count entries, to be freed. */
struct gguf_string *gguf_strings(const struct gguf_value *value);

/* Whether a GGUF string equals a C string; prints of names use "%.*s". */
bool gguf_equal(struct gguf_string a, const char *b);
const char *gguf_type_name(enum gguf_type type);

/* ---- writing ------------------------------------------------------------------------------- */

/* Collects metadata and tensors in memory, then writes a version 3 file in one pass.  Data are
 * aligned to 32 bytes, or as general.alignment says when it is among the values.  A key that was
 * already given gets the new value.  Misuse ends the program. */
struct gguf_writer;
struct gguf_writer *gguf_writer_new(void);
void gguf_writer_free(struct gguf_writer *writer);
void gguf_write_u32(struct gguf_writer *writer, const char *key, uint32_t value);
void gguf_write_f32(struct gguf_writer *writer, const char *key, float value);
void gguf_write_bool(struct gguf_writer *writer, const char *key, bool value);
void gguf_write_text(struct gguf_writer *writer, const char *key, const char *bytes, size_t length);
void gguf_write_array(struct gguf_writer *writer, const char *key, enum gguf_type element,
                      const void *items, uint64_t count); /* numbers, native layout */
void gguf_write_strings(struct gguf_writer *writer, const char *key,
                        const struct gguf_string *items, uint64_t count);
/* Copies a value of another file as it is. */
void gguf_write_value(struct gguf_writer *writer, const struct gguf_value *value);
/* Announces a tensor; its bytes are written later, in this order. */
void gguf_write_tensor(struct gguf_writer *writer, const char *name, uint32_t type, uint32_t n_dims,
                       const uint64_t *dims);
/* Writes everything up to the tensor data; then the caller writes the data of each tensor, whole or
 * in pieces, with gguf_write_data (checked against the announced size; padding is added). */
void gguf_write_header(struct gguf_writer *writer, struct output *output);
void gguf_write_data(struct gguf_writer *writer, struct output *output, const void *data,
                     size_t bytes);

#endif
