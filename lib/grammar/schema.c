/* JSON Schema, draft 2020-12, to expressions.  Keywords as in its Core and Validation documents
 * (June 2022). */
#include "grammar/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIZE (1u << 30)

/* ---- keywords ------------------------------------------------------------------------------ */

enum keyword_use {
    IGNORED, /* it constrains nothing */
    COMBINES,
    OWN,
    REFUSED,
};
enum keyword_value {
    ANY_VALUE,
    A_SCHEMA,
    SCHEMAS,
    NAMED_SCHEMAS,
    A_TYPE,
    NAMES,
    A_SIZE,
    A_NUMBER,
    A_NAME,
    A_STRING,
    AN_ARRAY,
    IS_FALSE
};
static const struct keyword {
    const char *name;
    enum keyword_use use;
    enum keyword_value value;
} keywords[] = {
    {"$schema", IGNORED, ANY_VALUE},
    {"$id", IGNORED, ANY_VALUE},
    {"$anchor", IGNORED, ANY_VALUE},
    {"$comment", IGNORED, ANY_VALUE},
    {"$vocabulary", IGNORED, ANY_VALUE},
    {"$defs", IGNORED, ANY_VALUE},
    {"definitions", IGNORED, ANY_VALUE},
    {"title", IGNORED, ANY_VALUE},
    {"description", IGNORED, ANY_VALUE},
    {"default", IGNORED, ANY_VALUE},
    {"examples", IGNORED, ANY_VALUE},
    {"deprecated", IGNORED, ANY_VALUE},
    {"readOnly", IGNORED, ANY_VALUE},
    {"writeOnly", IGNORED, ANY_VALUE},
    {"contentEncoding", IGNORED, ANY_VALUE},
    {"contentMediaType", IGNORED, ANY_VALUE},
    {"contentSchema", IGNORED, ANY_VALUE},
    {"$ref", COMBINES, A_NAME},
    {"anyOf", COMBINES, SCHEMAS},
    {"oneOf", COMBINES, SCHEMAS},
    {"allOf", COMBINES, SCHEMAS},
    {"type", OWN, A_TYPE},
    {"enum", OWN, AN_ARRAY},
    {"const", OWN, ANY_VALUE},
    {"properties", OWN, NAMED_SCHEMAS},
    {"required", OWN, NAMES},
    {"additionalProperties", OWN, A_SCHEMA},
    {"items", OWN, A_SCHEMA},
    {"prefixItems", OWN, SCHEMAS},
    {"minItems", OWN, A_SIZE},
    {"maxItems", OWN, A_SIZE},
    {"uniqueItems", IGNORED, IS_FALSE},
    {"minLength", OWN, A_SIZE},
    {"maxLength", OWN, A_SIZE},
    {"pattern", OWN, A_STRING},
    {"format", OWN, A_NAME},
    {"minimum", OWN, A_NUMBER},
    {"maximum", OWN, A_NUMBER},
    {"exclusiveMinimum", OWN, A_NUMBER},
    {"exclusiveMaximum", OWN, A_NUMBER},
    {"multipleOf", REFUSED, ANY_VALUE},
    {"not", REFUSED, ANY_VALUE},
    {"if", REFUSED, ANY_VALUE},
    {"then", REFUSED, ANY_VALUE},
    {"else", REFUSED, ANY_VALUE},
    {"dependentSchemas", REFUSED, ANY_VALUE},
    {"dependentRequired", REFUSED, ANY_VALUE},
    {"dependencies", REFUSED, ANY_VALUE},
    {"patternProperties", REFUSED, ANY_VALUE},
    {"propertyNames", REFUSED, ANY_VALUE},
    {"minProperties", REFUSED, ANY_VALUE},
    {"maxProperties", REFUSED, ANY_VALUE},
    {"contains", REFUSED, ANY_VALUE},
    {"minContains", REFUSED, ANY_VALUE},
    {"maxContains", REFUSED, ANY_VALUE},
    {"additionalItems", REFUSED, ANY_VALUE},
    {"unevaluatedItems", REFUSED, ANY_VALUE},
    {"unevaluatedProperties", REFUSED, ANY_VALUE},
    {"$dynamicRef", REFUSED, ANY_VALUE},
    {"$recursiveRef", REFUSED, ANY_VALUE},
};

