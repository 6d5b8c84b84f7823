/* Several sequences in the loop's half that holds the model: who shares pages, who gives them back,
 * and that each lane's logits are those that it has alone. */
#include "../models.h"

#include "stage/decode.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a stream in memory -------------------------------------------------------------------- */

struct stream {
    uint8_t bytes[1 << 20];
    size_t size;
};

static void put(struct stream *s, struct record record, const void *payload, size_t length)
{
    record.length = record.raw_length = length;
    record.payload_crc = crc32_update(0, payload, length);
    record_encode(&record, s->bytes + s->size);
    memcpy(s->bytes + s->size + RECORD_HEADER, payload, length);
    memset(s->bytes + s->size + RECORD_HEADER + length, 0, record_padded(length) - length);
    s->size += RECORD_HEADER + record_padded(length);
    ck_assert_uint_lt(s->size, sizeof s->bytes - 4096);
}

/* Token ids that depend on the sequence and the position. */
static uint32_t token_at(uint32_t sequence, uint32_t position)
{
    return (sequence * 31 + position * 7919 + 3) % 300;
}

static void put_tokens(struct stream *s, uint32_t sequence, uint32_t position, uint32_t count,
                       uint8_t flags)
{
    uint8_t payload[4 * 512];
    for (uint32_t i = 0; i < count; i++)
        store_u32(payload + 4 * i, token_at(sequence, position + i));
    put(s,
        (struct record){.type = RECORD_TOKENS,
                        .flags = flags,
                        .sequence = sequence,
                        .position = position,
                        .count = count},
        payload, 4 * (size_t)count);
}

static void put_fork(struct stream *s, uint32_t sequence, uint32_t source, uint32_t position,
                     uint8_t flags)
{
    uint8_t payload[8];
    store_u32(payload, source);
    store_u32(payload + 4, sequence);
    put(s,
        (struct record){
            .type = RECORD_FORK, .flags = flags, .sequence = sequence, .position = position},
        payload, 8);
}

static void put_end(struct stream *s, uint32_t sequence, enum end_reason reason)
{
    uint8_t payload[RECORD_MAX_SMALL];
    const struct end end = {reason, RECORD_NO_TOKEN, 0, 0, NULL};
    size_t length = end_encode(&end, payload);
    put(s, (struct record){.type = RECORD_END, .sequence = sequence, .position = RECORD_APPEND},
        payload, length);
}

/* ---- running it ---------------------------------------------------------------------------- */

static struct engine engine;
static char model_file[] = "/tmp/unroll-test-XXXXXX";

static void open_engine(void)
{
    struct model_plan plan = model_plan("llama", TENSOR_F32);
    plan.n_context = 512;
    close(mkstemp(model_file));
    model_make(&plan, model_file);
    engine_open(&engine, &(struct engine_options){.model = model_file, .threads = 1});
}

static void close_engine(void)
{
    engine_close(&engine);
    unlink(model_file);
}

struct run {
    struct record_reader *reader;
    struct state state;
    char path[32]; /* what was written */
};

static void run_stream(struct run *run, const struct stream *s, bool keep)
{
    struct output output;
    struct record_writer writer = {.output = &output};
    strcpy(run->path, "/tmp/unroll-test-XXXXXX");
    close(mkstemp(run->path));
    output_open(&output, run->path, false, false);
    run->reader = reader_open_memory("test", s->bytes, s->size);
    state_init(&run->state, run->reader, &engine.facts);
    decode_stream(&engine, &run->state, &writer, &(struct decode_options){.keep = keep});
    output_close(&output);
    record_writer_free(&writer);
}

static void run_free(struct run *run)
{
    state_free(&run->state);
    reader_close(run->reader);
    unlink(run->path);
}

/* Pages that are in memory, each counted once however many lanes share it; and how often lanes use
 * one. */
static size_t count_pages(const struct state *state, size_t *used)
{
    const uint8_t *seen[4096];
    size_t n = 0;
    *used = 0;
    for (size_t i = 0; i < state->n_lanes; i++) {
        const struct cache_sequence *cache = &state->lane[i]->cache;
        for (size_t p = 0; p < cache->n_pages; p++) {
            size_t k = 0;
            while (k < n && seen[k] != cache->data[p])
                k++;
            if (k == n)
                seen[n++] = cache->data[p];
            ++*used;
        }
    }
    return n;
}

