/* Attention over paged keys and values: which rows, heads and pages meet where and when.  The
 * arithmetic of a page is attend_page of each level; its result does not depend on what is decided
 * here.
 *
 * The heads of one KV head read the same keys and values, and so do neighbouring query rows of one
 * sequence: together they are a tile, which goes through the pages once and keeps its running
 * maximum, sum and output beside it.  A task is one tile and one KV head.  Where there are too few
 * tasks for the threads (one row, a long context), tasks are also cut into spans of pages, whose
 * results are kept for each page and merged in ascending order afterwards. */
#include "kernel/table.h"

#include <stdlib.h>
#include <string.h>

/* Rows (query rows times heads) of a tile at most: their queries, scores and outputs stay in the
 * second cache. */
#define TILE 96
/* From so many rows on a page of F16 is widened once instead of in every block of rows. */
#define WIDEN_ROWS 24
/* Tasks are not cut where keeping the results of their pages would take more floats. */
#define MOST_PARTIALS ((size_t)16 << 20)
/* Multiply-adds below which one thread is faster than waking another. */
#define SMALL_WORK 100000

struct tile {
    uint32_t row, n; /* query rows */
};

/* Results of each page of a tile, for tasks that are cut into spans. */
struct partial {
    float *largest, *sum; /* (pages, rows) */
    float *out;           /* (pages, rows, value_dim) */
};

struct job {
    const struct float_ops *ops;
    const struct attention *attention;
    const struct attention_row *rows;
    const float *q;
    float *out;
    uint32_t group; /* query heads of a KV head */
    uint32_t part;  /* of them in one task */
    uint32_t parts; /* tasks for one group */
    struct tile *tiles;
    size_t n_tiles;
    size_t n_tasks; /* tiles x KV heads x parts */
    uint32_t spans; /* of each task; 1: not cut */
    uint8_t *scratch;
    size_t scratch_bytes;     /* of each thread */
    struct partial *partials; /* (n_tasks) */
};

/* What a task is about. */
struct task {
    struct tile tile;
    uint32_t kv_head, head, n_heads; /* query heads [head, head + n_heads) */
    uint32_t n_rows;                 /* tile.n * n_heads */
    uint32_t first_page, end_page;
};

/* Memory of one thread. */
struct scratch {
    float *q, *scores, *factors, *largest, *sum, *out, *keys, *values;
    uint32_t *from, *to; /* of a page */
};

static struct task task_at(const struct job *job, size_t index)
{
    struct task task;
    uint32_t part = (uint32_t)(index % job->parts);
    index /= job->parts;
    task.kv_head = (uint32_t)(index % job->attention->n_kv_heads);
    /* The last rows see the most: the longest tasks begin first. */
    task.tile = job->tiles[job->n_tiles - 1 - index / job->attention->n_kv_heads];
    task.head = task.kv_head * job->group + part * job->part;
    task.n_heads =
        job->group - part * job->part < job->part ? job->group - part * job->part : job->part;
    task.n_rows = task.tile.n * task.n_heads;
    task.first_page = UINT32_MAX;
    task.end_page = 0;
    for (uint32_t i = 0; i < task.tile.n; i++) {
        const struct attention_row *row = &job->rows[task.tile.row + i];
        if (row->first >= row->end)
            continue;
        uint32_t first = row->first / KERNEL_PAGE, end = (row->end - 1) / KERNEL_PAGE + 1;
        task.first_page = first < task.first_page ? first : task.first_page;
        task.end_page = end > task.end_page ? end : task.end_page;
    }
    if (task.first_page > task.end_page)
        task.first_page = task.end_page;
    return task;
}

/* Cuts `count` items of `size` bytes from the memory at *at, or only counts it when base is NULL.
 */
static void *take(uint8_t *base, size_t *at, size_t count, size_t size)
{
    void *memory = base ? base + *at : NULL;
    *at += (count * size + 63) / 64 * 64;
    return memory;
}

