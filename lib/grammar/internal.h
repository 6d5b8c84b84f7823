/* Expressions over bytes, and the automaton that is made of them.  Private to lib/grammar. */
#ifndef UNROLL_GRAMMAR_INTERNAL_H
#define UNROLL_GRAMMAR_INTERNAL_H

#include "grammar/grammar.h"

/* ---- expressions (expression.c) ------------------------------------------------------------ */

/* An expression is a number: equal ones are made once and have the same.  So x? x? x? is seen to be
 * x{0,3}, and what follows is built once however often it is reached. */
typedef uint32_t expression;
enum { NOTHING = 0 /* matches no text */, EMPTY = 1 /* only the empty text */ };
#define FOREVER UINT32_MAX /* as the upper bound of a repetition */

enum expression_kind {
    KIND_NOTHING,
    KIND_EMPTY,
    KIND_BYTES,
    KIND_SEQUENCE,
    KIND_CHOICE,
    KIND_REPEAT,
    KIND_RULE
};
struct expression_node {
    uint8_t kind;
    bool nullable;      /* matches the empty text; valid once the rules are complete */
    uint32_t a, b;      /* BYTES: set.  SEQUENCE, CHOICE: both parts.  REPEAT: body.  RULE: rule */
    uint32_t low, high; /* REPEAT */
};
struct byte_set {
    uint64_t word[4];
};
struct rule {
    char *name;
    expression body;
    bool defined, nullable;
    uint32_t line;        /* where it is first seen */
    uint32_t nonempty;    /* rule of the same texts but the empty one, + 1; 0: none was made */
    uint32_t nonempty_of; /* of such a rule: that one */
};

/* Numbers found by the bytes of what they stand for. */
struct index {
    uint32_t *slot; /* number + 1; 0: free */
    size_t size, used;
};

struct builder {
    struct expression_node *node;
    size_t n_nodes, nodes_capacity;
    struct byte_set *set;
    size_t n_sets, sets_capacity;
    struct rule *rule;
    size_t n_rules, rules_capacity;
    struct index nodes, sets, rules; /* rules by name */
    expression *nonempty;            /* what nonempty_of found, + 1 */
    size_t nonempty_capacity;
    bool complete;  /* no rule is defined any more: `nullable` is known */
    bool too_large; /* what was made since is NOTHING */
};

void builder_init(struct builder *b);
void builder_free(struct builder *b);

/* The rule of a name, made when there is none yet. */
uint32_t builder_rule(struct builder *b, const char *name, size_t length, uint32_t line);
void builder_define(struct builder *b, uint32_t rule, expression body);

expression expression_rule(struct builder *b, uint32_t rule);
expression expression_bytes(struct builder *b, const struct byte_set *set);
expression expression_byte_range(struct builder *b, uint8_t low, uint8_t high);
/* The bytes of a text, one after another. */
expression expression_text(struct builder *b, const void *bytes, size_t length);
expression expression_sequence(struct builder *b, const expression *parts, size_t n);
expression expression_choice(struct builder *b, const expression *parts, size_t n);
expression expression_repeat(struct builder *b, expression body, uint32_t low, uint32_t high);
expression expression_optional(struct builder *b, expression body);
#define SEQUENCE(b, ...)                                                                           \
    expression_sequence(b, (const expression[]){__VA_ARGS__},                                      \
                        sizeof((const expression[]){__VA_ARGS__}) / sizeof(expression))
#define CHOICE(b, ...)                                                                             \
    expression_choice(b, (const expression[]){__VA_ARGS__},                                        \
                      sizeof((const expression[]){__VA_ARGS__}) / sizeof(expression))

/* Characters by ranges of code points, as their bytes in UTF-8; surrogates are none. */
#define MAX_CODE_POINT 0x10ffffu
struct code_points {
    struct code_range {
        uint32_t low, high;
    } * range;
    size_t n, capacity;
};
void code_points_add(struct code_points *set, uint32_t low, uint32_t high);
/* Sorted, without overlaps. */
void code_points_sort(struct code_points *set);
/* All others. */
void code_points_negate(struct code_points *set);
bool code_points_has(const struct code_points *set, uint32_t code); /* sorted */
expression expression_characters(struct builder *b, struct code_points *set);
expression expression_character(struct builder *b, uint32_t code);
/* Writes a code point's bytes; how many they are. */
size_t utf8_put(uint32_t code, uint8_t bytes[4]);
/* Reads a character; 0 when the bytes are none. */
size_t utf8_get(const uint8_t *bytes, size_t length, uint32_t *code);

