/* What can be said about schemas without compiling them: what several are together, and whether two
 * exclude each other. */
#include "grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types --------------------------------------------------------------------------------- */

static const struct type_name {
    const char *name;
    unsigned types;
} type_names[] = {
    {"null", TYPE_NULL},       {"boolean", TYPE_BOOLEAN},
    {"integer", TYPE_INTEGER}, {"number", TYPE_INTEGER | TYPE_FRACTION},
    {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
    {"object", TYPE_OBJECT},
};

static unsigned types_named(const char *name)
{
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if (strcmp(type_names[i].name, name) == 0)
            return type_names[i].types;
    return 0;
}

unsigned schema_types(const json_t *flat)
{
    const json_t *type = json_object_get(flat, "type");
    unsigned types = 0;
    if (!type)
        return TYPE_ANY;
    if (json_is_string(type))
        return types_named(json_string_value(type));
    for (size_t i = 0; i < json_array_size(type); i++)
        types |= types_named(json_string_value(json_array_get(type, i)));
    return types;
}

unsigned schema_generated_types(const json_t *flat)
{
    static const struct {
        const char *keyword;
        unsigned types;
    } about[] = {
        {"properties", TYPE_OBJECT},
        {"required", TYPE_OBJECT},
        {"additionalProperties", TYPE_OBJECT},
        {"items", TYPE_ARRAY},
        {"prefixItems", TYPE_ARRAY},
        {"minItems", TYPE_ARRAY},
        {"maxItems", TYPE_ARRAY},
        {"minLength", TYPE_STRING},
        {"maxLength", TYPE_STRING},
        {"pattern", TYPE_STRING},
        {"format", TYPE_STRING},
        {"minimum", TYPE_INTEGER | TYPE_FRACTION},
        {"maximum", TYPE_INTEGER | TYPE_FRACTION},
        {"exclusiveMinimum", TYPE_INTEGER | TYPE_FRACTION},
        {"exclusiveMaximum", TYPE_INTEGER | TYPE_FRACTION},
    };
    unsigned types = 0;
    if (json_object_get(flat, "type") || json_object_get(flat, "enum") ||
        json_object_get(flat, "const"))
        return schema_types(flat);
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        if (json_object_get(flat, about[i].keyword))
            types |= about[i].types;
    return types ? types : TYPE_ANY;
}

unsigned schema_type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_INTEGER:
        return TYPE_INTEGER;
    case JSON_REAL:
        break;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    case JSON_OBJECT:
        return TYPE_OBJECT;
    }
    struct decimal d;
    decimal_from_real(&d, json_real_value(value));
    return d.n_fraction ? TYPE_FRACTION : TYPE_INTEGER; /* 1.0 is an integer */
}

/* ---- bounds -------------------------------------------------------------------------------- */

static struct decimal decimal_of(const json_t *number)
{
    struct decimal d;
    if (json_is_integer(number))
        decimal_from_integer(&d, json_integer_value(number));
    else
        decimal_from_real(&d, json_real_value(number));
    return d;
}

/* The tighter one of two: `side` is 1 for lower bounds, -1 for upper ones. */
static void tighten(struct bound *bound, const json_t *number, bool exclusive, int side)
{
    if (!number)
        return;
    struct bound other = {true, exclusive, decimal_of(number)};
    int order = bound->given ? side * decimal_compare(&other.value, &bound->value) : 1;
    if (order > 0)
        *bound = other;
    else if (order == 0)
        bound->exclusive |= exclusive;
}

void schema_bounds(const json_t *flat, struct bound *low, struct bound *high)
{
    low->given = high->given = false;
    tighten(low, json_object_get(flat, "minimum"), false, 1);
    tighten(low, json_object_get(flat, "exclusiveMinimum"), true, 1);
    tighten(high, json_object_get(flat, "maximum"), false, -1);
    tighten(high, json_object_get(flat, "exclusiveMaximum"), true, -1);
}

