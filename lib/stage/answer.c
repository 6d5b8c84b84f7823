#include "stage/answer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

void answer_check_continuations(int64_t n, double temperature)
{
    if (n > 1 && temperature <= 0)
        die(STATUS_USAGE,
            "-N %" PRId64 " needs --temp: at temperature 0 nothing is drawn, and all continuations "
            "would be the same",
            n);
}

void answer_check_best(int64_t n, int64_t width)
{
    if (n > width)
        die(STATUS_USAGE,
            "-N %" PRId64 ": a beam of width %" PRId64 " has no more than %" PRId64 " hypotheses",
            n, width, width);
}

void answer_check_stops(const struct texts *stops)
{
    for (size_t i = 0; i < stops->count; i++)
        if (!*stops->item[i])
            die(STATUS_USAGE, "--stop: expected a text, found an empty one");
}

bool answer_is_question(const struct record *record, const struct sequence *sequence)
{
    if (sequence->n_tokens && record->position + 1 != sequence->first + sequence->n_tokens)
        return false;
    return !(sequence->n_cached && (record->flags & RECORD_OPEN));
}

void answer_read_text(const struct stop_matcher *matcher, const struct vocab *vocab,
                      const struct sequence *sequence, uint32_t *read, uint32_t *state)
{
    struct stop_match match;
    if (*read < sequence->first)
        *read = sequence->first;
    for (; *read < sequence->first + sequence->n_tokens; ++*read) {
        uint32_t at = *read - sequence->first;
        const char *bytes;
        size_t length = vocab_piece(vocab, sequence->tokens[at], false, &bytes);
        if (sequence->flags[at] & RECORD_GENERATED)
            stop_feed(matcher, state, bytes, length, &match);
        else
            *state = 0;
    }
}

/* Its reader sees the end now; we go on reading. */
static void close_output(struct output *output)
{
    bool standard = output->fd == 1;
    output_close(output);
    if (standard && (close(1) || open("/dev/null", O_WRONLY) != 1))
        die(STATUS_SYSTEM, "cannot close standard output:");
}

void answer_loop(const struct answerer *a, struct record_reader *reader, struct output *output)
{
    bool closed = false, asked = false;
    for (struct record record; reader_next(reader, &record);) {
        asked |= record.type == RECORD_LOGITS || record.type == RECORD_END;
        if (closed &&
            record.type == RECORD_LOGITS) { /* of a sequence that has ended: nobody asks */
            if (reader_sequence(reader, record.sequence)->ended)
                continue;
            reader_die(reader, STATUS_INPUT, "sequence %u begins after all others have ended",
                       record.sequence);
        }
        a->take(a->context, &record);
        if (record.type == RECORD_END && !closed && a->ended(a->context)) {
            close_output(output);
            closed = true;
        }
    }
    if (!asked)
        reader_die(reader, STATUS_INPUT, "no logits in the input: there is nothing to choose from");
    a->finish(a->context);
    if (!closed)
        close_output(output);
}
