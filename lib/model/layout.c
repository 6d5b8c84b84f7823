/* The kept layout: the matrices of a model with their rows interleaved (kernel.h), made once, in a
 * file that every process maps.  $XDG_CACHE_HOME/unroll/FINGERPRINT.layout holds a header of 64
 * bytes and the matrices in the order of the forward pass, each at a multiple of 4096.  Both
 * layouts give the same bits, so whether the file is there shows in the time alone. */
#include "model/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Raised with every change of matrix_interleave. */
#define LAYOUT_REVISION 1
#define LAYOUT_HEADER   4096
#define WORTH_KEEPING   (64u << 20) /* smaller models run from the processor's caches */

static const char layout_magic[8] = "UNRLAYT";

struct layout {
    char path[4200];
    struct matrix **matrix; /* (n) those that can be interleaved */
    size_t *offset;         /* (n) */
    size_t n, bytes, matrix_capacity, offset_capacity;
    uint8_t header[64];
};

static void collect_matrix(struct layout *l, struct matrix *matrix)
{
    if (!matrix->data || !matrix_can_interleave(matrix->type))
        return;
    l->matrix = grow(l->matrix, &l->matrix_capacity, l->n + 1, sizeof *l->matrix);
    l->offset = grow(l->offset, &l->offset_capacity, l->n + 1, sizeof *l->offset);
    l->offset[l->n] = l->bytes;
    l->matrix[l->n++] = matrix;
    l->bytes += (matrix_interleaved_bytes(matrix) + 4095) / 4096 * 4096;
}

/* The matrices that the products use, in the order of the pass. */
static void collect(struct layout *l, struct model *m)
{
    l->bytes = LAYOUT_HEADER;
    for (uint32_t i = 0; i < m->hyper.n_layers; i++) {
        struct layer *layer = &m->layers[i];
        struct matrix *all[] = {&layer->query, &layer->key, &layer->value, &layer->output,
                                &layer->gate,  &layer->up,  &layer->down,  &layer->experts.router};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            collect_matrix(l, all[k]);
        for (uint32_t k = 0; k < m->hyper.experts.n; k++) {
            collect_matrix(l, &layer->experts.gate[k]);
            collect_matrix(l, &layer->experts.up[k]);
            collect_matrix(l, &layer->experts.down[k]);
        }
    }
    collect_matrix(l, &m->output);
}

/* What the file must begin with: it is of this model, of this very file, whole. */
static bool make_header(struct layout *l, const struct model *m, const struct gguf *gguf)
{
    struct stat status;
    if (stat(gguf->path, &status))
        return false;
    memcpy(l->header, layout_magic, sizeof layout_magic);
    store_u32(l->header + 8, LAYOUT_REVISION);
    store_u32(l->header + 12, m->fingerprint);
    store_u64(l->header + 16, l->bytes);
    store_u64(l->header + 24, (uint64_t)status.st_size);
    store_u64(l->header + 32, (uint64_t)status.st_mtim.tv_sec);
    store_u64(l->header + 40, (uint64_t)status.st_mtim.tv_nsec);
    /* The time of change cannot be set back; with device and inode it tells a file that was touched
     * up. */
    store_u32(l->header + 48, (uint32_t)status.st_ctim.tv_sec ^ (uint32_t)status.st_ctim.tv_nsec);
    store_u64(l->header + 52, (uint64_t)status.st_ino ^ (uint64_t)status.st_dev << 32);
    store_u32(l->header + 60, crc32_update(0, l->header, 60));
    return true;
}

/* The file's name; its folder is made.  False when there is no place for it. */
static bool make_path(struct layout *l, const struct model *m)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[4100];
    int n;
    if (cache && cache[0] == '/')
        n = snprintf(folder, sizeof folder, "%s", cache);
    else if (home && home[0] == '/')
        n = snprintf(folder, sizeof folder, "%s/.cache", home);
    else
        return false;
    if (n < 0 || n > 4000)
        return false;
    mkdir(folder, 0700);
    memcpy(folder + n, "/unroll", 8);
    mkdir(folder, 0700);
    snprintf(l->path, sizeof l->path, "%s/%08x.layout", folder, m->fingerprint);
    return true;
}