uint64_t schema_size(const json_t *flat, const char *keyword, uint64_t otherwise)
{
    const json_t *value = json_object_get(flat, keyword);
    if (!value)
        return otherwise;
    return json_is_integer(value) ? (uint64_t)json_integer_value(value)
                                  : (uint64_t)json_real_value(value);
}

bool schema_requires(const json_t *flat, const char *name)
{
    const json_t *required = json_object_get(flat, "required");
    for (size_t i = 0; i < json_array_size(required); i++)
        if (strcmp(json_string_value(json_array_get(required, i)), name) == 0)
            return true;
    return false;
}

/* ---- values -------------------------------------------------------------------------------- */

/* The value with all whole numbers as integers: what JSON Schema calls equal, as 1 and 1.0 are, is
 * then written the same.  A new reference. */
static json_t *with_integers(const json_t *value)
{
    json_t *copy, *part;
    const char *name;
    if (json_is_real(value)) {
        double real = json_real_value(value);
        bool whole = real >= -0x1p63 && real < 0x1p63 && real == (double)(json_int_t)real;
        return whole ? json_integer((json_int_t)real) : json_real(real);
    }
    if (!json_is_array(value) && !json_is_object(value))
        return json_copy((json_t *)(uintptr_t)value);
    copy = json_is_array(value) ? json_array() : json_object();
    for (size_t i = 0; i < json_array_size(value); i++)
        json_array_append_new(copy, with_integers(json_array_get(value, i)));
    if (json_is_object(value))
        json_object_foreach((json_t *)(uintptr_t)value, name, part)
            json_object_set_new(copy, name, with_integers(part));
    return copy;
}

/* A text that equal values have in common, and no others.  The caller's. */
static char *canonical(const json_t *value)
{
    json_t *copy = with_integers(value);
    char *text = json_dumps(copy, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(copy);
    return text;
}

/* The values of a list that stays, as the names of an object: a list may be long, and is asked
 * about each value of another. */
static const json_t *set_of(struct schemas *s, const json_t *values)
{
    char key[40];
    snprintf(key, sizeof key, "%p", (const void *)values);
    json_t *set = json_object_get(s->sets, key);
    if (set)
        return set;
    set = json_object();
    for (size_t i = 0; i < json_array_size(values); i++) {
        char *text = canonical(json_array_get(values, i));
        json_object_set_new(set, text, json_true());
        free(text);
    }
    json_object_set_new(s->sets, key, set);
    return set;
}

static bool is_among(struct schemas *s, const json_t *values, const json_t *value)
{
    char *text = canonical(value);
    bool found = json_object_get(set_of(s, values), text) != NULL;
    free(text);
    return found;
}

static bool is_equal(const json_t *a, const json_t *b)
{
    char *left = canonical(a), *right = canonical(b);
    bool same = left && right && strcmp(left, right) == 0;
    free(left);
    free(right);
    return same;
}

static enum verdict both(enum verdict a, enum verdict b)
{
    return a == NO || b == NO ? NO : a == UNSURE || b == UNSURE ? UNSURE : YES;
}

static bool within(const json_t *flat, const char *low, const char *high, uint64_t size)
{
    return size >= schema_size(flat, low, 0) && size <= schema_size(flat, high, UINT64_MAX);
}

static bool number_allowed(const json_t *flat, const json_t *value)
{
    struct bound low, high;
    struct decimal d = decimal_of(value);
    schema_bounds(flat, &low, &high);
    int above = low.given ? decimal_compare(&d, &low.value) : 1,
        below = high.given ? decimal_compare(&high.value, &d) : 1;
    return (above > 0 || (above == 0 && !low.exclusive)) &&
           (below > 0 || (below == 0 && !high.exclusive));
}

static enum verdict string_allowed(const json_t *flat, const json_t *value)
{
    uint64_t length = 0;
    for (const char *at = json_string_value(value), *end = at + json_string_length(value); at < end;
         at++)
        length += ((uint8_t)*at & 0xc0) != 0x80;
    if (!within(flat, "minLength", "maxLength", length))
        return NO;
    return json_object_get(flat, "pattern") || json_object_get(flat, "format") ? UNSURE : YES;
}

/* Whether a value satisfies a part, which may be anything. */
static enum verdict part_allows(struct schemas *s, const json_t *part, const json_t *value)
{
    if (!part || json_is_true(part))
        return YES;
    if (json_is_false(part))
        return NO;
    static const char *const others[] = {"$ref", "anyOf", "oneOf", "allOf"};
    for (size_t i = 0; i < 4; i++)
        if (json_object_get(part, others[i]))
            return UNSURE;
    return schema_allows(s, part, value);
}

static enum verdict array_allowed(struct schemas *s, const json_t *flat, const json_t *value)
{
    const json_t *prefix = json_object_get(flat, "prefixItems"),
                 *items = json_object_get(flat, "items");
    enum verdict all = within(flat, "minItems", "maxItems", json_array_size(value)) ? YES : NO;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *part = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        all = both(all, part_allows(s, part, json_array_get(value, i)));
    }
    return all;
}