/* Puts "NAME:LINE" before an error (no line: 0); returns false. */
bool error_at(struct error *error, const char *name, uint32_t line);

/* ---- what rules must be (check.c) ---------------------------------------------------------- */

/* Every rule is defined and matches some text, none begins with itself; finds out what is nullable.
 */
bool builder_check(struct builder *b, const char *name, struct error *error);

/* The texts of `e` but the empty one.  After builder_check. */
expression nonempty_of(struct builder *b, expression e);

/* ---- the automaton (automaton.c) ----------------------------------------------------------- */

enum state_kind { STATE_END, STATE_BYTES, STATE_CHOICE, STATE_CALL, STATE_REPEAT };
struct state {
    uint8_t kind;
    bool nullable; /* CALL: the rule may match the empty text */
    uint32_t rank; /* states that are reached from this one without a byte have greater ones;
                      THE_END has the least */
    uint32_t a; /* BYTES: set.  CHOICE: a state.  CALL: state where the rule begins.  REPEAT: where
                   the body begins */
    uint32_t next;      /* CHOICE: the other state */
    uint32_t low, high; /* REPEAT: finite */
};
enum {
    THE_END = 0 /* of a rule, or of a repetition's body: returns */,
    NOWHERE = 1 /* no byte goes on */
};

struct grammar {
    struct state *state;
    size_t n_states, states_capacity;
    uint32_t start;
    /* Bytes that no set tells apart are of one class. */
    uint8_t class_of[256];
    uint32_t n_classes;
    struct byte_set *classes; /* of each set */
    size_t n_sets;
};

static inline bool set_has(const struct byte_set *set, unsigned i)
{
    return set->word[i / 64] >> (i % 64) & 1;
}

/* Checks the builder's rules and makes the automaton of one; the builder is not needed any more. */
struct grammar *grammar_build(struct builder *b, uint32_t root, const char *name,
                              struct error *error);

/* ---- JSON (json.c, number.c, pattern.c, lengths.c) ----------------------------------------- */

/* White space that JSON allows between its tokens, bounded: nothing, one space, or one or two
 * newlines and up to 20 spaces or tabs. */
expression texts_of_space(struct builder *b);
/* A string between quotes of low..high characters, each as itself or by any of its escapes. */
expression texts_of_string(struct builder *b, uint32_t low, uint32_t high);
/* One character as a string holds it: by an escape only where it must be. */
expression texts_of_character(struct builder *b, uint32_t code);
expression texts_of_characters(struct builder *b, struct code_points *set);
/* A string literal between quotes, from UTF-8. */
expression texts_of_literal(struct builder *b, const char *text, size_t length);
/* Strings that are none of the given ones, which are UTF-8. */
expression texts_of_other_string(struct builder *b, const char *const *texts, const size_t *lengths,
                                 size_t n);
expression texts_of_integer(struct builder *b);
expression texts_of_number(struct builder *b);
/* Any value; its rule is made when it is first asked for. */
expression texts_of_value(struct builder *b);

/* A decimal number: digits * 10^-scale, without leading zeros; text of JSON. */
#define DECIMAL_DIGITS 400
struct decimal {
    bool negative;
    uint16_t n_integer, n_fraction;
    uint8_t integer[DECIMAL_DIGITS];  /* no leading zeros; none: 0 */
    uint8_t fraction[DECIMAL_DIGITS]; /* no trailing zeros */
};
/* The shortest decimal that reads as this f64. */
void decimal_from_real(struct decimal *decimal, double value);
void decimal_from_integer(struct decimal *decimal, long long value);
int decimal_compare(const struct decimal *a, const struct decimal *b);
struct bound {
    bool given, exclusive;
    struct decimal value;
};
/* Numbers between bounds, exact as decimals; NOTHING where there are none. */
expression texts_of_bounded(struct builder *b, const struct bound *low, const struct bound *high,
                            bool integer);

/* The strings (without quotes, escaped as JSON) of least..most characters (UINT64_MAX: no bound)
 * that a regular expression of ECMA-262 matches anywhere in them. */
bool texts_of_pattern(struct builder *b, const char *pattern, size_t length, uint64_t least,
                      uint64_t most, expression *e, struct error *error);
/* Of the texts of an expression without recursion, whose rules are one character each, those of
 * least..most characters.  False where that takes too many rules. */
bool expression_of_length(struct builder *b, expression e, uint64_t least, uint64_t most,
                          expression *limited);
/* Strings of a format (without quotes), or NOTHING for an unknown one. */
expression texts_of_format(struct builder *b, const char *format, uint64_t *low, uint64_t *high);

#endif
