/* Merging neighbours: the pair with the lowest priority first, of equal ones the leftmost.  For SPM
 * the priority is the rank of the joined token's score (Kudo and Richardson 2018, the BPE model of
 * SentencePiece); for byte-level BPE it is the merge's rank (Sennrich et al. 2016). */
#include "vocab/table.h"
#include "vocab/utf8.h"

/* Below this many symbols a scan of an array beats a heap. */
enum { SHORT_WORD = 40 };

static inline uint32_t bpe_priority(const struct merges *merges, const uint8_t *bytes, size_t left,
                                    size_t length)
{
    if (length > merges->longest)
        return VOCAB_NONE;
    uint64_t hash = hash_pair(bytes, left, length), at = hash;
    for (uint32_t i; (i = table_next(&merges->table, hash, &at)) != VOCAB_NONE;) {
        const struct merge *merge = &merges->items[i];
        if (merge->left == left && merge->length == length &&
            memcmp(merges->bytes + merge->start, bytes, length) == 0)
            return i;
    }
    return VOCAB_NONE;
}

/* The priority of joining the first `left` of these bytes with the others; VOCAB_NONE: never. */
static inline uint32_t priority(const struct vocab *vocab, const struct encoder *encoder,
                                const uint8_t *bytes, size_t left, size_t length)
{
    if (!vocab->spm)
        return bpe_priority(&encoder->merges, bytes, left, length);
    uint32_t id = token_find(vocab, encoder, bytes, length);
    return id == VOCAB_NONE ? VOCAB_NONE : encoder->priorities[id];
}

/* Bytes of the symbol that merging starts from; bytes that are not UTF-8 stand alone. */
static inline size_t first_symbol(const struct vocab *vocab, const uint8_t *bytes, size_t length)
{
    size_t size = vocab->spm ? utf8_character(bytes, length) : 1;
    return size ? size : 1;
}

static void keep_length(struct workspace *workspace, uint32_t length)
{
    workspace->lengths = grow(workspace->lengths, &workspace->length_capacity,
                              workspace->n_lengths + 1, sizeof *workspace->lengths);
    workspace->lengths[workspace->n_lengths++] = length;
}

/* ---- short words: an array ----------------------------------------------------------------- */

static void merge_short(const struct vocab *vocab, struct encoder *encoder, const uint8_t *word,
                        uint32_t *ends, size_t n)
{
    uint32_t priorities[SHORT_WORD]; /* of joining symbol i with i + 1 */
    for (size_t i = 0; i + 1 < n; i++) {
        uint32_t start = i ? ends[i - 1] : 0;
        priorities[i] =
            priority(vocab, encoder, word + start, ends[i] - start, ends[i + 1] - start);
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (priorities[i] < priorities[best])
                best = i;
        if (priorities[best] == VOCAB_NONE)
            break;
        n--;
        memmove(ends + best, ends + best + 1, (n - best) * sizeof *ends);
        memmove(priorities + best, priorities + best + 1, (n - best) * sizeof *priorities);
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            uint32_t start = i ? ends[i - 1] : 0;
            priorities[i] =
                priority(vocab, encoder, word + start, ends[i] - start, ends[i + 1] - start);
        }
    }
    for (size_t i = 0; i < n; i++)
        keep_length(&encoder->workspace, ends[i] - (i ? ends[i - 1] : 0));
}

/* ---- long words: a queue ------------------------------------------------------------------- */

/* A priority queue for words like a million equal letters, where most candidates have few different
 * priorities and come in the order of their places.  Such candidates are chained to runs, each in
 * ascending order, and the heap holds only the first of each run; so time is linear there, and like
 * that of a plain heap for anything else.  The run is chosen by the hash of the priority; what does
 * not fit at its end goes to the heap by itself. */
enum { RUNS = 1024 };

static uint32_t *tail_of(struct queue *queue, uint64_t key)
{
    return &queue->tails[(uint32_t)(key >> 32) * 0x9e3779b1u >> 22];
}

static void queue_reset(struct queue *queue)
{
    if (!queue->tails) {
        queue->tails = allocate(RUNS, sizeof *queue->tails);
        memset(queue->tails, 0xff,
               RUNS * sizeof *queue->tails); /* VOCAB_NONE; so it is when empty */
    }
    queue->used = 0;
    queue->vacant = VOCAB_NONE;
}