static enum verdict object_allowed(struct schemas *s, const json_t *flat, const json_t *value)
{
    const json_t *properties = json_object_get(flat, "properties"),
                 *others = json_object_get(flat, "additionalProperties");
    const json_t *required = json_object_get(flat, "required");
    enum verdict all = YES;
    const char *name;
    json_t *member;
    for (size_t i = 0; i < json_array_size(required); i++)
        if (!json_object_get(value, json_string_value(json_array_get(required, i))))
            return NO;
    json_object_foreach((json_t *)(uintptr_t)value, name, member)
    {
        const json_t *part = json_object_get(properties, name);
        all = both(all, part_allows(s, part ? part : others, member));
    }
    return all;
}

enum verdict schema_allows(struct schemas *s, const json_t *flat, const json_t *value)
{
    const json_t *values = json_object_get(flat, "enum"),
                 *constant = json_object_get(flat, "const");
    unsigned type = schema_type_of(value);
    if (!(schema_types(flat) & type) || (values && !is_among(s, values, value)) ||
        (constant && !is_equal(constant, value)))
        return NO;
    if (type & (TYPE_INTEGER | TYPE_FRACTION))
        return number_allowed(flat, value) ? YES : NO;
    if (type == TYPE_STRING)
        return string_allowed(flat, value);
    if (type == TYPE_ARRAY)
        return array_allowed(s, flat, value);
    return type == TYPE_OBJECT ? object_allowed(s, flat, value) : YES;
}

/* ---- two schemas as one -------------------------------------------------------------------- */

/* New references are owned by the array of what was made. */
static json_t *keep(struct schemas *s, json_t *made)
{
    json_array_append_new(s->made, made);
    return made;
}

static json_t *both_of(json_t *a, json_t *b)
{
    return json_pack("{s:[O,O]}", "allOf", a, b);
}

static json_t *merge_types(const json_t *a, const json_t *b)
{
    unsigned types = schema_types(a) & schema_types(b);
    json_t *names = json_array();
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if ((types & type_names[i].types) == type_names[i].types)
            json_array_append_new(names, json_string(type_names[i].name));
    return names;
}

static json_t *merge_lists(struct schemas *s, json_t *a, json_t *b, bool common)
{
    json_t *all = common ? json_array() : json_copy(a);
    for (size_t i = 0; i < json_array_size(b); i++) {
        json_t *one = json_array_get(b, i);
        if (is_among(s, a, one) == common)
            json_array_append(all, one);
    }
    return all;
}

static json_t *merge_properties(json_t *a, json_t *b)
{
    json_t *all = json_copy(a), *value;
    const char *name;
    json_object_foreach(b, name, value)
    {
        json_t *other = json_object_get(a, name);
        if (!other)
            json_object_set(all, name, value);
        else if (!json_equal(other, value))
            json_object_set_new(all, name, both_of(other, value));
    }
    return all;
}

/* The one that allows less: of upper bounds the lesser. */
static json_t *merge_bounds(json_t *a, json_t *b, bool upper)
{
    struct decimal x = decimal_of(a), y = decimal_of(b);
    return json_incref((decimal_compare(&x, &y) < 0) == upper ? a : b);
}

