#include "stage/pipeline.h"
#include "stage/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE       65536
#define MUCH        (4u << 20) /* waiting bytes at which a bounded relay stops reading */
#define GRACE       0.1        /* seconds in which a failure's cause may still show */
#define PATIENCE    1.0        /* seconds from the polite signal to the other one */
#define MAX_RELAYED RECORD_MAX_ANCILLARY

void pipeline_pipe(int ends[2])
{
    int low[2];
    if (pipe2(low, O_CLOEXEC))
        die(STATUS_SYSTEM, "cannot make a pipe:");
    for (int i = 0; i < 2; i++) { /* above the descriptors that children get */
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 10);
        if (ends[i] < 0)
            die(STATUS_SYSTEM, "cannot make a pipe:");
        close(low[i]);
    }
}

int pipeline_null(void)
{
    int low = open("/dev/null", O_RDONLY | O_CLOEXEC), fd = fcntl(low, F_DUPFD_CLOEXEC, 10);
    if (fd < 0)
        die(STATUS_SYSTEM, "/dev/null: cannot open:");
    close(low);
    return fd;
}

void pipeline_init(struct pipeline *p)
{
    *p = (struct pipeline){.folder = program_folder()};
    /* The others have the prefix that we were installed with, by whatever link we were called. */
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = 0;
    char *name = strrchr(self, '/') ? strrchr(self, '/') + 1 : self,
         *ours = strstr(name, "generate");
    snprintf(p->prefix, sizeof p->prefix, "%.*s", ours ? (int)(ours - name) : 0, name);
    sigset_t set;
    sigemptyset(&set);
    static const int watched[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) {
        struct sigaction old;
        bool ignored =
            sigaction(watched[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN; /* nohup */
        if (!ignored || watched[i] == SIGCHLD)
            sigaddset(&set, watched[i]);
    }
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN); /* a child that is gone is noticed by its status */
    sigprocmask(SIG_BLOCK, &set, NULL);
    p->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (p->signals < 0)
        die(STATUS_SYSTEM, "cannot watch signals:");
}

/* In the child: descriptors to their places, then the program. */
_Noreturn static void become(const char *path, const char **argv, const int from[3],
                             const int kept[2], pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(STATUS_SYSTEM);
    for (int to = 0; to < 3; to++)
        if (from[to] != to && dup2(from[to], to) < 0)
            die(STATUS_SYSTEM, "cannot place descriptor %d:", to);
    for (int i = 0; i < 2; i++)
        if (kept[i] >= 0)
            fcntl(kept[i], F_SETFD, 0);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv(path, (char **)(uintptr_t)argv);
    die(STATUS_SYSTEM, "%s: cannot run:", path);
}

void pipeline_start(struct pipeline *p, const char *name, const char **argv, int in, int out,
                    int third, int fourth)
{
    char path[4400];
    int ends[2];
    struct child *child = &p->child[p->n_children++];
    snprintf(path, sizeof path, "%s%s%s", p->folder, p->prefix, name);
    argv[0] = path;
    pipeline_pipe(ends);
    pid_t parent = getpid();
    *child = (struct child){.name = name, .standard_error = ends[0], .pid = fork()};
    if (child->pid < 0)
        die(STATUS_SYSTEM, "cannot start %s:", name);
    if (child->pid == 0)
        become(path, argv, (int[]){in, out, ends[1]}, (int[]){third, fourth}, parent);
    close(ends[1]);
    const int given[] = {in, out, third, fourth};
    for (size_t i = 0; i < 4; i++)
        if (given[i] > 2)
            close(given[i]);
}

/* ---- relays -------------------------------------------------------------------------------- */

void outlet_put(struct outlet *o, const void *bytes, size_t size)
{
    if (o->fd < 0)
        return;
    if (o->begin > 0 && o->begin >= o->end / 2) { /* what was written makes room */
        memmove(o->bytes, o->bytes + o->begin, o->end - o->begin);
        o->end -= o->begin;
        o->begin = 0;
    }
    o->bytes = grow(o->bytes, &o->capacity, o->end + size, 1);
    if (size)
        memcpy(o->bytes + o->end, bytes, size);
    o->end += size;
}

void outlet_put_record(struct outlet *o, const struct relay *relay, const struct record *record,
                       const uint8_t *payload)
{
    outlet_put(o, relay->header, RECORD_HEADER);
    outlet_put(o, payload, (size_t)record_padded(record->length));
}

static void outlet_close(struct outlet *o)
{
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
    o->begin = o->end = 0;
}

/* Writes what the reader takes without waiting. */
static void outlet_flush(struct outlet *o)
{
    while (o->fd >= 0 && o->begin < o->end) {
        ssize_t n = write(o->fd, o->bytes + o->begin, o->end - o->begin);
        if (n > 0)
            o->begin += (size_t)n;
        else if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        else
            outlet_close(o); /* the reader is gone */
    }
}

/* Follows records through pieces of bytes of any size. */
static void split(struct relay *r, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        bool in_header = r->have < RECORD_HEADER;
        size_t wanted = RECORD_HEADER;
        struct error error;
        if (!in_header)
            wanted += (size_t)record_padded(r->record.length);
        size_t n = wanted - r->have < size ? wanted - r->have : size;
        if (in_header) {
            memcpy(r->header + r->have, bytes, n);
        } else {
            r->payload = grow(r->payload, &r->payload_capacity, wanted, 1);
            memcpy(r->payload + r->have - RECORD_HEADER, bytes, n);
        }
        r->have += n, bytes += n, size -= n;
        if (in_header && r->have == RECORD_HEADER) {
            if (!record_decode(&r->record, r->header, &error) || r->record.length > MAX_RELAYED)
                r->see = NULL; /* its reader will say what is wrong */
            if (!r->see)
                return;
            wanted = RECORD_HEADER + (size_t)record_padded(r->record.length);
        }
        if (r->have >= RECORD_HEADER && r->have == wanted) {
            r->see(r->context, &r->record, r->payload);
            r->have = 0;
        }
    }
}

