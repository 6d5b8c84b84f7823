/* A rank's positions through all layers.
 *
 * The positions are worked on in tiles, ascending.  When a tile leaves a layer, its keys and values
 * of the next are made and sent at once, so they are under way while other tiles, and other ranks,
 * are still in the layer below. */
#include "dist/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Rows [row, row + n) of the pass; they see the pages before end_page.  Pages [first_whole,
 * end_whole) are complete when the tile is. */
struct tile {
    uint32_t row, n, end_page, first_whole, end_whole;
};

struct work {
    struct dist *dist;
    const struct division *division;
    struct cache_sequence *cache;
    struct exchange exchange;
    struct model *model;
    struct model_pass *pass;
    struct tile *tile;
    size_t n_tiles, capacity;
    uint32_t n_rows;
};

uint32_t row_of(const struct dist *d, const struct division *division, uint32_t position)
{
    uint32_t row = 0;
    for (uint32_t page = division_first(division); page < position / CACHE_PAGE; page++)
        if (division_owner(division, page) == (uint32_t)d->rank)
            row += page_end(division, page) - page_fresh(division, page);
    return row + position - page_fresh(division, position / CACHE_PAGE);
}

/* A page that is only in part in the cache goes from who read it to who will fill it up; our other
 * pages are made. */
static void settle(struct work *w)
{
    const struct division *v = w->division;
    struct dist *d = w->dist;
    uint32_t rank = (uint32_t)d->rank, first = division_first(v);
    if (v->held % CACHE_PAGE) {
        uint32_t from = division_reader(first, v->ranks), to = division_owner(v, first);
        int bytes = (int)cache_bytes(w->cache->shape, CACHE_PAGE);
        if (from == rank && to != rank) {
            MPI_Send(w->cache->data[first], bytes, MPI_BYTE, (int)to, TAG_PAGE, d->comm);
            cache_disown(w->cache, first);
        } else if (to == rank && from != rank) {
            MPI_Recv(cache_own(w->cache, first), bytes, MPI_BYTE, (int)from, TAG_PAGE, d->comm,
                     MPI_STATUS_IGNORE);
        }
    }
    cache_append_absent(w->cache, v->end - v->held);
    for (uint32_t page = first; page < division_end(v); page++)
        if (division_owner(v, page) == rank)
            cache_own(w->cache, page);
}

/* A tile has at most so many positions: the kernels gain nothing from more, and what a layer works
 * in grows with it. */
#define LARGEST_TILE 384

/* Whole pages as long as they fit into a batch, else parts of one page. */
static void make_tiles(struct work *w, uint32_t batch)
{
    const struct division *v = w->division;
    for (uint32_t page = division_first(v); page < division_end(v); page++) {
        if (division_owner(v, page) != (uint32_t)w->dist->rank)
            continue;
        uint32_t left = page_end(v, page) - page_fresh(v, page);
        struct tile *last = w->n_tiles ? &w->tile[w->n_tiles - 1] : NULL;
        if (last && last->end_whole == page && last->n + left <= batch) {
            last->n += left;
            last->end_page = last->end_whole = page + 1;
            w->n_rows += left;
            continue;
        }
        while (left > 0) {
            uint32_t n = left < batch ? left : batch;
            left -= n;
            w->tile = grow(w->tile, &w->capacity, w->n_tiles + 1, sizeof *w->tile);
            w->tile[w->n_tiles++] =
                (struct tile){w->n_rows, n, page + 1, page, left > 0 ? page : page + 1};
            w->n_rows += n;
        }
    }
}

