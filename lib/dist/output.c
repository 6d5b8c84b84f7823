/* Pages and logits to the output, in the order in which one process writes them: by rank 0, which
 * gets the others' pages a few at a time, or (--parallel-write) each page by its rank. */
#include "dist/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Pages of others that rank 0 has asked for and not written. */
#define WINDOW 4

/* ---- the file that all write into ------------------------------------------------------------ */

static void check_file(const struct sink *s, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    struct error error;
    error_set(&error, STATUS_SYSTEM, "%s: %.300s", what, text);
    dist_fail(s->dist, &error);
}

static void open_shared(struct sink *s)
{
    char name[4096] = "";
    if (s->dist->rank == 0)
        snprintf(name, sizeof name, "%s", s->output.temporary);
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, s->dist->comm);
    int code = MPI_File_open(s->dist->comm, name, MPI_MODE_WRONLY, MPI_INFO_NULL, &s->file);
    struct error error;
    if (code != MPI_SUCCESS)
        error_set(&error, STATUS_SYSTEM,
                  "%s: cannot open it; --parallel-write wants a file system that all ranks share",
                  name);
    dist_agree(s->dist, code == MPI_SUCCESS, &error);
}

static void write_at(struct sink *s, uint64_t offset, const void *bytes, size_t size)
{
    MPI_Status status;
    int written = 0;
    if (size == 0)
        return;
    int code = MPI_File_write_at(s->file, (MPI_Offset)offset, bytes, (int)size, MPI_BYTE, &status);
    if (code == MPI_SUCCESS)
        MPI_Get_count(&status, MPI_BYTE, &written);
    check_file(s, code == MPI_SUCCESS && written != (int)size ? MPI_ERR_NO_SPACE : code,
               "cannot write");
}

/* Open MPI gives rank 0 a terminal of its own as standard output; where that leads is the
 * launcher's. */
static bool launcher_writes_to_terminal(void)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%ld/fd/1", (long)getppid());
    if (stat(path, &status) != 0 || !S_ISCHR(status.st_mode))
        return false;
    int fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    bool terminal = fd >= 0 && isatty(fd);
    if (fd >= 0)
        close(fd);
    return terminal;
}

void sink_open(struct sink *s, struct dist *d, const struct prefill_options *options)
{
    *s = (struct sink){.dist = d,
                       .parallel = options->parallel_write,
                       .every = options->logits == 1,
                       .writer = {.compress = options->compress}};
    s->writer.output = &s->output;
    if (d->rank > 0)
        return;
    if (s->parallel)
        output_open_visible(&s->output, options->output);
    else
        output_open(&s->output, options->output, true,
                    options->force ||
                        (prefill_launched_ranks() > 1 && !launcher_writes_to_terminal()));
    record_writer_report_errors(&s->writer);
}

void sink_begin(struct sink *s, struct engine *engine)
{
    s->engine = engine;
    s->facts = &engine->facts;
    if (s->parallel)
        open_shared(s);
}

void sink_close(struct sink *s)
{
    if (s->parallel)
        check_file(s, MPI_File_close(&s->file), "cannot close");
    dist_meet(s->dist);
    if (s->dist->rank > 0)
        return;
    output_close(&s->output);
    record_writer_free(&s->writer);
}

/* ---- a part ---------------------------------------------------------------------------------- */

struct writing {
    struct sink *sink;
    struct part *part;
    const struct division *division;
    struct model_pass *pass;
    uint8_t *packed;  /* a page that is not complete */
    float *logits;    /* (CACHE_PAGE, n_logits), where all are written */
    uint64_t *offset; /* (pages) of the CACHE records in the file that all write into */
    /* rank 0: the pages of others, received in ascending order */
    uint8_t *window; /* (WINDOW, page) */
    MPI_Request request[WINDOW];
    size_t asked, taken;
    uint32_t next; /* page to look at for the next request */
};

static size_t page_bytes(const struct writing *w, uint32_t page)
{
    return cache_bytes(w->part->cache->shape, page_end(w->division, page) - page_begin(page));
}

