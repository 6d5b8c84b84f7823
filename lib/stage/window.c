/* Texts longer than the context: windows that overlap, for whoever wants the probabilities of all
 * tokens. */
#include "stage/window.h"

#include <stdlib.h>

/* One window on its way out: stream positions [0, n) hold a BOS, where the text has one, and the
 * text from `start` on. */
struct view {
    struct engine *engine;
    const struct lane *lane;
    struct record_writer *writer;
    struct cache_sequence cache;
    float *logits; /* (CACHE_PAGE, n_logits) */
    uint32_t bos;  /* 1: the text begins with BOS, and so does every window */
    uint32_t start, n;
};

static uint32_t token_at(const struct view *v, uint32_t position)
{
    return lane_token(v->lane, position < v->bos ? 0 : v->start + position);
}

static void write_tokens(const struct view *v)
{
    uint8_t payload[CACHE_PAGE * 4];
    for (uint32_t begin = 0, count; begin < v->n; begin += count) {
        count = v->n - begin < CACHE_PAGE ? v->n - begin : CACHE_PAGE;
        for (uint32_t i = 0; i < count; i++)
            store_u32(payload + 4 * i, token_at(v, begin + i));
        record_write(v->writer,
                     (struct record){.type = RECORD_TOKENS,
                                     .flags = RECORD_OPEN,
                                     .sequence = v->lane->tokens->id,
                                     .position = begin,
                                     .count = count,
                                     .binding = v->engine->facts.vocabulary_fingerprint},
                     payload, 4 * (size_t)count);
    }
}

/* Evaluates [begin, end), within a page, and writes the logits from position `from` on; those of
 * the text's last token, which are about none that is known, close the sequence. */
static void evaluate(struct view *v, uint32_t begin, uint32_t end, uint32_t from, bool last)
{
    struct error error;
    struct model_row rows[CACHE_PAGE];
    uint32_t first = begin > from ? begin : from;
    for (uint32_t p = begin; p < end; p++)
        rows[p - begin] = (struct model_row){&v->cache, p, token_at(v, p), p >= from};
    if (!model_evaluate(v->engine->model, rows, end - begin, v->logits, &error))
        die(error.status, "model '%s', sequence %u: %s", v->engine->facts.name, v->lane->tokens->id,
            error.text);
    for (uint32_t p = first; p < end; p++) {
        bool final = p + 1 == v->n;
        if (!final || last)
            state_write_logits(v->writer, &v->engine->facts, v->lane->tokens->id, p,
                               v->logits + (size_t)(p - first) * v->engine->facts.n_logits, !final);
    }
}

static void write_view(struct view *v, uint32_t from, bool last)
{
    uint32_t batch = v->engine->batch < CACHE_PAGE ? v->engine->batch : CACHE_PAGE;
    write_tokens(v);
    for (uint32_t begin = 0, end; begin < v->n; begin = end) {
        end = v->n - begin < batch ? v->n : begin + batch;
        evaluate(v, begin, end, from, last);
    }
    cache_cut(&v->cache, 0);
}

/* The next window begins where this one did: everything is forgotten. */
static void write_cut(const struct view *v)
{
    uint8_t payload[8];
    store_u32(payload, v->lane->tokens->id);
    store_u32(payload + 4, v->lane->tokens->draw_stream);
    record_write(
        v->writer,
        (struct record){.type = RECORD_FORK, .flags = RECORD_OPEN, .sequence = v->lane->tokens->id},
        payload, 8);
}

void window_write(struct engine *engine, const struct lane *lane, uint32_t window, uint32_t stride,
                  struct record_writer *writer)
{
    uint32_t bos = lane_token(lane, 0) == engine->facts.bos, end = 0, text = lane_end(lane) - bos;
    struct view v = {.engine = engine,
                     .lane = lane,
                     .writer = writer,
                     .bos = bos,
                     .cache = {.shape = lane->cache.shape}};
    v.logits = allocate((size_t)CACHE_PAGE * engine->facts.n_logits, sizeof *v.logits);
    while (end < text ||
           v.n == 0) { /* `end`: tokens of the text that have been scored, BOS not counted */
        uint32_t from = end ? bos + end - v.start - stride - 1 : 0;
        v.start = end ? v.start + stride : 0;
        uint32_t room = window - bos, left = text - v.start;
        v.n = bos + (left < room ? left : room);
        end = v.start + v.n - bos;
        write_view(&v, from, end == text);
        if (end < text)
            write_cut(&v);
    }
    cache_release(&v.cache);
    free(v.logits);
}
