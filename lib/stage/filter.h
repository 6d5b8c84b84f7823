/* filter: what every program that changes logits and passes the rest on has in common: `penalize`,
 * `constrain`. */
#ifndef UNROLL_FILTER_H
#define UNROLL_FILTER_H

#include "record/record.h"

/* What the program's options say, and what it does with the logits.
 *
 * change: a LOGITS record has come; `logits` (n) is a copy that it may write to, and goes on in the
 * place of the record's own.  `sequence` holds the tokens up to the record's position, each with
 * its flags.  Called for every LOGITS record, also for those of `prefill --logits all` that nobody
 * will answer: so it must be a function of record and sequence, which may hold more tokens than the
 * distribution is about: filter_context says how many count.
 *
 * pass: any other record that goes on has come (not CACHE, and not what this filter adds itself);
 * it is written after the call, as it is.  `sequence` is NULL for MODEL, and for ancillary records
 * of sequences that have no others.  FORK and END are how a filter learns that what it remembers of
 * a sequence counts no more.  May be NULL.
 *
 * Either ends the program, by reader_die, where the input is wrong: then the reader of our output
 * is told. */
struct filter {
    char **operands;
    int n_operands;
    const char *output_path; /* NULL: standard output */
    bool force;              /* to a terminal too */
    bool keep_raw;           /* send the model's own logits on, too */
    void (*change)(void *context, struct record_reader *reader, const struct sequence *sequence,
                   const struct record *record, float *logits, uint32_t n);
    void (*pass)(void *context, struct record_reader *reader, const struct sequence *sequence,
                 const struct record *record, const uint8_t *payload);
    void *context;
};

/* Reads the streams to their end and writes every record but CACHE, in their order and each as soon
 * as it has come; LOGITS are changed on the way.  Directly before each changed LOGITS stands a RAW
 * record (unroll-stream(5)) with the logits as they came, or, without keep_raw, an empty one that
 * says that they were changed; where another filter has put one there already, that one alone. Ends
 * the program on any error, as all readers and writers do. */
void filter_run(const struct filter *filter);

/* How many of the sequence's tokens, from sequence->tokens[0] on, a LOGITS record is about: those
 * at positions up to its own.  0 where the stream has no tokens. */
uint32_t filter_context(const struct sequence *sequence, const struct record *logits);

#endif
