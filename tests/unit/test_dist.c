/* Which rank has which page. */
#include "../../lib/dist/divide.c"

#include <check.h>
#include <stdlib.h>

/* Every page has one owner; rank 0 has the last; what a rank evaluates adds up. */
START_TEST(division_covers)
{
    static const uint32_t ends[] = {1, 2, 63, 64, 65, 257, 1000, 4096, 131072};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (uint32_t ranks = 1; ranks <= 9; ranks++)
            for (int resumed = 0; resumed < 4; resumed++)
                for (int plain = 0; plain < 2; plain++) {
                    const uint32_t helds[] = {0, ends[i] / 2, ends[i] - 1, ends[i]};
                    struct division d = {helds[resumed], ends[i], ranks, plain == 1};
                    uint32_t positions = 0, last[9] = {0};
                    for (uint32_t page = 0; page < division_end(&d); page++) {
                        uint32_t owner = division_owner(&d, page);
                        ck_assert_uint_lt(owner, ranks);
                        if (page < division_first(&d)) {
                            ck_assert_uint_eq(owner, division_reader(page, ranks));
                            continue;
                        }
                        last[owner] = page + 1;
                        ck_assert_uint_lt(page_fresh(&d, page), page_end(&d, page));
                        positions += page_end(&d, page) - page_fresh(&d, page);
                    }
                    ck_assert_uint_eq(positions, d.end - d.held);
                    if (d.held < d.end)
                        ck_assert_uint_eq(division_owner(&d, division_end(&d) - 1), 0);
                    for (uint32_t rank = 0; rank < ranks; rank++)
                        ck_assert_uint_eq(division_last(&d, rank), last[rank]);
                }
}
END_TEST

/* Positions and what they see, of the rank with the most beside the mean, in hundredths. */
static uint32_t imbalance(uint32_t end, uint32_t ranks, bool plain)
{
    struct division d = {0, end, ranks, plain};
    uint64_t seen[64] = {0}, most = 0, all = 0;
    for (uint32_t page = 0; page < division_end(&d); page++)
        for (uint32_t p = page_begin(page); p < page_end(&d, page); p++)
            seen[division_owner(&d, page)] += p + 1;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        most = seen[rank] > most ? seen[rank] : most;
        all += seen[rank];
    }
    return (uint32_t)(100 * most * ranks / all);
}

START_TEST(the_zigzag_shares_the_triangle)
{
    ck_assert_uint_le(imbalance(4096, 2, false), 100);
    ck_assert_uint_le(imbalance(131072, 64, false), 101);
    ck_assert_uint_ge(imbalance(4096, 2, true), 149);
    ck_assert_uint_ge(imbalance(131072, 64, true), 195);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dist");
    TCase *cases = tcase_create("division");
    tcase_add_test(cases, division_covers);
    tcase_add_test(cases, the_zigzag_shares_the_triangle);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