static bool is_ours(const struct writing *w, uint32_t page)
{
    return division_owner(w->division, page) == (uint32_t)w->sink->dist->rank;
}

static const uint8_t *our_page(const struct writing *w, uint32_t page)
{
    return cache_packed(w->part->cache, page_begin(page),
                        page_end(w->division, page) - page_begin(page), w->packed);
}

/* Logits of the positions of our page that were evaluated. */
static void make_logits(const struct writing *w, uint32_t page, float *logits)
{
    struct error error;
    struct dist *d = w->sink->dist;
    uint32_t first = page_fresh(w->division, page), n = page_end(w->division, page) - first;
    if (!model_pass_logits(w->pass, row_of(d, w->division, first), n, logits, &error))
        dist_fail(d, &error);
}

/* ---- rank 0 writes --------------------------------------------------------------------------- */

static void ask(struct writing *w)
{
    size_t size = cache_bytes(w->part->cache->shape, CACHE_PAGE);
    for (; w->next < division_end(w->division) && w->asked < w->taken + WINDOW; w->next++) {
        if (is_ours(w, w->next))
            continue;
        size_t slot = w->asked++ % WINDOW;
        MPI_Irecv(w->window + slot * size, (int)page_bytes(w, w->next), MPI_BYTE,
                  (int)division_owner(w->division, w->next), TAG_PAGE, w->sink->dist->comm,
                  &w->request[slot]);
    }
}

/* The next page of another rank; valid until the one after it is taken. */
static const uint8_t *take(struct writing *w)
{
    ask(w);
    size_t slot = w->taken % WINDOW;
    dist_wait(w->sink->dist, &w->request[slot]);
    w->taken++;
    return w->window + slot * cache_bytes(w->part->cache->shape, CACHE_PAGE);
}

/* Leaves room for a CACHE record. */
static uint64_t leave_room(struct sink *s, size_t bytes)
{
    off_t at = lseek(s->output.fd, 0, SEEK_CUR);
    if (at < 0 || lseek(s->output.fd, (off_t)(RECORD_HEADER + record_padded(bytes)), SEEK_CUR) < 0)
        die(STATUS_SYSTEM, "%s: cannot move in it:", s->output.name);
    return (uint64_t)at;
}

static void write_page(struct writing *w, uint32_t page)
{
    struct sink *s = w->sink;
    struct lane *lane = w->part->lane;
    uint32_t begin = page_begin(page), end = page_end(w->division, page);
    if (s->parallel) {
        w->offset[page] = leave_room(s, page_bytes(w, page));
    } else {
        const uint8_t *bytes = is_ours(w, page) ? our_page(w, page) : take(w);
        record_write(&s->writer, state_cache_record(s->facts, lane->tokens->id, begin, end), bytes,
                     page_bytes(w, page));
    }
    state_write_tokens(&s->writer, s->facts, lane, begin, end);
}

/* As advance_every in lib/stage: the logits of a page's last position wait for the tokens of the
 * next page. */
static void write_page_logits(struct writing *w, uint32_t page)
{
    struct sink *s = w->sink;
    struct lane *lane = w->part->lane;
    size_t n_logits = s->facts->n_logits;
    uint32_t first = page_fresh(w->division, page), end = page_end(w->division, page);
    if (is_ours(w, page)) {
        make_logits(w, page, w->logits);
    } else {
        MPI_Request request;
        MPI_Irecv(w->logits, (int)((end - first) * n_logits), MPI_FLOAT,
                  (int)division_owner(w->division, page), TAG_LOGITS, s->dist->comm, &request);
        dist_wait(s->dist, &request);
    }
    if (first > w->division->held)
        state_write_logits(&s->writer, s->facts, lane->tokens->id, first - 1, lane->logits, true);
    for (uint32_t p = first; p + 1 < end; p++)
        state_write_logits(&s->writer, s->facts, lane->tokens->id, p,
                           w->logits + (p - first) * n_logits, true);
    memcpy(lane->logits, w->logits + (end - 1 - first) * n_logits, n_logits * sizeof *lane->logits);
}

