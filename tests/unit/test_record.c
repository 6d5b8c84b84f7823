#include "record/record.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- making streams in memory -------------------------------------------------------------- */

struct stream {
    uint8_t bytes[1 << 16];
    size_t size;
};

static void put(struct stream *s, struct record record, const void *payload, size_t length)
{
    record.length = length;
    if (!(record.flags & RECORD_DEFLATED))
        record.raw_length = length;
    record.payload_crc = crc32_update(0, payload, length);
    record_encode(&record, s->bytes + s->size);
    memset(s->bytes + s->size + RECORD_HEADER, 0, record_padded(length));
    if (length)
        memcpy(s->bytes + s->size + RECORD_HEADER, payload, length);
    s->size += RECORD_HEADER + record_padded(length);
}

static void put_tokens(struct stream *s, uint32_t position, uint8_t flags, uint32_t count,
                       const uint32_t *ids)
{
    put(s,
        (struct record){
            .type = RECORD_TOKENS, .flags = flags, .position = position, .count = count},
        ids, 4 * (size_t)count);
}

static const struct model_facts facts = {.n_layers = 2,
                                         .n_kv_heads = 2,
                                         .key_dim = 8,
                                         .value_dim = 8,
                                         .element = TENSOR_F16,
                                         .n_logits = 10,
                                         .n_vocabulary = 9,
                                         .n_context = 100,
                                         .model_context = 100,
                                         .bos = 1,
                                         .rope_base = 1e4f,
                                         .rope_scale = 1,
                                         .vocabulary_fingerprint = 77,
                                         .model_fingerprint = 99,
                                         .arithmetic = 1,
                                         .n_eog = 2,
                                         .eog = {2, 5},
                                         .name = "test"};

static void put_model(struct stream *s, const struct model_facts *f)
{
    uint8_t payload[RECORD_MAX_SMALL];
    size_t length = model_facts_encode(f, payload);
    put(s, (struct record){.type = RECORD_MODEL}, payload, length);
}

static void put_cache(struct stream *s, uint32_t position, uint32_t count)
{
    uint8_t payload[8192] = {1};
    put(s,
        (struct record){.type = RECORD_CACHE,
                        .flags = RECORD_OPEN,
                        .position = position,
                        .count = count,
                        .binding = 99},
        payload, count * (size_t)model_facts_position_bytes(&facts));
}

static void put_logits(struct stream *s, uint32_t position, uint8_t flags)
{
    float logits[10] = {1, 2, 3};
    put(s,
        (struct record){.type = RECORD_LOGITS, .flags = flags, .position = position, .count = 10},
        logits, sizeof logits);
}

/* Reads a stream to its end, using every payload; the message where it is refused, "" where not. */
static const char *read_all_of(const struct stream *s)
{
    static struct error error;
    struct record_reader *reader = reader_open_memory("test", s->bytes, s->size);
    struct record record;
    int found;
    error.text[0] = 0;
    while ((found = reader_next_checked(reader, &record, &error)) > 0) {
        const uint8_t *payload;
        if ((record.type == RECORD_CACHE || record.type == RECORD_LOGITS) &&
            !reader_payload_checked(reader, &payload, NULL, &error)) {
            found = -1;
            break;
        }
    }
    reader_close(reader);
    if (found == 0)
        return "";
    ck_assert(error.status == STATUS_INPUT && error.text[0]);
    return error.text;
}

static void expect(const struct stream *s, const char *message)
{
    const char *found = read_all_of(s);
    if (*message)
        ck_assert_msg(strstr(found, message) != NULL, "expected '%s', found '%s'", message, found);
    else
        ck_assert_msg(!*found, "expected no error, found '%s'", found);
}

/* A whole state of 70 positions in two pages. */
static void put_state(struct stream *s)
{
    uint32_t ids[70];
    for (uint32_t i = 0; i < 70; i++)
        ids[i] = i % 9;
    put_model(s, &facts);
    put_cache(s, 0, 64);
    put_tokens(s, 0, RECORD_OPEN, 64, ids);
    put_cache(s, 64, 6);
    put_tokens(s, 64, RECORD_OPEN, 6, ids + 64);
    put_logits(s, 69, 0);
}

/* ---- the format ---------------------------------------------------------------------------- */

