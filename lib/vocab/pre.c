/* Splitting a text into words with the patterns of a pre-tokeniser. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "vocab/internal.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

struct pattern {
    pcre2_code *code;
    bool compiled; /* to machine code */
};
struct pre {
    struct pattern patterns[PRE_MAX_PATTERNS];
    size_t count;
    bool threes;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

struct pre *pre_compile(const struct pre_facts *facts, struct error *error)
{
    struct pre *pre = allocate(1, sizeof *pre);
    pre->threes = facts->flags & PRE_THREES;
    pre->match = pcre2_match_data_create(1, NULL);
    pre->context = pcre2_match_context_create(NULL);
    /* The machine code has a stack of its own, so a long match cannot overflow ours.  The
     * interpreter, the fallback, uses the heap: no limit but memory. */
    pre->stack = pcre2_jit_stack_create(32 << 10, 8 << 20, NULL);
    if (!pre->match || !pre->context || !pre->stack)
        die(STATUS_SYSTEM, "out of memory for PCRE2");
    pcre2_jit_stack_assign(pre->context, NULL, pre->stack);
    pcre2_set_match_limit(pre->context, UINT32_MAX);
    pcre2_set_depth_limit(pre->context, UINT32_MAX);
    pcre2_set_heap_limit(pre->context, UINT32_MAX);
    for (; pre->count < PRE_MAX_PATTERNS && facts->patterns[pre->count]; pre->count++) {
        struct pattern *pattern = &pre->patterns[pre->count];
        int number;
        PCRE2_SIZE offset;
        pattern->code = pcre2_compile(
            (PCRE2_SPTR)facts->patterns[pre->count], PCRE2_ZERO_TERMINATED,
            PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_CAPTURE, &number, &offset, NULL);
        if (!pattern->code) {
            PCRE2_UCHAR reason[128];
            pcre2_get_error_message(number, reason, sizeof reason);
            error_set(error, STATUS_SYSTEM, "pre-tokeniser '%s', pattern %zu, offset %zu: %s",
                      facts->names, pre->count, (size_t)offset, (char *)reason);
            pre_free(pre);
            return NULL;
        }
        pattern->compiled = pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE) == 0;
    }
    return pre;
}

void pre_free(struct pre *pre)
{
    if (!pre)
        return;
    for (size_t i = 0; i < PRE_MAX_PATTERNS; i++)
        pcre2_code_free(pre->patterns[i].code);
    pcre2_match_data_free(pre->match);
    pcre2_match_context_free(pre->context);
    pcre2_jit_stack_free(pre->stack);
    free(pre);
}

/* The next match at or after `from`; its end, 0 when there is none.  The text was checked to be
 * UTF-8, and must not be checked again at every match: that would take quadratic time. */
static bool next_match(struct pre *pre, const struct pattern *pattern, const uint8_t *text,
                       size_t length, size_t from, int *result)
{
    *result = PCRE2_ERROR_JIT_STACKLIMIT;
    if (pattern->compiled)
        *result = pcre2_jit_match(pattern->code, text, length, from, 0, pre->match, pre->context);
    if (*result == PCRE2_ERROR_JIT_STACKLIMIT)
        *result = pcre2_match(pattern->code, text, length, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                              pre->match, pre->context);
    return *result > 0;
}

struct splitter {
    struct pre *pre;
    const uint8_t *text;
    pre_word *word;
    void *context;
    struct error *error;
};

static bool split(const struct splitter *splitter, size_t level, size_t begin, size_t length);

/* Digits, in groups of three characters that are counted from the end, each a piece of its own. */
static bool split_threes(const struct splitter *splitter, size_t begin, size_t length)
{
    const uint8_t *digits = splitter->text + begin;
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += (digits[i] & 0xc0) != 0x80;
    for (size_t at = 0, start = 0; at < length; start = at) {
        size_t group = n % 3 ? n % 3 : 3;
        n -= group;
        for (; group > 0; group--)
            do
                at++;
            while (at < length && (digits[at] & 0xc0) == 0x80);
        if (!split(splitter, 1, begin + start, at - start))
            return false;
    }
    return true;
}

/* Splits one piece with the patterns from `level` on: the matches, and what lies between them. */
static bool split(const struct splitter *splitter, size_t level, size_t begin, size_t length)
{
    struct pre *pre = splitter->pre;
    if (level == pre->count)
        return splitter->word(splitter->context, begin, length);
    const uint8_t *piece = splitter->text + begin;
    size_t done = 0, from = 0;
    int result = 0;
    while (from < length && next_match(pre, &pre->patterns[level], piece, length, from, &result)) {
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(pre->match);
        size_t start = ends[0], end = ends[1];
        if (end == start)
            break; /* no pattern of the table matches nothing */
        if (start > done && !split(splitter, level + 1, begin + done, start - done))
            return false;
        if (pre->threes && level == 0 ? !split_threes(splitter, begin + start, end - start)
                                      : !split(splitter, level + 1, begin + start, end - start))
            return false;
        done = from = end;
    }
    if (result < 0 && result != PCRE2_ERROR_NOMATCH) {
        PCRE2_UCHAR reason[128];
        pcre2_get_error_message(result, reason, sizeof reason);
        return error_set(splitter->error, STATUS_SYSTEM, "cannot split the text into words: %s",
                         (char *)reason);
    }
    return done == length || split(splitter, level + 1, begin + done, length - done);
}

bool pre_split(struct pre *pre, const uint8_t *text, size_t length, pre_word *word, void *context,
               struct error *error)
{
    struct splitter splitter = {pre, text, word, context, error};
    return split(&splitter, 0, 0, length);
}
