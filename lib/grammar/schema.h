/* JSON Schemas while they are compiled.  Private to lib/grammar. */
#ifndef UNROLL_GRAMMAR_SCHEMA_H
#define UNROLL_GRAMMAR_SCHEMA_H

#include "grammar/internal.h"

#include <jansson.h>

#define MAX_SCHEMA_DEPTH 200
#define MAX_ALTERNATIVES 256
/* Schemas that are looked at, each as often as it is: references that double at every level would
 * otherwise take for ever. */
#define MAX_SCHEMA_WORK (1 << 19)

struct schemas {
    struct builder b;
    const char *name; /* of the whole, for messages */
    json_t *root;
    json_t *made; /* array: owns the schemas that were merged of others */
    json_t *sets; /* by the address of a list: its values, to look one up */
    char *path;   /* JSON pointer of the current schema, for messages */
    size_t path_length, path_capacity;
    uint32_t *todo; /* rules of references whose schemas are to be compiled */
    size_t n_todo, todo_capacity;
    int depth, work;
    struct error *error;
};

/* Fails with the place of the current schema. */
bool schema_fail(struct schemas *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One schema more is looked at; fails where they are too many. */
bool schema_spend(struct schemas *s);
/* Goes into a part of the current schema and back out: the length to go back to is returned. */
size_t schema_enter(struct schemas *s, const char *part, const char *name);
void schema_leave(struct schemas *s, size_t length);

/* The schema that a reference names. */
bool schema_resolve(struct schemas *s, const char *reference, const json_t **target);
/* Whether the keywords of a schema are known and may stand in it, and their values are what they
 * must be. */
bool schema_check(struct schemas *s, const json_t *schema);
/* Whether a keyword constrains the value itself and is no combination of schemas. */
bool schema_is_own(const char *keyword);

/* ---- types (schema_facts.c) ---------------------------------------------------------------- */

enum value_type {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8, /* a number that is no integer */
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ANY = 127,
};
/* Types that a flat schema allows, or those of the values that are generated for it: without
 * `type`, those that its keywords are about. */
unsigned schema_types(const json_t *flat);
unsigned schema_generated_types(const json_t *flat);
unsigned schema_type_of(const json_t *value);
/* A bound of a number; exclusive ones and inclusive ones are both looked at. */
void schema_bounds(const json_t *flat, struct bound *low, struct bound *high);
uint64_t schema_size(const json_t *flat, const char *keyword, uint64_t otherwise);
bool schema_requires(const json_t *flat, const char *name);

/* ---- schemas that are several (schema_facts.c) --------------------------------------------- */

/* A flat schema has no references and alternatives of its own (those of its parts stay): an array
 * of flat schemas, one of which a value must satisfy, that are together what the schema says. Those
 * of oneOf are only taken where a value that is generated for one never satisfies another.  NULL on
 * error. */
json_t *schema_expand(struct schemas *s, const json_t *schema);

enum verdict { NO, YES, UNSURE };
/* Whether a value satisfies a flat schema. */
enum verdict schema_allows(struct schemas *s, const json_t *flat, const json_t *value);

#endif
