/* lib/gguf: files that the writer makes, split files, and files that lie. */
#include "gguf/gguf.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- help ---------------------------------------------------------------------------------- */

static char directory[] = "/tmp/unroll-gguf-XXXXXX";

static const char *path_in(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static uint8_t *load(const char *name, size_t *size)
{
    int fd = open(path_in(name), O_RDONLY);
    ck_assert_int_ge(fd, 0);
    uint8_t *bytes = read_all(fd, size, name);
    close(fd);
    return bytes;
}

static void save(const char *name, const void *bytes, size_t size)
{
    struct output output;
    output_open(&output, path_in(name), false, false);
    output_write(&output, bytes, size);
    output_close(&output);
}

/* Writes everything the writer holds; tensor data are the bytes 0, 1, 2 ... */
static void finish(struct gguf_writer *writer, const char *name, const size_t *sizes, size_t n)
{
    struct output output;
    output_open(&output, path_in(name), false, false);
    gguf_write_header(writer, &output);
    for (size_t i = 0; i < n; i++) {
        uint8_t *data = allocate(sizes[i], 1);
        for (size_t k = 0; k < sizes[i]; k++)
            data[k] = (uint8_t)(k + i);
        gguf_write_data(writer, &output, data, sizes[i] / 2);
        gguf_write_data(writer, &output, data + sizes[i] / 2, sizes[i] - sizes[i] / 2);
        free(data);
    }
    output_close(&output);
    gguf_writer_free(writer);
}

static void write_sample(const char *name)
{
    static const float scores[] = {-1.5f, 2.25f};
    static const uint16_t shorts[] = {1, 65535};
    static const int64_t longs[] = {-1, INT64_MAX};
    static const struct gguf_string strings[] = {{"", 0}, {"a\0b", 3}, {"\xff\n", 2}};
    struct gguf_writer *writer = gguf_writer_new();
    gguf_write_text(writer, "general.architecture", "wrong", 5);
    gguf_write_text(writer, "general.architecture", "llama", 5);
    gguf_write_u32(writer, "number", 4000000000u);
    gguf_write_f32(writer, "real", 0.5f);
    gguf_write_bool(writer, "yes", true);
    gguf_write_array(writer, "scores", GGUF_F32, scores, 2);
    gguf_write_array(writer, "shorts", GGUF_U16, shorts, 2);
    gguf_write_array(writer, "longs", GGUF_I64, longs, 2);
    gguf_write_array(writer, "nothing", GGUF_I32, NULL, 0);
    gguf_write_strings(writer, "strings", strings, 3);
    gguf_write_tensor(writer, "a.weight", TENSOR_F32, 2, (uint64_t[]){3, 5});
    gguf_write_tensor(writer, "b.weight", TENSOR_Q8_0, 3, (uint64_t[]){64, 2, 3});
    gguf_write_tensor(writer, "c.weight", TENSOR_F16, 1, (uint64_t[]){7});
    finish(writer, name, (size_t[]){60, 34 * 12, 14}, 3);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- good files ---------------------------------------------------------------------------- */

static void check_sample(const struct gguf *gguf)
{
    struct error error = {0};
    struct gguf_string text;
    const struct gguf_value *array;
    uint32_t number = 7;
    float real;
    bool yes = false;
    ck_assert_uint_eq(gguf->n_values, 9);
    ck_assert_uint_eq(gguf->version, 3);
    ck_assert_int_eq(gguf_text(gguf, "general.architecture", &text, &error), GGUF_FOUND);
    ck_assert(gguf_equal(text, "llama"));
    ck_assert(!gguf_equal(text, "llam"));
    ck_assert_int_eq(gguf_u32(gguf, "absent", &number, &error), GGUF_ABSENT);
    ck_assert_uint_eq(number, 7);
    ck_assert_int_eq(gguf_u32(gguf, "number", &number, &error), GGUF_FOUND);
    ck_assert_uint_eq(number, 4000000000u);
    ck_assert_int_eq(gguf_f32(gguf, "real", &real, &error), GGUF_FOUND);
    ck_assert(real == 0.5f);
    ck_assert_int_eq(gguf_bool(gguf, "yes", &yes, &error), GGUF_FOUND);
    ck_assert(yes);
    ck_assert_int_eq(gguf_array(gguf, "scores", GGUF_F32, &array, &error), GGUF_FOUND);
    ck_assert_uint_eq(array->count, 2);
    ck_assert(load_f32(array->data + 4) == 2.25f);
    ck_assert_int_eq(gguf_array(gguf, "longs", GGUF_I64, &array, &error), GGUF_FOUND);
    ck_assert(load_u64(array->data) == UINT64_MAX);
    ck_assert_int_eq(gguf_array(gguf, "nothing", GGUF_I32, &array, &error), GGUF_FOUND);
    ck_assert_uint_eq(array->count, 0);
    ck_assert_int_eq(gguf_array(gguf, "strings", GGUF_STRING, &array, &error), GGUF_FOUND);
    struct gguf_string *strings = gguf_strings(array);
    ck_assert_uint_eq(strings[0].length, 0);
    ck_assert_uint_eq(strings[1].length, 3);
    ck_assert_int_eq(memcmp(strings[1].bytes, "a\0b", 3), 0);
    free(strings);
    ck_assert_int_eq(gguf_text(gguf, "number", &text, &error), GGUF_WRONG);
    ck_assert_str_eq(error.text, "key 'number': expected string, found u32");
    ck_assert_int_eq(gguf_array(gguf, "scores", GGUF_I32, &array, &error), GGUF_WRONG);
    ck_assert_str_eq(error.text, "key 'scores': expected array of i32, found array of f32");
    ck_assert_int_eq(gguf_u32(gguf, "scores", &number, &error), GGUF_WRONG);
    ck_assert_str_eq(error.text, "key 'scores': expected u32, found array of f32");

    ck_assert_uint_eq(gguf->n_tensors, 3);
    const struct gguf_tensor *tensor = gguf_tensor(gguf, "b.weight");
    ck_assert_ptr_nonnull(tensor);
    ck_assert_uint_eq(tensor->bytes, 34 * 12);
    ck_assert_uint_eq(tensor->type->type, TENSOR_Q8_0);
    ck_assert_uint_eq(tensor->n_dims, 3);
    ck_assert_uint_eq(tensor->dims[0] * 1000 + tensor->dims[1] * 10 + tensor->dims[2], 64023);
    ck_assert_uint_eq(tensor->dims[3], 1);
    for (size_t i = 0; i < tensor->bytes; i++)
        ck_assert_uint_eq(tensor->data[i], (uint8_t)(i + 1));
    ck_assert_ptr_null(gguf_tensor(gguf, "b.weigh"));
}

START_TEST(writer_and_reader_agree)
{
    struct error error;
    write_sample("sample.gguf");
    struct gguf *gguf = gguf_open(path_in("sample.gguf"), &error);
    ck_assert_msg(gguf != NULL, "%s", error.text);
    ck_assert_str_eq(gguf->path, path_in("sample.gguf"));
    ck_assert_uint_eq((uintptr_t)gguf->tensors[0].data % 32, 0);
    check_sample(gguf);
    gguf_close(gguf);
    gguf_close(NULL);
}
END_TEST

START_TEST(copied_values_are_the_same)
{
    struct error error;
    write_sample("sample.gguf");
    struct gguf *gguf = gguf_open(path_in("sample.gguf"), &error);
    ck_assert_ptr_nonnull(gguf);
    struct gguf_writer *writer = gguf_writer_new();
    gguf_write_u32(writer, "general.architecture", 1);
    for (size_t i = 0; i < gguf->n_values; i++)
        gguf_write_value(writer, &gguf->values[i]);
    uint64_t dims[4];
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        char name[16];
        snprintf(name, sizeof name, "%.*s", (int)gguf->tensors[i].name.length,
                 gguf->tensors[i].name.bytes);
        memcpy(dims, gguf->tensors[i].dims, sizeof dims);
        gguf_write_tensor(writer, name, gguf->tensors[i].type->type, gguf->tensors[i].n_dims, dims);
    }
    gguf_close(gguf);
    finish(writer, "copy.gguf", (size_t[]){60, 34 * 12, 14}, 3);
    size_t a, b;
    uint8_t *first = load("sample.gguf", &a), *second = load("copy.gguf", &b);
    ck_assert_uint_eq(a, b);
    ck_assert_int_eq(memcmp(first, second, a), 0);
    free(first);
    free(second);
}
END_TEST

START_TEST(alignment_of_64)
{
    struct error error;
    struct gguf_writer *writer = gguf_writer_new();
    gguf_write_u32(writer, "general.alignment", 64);
    gguf_write_tensor(writer, "a", TENSOR_F32, 1, (uint64_t[]){1});
    gguf_write_tensor(writer, "b", TENSOR_F32, 1, (uint64_t[]){1});
    finish(writer, "aligned.gguf", (size_t[]){4, 4}, 2);
    struct gguf *gguf = gguf_open(path_in("aligned.gguf"), &error);
    ck_assert_msg(gguf != NULL, "%s", error.text);
    ck_assert_int_eq(gguf->tensors[1].data - gguf->tensors[0].data, 64);
    gguf_close(gguf);
}
END_TEST

START_TEST(version_2_is_read)
{
    size_t size;
    struct gguf gguf;
    struct error error;
    write_sample("sample.gguf");
    uint8_t *bytes = load("sample.gguf", &size);
    store_u32(bytes + 4, 2);
    ck_assert_msg(gguf_parse(&gguf, bytes, size, &error), "%s", error.text);
    ck_assert_ptr_nonnull(gguf_tensor(&gguf, "c.weight"));
    gguf_close(&gguf);
    free(bytes);
}
END_TEST

/* ---- split files --------------------------------------------------------------------------- */

static void write_part(const char *name, uint32_t no, uint32_t count, uint32_t tensors,
                       const char *tensor)
{
    struct gguf_writer *writer = gguf_writer_new();
    gguf_write_u32(writer, "split.no", no);
    gguf_write_u32(writer, "split.count", count);
    gguf_write_u32(writer, "split.tensors.count", tensors);
    if (no == 0)
        gguf_write_text(writer, "general.name", "whole", 5);
    if (tensor)
        gguf_write_tensor(writer, tensor, TENSOR_F32, 1, (uint64_t[]){4});
    finish(writer, name, (size_t[]){16}, tensor ? 1 : 0);
}

static void write_split(void)
{
    write_part("m-00001-of-00003.gguf", 0, 3, 2, NULL);
    write_part("m-00002-of-00003.gguf", 1, 3, 2, "x");
    write_part("m-00003-of-00003.gguf", 2, 3, 2, "y");
}

START_TEST(split_opens_from_any_part)
{
    struct error error;
    write_split();
    for (int i = 1; i <= 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", i);
        struct gguf *gguf = gguf_open(path_in(name), &error);
        ck_assert_msg(gguf != NULL, "%s", error.text);
        ck_assert_uint_eq(gguf->n_parts, 3);
        ck_assert_uint_eq(gguf->n_tensors, 2);
        ck_assert_ptr_nonnull(gguf_find(gguf, "general.name"));
        ck_assert_uint_eq(gguf_tensor(gguf, "y")->data[3], 3);
        gguf_close(gguf);
    }
}
END_TEST

static void refused_open(const char *name, const char *reason)
{
    struct error error = {0};
    ck_assert_ptr_null(gguf_open(path_in(name), &error));
    ck_assert_msg(strstr(error.text, reason) != NULL, "'%s' not in '%s'", reason, error.text);
}

START_TEST(split_is_checked)
{
    refused_open("absent.gguf", "absent.gguf");
    write_split();
    unlink(path_in("m-00003-of-00003.gguf"));
    refused_open("m-00001-of-00003.gguf", "m-00003-of-00003.gguf");
    write_part("m-00003-of-00003.gguf", 2, 3, 2, "x");
    refused_open("m-00001-of-00003.gguf", "tensor 'x' occurs twice");
    write_part("m-00003-of-00003.gguf", 1, 3, 2, "y");
    refused_open("m-00001-of-00003.gguf", "says it is part 2 of 3");
    refused_open("m-00003-of-00003.gguf", "does not end in -00002-of-00003.gguf");
    write_part("m-00003-of-00003.gguf", 2, 3, 5, "y");
    refused_open("m-00001-of-00003.gguf", "with 5 tensors");
    write_part("m-00003-of-00003.gguf", 2, 3, 2, NULL);
    refused_open("m-00002-of-00003.gguf", "have 1 tensors, but split.tensors.count is 2");
    write_part("m.gguf", 0, 2, 2, "x");
    refused_open("m.gguf", "part 1 of 2 of a split model, but its name");
    write_part("m.gguf", 7, 2, 2, "x");
    refused_open("m.gguf", "'split.no': 7, but split.count is 2");
    write_part("m.gguf", 0, 0, 2, "x");
    refused_open("m.gguf", "'split.count': 0");
    save("empty.gguf", "", 0);
    refused_open("empty.gguf", "empty.gguf: magic needs 4 bytes");
    refused_open("", "regular file");
}
END_TEST

/* ---- files that lie ------------------------------------------------------------------------ */

/* A file written field by field. */
static struct {
    uint8_t bytes[4096];
    size_t size;
} file;

static void u32(uint32_t value)
{
    store_u32(file.bytes + file.size, value);
    file.size += 4;
}

static void u64(uint64_t value)
{
    store_u64(file.bytes + file.size, value);
    file.size += 8;
}

static void raw(const void *bytes, size_t size)
{
    memcpy(file.bytes + file.size, bytes, size);
    file.size += size;
}

static void string(const char *text)
{
    u64(strlen(text));
    raw(text, strlen(text));
}

static void start(uint64_t n_tensors, uint64_t n_values)
{
    file.size = 0;
    raw("GGUF", 4);
    u32(3);
    u64(n_tensors);
    u64(n_values);
}

static void number(const char *key, enum gguf_type type, uint64_t value, size_t size)
{
    uint8_t bytes[8];
    store_u64(bytes, value);
    string(key);
    u32(type);
    raw(bytes, size);
}

static void tensor(const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                   uint64_t offset)
{
    string(name);
    u32(n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        u64(dims[i]);
    u32(type);
    u64(offset);
}

/* Pads to the data section and adds `size` bytes of data. */
static void data(size_t size)
{
    while (file.size % 32)
        file.bytes[file.size++] = 0;
    memset(file.bytes + file.size, 1, size);
    file.size += size;
}

static void refused(const char *reason)
{
    struct gguf gguf;
    struct error error = {0};
    uint8_t *copy = allocate(file.size, 1); /* of the exact size, for the sanitizer */
    memcpy(copy, file.bytes, file.size);
    double began = seconds();
    ck_assert_msg(!gguf_parse(&gguf, copy, file.size, &error), "accepted: %s", reason);
    ck_assert(seconds() - began < 1);
    ck_assert_msg(strstr(error.text, reason) != NULL, "'%s' not in '%s'", reason, error.text);
    ck_assert_int_eq(error.status, STATUS_INPUT);
    free(copy);
}

static void accepted(struct gguf *gguf)
{
    struct error error = {0};
    ck_assert_msg(gguf_parse(gguf, file.bytes, file.size, &error), "%s", error.text);
}

START_TEST(hostile_headers)
{
    start(0, UINT64_C(1) << 63);
    ck_assert_uint_eq(file.size, 24);
    refused("metadata count 9223372036854775808 cannot fit in the 0 bytes");
    start(UINT64_MAX, 0);
    refused("tensor count 18446744073709551615 cannot fit");
    file.size = 0;
    refused("magic");
    raw("GGU", 3);
    refused("magic");
    raw("X", 1);
    refused("not a GGUF file: it begins with 47 47 55 58");
    file.size = 0;
    raw("GGUF\3\0", 6);
    refused("version needs 4 bytes, but the file has only 2 more");
    start(0, 0);
    store_u32(file.bytes + 4, 1);
    refused("GGUF version 1 is not supported");
    store_u32(file.bytes + 4, 4);
    refused("GGUF version 4 is not supported");
    store_u32(file.bytes + 4, 0x03000000);
    refused("big-endian GGUF file (version field 0x03000000)");
    file.size = 0;
    raw("FUGG\0\0\0\3", 8);
    refused("big-endian");
    file.size = 0;
    raw("tjgg\3\0\0\0", 8);
    refused("older than GGUF");
    start(0, 0);
    file.size = 20;
    refused("metadata count needs 8 bytes, but the file has only 4 more");
}
END_TEST

START_TEST(hostile_metadata)
{
    start(0, 1);
    u64(UINT64_MAX);
    u64(0);
    refused("metadata entry 1 of 1: key needs 18446744073709551615 bytes");
    start(0, 1);
    number("", GGUF_U32, 1, 4);
    refused("key is empty");
    start(0, 1);
    number("k", 13, 1, 8);
    refused("key 'k': unknown value type 13");
    start(0, 1);
    number("k", GGUF_U64, 1, 5);
    refused("key 'k'");
    start(0, 1);
    number("k", GGUF_BOOL, 2, 1);
    refused("key 'k': a bool must be 0 or 1, found 2");
    start(0, 1);
    number("k", GGUF_STRING, UINT64_MAX - 3, 8);
    refused("key 'k': string needs 18446744073709551612 bytes");
    start(0, 2);
    number("k", GGUF_U32, 1, 4);
    number("k", GGUF_U32, 1, 4);
    refused("key 'k' occurs twice");
    start(0, 1);
    string("k");
    u32(GGUF_ARRAY), u32(99), u64(1);
    refused("key 'k': unknown array element type 99");
    start(0, 1);
    string("k");
    u32(GGUF_ARRAY), u32(GGUF_ARRAY), u64(1), u32(GGUF_ARRAY), u64(1);
    refused("key 'k': arrays of arrays");
    start(0, 1);
    string("k");
    u32(GGUF_ARRAY), u32(GGUF_U64), u64(UINT64_C(1) << 61), u64(0);
    refused("key 'k': 2305843009213693952 u64 cannot fit in the 8 bytes");
    start(0, 1);
    string("k");
    u32(GGUF_ARRAY), u32(GGUF_STRING), u64(UINT64_C(1) << 60), u64(0);
    refused("key 'k': 1152921504606846976 strings cannot fit");
    start(0, 1);
    string("k");
    u32(GGUF_ARRAY), u32(GGUF_STRING), u64(2), u64(9), u64(0);
    refused("key 'k': string needs 9 bytes");
    static const uint32_t alignments[] = {0, 3, 4, 24, 0x80000001};
    for (size_t i = 0; i < 5; i++) {
        start(0, 1);
        number("general.alignment", GGUF_U32, alignments[i], 4);
        refused("key 'general.alignment': must be a power of two and a multiple of 8");
    }
    start(0, 1);
    number("general.alignment", GGUF_F32, 0, 4);
    refused("key 'general.alignment': expected u32, found f32");
}
END_TEST

START_TEST(hostile_tensors)
{
    static const uint64_t huge[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    static const uint64_t four[] = {4, 1, 1, 1};
    start(1, 0);
    tensor("t", 4, huge, TENSOR_F32, 0);
    refused("tensor 't': the product of the dimensions overflows");
    start(1, 0);
    tensor("t", 1, huge, TENSOR_F32, 0);
    refused("tensor 't': the size in bytes overflows: dimension 0 is 18446744073709551615");
    start(1, 0);
    tensor("t", 2, (uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 32}, TENSOR_F32, 0);
    refused("tensor 't': the size in bytes overflows");
    start(1, 0);
    tensor("t", 0, NULL, TENSOR_F32, 0);
    data(64);
    refused("tensor 't': 0 dimensions, expected 1 to 4");
    start(1, 0);
    tensor("t", 5, (uint64_t[]){1, 1, 1, 1, 1}, TENSOR_F32, 0);
    refused("tensor 't': 5 dimensions");
    start(1, 0);
    tensor("t", 2, (uint64_t[]){4, 0}, TENSOR_F32, 0);
    refused("tensor 't': dimension 1 is 0");
    start(1, 0);
    tensor("t", 1, four, 4, 0);
    refused("tensor 't': tensor type 4 is not supported");
    start(1, 0);
    tensor("t", 1, four, UINT32_MAX, 0);
    refused("tensor type 4294967295");
    start(1, 0);
    tensor("t", 1, (uint64_t[]){33}, TENSOR_Q8_0, 0);
    refused("tensor 't': rows of 33 items are not whole blocks of 32, as type Q8_0 needs");
    start(1, 0);
    tensor("t", 1, four, TENSOR_F32, 8);
    data(64);
    refused("tensor 't': data offset 8 is not a multiple of the alignment, 32");
    start(1, 0);
    tensor("t", 1, four, TENSOR_F32, UINT64_MAX - 31);
    data(64);
    refused("tensor 't': 16 bytes at data offset 18446744073709551584");
    start(1, 0);
    tensor("t", 1, four, TENSOR_F32, 0);
    refused("tensor 't': 16 bytes at data offset 0, but the file has only 0 bytes of data");
    data(15);
    refused("but the file has only 15 bytes of data (is it cut off?)");
    start(2, 0);
    tensor("t", 1, four, TENSOR_F32, 0);
    tensor("t", 1, four, TENSOR_F32, 32);
    data(64);
    refused("tensor 't' occurs twice");
    start(2, 0);
    tensor("b", 1, (uint64_t[]){9}, TENSOR_F32, 0);
    tensor("a", 1, four, TENSOR_F32, 32);
    data(64);
    refused("tensor 'a': its data overlap those of tensor 'b'");
    start(1, 1);
    number("general.alignment", GGUF_U32, UINT64_C(1) << 31, 4);
    tensor("t", 1, four, TENSOR_F32, 0);
    data(64);
    refused("tensor 't'");
    start(1, 0);
    tensor("", 1, four, TENSOR_F32, 0);
    data(64);
    refused("tensor 1 of 1: name is empty");
}
END_TEST

START_TEST(integers_of_any_width)
{
    struct gguf gguf;
    struct error error = {0};
    uint32_t value = 0;
    float real;
    start(0, 7);
    number("u8", GGUF_U8, 200, 1);
    number("i16", GGUF_I16, 0xffff, 2);
    number("u64", GGUF_U64, UINT32_MAX, 8);
    number("big", GGUF_U64, UINT64_C(1) << 32, 8);
    number("i64", GGUF_I64, UINT64_MAX, 8);
    number("f64", GGUF_F64, UINT64_C(0x3ff8000000000000), 8);
    number("f64 big", GGUF_F64, UINT64_C(0x7fe0000000000000), 8);
    accepted(&gguf);
    ck_assert_int_eq(gguf_u32(&gguf, "u8", &value, &error), GGUF_FOUND);
    ck_assert_uint_eq(value, 200);
    ck_assert_int_eq(gguf_u32(&gguf, "u64", &value, &error), GGUF_FOUND);
    ck_assert_uint_eq(value, UINT32_MAX);
    ck_assert_int_eq(gguf_u32(&gguf, "i16", &value, &error), GGUF_WRONG);
    ck_assert_str_eq(error.text, "key 'i16': -1 is out of range, expected 0 to 4294967295");
    ck_assert_int_eq(gguf_u32(&gguf, "big", &value, &error), GGUF_WRONG);
    ck_assert_int_eq(gguf_u32(&gguf, "i64", &value, &error), GGUF_WRONG);
    ck_assert_int_eq(gguf_f32(&gguf, "f64", &real, &error), GGUF_FOUND);
    ck_assert(real == 1.5f);
    ck_assert_int_eq(gguf_f32(&gguf, "f64 big", &real, &error), GGUF_WRONG);
    ck_assert_int_eq(gguf_f32(&gguf, "u8", &real, &error), GGUF_WRONG);
    gguf_close(&gguf);
}
END_TEST

/* A file of 60 MB whose header claims as many entries as would fit: time and memory stay bounded.
 */
START_TEST(large_hostile_file)
{
    size_t size = 60u << 20;
    uint8_t *bytes = allocate(size, 1);
    struct gguf gguf;
    struct error error;
    start(0, size / 14 - 10);
    memcpy(bytes, file.bytes, file.size);
    double began = seconds();
    ck_assert(!gguf_parse(&gguf, bytes, size, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "over the limit"));
    start(1 << 17, 1);
    number("k", GGUF_U32, 1, 4);
    memcpy(bytes, file.bytes, file.size);
    size_t at = file.size;
    for (uint32_t i = 0; i < 1 << 17; i++) {
        file.size = 0;
        char name[16];
        snprintf(name, sizeof name, "%u", i * 7919 % (1 << 17) / 2);
        tensor(name, 1, (uint64_t[]){1}, TENSOR_F32, 0);
        memcpy(bytes + at, file.bytes, file.size);
        at += file.size;
    }
    ck_assert(!gguf_parse(&gguf, bytes, size, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "occurs twice"));
    ck_assert(seconds() - began < 1);
    free(bytes);
#ifndef __SANITIZE_ADDRESS__
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    ck_assert_int_lt(usage.ru_maxrss, (60 + 50) << 10);
#endif
}
END_TEST

/* Every truncation and thousands of flipped bits: never a crash (the sanitizers watch). */
START_TEST(mutations)
{
    size_t size;
    write_sample("sample.gguf");
    uint8_t *good = load("sample.gguf", &size), *bytes;
    struct gguf gguf;
    struct error error;
    for (size_t cut = 0; cut < size; cut++) {
        bytes = allocate(cut, 1);
        memcpy(bytes, good, cut);
        if (gguf_parse(&gguf, bytes, cut, &error)) {
            ck_assert_uint_ge(cut, size - 31); /* only the last padding is missing */
            gguf_close(&gguf);
        }
        free(bytes);
    }
    bytes = allocate(size, 1);
    uint64_t random = 1;
    for (int i = 0; i < 20000; i++) {
        memcpy(bytes, good, size);
        for (int k = 0; k <= i % 3; k++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            bytes[(random >> 33) % size] ^= (uint8_t)(1 << (random >> 61));
        }
        if (gguf_parse(&gguf, bytes, size, &error)) {
            for (size_t k = 0; k < gguf.n_values; k++)
                if (gguf.values[k].element == GGUF_STRING)
                    free(gguf_strings(&gguf.values[k]));
            gguf_close(&gguf);
        }
    }
    free(bytes);
    free(good);
}
END_TEST

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    Suite *suite = suite_create("gguf");
    TCase *good = tcase_create("good"), *bad = tcase_create("bad");
    tcase_add_test(good, writer_and_reader_agree);
    tcase_add_test(good, copied_values_are_the_same);
    tcase_add_test(good, alignment_of_64);
    tcase_add_test(good, version_2_is_read);
    tcase_add_test(good, split_opens_from_any_part);
    tcase_add_test(good, integers_of_any_width);
    tcase_add_test(bad, split_is_checked);
    tcase_add_test(bad, hostile_headers);
    tcase_add_test(bad, hostile_metadata);
    tcase_add_test(bad, hostile_tensors);
    tcase_add_test(bad, large_hostile_file);
    tcase_add_test(bad, mutations);
    tcase_set_timeout(bad, 60);
    suite_add_tcase(suite, good);
    suite_add_tcase(suite, bad);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    char command[sizeof directory + 16];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) || failed != 0;
}
