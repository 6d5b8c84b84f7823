#include "show/show.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 65536 };

struct tee {
    pthread_t thread;
    char **operands;
    int n_operands, standard_input, to_reader;
    bool feeding; /* the reader still listens */
};

static void feed(struct tee *tee, const uint8_t *bytes, size_t size)
{
    for (size_t done = 0; tee->feeding && done < size;) {
        ssize_t n = send(tee->to_reader, bytes + done, size - done, MSG_NOSIGNAL);
        tee->feeding = n >= 0 || errno == EINTR;
        done += n > 0 ? (size_t)n : 0;
    }
}

static void *copy(void *argument)
{
    struct tee *tee = argument;
    uint8_t *bytes = allocate(PIECE, 1);
    for (int i = 0; i < tee->n_operands; i++) {
        bool standard = strcmp(tee->operands[i], "-") == 0;
        const char *name = standard ? "standard input" : tee->operands[i];
        int fd = standard ? tee->standard_input : open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            die(STATUS_SYSTEM, "%s: cannot open:", name);
        for (size_t n; (n = read_some(fd, bytes, PIECE, name)) > 0;) {
            write_full(1, bytes, n, "standard output");
            feed(tee, bytes, n);
        }
        if (!standard)
            close(fd);
    }
    shutdown(tee->to_reader, SHUT_WR);
    free(bytes);
    return NULL;
}

/* The rest of the stream goes on even when the reader has given up; not when the copying itself
 * has. */
static void copy_rest(void *context, const char *message)
{
    struct tee *tee = context;
    (void)message;
    if (pthread_equal(pthread_self(), tee->thread))
        return;
    shutdown(0, SHUT_RD);
    pthread_join(tee->thread, NULL);
}

struct tee *tee_start(char **operands, int n)
{
    static char *standard_input[] = {"-"};
    int ends[2];
    struct tee *tee = allocate(1, sizeof *tee);
    *tee = (struct tee){
        .operands = n ? operands : standard_input, .n_operands = n ? n : 1, .feeding = true};
    tee->standard_input = fcntl(0, F_DUPFD_CLOEXEC, 3);
    if (tee->standard_input < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) ||
        dup2(ends[0], 0) < 0)
        die(STATUS_SYSTEM, "cannot make a socket:");
    close(ends[0]);
    tee->to_reader = ends[1];
    errno = pthread_create(&tee->thread, NULL, copy, tee);
    if (errno)
        die(STATUS_SYSTEM, "cannot start a thread:");
    die_action(copy_rest, tee);
    return tee;
}

void tee_finish(struct tee *tee)
{
    if (!tee)
        return;
    die_action(NULL, NULL);
    pthread_join(tee->thread, NULL);
    close(tee->to_reader);
    close(tee->standard_input);
    free(tee);
}
