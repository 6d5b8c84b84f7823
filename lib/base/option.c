#include "base/base.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { OPTION_HELP = 256, OPTION_VERSION, FIRST_OPTION };

static void print_option(const struct option_spec *o)
{
    char left[64], shown[8] = "    ";
    const char *argument = o->argument ? o->argument : "";
    if (o->letter)
        snprintf(shown, sizeof shown, "-%c, ", o->letter);
    snprintf(left, sizeof left, "  %s--%s%s%s", shown, o->name,
             *argument && *argument != '[' ? " " : "", argument);
    if (strlen(left) > 29)
        printf("%s\n%30s%s\n", left, "", o->help);
    else
        printf("%-30s%s\n", left, o->help);
}

static void print_help(const struct program *program)
{
    printf("usage: %s [OPTION ...]%s%s\n%s\n\n", program_name, *program->operands ? " " : "",
           program->operands, program->purpose);
    for (const struct option_spec *o = program->options; o->name; o++)
        print_option(o);
    print_option(
        &(struct option_spec){.letter = 'h', .name = "help", .help = "print this and exit"});
    print_option(&(struct option_spec){.name = "version", .help = "print the version and exit"});
    exit(program_end());
}

static void set_integer(const struct option_spec *o, const char *value)
{
    int64_t number;
    if (!parse_integer(value, (int64_t)o->low, (int64_t)o->high, &number))
        die(STATUS_USAGE, "--%s: expected a whole number from %.0f to %.0f, found '%s'", o->name,
            o->low, o->high, value);
    if (o->target)
        *(int64_t *)o->target = number;
}

static void set_real(const struct option_spec *o, const char *value)
{
    double number;
    if (!parse_real(value, o->low, o->high, &number))
        die(STATUS_USAGE, "--%s: expected a number from %g to %g, found '%s'", o->name, o->low,
            o->high, value);
    if (o->target)
        *(double *)o->target = number;
}

static void set_choice(const struct option_spec *o, const char *value)
{
    size_t length = strlen(value);
    const char *word = o->argument;
    for (int i = 0; *word; i++) {
        size_t n = strcspn(word, "|");
        if (n == length && memcmp(word, value, n) == 0) {
            if (o->target)
                *(int *)o->target = i;
            return;
        }
        word += n + (word[n] == '|');
    }
    die(STATUS_USAGE, "--%s: expected one of %s, found '%s'", o->name, o->argument, value);
}

static void set_seed(const struct option_spec *o, const char *value)
{
    struct seed seed = {.random = strcmp(value, "random") == 0};
    if (seed.random) {
        if (getrandom(&seed.value, sizeof seed.value, 0) != sizeof seed.value)
            die(STATUS_SYSTEM, "cannot draw a random seed:");
    } else if (!parse_unsigned(value, UINT64_MAX, &seed.value)) {
        die(STATUS_USAGE, "--%s: expected a number from 0 to %llu or 'random', found '%s'", o->name,
            (unsigned long long)UINT64_MAX, value);
    }
    if (o->target)
        *(struct seed *)o->target = seed;
}

static void set_option(const struct option_spec *o, const char *value)
{
    switch (o->kind) {
    case OPTION_FLAG:
        if (o->target)
            *(bool *)o->target = true;
        break;
    case OPTION_TEXT:
        if (o->target)
            *(const char **)o->target = value ? value : "";
        break;
    case OPTION_TEXTS:
        if (o->target) {
            struct texts *texts = o->target;
            texts->item = reallocate(texts->item, texts->count + 1, sizeof *texts->item);
            texts->item[texts->count++] = value;
        }
        break;
    case OPTION_INTEGER:
        set_integer(o, value);
        break;
    case OPTION_REAL:
        set_real(o, value);
        break;
    case OPTION_CHOICE:
        set_choice(o, value);
        break;
    case OPTION_SEED:
        set_seed(o, value);
        break;
    }
}

static size_t count_options(const struct option_spec *options)
{
    size_t n = 0;
    while (options[n].name)
        n++;
    return n;
}

static const struct option_spec *by_letter(const struct option_spec *options, int letter)
{
    for (; options->name; options++)
        if (options->letter == letter)
            return options;
    return NULL;
}

/* What getopt_long refused, in one line of ours. */
_Noreturn static void refuse(int found, char **argv)
{
    const char *word = argv[optind - 1];
    if (found == ':')
        die(STATUS_USAGE, "%s: expected an argument, found none (--help lists the options)", word);
    if (optopt > 0 && optopt < OPTION_HELP)
        die(STATUS_USAGE, "unknown option -%c (--help lists the options)", optopt);
    if (optopt)
        die(STATUS_USAGE, "%s: this option takes no argument", word);
    die(STATUS_USAGE, "unknown or ambiguous option %s (--help lists the options)", word);
}

int options_parse(const struct program *program, int argc, char **argv, struct given **given,
                  size_t *n_given)
{
    size_t n = count_options(program->options), n_letters = 0, count = 0;
    struct option *names = allocate(n + 3, sizeof *names);
    char *letters = allocate(3 * n + 4, 1);
    letters[n_letters++] = ':'; /* tell a missing argument from an unknown option */
    letters[n_letters++] = 'h';
    for (size_t i = 0; i < n; i++) {
        const struct option_spec *o = &program->options[i];
        int has = !o->argument          ? no_argument
                  : *o->argument == '[' ? optional_argument
                                        : required_argument;
        names[i] = (struct option){o->name, has, NULL, FIRST_OPTION + (int)i};
        if (o->letter)
            letters[n_letters++] = o->letter;
        for (int colons = 0; o->letter && colons < has; colons++)
            letters[n_letters++] = ':';
    }
    names[n] = (struct option){"help", no_argument, NULL, OPTION_HELP};
    names[n + 1] = (struct option){"version", no_argument, NULL, OPTION_VERSION};
    if (given)
        *given = allocate((size_t)argc + 1, sizeof **given);
    opterr = 0;
    for (int found; (found = getopt_long(argc, argv, letters, names, NULL)) != -1;) {
        if (found == ':' || found == '?')
            refuse(found, argv);
        if (found == OPTION_HELP || found == 'h')
            print_help(program);
        if (found == OPTION_VERSION) {
            printf("%s (unroll) " UNROLL_VERSION "\n", program_name);
            exit(program_end());
        }
        const struct option_spec *o = found >= FIRST_OPTION
                                          ? &program->options[found - FIRST_OPTION]
                                          : by_letter(program->options, found);
        set_option(o, optarg);
        if (given)
            (*given)[count++] = (struct given){o, optarg};
    }
    if (n_given)
        *n_given = count;
    free(names);
    free(letters);
    return optind;
}
