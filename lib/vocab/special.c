/* Tokens whose text is looked for in the raw text: user-defined ones always (added tokens, runs of
 * spaces), control and unknown ones only when they are asked for.  At each place the longest
 * counts. */
#include "vocab/internal.h"

#include <stdlib.h>
#include <string.h>

static int compare_bytes(const struct special *a, const struct special *b)
{
    uint32_t common = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->bytes, b->bytes, common);
    return order ? order : a->length < b->length ? -1 : a->length > b->length;
}

/* By bytes, then by id: of tokens with the same text the lowest is used. */
static int compare_specials(const void *a, const void *b)
{
    const struct special *left = a, *right = b;
    int order = compare_bytes(left, right);
    return order ? order : left->id < right->id ? -1 : left->id > right->id;
}

void specials_make(struct specials *specials, const struct vocab *vocab)
{
    size_t capacity = 0, n = 0;
    for (uint32_t id = 0; id < vocab->facts.n_tokens; id++) {
        uint8_t kind = vocab->kinds[id];
        bool control = kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN;
        size_t length;
        const uint8_t *bytes = piece_of(vocab, id, &length);
        if ((!control && kind != TOKEN_USER_DEFINED) || length == 0)
            continue;
        specials->items = grow(specials->items, &capacity, n + 1, sizeof *specials->items);
        specials->items[n++] = (struct special){bytes, (uint32_t)length, id, control, false};
        specials->starts[1][bytes[0]] = specials->any[1] = true;
        if (!control)
            specials->starts[0][bytes[0]] = specials->any[0] = true;
    }
    specials->count = n;
    if (n)
        qsort(specials->items, n, sizeof *specials->items, compare_specials);
}

void specials_free(struct specials *specials)
{
    free(specials->items);
}

/* <this> or [this], in one word. */
static bool looks_special(const struct special *item)
{
    uint8_t first = item->bytes[0], last = item->bytes[item->length - 1];
    if (item->length < 3 || !((first == '<' && last == '>') || (first == '[' && last == ']')))
        return false;
    for (uint32_t i = 0; i < item->length; i++)
        if (item->bytes[i] <= ' ')
            return false;
    return true;
}

/* A run of white space, or a character or two, is a mark of nothing, wherever it occurs. */
static bool occurs(const struct special *item, const char *text)
{
    return text && item->length > 2 && *item->bytes > ' ' &&
           memmem(text, strlen(text), item->bytes, item->length) != NULL;
}

void specials_mark(struct specials *specials, const struct vocab_marks *marks)
{
    for (size_t i = 0; i < specials->count; i++) {
        struct special *item = &specials->items[i];
        item->mark = marks && !item->control && (looks_special(item) || occurs(item, marks->text));
    }
}

/* The first item in [low, high), which share `depth` bytes, whose next byte is at least `byte`.
 * Items that have no next byte come first. */
static size_t narrow(const struct specials *specials, size_t low, size_t high, size_t depth,
                     unsigned byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct special *item = &specials->items[middle];
        if (item->length <= depth || item->bytes[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct special *specials_match(const struct specials *specials, const uint8_t *text,
                                     size_t length, bool control)
{
    const struct special *best = NULL;
    size_t low = 0, high = specials->count;
    for (size_t depth = 0; depth < length && low < high; depth++) {
        low = narrow(specials, low, high, depth, text[depth]);
        high = narrow(specials, low, high, depth, text[depth] + 1u);
        for (size_t i = low; i < high && specials->items[i].length == depth + 1; i++)
            if (control || !(specials->items[i].control || specials->items[i].mark)) {
                best = &specials->items[i];
                break;
            }
    }
    return best;
}
