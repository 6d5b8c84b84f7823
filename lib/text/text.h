/* text: bytes on their way to a person: whole characters, text that waits, and escapes. */
#ifndef UNROLL_TEXT_H
#define UNROLL_TEXT_H

#include "base/base.h"

/* ---- text that waits (flow.c) -------------------------------------------------------------- */

/* The text of one sequence, between the tokens that bring it and whoever shows it.  A token's bytes
 * wait while it is HELD (they may turn out to belong to a stop string), and the bytes of a
 * character wait for the rest of it.  To be zeroed at first. */
struct text_flow {
    bool raw;       /* bytes of a character do not wait */
    uint8_t *bytes; /* [begin, begin + length) was not taken yet; the first `ready` of it may be */
    size_t begin, length, ready, capacity;
    uint64_t taken; /* bytes before them */
    uint64_t
        *ends; /* (n_tokens) where each token's text ends, from the beginning of the sequence */
    size_t n_tokens, ends_capacity;
};
void text_flow_free(struct text_flow *flow);

/* The text of one more token (length 0: it has none). */
void text_flow_add(struct text_flow *flow, const void *bytes, size_t length, bool held);
/* The sequence ends: cuts `trim` bytes (of those that are still waiting: a stop string may have
 * begun in a text that was shown before this stream), and everything left is ready. */
void text_flow_end(struct text_flow *flow, uint32_t trim);
/* Back to the first n_tokens.  False where text of the others was taken already. */
bool text_flow_cut(struct text_flow *flow, size_t n_tokens, struct error *error);
/* What may be shown: its length, *bytes valid until the next call.  It counts as taken. */
size_t text_flow_take(struct text_flow *flow, const uint8_t **bytes);

/* ---- one text after another (order.c) ------------------------------------------------------- */

#define TEXT_NONE SIZE_MAX

/* The order in which the texts of several sequences are shown: as they begin, but a copy after the
 * one that it was taken from and the copies of it before.  Texts are numbered by their owner.  To
 * be begun with text_order_init. */
struct text_place {
    size_t next, previous; /* neighbours; TEXT_NONE: none */
    size_t root, last; /* where its family begins; of a root: the last of the family in the list */
    bool listed, passed;
};
struct text_order {
    struct text_place *place;
    size_t n, capacity;
    size_t first, last;
    size_t current; /* the one that is being shown; TEXT_NONE: none */
};
void text_order_init(struct text_order *order);
void text_order_free(struct text_order *order);
/* A text begins, a copy of that of `source` (TEXT_NONE: it is none), unless it is in the list
 * already.  Where those that it should follow have been shown it comes directly after the current
 * one. */
void text_order_add(struct text_order *order, size_t text, size_t source);
/* Takes a text out. */
void text_order_remove(struct text_order *order, size_t text);
/* Goes on to the next text; false where there is none: then the current one stays. */
bool text_order_advance(struct text_order *order);
/* Makes another one current, whatever its place. */
void text_order_show(struct text_order *order, size_t text);

/* ---- characters and escapes (escape.c) ----------------------------------------------------- */

/* How many bytes at the end begin a character of UTF-8 that is not complete; 0 to 3.  Bytes that
 * are not UTF-8 are complete. */
size_t text_incomplete(const uint8_t *bytes, size_t length);

/* Bytes of the character of UTF-8 that the text begins with; 0 where it begins with none. */
size_t text_character(const uint8_t *bytes, size_t length);

/* A printable form in new memory: whole characters of UTF-8 as they are, \n \t \r \\ \" so, every
 * other byte, control characters and such that change the direction of writing as \xHH.  From a
 * form longer than `limit` characters the end is cut off and "..." put in its place; 0: no limit.
 */
char *text_escape(const void *bytes, size_t length, size_t limit);
/* Such a form back to bytes (room for `size`): *length of them.  False for a backslash with
 * anything else after it. */
bool text_unescape(const char *escaped, size_t size, char *bytes, size_t *length);
/* Columns that such a form takes, one for each character. */
size_t text_columns(const char *escaped);

/* ---- JSON (json.c) ------------------------------------------------------------------------- */

/* A JSON text in the making; to be zeroed at first. */
struct json {
    char *text; /* (length), terminated */
    size_t length, capacity;
};
void json_free(struct json *json);
/* Text as it is: names, punctuation. */
void json_add(struct json *json, const char *text);
/* A number, with the digits that give back its bits; null for what is not finite. */
void json_add_number(struct json *json, double value);
void json_add_integer(struct json *json, uint64_t value);
/* Bytes as a string.  What is not UTF-8 becomes U+FFFD, a byte each, and false is returned. */
bool json_add_string(struct json *json, const void *bytes, size_t length);
/* Bytes as an array of numbers. */
void json_add_bytes(struct json *json, const void *bytes, size_t length);
/* The members "text", and "bytes" where that is not UTF-8, with a comma before each. */
void json_add_text(struct json *json, const void *bytes, size_t length);
/* What stands before a number, and the number. */
void json_add_count(struct json *json, const char *before, uint64_t value);

#endif