/* Points the matrices into the file where it is there and ours. */
static bool use(struct layout *l)
{
    struct mapping file;
    struct error error;
    if (!mapping_open(&file, l->path, &error))
        return false;
    if (file.size != l->bytes || memcmp(file.data, l->header, sizeof l->header) != 0) {
        mapping_close(&file);
        return false;
    }
    for (size_t i = 0; i < l->n; i++) {
        l->matrix[i]->data = file.data + l->offset[i];
        l->matrix[i]->interleaved = true;
    }
    return true; /* the mapping stays for as long as the process */
}

struct interleave_job {
    const struct layout *layout;
    uint8_t *bytes;
};

static void interleave(void *context, int thread, size_t begin, size_t end)
{
    const struct interleave_job *job = context;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        matrix_interleave(job->layout->matrix[i], job->bytes + job->layout->offset[i]);
}

/* A file without a name in the folder of the layouts, so that whatever ends this process leaves
 * nothing; where the file system has no such files, one with the temporary name. */
static int open_nameless(const struct layout *l, const char *temporary, bool *named)
{
    char folder[4200];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(l->path, '/') - l->path), l->path);
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    *named = fd < 0;
    return fd >= 0 ? fd : open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

/* Fills a file and gives it its name when it is complete; space is reserved first, so that a full
 * disk is an error here and never a fault.  Returns 0 or an errno. */
static int write_file(const struct layout *l, struct threads *threads)
{
    char temporary[4300], self[64];
    bool named;
    snprintf(temporary, sizeof temporary, "%s.%ld", l->path, (long)getpid());
    int fd = open_nameless(l, temporary, &named);
    if (fd < 0)
        return errno;
    int reason = posix_fallocate(fd, 0, (off_t)l->bytes);
    uint8_t *bytes =
        reason ? MAP_FAILED : mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!reason && bytes == MAP_FAILED)
        reason = errno;
    if (!reason) {
        struct interleave_job job = {l, bytes};
        threads_run(threads, l->n, 1, interleave, &job);
        memcpy(bytes, l->header, sizeof l->header);
        munmap(bytes, l->bytes);
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        /* On the disk before it has its name: a header must not outlive its data in a crash. */
        if (fdatasync(fd) ||
            (!named && linkat(AT_FDCWD, self, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW)) ||
            rename(temporary, l->path))
            reason = errno;
    }
    if (reason)
        unlink(temporary);
    close(fd);
    return reason;
}

static bool make(struct layout *l, struct model *m, const struct gguf *gguf, bool must)
{
    /* One process makes it; whoever comes while it does goes on with the plain layout. */
    int lock = open(gguf->path, O_RDONLY | O_CLOEXEC), reason = 0;
    if (lock < 0 || flock(lock, LOCK_EX | (must ? 0 : LOCK_NB))) {
        if (lock >= 0)
            close(lock);
        return false;
    }
    if (!use(l)) { /* nobody was faster */
        reason = write_file(l, m->threads);
        errno = reason;
        if (reason && !must)
            warn("%s: cannot keep a faster layout of the model, going on without:", l->path);
    }
    close(lock);
    return !reason && (l->matrix[0]->interleaved || use(l));
}

bool layout_apply(struct model *m, const struct gguf *gguf, enum model_repack repack,
                  struct error *error)
{
    struct layout l = {0};
    bool must = repack == MODEL_REPACK_ONLY, done = false;
    if (repack != MODEL_REPACK_NEVER) {
        collect(&l, m);
        bool wanted = l.n > 0 && (must || l.bytes >= WORTH_KEEPING);
        if (wanted && make_path(&l, m) && make_header(&l, m, gguf))
            done = use(&l) || make(&l, m, gguf, must);
        if (l.n == 0)
            done = true; /* types that have one layout only */
    }
    free(l.matrix);
    free(l.offset);
    if (must && !done)
        return error_set(
            error, STATUS_SYSTEM,
            "--repack only: the interleaved layout cannot be made (in $XDG_CACHE_HOME/unroll)");
    return true;
}
