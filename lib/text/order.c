#include "text/text.h"

#include <stdlib.h>

void text_order_init(struct text_order *o)
{
    *o = (struct text_order){.first = TEXT_NONE, .last = TEXT_NONE, .current = TEXT_NONE};
}

void text_order_free(struct text_order *o)
{
    free(o->place);
    text_order_init(o);
}

static struct text_place *place_of(struct text_order *o, size_t text)
{
    o->place = grow(o->place, &o->capacity, text + 1, sizeof *o->place);
    while (o->n <= text)
        o->place[o->n++] = (struct text_place){
            .next = TEXT_NONE, .previous = TEXT_NONE, .root = TEXT_NONE, .last = TEXT_NONE};
    return &o->place[text];
}

static void join(struct text_order *o, size_t before, size_t after)
{
    if (before == TEXT_NONE)
        o->first = after;
    else
        o->place[before].next = after;
    if (after == TEXT_NONE)
        o->last = before;
    else
        o->place[after].previous = before;
}

void text_order_add(struct text_order *o, size_t text, size_t source)
{
    struct text_place *place = place_of(o, text);
    size_t root = source == TEXT_NONE || source >= o->n ? text : o->place[source].root,
           before = o->last;
    if (place->listed)
        return;
    if (root == TEXT_NONE)
        root = text;
    if (root != text && o->place[root].last != TEXT_NONE)
        before = o->place[root].last;
    if (before != TEXT_NONE && o->place[before].passed)
        before = o->current == TEXT_NONE ? o->last : o->current;
    size_t after = before == TEXT_NONE ? o->first : o->place[before].next;
    *place = (struct text_place){.root = root, .last = place->last, .listed = true};
    o->place[root].last = text;
    join(o, before, text);
    join(o, text, after);
    if (o->current == TEXT_NONE)
        o->current = text;
}

void text_order_remove(struct text_order *o, size_t text)
{
    struct text_place *place = place_of(o, text);
    if (!place->listed)
        return;
    size_t before = place->previous, after = place->next;
    if (o->place[place->root].last == text)
        o->place[place->root].last =
            before != TEXT_NONE && o->place[before].root == place->root ? before : TEXT_NONE;
    if (o->current == text)
        o->current = after;
    join(o, before, after);
    place->listed = place->passed = false;
    place->next = place->previous = TEXT_NONE;
}

bool text_order_advance(struct text_order *o)
{
    if (o->current == TEXT_NONE || o->place[o->current].next == TEXT_NONE)
        return false;
    o->place[o->current].passed = true;
    o->current = o->place[o->current].next;
    return true;
}

void text_order_show(struct text_order *o, size_t text)
{
    o->current = text;
}