/* The values of one keyword in two schemas as one; NULL where that is not supported. */
static json_t *merge_keyword(struct schemas *s, const char *keyword, const json_t *left,
                             const json_t *right)
{
    json_t *a = json_object_get(left, keyword), *b = json_object_get(right, keyword);
    if (json_equal(a, b))
        return json_incref(a);
    if (strcmp(keyword, "type") == 0)
        return merge_types(left, right);
    if (strcmp(keyword, "required") == 0 || strcmp(keyword, "enum") == 0)
        return merge_lists(s, a, b, *keyword == 'e');
    if (strcmp(keyword, "properties") == 0)
        return merge_properties(a, b);
    if (strcmp(keyword, "items") == 0)
        return both_of(a, b);
    if (strncmp(keyword, "min", 3) == 0 || strcmp(keyword, "exclusiveMinimum") == 0)
        return merge_bounds(a, b, false);
    if (strncmp(keyword, "max", 3) == 0 || strcmp(keyword, "exclusiveMaximum") == 0)
        return merge_bounds(a, b, true);
    return NULL;
}

/* What a keyword is about depends on others beside it: additionalProperties and items are about
 * what is left.  So these may not come from one schema and those from another. */
static bool check_rest(struct schemas *s, const json_t *a, const json_t *b, const char *rest,
                       const char *named)
{
    const json_t *names = json_object_get(b, named), *own = json_object_get(a, named),
                 *value = json_object_get(a, rest);
    const char *name;
    json_t *part;
    if (!value || json_is_true(value) || !names)
        return true;
    bool same = json_is_array(names) ? json_array_size(names) <= json_array_size(own) : true;
    if (json_is_object(names))
        json_object_foreach((json_t *)(uintptr_t)names, name, part) same &=
            json_object_get(own, name) != NULL;
    return same ||
           schema_fail(
               s,
               "'%s' of one schema and '%s' of another that is combined with it are not supported",
               rest, named);
}

static json_t *merge(struct schemas *s, json_t *a, json_t *b)
{
    json_t *all, *value;
    const char *keyword;
    if (!check_rest(s, a, b, "additionalProperties", "properties") ||
        !check_rest(s, b, a, "additionalProperties", "properties") ||
        !check_rest(s, a, b, "items", "prefixItems") ||
        !check_rest(s, b, a, "items", "prefixItems"))
        return NULL;
    all = keep(s, json_copy(a));
    json_object_foreach(b, keyword, value)
    {
        json_t *merged =
            json_object_get(a, keyword) ? merge_keyword(s, keyword, a, b) : json_incref(value);
        if (!merged) {
            schema_fail(s, "'%s' of two schemas that are combined is not supported", keyword);
            return NULL;
        }
        json_object_set_new(all, keyword, merged);
    }
    return all;
}

/* ---- schemas that exclude each other ------------------------------------------------------- */

static bool excludes(struct schemas *s, const json_t *a, const json_t *b);

/* Every alternative of one part excludes every one of the other; false also when that cannot be
 * told.  It looks into parts of parts only so deep: they may refer to what they are in. */
static bool parts_exclude(struct schemas *s, const json_t *a, const json_t *b)
{
    struct error *outer = s->error, ignored;
    s->error = &ignored;
    s->depth += MAX_SCHEMA_DEPTH / 4;
    json_t *left = schema_expand(s, a), *right = schema_expand(s, b);
    bool all = left && right;
    for (size_t i = 0; all && i < json_array_size(left); i++)
        for (size_t k = 0; all && k < json_array_size(right); k++)
            all = excludes(s, json_array_get(left, i), json_array_get(right, k));
    s->depth -= MAX_SCHEMA_DEPTH / 4;
    s->error = outer;
    return all;
}

/* The names of members that are generated for a: whether this is one. */
static bool may_have(const json_t *a, const char *name)
{
    const json_t *properties = json_object_get(a, "properties"),
                 *others = json_object_get(a, "additionalProperties");
    if (json_object_get(properties, name) || schema_requires(a, name))
        return true;
    return others ? !json_is_false(others) : properties == NULL;
}

