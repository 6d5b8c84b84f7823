/* show: records and model files in words, for people. */
#ifndef UNROLL_SHOW_H
#define UNROLL_SHOW_H

#include "gguf/gguf.h"
#include "record/record.h"
#include "vocab/vocab.h"

#include <stdio.h>

struct show {
    FILE *out;
    bool everything; /* long lists are not shortened */
    size_t top;      /* how many of the most probable tokens */
    size_t n_records;
    uint64_t n_bytes;
};

/* The record that the reader returned last: its header in words, and what it carries.  The payload
 * is checked, even where it is not shown.  `vocab` gives tokens their texts; NULL: ids alone. */
void show_record(struct show *show, struct record_reader *reader, const struct record *record,
                 const struct vocab *vocab);
/* At the end of a stream: what each sequence holds. */
void show_sequences(struct show *show, struct record_reader *reader);

/* Values, tensors, and totals by type. */
void show_gguf(struct show *show, const struct gguf *gguf);

/* A thread copies the streams that the operands name to standard output, byte for byte, and to what
 * a reader then finds on standard input.  So nothing that the reader thinks of them changes what is
 * passed on: when the program dies, all the rest is copied first. */
struct tee;
struct tee *tee_start(char **operands, int n);
/* After the reader has read everything; NULL does nothing. */
void tee_finish(struct tee *tee);

#endif
