#include "state/state.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct model_facts facts = {.n_layers = 2,
                                         .n_kv_heads = 2,
                                         .key_dim = 4,
                                         .value_dim = 4,
                                         .element = TENSOR_F16,
                                         .n_logits = 6,
                                         .n_vocabulary = 6,
                                         .n_context = 1000,
                                         .model_context = 1000,
                                         .bos = RECORD_NO_TOKEN,
                                         .rope_base = 1e4f,
                                         .rope_scale = 1,
                                         .arithmetic = 1,
                                         .vocabulary_fingerprint = 5,
                                         .model_fingerprint = 6,
                                         .name = "test"};

/* Stores recognisable keys and values at the positions [begin, end). */
static void fill(struct cache_sequence *cache, uint32_t begin, uint32_t end)
{
    cache_extend(cache, end);
    for (uint32_t p = begin; p < end; p++)
        for (uint32_t layer = 0; layer < 2; layer++) {
            float k[8], v[8];
            for (int d = 0; d < 8; d++) {
                k[d] = (float)(p * 8 + (uint32_t)d) * (layer ? 1 : -1);
                v[d] = k[d] + 0.5f;
            }
            cache_store(cache, layer, p, k, v);
        }
    cache->n_positions = end;
}

static struct cache_shape shape_of_facts(void)
{
    return (struct cache_shape){facts.n_layers, facts.n_kv_heads, facts.key_dim, facts.value_dim,
                                TENSOR_F16};
}

static void same_positions(const struct cache_sequence *a, const struct cache_sequence *b,
                           uint32_t n)
{
    uint8_t one[4096], two[4096];
    for (uint32_t p = 0; p < n; p++)
        ck_assert_msg(memcmp(cache_packed(a, p, 1, one), cache_packed(b, p, 1, two),
                             cache_bytes(a->shape, 1)) == 0,
                      "position %u", p);
}

START_TEST(pages_are_shared_until_written)
{
    struct cache_shape shape = shape_of_facts();
    struct cache_sequence a = {.shape = &shape}, b = {0}, plain = {.shape = &shape};
    fill(&a, 0, 100);
    fill(&plain, 0, 100);
    cache_share(&b, &a, 70);
    ck_assert_uint_eq(b.n_positions, 70);
    ck_assert_ptr_eq(a.data[0], b.data[0]);
    ck_assert_ptr_eq(a.data[1], b.data[1]);
    fill(&b, 70, 130);
    ck_assert_ptr_eq(a.data[0], b.data[0]); /* whole pages stay shared */
    ck_assert_ptr_ne(a.data[1], b.data[1]);
    same_positions(&a, &plain, 100);
    same_positions(&a, &b, 100);
    cache_cut(&b, 64);
    ck_assert_uint_eq(b.n_pages, 1);
    cache_release(&a);
    same_positions(&b, &plain, 64);
    cache_release(&b);
    cache_release(&plain);
}
END_TEST

/* A state of 100 positions, 40 of them given, in a file. */
static void save(const char *path, const struct cache_sequence *cache)
{
    uint32_t ids[100];
    uint8_t flags[100];
    struct sequence tokens = {.id = 9, .tokens = ids, .flags = flags, .n_tokens = 100};
    struct lane lane = {.tokens = &tokens, .cache = *cache};
    for (uint32_t i = 0; i < 100; i++)
        ids[i] = i % 6, flags[i] = i < 40 ? 0 : RECORD_GENERATED;
    struct output out;
    struct record_writer writer = {.output = &out};
    float logits[6] = {1, 2, 3, 4, 5, 6};
    output_open(&out, path, false, false);
    state_write_model(&writer, &facts);
    state_write_positions(&writer, &facts, &lane, 0, 64);
    state_write_positions(&writer, &facts, &lane, 64, 100);
    state_write_logits(&writer, &facts, 9, 99, logits, false);
    output_close(&out);
    record_writer_free(&writer);
}

START_TEST(a_state_comes_back)
{
    char path[] = "/tmp/unroll-test-XXXXXX";
    close(mkstemp(path));
    struct cache_shape shape = shape_of_facts();
    struct cache_sequence cache = {.shape = &shape};
    fill(&cache, 0, 100);
    save(path, &cache);
    struct record_reader *reader = reader_open((char *[]){path}, 1);
    struct state state;
    state_init(&state, reader, &facts);
    state_take_all(&state);
    ck_assert_uint_eq(state.n_lanes, 1);
    struct lane *lane = state.lane[0];
    ck_assert_uint_eq(lane->tokens->id, 9);
    ck_assert_uint_eq(lane_end(lane), 100);
    ck_assert_uint_eq(lane_pending(lane), 0);
    ck_assert_uint_eq(lane_token(lane, 97), 97 % 6);
    ck_assert_uint_eq(lane->tokens->flags[39], 0);
    ck_assert_uint_eq(lane->tokens->flags[40], RECORD_GENERATED);
    ck_assert(lane->logits_position == 99 && lane->logits[5] == 6);
    same_positions(&lane->cache, &cache, 100);
    fill(&lane->cache, 64, 65); /* a mapped page is never written */
    struct mapping file;
    struct error error;
    ck_assert(mapping_open(&file, path, &error));
    state_free(&state);
    reader_close(reader);
    cache_release(&cache);
    mapping_close(&file);
    unlink(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("state");
    TCase *tests = tcase_create("state");
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, pages_are_shared_until_written);
    tcase_add_test(tests, a_state_comes_back);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
