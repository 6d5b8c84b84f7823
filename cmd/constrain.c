/* constrain: logits in, logits out: only tokens that a grammar or a JSON Schema allows. */
#include "options.h"
#include "stage/constraint.h"
#include "stage/filter.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct filter filter;
static struct constraint constraint;
static const char *grammar, *grammar_file, *schema, *schema_file;
static bool json;

static const struct option_spec options[] = {
    ROW_GRAMMAR(&grammar, 0),
    ROW_GRAMMAR_FILE(&grammar_file, 0),
    ROW_JSON_SCHEMA(&schema, 0),
    ROW_JSON_SCHEMA_FILE(&schema_file, 0),
    ROW_ANY_JSON(&json, 0),
    {0, "json", NULL, OPTION_FLAG, &json, 0, 0, "the same", 0},
    ROW_KEEP_RAW(&filter.keep_raw, 0),
    ROW_MODEL(&constraint.naming.model, 0),
    ROW_OUTPUT(&filter.output_path),
    ROW_FORCE(&filter.force),
    {0},
};
static const struct program program = {
    "[STREAM ...]", "Allow only tokens that a grammar goes on with: logits in, logits out.",
    options};

typedef struct grammar *parser(const char *text, size_t length, const char *name,
                               struct error *error);

static struct grammar *parse(parser *parse_text, const char *text, size_t length, const char *name)
{
    struct error error;
    struct grammar *made = parse_text(text, length, name, &error);
    if (!made)
        die_error(&error);
    return made;
}

static struct grammar *parse_file(parser *parse_text, const char *path)
{
    size_t length;
    if (!*path)
        die(STATUS_USAGE,
            "expected a grammar, a schema or the name of a file, found an empty text");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die(STATUS_SYSTEM, "%s: cannot open:", path);
    char *text = (char *)read_all(fd, &length, path);
    close(fd);
    struct grammar *made = parse(parse_text, text, length, path);
    free(text);
    return made;
}

/* A schema is an object, true or false; anything else names a file, as true.json does. */
static bool is_schema(const char *text)
{
    text += strspn(text, " \t\r\n");
    size_t word = strspn(text, "truefals");
    return *text == '{' || (text[word + strspn(text + word, " \t\r\n")] == 0 &&
                            ((word == 4 && strncmp(text, "true", 4) == 0) ||
                             (word == 5 && strncmp(text, "false", 5) == 0)));
}

static struct grammar *read_grammar(void)
{
    if ((grammar != NULL) + (grammar_file != NULL) + (schema != NULL) + (schema_file != NULL) +
            json !=
        1)
        die(STATUS_USAGE, "give one of --grammar, --grammar-file, --json-schema, "
                          "--json-schema-file and --any-json");
    if (json)
        return grammar_of_json();
    if (grammar_file || (grammar && !strstr(grammar, "::=")))
        return parse_file(grammar_parse, grammar_file ? grammar_file : grammar);
    if (grammar)
        return parse(grammar_parse, grammar, strlen(grammar), "--grammar");
    if (schema_file || !is_schema(schema))
        return parse_file(grammar_from_schema, schema_file ? schema_file : schema);
    return parse(grammar_from_schema, schema, strlen(schema), "--json-schema");
}

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);
    constraint.grammar = read_grammar();
    filter.operands = argv + first;
    filter.n_operands = argc - first;
    filter.change = constraint_change;
    filter.pass = constraint_pass;
    filter.context = &constraint;
    filter_run(&filter);

    int written = program_end();
    enum status complete = written == STATUS_OK ? constraint_finish(&constraint) : STATUS_OK;
    constraint_free(&constraint);
    return written != STATUS_OK ? written : (int)complete;
}
