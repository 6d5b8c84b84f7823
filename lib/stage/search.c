#include "stage/search.h"
#include "stage/answer.h"
#include "stage/copies.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* The sequence of a hypothesis that runs. */
struct track {
    uint32_t sequence, stop_state;
    bool placed; /* while sequences are given out: it has one */
};

/* What goes on from one prompt. */
struct search {
    struct beam_search *beam;   /* NULL: it is over */
    struct record token;        /* header of the first token that is selected */
    uint32_t draw_stream;       /* of the prompt's sequence, and so of the others */
    uint32_t stop_state;        /* of the matcher, before that token */
    struct track *track, *next; /* (width) */
    uint32_t n_running, n_offered, length;
    uint32_t *path; /* (length) what the prompt's sequence holds of our tokens */
    size_t path_capacity;
    uint32_t *spare; /* (width) scratch sequences that nobody has */
    uint32_t n_spare;
    enum end_reason at_limit;
};

/* Which search a sequence belongs to, in ascending order of the numbers. */
struct place {
    uint32_t sequence, search;
    uint32_t n_ends; /* that we sent and that have not come back */
};

struct searches {
    struct search_options options;
    struct record_reader *reader;
    struct record_writer *writer;
    struct stop_matcher *matcher; /* NULL: no stop strings */
    struct copies *copies;
    struct search *search;
    size_t n, capacity;
    struct place *place;
    size_t n_places, places_capacity;
    uint32_t scratch; /* the next number to try, downwards */
};

struct searches *searches_new(const struct search_options *options, struct record_reader *reader,
                              struct record_writer *writer)
{
    struct searches *s = allocate(1, sizeof *s);
    *s = (struct searches){
        .options = *options, .reader = reader, .writer = writer, .scratch = UINT32_MAX};
    s->copies = copies_new(reader, writer);
    if (options->stops->count)
        s->matcher = stop_new(options->stops->item, options->stops->count);
    return s;
}

static void search_end(struct search *search)
{
    beam_free(search->beam);
    free(search->track);
    free(search->next);
    free(search->path);
    free(search->spare);
    *search = (struct search){.token = search->token};
}

void searches_free(struct searches *s)
{
    for (size_t i = 0; i < s->n; i++)
        search_end(&s->search[i]);
    stop_free(s->matcher);
    copies_free(s->copies);
    free(s->search);
    free(s->place);
    free(s);
}

/* ---- which sequence is whose --------------------------------------------------------------- */