static void relay_read(struct relay *r)
{
    static uint8_t piece[PIECE];
    ssize_t n = read(r->in, piece, sizeof piece);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        close(r->in);
        r->in = -1;
        return;
    }
    if (r->see)
        split(r, piece, (size_t)n);
    for (int i = 0; i < 2; i++) {
        if (i == 0 || !r->apart)
            outlet_put(&r->out[i], piece, (size_t)n);
        outlet_flush(&r->out[i]);
    }
}

static size_t waiting(const struct relay *r)
{
    return r->out[0].end - r->out[0].begin + r->out[1].end - r->out[1].begin;
}

/* ---- children ------------------------------------------------------------------------------ */

static void hear(struct child *c)
{
    c->said = grow(c->said, &c->said_capacity, c->said_length + 4096, 1);
    ssize_t n = read(c->standard_error, c->said + c->said_length, 4096);
    if (n > 0) {
        c->said_length += (size_t)n;
    } else if (n == 0 || errno != EINTR) {
        close(c->standard_error);
        c->standard_error = -1;
    }
}

/* Everything a child that has ended left in its pipe. */
static void hear_all(struct child *c)
{
    while (c->standard_error >= 0)
        hear(c);
}

static void repeat(struct child *c)
{
    for (size_t done = 0; done < c->said_length;) {
        ssize_t n = write(2, c->said + done, c->said_length - done);
        if (n <= 0 && errno != EINTR)
            break; /* nobody hears; the text matters more */
        done += n > 0 ? (size_t)n : 0;
    }
    c->said_length = 0;
}

static void signal_children(const struct pipeline *p, int signal)
{
    for (size_t i = 0; i < p->n_children; i++)
        if (!p->child[i].ended)
            kill(p->child[i].pid, signal);
}

/* A filter has ended so because the text did before it was complete, at the end of its input; or in
 * the midst of it, and then the stage after it fails, too. */
static bool is_incomplete(const struct child *c)
{
    return WIFEXITED(c->status) && WEXITSTATUS(c->status) == STATUS_CONSTRAINT;
}

static void reap(struct pipeline *p)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (size_t i = 0; i < p->n_children; i++) {
            struct child *c = &p->child[i];
            if (c->pid != pid || c->ended)
                continue;
            c->ended = true;
            c->status = status;
            hear_all(c);
            if (status == 0) {
                repeat(c);
            } else if (is_incomplete(c)) {
                continue; /* the others end as they would, and the text is all shown */
            } else if (!p->failed) {
                p->failed = true;
                p->failed_at = seconds_now();
            } else if (p->killing) {
                c->status = 0; /* our doing */
            }
        }
}

static bool all_ended(const struct pipeline *p)
{
    for (size_t i = 0; i < p->n_children; i++)
        if (!p->child[i].ended)
            return false;
    return true;
}

static bool was_killed(const struct child *c)
{
    return WIFSIGNALED(c->status) && WTERMSIG(c->status) != SIGPIPE;
}

static bool has_message(const struct child *c)
{
    return WIFEXITED(c->status) && WEXITSTATUS(c->status) != 0 && c->said_length > 0;
}

