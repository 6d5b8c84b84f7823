#include "stage/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void fill_facts(struct model_facts *f, const struct model *model,
                       const struct vocab_facts *vocab)
{
    const struct hyperparameters *h = model_hyperparameters(model);
    *f = (struct model_facts){
        .n_layers = h->n_layers,
        .n_kv_heads = h->cache.n_kv_heads,
        .key_dim = h->cache.key_dim,
        .value_dim = h->cache.value_dim,
        .element = h->cache.element,
        .n_logits = h->n_logits,
        .n_vocabulary = vocab->n_tokens < h->n_logits ? vocab->n_tokens : h->n_logits,
        .n_context = h->n_context,
        .model_context = h->model_context,
        .bos = vocab->bos == VOCAB_NONE ? RECORD_NO_TOKEN : vocab->bos,
        .rope_scaling = h->rope.scaling,
        .rope_dim = h->rope.dim,
        .rope_base = h->rope.base,
        .rope_scale = h->rope.scale,
        .vocabulary_fingerprint = vocab->fingerprint,
        .model_fingerprint = model_fingerprint(model),
        .arithmetic = KERNEL_ARITHMETIC_REVISION,
    };
    f->n_eog =
        (uint32_t)vocab->n_eog < sizeof f->eog / sizeof *f->eog ? (uint32_t)vocab->n_eog : 256;
    memcpy(f->eog, vocab->eog, f->n_eog * sizeof *f->eog);
    snprintf(f->name, sizeof f->name, "%s", h->name);
}

void engine_open(struct engine *engine, const struct engine_options *options)
{
    struct error error;
    if (!engine_try_open(engine, options, &error))
        die_error(&error);
}

bool engine_try_open(struct engine *engine, const struct engine_options *options,
                     struct error *error)
{
    struct vocab_facts vocab;
    const char *path = model_path(options->model);
    double begin = seconds_now();
    *engine = (struct engine){.batch = options->batch ? (uint32_t)options->batch : 512,
                              .verbose = options->verbose};
    engine->gguf = gguf_open(path, error);
    if (!engine->gguf)
        return false;
    const struct model_options model_options = {
        .n_context = (uint32_t)options->context,
        .element = options->cache_type == 1 ? TENSOR_F32 : TENSOR_F16,
        .n_threads = options->threads ? (int)options->threads : threads_available(),
        .repack = (enum model_repack)options->repack,
    };
    engine->model = model_open(engine->gguf, &model_options, error);
    if (!engine->model || !vocab_facts(&vocab, engine->gguf, error))
        return error_prefix(error, path);
    fill_facts(&engine->facts, engine->model, &vocab);
    vocab_facts_free(&vocab);
    if (engine->verbose)
        warn("model '%s' (%s), kernel %s, %s layout, %d threads, opened in %.1f ms",
             engine->facts.name, path, kernel_name(model_kernel(engine->model)),
             model_repacked(engine->model) ? "interleaved" : "plain", model_options.n_threads,
             1e3 * (seconds_now() - begin));
    return true;
}

void engine_close(struct engine *engine)
{
    model_close(engine->model);
    gguf_close(engine->gguf);
}

/* ---- evaluating ---------------------------------------------------------------------------- */

void engine_check(const struct engine *engine, const struct lane *lane,
                  struct record_reader *reader)
{
    uint32_t end = lane_end(lane);
    if (lane->tokens->first > 0)
        reader_die(reader, STATUS_INPUT,
                   "sequence %u begins at position %u: positions 0 to %u are missing (a state must "
                   "come first)",
                   lane->tokens->id, lane->tokens->first, lane->tokens->first - 1);
    if (end == 0)
        reader_die(reader, STATUS_INPUT, "sequence %u holds no token: there is nothing to evaluate",
                   lane->tokens->id);
    if (end > engine->facts.n_context)
        reader_die(reader, STATUS_INPUT, "sequence %u has %u tokens, the context is %u",
                   lane->tokens->id, end, engine->facts.n_context);
}

/* One pass over the positions [n_positions, end).  `logits`: room for all their rows when `every`;
 * otherwise those of the lane's last token, when end reaches it. */
static void evaluate(struct engine *engine, struct lane *lane, uint32_t end, bool every,
                     float *logits)
{
    struct error error;
    uint32_t begin = lane->cache.n_positions, n = end - begin;
    struct model_row *rows = allocate(n, sizeof *rows);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (struct model_row){&lane->cache, begin + i, lane_token(lane, begin + i),
                                     every || begin + i + 1 == lane_end(lane)};
    if (!model_evaluate(engine->model, rows, n, logits, &error))
        die(error.status, "model '%s', sequence %u: %s", engine->facts.name, lane->tokens->id,
            error.text);
    free(rows);
}

