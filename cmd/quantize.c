/* quantize: a GGUF model with F32, F16 or BF16 matrices in, one with quantised matrices out. */
#include "options.h"
#include "gguf/gguf.h"
#include "kernel/kernel.h"
#include "kernel/quantize.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *output_path;
static int type_choice = -1;
static int64_t n_threads;
static bool verbose;

/* The choices of --type: the type of most matrices, of the output matrix, and GGUF's number for the
 * mix. */
#define TYPES "F16|BF16|Q8_0|Q4_0|Q4_K|Q6_K|Q4_K_M"
static const struct mix {
    enum tensor_type most, output;
    bool more; /* some value and down matrices get the output's type */
    uint32_t file_type;
} mixes[] = {
    {TENSOR_F16, TENSOR_F16, false, 1},    {TENSOR_BF16, TENSOR_BF16, false, 32},
    {TENSOR_Q8_0, TENSOR_Q8_0, false, 7},  {TENSOR_Q4_0, TENSOR_Q6_K, false, 2},
    {TENSOR_Q4_K, TENSOR_Q6_K, false, 14}, {TENSOR_Q6_K, TENSOR_Q6_K, false, 18},
    {TENSOR_Q4_K, TENSOR_Q6_K, true, 15},
};

static const struct option_spec options[] = {
    {0, "type", TYPES, OPTION_CHOICE, &type_choice, 0, 0, "type of the matrices (needed)", 0},
    ROW_OUTPUT(&output_path),
    ROW_THREADS(&n_threads, 0),
    ROW_VERBOSE(&verbose, 0),
    {0},
};
static const struct program program = {
    "MODEL", "Write a GGUF model with its matrices in a smaller type.", options};

/* In a mix, the first and last eighth of the layers and every third between get more bits. */
static bool more_bits(uint32_t layer, uint32_t n_layers)
{
    uint32_t eighth = n_layers / 8;
    return layer < eighth || layer >= n_layers - eighth || (layer - eighth) % 3 == 2;
}

/* Vectors, and what many decisions or all positions hang on: routers and learned positions. */
static bool stays(const struct gguf_tensor *t, const char *name)
{
    return t->n_dims < 2 || t->n_dims > 3 || strstr(name, "ffn_gate_inp.") ||
           strcmp(name, "position_embd.weight") == 0;
}

static enum tensor_type type_for(const struct gguf *gguf, const struct gguf_tensor *t,
                                 const struct mix *mix, uint32_t n_layers)
{
    enum tensor_type type = mix->most;
    uint32_t layer;
    char name[64], tail[40] = "";
    snprintf(name, sizeof name, "%.*s", (int)t->name.length, t->name.bytes);
    if (stays(t, name))
        return (enum tensor_type)t->type->type;
    if (strcmp(name, "output.weight") == 0 ||
        (strcmp(name, "token_embd.weight") == 0 && !gguf_tensor(gguf, "output.weight")))
        type = mix->output;
    else if (mix->more && sscanf(name, "blk.%u.%39s", &layer, tail) == 2 &&
             more_bits(layer, n_layers) &&
             (strcmp(tail, "attn_v.weight") == 0 || strncmp(tail, "ffn_down", 8) == 0))
        type = mix->output;
    if (t->dims[0] % tensor_type_facts(type)->block_items) /* rows that are not whole blocks */
        type = t->dims[0] % 32 ? TENSOR_F16 : TENSOR_Q8_0;
    return type;
}

struct job {
    struct matrix source;
    enum tensor_type type;
    uint8_t *out;
    size_t row_bytes;
    _Atomic uint32_t bad_row; /* + 1 */
};

static void quantize_rows(void *context, int thread, size_t begin, size_t end)
{
    struct job *job = context;
    float *row = allocate(job->source.cols, sizeof *row);
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        matrix_row_f32(&job->source, (uint32_t)r, row);
        for (uint32_t i = 0; i < job->source.cols; i++)
            if (!isfinite(row[i])) {
                job->bad_row = (uint32_t)r + 1;
                row[i] = 0;
            }
        quantize_row(job->type, row, job->source.cols, job->out + r * job->row_bytes);
    }
    free(row);
}

