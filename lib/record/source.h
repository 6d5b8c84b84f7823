/* Where a reader's bytes come from: a mapping, a descriptor, or a descriptor that a thread reads
 * ahead.  Private to lib/record. */
#ifndef UNROLL_RECORD_SOURCE_H
#define UNROLL_RECORD_SOURCE_H

#include "base/base.h"

struct read_ahead;
struct source {
    const char *name;
    int fd; /* -1: not opened yet, or mapped */
    struct mapping map;
    bool mapped, exhausted;
    size_t at;       /* mapped: next byte */
    uint8_t *buffer; /* descriptor: bytes [begin, end) are read and not yet taken */
    size_t begin, end;
    struct read_ahead *ahead;
};

/* Names a stream by an operand; "-" is standard input.  Regular files are mapped now, everything
 * else is opened when it is first read (a FIFO's opening waits for its writer). */
bool source_open(struct source *source, const char *operand, struct error *error);
void source_open_memory(struct source *source, const char *name, const uint8_t *bytes, size_t size);
void source_close(struct source *source);

/* Takes the next `size` bytes; fewer at the end of the source. */
size_t source_read(struct source *source, void *bytes, size_t size);
/* Passes over bytes; how many there were. */
uint64_t source_skip(struct source *source, uint64_t size);
/* Mapped sources: the next `size` bytes where they lie, or NULL when fewer are left. */
const uint8_t *source_view(struct source *source, size_t size);
/* Copies the next bytes without taking them, as many of `size` as are there without waiting. */
size_t source_peek(struct source *source, void *bytes, size_t size);
void source_read_ahead(struct source *source);

#endif
