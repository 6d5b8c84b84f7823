/* penalize: logits in, logits out: biases, and what may not be selected. */
#include "options.h"
#include "select/select.h"
#include "stage/filter.h"
#include "stage/naming.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct filter filter;
static struct naming naming;
static struct texts biases, more_biases, bias_files, bans, allowances;

static const struct option_spec options[] = {
    ROW_BIAS(&biases, 0),
    ROW_LOGIT_BIAS(&more_biases, 0),
    ROW_BIAS_FILE(&bias_files, 0),
    ROW_BAN(&bans, 0),
    ROW_ALLOW(&allowances, 0),
    ROW_KEEP_RAW(&filter.keep_raw, 0),
    ROW_MODEL(&naming.model, 0),
    ROW_OUTPUT(&filter.output_path),
    ROW_FORCE(&filter.force),
    {0},
};
static const struct program program = {"[STREAM ...]", "Change logits before a token is selected: logits in, logits out.", options};

static struct bias_list list;    /* biases, then bans */
static struct token_list allowed; /* ascending; empty: all */
static uint32_t greatest;        /* id of them all */
static const char *named_by;     /* the option that it comes from */

/* ---- what the options name ----------------------------------------------------------------- */

static void note(const char *option, uint32_t id)
{
    if (!named_by || id > greatest) {
        greatest = id;
        named_by = option;
    }
}

static void read_biases(const char *option, const struct texts *words)
{
    struct error error;
    for (size_t i = 0; i < words->count; i++) {
        if (!naming_bias(&naming, option, words->item[i], strlen(words->item[i]), &list, &error))
            die(error.status, "--%s: %s", option, error.text);
        note(option, list.item[list.count - 1].id);
    }
}

static void read_files(void)
{
    for (size_t i = 0; i < bias_files.count; i++) {
        size_t before = list.count;
        naming_bias_file(&naming, "bias-file", bias_files.item[i], &list);
        for (; before < list.count; before++)
            note("bias-file", list.item[before].id);
    }
}

static void read_list(const char *option, const struct texts *words, struct token_list *ids)
{
    struct error error;
    for (size_t i = 0; i < words->count; i++)
        if (!naming_list(&naming, option, words->item[i], ids, &error))
            die(error.status, "--%s: %s", option, error.text);
    for (size_t i = 0; i < ids->count; i++)
        note(option, ids->ids[i]);
}

static int by_id(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void read_options(void)
{
    struct token_list banned = {0};
    read_biases("bias", &biases);
    read_biases("logit-bias", &more_biases);
    read_files();
    read_list("ban", &bans, &banned);
    read_list("allow", &allowances, &allowed);
    list.item = grow(list.item, &list.capacity, list.count + banned.count, sizeof *list.item);
    for (size_t i = 0; i < banned.count; i++)
        list.item[list.count++] = (struct select_bias){banned.ids[i], -INFINITY};
    if (allowed.count)
        qsort(allowed.ids, allowed.count, sizeof *allowed.ids, by_id);
    free(banned.ids);
}

/* ---- changing ------------------------------------------------------------------------------ */

static void change(void *context, struct record_reader *reader, const struct sequence *sequence,
                   const struct record *record, float *logits, uint32_t n)
{
    (void)context;
    (void)sequence;
    naming_check(&naming, reader, record);
    if (named_by && greatest >= n)
        reader_die(reader, STATUS_INPUT, "--%s names token %u, but there are logits of %u tokens", named_by, greatest, n);
    select_add_biases(list.item, list.count, logits, n);
    if (allowed.count)
        select_allow(allowed.ids, allowed.count, logits, n);
}

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);
    filter.operands = argv + first;
    filter.n_operands = argc - first;
    filter.change = change;
    read_options();
    filter_run(&filter);

    naming_close(&naming);
    free(list.item);
    free(allowed.ids);
    free(biases.item);
    free(more_biases.item);
    free(bias_files.item);
    free(bans.item);
    free(allowances.item);
    return program_end();
}