static const struct keyword *keyword_named(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return &keywords[i];
    return NULL;
}

bool schema_is_own(const char *name)
{
    const struct keyword *keyword = keyword_named(name);
    return keyword && keyword->use == OWN;
}

/* Names are compared as C strings. */
static bool is_name(const json_t *value)
{
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

static bool is_type(const json_t *value)
{
    static const char *const names[] = {"null",   "boolean", "integer", "number",
                                        "string", "array",   "object"};
    for (size_t i = 0; is_name(value) && i < sizeof names / sizeof *names; i++)
        if (strcmp(json_string_value(value), names[i]) == 0)
            return true;
    return false;
}

static bool is_schema(const json_t *value)
{
    return json_is_object(value) || json_is_boolean(value);
}

static bool all_are(const json_t *array, bool (*is)(const json_t *))
{
    bool all = json_is_array(array);
    for (size_t i = 0; all && i < json_array_size(array); i++)
        all = is(json_array_get(array, i));
    return all;
}

static bool is_size(const json_t *value)
{
    double real = json_is_number(value) ? json_number_value(value) : -1;
    return real >= 0 && real <= MAX_SIZE && real == (double)(uint32_t)real;
}

static bool is_named_schemas(const json_t *value)
{
    bool all = json_is_object(value);
    const char *name;
    json_t *part;
    json_object_foreach((json_t *)(uintptr_t)value, name, part) all &= is_schema(part);
    return all;
}

/* What is wrong with a keyword's value; NULL: nothing. */
static const char *fault_of(enum keyword_value kind, const json_t *value)
{
    switch (kind) {
    case A_SCHEMA:
        return is_schema(value) ? NULL : "a schema";
    case SCHEMAS:
        return all_are(value, is_schema) && json_array_size(value) ? NULL : "an array of schemas";
    case NAMED_SCHEMAS:
        return is_named_schemas(value) ? NULL : "an object of schemas";
    case A_TYPE:
        return is_type(value) || (all_are(value, is_type) && json_array_size(value))
                   ? NULL
                   : "the name of a type or an array of them";
    case NAMES:
        return all_are(value, is_name) ? NULL : "an array of names, without zero characters";
    case A_SIZE:
        return is_size(value) ? NULL : "a whole number from 0 to 2^30";
    case A_NUMBER:
        return json_is_number(value) ? NULL : "a number";
    case A_NAME:
        return is_name(value) ? NULL : "a name, without zero characters";
    case A_STRING:
        return json_is_string(value) ? NULL : "a string";
    case AN_ARRAY:
        return json_is_array(value) ? NULL : "an array";
    case IS_FALSE:
        return json_is_false(value) ? NULL : "false (true is not supported)";
    default:
        return NULL;
    }
}

bool schema_check(struct schemas *s, const json_t *schema)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, name, value)
    {
        const struct keyword *keyword = keyword_named(name);
        if (!keyword)
            return schema_fail(s, "keyword '%.80s' is unknown", name);
        if (keyword->use == REFUSED)
            return schema_fail(s, "keyword '%.80s' is not supported", name);
        if (strcmp(name, "$id") == 0 && schema != s->root)
            return schema_fail(s, "'$id' within a schema is not supported: references would start "
                                  "there");
        const char *fault = fault_of(keyword->value, value);
        if (fault)
            return schema_fail(s, "'%s': expected %s", name, fault);
    }
    return true;
}

/* ---- places -------------------------------------------------------------------------------- */

bool schema_fail(struct schemas *s, const char *format, ...)
{
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_set(s->error, STATUS_INPUT, "%.100s: schema '%.150s': %s", s->name,
                     s->path_length ? s->path : "#", text);
}

bool schema_spend(struct schemas *s)
{
    return ++s->work <= MAX_SCHEMA_WORK ||
           schema_fail(s,
                       "it and the schemas it refers to are more than %d together, each counted "
                       "as often as it comes",
                       MAX_SCHEMA_WORK);
}

size_t schema_enter(struct schemas *s, const char *part, const char *name)
{
    size_t before = s->path_length, length = strlen(part) + (name ? strlen(name) + 1 : 0) + 1;
    s->path = grow(s->path, &s->path_capacity, before + length + 2, 1);
    int n = snprintf(s->path + before, length + 2, "%s/%s%s%s", before ? "" : "#", part,
                     name ? "/" : "", name ? name : "");
    s->path_length += (size_t)n;
    return before;
}