/* Puts an item in the place `at` or below it, as far as it must sink. */
static void sink(struct queue *queue, size_t at, uint32_t item)
{
    const struct candidate *items = queue->items;
    uint32_t *heap = queue->heap;
    size_t n = queue->n_heap;
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && items[heap[child + 1]].key < items[heap[child]].key)
            child++;
        if (items[item].key <= items[heap[child]].key)
            break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

static void push(struct queue *queue, uint64_t key, uint32_t size)
{
    uint32_t item = queue->vacant;
    if (item == VOCAB_NONE) {
        queue->items = grow(queue->items, &queue->capacity, queue->used + 1, sizeof *queue->items);
        item = (uint32_t)queue->used++;
    } else {
        queue->vacant = queue->items[item].next;
    }
    struct candidate *items = queue->items;
    items[item] = (struct candidate){key, size, VOCAB_NONE};
    uint32_t *tail = tail_of(queue, key);
    if (*tail != VOCAB_NONE && items[*tail].key < key) {
        items[*tail].next = item;
        *tail = item;
        return;
    }
    if (*tail == VOCAB_NONE)
        *tail = item;
    queue->heap = grow(queue->heap, &queue->heap_capacity, queue->n_heap + 1, sizeof *queue->heap);
    uint32_t *heap = queue->heap;
    size_t at = queue->n_heap++;
    for (; at && key < items[heap[(at - 1) / 2]].key; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = item;
}

static struct candidate pop(struct queue *queue)
{
    uint32_t item = queue->heap[0];
    struct candidate first = queue->items[item];
    if (first.next != VOCAB_NONE) {
        sink(queue, 0, first.next);
    } else {
        uint32_t *tail = tail_of(queue, first.key);
        if (*tail == item)
            *tail = VOCAB_NONE;
        if (--queue->n_heap)
            sink(queue, 0, queue->heap[queue->n_heap]);
    }
    queue->items[item].next = queue->vacant;
    queue->vacant = item;
    return first;
}

static void consider(const struct vocab *vocab, struct encoder *encoder, const uint8_t *word,
                     uint32_t end, uint32_t left)
{
    struct workspace *workspace = &encoder->workspace;
    uint32_t right = workspace->symbols[left].next;
    if (right == end)
        return;
    uint32_t size = workspace->symbols[right].next - left;
    uint32_t found = priority(vocab, encoder, word + left, right - left, size);
    if (found != VOCAB_NONE)
        push(&workspace->queue, (uint64_t)found << 32 | left, size);
}

static void merge_long(const struct vocab *vocab, struct encoder *encoder, const uint8_t *word,
                       uint32_t end)
{
    struct workspace *workspace = &encoder->workspace;
    queue_reset(&workspace->queue);
    workspace->symbols = grow(workspace->symbols, &workspace->symbol_capacity, (size_t)end,
                              sizeof *workspace->symbols);
    struct symbol *symbols = workspace->symbols;
    for (uint32_t at = 0, previous = VOCAB_NONE; at < end; previous = at, at = symbols[at].next) {
        uint32_t size = (uint32_t)first_symbol(vocab, word + at, end - at);
        symbols[at] = (struct symbol){at + size, previous};
    }
    for (uint32_t at = 0; at < end; at = symbols[at].next)
        consider(vocab, encoder, word, end, at);

    while (workspace->queue.n_heap) {
        struct candidate best = pop(&workspace->queue);
        uint32_t left = (uint32_t)best.key, right = symbols[left].next;
        /* Outdated when the left one has been merged away, or when one of the two has grown: what
         * they cover together only ever grows. */
        if (right == 0 || right == end || symbols[right].next - left != best.size)
            continue;
        uint32_t next = symbols[left].next = symbols[right].next;
        symbols[right].next = 0;
        if (next != end)
            symbols[next].previous = left;
        if (symbols[left].previous != VOCAB_NONE)
            consider(vocab, encoder, word, end, symbols[left].previous);
        consider(vocab, encoder, word, end, left);
    }
    for (uint32_t at = 0; at < end; at = symbols[at].next)
        keep_length(workspace, symbols[at].next - at);
}

void merge_word(const struct vocab *vocab, struct encoder *encoder, const uint8_t *word,
                size_t length)
{
    uint32_t ends[SHORT_WORD];
    size_t n = 0, at = 0;
    encoder->workspace.n_lengths = 0;
    while (at < length && n < SHORT_WORD) {
        at += first_symbol(vocab, word + at, length - at);
        ends[n++] = (uint32_t)at;
    }
    if (at == length)
        merge_short(vocab, encoder, word, ends, n);
    else
        merge_long(vocab, encoder, word, (uint32_t)length);
}