static size_t place_at(const struct searches *s, uint32_t sequence)
{
    size_t low = 0, high = s->n_places;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->place[middle].sequence < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct place *find_place(const struct searches *s, uint32_t sequence)
{
    size_t at = place_at(s, sequence);
    return at < s->n_places && s->place[at].sequence == sequence ? &s->place[at] : NULL;
}

static void add_place(struct searches *s, uint32_t sequence, size_t search)
{
    size_t at = place_at(s, sequence);
    s->place = grow(s->place, &s->places_capacity, s->n_places + 1, sizeof *s->place);
    memmove(s->place + at + 1, s->place + at, (s->n_places++ - at) * sizeof *s->place);
    s->place[at] = (struct place){.sequence = sequence, .search = (uint32_t)search};
}

/* A scratch sequence that nobody has, of this search where it had one. */
static uint32_t take_spare(struct searches *s, struct search *search)
{
    if (search->n_spare)
        return search->spare[--search->n_spare];
    while (reader_sequence(s->reader, s->scratch) || find_place(s, s->scratch))
        if (s->scratch-- == 0)
            reader_die(s->reader, STATUS_INPUT, "no number is left for a further sequence");
    add_place(s, s->scratch, (size_t)(search - s->search));
    return s->scratch--;
}

/* ---- writing ------------------------------------------------------------------------------- */

static struct record header(const struct search *search, uint8_t type, uint32_t sequence,
                            uint32_t position)
{
    return (struct record){
        .type = type, .sequence = sequence, .position = position, .binding = search->token.binding};
}

/* copies_put, copies_put_after, or NULL: the record is written at once. */
typedef void put_record(struct copies *copies, struct record record, const void *payload,
                        size_t length);

static void write_or_put(struct searches *s, put_record *put, struct record record,
                         const void *payload, size_t length)
{
    if (put)
        put(s->copies, record, payload, length);
    else
        record_write(s->writer, record, payload, length);
}

static void write_fork(struct searches *s, const struct search *search, uint32_t sequence,
                       uint32_t source, uint32_t position)
{
    uint8_t payload[8];
    struct record record = header(search, RECORD_FORK, sequence, position);
    record.flags = RECORD_OPEN;
    record.binding = 0;
    store_u32(payload, source);
    store_u32(payload + 4, search->draw_stream);
    record_write(s->writer, record, payload, sizeof payload);
}

/* Tokens of which the first is our token number `begin`; `put` takes the record in the place of the
 * writer. */
static void write_tokens(struct searches *s, const struct search *search, uint32_t sequence,
                         uint32_t begin, const uint32_t *ids, uint32_t n, uint8_t flags,
                         put_record *put)
{
    uint8_t *payload = allocate(n + (size_t)1, 4);
    struct record record = header(search, RECORD_TOKENS, sequence, search->token.position + begin);
    record.flags = flags;
    record.count = n;
    for (uint32_t i = 0; i < n; i++)
        store_u32(payload + 4 * (size_t)i, ids[i]);
    write_or_put(s, put, record, payload, 4 * (size_t)n);
    free(payload);
}

static void write_end(struct searches *s, const struct search *search, uint32_t sequence,
                      uint32_t length, const struct end *end, put_record *put)
{
    uint8_t payload[RECORD_MAX_SMALL];
    size_t size = end_encode(end, payload);
    struct record record = header(search, RECORD_END, sequence, search->token.position + length);
    write_or_put(s, put, record, payload, size);
}

/* What is known of a hypothesis that is shown, before its END. */
static void write_score(struct searches *s, const struct search *search, uint32_t sequence,
                        const struct beam_hypothesis *h, put_record *put)
{
    uint8_t payload[RECORD_SCORE_BYTES];
    struct record record =
        header(search, RECORD_SCORE, sequence, search->token.position + h->length);
    store_f64(payload, h->score);
    store_f64(payload + 8, h->sum);
    store_u32(payload + 16, h->length);
    write_or_put(s, put, record, payload, sizeof payload);
}

static void drop(struct searches *s, const struct search *search, uint32_t sequence)
{
    const struct end end = {.reason = END_DROPPED, .token = RECORD_NO_TOKEN};
    find_place(s, sequence)->n_ends++;
    write_end(s, search, sequence, search->length, &end, NULL);
}

static uint32_t common_prefix(const uint32_t *a, uint32_t n_a, const uint32_t *b, uint32_t n_b)
{
    uint32_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    return n;
}

/* The prompt's sequence comes to hold these tokens of ours. */
static void bring_to(struct searches *s, struct search *search, const uint32_t *ids, uint32_t n,
                     uint8_t flags)
{
    uint32_t root = search->token.sequence,
             shared = common_prefix(search->path, search->length, ids, n);
    if (shared < search->length)
        write_fork(s, search, root, root, search->token.position + shared);
    write_tokens(s, search, root, shared, ids + shared, n - shared, flags, NULL);
}

static enum stop_outcome feed_stops(const struct searches *s, uint32_t *state, uint32_t id,
                                    struct stop_match *match)
{
    const char *bytes;
    size_t length = vocab_piece(s->options.naming->vocab, id, false, &bytes);
    return stop_feed(s->matcher, state, bytes, length, match);
}

/* ---- a step -------------------------------------------------------------------------------- */

/* Which of the n hypotheses that go on the prompt's sequence takes over, where it goes on from none
 * of ours: the one that it has most in common with. */
static uint32_t nearest(const struct search *search, const struct beam_hypothesis *h, uint32_t n)
{
    uint32_t best = 0, most = 0;
    uint32_t *ids = allocate(h[0].length, sizeof *ids);
    for (uint32_t i = 0; i < n; i++) {
        beam_tokens(search->beam, &h[i], ids);
        uint32_t shared = common_prefix(search->path, search->length, ids, h[i].length);
        if (i == 0 || shared > most) {
            best = i;
            most = shared;
        }
    }
    free(ids);
    return best;
}

/* The first hypothesis that goes on from beam `parent`, but for `except`. */
static uint32_t first_child(const struct beam_hypothesis *h, uint32_t n, uint32_t parent,
                            uint32_t except)
{
    for (uint32_t i = 0; i < n; i++)
        if (h[i].parent == parent && i != except)
            return i;
    return NONE;
}

static uint32_t track_of(const struct search *search, uint32_t sequence)
{
    uint32_t i = 0;
    while (i < search->n_running && search->track[i].sequence != sequence)
        i++;
    return i;
}

/* Gives the hypotheses that go on the sequences of those that they go on from, and drops those that
 * nobody goes on from.  Returns which one the prompt's sequence takes over; NONE: it need not. */
static uint32_t give_sequences(struct searches *s, struct search *search,
                               const struct beam_hypothesis *h, uint32_t n)
{
    uint32_t root = search->token.sequence, taken = NONE;
    if (first_child(h, n, track_of(search, root), NONE) == NONE)
        taken = nearest(search, h, n);
    for (uint32_t i = 0; i < n; i++)
        search->next[i] = (struct track){root, search->track[h[i].parent].stop_state, i == taken};
    for (uint32_t p = 0; p < search->n_running; p++) {
        uint32_t child = first_child(h, n, p, taken), sequence = search->track[p].sequence;
        if (child != NONE) {
            search->next[child].sequence = sequence;
            search->next[child].placed = true;
        } else if (sequence != root) {
            drop(s, search, sequence);
            search->spare[search->n_spare++] = sequence;
        }
    }
    return taken;
}

/* The tokens of the step: first where sequences are cut back or copied, then where they go on. */
static void write_step(struct searches *s, struct search *search, const struct beam_hypothesis *h,
                       uint32_t n, uint32_t taken, uint8_t flags)
{
    uint32_t end = search->token.position + search->length;
    if (taken != NONE) {
        uint32_t *ids = allocate(h[taken].length, sizeof *ids);
        beam_tokens(search->beam, &h[taken], ids);
        bring_to(s, search, ids, h[taken].length, flags);
        free(ids);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct track *track = &search->next[i];
        if (track->placed)
            continue;
        track->sequence = take_spare(s, search);
        write_fork(s, search, track->sequence, search->track[h[i].parent].sequence, end);
        write_tokens(s, search, track->sequence, search->length, &h[i].id, 1, flags, NULL);
    }
    for (uint32_t i = 0; i < n; i++)
        if (i != taken && search->next[i].placed)
            write_tokens(s, search, search->next[i].sequence, search->length, &h[i].id, 1, flags,
                         NULL);
}

/* The hypotheses that go on are those that run. */
static void go_on(struct searches *s, struct search *search, uint8_t flags)
{
    uint32_t n;
    const struct beam_hypothesis *h = beam_running(search->beam, &n);
    uint32_t taken = give_sequences(s, search, h, n);
    write_step(s, search, h, n, taken, flags);
    for (uint32_t i = 0; i < n && s->matcher; i++) {
        struct stop_match match;
        feed_stops(s, &search->next[i].stop_state, h[i].id, &match);
    }
    struct track *track = search->track;
    search->track = search->next;
    search->next = track;
    search->n_running = n;
    search->n_offered = 0;
    search->length++;
    search->path = grow(search->path, &search->path_capacity, search->length, sizeof *search->path);
    beam_tokens(search->beam, &h[track_of(search, search->token.sequence)], search->path);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Why a hypothesis ended. */
static struct end end_of(const struct searches *s, const struct search *search,
                         const struct beam_hypothesis *h, const uint32_t *ids)
{
    const struct model_facts *model = reader_model(s->reader);
    struct end end = {.reason = search->at_limit, .token = RECORD_NO_TOKEN};
    uint32_t state = search->stop_state;
    if (model && model_facts_is_eog(model, h->id))
        return (struct end){.reason = END_EOS, .token = h->id};
    for (uint32_t i = 0; i < h->length && s->matcher; i++) {
        struct stop_match match;
        if (feed_stops(s, &state, ids[i], &match) == STOP_MATCHED) {
            const char *text = s->options.stops->item[match.string];
            end = (struct end){END_STOP, RECORD_NO_TOKEN, (uint32_t)match.trim,
                               (uint32_t)strlen(text), (const uint8_t *)text};
        }
    }
    return end;
}

static void tell(const struct searches *s, const struct search *search, uint32_t rank,
                 const struct beam_hypothesis *h, const struct end *end)
{
    if (s->options.verbose)
        warn("sequence %u: hypothesis %u: score %.6f, sum %.6f, %u tokens, end (%s)",
             search->token.sequence, rank + 1, h->score, h->sum, h->length,
             end_reason_name(end->reason));
}

/* A further hypothesis becomes a copy of the best one, as far as they have the same tokens. */
static void put_copy(struct searches *s, const struct search *search, uint32_t rank,
                     const struct beam_hypothesis *h, const uint32_t *best, uint32_t n_best)
{
    uint32_t *ids = allocate(h->length, sizeof *ids);
    beam_tokens(search->beam, h, ids);
    uint32_t shared = common_prefix(best, n_best, ids, h->length);
    const struct end end = end_of(s, search, h, ids);
    copies_add(s->copies, search->token.sequence, search->token.position + shared,
               search->draw_stream);
    write_tokens(s, search, 0, shared, ids + shared, h->length - shared,
                 RECORD_GENERATED | RECORD_HELD | RECORD_OPEN, copies_put);
    write_score(s, search, 0, h, copies_put);
    write_end(s, search, 0, h->length, &end, copies_put);
    tell(s, search, rank, h, &end);
    free(ids);
}

/* The best hypothesis to the prompt's sequence, the others to copies of it.  Those that still run
 * are dropped before the best one ends: until then who shows texts waits for it. */
static void finish(struct searches *s, struct search *search)
{
    uint32_t n, root = search->token.sequence;
    const struct beam_hypothesis *h = beam_best(search->beam, &n);
    const uint8_t flags = RECORD_GENERATED | RECORD_HELD | RECORD_OPEN;
    if (n == 0)
        reader_die(s->reader, STATUS_INPUT,
                   "no token can be selected for position %u: every logit is -infinity",
                   search->token.position + search->length);
    uint32_t *best = allocate(h[0].length, sizeof *best);
    beam_tokens(search->beam, &h[0], best);
    const struct end end = end_of(s, search, &h[0], best);
    bring_to(s, search, best, h[0].length, flags);
    tell(s, search, 0, &h[0], &end);
    for (uint32_t i = 1; i < n; i++)
        put_copy(s, search, i, &h[i], best, h[0].length);
    put_record *put = n > 1 ? copies_put_after : NULL;
    find_place(s, root)->n_ends++;
    write_score(s, search, root, &h[0], put);
    copies_settle(s->copies);
    for (uint32_t i = 0; i < search->n_running; i++)
        if (search->track[i].sequence != root)
            drop(s, search, search->track[i].sequence);
    write_end(s, search, root, h[0].length, &end, put);
    copies_settle(s->copies);
    free(best);
    search_end(search);
}

/* ---- logits -------------------------------------------------------------------------------- */

struct asking {
    const struct searches *s;
    const struct search *search;
};

static bool ends(void *context, uint32_t beam, uint32_t id)
{
    const struct asking *asking = context;
    const struct searches *s = asking->s;
    const struct model_facts *model = reader_model(s->reader);
    if (model && model_facts_is_eog(model, id))
        return true;
    if (!s->matcher)
        return false;
    struct stop_match match;
    uint32_t state = asking->search->track[beam].stop_state;
    return feed_stops(s, &state, id, &match) == STOP_MATCHED;
}

/* A search that has not one token to choose is over before it begins. */
static void end_at_once(struct searches *s, struct search *search)
{
    const struct end end = {.reason = search->at_limit, .token = RECORD_NO_TOKEN};
    find_place(s, search->token.sequence)->n_ends++;
    write_end(s, search, search->token.sequence, 0, &end, NULL);
    if (s->options.verbose)
        warn("sequence %u: end (%s) before a token", search->token.sequence,
             end_reason_name(end.reason));
}

static struct search *begin(struct searches *s, const struct record *record,
                            const struct sequence *sequence)
{
    const struct search_options *o = &s->options;
    const struct model_facts *model = reader_model(s->reader);
    uint32_t position = record->position + 1,
             context = model ? model->n_context : RECORD_MAX_TOKENS;
    if (!(record->flags & RECORD_OPEN) && o->beam.width > 1)
        reader_die(s->reader, STATUS_INPUT,
                   "the logits of sequence %u are not OPEN: beam search needs the loop "
                   "(decode-step --stream), since a state has no "
                   "place for the scores of its beams",
                   record->sequence);
    naming_check(o->naming, s->reader);
    s->search = grow(s->search, &s->capacity, s->n + 1, sizeof *s->search);
    struct search *search = &s->search[s->n];
    *search = (struct search){
        .token = {.sequence = record->sequence,
                  .position = position,
                  .binding = record->binding ? record->binding
                             : model         ? model->vocabulary_fingerprint
                                             : 0},
        .draw_stream = sequence->draw_stream,
        .at_limit = END_CONTEXT,
    };
    add_place(s, record->sequence, s->n++);
    struct beam_options beam = o->beam;
    beam.limit = position < context ? context - position : 0;
    if (o->limit >= 0 && o->limit <= beam.limit) {
        beam.limit = (uint32_t)o->limit;
        search->at_limit = END_LENGTH;
    }
    if (beam.limit == 0) {
        end_at_once(s, search);
        return search;
    }
    uint32_t read = 0;
    if (s->matcher)
        answer_read_text(s->matcher, o->naming->vocab, sequence, &read, &search->stop_state);
    search->beam = beam_new(&beam);
    search->track = allocate(beam.width, sizeof *search->track);
    search->next = allocate(beam.width, sizeof *search->next);
    search->spare = allocate(beam.width, sizeof *search->spare);
    search->track[0] = (struct track){record->sequence, search->stop_state, true};
    search->n_running = 1;
    /* No token yet, but who sees only our answers knows now what the others are copies of. */
    if (beam.width > 1)
        write_tokens(s, search, record->sequence, 0, NULL, 0,
                     RECORD_GENERATED | RECORD_HELD | (record->flags & RECORD_OPEN), NULL);
    return search;
}

static void answer(struct searches *s, const struct record *record)
{
    const struct sequence *sequence = reader_sequence(s->reader, record->sequence);
    const struct model_facts *model = reader_model(s->reader);
    const struct place *place = find_place(s, record->sequence);
    struct error error;
    if (!answer_is_question(record, sequence))
        return;
    struct search *search = place ? &s->search[place->search] : begin(s, record, sequence);
    uint32_t beam = search->beam ? track_of(search, record->sequence) : 0;
    if (!search->beam || beam == search->n_running)
        return; /* it is over, and the logits are of a pass that its END came too late for */
    bool eog = model && s->options.ignore_eos;
    const struct select_question question = {
        .logits = (const float *)(const void *)reader_payload(s->reader, NULL),
        .n = record->count,
        .n_selectable = model ? model->n_vocabulary : record->count,
        .banned = eog ? model->eog : NULL,
        .n_banned = eog ? model->n_eog : 0,
        .position = record->position + 1,
    };
    if (!beam_offer(search->beam, beam, &question, ends, &(struct asking){s, search}, &error))
        reader_die(s->reader, error.status, "%s", error.text);
    if (++search->n_offered < search->n_running)
        return;
    if (beam_step(search->beam))
        go_on(s, search, RECORD_GENERATED | RECORD_HELD | (record->flags & RECORD_OPEN));
    else
        finish(s, search);
}

/* ---- the stream ---------------------------------------------------------------------------- */

/* END that comes back is ours, or somebody meddles. */
static void take_end(struct searches *s, const struct record *record)
{
    struct place *place = find_place(s, record->sequence);
    if (!place)
        return;
    if (place->n_ends > 0)
        place->n_ends--;
    else if (s->search[place->search].beam)
        reader_die(s->reader, STATUS_INPUT, "sequence %u was ended in the middle of a search",
                   record->sequence);
}

void searches_take(void *context, const struct record *record)
{
    struct searches *s = context;
    bool answers =
        record->type == RECORD_TOKENS || record->type == RECORD_FORK || record->type == RECORD_END;
    if (answers && find_place(s, record->sequence))
        copies_release(s->copies);
    if (record->type == RECORD_END)
        take_end(s, record);
    else if (record->type == RECORD_LOGITS)
        answer(s, record);
}

bool searches_ended(void *context)
{
    const struct searches *s = context;
    for (size_t i = 0; i < s->n; i++)
        if (s->search[i].beam)
            return false;
    for (size_t i = 0; i < reader_n_sequences(s->reader); i++)
        if (!reader_sequence_at(s->reader, i)->ended)
            return false;
    for (size_t i = 0; i < s->n_places; i++)
        if (s->place[i].n_ends > 0)
            return false;
    return s->n > 0 && !copies_outstanding(s->copies);
}

void searches_finish(void *context)
{
    struct searches *s = context;
    copies_write(s->copies);
}