/* Where the logits of the last position are not known, its token is evaluated again: a cache alone
 * does not give them. */
static void make_room_for_logits(struct engine *engine, struct lane *lane)
{
    uint32_t end = lane_end(lane);
    if (!lane->logits)
        lane->logits = allocate(engine->facts.n_logits, sizeof *lane->logits);
    if (lane->cache.n_positions >= end && lane->logits_position != (int64_t)end - 1)
        cache_cut(&lane->cache, end - 1);
}

/* The next chunk's end. */
static uint32_t chunk_end(const struct engine *engine, const struct lane *lane)
{
    uint32_t begin = lane->cache.n_positions, end = lane_end(lane);
    return end - begin > engine->batch ? begin + engine->batch : end;
}

void engine_advance(struct engine *engine, struct lane *lane)
{
    make_room_for_logits(engine, lane);
    while (lane_pending(lane) > 0)
        evaluate(engine, lane, chunk_end(engine, lane), false, lane->logits);
    lane->logits_position = (int64_t)lane_end(lane) - 1;
}

static uint32_t page_end(uint32_t position)
{
    return (position / CACHE_PAGE + 1) * CACHE_PAGE;
}

/* Writes the pages that are complete, or all up to `end`; returns up to where. */
static uint32_t write_pages(struct engine *engine, struct lane *lane, uint32_t written,
                            uint32_t end, struct record_writer *writer)
{
    while (written < end && (page_end(written) <= end || end == lane_end(lane))) {
        uint32_t next = page_end(written) < end ? page_end(written) : end;
        state_write_positions(writer, &engine->facts, lane, written, next);
        written = next;
    }
    return written;
}

void engine_write(struct engine *engine, struct lane *lane, struct record_writer *writer)
{
    write_pages(engine, lane, 0, lane_end(lane), writer);
    state_write_last(writer, &engine->facts, lane);
}

/* With the logits of every position: page by page, so that at most a page of logits is held, and so
 * that the records do not depend on the size of the chunks.  The logits of a page's last position
 * wait for the tokens of the next page: only those of the last position of all are about the last
 * token that is known, and only they are a question to `sample`. */
static void advance_every(struct engine *engine, struct lane *lane, struct record_writer *writer)
{
    size_t n_logits = engine->facts.n_logits;
    float *logits = allocate(CACHE_PAGE * n_logits, sizeof *logits);
    bool held = false; /* lane->logits wait */
    uint32_t end = lane_end(lane),
             written = write_pages(engine, lane, 0, lane->cache.n_positions, writer);
    while (lane->cache.n_positions < end) {
        uint32_t first = lane->cache.n_positions,
                 last = page_end(first) < end ? page_end(first) : end;
        while (lane->cache.n_positions < last) {
            uint32_t next = chunk_end(engine, lane) < last ? chunk_end(engine, lane) : last;
            evaluate(engine, lane, next, true,
                     logits + (lane->cache.n_positions - first) * n_logits);
        }
        written = write_pages(engine, lane, written, last, writer);
        if (held)
            state_write_logits(writer, &engine->facts, lane->tokens->id, first - 1, lane->logits,
                               true);
        for (uint32_t p = first; p + 1 < last; p++)
            state_write_logits(writer, &engine->facts, lane->tokens->id, p,
                               logits + (p - first) * n_logits, true);
        memcpy(lane->logits, logits + (last - 1 - first) * n_logits, n_logits * sizeof *logits);
        held = true;
    }
    lane->logits_position = (int64_t)end - 1;
    state_write_last(writer, &engine->facts, lane);
    free(logits);
}

void engine_advance_writing(struct engine *engine, struct lane *lane, bool every,
                            struct record_writer *writer)
{
    make_room_for_logits(engine, lane);
    if (every && lane_pending(lane) > 0) {
        advance_every(engine, lane, writer);
        return;
    }
    uint32_t written = 0;
    while (lane_pending(lane) > 0) {
        evaluate(engine, lane, chunk_end(engine, lane), false, lane->logits);
        written = write_pages(engine, lane, written, lane->cache.n_positions, writer);
    }
    lane->logits_position = (int64_t)lane_end(lane) - 1;
    write_pages(engine, lane, written, lane_end(lane), writer);
    state_write_last(writer, &engine->facts, lane);
}