void schema_leave(struct schemas *s, size_t length)
{
    s->path_length = length;
    if (s->path)
        s->path[length] = 0;
}

/* ---- references ---------------------------------------------------------------------------- */

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* One part of a JSON pointer in a URI fragment: %xx, then ~1 and ~0. */
static size_t pointer_part(const char *at, char *part)
{
    size_t n = 0, taken = 0;
    while (at[taken] && at[taken] != '/') {
        char c = at[taken++];
        if (c == '%' && hex_value(at[taken]) >= 0 && hex_value(at[taken + 1]) >= 0) {
            c = (char)(hex_value(at[taken]) * 16 + hex_value(at[taken + 1]));
            taken += 2;
        }
        part[n++] = c;
    }
    part[n] = 0;
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        bool escaped = part[i] == '~' && (part[i + 1] == '0' || part[i + 1] == '1');
        part[m++] = (char)(!escaped ? part[i] : part[i + 1] == '0' ? '~' : '/');
        i += escaped;
    }
    part[m] = 0;
    return taken;
}

bool schema_resolve(struct schemas *s, const char *reference, const json_t **target)
{
    const json_t *at = s->root;
    bool foreign = false;
    if (reference[0] != '#')
        return schema_fail(
            s, "'$ref' to '%.100s': only references into the same schema (#...) are supported",
            reference);
    if (reference[1] && reference[1] != '/')
        return schema_fail(
            s, "'$ref' to '%.100s': only '#' and JSON pointers (#/...) are supported", reference);
    char *part = allocate(strlen(reference) + 1, 1);
    for (const char *rest = reference + 1; at && *rest == '/';) {
        rest += 1 + pointer_part(rest + 1, part);
        int64_t index;
        if (json_is_array(at))
            at = parse_integer(part, 0, INT32_MAX, &index) ? json_array_get(at, (size_t)index)
                                                           : NULL;
        else
            at = json_object_get(at, part);
        foreign |= *rest == '/' && at && json_is_string(json_object_get(at, "$id"));
    }
    free(part);
    if (foreign)
        return schema_fail(s,
                           "'$ref' to '%.100s', through a schema with its own '$id', is not "
                           "supported",
                           reference);
    if (!at)
        return schema_fail(s, "'$ref' to '%.100s', which is not there", reference);
    if (!is_schema(at))
        return schema_fail(s, "'$ref' to '%.100s', which is no schema", reference);
    *target = at;
    return true;
}

/* References are rules, compiled after what refers to them: so they may refer to themselves. */
static bool compile_reference(struct schemas *s, const char *reference, expression *e)
{
    const json_t *target;
    if (!schema_resolve(s, reference, &target))
        return false;
    size_t before = s->b.n_rules;
    uint32_t rule = builder_rule(&s->b, reference, strlen(reference), 0);
    if (rule == before) {
        s->todo = grow(s->todo, &s->todo_capacity, s->n_todo + 1, sizeof *s->todo);
        s->todo[s->n_todo++] = rule;
    }
    *e = expression_rule(&s->b, rule);
    return true;
}

/* ---- constants ----------------------------------------------------------------------------- */

static expression text(struct schemas *s, const char *text)
{
    return expression_text(&s->b, text, strlen(text));
}

static expression literal(struct schemas *s, const json_t *value);