enum { FORKS = 50, PROMPT = 100 }; /* two pages, the second in part */

START_TEST(fork_copies_no_page)
{
    static struct stream s;
    struct run run;
    size_t used;
    put_tokens(&s, 0, 0, PROMPT, 0);
    for (uint32_t i = 1; i <= FORKS; i++)
        put_fork(&s, i, 0, PROMPT, RECORD_OPEN), put_end(&s, i, END_LENGTH);
    put_end(&s, 0, END_LENGTH);
    run_stream(&run, &s, true);
    ck_assert_uint_eq(run.state.n_lanes, FORKS + 1);
    ck_assert_uint_eq(count_pages(&run.state, &used), 2);
    ck_assert_uint_eq(used, 2 * (FORKS + 1));
    run_free(&run);
}
END_TEST

START_TEST(a_token_of_its_own_copies_only_the_last_page)
{
    static struct stream s;
    struct run run;
    size_t used;
    put_tokens(&s, 0, 0, PROMPT, 0);
    for (uint32_t i = 1; i <= FORKS; i++)
        put_fork(&s, i, 0, PROMPT, RECORD_OPEN), put_tokens(&s, i, PROMPT, 1, RECORD_OPEN);
    put_tokens(&s, 0, PROMPT, 1, RECORD_OPEN);
    put_tokens(&s, FORKS + 1, 0, 1, RECORD_OPEN); /* no END is waiting: the pass is done */
    for (uint32_t i = 0; i <= FORKS + 1; i++)
        put_end(&s, i, END_LENGTH);
    run_stream(&run, &s, true);
    ck_assert_uint_eq(count_pages(&run.state, &used), 1 + (FORKS + 1));
    ck_assert_uint_eq(used, 2 * (FORKS + 1));
    run_free(&run);
}
END_TEST

START_TEST(end_gives_pages_back)
{
    static struct stream s;
    struct run run;
    size_t used;
    put_tokens(&s, 0, 0, PROMPT, 0);
    for (uint32_t i = 1; i <= FORKS; i++) {
        put_fork(&s, i, 0, PROMPT, RECORD_OPEN), put_tokens(&s, i, PROMPT, 1, RECORD_OPEN);
        put_end(&s, i, i % 2 ? END_DROPPED : END_EOS);
    }
    put_end(&s, 0, END_LENGTH);
    run_stream(&run, &s, true); /* for a state: all but what was dropped */
    ck_assert_uint_eq(run.state.n_lanes, FORKS / 2 + 1);
    ck_assert_uint_eq(count_pages(&run.state, &used), 2);
    ck_assert_uint_eq(used, 2 * (FORKS / 2 + 1));
    run_free(&run);
    run_stream(&run, &s, false);
    ck_assert_uint_eq(count_pages(&run.state, &used), 0);
    for (size_t i = 0; i < run.state.n_lanes; i++)
        ck_assert_ptr_null(run.state.lane[i]->logits);
    run_free(&run);
}
END_TEST

/* Sequences that live for one token, thousands of them under two ids: nothing of them stays. */
START_TEST(short_lives_leave_nothing)
{
    static struct stream s;
    struct run run;
    size_t used;
    put_tokens(&s, 0, 0, PROMPT, 0);
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t id = 1 + i % 2;
        put_fork(&s, id, 0, PROMPT - i % 70, RECORD_OPEN),
            put_tokens(&s, id, PROMPT - i % 70, 1, RECORD_OPEN);
        put_end(&s, id, END_DROPPED);
    }
    put_end(&s, 0, END_LENGTH);
    run_stream(&run, &s, true);
    ck_assert_uint_eq(reader_n_sequences(run.reader), 3);
    ck_assert_uint_eq(run.state.n_lanes, 1);
    ck_assert_uint_eq(count_pages(&run.state, &used), 2);
    run_free(&run);
}
END_TEST

/* ---- logits -------------------------------------------------------------------------------- */

/* The logits after `n` tokens, evaluated alone, one pass for each. */
static void alone(const uint32_t *tokens, uint32_t n, float *logits)
{
    struct error error;
    struct cache_sequence cache = {.shape = &model_hyperparameters(engine.model)->cache};
    for (uint32_t p = 0; p < n; p++) {
        struct model_row row = {&cache, p, tokens[p], true};
        ck_assert_msg(model_evaluate(engine.model, &row, 1, logits, &error), "%s", error.text);
    }
    cache_release(&cache);
}

