#include "record/source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER 65536

/* ---- reading ahead: an unbounded queue between a thread that only reads and the program --------
 */

struct read_ahead {
    int fd; /* -1: the thread opens it, since that may take as long as the reading */
    const char *name;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    pthread_t thread;
    uint8_t *bytes; /* [begin, end) are waiting */
    size_t begin, end, capacity;
    bool ended;
};

static int open_source(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die(STATUS_SYSTEM, "%s: cannot open:", name);
    return fd;
}

static void *read_ahead_main(void *argument)
{
    struct read_ahead *q = argument;
    uint8_t *piece = allocate(BUFFER, 1);
    if (q->fd < 0)
        q->fd = open_source(q->name);
    for (size_t n = 1; n > 0;) {
        n = read_some(q->fd, piece, BUFFER, q->name);
        pthread_mutex_lock(&q->lock);
        if (q->begin == q->end)
            q->begin = q->end = 0;
        q->bytes = grow(q->bytes, &q->capacity, q->end + n, 1);
        if (n)
            memcpy(q->bytes + q->end, piece, n);
        q->end += n;
        q->ended = n == 0;
        pthread_cond_signal(&q->arrived);
        pthread_mutex_unlock(&q->lock);
    }
    free(piece);
    return NULL;
}

static size_t read_ahead_take(struct read_ahead *q, void *bytes, size_t size)
{
    pthread_mutex_lock(&q->lock);
    while (q->begin == q->end && !q->ended)
        pthread_cond_wait(&q->arrived, &q->lock);
    size_t n = q->end - q->begin < size ? q->end - q->begin : size;
    if (n)
        memcpy(bytes, q->bytes + q->begin, n);
    q->begin += n;
    pthread_mutex_unlock(&q->lock);
    return n;
}

void source_read_ahead(struct source *s)
{
    if (s->mapped || s->ahead || s->exhausted)
        return;
    struct read_ahead *q = s->ahead = allocate(1, sizeof *q);
    *q = (struct read_ahead){.fd = s->fd, .name = s->name};
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->arrived, NULL);
    errno = pthread_create(&q->thread, NULL, read_ahead_main, q);
    if (errno)
        die(STATUS_SYSTEM, "cannot start a thread:");
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Standard input that is a regular file is mapped too, from where it stands (unless payloads would
 * not be aligned there). */
static void map_standard_input(struct source *s)
{
    struct stat status;
    off_t at = lseek(0, 0, SEEK_CUR);
    if (at < 0 || fstat(0, &status) || !S_ISREG(status.st_mode) || at >= status.st_size || at % 64)
        return;
    void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, 0, 0);
    if (data == MAP_FAILED)
        return;
    s->map = (struct mapping){data, (size_t)status.st_size};
    s->at = (size_t)at;
    s->mapped = true;
    lseek(0, 0, SEEK_END); /* as if it had been read */
}

bool source_open(struct source *s, const char *operand, struct error *error)
{
    *s = (struct source){.name = operand, .fd = -1};
    if (strcmp(operand, "-") == 0) {
        s->name = "standard input";
        s->fd = 0;
        map_standard_input(s);
        return true;
    }
    struct stat status;
    int64_t number;
    if (strncmp(operand, "/dev/fd/", 8) == 0 && parse_integer(operand + 8, 0, INT32_MAX, &number) &&
        fcntl((int)number, F_GETFD) >= 0) {
        s->fd = (int)number; /* the descriptor itself, so that closing it is seen */
        return true;
    }
    if (!*operand)
        return error_set(error, STATUS_USAGE,
                         "expected the name of a file to read, found an empty one");
    if (stat(operand, &status))
        return error_set(error, STATUS_SYSTEM, "%s: cannot open:", operand);
    if (S_ISDIR(status.st_mode))
        return error_set(error, STATUS_SYSTEM, "%s: expected a record stream, found a directory",
                         operand);
    if (S_ISREG(status.st_mode)) {
        s->mapped = true;
        return mapping_open(&s->map, operand, error);
    }
    return true;
}

void source_open_memory(struct source *s, const char *name, const uint8_t *bytes, size_t size)
{
    *s = (struct source){.name = name, .fd = -1, .map = {bytes, size}, .mapped = true};
}

/* Where the input has ended the thread has too; where not, it waits in read() and ends with the
 * process. */