static expression number_literal(struct schemas *s, const json_t *value)
{
    char number[40];
    if (json_is_integer(value)) {
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else { /* the shortest that reads as the same */
        int precision = 1;
        do
            snprintf(number, sizeof number, "%.*g", precision, json_real_value(value));
        while (strtod(number, NULL) != json_real_value(value) && ++precision <= 17);
    }
    return text(s, number);
}

/* Members or items, separated; with space where it may stand. */
static expression enclosed(struct schemas *s, const char *open, expression *parts, size_t n,
                           const char *close)
{
    expression space = texts_of_space(&s->b), comma = SEQUENCE(&s->b, text(s, ","), space),
               all = n ? space : EMPTY;
    while (n > 0) {
        all = SEQUENCE(&s->b, parts[n - 1], all);
        if (--n > 0)
            all = SEQUENCE(&s->b, comma, all);
    }
    return SEQUENCE(&s->b, text(s, open), space, all, text(s, close));
}

static expression member(struct schemas *s, const char *name, expression value)
{
    return SEQUENCE(&s->b, texts_of_literal(&s->b, name, strlen(name)), text(s, ":"),
                    texts_of_space(&s->b), value);
}

static expression composite_literal(struct schemas *s, const json_t *value)
{
    bool object = json_is_object(value);
    size_t n = 0;
    expression *parts =
        allocate((object ? json_object_size(value) : json_array_size(value)) + 1, sizeof *parts);
    const char *name;
    json_t *part;
    if (object)
        json_object_foreach((json_t *)(uintptr_t)value, name, part) parts[n++] =
            member(s, name, literal(s, part));
    else
        for (; n < json_array_size(value); n++)
            parts[n] = literal(s, json_array_get(value, n));
    expression e = enclosed(s, object ? "{" : "[", parts, n, object ? "}" : "]");
    free(parts);
    return e;
}

/* So deep as the parser of JSON allows. */
static expression literal(struct schemas *s, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        return text(s, "null");
    case JSON_TRUE:
        return text(s, "true");
    case JSON_FALSE:
        return text(s, "false");
    case JSON_STRING:
        return texts_of_literal(&s->b, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
    case JSON_REAL:
        return number_literal(s, value);
    default:
        return composite_literal(s, value);
    }
}

/* Those of a list that the other keywords allow too. */
static bool compile_values(struct schemas *s, const json_t *flat, expression *e)
{
    json_t *values = json_object_get(flat, "enum"), *constant = json_object_get(flat, "const");
    json_t *list = constant ? json_pack("[O]", constant) : json_incref(values);
    expression *parts = allocate(json_array_size(list) + 1, sizeof *parts);
    size_t n = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        enum verdict verdict = schema_allows(s, flat, value);
        if (verdict == UNSURE)
            ok = schema_fail(
                s, "'%s' beside other keywords: whether they allow value %zu cannot be told",
                constant ? "const" : "enum", i);
        if (verdict == YES)
            parts[n++] = literal(s, value);
    }
    *e = expression_choice(&s->b, parts, n);
    free(parts);
    json_decref(list);
    return ok;
}

/* ---- types --------------------------------------------------------------------------------- */

static bool compile(struct schemas *s, const json_t *schema, expression *e);

static bool compile_part(struct schemas *s, const json_t *schema, const char *part,
                         const char *name, expression *e)
{
    size_t before = schema_enter(s, part, name);
    bool ok = compile(s, schema, e);
    schema_leave(s, before);
    return ok;
}

/* Texts of a format have their own lengths: those that are asked for must allow them all. */
static bool compile_format(struct schemas *s, const json_t *format, uint64_t least, uint64_t most,
                           expression *e)
{
    uint64_t low, high;
    *e = texts_of_format(&s->b, json_string_value(format), &low, &high);
    if (*e == NOTHING)
        return schema_fail(s, "format '%.60s' is not supported", json_string_value(format));
    if (low > most || high < least)
        *e = NOTHING;
    else if (low < least || high > most)
        return schema_fail(
            s, "'%s' beside 'format' is supported only where that allows no other length",
            high > most ? "maxLength" : "minLength");
    return true;
}

static bool compile_string(struct schemas *s, const json_t *flat, expression *e)
{
    const json_t *pattern = json_object_get(flat, "pattern"),
                 *format = json_object_get(flat, "format");
    uint64_t least = schema_size(flat, "minLength", 0),
             most = schema_size(flat, "maxLength", UINT64_MAX);
    struct error error;
    if (pattern && format)
        return schema_fail(s, "'pattern' beside 'format' is not supported");
    if (!pattern && !format) {
        *e = least <= most ? texts_of_string(&s->b, (uint32_t)least,
                                             most == UINT64_MAX ? FOREVER : (uint32_t)most)
                           : NOTHING;
        return true;
    }
    if (format && !compile_format(s, format, least, most, e))
        return false;
    if (pattern && !texts_of_pattern(&s->b, json_string_value(pattern), json_string_length(pattern),
                                     least, most, e, &error))
        return schema_fail(s, "'pattern': %s", error.text);
    *e = SEQUENCE(&s->b, text(s, "\""), *e, text(s, "\""));
    return true;
}

