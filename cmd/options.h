/* Rows of option tables that several programs share, so that an option has one name, one range and
 * one line of help everywhere.  `target` is where the value goes (NULL: it is only checked),
 * `forward` the stages that `generate` hands it to. */
#ifndef UNROLL_OPTIONS_H
#define UNROLL_OPTIONS_H

#include "base/base.h"

enum stage_bits {
    TO_TOKENIZE = 1,
    TO_PREFILL = 2,
    TO_DECODE = 4,
    TO_SAMPLE = 8,
    TO_DETOK = 16,
    TO_PENALIZE = 32,
    TO_CONSTRAIN = 64,
    TO_BEAM = 128
};

/* clang-format off */
#define ROW_MODEL(target, forward)                                                                           \
    {'m', "model", "FILE", OPTION_TEXT, target, 0, 0, "GGUF model (default: $UNROLL_MODEL, else the small model)", forward}
#define ROW_VERBOSE(target, forward)                                                                         \
    {'v', "verbose", NULL, OPTION_FLAG, target, 0, 0, "say on standard error what is done and how long it takes", forward}
#define ROW_OUTPUT(target) \
    {'o', "output", "FILE", OPTION_TEXT, target, 0, 0, "write to FILE, which appears when it is complete", 0}
#define ROW_FORCE(target) \
    {0, "force", NULL, OPTION_FLAG, target, 0, 0, "write binary records to a terminal too", 0}
#define ROW_COMPRESS(target) \
    {0, "compress", NULL, OPTION_FLAG, target, 0, 0, "deflate payloads, for storage and slow links", 0}

/* Stages that run the model. */
#define ROW_THREADS(target, forward) \
    {'t', "threads", "N", OPTION_INTEGER, target, 1, 1024, "threads (default: the CPUs this process may use)", forward}
#define ROW_CONTEXT(target, forward)                                                                         \
    {'c', "ctx-size", "N", OPTION_INTEGER, target, 1, 16777216, "positions that may be used (default: the model's own)", forward}
#define ROW_BATCH(target, forward) \
    {'b', "batch-size", "N", OPTION_INTEGER, target, 1, 65536, "positions evaluated at once (default 512)", forward}
#define ROW_CACHE_TYPE(target, forward) \
    {0, "cache-type", "f16|f32", OPTION_CHOICE, target, 0, 0, "element type of keys and values (default f16)", forward}
#define ROW_REPACK(target, forward) \
    {0, "repack", "auto|never|only", OPTION_CHOICE, target, 0, 0, "a faster layout of the weights, kept in a file", forward}
#define ROW_REUSE(target, forward) \
    {0, "reuse", "STATE", OPTION_TEXT, target, 0, 0, "take the longest common prefix with the prompt from this state", forward}
#define ROW_SAVE(target, forward) \
    {0, "save", "FILE", OPTION_TEXT, target, 0, 0, "at the end, save the state after the last chosen token", forward}

#define ROW_NO_CACHE(target, forward) \
    {0, "no-cache", NULL, OPTION_FLAG, target, 0, 0, "compute all positions again at every step, to show what the cache saves", forward}

/* Text to tokens. */
#define ROW_PROMPT(target) {'p', "prompt", "TEXT", OPTION_TEXT, target, 0, 0, "the text, as an option", 0}
#define ROW_FILE(target) {'f', "file", "FILE", OPTION_TEXT, target, 0, 0, "the text, from a file", 0}
#define ROW_SPECIAL(target, forward) \
    {0, "special", NULL, OPTION_FLAG, target, 0, 0, "texts of special tokens in the text become these tokens", forward}
#define ROW_BOS(target, forward) \
    {0, "bos", "auto|always|never", OPTION_CHOICE, target, 0, 0, "whether the text begins with BOS (auto: as the model wants)", forward}
#define ROW_LINES(target, forward) \
    {0, "lines", NULL, OPTION_FLAG, target, 0, 0, "each line of the text is a sequence of its own", forward}
#define ROW_PRE(target, forward) \
    {0, "pre", "NAME", OPTION_TEXT, target, 0, 0, "pre-tokeniser, in the place of the one the model names", forward}

#define ROW_CHAT(target, forward) \
    {0, "chat", NULL, OPTION_FLAG, target, 0, 0, "the text is messages in JSON: written as the model's chat template does", forward}
#define ROW_SYSTEM(target, forward) \
    {0, "system", "TEXT", OPTION_TEXT, target, 0, 0, "with --chat and --user: a system prompt before it", forward}
#define ROW_USER(target, forward) \
    {0, "user", "TEXT", OPTION_TEXT, target, 0, 0, "with --chat: one message, in the place of JSON", forward}
#define ROW_TEMPLATE(target, forward) \
    {0, "template", "NAME", OPTION_TEXT, target, 0, 0, "with --chat: chat template, in the place of the model's own", forward}