static void read_ahead_close(struct read_ahead *q)
{
    pthread_mutex_lock(&q->lock);
    bool ended = q->ended;
    pthread_mutex_unlock(&q->lock);
    if (!ended)
        return;
    pthread_join(q->thread, NULL);
    free(q->bytes);
    free(q);
}

/* Mappings stay: the cache may use pages of a state where they lie. */
void source_close(struct source *s)
{
    if (s->fd > 0 && !s->ahead)
        close(s->fd);
    if (s->ahead)
        read_ahead_close(s->ahead);
    free(s->buffer);
    s->buffer = NULL;
}

/* ---- taking bytes -------------------------------------------------------------------------- */

/* Reads what is there, at least one byte unless the source ends. */
static size_t take_some(struct source *s, void *bytes, size_t size)
{
    if (s->fd < 0 && !s->ahead)
        s->fd = open_source(s->name);
    size_t n = s->exhausted ? 0
               : s->ahead   ? read_ahead_take(s->ahead, bytes, size)
                            : read_some(s->fd, bytes, size, s->name);
    s->exhausted = n == 0;
    return n;
}

/* Refills the empty buffer; false at the end. */
static bool refill(struct source *s)
{
    if (!s->buffer)
        s->buffer = allocate(BUFFER, 1);
    s->begin = 0;
    s->end = take_some(s, s->buffer, BUFFER);
    return s->end > 0;
}

size_t source_read(struct source *s, void *bytes, size_t size)
{
    size_t done = 0;
    if (s->mapped) {
        done = s->map.size - s->at < size ? s->map.size - s->at : size;
        if (done)
            memcpy(bytes, s->map.data + s->at, done);
        s->at += done;
        return done;
    }
    while (done < size) {
        size_t wanted = size - done, n;
        if (s->begin == s->end &&
            wanted >= BUFFER) { /* a large payload: no copy through the buffer */
            n = take_some(s, (uint8_t *)bytes + done, wanted);
            if (n == 0)
                break;
        } else {
            if (s->begin == s->end && !refill(s))
                break;
            n = s->end - s->begin < wanted ? s->end - s->begin : wanted;
            memcpy((uint8_t *)bytes + done, s->buffer + s->begin, n);
            s->begin += n;
        }
        done += n;
    }
    return done;
}

uint64_t source_skip(struct source *s, uint64_t size)
{
    if (s->mapped) {
        uint64_t n = s->map.size - s->at < size ? s->map.size - s->at : size;
        s->at += (size_t)n;
        return n;
    }
    uint64_t done = 0;
    while (done < size && (s->begin < s->end || refill(s))) {
        uint64_t n = s->end - s->begin < size - done ? s->end - s->begin : size - done;
        s->begin += (size_t)n;
        done += n;
    }
    return done;
}

const uint8_t *source_view(struct source *s, size_t size)
{
    if (s->map.size - s->at < size)
        return NULL;
    const uint8_t *bytes = s->map.data + s->at;
    s->at += size;
    return bytes;
}

/* Whether reading would find a byte, or the end, at once; the buffer is empty. */
static bool is_ready(struct source *s)
{
    if (s->exhausted)
        return false;
    if (s->ahead) {
        pthread_mutex_lock(&s->ahead->lock);
        bool waiting = s->ahead->begin < s->ahead->end;
        pthread_mutex_unlock(&s->ahead->lock);
        return waiting;
    }
    struct pollfd poller = {.fd = s->fd, .events = POLLIN};
    return s->fd >= 0 && poll(&poller, 1, 0) > 0 && (poller.revents & POLLIN);
}

size_t source_peek(struct source *s, void *bytes, size_t size)
{
    if (s->mapped) {
        size_t left = s->map.size - s->at, n = left < size ? left : size;
        if (n)
            memcpy(bytes, s->map.data + s->at, n);
        return n;
    }
    if (s->end - s->begin < size && is_ready(s)) {
        if (!s->buffer)
            s->buffer = allocate(BUFFER, 1);
        memmove(s->buffer, s->buffer + s->begin, s->end - s->begin);
        s->end -= s->begin;
        s->begin = 0;
        s->end += take_some(s, s->buffer + s->end, BUFFER - s->end);
    }
    size_t n = s->end - s->begin < size ? s->end - s->begin : size;
    if (n)
        memcpy(bytes, s->buffer + s->begin, n);
    return n;
}
