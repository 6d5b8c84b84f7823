/* score: teacher forcing: what a model thought of the tokens that were there, from a stream that
 * has them and the logits of the positions before them. */
#ifndef UNROLL_SCORE_H
#define UNROLL_SCORE_H

#include "record/record.h"

/* A token of a text, in the text's order. */
struct scored_token {
    uint32_t sequence;
    uint64_t position; /* in the text: goes on where a sequence was cut back to nothing (prefill
                          --window) */
    uint32_t index;    /* of the token in the reader's sequence */
    uint32_t id;
    bool known;     /* false: the stream has no logits for it, as for every first token */
    double logprob; /* natural; -infinity: the model excludes it */
};

/* What is known of one sequence. */
struct score_sequence {
    uint32_t id;
    uint64_t shift; /* text position - stream position */
    uint32_t next;  /* stream position of the first token that was not told of */
    bool resumed;   /* cut back to nothing: tokens without logits were told of before */
    float *logits;  /* (n_logits) that wait for the token after `waiting` */
    uint32_t n_logits;
    int64_t waiting; /* -1: none wait */
    uint64_t n_tokens, n_scored, n_bytes;
    double logprob; /* the sum, in the order of the text */
};
/* To be zeroed but for reader, tell and context.  Memory: a row of logits for each sequence, and
 * what the reader keeps of the tokens' ids. */
struct score {
    struct record_reader *reader;
    /* Gives the number of bytes of the token's text. */
    size_t (*tell)(void *context, const struct scored_token *token);
    void *context;
    struct score_sequence *sequence; /* by the reader's index */
    size_t n_sequences, capacity;
};
/* Takes in the record that reader_next returned, and tells of the tokens that are decided by it.
 * Ends the program at logits that are not numbers and at tokens that they have no entry for. */
void score_take(struct score *score, const struct record *record);
/* Tells of what is left: tokens without logits. */
void score_finish(struct score *score);
void score_free(struct score *score);

/* exp(-mean log-probability); of n tokens, n > 0. */
double score_perplexity(double logprob, uint64_t n);
/* Bits for each byte of a text of n bytes, n > 0. */
double score_bits_per_byte(double logprob, uint64_t n_bytes);

#endif