static void write_all(struct writing *w)
{
    struct sink *s = w->sink;
    struct lane *lane = w->part->lane;
    struct error error;
    uint32_t first = division_first(w->division), n = division_end(w->division),
             end = w->division->end;
    bool fresh = w->division->held < end;
    if (!s->begun) /* not before there is more: MODEL alone is a whole stream */
        state_write_model(&s->writer, s->facts);
    s->begun = true;
    if (fresh && !s->every &&
        !model_pass_logits(w->pass, row_of(s->dist, w->division, end - 1), 1, lane->logits, &error))
        dist_fail(s->dist, &error);
    w->window = allocate_aligned(WINDOW, cache_bytes(w->part->cache->shape, CACHE_PAGE));
    for (uint32_t page = 0; page < n; page++) {
        write_page(w, page);
        if (s->every && fresh && page >= first)
            write_page_logits(w, page);
    }
    state_write_last(&s->writer, s->facts, lane);
    free(w->window);
}

/* ---- the others send, or all write ----------------------------------------------------------- */

/* Each send ends when rank 0 has asked for it: so what waits there is bounded. */
static void send_all(struct writing *w)
{
    const struct sink *s = w->sink;
    for (uint32_t page = 0; page < division_end(w->division); page++) {
        if (!is_ours(w, page))
            continue;
        if (!s->parallel) {
            MPI_Ssend(our_page(w, page), (int)page_bytes(w, page), MPI_BYTE, 0, TAG_PAGE,
                      s->dist->comm);
            s->dist->account.bytes_sent += page_bytes(w, page);
        }
        if (w->logits && page >= division_first(w->division)) {
            make_logits(w, page, w->logits);
            size_t rows = page_end(w->division, page) - page_fresh(w->division, page);
            MPI_Ssend(w->logits, (int)(rows * s->facts->n_logits), MPI_FLOAT, 0, TAG_LOGITS,
                      s->dist->comm);
        }
    }
}

static void write_ours_at(struct writing *w, uint32_t sequence)
{
    static const uint8_t zeros[RECORD_HEADER];
    struct sink *s = w->sink;
    for (uint32_t page = 0; page < division_end(w->division); page++) {
        if (!is_ours(w, page))
            continue;
        uint8_t header[RECORD_HEADER];
        const uint8_t *bytes = our_page(w, page);
        size_t size = page_bytes(w, page);
        struct record record =
            state_cache_record(s->facts, sequence, page_begin(page), page_end(w->division, page));
        record.length = record.raw_length = size;
        record.payload_crc = crc32_update(0, bytes, size);
        record_encode(&record, header);
        write_at(s, w->offset[page], header, sizeof header);
        write_at(s, w->offset[page] + sizeof header, bytes, size);
        write_at(s, w->offset[page] + sizeof header + size, zeros, record_padded(size) - size);
    }
}

void sink_part(struct sink *s, struct part *part, const struct division *division,
               struct model_pass *pass)
{
    struct writing w = {.sink = s, .part = part, .division = division, .pass = pass};
    uint32_t n = division_end(division), sequence = 0;
    w.packed = allocate_aligned(cache_bytes(part->cache->shape, CACHE_PAGE), 1);
    if (s->every && division->held < division->end)
        w.logits = allocate((size_t)CACHE_PAGE * s->facts->n_logits, sizeof *w.logits);
    if (s->parallel)
        w.offset = allocate(n, sizeof *w.offset);
    if (s->dist->rank == 0)
        write_all(&w);
    else
        send_all(&w);
    if (s->parallel) {
        if (s->dist->rank == 0)
            sequence = part->lane->tokens->id;
        MPI_Bcast(&sequence, 1, MPI_UINT32_T, 0, s->dist->comm);
        MPI_Bcast(w.offset, (int)n, MPI_UINT64_T, 0, s->dist->comm);
        write_ours_at(&w, sequence);
    }
    free(w.packed);
    free(w.logits);
    free(w.offset);
}