static bool objects_exclude(struct schemas *s, const json_t *a, const json_t *b)
{
    const json_t *of_a = json_object_get(a, "properties"), *of_b = json_object_get(b, "properties");
    const json_t *needed = json_object_get(b, "required"), *own = json_object_get(a, "required");
    const char *name;
    json_t *part;
    for (size_t i = 0; i < json_array_size(needed); i++)
        if (!may_have(a, json_string_value(json_array_get(needed, i))))
            return true;
    for (size_t i = 0;
         json_is_false(json_object_get(b, "additionalProperties")) && i < json_array_size(own); i++)
        if (!json_object_get(of_b, json_string_value(json_array_get(own, i))))
            return true;
    json_object_foreach((json_t *)(uintptr_t)of_a, name, part)
    {
        const json_t *other = json_object_get(of_b, name);
        if (other && (schema_requires(a, name) || schema_requires(b, name)) &&
            parts_exclude(s, part, other))
            return true;
    }
    return false;
}

static bool sizes_exclude(const json_t *a, const json_t *b, const char *low, const char *high)
{
    return schema_size(a, low, 0) > schema_size(b, high, UINT64_MAX) ||
           schema_size(b, low, 0) > schema_size(a, high, UINT64_MAX);
}

static bool is_below(const struct bound *high, const struct bound *low)
{
    int order = high->given && low->given ? decimal_compare(&high->value, &low->value) : 1;
    return order < 0 || (order == 0 && (high->exclusive || low->exclusive));
}

static bool numbers_exclude(const json_t *a, const json_t *b)
{
    struct bound low[2], high[2];
    schema_bounds(a, &low[0], &high[0]);
    schema_bounds(b, &low[1], &high[1]);
    return is_below(&high[0], &low[1]) || is_below(&high[1], &low[0]);
}

/* The values that a schema lists, or NULL; a reference that is the caller's. */
static json_t *listed(const json_t *flat)
{
    json_t *values = json_object_get(flat, "enum"), *constant = json_object_get(flat, "const");
    return values ? json_incref(values) : constant ? json_pack("[O]", constant) : NULL;
}

static bool none_allowed(struct schemas *s, json_t *values, const json_t *flat)
{
    bool none = values != NULL;
    for (size_t i = 0; i < json_array_size(values); i++)
        none &= schema_allows(s, flat, json_array_get(values, i)) == NO;
    json_decref(values);
    return none;
}

/* Whether no value that is generated for the flat schema a satisfies the flat schema b, as far as
 * that can be told. */
static bool excludes(struct schemas *s, const json_t *a, const json_t *b)
{
    if (!schema_spend(s))
        return false;
    unsigned common = schema_generated_types(a) & schema_types(b);
    if (none_allowed(s, listed(a), b) || none_allowed(s, listed(b), a))
        return true;
    if (json_object_get(a, "enum") || json_object_get(a, "const"))
        return false; /* what is generated is the list, whatever the keywords beside it would make
                       */
    for (unsigned type = 1; type < TYPE_ANY; type <<= 1) {
        bool apart = !(common & type);
        if (type & (TYPE_INTEGER | TYPE_FRACTION))
            apart = apart || numbers_exclude(a, b);
        else if (type == TYPE_STRING)
            apart = apart || sizes_exclude(a, b, "minLength", "maxLength");
        else if (type == TYPE_ARRAY)
            apart = apart || sizes_exclude(a, b, "minItems", "maxItems");
        else if (type == TYPE_OBJECT)
            apart = apart || objects_exclude(s, a, b);
        if (!apart)
            return false;
    }
    return true;
}

/* ---- alternatives -------------------------------------------------------------------------- */