static void begin_pass(struct work *w, const struct part *part, bool every)
{
    const struct division *v = w->division;
    struct error error;
    struct model_row *rows = allocate(w->n_rows ? w->n_rows : 1, sizeof *rows);
    uint32_t n = 0;
    for (uint32_t page = division_first(v); page < division_end(v); page++)
        for (uint32_t p = page_fresh(v, page);
             division_owner(v, page) == (uint32_t)w->dist->rank && p < page_end(v, page); p++)
            rows[n++] = (struct model_row){w->cache, p, part->tokens[p], every || p + 1 == v->end};
    if (n > 0 && !(w->pass = model_pass_begin(w->model, rows, n, &error)))
        dist_fail(w->dist, &error);
    free(rows);
}

static void send_held(struct work *w, uint32_t layer)
{
    for (uint32_t page = 0; page < division_first(w->division); page++)
        if (division_owner(w->division, page) == (uint32_t)w->dist->rank)
            exchange_send(&w->exchange, layer, page);
}

static void make_keys(struct work *w, const struct tile *tile, uint32_t layer)
{
    double begin = seconds_now();
    model_pass_keys(w->pass, layer, tile->row, tile->n);
    w->dist->account.compute += seconds_now() - begin;
    for (uint32_t page = tile->first_whole; page < tile->end_whole; page++)
        exchange_send(&w->exchange, layer, page);
}

/* A layer for rows [row, row + n). */
static void evaluate_rows(struct work *w, uint32_t layer, uint32_t row, uint32_t n,
                          uint32_t end_page)
{
    struct error error;
    exchange_need(&w->exchange, layer, end_page);
    double begin = seconds_now();
    if (!model_pass_layer(w->pass, layer, row, n, w->exchange.pages, &error))
        dist_fail(w->dist, &error);
    w->dist->account.compute += seconds_now() - begin;
}

static void show_progress(const struct dist *d, uint32_t layer, uint32_t n_layers, double begin)
{
    if (d->rank == 0 && isatty(2) && seconds_now() - begin > 1)
        fprintf(stderr, "\rlayer %u of %u%s", layer + 1, n_layers,
                layer + 1 < n_layers ? " " : "\n");
}

/* Bytes of this process that are not a file's, as the system counts them; 0: not known. */
static uint64_t private_memory(void)
{
    char line[256];
    unsigned long long bytes = 0, kb;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %llu", &kb) == 1 || sscanf(line, "RssShmem: %llu", &kb) == 1)
            bytes += kb * 1024;
    if (file)
        fclose(file);
    return bytes;
}

struct model_pass *evaluate_part(struct dist *d, struct engine *engine, struct part *part,
                                 const struct division *division, bool every)
{
    struct work w = {.dist = d, .division = division, .cache = part->cache, .model = engine->model};
    uint32_t n_layers = part->cache->shape->n_layers;
    settle(&w);
    make_tiles(&w, engine->batch < LARGEST_TILE ? engine->batch : LARGEST_TILE);
    dist_meet(d); /* the clock begins when all are there */
    double begin = seconds_now();
    begin_pass(&w, part, every);
    exchange_begin(&w.exchange, d, division, w.cache, every);
    send_held(&w, 0);
    for (size_t i = 0; i < w.n_tiles; i++)
        make_keys(&w, &w.tile[i], 0);
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        bool top = layer + 1 == n_layers;
        exchange_layer(&w.exchange, layer);
        if (!top)
            send_held(&w, layer + 1);
        for (size_t i = 0; i < w.n_tiles; i++) {
            const struct tile *tile = &w.tile[i];
            if (!top || every)
                evaluate_rows(&w, layer, tile->row, tile->n, tile->end_page);
            else if (d->rank == 0 && i + 1 == w.n_tiles)
                evaluate_rows(&w, layer, tile->row + tile->n - 1, 1, tile->end_page);
            if (!top)
                make_keys(&w, tile, layer + 1);
            exchange_progress(&w.exchange);
        }
        exchange_layer_done(&w.exchange);
        show_progress(d, layer, n_layers, begin);
    }
    d->account.memory = private_memory();
    exchange_end(&w.exchange);
    free(w.tile);
    d->account.positions += w.n_rows;
    d->account.total += seconds_now() - begin;
    return w.pass;
}
