#include "stage/filter.h"

#include <stdlib.h>
#include <string.h>

struct run {
    const struct filter *filter;
    struct record_reader *reader;
    struct record_writer writer;
    float *logits;
    size_t capacity;
    bool has_raw; /* a RAW record came, and not yet the LOGITS that it belongs to */
    uint32_t raw_sequence, raw_position;
};

uint32_t filter_context(const struct sequence *sequence, const struct record *logits)
{
    uint32_t end = logits->position + 1;
    if (end <= sequence->first)
        return 0;
    return end - sequence->first < sequence->n_tokens ? end - sequence->first : sequence->n_tokens;
}

/* Ahead of logits that we change: what they were, unless another filter has told it. */
static void write_raw(struct run *run, const struct record *logits, const uint8_t *payload)
{
    bool told = run->has_raw && run->raw_sequence == logits->sequence &&
                run->raw_position == logits->position;
    struct record raw = {.type = RECORD_RAW,
                         .sequence = logits->sequence,
                         .position = logits->position,
                         .binding = logits->binding};
    run->has_raw = false;
    if (told)
        return;
    if (run->filter->keep_raw)
        raw.count = logits->count;
    record_write(&run->writer, raw, payload, (size_t)raw.count * sizeof(float));
}

static void change_logits(struct run *run, const struct record *record)
{
    const struct filter *filter = run->filter;
    const uint8_t *payload = reader_payload(run->reader, NULL);
    size_t size = (size_t)record->count * sizeof *run->logits;
    run->logits = grow(run->logits, &run->capacity, record->count, sizeof *run->logits);
    memcpy(run->logits, payload, size);
    filter->change(filter->context, run->reader, reader_sequence(run->reader, record->sequence),
                   record, run->logits, record->count);
    write_raw(run, record, payload);
    record_write(&run->writer, *record, run->logits, size);
}

static void pass_on(struct run *run, const struct record *record)
{
    const struct filter *filter = run->filter;
    bool ancillary = record->type >= RECORD_ANCILLARY;
    const uint8_t *payload =
        ancillary ? reader_payload(run->reader, NULL) : reader_used_payload(run->reader);
    if (record->type == RECORD_RAW) {
        run->has_raw = true;
        run->raw_sequence = record->sequence;
        run->raw_position = record->position;
    }
    if (filter->pass)
        filter->pass(filter->context, run->reader,
                     record->type == RECORD_MODEL ? NULL
                                                  : reader_sequence(run->reader, record->sequence),
                     record, payload);
    record_write(&run->writer, *record, payload, (size_t)record->raw_length);
}

void filter_run(const struct filter *filter)
{
    struct output output;
    struct run run = {.filter = filter, .writer = {.output = &output}};
    output_open(&output, filter->output_path, true, filter->force);
    record_writer_report_errors(&run.writer);
    run.reader = reader_open(filter->operands, filter->n_operands);
    for (struct record record; reader_next(run.reader, &record);) {
        if (record.type == RECORD_LOGITS)
            change_logits(&run, &record);
        else if (record.type != RECORD_CACHE)
            pass_on(&run, &record);
    }
    output_close(&output);
    reader_close(run.reader);
    record_writer_free(&run.writer);
    free(run.logits);
}