/* Each of one list with each of the other; NULL when one of them is. */
static json_t *cross(struct schemas *s, json_t *a, json_t *b)
{
    if (!a || !b)
        return NULL;
    json_t *all = keep(s, json_array());
    if (json_array_size(a) * json_array_size(b) > MAX_ALTERNATIVES) {
        schema_fail(s, "combined alternatives are more than %d", MAX_ALTERNATIVES);
        return NULL;
    }
    for (size_t i = 0; i < json_array_size(a); i++)
        for (size_t k = 0; k < json_array_size(b); k++) {
            json_t *one = merge(s, json_array_get(a, i), json_array_get(b, k));
            if (!one)
                return NULL;
            json_array_append(all, one);
        }
    return all;
}

static bool check_exclusive(struct schemas *s, json_t *a, size_t i, json_t *b, size_t k)
{
    for (size_t x = 0; x < json_array_size(a); x++)
        for (size_t y = 0; y < json_array_size(b); y++)
            if (!excludes(s, json_array_get(a, x), json_array_get(b, y)))
                return schema_fail(s,
                                   "'oneOf': a value may satisfy both alternatives %zu and %zu; "
                                   "only anyOf allows that",
                                   i, k);
    return true;
}

static json_t *expand_alternatives(struct schemas *s, json_t *base, const json_t *parts,
                                   const char *keyword)
{
    bool exclusive = strcmp(keyword, "oneOf") == 0;
    size_t n = json_array_size(parts);
    json_t **branch = allocate(n + 1, sizeof *branch), *all = keep(s, json_array());
    bool ok = base != NULL;
    for (size_t i = 0; i < n && ok; i++) {
        branch[i] = cross(s, base, schema_expand(s, json_array_get(parts, i)));
        ok = branch[i] != NULL;
        for (size_t k = 0; ok && exclusive && k < i; k++)
            ok = check_exclusive(s, branch[k], k, branch[i], i) &&
                 check_exclusive(s, branch[i], i, branch[k], k);
        if (ok)
            json_array_extend(all, branch[i]);
        if (ok && json_array_size(all) > MAX_ALTERNATIVES)
            ok = schema_fail(s, "combined alternatives are more than %d", MAX_ALTERNATIVES);
    }
    free(branch);
    return ok ? all : NULL;
}

/* The keywords that constrain a value and are no combination of schemas. */
static json_t *own_keywords(struct schemas *s, const json_t *schema)
{
    json_t *own = keep(s, json_object()), *value;
    const char *keyword;
    json_object_foreach((json_t *)(uintptr_t)schema, keyword, value) if (schema_is_own(keyword))
        json_object_set(own, keyword, value);
    return own;
}

static json_t *expand_object(struct schemas *s, const json_t *schema)
{
    const json_t *reference = json_object_get(schema, "$ref"), *target,
                 *parts = json_object_get(schema, "allOf");
    json_t *all = keep(s, json_array());
    if (!schema_check(s, schema))
        return NULL;
    json_array_append(all, own_keywords(s, schema));
    if (reference)
        all = schema_resolve(s, json_string_value(reference), &target)
                  ? cross(s, all, schema_expand(s, target))
                  : NULL;
    for (size_t i = 0; all && i < json_array_size(parts); i++)
        all = cross(s, all, schema_expand(s, json_array_get(parts, i)));
    if (all && json_object_get(schema, "anyOf"))
        all = expand_alternatives(s, all, json_object_get(schema, "anyOf"), "anyOf");
    if (all && json_object_get(schema, "oneOf"))
        all = expand_alternatives(s, all, json_object_get(schema, "oneOf"), "oneOf");
    return all;
}

json_t *schema_expand(struct schemas *s, const json_t *schema)
{
    json_t *all = NULL;
    if (json_is_false(schema))
        return keep(s, json_array());
    if (json_is_true(schema))
        return keep(s, json_pack("[{}]"));
    if (!schema_spend(s))
        return NULL;
    if (++s->depth > MAX_SCHEMA_DEPTH)
        schema_fail(s, "schemas are nested or refer to each other more than %d deep",
                    MAX_SCHEMA_DEPTH);
    else if (!json_is_object(schema))
        schema_fail(s, "expected a schema: an object, true or false");
    else
        all = expand_object(s, schema);
    s->depth--;
    return all;
}