static bool has_graver_message(const struct child *c)
{
    return has_message(c) && !is_incomplete(c);
}

static bool has_status(const struct child *c)
{
    return WIFEXITED(c->status) && WEXITSTATUS(c->status) != 0;
}

static bool lost_reader(const struct child *c)
{
    return c->status != 0;
}

/* The child whose failure is the cause: one that was killed, else the first with a message (of a
 * text that was not complete only when there is no other), else the first with a status; last, one
 * that lost its reader. */
static struct child *culprit(struct pipeline *p)
{
    bool (*const tests[])(const struct child *) = {was_killed, has_graver_message, has_message,
                                                   has_status, lost_reader};
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++)
        for (size_t i = 0; i < p->n_children; i++)
            if (tests[t](&p->child[i]))
                return &p->child[i];
    return NULL;
}

_Noreturn static void end_by(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigaction(number, &action, NULL);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    _exit(STATUS_SYSTEM);
}

static int tell(struct pipeline *p)
{
    if (p->caught)
        end_by(p->caught);
    struct child *c = culprit(p);
    if (!c)
        return STATUS_OK;
    if (WIFSIGNALED(c->status)) {
        if (WTERMSIG(c->status) == SIGPIPE)
            end_by(SIGPIPE);
        warn("%s was killed by signal %d (%s)", c->name, WTERMSIG(c->status),
             strsignal(WTERMSIG(c->status)));
        return STATUS_SYSTEM;
    }
    repeat(c);
    return WEXITSTATUS(c->status);
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void take_signals(struct pipeline *p)
{
    struct signalfd_siginfo info;
    while (read(p->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD || p->caught)
            continue;
        p->caught = (int)info.ssi_signo;
        p->failed = true;
        p->failed_at = seconds_now() - GRACE; /* nothing to find out */
    }
    reap(p);
}

static void enforce(struct pipeline *p)
{
    double since = seconds_now() - p->failed_at;
    if (!p->failed || since < GRACE)
        return;
    if (!p->killing)
        signal_children(p, SIGTERM);
    p->killing = true;
    if (since > GRACE + PATIENCE)
        signal_children(p, SIGKILL);
}

int pipeline_run(struct pipeline *p, struct relay *relays, size_t n_relays)
{
    for (size_t i = 0; i < n_relays; i++)
        for (int o = 0; o < 2; o++)
            if (relays[i].out[o].fd >= 0)
                fcntl(relays[i].out[o].fd, F_SETFL, O_NONBLOCK);
    while (!all_ended(p)) {
        struct pollfd poller[1 + PIPELINE_CHILDREN + 3 * 4];
        nfds_t n = 0;
        poller[n++] = (struct pollfd){p->signals, POLLIN, 0};
        for (size_t i = 0; i < p->n_children; i++)
            poller[n++] =
                (struct pollfd){p->child[i].standard_error, POLLIN, 0}; /* -1 is passed over */
        for (size_t i = 0; i < n_relays; i++) {
            struct relay *r = &relays[i];
            poller[n++] = (struct pollfd){r->bounded && waiting(r) > MUCH ? -1 : r->in, POLLIN, 0};
            for (int o = 0; o < 2; o++)
                poller[n++] = (struct pollfd){r->out[o].begin < r->out[o].end ? r->out[o].fd : -1,
                                              POLLOUT, 0};
        }
        if (poll(poller, n, p->failed ? 10 : -1) < 0 && errno != EINTR)
            die(STATUS_SYSTEM, "cannot wait for the stages:");
        if (poller[0].revents)
            take_signals(p);
        for (size_t i = 0; i < p->n_children; i++)
            if (poller[1 + i].revents && p->child[i].standard_error >= 0)
                hear(&p->child[i]);
        for (size_t i = 0; i < n_relays; i++) {
            struct relay *r = &relays[i];
            if (poller[1 + p->n_children + 3 * i].revents && r->in >= 0)
                relay_read(r);
            for (int o = 0; o < 2; o++) {
                outlet_flush(&r->out[o]);
                if (r->in < 0 && r->out[o].begin == r->out[o].end)
                    outlet_close(&r->out[o]);
            }
        }
        enforce(p);
    }
    return tell(p);
}

void pipeline_free(struct pipeline *p, struct relay *relays, size_t n_relays)
{
    for (size_t i = 0; i < p->n_children; i++)
        free(p->child[i].said);
    for (size_t i = 0; i < n_relays; i++) {
        free(relays[i].payload);
        free(relays[i].out[0].bytes);
        free(relays[i].out[1].bytes);
    }
    free(p->folder);
}