/* Logits to a token. */
#define ROW_PREDICT(target, forward) \
    {'n', "predict", "N", OPTION_INTEGER, target, 0, 16777216, "select at most N tokens (default: no limit)", forward}
#define ROW_TEMPERATURE(target, forward) \
    {0, "temp", "T", OPTION_REAL, target, 0, 1e6, "temperature; 0, the default, takes the most probable token", forward}
#define ROW_TOP_K(target, forward) \
    {0, "top-k", "K", OPTION_INTEGER, target, -2147483648.0, 16777216, "only the K most probable tokens (0 or less: all)", forward}
#define ROW_TOP_P(target, forward) \
    {0, "top-p", "P", OPTION_REAL, target, 0, 1, "only the most probable tokens that together reach P (1: all)", forward}
#define ROW_MIN_P(target, forward) \
    {0, "min-p", "P", OPTION_REAL, target, 0, 1, "only tokens at least P times as probable as the best (0: all)", forward}
#define ROW_TYPICAL(target, forward) \
    {0, "typical", "P", OPTION_REAL, target, 0, 1, "only the most typical tokens that together reach P (1: all)", forward}
#define ROW_TOP_N_SIGMA(target, forward)                                                                     \
    {0, "top-n-sigma", "N", OPTION_REAL, target, -1, 1e6, "only logits within N standard deviations of the best (0 or less: all)", forward}
#define ROW_XTC_PROBABILITY(target, forward)                                                                 \
    {0, "xtc-probability", "P", OPTION_REAL, target, 0, 1, "how often XTC takes the most probable tokens out (default 0: never)", forward}
#define ROW_XTC_THRESHOLD(target, forward)                                                                   \
    {0, "xtc-threshold", "P", OPTION_REAL, target, 0, 1, "those of at least P, all but the least (default 0.1; above 0.5: off)", forward}
#define ROW_DYNATEMP_RANGE(target, forward)                                                                  \
    {0, "dynatemp-range", "R", OPTION_REAL, target, 0, 1e6, "temperature from T-R to T+R, by the entropy (default 0: fixed)", forward}
#define ROW_DYNATEMP_EXP(target, forward)                                                                    \
    {0, "dynatemp-exp", "E", OPTION_REAL, target, 0, 1e3, "exponent of the entropy in that (default 1)", forward}
#define ROW_ORDER(target, forward)                                                                           \
    {0, "order", "NAMES", OPTION_TEXT, target, 0, 0, "the steps to take, such as top-k,temperature,min-p", forward}
#define ROW_MIROSTAT(target, forward)                                                                        \
    {0, "mirostat", "N", OPTION_TEXT, target, 0, 0, "not there: it would make a choice depend on earlier draws", forward}
#define ROW_LOGPROBS(target, forward)                                                                        \
    {0, "logprobs", "K", OPTION_INTEGER, target, 0, 1048576, "tell log-probabilities of each token and of the K best", forward}
#define ROW_SEED(target, forward) \
    {'s', "seed", "N|random", OPTION_SEED, target, 0, 0, "seed of the draws (default 0)", forward}
#define ROW_CONTINUATIONS(target, forward) \
    {'N', "continuations", "COUNT", OPTION_INTEGER, target, 1, 1000000, "this many continuations of each sequence (1)", forward}
enum { BEAM_WIDTH = 4 }; /* without --beam-width */
#define ROW_BEAM_WIDTH(target, forward) \
    {0, "beam-width", "W", OPTION_INTEGER, target, 1, 4096, "beam search: the most probable W hypotheses go on (beam: 4)", forward}
#define ROW_LENGTH_PENALTY(target, forward) \
    {0, "length-penalty", "A", OPTION_REAL, target, -10, 10, "their score is the sum of log-probabilities / length^A (1)", forward}
#define ROW_EARLY_STOPPING(target, forward)                                                                  \
    {0, "early-stopping", "auto|always|never", OPTION_CHOICE, target, 0, 0, "whether the search ends when W hypotheses have", forward}
#define ROW_STOP(target, forward) \
    {0, "stop", "TEXT", OPTION_TEXTS, target, 0, 0, "end before this text appears (may be given again)", forward}
#define ROW_IGNORE_EOS(target, forward) \
    {0, "ignore-eos", NULL, OPTION_FLAG, target, 0, 0, "never select a token that ends the text", forward}

/* Logits to logits. */
#define ROW_KEEP_RAW(target, forward) \
    {0, "keep-raw", NULL, OPTION_FLAG, target, 0, 0, "send the model's own logits on, too, as RAW records", forward}
#define ROW_REPEAT_PENALTY(target, forward) \
    {0, "repeat-penalty", "R", OPTION_REAL, target, 1e-3, 1e3, "divide logits of tokens that have appeared by R (default 1: off)", forward}