static expression compile_number(struct schemas *s, const json_t *flat, bool integer)
{
    struct bound low, high;
    schema_bounds(flat, &low, &high);
    if (low.given || high.given)
        return texts_of_bounded(&s->b, &low, &high, integer);
    return integer ? texts_of_integer(&s->b) : texts_of_number(&s->b);
}

/* Items after the first ones, from the last to the first: those that may be left out are within
 * what may be left out before them. */
static bool compile_array(struct schemas *s, const json_t *flat, expression *e)
{
    const json_t *prefix = json_object_get(flat, "prefixItems"),
                 *items = json_object_get(flat, "items");
    size_t n = json_array_size(prefix);
    uint64_t least = schema_size(flat, "minItems", 0),
             most = schema_size(flat, "maxItems", FOREVER);
    expression space = texts_of_space(&s->b), comma = SEQUENCE(&s->b, text(s, ","), space),
               rest = NOTHING, all = EMPTY;
    if (items ? !compile_part(s, items, "items", NULL, &rest)
              : (!prefix || least > n) && !compile(s, json_true(), &rest))
        return false;
    expression *parts = allocate(n + 1, sizeof *parts);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        ok = compile_part(s, json_array_get(prefix, i), "prefixItems", index, &parts[i]);
    }
    if (ok && n == 0) {
        parts[0] = rest; /* the first of all */
        n = 1;
    }
    /* all: what follows the first i items */
    uint64_t low = least > n ? least - n : 0, high = most == FOREVER ? FOREVER
                                                     : most > n      ? most - n
                                                                     : 0;
    if (ok && most >= n)
        all = expression_repeat(&s->b, SEQUENCE(&s->b, comma, rest), (uint32_t)low, (uint32_t)high);
    for (size_t i = n; ok && i > 0; i--) {
        expression more = SEQUENCE(&s->b, i > 1 ? comma : EMPTY, parts[i - 1], all);
        more = i == 1 ? SEQUENCE(&s->b, more, space) : more;
        all = CHOICE(&s->b, i - 1 >= least ? EMPTY : NOTHING, i <= most ? more : NOTHING);
    }
    free(parts);
    *e = least <= most ? SEQUENCE(&s->b, text(s, "["), space, all, text(s, "]")) : NOTHING;
    return ok;
}

/* ---- objects ------------------------------------------------------------------------------- */

struct members {
    const char **name;
    size_t *length;
    expression *e; /* NOTHING: it cannot be there */
    bool *required;
    size_t n, capacity[4];
};

static void add_member(struct members *m, const char *name, expression e, bool required)
{
    m->name = grow(m->name, &m->capacity[0], m->n + 1, sizeof *m->name);
    m->length = grow(m->length, &m->capacity[1], m->n + 1, sizeof *m->length);
    m->e = grow(m->e, &m->capacity[2], m->n + 1, sizeof *m->e);
    m->required = grow(m->required, &m->capacity[3], m->n + 1, sizeof *m->required);
    m->name[m->n] = name;
    m->length[m->n] = strlen(name);
    m->e[m->n] = e;
    m->required[m->n++] = required;
}

/* Those that are named, in the order of the schema; then those that are only required. */
static bool collect_members(struct schemas *s, const json_t *flat, const json_t *others,
                            struct members *m)
{
    const json_t *properties = json_object_get(flat, "properties"),
                 *required = json_object_get(flat, "required");
    const char *name;
    json_t *part;
    expression value;
    json_object_foreach((json_t *)(uintptr_t)properties, name, part)
    {
        if (!compile_part(s, part, "properties", name, &value))
            return false;
        add_member(m, name, member(s, name, value), schema_requires(flat, name));
    }
    for (size_t i = 0; i < json_array_size(required); i++) {
        name = json_string_value(json_array_get(required, i));
        bool known = json_object_get(properties, name) != NULL;
        for (size_t k = json_object_size(properties); k < m->n && !known; k++)
            known = strcmp(m->name[k], name) == 0;
        if (known)
            continue;
        if (!compile_part(s, others ? others : json_true(), "additionalProperties", NULL, &value))
            return false;
        add_member(m, name, member(s, name, value), true);
    }
    return true;
}

