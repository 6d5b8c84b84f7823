#include "stage/constraint.h"
#include "stage/filter.h"
#include "text/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 160 /* bytes of the text's end that messages show */

struct following {
    struct grammar_state *state;
    uint32_t n;     /* tokens of the sequence that were followed */
    uint32_t begin; /* of them, where the text begins */
    bool ended;     /* by a token of the EOG set */
};

/* ---- the vocabulary ------------------------------------------------------------------------ */

/* Tokens that stand for text; the others have no piece, and so are never allowed. */
static bool is_text(const struct vocab *vocab, uint32_t id)
{
    enum token_kind kind = vocab_kind(vocab, id);
    return kind == TOKEN_NORMAL || kind == TOKEN_BYTE || kind == TOKEN_USER_DEFINED;
}

static void make_matcher(struct constraint *c, struct record_reader *reader)
{
    const struct vocab *vocab = naming_open(&c->naming, "grammar");
    const struct vocab_facts *facts = vocab_facts_of(vocab);
    const struct model_facts *model = reader_model(reader);
    const char **piece = allocate((size_t)facts->n_tokens + 1, sizeof *piece);
    uint32_t *length = allocate((size_t)facts->n_tokens + 1, sizeof *length);
    struct grammar_vocabulary v = {(const char *const *)piece, length, facts->n_tokens, facts->eog,
                                   facts->n_eog};
    if (model) {
        v.eog = model->eog;
        v.n_eog = model->n_eog;
    }
    for (uint32_t id = 0; id < facts->n_tokens; id++)
        length[id] = is_text(vocab, id) ? (uint32_t)vocab_piece(vocab, id, false, &piece[id]) : 0;
    for (size_t i = 0; i < v.n_eog; i++)
        if (v.eog[i] < facts->n_tokens)
            length[v.eog[i]] = 0; /* it ends the text, whatever it looks like */
    c->matcher = grammar_matcher_new(c->grammar, &v);
    free(piece);
    free(length);
}

static bool ends_text(const struct constraint *c, struct record_reader *reader, uint32_t id)
{
    const struct model_facts *model = reader_model(reader);
    const struct vocab_facts *facts = vocab_facts_of(c->naming.vocab);
    if (model)
        return model_facts_is_eog(model, id);
    for (size_t i = 0; i < facts->n_eog; i++)
        if (facts->eog[i] == id)
            return true;
    return false;
}

/* ---- messages ------------------------------------------------------------------------------ */

/* The end of the text of tokens begin..n, from a whole character on, as peek prints texts. */
static void show_text(const struct constraint *c, const struct sequence *sequence, uint32_t begin,
                      uint32_t n, char shown[4 * SHOWN + 8])
{
    char text[SHOWN] = "";
    size_t length = 0, from = begin < n ? n : begin;
    const char *bytes;
    while (from > begin) {
        size_t more = vocab_piece(c->naming.vocab, sequence->tokens[from - 1], false, &bytes);
        if (length + more > sizeof text)
            break;
        memmove(text + more, text, length);
        memcpy(text, bytes, more);
        length += more;
        from--;
    }
    size_t skip = 0;
    while (from > begin && skip < length && ((uint8_t)text[skip] & 0xc0) == 0x80)
        skip++;
    char *escaped = text_escape(text + skip, length - skip, 0);
    snprintf(shown, 4 * SHOWN + 8, "%s%s", from > begin ? "..." : "", escaped);
    free(escaped);
}

static const char *expected(const struct constraint *c, struct following *f, char text[200])
{
    grammar_expected(f->state, text, 160);
    if (grammar_was_too_deep(c->matcher))
        strcat(text, " (not nested deeper)");
    return text;
}

/* ---- following ----------------------------------------------------------------------------- */

static struct following *following_of(struct constraint *c, const struct sequence *sequence)
{
    c->following = grow(c->following, &c->capacity, sequence->index + 1, sizeof *c->following);
    while (c->n_following <= sequence->index)
        c->following[c->n_following++] = (struct following){.state = grammar_state_new(c->matcher)};
    return &c->following[sequence->index];
}

static void restart(struct following *f, uint32_t n)
{
    grammar_restart(f->state);
    f->begin = f->n = n;
    f->ended = false;
}

_Noreturn static void refuse_token(struct constraint *c, struct record_reader *reader,
                                   const struct sequence *sequence, struct following *f,
                                   size_t taken)
{
    char shown[4 * SHOWN + 8], wanted[200], *piece;
    const char *bytes;
    uint32_t id = sequence->tokens[f->n];
    size_t length = vocab_piece(c->naming.vocab, id, true, &bytes);
    piece = text_escape(bytes, length, 40);
    show_text(c, sequence, f->begin, f->n, shown);
    reader_die(reader, STATUS_CONSTRAINT,
               "sequence %u: token %u \"%s\" at position %u cannot follow \"%s\"%s; expected %s",
               sequence->id, id, piece, sequence->first + f->n, shown,
               f->ended ? ", which has ended"
               : taken  ? ", but for its beginning"
                        : "",
               f->ended ? "nothing" : expected(c, f, wanted));
}

static void follow_token(struct constraint *c, struct record_reader *reader,
                         const struct sequence *sequence, struct following *f)
{
    uint32_t id = sequence->tokens[f->n];
    const char *bytes;
    size_t length =
               is_text(c->naming.vocab, id) ? vocab_piece(c->naming.vocab, id, false, &bytes) : 0,
           taken = 0;
    if (ends_text(c, reader, id) && grammar_may_end(f->state)) {
        f->ended = true;
        return;
    }
    if (length && !f->ended)
        taken = grammar_advance(f->state, bytes, length);
    if (length == 0 || taken < length)
        refuse_token(c, reader, sequence, f, taken);
}