#define ROW_PRESENCE_PENALTY(target, forward) \
    {0, "presence-penalty", "A", OPTION_REAL, target, -1e6, 1e6, "subtract A from logits of tokens that were selected before", forward}
#define ROW_FREQUENCY_PENALTY(target, forward) \
    {0, "frequency-penalty", "A", OPTION_REAL, target, -1e6, 1e6, "subtract A for each time that a token was selected before", forward}
#define ROW_PENALIZE_PROMPT(target, forward) \
    {0, "penalize-prompt", NULL, OPTION_FLAG, target, 0, 0, "presence and frequency count the tokens of the prompt too", forward}
#define ROW_REPEAT_LAST_N(target, forward) \
    {0, "repeat-last-n", "N", OPTION_INTEGER, target, -1, 16777216, "these three look at the last N tokens (default -1: all)", forward}
#define ROW_LAST(target, forward) \
    {0, "last", "N", OPTION_INTEGER, target, -1, 16777216, "the same", forward}
#define ROW_DRY_MULTIPLIER(target, forward) \
    {0, "dry-multiplier", "A", OPTION_REAL, target, 0, 1e6, "DRY: what a repetition that is just too long costs (default 0: off)", forward}
#define ROW_DRY_BASE(target, forward) \
    {0, "dry-base", "B", OPTION_REAL, target, 1, 1e6, "DRY: the cost's factor for each token more (default 1.75)", forward}
#define ROW_DRY_ALLOWED_LENGTH(target, forward) \
    {0, "dry-allowed-length", "N", OPTION_INTEGER, target, 1, 16777216, "DRY: repetitions shorter than N tokens are free (default 2)", forward}
#define ROW_DRY_LAST_N(target, forward) \
    {0, "dry-penalty-last-n", "N", OPTION_INTEGER, target, -1, 16777216, "DRY looks at the last N tokens (default -1: all)", forward}
#define ROW_DRY_BREAKER(target, forward) \
    {0, "dry-sequence-breaker", "TEXT", OPTION_TEXTS, target, 0, 0, "DRY: no repetition goes across TEXT (may be given again; 'none': none)", forward}
#define ROW_BIAS(target, forward) \
    {0, "bias", "TOKEN=VALUE", OPTION_TEXTS, target, 0, 0, "add VALUE to the logit of a token; -inf: never (may be given again)", forward}
#define ROW_LOGIT_BIAS(target, forward) \
    {0, "logit-bias", "ID+VALUE", OPTION_TEXTS, target, 0, 0, "the same, also as ID-VALUE (may be given again)", forward}
#define ROW_BIAS_FILE(target, forward) \
    {0, "bias-file", "FILE", OPTION_TEXTS, target, 0, 0, "biases, one a line (may be given again)", forward}
#define ROW_BAN(target, forward) \
    {0, "ban", "TOKEN", OPTION_TEXTS, target, 0, 0, "never select this token, or these ids: 1,2,3 (may be given again)", forward}
#define ROW_ALLOW(target, forward) \
    {0, "allow", "TOKEN", OPTION_TEXTS, target, 0, 0, "select no other tokens than these (may be given again)", forward}

#define ROW_GRAMMAR(target, forward) \
    {0, "grammar", "GBNF", OPTION_TEXT, target, 0, 0, "only texts of this grammar (without '::=': a file with one)", forward}
#define ROW_GRAMMAR_FILE(target, forward) \
    {0, "grammar-file", "FILE", OPTION_TEXT, target, 0, 0, "the same, from a file", forward}
#define ROW_JSON_SCHEMA(target, forward) \
    {'j', "json-schema", "SCHEMA", OPTION_TEXT, target, 0, 0, "only JSON that this schema allows (not an object: a file with one)", forward}
#define ROW_JSON_SCHEMA_FILE(target, forward) \
    {0, "json-schema-file", "FILE", OPTION_TEXT, target, 0, 0, "the same, from a file", forward}
#define ROW_ANY_JSON(target, forward) \
    {0, "any-json", NULL, OPTION_FLAG, target, 0, 0, "only JSON, whatever value", forward}

/* Tokens to text. */
#define ROW_JSON(target, forward) \
    {0, "json", NULL, OPTION_FLAG, target, 0, 0, "a JSON object in a line for each token, and for the end of each text", forward}
#define ROW_RAW(target, forward) \
    {0, "raw", NULL, OPTION_FLAG, target, 0, 0, "write each token's bytes at once, even half a character", forward}

#define ROW_NULL(target, forward) \
    {'0', "null", NULL, OPTION_FLAG, target, 0, 0, "end each text with a NUL, in the place of newlines between them", forward}
/* clang-format on */

#endif
