#include "stage/score.h"

#include "select/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double score_perplexity(double logprob, uint64_t n)
{
    return exact_exp_f64(-logprob / (double)n);
}

double score_bits_per_byte(double logprob, uint64_t n_bytes)
{
    const double log_2 = 0x1.62e42fefa39efp-1;
    return (0 - logprob) / ((double)n_bytes * log_2); /* 0, not -0, of a text that is certain */
}

static struct score_sequence *sequence_of(struct score *score, const struct sequence *sequence)
{
    score->sequence =
        grow(score->sequence, &score->capacity, sequence->index + 1, sizeof *score->sequence);
    while (score->n_sequences <= sequence->index) {
        const struct sequence *new = reader_sequence_at(score->reader, score->n_sequences);
        score->sequence[score->n_sequences++] =
            (struct score_sequence){.id = new->id, .next = new->first, .waiting = -1};
    }
    return &score->sequence[sequence->index];
}

static uint32_t end_of(const struct sequence *sequence)
{
    return sequence->first + sequence->n_tokens;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void tell(struct score *score, struct score_sequence *s, const struct sequence *sequence,
                 uint32_t position, const double *logprob)
{
    struct scored_token token = {
        .sequence = s->id,
        .position = position + s->shift,
        .index = position - sequence->first,
        .id = sequence->tokens[position - sequence->first],
        .known = logprob != NULL,
        .logprob = logprob ? *logprob : 0,
    };
    s->next = position + 1;
    s->resumed = false;
    s->n_tokens++;
    size_t bytes = score->tell(score->context, &token);
    if (logprob) {
        s->n_scored++;
        s->logprob += *logprob;
        s->n_bytes += bytes;
    }
}

/* Tokens that come before `end` and were passed over. */
static void tell_unscored(struct score *score, struct score_sequence *s,
                          const struct sequence *sequence, uint32_t end)
{
    while (s->next < end)
        tell(score, s, sequence, s->next, NULL);
}

/* Logits of a position, and the token after it. */
static void judge(struct score *score, struct score_sequence *s, const struct sequence *sequence,
                  uint32_t position, const float *logits, uint32_t n_logits)
{
    uint32_t next = position + 1, id = sequence->tokens[next - sequence->first];
    if (next < s->next && !s->resumed)
        return; /* the same position once more */
    if (id >= n_logits)
        reader_die(score->reader, STATUS_INPUT,
                   "the token at position %u is %u, but there are %u logits", next, id, n_logits);
    double total = select_log_total(logits, n_logits);
    if (!isfinite(total))
        reader_die(score->reader, STATUS_INPUT, "the logits of position %u are no distribution",
                   position);
    double logprob = (double)logits[id] - total;
    if (s->resumed)
        s->shift +=
            (uint64_t)s->next - next; /* the text goes on; what comes before here was told of */
    else
        tell_unscored(score, s, sequence, next);
    tell(score, s, sequence, next, &logprob);
}

/* ---- records --------------------------------------------------------------------------------- */

static void take_tokens(struct score *score, struct score_sequence *s,
                        const struct sequence *sequence)
{
    if (s->waiting < 0 || (int64_t)end_of(sequence) <= s->waiting + 1 ||
        s->waiting + 1 < (int64_t)sequence->first)
        return;
    judge(score, s, sequence, (uint32_t)s->waiting, s->logits, s->n_logits);
    s->waiting = -1;
}

static void take_logits(struct score *score, struct score_sequence *s,
                        const struct sequence *sequence, const struct record *record)
{
    uint32_t n = record->count, position = record->position;
    const uint8_t *payload = reader_payload(score->reader, NULL);
    if (n != s->n_logits)
        s->logits = reallocate(s->logits, n, sizeof *s->logits);
    s->n_logits = n;
    for (uint32_t i = 0; i < n; i++)
        s->logits[i] = load_f32(payload + 4 * (size_t)i);
    s->waiting = position;
    take_tokens(score, s, sequence);
}

/* A copy begins with what waits at the end of what it is a copy of. */
static void take_fork(struct score *score, struct score_sequence *s,
                      const struct sequence *sequence, const struct record *record)
{
    const struct sequence *source =
        reader_sequence(score->reader, load_u32(reader_used_payload(score->reader)));
    const struct score_sequence *from = &score->sequence[source->index];
    if (source == sequence) {
        s->waiting = -1;
        s->resumed = record->position == sequence->first && s->next > record->position;
        if (!s->resumed && s->next > record->position)
            s->next = record->position;
        return;
    }
    s->next = record->position;
    if (from->waiting != (int64_t)record->position - 1)
        return;
    s->waiting = from->waiting;
    s->n_logits = from->n_logits;
    s->logits = reallocate(s->logits, s->n_logits, sizeof *s->logits);
    memcpy(s->logits, from->logits, s->n_logits * sizeof *s->logits);
}

/* What lost against others does not count, and its id may come again. */
static void take_end(struct score_sequence *s, const struct sequence *sequence)
{
    if (!sequence->dropped)
        return;
    free(s->logits);
    *s = (struct score_sequence){.id = s->id, .waiting = -1};
}

void score_take(struct score *score, const struct record *record)
{
    if (record->type == RECORD_MODEL || record->type >= RECORD_ANCILLARY)
        return;
    const struct sequence *sequence = reader_sequence(score->reader, record->sequence);
    struct score_sequence *s = sequence_of(score, sequence);
    if (record->type == RECORD_TOKENS)
        take_tokens(score, s, sequence);
    else if (record->type == RECORD_LOGITS)
        take_logits(score, s, sequence, record);
    else if (record->type == RECORD_FORK)
        take_fork(score, s, sequence, record);
    else if (record->type == RECORD_END)
        take_end(s, sequence);
}

void score_finish(struct score *score)
{
    for (size_t i = 0; i < score->n_sequences; i++) {
        const struct sequence *sequence = reader_sequence_at(score->reader, i);
        if (!score->sequence[i].resumed)
            tell_unscored(score, &score->sequence[i], sequence, end_of(sequence));
    }
}

void score_free(struct score *score)
{
    for (size_t i = 0; i < score->n_sequences; i++)
        free(score->sequence[i].logits);
    free(score->sequence);
}
