#include "record/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <zlib.h>

/* Writes header, payload and padding with as few calls as the system allows. */
static void write_parts(struct output *output, struct iovec *part, int n)
{
    while (n > 0) {
        ssize_t done = writev(output->fd, part, n);
        if (done < 0 && errno != EINTR)
            die(STATUS_SYSTEM, "%s: cannot write:", output->name);
        while (n > 0 && done >= 0 && (size_t)done >= part->iov_len) {
            done -= (ssize_t)part->iov_len;
            part++, n--;
        }
        if (n > 0 && done > 0) {
            part->iov_base = (char *)part->iov_base + done;
            part->iov_len -= (size_t)done;
        }
    }
}

/* The deflated payload in new memory, or NULL when it would not be smaller. */
static uint8_t *deflate_payload(const void *payload, size_t length, size_t *deflated)
{
    uLongf size = compressBound(length);
    uint8_t *bytes = allocate(size, 1);
    if (compress2(bytes, &size, payload, length, Z_DEFAULT_COMPRESSION) != Z_OK)
        die(STATUS_SYSTEM, "out of memory: deflating %zu bytes", length);
    if (size >= length) {
        free(bytes);
        return NULL;
    }
    *deflated = size;
    return bytes;
}

/* Keeps the list of open sequences. */
static void note_open(struct record_writer *w, const struct record *record)
{
    size_t i = 0;
    if (record->type == RECORD_MODEL || record->type >= RECORD_ANCILLARY)
        return;
    while (i < w->n_open && w->open[i] != record->sequence)
        i++;
    if (record->flags & RECORD_OPEN) {
        if (i == w->n_open) {
            w->open = grow(w->open, &w->capacity, w->n_open + 1, sizeof *w->open);
            w->open[w->n_open++] = record->sequence;
        }
    } else if (i < w->n_open) {
        w->open[i] = w->open[--w->n_open];
    }
}

static const uint8_t zeros[RECORD_HEADER];

/* A record in pieces, ready for writev. */
struct image {
    uint8_t header[RECORD_HEADER];
    struct iovec part[3];
};

static void make_image(struct image *image, struct record record, const void *payload,
                       size_t length)
{
    record.length = length;
    record.payload_crc = crc32_update(0, payload, length);
    record_encode(&record, image->header);
    image->part[0] = (struct iovec){image->header, RECORD_HEADER};
    image->part[1] = (struct iovec){(void *)(uintptr_t)payload, length};
    image->part[2] = (struct iovec){(void *)(uintptr_t)zeros, record_padded(length) - length};
}

void record_write(struct record_writer *writer, struct record record, const void *payload,
                  size_t length)
{
    struct image image;
    uint8_t *deflated = NULL;
    record.raw_length = length;
    record.flags &= (uint8_t)~RECORD_DEFLATED;
    note_open(writer, &record);
    if (writer->compress && length > 256 && (deflated = deflate_payload(payload, length, &length)))
        record.flags |= RECORD_DEFLATED;
    make_image(&image, record, deflated ? deflated : payload, length);
    write_parts(writer->output, image.part, 3);
    free(deflated);
}

void record_write_token_and_end(struct record_writer *writer, struct record token, uint32_t id,
                                const struct end *end)
{
    uint8_t bytes[4], payload[RECORD_MAX_SMALL];
    struct image first, second;
    struct iovec parts[6];
    store_u32(bytes, id);
    token.raw_length = sizeof bytes;
    token.flags |= RECORD_OPEN;
    make_image(&first, token, bytes, sizeof bytes);
    struct record last = {.type = RECORD_END,
                          .sequence = token.sequence,
                          .position = token.position + 1,
                          .binding = token.binding,
                          .raw_length = end_encode(end, payload)};
    make_image(&second, last, payload, (size_t)last.raw_length);
    note_open(writer, &last);
    memcpy(parts, first.part, sizeof first.part);
    memcpy(parts + 3, second.part, sizeof second.part);
    write_parts(writer->output, parts, 6);
}

/* A program is waiting for what we write. */
static bool writes_to_pipe(const struct record_writer *w)
{
    struct stat status;
    return fstat(w->output->fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

static void report_error(void *context, const char *message)
{
    struct record_writer *w = context;
    if (w->n_open == 0 && writes_to_pipe(w)) {
        w->open = grow(w->open, &w->capacity, 1, sizeof *w->open);
        w->open[w->n_open++] = 0;
    }
    struct end end = {END_ERROR, RECORD_NO_TOKEN, 0, (uint32_t)strlen(message),
                      (const uint8_t *)message};
    uint8_t payload[RECORD_MAX_SMALL];
    size_t length = end_encode(&end, payload);
    while (w->n_open > 0)
        record_write(
            w,
            (struct record){.type = RECORD_END, .sequence = w->open[0], .position = RECORD_APPEND},
            payload, length);
}

void record_writer_report_errors(struct record_writer *writer)
{
    die_action(report_error, writer);
}

void record_writer_free(struct record_writer *writer)
{
    die_action(NULL, NULL);
    free(writer->open);
    writer->open = NULL;
    writer->n_open = writer->capacity = 0;
}
