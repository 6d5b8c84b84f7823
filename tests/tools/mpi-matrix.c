/* mpi-matrix: the prefill of dist over many numbers of ranks, prompts, models and threads in one
 * launch.
 *
 *     mpirun -n 8 mpi-matrix LIST
 *
 * Each line of LIST is one run: the number of ranks, of threads, of positions in a batch, "last" or
 * "all" logits, "one" where rank 0 writes and "each" where every rank does, the model, the expected
 * output, and the streams that are read.  Prints "same" or "differs" for each, with the line. */
#include "dist/dist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same_files(const char *a, const char *b)
{
    struct mapping x, y;
    struct error error;
    if (!mapping_open(&x, a, &error) || !mapping_open(&y, b, &error))
        die_error(&error);
    bool same = x.size == y.size && (x.size == 0 || memcmp(x.data, y.data, x.size) == 0);
    mapping_close(&x);
    mapping_close(&y);
    return same;
}

static void run(struct dist *all, char *line)
{
    char *word[16], shown[512], *at = line;
    int n = 0;
    snprintf(shown, sizeof shown, "%s", line);
    while (n < 16 && (word[n] = strtok_r(n ? NULL : line, " \n", &at)))
        n++;
    if (n < 8)
        die(STATUS_INPUT, "a line of %d words", n);
    struct dist *part = dist_part(all, atoi(word[0]));
    if (!part)
        return;
    struct prefill_options options = {
        .engine = {.model = word[5], .threads = atoi(word[1]), .batch = atoi(word[2]), .repack = 1},
        .logits = strcmp(word[3], "all") == 0,
        .parallel_write = strcmp(word[4], "each") == 0,
        .output = "matrix.out",
    };
    dist_prefill(part, &options, word + 7, n - 7);
    if (dist_rank(part) == 0)
        printf("%s: %s", same_files("matrix.out", word[6]) ? "same" : "differs", shown);
    dist_part_finish(part);
}

int main(int argc, char **argv)
{
    program_start(argv);
    if (argc != 2)
        die(STATUS_USAGE, "expected one operand, the list of runs");
    struct dist *all = dist_start();
    FILE *list = fopen(argv[1], "r");
    if (!list)
        die(STATUS_SYSTEM, "%s: cannot open:", argv[1]);
    char line[512];
    while (fgets(line, sizeof line, list))
        run(all, line);
    fclose(list);
    dist_finish(all);
    return program_end();
}
