/* report: what `generate` tells of a run, from the records that pass through it. */
#ifndef UNROLL_REPORT_H
#define UNROLL_REPORT_H

#include "record/record.h"
#include "vocab/vocab.h"

#include <stdio.h>

struct report {
    double begin; /* seconds_now() when the job began */
    struct model_facts facts;
    bool has_facts;
    uint32_t n_seen;     /* tokens that decode-step told, prompts and what was selected */
    uint32_t n_answered; /* of these, what was selected */
    uint32_t n_selected; /* records that told it */
    size_t n_sequences, n_ended[END_REASONS]; /* that had an END, and why */
    double *at;                               /* (n_selected) when each token was chosen */
    size_t capacity;
    FILE *trace;               /* a line per step; NULL: none */
    bool table;                /* tab-separated */
    int trace_errno;           /* of the first line that could not be written */
    const struct vocab *vocab; /* for the texts of the trace */
    /* the distribution that the next token is chosen from */
    bool asked;
    uint32_t position, best, second;
    float *logits;
    double log_sum;
};

/* Sees what decode-step writes: MODEL, TOKENS, LOGITS. */
void report_question(struct report *report, const struct record *record, const uint8_t *payload);
/* Sees what sample answers: TOKENS, END. */
void report_answer(struct report *report, const struct record *record, const uint8_t *payload);
/* The summary, on standard error. */
void report_print(const struct report *report);
void report_free(struct report *report);
/* The header of the trace. */
void report_trace(struct report *report, FILE *file, bool table);

#endif