/* Every LOGITS record of what was written, beside a run of its sequence alone; returns how many
 * there were. */
static unsigned check_logits(const struct run *run)
{
    struct record record;
    unsigned n = 0;
    size_t size = engine.facts.n_logits * sizeof(float);
    float *expected = allocate(size, 1);
    struct record_reader *r = reader_open((char *[]){(char *)(uintptr_t)run->path}, 1);
    struct error error;
    int found;
    while ((found = reader_next_checked(r, &record, &error)) > 0) {
        if (record.type != RECORD_LOGITS)
            continue;
        const struct sequence *sequence = reader_sequence(r, record.sequence);
        ck_assert_uint_eq(record.position + 1, sequence->n_tokens);
        alone(sequence->tokens, sequence->n_tokens, expected);
        ck_assert_msg(memcmp(reader_payload(r, NULL), expected, size) == 0,
                      "sequence %u, position %u", record.sequence, record.position);
        n++;
    }
    ck_assert_msg(found == 0, "%s", error.text);
    reader_close(r);
    free(expected);
    return n;
}

START_TEST(each_lane_has_the_logits_that_it_has_alone)
{
    static struct stream s;
    struct run run;
    static const uint32_t lengths[] = {1, 63, 64, 65, 130};
    for (uint32_t i = 0; i < 5; i++) /* the first is asked for at once */
        put_tokens(&s, i, 0, lengths[i], 0), put_tokens(&s, i, lengths[i], 1, RECORD_OPEN);
    for (uint32_t step = 1; step <= 4; step++) {
        if (step == 2) { /* in the middle: at the end of one, inside another, whose page is shared
                            with what is cut back */
            put_fork(&s, 5, 4, lengths[4] + step, RECORD_OPEN),
                put_tokens(&s, 5, lengths[4] + step, 1, RECORD_OPEN);
            put_fork(&s, 6, 4, 70, RECORD_OPEN), put_tokens(&s, 6, 70, 3, RECORD_OPEN);
            put_fork(&s, 4, 4, 100, RECORD_OPEN), put_tokens(&s, 4, 100, 2, RECORD_OPEN);
            put_fork(&s, 7, 3, 20, 0); /* asks for the logits of the copy */
            put_end(&s, 1, END_EOS), put_end(&s, 3, END_DROPPED);
            put_tokens(&s, 0, lengths[0] + step, 1, RECORD_OPEN),
                put_tokens(&s, 2, lengths[2] + step, 1, RECORD_OPEN);
        } else if (step == 1) {
            for (uint32_t i = 0; i < 5; i++)
                put_tokens(&s, i, lengths[i] + step, 1, RECORD_OPEN);
        } else if (step == 3) {
            put_tokens(&s, 0, lengths[0] + step, 1, RECORD_OPEN), put_end(&s, 2, END_EOS),
                put_end(&s, 4, END_EOS);
            put_tokens(&s, 5, lengths[4] + step, 1, RECORD_OPEN),
                put_tokens(&s, 6, 73, 1, RECORD_OPEN);
            put_tokens(&s, 7, 20, 1, RECORD_OPEN);
            put_tokens(&s, 1, lengths[1] + 2, 1,
                       RECORD_OPEN); /* goes on after its END, its pages long gone */
        }
    }
    static const uint32_t left[] = {0, 1, 5, 6, 7};
    for (size_t i = 0; i < 5; i++)
        put_end(&s, left[i], END_LENGTH);
    for (int keep = 0; keep < 2; keep++) {
        run_stream(&run, &s, keep);
        unsigned n = check_logits(&run);
        ck_assert_msg(n >= 15, "%u logits", n);
        run_free(&run);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decode");
    TCase *tests = tcase_create("decode");
    tcase_set_timeout(tests, 0);
    tcase_add_unchecked_fixture(tests, open_engine, close_engine);
    tcase_add_test(tests, fork_copies_no_page);
    tcase_add_test(tests, a_token_of_its_own_copies_only_the_last_page);
    tcase_add_test(tests, end_gives_pages_back);
    tcase_add_test(tests, short_lives_leave_nothing);
    tcase_add_test(tests, each_lane_has_the_logits_that_it_has_alone);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