static struct scratch scratch_at(const struct job *job, uint8_t *base, size_t rows, size_t *bytes)
{
    const struct attention *a = job->attention;
    struct scratch s;
    *bytes = 0;
    s.q = take(base, bytes, (rows + ATTEND_SLACK) * a->key_dim, sizeof *s.q);
    s.scores = take(base, bytes, (rows + ATTEND_SLACK) * KERNEL_PAGE, sizeof *s.scores);
    s.factors = take(base, bytes, 2 * rows, sizeof *s.factors);
    s.largest = take(base, bytes, rows, sizeof *s.largest);
    s.sum = take(base, bytes, rows, sizeof *s.sum);
    s.out = take(base, bytes, rows * a->value_dim, sizeof *s.out);
    s.from = take(base, bytes, rows, sizeof *s.from);
    s.to = take(base, bytes, rows, sizeof *s.to);
    bool widen = rows >= WIDEN_ROWS && a->element == TENSOR_F16;
    s.keys = take(base, bytes, widen ? (size_t)a->key_dim * KERNEL_PAGE : 0, sizeof *s.keys);
    s.values = take(base, bytes, widen ? (size_t)a->value_dim * KERNEL_PAGE : 0, sizeof *s.values);
    return s;
}

/* The queries of a task side by side. */
static void gather(const struct job *job, const struct task *task, float *q)
{
    size_t dim = job->attention->key_dim, size = task->n_heads * dim;
    for (uint32_t i = 0; i < task->tile.n; i++)
        memcpy(q + i * size,
               job->q + ((size_t)(task->tile.row + i) * job->attention->n_heads + task->head) * dim,
               size * sizeof *q);
}

static void scatter(const struct job *job, const struct task *task, const float *out,
                    const float *sum)
{
    size_t dim = job->attention->value_dim;
    for (uint32_t i = 0; i < task->n_rows; i++) {
        size_t row = task->tile.row + i / task->n_heads, head = task->head + i % task->n_heads;
        job->ops->divide(job->out + (row * job->attention->n_heads + head) * dim, out + i * dim,
                         sum[i], dim);
    }
}

/* The visible part of a page for one query row; empty: false. */
static bool visible(const struct attention_row *row, uint32_t page, uint32_t *from, uint32_t *to)
{
    uint32_t begin = page * KERNEL_PAGE;
    *from = row->first > begin ? row->first - begin : 0;
    *to = row->end > begin ? row->end - begin : 0;
    *to = *to < KERNEL_PAGE ? *to : KERNEL_PAGE;
    return *from < *to;
}

static bool begins_at(const struct attention_row *row, uint32_t page)
{
    return row->first / KERNEL_PAGE == page;
}

/* Pages [first, end) of a task: merged into the thread's state, or each kept in `partial`. */
static void attend_span(const struct job *job, const struct task *task, uint32_t first,
                        uint32_t end, const struct scratch *s, const struct partial *partial)
{
    const struct attention *a = job->attention;
    const struct attention_row *rows = job->rows + task->tile.row;
    bool half = a->element == TENSOR_F16, widen = half && task->n_rows >= WIDEN_ROWS;
    size_t element = half ? 2 : 4;
    size_t keys = (size_t)a->key_dim * KERNEL_PAGE, values = (size_t)a->value_dim * KERNEL_PAGE;
    size_t key_offset = a->key_offset + task->kv_head * keys * element;
    size_t value_offset = a->value_offset + task->kv_head * values * element;
    struct attend_page page = {
        .half = half && !widen,
        .key_dim = a->key_dim,
        .value_dim = a->value_dim,
        .scale = a->scale,
        .softcap = a->softcap,
        .value_bytes = widen ? 0 : values * element,
        .from = s->from,
        .to = s->to,
        .scores = s->scores,
        .factors = s->factors,
    };
    for (uint32_t number = first; number < end; number++) {
        page.keys = rows->pages[number] + key_offset;
        page.values = rows->pages[number] + value_offset;
        page.key_bytes = number + 1 < end && !widen ? keys * element : 0;
        page.next_keys = number + 1 < end ? rows->pages[number + 1] + key_offset : NULL;
        if (widen) {
            job->ops->widen_f16(s->keys, page.keys, keys);
            job->ops->widen_f16(s->values, page.values, values);
            page.keys = s->keys;
            page.values = s->values;
        }
        float *largest = s->largest, *sum = s->sum, *out = s->out;
        if (partial) {
            size_t at = (size_t)(number - task->first_page) * task->n_rows;
            largest = partial->largest + at;
            sum = partial->sum + at;
            out = partial->out + at * a->value_dim;
        }
        /* Runs of rows that see something of the page, and that have a state or not. */
        for (uint32_t i = 0, n; i < task->tile.n; i += n) {
            page.first = partial || begins_at(&rows[i], number);
            uint32_t from, to;
            for (n = 0; i + n < task->tile.n && visible(&rows[i + n], number, &from, &to) &&
                        page.first == (partial || begins_at(&rows[i + n], number));
                 n++)
                for (uint32_t head = 0; head < task->n_heads; head++) {
                    s->from[n * task->n_heads + head] = from;
                    s->to[n * task->n_heads + head] = to;
                }
            if (n == 0) {
                n = 1;
                continue;
            }
            size_t row = (size_t)i * task->n_heads;
            page.n_rows = n * task->n_heads;
            page.q = s->q + row * a->key_dim;
            page.largest = largest + row;
            page.sum = sum + row;
            page.out = out + row * a->value_dim;
            job->ops->attend_page(&page);
        }
    }
}

