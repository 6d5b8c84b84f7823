/* constraint: a grammar, the vocabulary of a stream, and how far the text of each of its sequences
 * has come. */
#ifndef UNROLL_CONSTRAINT_H
#define UNROLL_CONSTRAINT_H

#include "grammar/grammar.h"
#include "record/record.h"
#include "stage/naming.h"

struct following;
struct constraint {
    struct grammar *grammar;
    struct naming naming;            /* the vocabulary whose pieces are followed */
    struct grammar_matcher *matcher; /* made with the first logits, when the EOG set is known */
    struct following *following;     /* by the sequence's index */
    size_t n_following, capacity;
    size_t n_incomplete; /* sequences that ended before their text was complete */
    char *incomplete;    /* what the first of them was like; NULL: none */
};

/* The functions of a struct filter whose context is a struct constraint.
 *
 * Forbidden tokens get -infinity.  The text is that of the generated tokens after the last given
 * one, up to the logits' position; it is read from the stream and nowhere else, so that one process
 * for each token finds what the loop finds. Where no token may follow, or a token is there that the
 * grammar does not allow, the program ends with STATUS_CONSTRAINT and a message that shows the text
 * and what was expected. */
void constraint_change(void *constraint, struct record_reader *reader,
                       const struct sequence *sequence, const struct record *record, float *logits,
                       uint32_t n);
void constraint_pass(void *constraint, struct record_reader *reader,
                     const struct sequence *sequence, const struct record *record,
                     const uint8_t *payload);
/* At the end of the input: says which sequence has ended before its text was complete, in one line,
 * and returns STATUS_CONSTRAINT; or STATUS_OK. */
enum status constraint_finish(struct constraint *constraint);
void constraint_free(struct constraint *constraint);

#endif
