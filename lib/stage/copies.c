#include "stage/copies.h"

#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

/* A record that waits. */
struct waiting {
    struct record record;
    size_t copy; /* whose it is; NONE: the sequence is in the record */
    uint8_t *payload;
    size_t length;
};

struct copies {
    struct record_reader *reader;
    struct record_writer *writer;
    struct copy *copy;
    size_t n, capacity, n_written;
    struct waiting *waiting;
    size_t n_waiting, waiting_capacity;
    uint32_t next; /* ids below are taken */
    bool released;
};

struct copies *copies_new(struct record_reader *reader, struct record_writer *writer)
{
    struct copies *c = allocate(1, sizeof *c);
    *c = (struct copies){.reader = reader, .writer = writer};
    return c;
}

void copies_free(struct copies *c)
{
    for (size_t i = 0; i < c->n_waiting; i++)
        free(c->waiting[i].payload);
    free(c->waiting);
    free(c->copy);
    free(c);
}

static void put(struct copies *c, size_t copy, struct record record, const void *payload,
                size_t length)
{
    struct waiting waiting = {record, copy, allocate(length + 1, 1), length};
    if (length)
        memcpy(waiting.payload, payload, length);
    c->waiting = grow(c->waiting, &c->waiting_capacity, c->n_waiting + 1, sizeof *c->waiting);
    c->waiting[c->n_waiting++] = waiting;
}

void copies_put(struct copies *c, struct record record, const void *payload, size_t length)
{
    put(c, c->n - 1, record, payload, length);
}

void copies_put_after(struct copies *c, struct record record, const void *payload, size_t length)
{
    put(c, NONE, record, payload, length);
}

struct copy *copies_add(struct copies *c, uint32_t source, uint32_t position, uint32_t draw_stream)
{
    uint8_t payload[8];
    c->copy = grow(c->copy, &c->capacity, c->n + 1, sizeof *c->copy);
    c->copy[c->n++] = (struct copy){.n_selected = 0};
    store_u32(payload, source);
    store_u32(payload + 4, draw_stream);
    copies_put(c, (struct record){.type = RECORD_FORK, .flags = RECORD_OPEN, .position = position},
               payload, sizeof payload);
    return &c->copy[c->n - 1];
}

static uint32_t free_id(struct copies *c)
{
    while (reader_sequence(c->reader, c->next)) {
        if (c->next == UINT32_MAX)
            die(STATUS_INPUT, "no number is left for a further sequence");
        c->next++;
    }
    return c->next++;
}

void copies_write(struct copies *c)
{
    for (; c->n_written < c->n; c->n_written++)
        c->copy[c->n_written].id = free_id(c);
    for (size_t i = 0; i < c->n_waiting; i++) {
        struct waiting *w = &c->waiting[i];
        if (w->copy != NONE)
            w->record.sequence = c->copy[w->copy].id;
        record_write(c->writer, w->record, w->payload, w->length);
        free(w->payload);
    }
    c->n_waiting = 0;
}

void copies_release(struct copies *c)
{
    c->released = true;
    copies_write(c);
}

void copies_settle(struct copies *c)
{
    if (c->released)
        copies_write(c);
}

struct copy *copies_find(struct copies *c, uint32_t id)
{
    size_t low = 0, high = c->n_written; /* ids ascend */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c->copy[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->n_written && c->copy[low].id == id ? &c->copy[low] : NULL;
}

/* They come in the order in which they were written. */
bool copies_outstanding(const struct copies *c)
{
    return c->n_waiting > 0 || (c->n > 0 && !reader_sequence(c->reader, c->copy[c->n - 1].id));
}