/* Items are (task, span), the spans of a task side by side. */
static void work_attend(void *context, int thread, size_t begin, size_t end)
{
    const struct job *job = context;
    uint8_t *base = job->scratch + (size_t)thread * job->scratch_bytes;
    for (size_t item = begin; item < end; item++) {
        size_t index = item / job->spans, span = item % job->spans, bytes;
        struct task task = task_at(job, index);
        struct scratch s = scratch_at(job, base, task.n_rows, &bytes);
        gather(job, &task, s.q);
        size_t pages = task.end_page - task.first_page;
        attend_span(job, &task, task.first_page + (uint32_t)(pages * span / job->spans),
                    task.first_page + (uint32_t)(pages * (span + 1) / job->spans), &s,
                    job->partials ? &job->partials[index] : NULL);
        if (!job->partials)
            scatter(job, &task, s.out, s.sum);
    }
}

/* Merges the pages of cut tasks, page by page. */
static void work_merge(void *context, int thread, size_t begin, size_t end)
{
    const struct job *job = context;
    uint8_t *base = job->scratch + (size_t)thread * job->scratch_bytes;
    size_t dim = job->attention->value_dim;
    for (size_t index = begin; index < end; index++) {
        size_t bytes;
        struct task task = task_at(job, index);
        struct scratch s = scratch_at(job, base, task.n_rows, &bytes);
        for (uint32_t number = task.first_page; number < task.end_page; number++)
            for (uint32_t i = 0; i < task.tile.n; i++) {
                uint32_t from, to;
                const struct attention_row *row = &job->rows[task.tile.row + i];
                if (!visible(row, number, &from, &to))
                    continue;
                size_t at = (size_t)i * task.n_heads;
                size_t in = (size_t)(number - task.first_page) * task.n_rows + at;
                const float *m = job->partials[index].largest + in;
                const float *l = job->partials[index].sum + in;
                const float *o = job->partials[index].out + in * dim;
                struct attend_page page = {
                    .n_rows = task.n_heads,
                    .value_dim = job->attention->value_dim,
                    .factors = s.factors,
                    .largest = s.largest + at,
                    .sum = s.sum + at,
                    .out = s.out + at * dim,
                };
                if (begins_at(row, number)) {
                    memcpy(page.largest, m, task.n_heads * sizeof *m);
                    memcpy(page.sum, l, task.n_heads * sizeof *l);
                    memcpy(page.out, o, task.n_heads * dim * sizeof *o);
                } else {
                    job->ops->attend_merge(&page, m, l, o);
                }
            }
        scatter(job, &task, s.out, s.sum);
    }
}

