#include "dist/divide.h"

uint32_t division_first(const struct division *d)
{
    return d->held < d->end ? d->held / CACHE_PAGE : division_end(d);
}

uint32_t division_end(const struct division *d)
{
    return d->end / CACHE_PAGE + (d->end % CACHE_PAGE > 0);
}

uint32_t division_reader(uint32_t page, uint32_t ranks)
{
    return page % ranks;
}

static uint64_t chunks(const struct division *d)
{
    return (d->plain ? 1 : 2) * (uint64_t)d->ranks;
}

/* Chunk c of C is [n c / C, n (c + 1) / C) of n pages: the largest c that begins at or before the
 * page. */
uint32_t division_chunk(const struct division *d, uint32_t page)
{
    uint64_t n = division_end(d) - division_first(d), index = page - division_first(d);
    return (uint32_t)(((index + 1) * chunks(d) - 1) / n);
}

uint32_t division_owner(const struct division *d, uint32_t page)
{
    if (page < division_first(d))
        return division_reader(page, d->ranks);
    uint32_t chunk = division_chunk(d, page);
    return chunk < d->ranks && !d->plain ? chunk : (uint32_t)chunks(d) - 1 - chunk;
}

uint32_t division_last(const struct division *d, uint32_t rank)
{
    for (uint32_t page = division_end(d); page > division_first(d); page--)
        if (division_owner(d, page - 1) == rank)
            return page;
    return 0;
}

uint32_t page_begin(uint32_t page)
{
    return page * CACHE_PAGE;
}

uint32_t page_end(const struct division *d, uint32_t page)
{
    return d->end - page_begin(page) < CACHE_PAGE ? d->end : page_begin(page) + CACHE_PAGE;
}

uint32_t page_fresh(const struct division *d, uint32_t page)
{
    return page_begin(page) > d->held ? page_begin(page) : d->held;
}