/* Two ways through the members, one before the first and one after it, since a comma stands
 * between. */
static expression join_members(struct schemas *s, const struct members *m, expression other)
{
    struct builder *b = &s->b;
    expression comma = SEQUENCE(b, text(s, ","), texts_of_space(b));
    expression after =
        other == NOTHING ? EMPTY : expression_repeat(b, SEQUENCE(b, comma, other), 0, FOREVER);
    expression first = SEQUENCE(b, other, after);
    bool may_be_empty = true;
    for (size_t i = m->n; i > 0; i--) {
        expression one = m->e[i - 1], next = SEQUENCE(b, comma, one);
        bool required = m->required[i - 1];
        first = CHOICE(b, SEQUENCE(b, one, after), required ? NOTHING : first);
        after = SEQUENCE(b, required ? next : expression_optional(b, next), after);
        may_be_empty &= !required;
    }
    first = SEQUENCE(b, first, texts_of_space(b));
    return CHOICE(b, may_be_empty ? EMPTY : NOTHING, first);
}

/* Members that the schema does not name are made where it asks for them, or names none at all. */
static bool compile_object(struct schemas *s, const json_t *flat, expression *e)
{
    const json_t *others = json_object_get(flat, "additionalProperties");
    bool open = others ? !json_is_false(others) : !json_object_get(flat, "properties");
    struct members m = {0};
    expression value, other = NOTHING;
    bool ok = collect_members(s, flat, others, &m);
    if (ok && open) {
        ok = others ? compile_part(s, others, "additionalProperties", NULL, &value)
                    : compile(s, json_true(), &value);
        expression name = m.n ? texts_of_other_string(&s->b, m.name, m.length, m.n)
                              : texts_of_string(&s->b, 0, FOREVER);
        if (ok)
            other = SEQUENCE(&s->b, name, text(s, ":"), texts_of_space(&s->b), value);
    }
    if (ok)
        *e = SEQUENCE(&s->b, text(s, "{"), texts_of_space(&s->b), join_members(s, &m, other),
                      text(s, "}"));
    free(m.name);
    free(m.length);
    free(m.e);
    free(m.required);
    return ok;
}

/* ---- schemas ------------------------------------------------------------------------------- */

static bool compile_flat(struct schemas *s, const json_t *flat, expression *e)
{
    unsigned types = schema_generated_types(flat);
    expression parts[7], *at = parts;
    if (json_object_get(flat, "enum") || json_object_get(flat, "const"))
        return compile_values(s, flat, e);
    if (types == TYPE_ANY && !json_object_get(flat, "type")) {
        *e = texts_of_value(&s->b);
        return true;
    }
    if (types & TYPE_OBJECT && !compile_object(s, flat, at++))
        return false;
    if (types & TYPE_ARRAY && !compile_array(s, flat, at++))
        return false;
    if (types & TYPE_STRING && !compile_string(s, flat, at++))
        return false;
    if (types & (TYPE_INTEGER | TYPE_FRACTION))
        *at++ = compile_number(s, flat, !(types & TYPE_FRACTION));
    if (types & TYPE_BOOLEAN)
        *at++ = CHOICE(&s->b, text(s, "true"), text(s, "false"));
    if (types & TYPE_NULL)
        *at++ = text(s, "null");
    *e = expression_choice(&s->b, parts, (size_t)(at - parts));
    return true;
}

static bool compile_expanded(struct schemas *s, const json_t *schema, expression *e)
{
    json_t *all = schema_expand(s, schema);
    expression *parts = allocate(json_array_size(all) + 1, sizeof *parts);
    bool ok = all != NULL;
    for (size_t i = 0; ok && i < json_array_size(all); i++)
        ok = compile_flat(s, json_array_get(all, i), &parts[i]);
    *e = expression_choice(&s->b, parts, ok ? json_array_size(all) : 0);
    free(parts);
    return ok;
}

/* One combination and nothing beside it, as it is written: so recursion in it stays recursion. */
static bool compile_combination(struct schemas *s, const json_t *schema, const char *keyword,
                                const json_t *value, expression *e)
{
    if (json_is_string(value))
        return compile_reference(s, json_string_value(value), e);
    if (strcmp(keyword, "oneOf") == 0 && !schema_expand(s, schema))
        return false; /* only to check that they exclude each other */
    if (strcmp(keyword, "allOf") == 0 && json_array_size(value) > 1)
        return compile_expanded(s, schema, e);
    expression *parts = allocate(json_array_size(value) + 1, sizeof *parts);
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(value); i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        ok = compile_part(s, json_array_get(value, i), keyword, index, &parts[i]);
    }
    *e = expression_choice(&s->b, parts, ok ? json_array_size(value) : 0);
    free(parts);
    return ok;
}