static void write_tensor(struct gguf_writer *writer, struct output *output,
                         const struct gguf_tensor *t, enum tensor_type type,
                         struct threads *threads)
{
    if ((uint32_t)type == t->type->type) {
        gguf_write_data(writer, output, t->data, t->bytes);
        return;
    }
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    size_t rows = (size_t)(t->dims[1] * t->dims[2]); /* those of all experts, one below the other */
    struct job job = {.source = {(enum tensor_type)t->type->type, false, (uint32_t)rows,
                                 (uint32_t)t->dims[0], t->data},
                      .type = type,
                      .row_bytes = (size_t)(t->dims[0] / facts->block_items * facts->block_bytes)};
    size_t bytes = job.row_bytes * rows;
    job.out = allocate(bytes, 1);
    threads_run(threads, rows, 1, quantize_rows, &job);
    if (job.bad_row)
        die(STATUS_INPUT, "tensor %.*s: row %u has a value that is not finite", (int)t->name.length,
            t->name.bytes, job.bad_row - 1);
    gguf_write_data(writer, output, job.out, bytes);
    free(job.out);
}

/* The matrices must be in a type that loses nothing here: quantising what is quantised already adds
 * error. */
static void check_source(const struct gguf *gguf, const char *path)
{
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const struct gguf_tensor *t = &gguf->tensors[i];
        if (t->type->type != TENSOR_F32 && t->type->type != TENSOR_F16 &&
            t->type->type != TENSOR_BF16)
            die(STATUS_INPUT, "%s: tensor %.*s: expected F32, F16 or BF16, found %s", path,
                (int)t->name.length, t->name.bytes, t->type->name);
    }
}

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);
    if (type_choice < 0)
        die(STATUS_USAGE, "--type is needed, one of " TYPES);
    if (argc - first != 1)
        die(STATUS_USAGE, "expected one operand, the model; found %d", argc - first);

    struct error error;
    struct output output;
    const char *path = argv[first];
    const struct mix *mix = &mixes[type_choice];
    output_open(&output, output_path, true, false);
    struct gguf *gguf = gguf_open(path, &error);
    if (!gguf)
        die_error(&error);
    check_source(gguf, path);
    struct gguf_string family = {"", 0};
    uint32_t n_layers = 0;
    char key[128];
    if (gguf_text(gguf, "general.architecture", &family, &error) < 0)
        die_error(&error);
    snprintf(key, sizeof key, "%.*s.block_count", (int)(family.length < 64 ? family.length : 64),
             family.bytes);
    if (gguf_u32(gguf, key, &n_layers, &error) < 0)
        die_error(&error);
    struct gguf_writer *writer = gguf_writer_new();
    for (size_t i = 0; i < gguf->n_values; i++)
        if (gguf->values[i].key.length < 6 || memcmp(gguf->values[i].key.bytes, "split.", 6) != 0)
            gguf_write_value(writer, &gguf->values[i]);
    gguf_write_u32(writer, "general.file_type", mix->file_type);
    gguf_write_u32(writer, "general.quantization_version", 2);
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const struct gguf_tensor *t = &gguf->tensors[i];
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)t->name.length, t->name.bytes);
        gguf_write_tensor(writer, name, type_for(gguf, t, mix, n_layers), t->n_dims, t->dims);
    }

    struct threads *threads = threads_start(n_threads ? (int)n_threads : threads_available());
    time_t begin = time(NULL);
    bool progress = isatty(2);
    gguf_write_header(writer, &output);
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const struct gguf_tensor *t = &gguf->tensors[i];
        enum tensor_type type = type_for(gguf, t, mix, n_layers);
        if (verbose)
            warn("%.*s: %" PRIu64 " x %" PRIu64 ", %s to %s", (int)t->name.length, t->name.bytes,
                 t->dims[0], t->dims[1] * t->dims[2], t->type->name, tensor_type_facts(type)->name);
        else if (progress && time(NULL) > begin)
            fprintf(stderr, "\rtensor %zu of %zu", i + 1, gguf->n_tensors);
        write_tensor(writer, &output, t, type, threads);
    }
    if (!verbose && progress && time(NULL) > begin)
        fprintf(stderr, "\r%30s\r", "");

    output_close(&output);
    threads_stop(threads);
    gguf_writer_free(writer);
    gguf_close(gguf);
    return program_end();
}
