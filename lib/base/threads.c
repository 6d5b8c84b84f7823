/* A pool of threads.  A job is open while its caller works on it; workers that are awake join,
 * workers that sleep or are not scheduled are not waited for: a busy machine costs speed, never
 * a stall behind a thread that has not begun. */
#include "base/base.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long a worker looks for the next job before it sleeps, in pauses: longer than the gap between
 * two products of one forward pass, much shorter than the wait for the next token. */
#define SPIN 1500

struct threads {
    int count;
    pthread_t *worker;
    /* Low 16 bits: workers inside the job; bit 16: the job is open; above: number of the job. */
    _Atomic uint64_t job;
    _Atomic uint32_t bell; /* futex: raised with every job */
    _Atomic int sleeping;
    _Atomic bool stopping;
    _Atomic size_t next;
    size_t items, step;
    void (*work)(void *, int, size_t, size_t);
    void *context;
};
#define OPEN   ((uint64_t)1 << 16)
#define NUMBER ((uint64_t)1 << 17)

struct seat {
    struct threads *threads;
    int index;
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void take_ranges(struct threads *t, int index)
{
    size_t begin;
    while ((begin = atomic_fetch_add(&t->next, t->step)) < t->items) {
        size_t end = t->items - begin < t->step ? t->items : begin + t->step;
        t->work(t->context, index, begin, end);
    }
}

/* Enters the job unless it is closed or was done before; returns its number, or `done`. */
static uint64_t join(struct threads *t, uint64_t done)
{
    uint64_t job = atomic_load(&t->job);
    while ((job & OPEN) && job / NUMBER != done)
        if (atomic_compare_exchange_weak(&t->job, &job, job + 1))
            return job / NUMBER;
    return done;
}

static void *worker_main(void *argument)
{
    struct seat seat = *(struct seat *)argument;
    struct threads *t = seat.threads;
    free(argument);
    uint64_t done = 0;
    for (;;) {
        uint32_t bell = atomic_load(&t->bell);
        uint64_t job = join(t, done);
        for (int i = 0; i < SPIN && job == done && !atomic_load(&t->stopping); i++) {
            pause_cpu();
            job = join(t, done);
        }
        if (atomic_load(&t->stopping))
            return NULL;
        if (job != done) {
            take_ranges(t, seat.index);
            atomic_fetch_sub(&t->job, 1);
            done = job;
            continue;
        }
        atomic_fetch_add(&t->sleeping, 1);
        syscall(SYS_futex, &t->bell, FUTEX_WAIT_PRIVATE, bell, NULL, NULL, 0);
        atomic_fetch_sub(&t->sleeping, 1);
    }
}

static void ring(struct threads *t)
{
    atomic_fetch_add(&t->bell, 1);
    if (atomic_load(&t->sleeping) > 0)
        syscall(SYS_futex, &t->bell, FUTEX_WAKE_PRIVATE, t->count, NULL, NULL, 0);
}

struct threads *threads_start(int n)
{
    struct threads *t = allocate(1, sizeof *t);
    t->count = n < 1 ? 1 : n > 1024 ? 1024 : n;
    t->worker = allocate((size_t)t->count, sizeof *t->worker);
    sigset_t all, old; /* signals are the main thread's business */
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (int i = 1; i < t->count; i++) {
        struct seat *seat = allocate(1, sizeof *seat);
        *seat = (struct seat){t, i};
        int reason = pthread_create(&t->worker[i], NULL, worker_main, seat);
        if (reason) {
            errno = reason;
            die(STATUS_SYSTEM, "cannot start thread %d of %d:", i + 1, t->count);
        }
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return t;
}

void threads_stop(struct threads *t)
{
    if (!t)
        return;
    atomic_store(&t->stopping, true);
    ring(t);
    for (int i = 1; i < t->count; i++)
        pthread_join(t->worker[i], NULL);
    free(t->worker);
    free(t);
}

int threads_count(const struct threads *t)
{
    return t ? t->count : 1;
}

void threads_run(struct threads *t, size_t items, size_t grain,
                 void (*work)(void *, int, size_t, size_t), void *context)
{
    if (!t || t->count == 1 || items <= grain) {
        if (items)
            work(context, 0, 0, items);
        return;
    }
    /* Eight ranges a thread: fine enough that a slowed thread does not hold up the others. */
    size_t step = items / ((size_t)t->count * 8) / grain * grain;
    t->items = items;
    t->step = step < grain ? grain : step;
    t->work = work;
    t->context = context;
    atomic_store(&t->next, 0);
    uint64_t job = atomic_load(&t->job) / NUMBER + 1;
    atomic_store(&t->job, job * NUMBER | OPEN);
    ring(t);
    take_ranges(t, 0);
    atomic_fetch_and(&t->job, ~OPEN);
    for (int i = 0; atomic_load(&t->job) & (OPEN - 1); i++) {
        pause_cpu();
        if (i > 20000)
            sched_yield(); /* a worker inside the job is not running: let it */
    }
}

/* ---- how many ------------------------------------------------------------------------------ */

/* The first words of a small file; false when it cannot be read. */
static bool read_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool ok = fgets(line, size, file) != NULL;
    fclose(file);
    return ok;
}

/* CPUs that a quota of a period allows, rounded up; 0: no limit. */
static int quota_cpus(const char *quota, const char *period)
{
    int64_t q, p;
    if (!parse_integer(quota, 1, INT64_MAX / 2, &q) || !parse_integer(period, 1, INT64_MAX / 2, &p))
        return 0;
    int64_t cpus = (q + p - 1) / p;
    return cpus < 1 ? 1 : cpus > 1024 ? 1024 : (int)cpus;
}

static int group_limit(const char *folder, bool version2)
{
    char path[4400], quota[64] = "", period[64] = "";
    if (version2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        char line[128];
        if (!read_line(path, line, sizeof line) || sscanf(line, "%63s %63s", quota, period) != 2)
            return 0;
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
        bool ok = read_line(path, quota, sizeof quota);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (!ok || !read_line(path, period, sizeof period))
            return 0;
        quota[strcspn(quota, "\n")] = period[strcspn(period, "\n")] = 0;
    }
    return quota_cpus(quota, period);
}

/* The smallest quota on the way from this process's control group up to the root. */
static int cgroup_cpus(void)
{
    FILE *file = fopen("/proc/self/cgroup", "r");
    char line[4096];
    int least = 0;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *controllers++ = *group++ = 0;
        bool version2 = !*controllers;
        if (!version2 && !strstr(controllers, "cpu"))
            continue;
        char folder[4300];
        int root = version2 ? snprintf(folder, sizeof folder, "/sys/fs/cgroup")
                            : snprintf(folder, sizeof folder, "/sys/fs/cgroup/%.200s", controllers);
        snprintf(folder + root, sizeof folder - (size_t)root, "%s", group);
        for (;;) {
            int limit = group_limit(folder, version2);
            if (limit && (!least || limit < least))
                least = limit;
            char *slash = strrchr(folder + root, '/');
            if (!slash)
                break;
            *slash = 0;
        }
    }
    if (file)
        fclose(file);
    return least;
}

int threads_available(void)
{
    cpu_set_t set;
    int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                           : (int)sysconf(_SC_NPROCESSORS_ONLN);
    int quota = cgroup_cpus();
    if (quota && quota < cpus)
        cpus = quota;
    return cpus < 1 ? 1 : cpus;
}
