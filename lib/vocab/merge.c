/* Merging neighbours: the pair with the lowest priority first, of equal ones the leftmost.  For SPM the
 * priority is the rank of the joined token's score (Kudo and Richardson 2018, the BPE model of
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
        priorities[i] = priority(vocab, encoder, word + start, ends[i] - start, ends[i + 1] - start);
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

/* ---- long words: a heap -------------------------------------------------------------------- */

static void sift_down(struct candidate *heap, size_t n, size_t at)
{
    struct candidate moving = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1].key < heap[child].key)
            child++;
        if (moving.key <= heap[child].key)
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static void push(struct workspace *workspace, struct candidate candidate)
{
    workspace->heap = grow(workspace->heap, &workspace->heap_capacity, workspace->n_heap + 1,
                           sizeof *workspace->heap);
    struct candidate *heap = workspace->heap;
    size_t at = workspace->n_heap++;
    for (; at && candidate.key < heap[(at - 1) / 2].key; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = candidate;
}

static struct candidate pop(struct workspace *workspace)
{
    struct candidate first = workspace->heap[0];
    workspace->heap[0] = workspace->heap[--workspace->n_heap];
    if (workspace->n_heap > 1)
        sift_down(workspace->heap, workspace->n_heap, 0);
    return first;
}

/* Symbols are named by the place of their first byte, so a symbol's index is its start. */
static void consider(const struct vocab *vocab, struct encoder *encoder, const uint8_t *word,
                     uint32_t end, uint32_t left)
{
    struct workspace *workspace = &encoder->workspace;
    uint32_t right = workspace->symbols[left].next;
    if (right == end)
        return;
    uint32_t size = right - left + workspace->symbols[right].length;
    uint32_t found = priority(vocab, encoder, word + left, right - left, size);
    if (found != VOCAB_NONE)
        push(workspace, (struct candidate){(uint64_t)found << 32 | left, size});
}

static void merge_long(const struct vocab *vocab, struct encoder *encoder, const uint8_t *word,
                       uint32_t end)
{
    struct workspace *workspace = &encoder->workspace;
    workspace->n_heap = 0;
    workspace->symbols = grow(workspace->symbols, &workspace->symbol_capacity, (size_t)end,
                              sizeof *workspace->symbols);
    struct symbol *symbols = workspace->symbols;
    for (uint32_t at = 0, previous = VOCAB_NONE, size; at < end; previous = at, at += size) {
        size = (uint32_t)first_symbol(vocab, word + at, end - at);
        symbols[at] = (struct symbol){size, at + size, previous};
    }
    for (uint32_t at = 0; at < end; at = symbols[at].next)
        consider(vocab, encoder, word, end, at);

    while (workspace->n_heap) {
        struct candidate best = pop(workspace);
        uint32_t left = (uint32_t)best.key, right = symbols[left].next;
        /* Outdated when one side has been merged away or has grown: the sum of the two only grows. */
        if (!symbols[left].length || right == end ||
            symbols[left].length + symbols[right].length != best.size)
            continue;
        symbols[left].length = best.size;
        symbols[left].next = symbols[right].next;
        symbols[right].length = 0;
        if (symbols[left].next != end)
            symbols[symbols[left].next].previous = left;
        if (symbols[left].previous != VOCAB_NONE)
            consider(vocab, encoder, word, end, symbols[left].previous);
        consider(vocab, encoder, word, end, left);
    }
    for (uint32_t at = 0; at < end; at = symbols[at].next)
        keep_length(workspace, symbols[at].length);
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