/* Neighbouring rows of one sequence, at most `most` in a tile. */
static void make_tiles(struct job *job, uint32_t n_rows, uint32_t most)
{
    job->n_tiles = 0;
    for (uint32_t row = 0, n; row < n_rows; row += n) {
        for (n = 1;
             n < most && row + n < n_rows && job->rows[row + n].pages == job->rows[row].pages;)
            n++;
        job->tiles[job->n_tiles++] = (struct tile){row, n};
    }
    job->n_tasks = job->n_tiles * job->attention->n_kv_heads * job->parts;
}

/* Memory for the results of all pages of a task, in floats. */
static size_t partial_floats(const struct job *job, const struct task *task)
{
    size_t results = (size_t)(task->end_page - task->first_page) * task->n_rows;
    return results * (2 + (size_t)job->attention->value_dim);
}

/* Deals one block of memory, which is returned, to all tasks. */
static float *make_partials(struct job *job, size_t floats)
{
    float *memory = reallocate(NULL, floats, sizeof *memory), *at = memory;
    job->partials = allocate(job->n_tasks, sizeof *job->partials);
    for (size_t i = 0; i < job->n_tasks; i++) {
        struct task task = task_at(job, i);
        size_t results = (size_t)(task.end_page - task.first_page) * task.n_rows;
        job->partials[i] = (struct partial){at, at + results, at + 2 * results};
        at += partial_floats(job, &task);
    }
    return memory;
}

void kernel_attend(const struct kernel *kernel, struct threads *threads,
                   const struct attention *attention, const struct attention_row *rows,
                   uint32_t n_rows, const float *q, float *out)
{
    if (n_rows == 0)
        return;
    struct job job = {
        .ops = kernel->floats,
        .attention = attention,
        .rows = rows,
        .q = q,
        .out = out,
        .group = attention->n_heads / attention->n_kv_heads,
        .spans = 1,
    };
    job.parts = (job.group + TILE - 1) / TILE;
    job.part = (job.group + job.parts - 1) / job.parts;
    job.tiles = allocate(n_rows, sizeof *job.tiles);

    double work = 0;
    for (uint32_t i = 0; i < n_rows; i++)
        work += rows[i].end > rows[i].first ? rows[i].end - rows[i].first : 0;
    work *= (double)attention->n_heads * (attention->key_dim + attention->value_dim);
    if (work < SMALL_WORK)
        threads = NULL;

    /* Four tasks a thread keep all busy to the end: by smaller tiles first, then by spans. */
    size_t wanted = threads_count(threads) > 1 ? 4 * (size_t)threads_count(threads) : 1;
    uint32_t most = TILE / job.part, least = (12 + job.part - 1) / job.part;
    make_tiles(&job, n_rows, most);
    while (job.n_tasks < wanted && most > least) {
        most = most / 2 > least ? most / 2 : least;
        make_tiles(&job, n_rows, most);
    }

    uint32_t rows_most = 0, pages_most = 0; /* of a task */
    size_t floats = 0;                      /* for the results of all pages */
    for (size_t i = 0; i < job.n_tasks; i++) {
        struct task task = task_at(&job, i);
        uint32_t pages = task.end_page - task.first_page;
        rows_most = task.n_rows > rows_most ? task.n_rows : rows_most;
        pages_most = pages > pages_most ? pages : pages_most;
        floats += partial_floats(&job, &task);
    }
    float *partials = NULL;
    if (job.n_tasks < wanted && pages_most > 1 && floats <= MOST_PARTIALS) {
        size_t spans = (wanted + job.n_tasks - 1) / job.n_tasks;
        job.spans = spans < pages_most ? (uint32_t)spans : pages_most;
        partials = make_partials(&job, floats);
    }
    scratch_at(&job, NULL, rows_most, &job.scratch_bytes);
    job.scratch = allocate_aligned((size_t)threads_count(threads), job.scratch_bytes);
    threads_run(threads, job.n_tasks * job.spans, 1, work_attend, &job);
    if (partials)
        threads_run(threads, job.n_tasks, 1, work_merge, &job);
    free(job.scratch);
    free(partials);
    free(job.partials);
    free(job.tiles);
}