/* After the first n tokens; a given one begins the text anew. */
static struct following *follow(struct constraint *c, struct record_reader *reader,
                                const struct sequence *sequence, uint32_t n)
{
    if (!c->matcher)
        make_matcher(c, reader);
    naming_check(&c->naming, reader);
    struct following *f = following_of(c, sequence);
    if (f->n > n)
        restart(f, 0);
    for (; f->n < n; f->n++) {
        if (sequence->flags[f->n] & RECORD_GENERATED) {
            follow_token(c, reader, sequence, f);
        } else {
            restart(f, f->n);
            f->begin++;
        }
    }
    return f;
}

/* ---- logits -------------------------------------------------------------------------------- */

/* Returns whether anything is left that may be selected. */
static bool apply_mask(const uint64_t *mask, uint32_t n_tokens, float *logits, uint32_t n)
{
    bool any = false;
    for (uint32_t i = 0; i < n; i += 64) {
        uint64_t allowed = i < n_tokens ? mask[i / 64] : 0;
        uint32_t end = n - i < 64 ? n - i : 64;
        for (uint32_t k = 0; k < end; k++) {
            if (!(allowed >> k & 1))
                logits[i + k] = -INFINITY;
            any |= logits[i + k] > -INFINITY || isnan(logits[i + k]);
        }
    }
    return any;
}

/* Once a text has ended, nothing but its end may follow. */
static void only_end(struct constraint *c, struct record_reader *reader, float *logits, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!ends_text(c, reader, i))
            logits[i] = -INFINITY;
}

_Noreturn static void refuse_all(struct constraint *c, struct record_reader *reader,
                                 const struct sequence *sequence, struct following *f, bool masked)
{
    char shown[4 * SHOWN + 8], wanted[200], after[4 * SHOWN + 60];
    uint32_t n = 0;
    show_text(c, sequence, f->begin, f->n, shown);
    snprintf(after, sizeof after, "sequence %u, position %u, after \"%s\"", sequence->id,
             sequence->first + f->n, shown);
    grammar_mask(f->state, &n);
    expected(c, f, wanted);
    if (!masked && n)
        reader_die(reader, STATUS_CONSTRAINT,
                   "%s: all tokens that the grammar allows have the logit -infinity; expected %s",
                   after, wanted);
    if (strcmp(wanted, "the end") == 0)
        reader_die(reader, STATUS_CONSTRAINT,
                   "%s: the text is complete, but the model has no token that ends it", after);
    reader_die(reader, STATUS_CONSTRAINT, "%s: no token may follow; expected %s", after, wanted);
}

void constraint_change(void *constraint, struct record_reader *reader,
                       const struct sequence *sequence, const struct record *record, float *logits,
                       uint32_t n)
{
    struct constraint *c = constraint;
    struct following *f = follow(c, reader, sequence, filter_context(sequence, record));
    if (f->ended) {
        only_end(c, reader, logits, n);
        return;
    }
    uint32_t n_allowed;
    const uint64_t *mask = grammar_mask(f->state, &n_allowed);
    if (n_allowed == 0 || !apply_mask(mask, vocab_facts_of(c->naming.vocab)->n_tokens, logits, n))
        refuse_all(c, reader, sequence, f, n_allowed == 0);
}

/* ---- the end ------------------------------------------------------------------------------- */

static void note_end(struct constraint *c, struct record_reader *reader,
                     const struct sequence *sequence, const struct end *end)
{
    struct following *f = follow(c, reader, sequence, sequence->n_tokens);
    char shown[4 * SHOWN + 8], wanted[200], text[4 * SHOWN + 400];
    if (f->ended || grammar_may_end(f->state) || c->n_incomplete++)
        return;
    show_text(c, sequence, f->begin, f->n, shown);
    snprintf(text, sizeof text,
             "sequence %u ended (%s) before its text was complete: after \"%s\" expected %s",
             sequence->id, end_reason_name(end->reason), shown, expected(c, f, wanted));
    c->incomplete = copy_string(text);
}

void constraint_pass(void *constraint, struct record_reader *reader,
                     const struct sequence *sequence, const struct record *record,
                     const uint8_t *payload)
{
    struct constraint *c = constraint;
    struct error error;
    struct end end;
    if (record->type == RECORD_FORK && sequence->index < c->n_following)
        restart(&c->following[sequence->index], 0);
    if (record->type != RECORD_END ||
        !end_decode(&end, payload, (size_t)record->raw_length, &error))
        return;
    if (end.reason != END_EOS && end.reason != END_DROPPED)
        note_end(c, reader, sequence, &end);
}

enum status constraint_finish(struct constraint *c)
{
    char others[60] = "";
    if (!c->n_incomplete)
        return STATUS_OK;
    if (c->n_incomplete > 1)
        snprintf(others, sizeof others, " (and %zu more did)", c->n_incomplete - 1);
    warn("%s%s", c->incomplete, others);
    return STATUS_CONSTRAINT;
}

void constraint_free(struct constraint *c)
{
    for (size_t i = 0; i < c->n_following; i++)
        grammar_state_free(c->following[i].state);
    free(c->following);
    free(c->incomplete);
    grammar_matcher_free(c->matcher);
    grammar_free(c->grammar);
    naming_close(&c->naming);
}
