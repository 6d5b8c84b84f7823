/* Which rank has which page of a sequence: pure functions of a few numbers, the same on every rank.
 */
#ifndef UNROLL_DIVIDE_H
#define UNROLL_DIVIDE_H

#include "cache/cache.h"

/* A sequence of `end` positions, of which the first `held` are in the cache already. */
struct division {
    uint32_t held, end;
    uint32_t ranks;
    bool plain; /* chunks without the zigzag, to show what it is good for (tests/bench) */
};

/* Pages that hold a position to be evaluated are [division_first, division_end); none where all are
 * held. */
uint32_t division_first(const struct division *division);
uint32_t division_end(const struct division *division);
/* Complete pages of the cache go round: any order serves, since their keys and values are sent and
 * not attended from.  The others are cut into 2 x ranks chunks, and rank r has chunk r and, from
 * the other end, chunk 2 x ranks - 1 - r: what one sees less of the triangle, the other sees more.
 * So rank 0 has the last page. */
uint32_t division_owner(const struct division *division, uint32_t page);
/* The owner of a page of the cache before the division: of all pages of a sequence that is still
 * being read. */
uint32_t division_reader(uint32_t page, uint32_t ranks);
/* The chunk of a page to be evaluated. */
uint32_t division_chunk(const struct division *division, uint32_t page);
/* One past the last page that a rank evaluates; 0: none. */
uint32_t division_last(const struct division *division, uint32_t rank);
/* The positions of a page: all of it, and those to be evaluated. */
uint32_t page_begin(uint32_t page);
uint32_t page_end(const struct division *division, uint32_t page);
uint32_t page_fresh(const struct division *division, uint32_t page);

#endif