START_TEST(header_is_as_documented)
{
    static struct stream s;
    s.size = 0;
    put(&s,
        (struct record){.type = RECORD_TOKENS,
                        .flags = RECORD_OPEN | RECORD_GENERATED,
                        .sequence = 0x01020304,
                        .position = 5,
                        .count = 1,
                        .binding = 0xa0b0c0d0},
        (const uint8_t[]){7, 0, 0, 0}, 4);
    static const uint8_t expected[44] = {
        'U',  'N',  'R',  '1',  2, 12, 0, 0, 4, 3, 2, 1, 5, 0, 0, 0, 1, 0, 0, 0,
        0xd0, 0xc0, 0xb0, 0xa0, 4, 0,  0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0};
    ck_assert_uint_eq(s.size, 128);
    ck_assert_mem_eq(s.bytes, expected, 40);
    ck_assert_uint_eq(load_u32(s.bytes + 40), crc32_update(0, "\7\0\0\0", 4));
    ck_assert_uint_eq(load_u32(s.bytes + 60), crc32_update(0, s.bytes, 60));
    expect(&s, "cut off");
}
END_TEST

START_TEST(headers_are_checked)
{
    struct record r = {.type = RECORD_TOKENS, .count = 1, .length = 4, .raw_length = 4}, back;
    struct error error;
    uint8_t bytes[RECORD_HEADER];
    record_encode(&r, bytes);
    ck_assert(record_decode(&back, bytes, &error));
    for (size_t bit = 0; bit < 8 * RECORD_HEADER; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert_msg(!record_decode(&back, bytes, &error), "bit %zu", bit);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    static const struct {
        struct record record;
        const char *message;
    } bad[] = {
        {{.type = 7}, "unknown record"},
        {{.type = 0}, "unknown record"},
        {{.type = RECORD_END, .flags = 16}, "reserved bits"},
        {{.type = RECORD_TOKENS, .count = 2, .length = 4, .raw_length = 4},
         "count 2 needs 8 bytes"},
        {{.type = RECORD_TOKENS, .count = 1, .length = 3, .raw_length = 4}, "not deflated"},
        {{.type = RECORD_CACHE, .length = 1ull << 62, .raw_length = 1ull << 62}, "the limit is"},
        {{.type = RECORD_MODEL, .length = 1 << 20, .raw_length = 1 << 20}, "the limit is"},
        {{.type = RECORD_TOKENS, .position = 0xfffffff0, .count = 1, .length = 4, .raw_length = 4},
         "limit of"},
        {{.type = RECORD_LOGITS, .position = 1 << 24, .count = 1, .length = 4, .raw_length = 4},
         "limit of"},
        {{.type = RECORD_LOGITS, .position = 0xfffffffe, .count = 1, .length = 4, .raw_length = 4},
         "limit of"},
        {{.type = RECORD_END, .position = (1 << 24) + 1, .length = 12, .raw_length = 12},
         "limit of"},
        {{.type = RECORD_FORK, .position = 0xfffffffe, .length = 8, .raw_length = 8}, "limit of"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        record_encode(&bad[i].record, bytes);
        ck_assert(!record_decode(&back, bytes, &error));
        ck_assert_msg(strstr(error.text, bad[i].message) != NULL, "'%s' in '%s'", bad[i].message,
                      error.text);
    }
    r.type = 200;
    record_encode(&r, bytes);
    ck_assert(
        record_decode(&back, bytes, &error)); /* unknown and ancillary: readers pass over it */
}
END_TEST

START_TEST(model_comes_back)
{
    uint8_t payload[RECORD_MAX_SMALL];
    struct model_facts back;
    struct error error;
    size_t length = model_facts_encode(&facts, payload);
    ck_assert(model_facts_decode(&back, payload, length, &error));
    ck_assert_mem_eq(&back, &facts, sizeof facts);
    for (size_t cut = 0; cut < length; cut++)
        ck_assert(!model_facts_decode(&back, payload, cut, &error));
    back = facts;
    back.n_context = 50;
    ck_assert(model_facts_agree(&back, &facts, &error));
    back.element = TENSOR_F32;
    ck_assert(!model_facts_agree(&back, &facts, &error));
    ck_assert(strstr(error.text, "F32") && strstr(error.text, "F16"));
    back = facts;
    back.n_layers = 0;
    length = model_facts_encode(&back, payload);
    ck_assert(!model_facts_decode(&back, payload, length, &error));
}
END_TEST

/* ---- a stream that is damaged or cut ------------------------------------------------------- */

START_TEST(every_flipped_bit_is_refused)
{
    static struct stream s;
    s.size = 0;
    put_state(&s);
    expect(&s, "");
    for (size_t bit = 0; bit < 8 * s.size; bit++) {
        s.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert_msg(*read_all_of(&s) != 0, "bit %zu of %zu", bit, 8 * s.size);
        s.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}
END_TEST

START_TEST(every_cut_is_refused)
{
    static struct stream s;
    s.size = 0;
    put_state(&s);
    size_t whole = s.size, model_end = RECORD_HEADER + record_padded(load_u64(s.bytes + 24));
    for (s.size = 0; s.size < whole; s.size++)
        if (s.size != model_end) /* MODEL alone is a stream */
            ck_assert_msg(*read_all_of(&s) != 0, "cut at %zu", s.size);
}
END_TEST

START_TEST(garbage_never_crashes)
{
    static struct stream s, whole;
    whole.size = 0;
    put_state(&whole);
    uint32_t out[4];
    for (uint32_t i = 0; i < 20000; i++) {
        s = whole;
        for (uint32_t k = 0; k < 1 + i % 4; k++) {
            philox4x32((uint32_t[]){i, k}, (uint32_t[]){0, 0, 0, 0}, out);
            size_t at = out[0] % s.size;
            s.bytes[at] = (uint8_t)out[1];
            /* half of the time the header is made valid again, so that later checks are reached */
            size_t header = 0;
            if (i & 1) {
                while (header + RECORD_HEADER < s.size && header + RECORD_HEADER <= at)
                    header += RECORD_HEADER;
                if (header + RECORD_HEADER <= s.size && memcmp(s.bytes + header, "UNR", 3) == 0)
                    store_u32(s.bytes + header + 60, crc32_update(0, s.bytes + header, 60));
            }
        }
        s.size -= i % 7 == 0 ? out[2] % s.size : 0;
        read_all_of(&s);
    }
}
END_TEST

/* ---- what records mean --------------------------------------------------------------------- */

START_TEST(positions_are_checked)
{
    static struct stream s;
    const uint32_t ids[] = {1, 3, 4, 6}, other[] = {1, 3, 7};
#define BEGIN s.size = 0
    BEGIN, expect(&s, "empty input");
    BEGIN, put_tokens(&s, 0, 0, 4, ids), expect(&s, "");
    BEGIN, put_tokens(&s, 0, 0, 0, ids), expect(&s, "");
    BEGIN, put_tokens(&s, 5, 0, 4, ids), expect(&s, ""); /* a part of a sequence */
    BEGIN, put_tokens(&s, 0, 0, 2, ids), put_tokens(&s, RECORD_APPEND, 0, 2, ids + 2),
        expect(&s, "");
    BEGIN, put_tokens(&s, 0, 0, 2, ids), put_tokens(&s, 0, 0, 4, ids), expect(&s, "");
    BEGIN, put_tokens(&s, 0, 0, 4, ids), put_tokens(&s, 0, 0, 3, other),
        expect(&s, "token 7 at position 2, where the sequence holds 4");
    BEGIN, put_tokens(&s, 0, 0, 2, ids), put_tokens(&s, 3, 0, 1, ids),
        expect(&s, "positions between are missing");
    BEGIN, put_tokens(&s, 4, 0, 2, ids), put_tokens(&s, 3, 0, 1, ids), expect(&s, "begins at 4");
    BEGIN, put_model(&s, &facts), put_tokens(&s, 0, 0, 2, ids + 1),
        put_tokens(&s, RECORD_APPEND, 0, 2, ids), expect(&s, "--append");
    BEGIN, put_state(&s), put_tokens(&s, 0, 0, 1, ids),
        expect(&s, "--append"); /* another text from its start */
    BEGIN, put_tokens(&s, 0, 0, 2, ids), put_logits(&s, 2, 0), expect(&s, "come before its token");
    BEGIN, put_logits(&s, 17, 0), expect(&s, ""); /* a bare distribution */
    BEGIN, put_logits(&s, 0, RECORD_OPEN), expect(&s, "sequence 0 was open");
    BEGIN, put_cache(&s, 0, 1), expect(&s, "no MODEL record");
    BEGIN, put_model(&s, &facts), put_cache(&s, 0, 3), expect(&s, "cut off");
    BEGIN, put_model(&s, &facts), put_cache(&s, 0, 3), put_tokens(&s, RECORD_APPEND, 0, 1, ids),
        expect(&s, "CACHE is ahead");
    BEGIN, put_model(&s, &facts), put_cache(&s, 0, 3), put_cache(&s, 2, 3),
        expect(&s, "held already");
    BEGIN, put_model(&s, &facts), put_cache(&s, 0, 3), put_cache(&s, 4, 3),
        expect(&s, "positions between are missing");
    BEGIN, put_model(&s, &facts), put_tokens(&s, 0, 0, 2, ids), put_cache(&s, 0, 2),
        expect(&s, "after its token");
    BEGIN, put_model(&s, &facts), put_cache(&s, 0, 60), put_cache(&s, 60, 10),
        expect(&s, "one page");
#undef BEGIN
}
END_TEST

START_TEST(bindings_are_checked)
{
    static struct stream s;
    struct model_facts other = facts;
    const uint32_t ids[] = {1};
    other.model_fingerprint = 98;
    s.size = 0, put_model(&s, &facts), put_model(&s, &facts), expect(&s, "");
    s.size = 0, put_model(&s, &facts), put_model(&s, &other),
    expect(&s, "model fingerprint is 00000062");
    s.size = 0, put_model(&s, &other), put_cache(&s, 0, 1), expect(&s, "00000063");
    s.size = 0, put_model(&s, &facts);
    put(&s, (struct record){.type = RECORD_TOKENS, .count = 1, .binding = 78}, ids, 4);
    expect(&s, "vocabulary 0000004e, expected 0000004d");
    s.size = 0;
    put(&s, (struct record){.type = RECORD_TOKENS, .count = 1, .binding = 78}, ids, 4);
    put(&s, (struct record){.type = RECORD_TOKENS, .count = 1, .position = 1, .binding = 79}, ids,
        4);
    expect(&s, "vocabulary 0000004f, expected 0000004e");
}
END_TEST

static void put_fork(struct stream *s, uint32_t sequence, uint32_t source, uint32_t draw,
                     uint32_t position)
{
    uint8_t payload[8];
    store_u32(payload, source);
    store_u32(payload + 4, draw);
    put(s, (struct record){.type = RECORD_FORK, .sequence = sequence, .position = position},
        payload, 8);
}

START_TEST(forks_copy_and_cut)
{
    static struct stream s;
    const uint32_t ids[] = {1, 3, 4, 6};
    struct record record;
    struct error error;
    s.size = 0, put_tokens(&s, 0, 0, 4, ids), put_fork(&s, 3, 0, 5, 3), put_fork(&s, 0, 0, 0, 2);
    struct record_reader *r = reader_open_memory("test", s.bytes, s.size);
    while (reader_next_checked(r, &record, &error) > 0)
        ;
    struct sequence *a = reader_sequence(r, 0), *b = reader_sequence(r, 3);
    ck_assert(reader_n_sequences(r) == 2 && reader_sequence(r, 1) == NULL);
    ck_assert(a->n_tokens == 2 && b->n_tokens == 3 && b->tokens[2] == 4 && b->draw_stream == 5);
    reader_close(r);
    s.size = 0, put_tokens(&s, 0, 0, 4, ids), put_fork(&s, 1, 2, 0, 1),
    expect(&s, "does not exist");
    s.size = 0, put_tokens(&s, 0, 0, 4, ids), put_fork(&s, 1, 0, 0, 5), expect(&s, "holds 0 to 4");
    s.size = 0, put_tokens(&s, 0, 0, 4, ids), put_fork(&s, 1, 0, 0, 4), put_fork(&s, 1, 0, 0, 4),
    expect(&s, "exists already");
}
END_TEST

static void put_end(struct stream *s, uint32_t reason, uint8_t flags)
{
    uint8_t payload[20] = {0};
    store_u32(payload, reason);
    memcpy(payload + 12, "no luck", 7);
    put(s, (struct record){.type = RECORD_END, .flags = flags, .position = RECORD_APPEND}, payload,
        19);
}

START_TEST(ends_close_sequences)
{
    static struct stream s;
    const uint32_t ids[] = {1};
    s.size = 0, put_tokens(&s, 0, RECORD_OPEN, 1, ids), put_end(&s, END_EOS, 0), expect(&s, "");
    s.size = 0, put_tokens(&s, 0, RECORD_OPEN, 1, ids), put_end(&s, 17, 0),
    expect(&s, "unknown reason 17");
    s.size = 0, put_tokens(&s, 0, RECORD_OPEN, 1, ids), put_end(&s, END_EOS, RECORD_OPEN),
    expect(&s, "OPEN");
    s.size = 0, put_tokens(&s, 0, RECORD_OPEN, 1, ids), put_end(&s, END_ERROR, 0),
    expect(&s, "no luck");
}
END_TEST

START_TEST(a_dropped_sequence_is_forgotten)
{
    static struct stream s;
    const uint32_t ids[] = {1, 3, 4, 6};
    struct record record;
    struct error error;
    s.size = 0, put_tokens(&s, 0, RECORD_OPEN, 4, ids), put_fork(&s, 3, 0, 5, 3),
    put_end(&s, END_DROPPED, 0);
    struct record_reader *r = reader_open_memory("test", s.bytes, s.size);
    while (reader_next_checked(r, &record, &error) > 0)
        ;
    struct sequence *a = reader_sequence(r, 0);
    ck_assert(a->dropped && a->ended && a->n_tokens == 0 && a->tokens == NULL &&
              reader_sequence(r, 3)->n_tokens == 3);
    reader_close(r);
    put_fork(&s, 0, 3, 7, 2); /* its id is free */
    r = reader_open_memory("test", s.bytes, s.size);
    while (reader_next_checked(r, &record, &error) > 0)
        ;
    a = reader_sequence(r, 0);
    ck_assert(!a->dropped && !a->ended && a->n_tokens == 2 && a->tokens[1] == 3 &&
              a->draw_stream == 7);
    reader_close(r);
    s.size = 0, put_tokens(&s, 0, 0, 4, ids), put_end(&s, END_DROPPED, 0), put_fork(&s, 1, 0, 0, 1),
    expect(&s, "holds 0 to 0");
}
END_TEST

START_TEST(deflated_payloads_come_back)
{
    char path[] = "/tmp/unroll-test-XXXXXX";
    int fd = mkstemp(path);
    close(fd);
    float logits[512] = {0};
    struct output out;
    struct record_writer writer = {.output = &out, .compress = true};
    output_open(&out, path, false, false);
    record_write(&writer, (struct record){.type = RECORD_LOGITS, .count = 512}, logits,
                 sizeof logits);
    output_close(&out);
    struct record_reader *r = reader_open((char *[]){path}, 1);
    struct record record;
    ck_assert(reader_next(r, &record));
    ck_assert(record.flags == RECORD_DEFLATED && record.length < 100 &&
              record.raw_length == sizeof logits);
    ck_assert_mem_eq(reader_payload(r, NULL), logits, sizeof logits);
    ck_assert(!reader_next(r, &record));
    reader_close(r);
    unlink(path);
}
END_TEST

START_TEST(logprobs_come_back_and_bad_ones_are_refused)
{
    const uint32_t ids[] = {7, 8, 9};
    const double values[] = {-0.5, -1e300, -0.25};
    struct logprobs written = {.id = 7,
                               .has_raw = true,
                               .raw = -0.5,
                               .processed = -0.25,
                               .n_raw = 2,
                               .n_processed = 1},
                    l;
    struct error error;
    size_t length;
    double value;
    uint8_t *bytes = logprobs_encode(&written, ids, values, &length);
    ck_assert(logprobs_decode(&l, bytes, length, &error));
    ck_assert(l.id == 7 && l.has_raw && l.raw == -0.5 && l.processed == -0.25 && l.n_raw == 2 &&
              l.n_processed == 1);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert(logprobs_entry(&l, i, &value) == ids[i] && value == values[i]);
    for (size_t n = 0; n < length; n++)
        ck_assert(!logprobs_decode(&l, bytes, n, &error));
    const struct {
        size_t at;
        uint32_t value;
    } damages[] = {{4, 2}, {4, 0}, {24, 3}, {24, UINT32_MAX}, {28, UINT32_MAX}};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        uint32_t before = load_u32(bytes + damages[i].at);
        store_u32(bytes + damages[i].at, damages[i].value);
        ck_assert(!logprobs_decode(&l, bytes, length, &error));
        store_u32(bytes + damages[i].at, before);
    }
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("record");
    TCase *tests = tcase_create("record");
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, header_is_as_documented);
    tcase_add_test(tests, headers_are_checked);
    tcase_add_test(tests, model_comes_back);
    tcase_add_test(tests, every_flipped_bit_is_refused);
    tcase_add_test(tests, every_cut_is_refused);
    tcase_add_test(tests, garbage_never_crashes);
    tcase_add_test(tests, positions_are_checked);
    tcase_add_test(tests, bindings_are_checked);
    tcase_add_test(tests, forks_copy_and_cut);
    tcase_add_test(tests, ends_close_sequences);
    tcase_add_test(tests, a_dropped_sequence_is_forgotten);
    tcase_add_test(tests, deflated_payloads_come_back);
    tcase_add_test(tests, logprobs_come_back_and_bad_ones_are_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