static bool compile_object_schema(struct schemas *s, const json_t *schema, expression *e)
{
    const char *keyword, *combination = NULL;
    json_t *value, *combined = NULL;
    size_t n_own = 0, n_combinations = 0;
    if (!schema_check(s, schema))
        return false;
    json_object_foreach((json_t *)(uintptr_t)schema, keyword, value)
    {
        enum keyword_use use = keyword_named(keyword)->use;
        n_own += use == OWN;
        n_combinations += use == COMBINES;
        if (use == COMBINES)
            combination = keyword, combined = value;
    }
    if (n_combinations == 0)
        return compile_flat(s, schema, e);
    if (n_combinations == 1 && n_own == 0)
        return compile_combination(s, schema, combination, combined, e);
    return compile_expanded(s, schema, e);
}

static bool compile(struct schemas *s, const json_t *schema, expression *e)
{
    *e = json_is_true(schema) ? texts_of_value(&s->b) : NOTHING;
    if (json_is_boolean(schema))
        return true;
    if (!json_is_object(schema))
        return schema_fail(s, "expected a schema: an object, true or false");
    if (!schema_spend(s))
        return false;
    if (++s->depth > MAX_SCHEMA_DEPTH)
        return schema_fail(s, "schemas are nested more than %d deep", MAX_SCHEMA_DEPTH);
    bool ok = compile_object_schema(s, schema, e);
    s->depth--;
    return ok;
}

/* The rules of references, until there are no more. */
static bool compile_references(struct schemas *s)
{
    while (s->n_todo > 0) {
        uint32_t rule = s->todo[--s->n_todo];
        char *reference = copy_string(s->b.rule[rule].name);
        const json_t *target;
        expression body = NOTHING;
        s->path_length = strlen(reference) > 1 ? strlen(reference) : 0;
        s->path = grow(s->path, &s->path_capacity, s->path_length + 1, 1);
        memcpy(s->path, reference, s->path_length);
        s->path[s->path_length] = 0;
        bool ok = schema_resolve(s, reference, &target) && compile(s, target, &body);
        free(reference);
        if (!ok)
            return false;
        builder_define(&s->b, rule, body);
    }
    return true;
}

/* A space may stand before the value, since tokens that begin a word often hold one; nothing stands
 * after it. */
static struct grammar *finish(struct builder *b, expression value, const char *name,
                              struct error *error)
{
    uint32_t root = builder_rule(b, " root", 5, 0);
    builder_define(b, root, SEQUENCE(b, expression_optional(b, expression_text(b, " ", 1)), value));
    return grammar_build(b, root, name, error);
}

struct grammar *grammar_from_schema(const char *bytes, size_t length, const char *name,
                                    struct error *error)
{
    json_error_t fault;
    json_t *root = json_loadb(bytes, length,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &fault);
    if (!root) {
        enum json_error_code code = json_error_code(&fault);
        error_set(error, STATUS_INPUT, "%s:%d: %s: %s", name, fault.line > 0 ? fault.line : 1,
                  code == json_error_numeric_overflow ? "not supported" : "not JSON", fault.text);
        return NULL;
    }
    struct schemas s = {
        .name = name, .root = root, .made = json_array(), .sets = json_object(), .error = error};
    struct grammar *grammar = NULL;
    expression value;
    builder_init(&s.b);
    if (compile_reference(&s, "#", &value) && compile_references(&s))
        grammar = finish(&s.b, value, name, error);
    builder_free(&s.b);
    free(s.path);
    free(s.todo);
    json_decref(s.sets);
    json_decref(s.made);
    json_decref(root);
    return grammar;
}

struct grammar *grammar_of_json(void)
{
    struct builder b;
    struct error error;
    builder_init(&b);
    struct grammar *grammar = finish(&b, texts_of_value(&b), "JSON", &error);
    builder_free(&b);
    return grammar;
}
