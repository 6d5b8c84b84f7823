#include "kernel/quant.h"

#include <stdlib.h>

struct activations *activations_new(void)
{
    struct activations *x = allocate(1, sizeof *x);
    x->by_32.block = 32;
    x->by_256.block = 256;
    return x;
}

void activations_free(struct activations *x)
{
    if (!x)
        return;
    free(x->by_32.memory);
    free(x->by_256.memory);
    free(x);
}

void activations_set(struct activations *x, const float *values, uint32_t rows, uint32_t cols)
{
    x->x = values;
    x->rows = rows;
    x->cols = cols;
    x->by_32.made = x->by_256.made = false;
}

/* Takes `bytes` of the memory at *place, a multiple of 64 of them. */
static void *carve(uint8_t **place, size_t bytes)
{
    void *here = *place;
    *place += (bytes + 63) / 64 * 64;
    return here;
}

/* Lays out the arrays for rows x cols.  Rows are padded to whole tiles of 16: kernels may read, not
 * use, what lies there. */
static void make_room(struct quantised *form, size_t rows, size_t cols, bool tiles)
{
    rows = (rows + PANEL - 1) / PANEL * PANEL;
    form->n_blocks = cols / form->block;
    form->stride = (cols + 63) / 64 * 64;
    size_t n = rows * form->n_blocks;
    /* Enough for either block size; a few arrays, each rounded up to 64 bytes. */
    size_t bytes = rows * form->stride + n * (4 + 16 * 2 + 8 * 2) + 10 * 64;
    if (tiles)
        bytes += n * (form->block == 32 ? 64 + 4 + 4 : 256 + 64 + 4);
    if (bytes > form->capacity) {
        free(form->memory);
        form->memory = allocate_aligned(bytes, 1);
        form->capacity = bytes;
    }
    uint8_t *place = form->memory;
    form->q = carve(&place, rows * form->stride);
    form->d = carve(&place, n * sizeof *form->d);
    if (form->block == 32) {
        form->sum = carve(&place, n * sizeof *form->sum);
        form->minus = carve(&place, n * sizeof *form->minus);
    } else {
        form->sums_16 = carve(&place, n * 16 * sizeof *form->sums_16);
        form->sums_32 = carve(&place, n * 8 * sizeof *form->sums_32);
    }
    form->tiles = NULL;
    if (!tiles)
        return;
    form->tiles = carve(&place, n * (form->block == 32 ? 64 : 256));
    form->tile_d = carve(&place, n * sizeof *form->tile_d);
    if (form->block == 32)
        form->tile_sum = carve(&place, n * sizeof *form->tile_sum);
    else
        form->sum_tiles = carve(&place, n * 64);
}

struct work {
    const struct kernel *kernel;
    const struct activations *x;
    struct quantised *form;
};

static void quantise_rows(void *context, int thread, size_t begin, size_t end)
{
    const struct work *work = context;
    (void)thread;
    work->kernel->quants->quantise(work->x, work->form, begin, end);
}

void activations_prepare(const struct kernel *kernel, struct threads *threads,
                         struct activations *x, enum tensor_type weight_type)
{
    if (!units_of(weight_type).words)
        return;
    struct quantised *form =
        tensor_type_facts(weight_type)->block_items == 32 ? &x->by_32 : &x->by_256;
    if (form->made)
        return;
    uint32_t tile_rows =
        form->block == 32 ? kernel->quants->tile_rows_32 : kernel->quants->tile_rows_256;
    make_room(form, x->rows, x->cols, tile_rows && x->rows >= tile_rows);
    struct work work = {kernel, x, form};
    if (threads && x->rows >= 4)
        threads_run(threads, x->rows, 1, quantise_rows, &work);
    else
        quantise_rows(&work, 0, 0, x->rows);
    form->made = true;
}
