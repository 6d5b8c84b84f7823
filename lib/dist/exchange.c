/* Keys and values between ranks.  Each page goes, layer by layer, straight from the cache of its
 * owner to every rank that will attend to it, as soon as it is made; whoever waits for it has room
 * for one whole layer. */
#include "dist/internal.h"

#include <stdlib.h>

/* Room for pages of the next layer, in bytes: so that they arrive while this layer is worked on. */
#define AHEAD ((size_t)8 << 20)

/* How many layers' keys and values a rank receives: above the last layer's only rows that want
 * logits go on, and the last position is rank 0's. */
static uint32_t layers_received(const struct exchange *e, uint32_t rank)
{
    return e->cache->shape->n_layers - (e->every || rank == 0 ? 0 : 1);
}

static void find_needed(struct exchange *e)
{
    uint32_t last = e->last[e->dist->rank];
    e->needed = allocate(last ? last : 1, sizeof *e->needed);
    for (uint32_t page = 0; page < last; page++)
        if (division_owner(e->division, page) != (uint32_t)e->dist->rank)
            e->needed[e->n_needed++] = page;
}

/* Posts receives in ascending order, as far as there are slots. */
static void post(struct exchange *e)
{
    while (e->posted < e->n_receives && e->posted < e->retired + e->n_slots) {
        size_t slot = e->posted % e->n_slots;
        uint32_t page = e->needed[e->posted % e->n_needed];
        MPI_Irecv(e->slots + slot * e->bytes, (int)e->bytes, MPI_BYTE,
                  (int)division_owner(e->division, page), TAG_KEYS + (int)page, e->dist->comm,
                  &e->receiving[slot]);
        e->posted++;
    }
}

void exchange_begin(struct exchange *e, struct dist *d, const struct division *division,
                    const struct cache_sequence *cache, bool every)
{
    const struct cache_shape *shape = cache->shape;
    uint32_t n_pages = division_end(division);
    *e = (struct exchange){.dist = d,
                           .division = division,
                           .cache = cache,
                           .every = every,
                           .bytes = cache_bytes(shape, CACHE_PAGE) / shape->n_layers};
    e->pages = allocate(n_pages, sizeof *e->pages);
    e->last = allocate((size_t)d->size, sizeof *e->last);
    for (uint32_t rank = 0; rank < (uint32_t)d->size; rank++)
        e->last[rank] = division_last(division, rank);
    find_needed(e);
    e->n_receives = e->n_needed * layers_received(e, (uint32_t)d->rank);
    size_t ahead = AHEAD / e->bytes;
    e->n_slots = e->n_needed + (ahead < e->n_needed ? ahead : e->n_needed);
    e->slots = allocate_aligned(e->n_slots ? e->n_slots : 1, e->bytes);
    e->receiving = allocate(e->n_slots ? e->n_slots : 1, sizeof(MPI_Request));
    post(e);
}

void exchange_send(struct exchange *e, uint32_t layer, uint32_t page)
{
    struct dist *d = e->dist;
    double begin = seconds_now();
    const uint8_t *bytes = e->cache->data[page] + cache_key_offset(e->cache->shape, layer);
    for (int i = 1; i < d->size; i++) {
        int rank = (d->rank + i) % d->size; /* not all to the same one first */
        if (e->last[rank] <= page || layer >= layers_received(e, (uint32_t)rank))
            continue;
        e->sending = grow(e->sending, &e->sending_capacity, e->n_sending + 1, sizeof(MPI_Request));
        MPI_Isend(bytes, (int)e->bytes, MPI_BYTE, rank, TAG_KEYS + (int)page, d->comm,
                  &e->sending[e->n_sending++]);
        d->account.bytes_sent += e->bytes;
    }
    d->account.transfer += seconds_now() - begin;
}

void exchange_layer(struct exchange *e, uint32_t layer)
{
    size_t offset = cache_key_offset(e->cache->shape, layer);
    post(e);
    for (uint32_t page = 0; page < division_end(e->division); page++)
        e->pages[page] = e->cache->data[page] ? e->cache->data[page] + offset : NULL;
    for (size_t i = 0; i < e->n_needed; i++)
        e->pages[e->needed[i]] = e->slots + (e->retired + i) % e->n_slots * e->bytes;
}

void exchange_need(struct exchange *e, uint32_t layer, uint32_t end)
{
    double begin = seconds_now();
    for (size_t i = layer * e->n_needed; i < (layer + (size_t)1) * e->n_needed; i++) {
        if (e->needed[i % e->n_needed] >= end)
            break;
        if (i < e->arrived)
            continue;
        dist_wait(e->dist, &e->receiving[i % e->n_slots]);
        e->arrived = i + 1;
    }
    e->dist->account.wait += seconds_now() - begin;
}

void exchange_progress(struct exchange *e)
{
    double begin = seconds_now();
    int n = 0;
    if (e->n_sending > 0) {
        int *done = allocate(e->n_sending, sizeof *done);
        MPI_Testsome((int)e->n_sending, e->sending, &n, done, MPI_STATUSES_IGNORE);
        free(done);
    } else {
        int any;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_ERROR, e->dist->comm, &any, MPI_STATUS_IGNORE);
    }
    if (n > 0) { /* those that are done are MPI_REQUEST_NULL */
        size_t kept = 0;
        for (size_t i = 0; i < e->n_sending; i++)
            if (e->sending[i] != MPI_REQUEST_NULL)
                e->sending[kept++] = e->sending[i];
        e->n_sending = kept;
    }
    e->dist->account.transfer += seconds_now() - begin;
}

void exchange_layer_done(struct exchange *e)
{
    e->retired += e->n_needed;
    post(e);
}

void exchange_end(struct exchange *e)
{
    double begin = seconds_now();
    for (size_t i = 0; i < e->n_sending; i++)
        dist_wait(e->dist, &e->sending[i]);
    e->dist->account.wait += seconds_now() - begin;
    free(e->pages);
    free(e->needed);
    free(e->slots);
    free(e->receiving);
    free(e->last);
    free(e->sending);
}
