#include "stage/report.h"
#include "stage/stage.h"
#include "text/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the trace ----------------------------------------------------------------------------- */

void report_trace(struct report *r, FILE *file, bool table)
{
    r->trace = file;
    r->table = table;
    if (table)
        fputs(
            "position\ttoken\ttext\tprobability\trunner_up\trunner_up_text\trunner_up_probability\t"
            "cache_positions\tcache_bytes\tmilliseconds\n",
            file);
    else
        fputs("position  token  text            prob   runner-up        prob  cache: positions     "
              "bytes        ms\n",
              file);
}

/* A token's text with what would upset a line escaped; to be freed. */
static char *shown(const struct report *r, uint32_t id)
{
    const char *bytes = "";
    size_t n = r->vocab ? vocab_piece(r->vocab, id, true, &bytes) : 0;
    return text_escape(bytes, n, 48);
}

static double probability(const struct report *r, uint32_t id)
{
    return exp((double)r->logits[id] - r->log_sum);
}

static void trace_step(struct report *r, uint32_t id, double milliseconds)
{
    uint32_t other = id == r->best ? r->second : r->best;
    char *text = shown(r, id), *second = shown(r, other);
    unsigned long long cached = r->position + 1,
                       bytes = cached * model_facts_position_bytes(&r->facts);
    fprintf(r->trace,
            r->table ? "%u\t%u\t%s\t%.6f\t%u\t%s\t%.6f\t%llu\t%llu\t%.3f\n"
                     : "%8u %6u  %-14s %5.3f  %6u %-10s %5.3f %17llu %9llu %9.3f\n",
            r->position + 1, id, text, probability(r, id), other, second, probability(r, other),
            cached, bytes, milliseconds);
    free(text);
    free(second);
    if (fflush(r->trace) && !r->trace_errno)
        r->trace_errno = errno;
}

/* The two most probable ids, and the logarithm of the sum of exponentials. */
static void read_logits(struct report *r, const struct record *record, const uint8_t *payload)
{
    size_t n = record->count;
    r->logits = reallocate(r->logits, n, sizeof *r->logits);
    memcpy(r->logits, payload, n * sizeof *r->logits);
    r->best = 0;
    for (uint32_t i = 1; i < n; i++)
        r->best = r->logits[i] > r->logits[r->best] ? i : r->best;
    r->second = r->best == 0 && n > 1 ? 1 : 0;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i != r->best && r->logits[i] > r->logits[r->second])
            r->second = i;
        sum += exp((double)r->logits[i] - (double)r->logits[r->best]);
    }
    r->log_sum = (double)r->logits[r->best] + log(sum);
}

/* ---- seeing -------------------------------------------------------------------------------- */

void report_question(struct report *r, const struct record *record, const uint8_t *payload)
{
    struct error error;
    switch (record->type) {
    case RECORD_MODEL:
        r->has_facts = model_facts_decode(&r->facts, payload, (size_t)record->length, &error);
        break;
    case RECORD_TOKENS:
        r->n_seen += record->count;
        break;
    case RECORD_LOGITS:
        r->position = record->position;
        r->asked = true;
        if (r->trace)
            read_logits(r, record, payload);
        break;
    default:
        break;
    }
}

void report_answer(struct report *r, const struct record *record, const uint8_t *payload)
{
    struct end end;
    struct error error;
    if (record->type == RECORD_END && end_decode(&end, payload, (size_t)record->length, &error)) {
        r->n_ended[end.reason]++;
        r->n_sequences += end.reason != END_DROPPED;
    }
    if (record->type != RECORD_TOKENS || record->count == 0)
        return;
    r->n_answered += record->count;
    double now = seconds_now(), before = r->n_selected ? r->at[r->n_selected - 1] : r->begin;
    r->at = grow(r->at, &r->capacity, r->n_selected + (size_t)1, sizeof *r->at);
    r->at[r->n_selected++] = now;
    if (r->trace && r->asked && r->logits)
        trace_step(r, load_u32(payload), 1e3 * (now - before));
    r->asked = false;
}

/* ---- the summary --------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* "eos", or where there are several "eos 3, length 1". */
static void describe_ends(const struct report *r, char *text, size_t size)
{
    size_t at = 0;
    snprintf(text, size, "none");
    for (int reason = 0; reason < END_REASONS && at < size; reason++) {
        if (reason == END_DROPPED || r->n_ended[reason] == 0)
            continue;
        at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "",
                               end_reason_name((enum end_reason)reason));
        if (r->n_sequences > 1 && at < size)
            at += (size_t)snprintf(text + at, size - at, " %zu", r->n_ended[reason]);
    }
}

/* Of one sequence, since where several go through one pass the time between two tokens says
 * nothing. */
static void print_latency(const struct report *r)
{
    uint32_t n = r->n_selected;
    double *gap = allocate(n - 1, sizeof *gap), total = r->at[n - 1] - r->at[0];
    for (uint32_t i = 1; i < n; i++)
        gap[i - 1] = r->at[i] - r->at[i - 1];
    qsort(gap, n - 1, sizeof *gap, compare);
    warn("decode: inter-token latency median %.2f ms, p95 %.2f ms; %.1f tokens/s",
         1e3 * gap[(n - 2) / 2], 1e3 * gap[((n - 1) * 95 + 99) / 100 - 1], (n - 1) / total);
    free(gap);
}

void report_print(const struct report *r)
{
    uint32_t n = r->n_selected;
    bool beams = r->n_ended[END_DROPPED] > 0, several = beams || r->n_sequences > 1;
    char ends[160], sequences[40] = "";
    describe_ends(r, ends, sizeof ends);
    if (r->n_sequences > 1)
        snprintf(sequences, sizeof sequences, "%zu sequences: ", r->n_sequences);
    warn("%s%u prompt tokens, %u selected%s, finish reason: %s", sequences,
         r->n_seen - r->n_answered, r->n_answered, beams ? " by all beams" : "", ends);
    if (n > 0)
        warn("time to first token %.1f ms", 1e3 * (r->at[0] - r->begin));
    if (n > 1 && several)
        warn("decode: %.1f tokens/s in all sequences", (n - 1) / (r->at[n - 1] - r->at[0]));
    else if (n > 1)
        print_latency(r);
    if (r->has_facts && !several) {
        unsigned long long positions = r->position + 1ull;
        warn("cache: %llu positions, %llu bytes", positions,
             positions * model_facts_position_bytes(&r->facts));
    }
}

void report_free(struct report *r)
{
    free(r->at);
    free(r->logits);
}
