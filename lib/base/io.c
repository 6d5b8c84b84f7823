#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

size_t read_some(int fd, void *buffer, size_t size, const char *name)
{
    for (;;) {
        ssize_t n = read(fd, buffer, size);
        if (n >= 0)
            return (size_t)n;
        if (errno != EINTR)
            die(STATUS_SYSTEM, "%s: cannot read:", name);
    }
}

size_t read_full(int fd, void *buffer, size_t size, const char *name)
{
    size_t done = 0, n;
    while (done < size && (n = read_some(fd, (char *)buffer + done, size - done, name)) > 0)
        done += n;
    return done;
}

uint8_t *read_all(int fd, size_t *size, const char *name)
{
    uint8_t *bytes = NULL;
    size_t capacity = 0, length = 0, n;
    do {
        bytes = grow(bytes, &capacity, length + 65536, 1);
        n = read_some(fd, bytes + length, capacity - length, name);
        length += n;
    } while (n > 0);
    *size = length;
    return bytes;
}

void write_full(int fd, const void *bytes, size_t size, const char *name)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const char *)bytes + done, size - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            die(STATUS_SYSTEM, "%s: cannot write:", name);
    }
}

bool mapping_open(struct mapping *mapping, const char *path, struct error *error)
{
    *mapping = (struct mapping){0};
    if (!*path)
        return error_set(error, STATUS_USAGE,
                         "expected the name of a file to read, found an empty one");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, STATUS_SYSTEM, "%s: cannot open:", path);
    struct stat status;
    bool ok = fstat(fd, &status) == 0;
    if (!ok) {
        error_set(error, STATUS_SYSTEM, "%s: cannot look at it:", path);
    } else if (!S_ISREG(status.st_mode)) {
        ok =
            error_set(error, STATUS_SYSTEM, "%s: not a regular file, so it cannot be mapped", path);
    } else if (status.st_size > 0) {
        void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            ok = error_set(error, STATUS_SYSTEM, "%s: cannot map:", path);
        else
            *mapping = (struct mapping){data, (size_t)status.st_size};
    }
    close(fd);
    return ok;
}

void mapping_close(struct mapping *mapping)
{
    if (mapping->data)
        munmap((void *)(uintptr_t)mapping->data, mapping->size);
    *mapping = (struct mapping){0};
}

/* ---- output -------------------------------------------------------------------------------- */

/* The one file that a signal must remove; written before the handlers are set. */
static char *unfinished;

static void remove_unfinished(void)
{
    if (unfinished)
        unlink(unfinished);
}

static void on_signal(int signal)
{
    remove_unfinished();
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(signal, &action, NULL);
    raise(signal);
}

/* A visible temporary file, for file systems without O_TMPFILE: removed at exit and by signals. */
static void open_temporary(struct output *output, mode_t mode)
{
    size_t size = strlen(output->path) + 16;
    output->temporary = allocate(size, 1);
    snprintf(output->temporary, size, "%s.XXXXXX", output->path);
    output->fd = mkostemp(output->temporary, O_CLOEXEC);
    if (output->fd < 0)
        die(STATUS_SYSTEM, "%s: cannot create beside it:", output->path);
    unfinished = output->temporary;
    atexit(remove_unfinished);
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGPIPE, SIGXFSZ, SIGXCPU};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction old, action = {.sa_handler = on_signal};
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
    }
    fchmod(output->fd, mode);
}

/* Where a chain of symbolic links leads, whether or not there is a file. */
static char *follow_links(const char *path)
{
    char target[4096], *at = copy_string(path);
    for (int links = 0; links < 40; links++) {
        ssize_t n = readlink(at, target, sizeof target - 1);
        if (n < 0)
            return at;
        target[n] = 0;
        char *slash = target[0] == '/' ? NULL : strrchr(at, '/');
        size_t folder = slash ? (size_t)(slash - at) + 1 : 0;
        at = reallocate(at, folder + (size_t)n + 1, 1);
        memcpy(at + folder, target, (size_t)n + 1);
    }
    free(at);
    errno = ELOOP;
    return NULL;
}

/* A file that will replace `path`; visible: it has a name from the beginning. */
static void open_beside(struct output *output, const char *path, const struct stat *old,
                        bool visible)
{
    mode_t mask = umask(0);
    umask(mask);
    /* A symbolic link stays one: what it points to is replaced. */
    output->path = follow_links(path);
    if (!output->path)
        die(STATUS_SYSTEM, "%s: cannot resolve:", path);
    mode_t mode = old ? old->st_mode & 07777 : 0666 & ~mask;
    char *slash = strrchr(output->path, '/');
    char *folder = slash ? strndup(output->path, (size_t)(slash - output->path) + 1) : NULL;
    output->fd = visible ? -1 : open(folder ? folder : ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    free(folder);
    if (output->fd >= 0)
        fchmod(output->fd, mode);
    else
        open_temporary(output, mode);
}

void output_open_visible(struct output *output, const char *path)
{
    struct stat status;
    bool exists = stat(path, &status) == 0;
    if (exists && !S_ISREG(status.st_mode))
        die(STATUS_USAGE, "%s: not a regular file", path);
    *output = (struct output){.fd = -1, .name = path};
    open_beside(output, path, exists ? &status : NULL, true);
}

void output_open(struct output *output, const char *path, bool binary, bool force)
{
    *output = (struct output){.fd = 1, .name = "standard output"};
    if (path && !*path)
        die(STATUS_USAGE, "--output: expected the name of a file to write, found an empty one");
    if (path && strcmp(path, "-") != 0) {
        struct stat status;
        bool exists = stat(path, &status) == 0;
        output->name = path;
        if (exists && !S_ISREG(status.st_mode)) {
            output->fd = open(path, O_WRONLY | O_CLOEXEC);
            if (output->fd < 0)
                die(STATUS_SYSTEM, "%s: cannot open for writing:", path);
        } else {
            open_beside(output, path, exists ? &status : NULL, false);
        }
    }
    if (binary && !force && isatty(output->fd))
        die(STATUS_USAGE, "%s is a terminal and the output is binary (--force writes it anyway)",
            output->name);
}

void output_write(struct output *output, const void *bytes, size_t size)
{
    write_full(output->fd, bytes, size, output->name);
}

/* Gives the nameless file a name beside the target; rename() then replaces the target at once. */
static void name_temporary(struct output *output)
{
    char self[64];
    size_t size = strlen(output->path) + 40;
    output->temporary = allocate(size, 1);
    snprintf(self, sizeof self, "/proc/self/fd/%d", output->fd);
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        snprintf(output->temporary, size, "%s.%ld.%u", output->path, (long)getpid(), attempt);
        if (linkat(AT_FDCWD, self, AT_FDCWD, output->temporary, AT_SYMLINK_FOLLOW) == 0)
            return;
        if (errno != EEXIST)
            break;
    }
    die(STATUS_SYSTEM, "%s: cannot create beside it:", output->path);
}

void output_close(struct output *output)
{
    if (output->path) {
        if (!output->temporary)
            name_temporary(output);
        int failed = close(output->fd);
        if (!failed)
            failed = rename(output->temporary, output->path);
        if (failed) {
            int reason = errno;
            unlink(output->temporary);
            unfinished = NULL;
            errno = reason;
            die(STATUS_SYSTEM, "%s: cannot complete:", output->name);
        }
        unfinished = NULL;
        free(output->temporary);
        free(output->path);
    } else if (output->fd > 2 && close(output->fd)) {
        die(STATUS_SYSTEM, "%s: cannot close:", output->name);
    }
    *output = (struct output){.fd = -1};
}
