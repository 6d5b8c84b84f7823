/* select: from logits to one token: temperature, softmax, the filters, the draw; and stop strings.
 *
 * Everything here is a pure function of its arguments, with the same result on every machine: the
 * exponential is exact_exp, weights are f32, their sums are f64 and taken in the order that is
 * given with each function. */
#ifndef UNROLL_SELECT_H
#define UNROLL_SELECT_H

#include "base/base.h"

/* ---- choosing (select.c) ------------------------------------------------------------------- */

/* The steps of the chain that can be ordered, in their default order.  Softmax is taken anew where
 * a step needs probabilities, and the draw comes last. */
enum select_step {
    SELECT_TEMPERATURE,
    SELECT_TOP_N_SIGMA,
    SELECT_TOP_K,
    SELECT_TYPICAL,
    SELECT_TOP_P,
    SELECT_MIN_P,
    SELECT_XTC,
    SELECT_STEPS,
};
struct select_options {
    double temperature; /* 0: the greatest logit, the lower id of equal ones, and no draw */
    double dynatemp_range, dynatemp_exponent; /* range 0: the temperature is fixed */
    double top_n_sigma;                       /* <= 0: off */
    int64_t top_k;                            /* <= 0, or not less than the candidates: off */
    double typical;                           /* 1: off */
    double top_p;                             /* 1: off */
    double min_p;                             /* 0: off */
    double xtc_probability, xtc_threshold;    /* probability 0, or a threshold above 0.5: off */
    uint64_t seed;
    enum select_step order[SELECT_STEPS];
    size_t n_order; /* steps in `order`; 0: all of them, in their default order */
};

/* Reads names of steps, separated by commas, into the order.  False for a name that is unknown or
 * comes twice. */
bool select_parse_order(const char *names, struct select_options *options, struct error *error);
/* False where an option asks for a step that the order leaves out. */
bool select_check_order(const struct select_options *options, struct error *error);

/* One question: which token follows? */
struct select_question {
    const float *logits; /* (n) */
    uint32_t n;
    uint32_t n_selectable;  /* ids from here on are never selected */
    const uint32_t *banned; /* (n_banned), ascending: never selected either */
    size_t n_banned;
    uint32_t position;    /* of the token that is being chosen */
    uint32_t draw_stream; /* 0 for a sequence that started from a prompt */
};

/* The candidates' memory, kept from one question to the next. */
struct selector;
struct selector *selector_new(const struct select_options *options);
void selector_free(struct selector *selector);

/* Answers: *id is the token.  False where a logit is NaN or +infinity, or where every token that
 * may be selected has -infinity; the error names the position.
 *
 * At a temperature above 0 the steps of the order are taken, as far as they are on; each sees the
 * candidates that the one before left, whose probabilities add up to 1 again:
 *
 *   temperature  logits are divided by it.  Dynamic: by low + (high - low) (H / log n)^exponent, H
 * being the entropy of the n candidates at temperature 1, low = max(0, temperature - range), high =
 * temperature + range, and the result at least 1e-6 (what llama.cpp calls dynatemp) top-n-sigma
 * logits of at least greatest - n sigma stay, sigma being their standard deviation (Tang et al.,
 * "Top-n-sigma: not all logits are you need", arXiv:2411.07641) top-k        the k greatest stay
 * (Fan et al., "Hierarchical neural story generation", arXiv:1805.04833) typical      the smallest
 * set that reaches the probability stays, taken by how near -log p is to the entropy, of equally
 *                near ones (in f32) the lower id first (Meister et al., "Locally typical sampling",
 * arXiv:2202.00666) top-p        the same, taken by their probabilities (Holtzman et al., "The
 * curious case of neural text degeneration", arXiv:1904.09751) min-p        those stay that are at
 * least p times as probable as the best (Nguyen et al., "Turning up the heat", arXiv:2407.01082)
 *   XTC          with its probability, where two or more are at least as probable as the threshold:
 * of these only the least probable stays, of equal ones the lower id (Weidmann,
 * text-generation-webui pull request 6335)
 *
 * The random words of a question are Philox 4x32-10 (key: seed, low word first; counter: position,
 * draw stream, 0, 0).  The draw uses words 1 and 0 as the 53-bit number u = ((word1 * 2^32 + word0)
 * >> 11) / 2^53: the first candidate, in ascending order of ids, at which the sum of the weights
 * passes u times their total.  XTC cuts where word2 / 2^32 is less than its probability.  Word 3 is
 * reserved. */
bool select_choose(struct selector *selector, const struct select_question *question, uint32_t *id,
                   struct error *error);

/* The number u of a question. */
double select_uniform(uint64_t seed, uint32_t draw_stream, uint32_t position);

/* The draw stream of copy k (1, 2, ...) of a sequence that is copied before its token at
 * `position`.  Of a prompt, before anything was selected: k.  Otherwise it is word 0 of Philox
 * 4x32-10 (key: 0, 1; counter: position, draw stream, k, 0) with its highest bit set, so that
 * copies of copies, and of what has copies already, draw apart. */
uint32_t select_copy_stream(bool prompt, uint32_t draw_stream, uint32_t position, uint32_t k);

/* Of the answer that select_choose gave last: the natural logarithm of its probability among the
 * candidates that survived (at temperature 0 there is one), and the ids and log-probabilities of
 * the k most probable of these, in the order of select_top.  ids, values (k); returns how many
 * there are.  A survivor's is (logit - greatest) / temperature less the logarithm of the sum of
 * such exponentials, taken as in select_log_total; at temperature 1 it is that of select_log_total
 * over the survivors. */
size_t select_processed(const struct selector *selector, size_t k, uint32_t *ids, double *values,
                        double *chosen);

/* The chain in words, "temperature 0.8, top-k 40" or "greedy". */
void select_describe(const struct select_options *options, char *text, size_t size);

/* The ids of the k greatest logits (all, where n is less), greatest first, the lower id of equal
 * ones first; NaN counts as greater than anything.  ids (k); returns how many there are. */
size_t select_top(const float *logits, uint32_t n, size_t k, uint32_t *ids);

/* ---- beam search (beam.c) ------------------------------------------------------------------- */

/* Beam search: of all continuations of the running hypotheses by one token the `width` most
 * probable run on; those that end among them are kept.  In the form of Wu et al. ("Google's neural
 * machine translation system", arXiv 1609.08144, section 7, before its refinement) and of the
 * libraries in use, the score of a hypothesis is
 *
 *     sum of the log-probabilities of its tokens / (number of its tokens) ^ length penalty
 *
 * in f64; a token's log-probability is (double)logit - select_log_total over all logits of the
 * record, and sums are taken from the first token on.  Of equal sums the hypothesis that comes from
 * the lower beam goes before, then the one with the greater logit, then that with the lower id.
 * Beams are numbered from the most probable one on. */
enum beam_stopping {
    BEAM_AUTO, /* when `width` have ended and none that runs, as it stands, scores above the last */
    BEAM_ALWAYS, /* when `width` hypotheses have ended; with a width of 1 always so */
    BEAM_NEVER,  /* when none that runs can get among the n_best, however long it may become */
};
struct beam_options {
    uint32_t width;        /* hypotheses that run, and ended ones that are kept */
    uint32_t n_best;       /* hypotheses that are wanted, at most `width` */
    double length_penalty; /* 0: the score is the sum */
    enum beam_stopping stopping;
    uint32_t limit; /* the most tokens of a hypothesis, at least 1: there all that run end */
};
struct beam_hypothesis {
    double sum, score;
    uint32_t length; /* tokens */
    uint32_t parent; /* of one that runs: the beam, before the last step, that it goes on from */
    uint32_t id;     /* its last token */
    bool ended;      /* by its last token; false: it runs, or ran into the limit */
    size_t node;     /* for beam_tokens */
};

struct beam_search;
struct beam_search *beam_new(const struct beam_options *options);
void beam_free(struct beam_search *search);

/* Whether a hypothesis ends when its beam goes on by this token. */
typedef bool beam_ends(void *context, uint32_t beam, uint32_t id);
/* The distribution over the next token of a beam (before the first step there is one, 0): each is
 * given once between two steps.  False where a logit is NaN or +infinity.  Logits of -infinity are
 * never taken. */
bool beam_offer(struct beam_search *search, uint32_t beam, const struct select_question *question,
                beam_ends *ends, void *context, struct error *error);
/* Takes the next step.  False: the search is over. */
bool beam_step(struct beam_search *search);
/* Those that run; valid until the next step. */
const struct beam_hypothesis *beam_running(const struct beam_search *search, uint32_t *n);
/* When it is over: the best, by their scores; of equal ones the one that ended first, in one step
 * by a token.  None where every logit was -infinity before one had ended. */
const struct beam_hypothesis *beam_best(const struct beam_search *search, uint32_t *n);
/* The tokens of a hypothesis (length), from the first that was selected on. */
void beam_tokens(const struct beam_search *search, const struct beam_hypothesis *hypothesis,
                 uint32_t *ids);

/* ---- stop strings (stop.c) ----------------------------------------------------------------- */

/* All stop strings at once, by the automaton of Aho and Corasick ("Efficient string matching: an
 * aid to bibliographic search", CACM 1975).  Bytes, not characters. */
struct stop_matcher;

/* No string may be empty. */
struct stop_matcher *stop_new(const char *const *strings, size_t n);
void stop_free(struct stop_matcher *matcher);

enum stop_outcome {
    STOP_NONE,    /* no stop string has begun */
    STOP_PARTIAL, /* the text ends with the beginning of one */
    STOP_MATCHED,
};
struct stop_match {
    size_t string; /* index of the one that matched */
    size_t trim;   /* bytes from the match's start to the end of the text */
};

/* Reads the text of one more token.  *state is 0 where the text begins, and is brought up to date.
 * Of several matches the one that ends first wins, and of those that end at the same byte the
 * longest; after a match *state is 0 again. */
enum stop_outcome stop_feed(const struct stop_matcher *matcher, uint32_t *state, const void *bytes,
                            size_t length, struct stop_match *match);

/* Whether a string ends in the text of one more token.  *state as above, but it goes on after a
 * match, so that strings may overlap. */
bool stop_ends_in(const struct stop_matcher *matcher, uint32_t *state, const void *bytes,
                  size_t length);

/* ---- log-probabilities (logprob.c) --------------------------------------------------------- */

/* The logarithm of the sum of the exponentials of all logits (n): that of a token's probability
 * under the model is (double)logits[id] - select_log_total(logits, n), with the same bits wherever
 * it is computed.  With the greatest logit g it is g + log(sum of exp(logit - g)), all in f64, by
 * exact_exp_f64 and exact_log; order of the sum: lane l of sixteen sums the i = l (mod 16) in
 * ascending order, then l += l+8, l+4, l+2, l+1.  Logits of -infinity count nothing; -infinity
 * where there are no others; NaN where one is NaN or +infinity. */
double select_log_total(const float *logits, uint32_t n);
/* The k most probable ids under logits, without those of -infinity, and their log-probabilities; of
 * `id` that as well. ids, values (k); returns how many there are. */
size_t select_raw(const float *logits, uint32_t n, uint32_t id, size_t k, uint32_t *ids,
                  double *values, double *chosen);

/* ---- biases (bias.c) ----------------------------------------------------------------------- */

/* A number that is added to the logit of a token; -infinity: the token is never selected. */
struct select_bias {
    uint32_t id;
    double value;
};
/* Adds each of the biases (n_biases) to its logit, in their order: the sum in f64, rounded to f32,
 * which stays finite where the logit and the value were.  All ids are below n. */
void select_add_biases(const struct select_bias *biases, size_t n_biases, float *logits,
                       uint32_t n);
/* Sets the logits of all ids to -infinity but those of `allowed` (n_allowed, ascending). */
void select_allow(const uint32_t *allowed, size_t n_allowed, float *logits, uint32_t n);

/* ---- penalties (penalty.c) ----------------------------------------------------------------- */

/* The text that a distribution goes on: its tokens, and whether each was selected or given. */
struct select_context {
    const uint32_t *tokens; /* (n) */
    const uint8_t *flags;   /* (n) */
    uint8_t generated;      /* the bit of flags that says "selected" */
    uint32_t n;
};

/* For each token that is among the last `last` of the context, once:
 *
 *   repetition  logit / repeat where it is positive, logit * repeat elsewhere (Keskar et al.,
 * "CTRL: a conditional transformer language model for controllable generation", arXiv:1909.05858,
 * section 4.1, which divides in either case; that negative ones are multiplied, so as to be lowered
 * too, is the practice since) presence and frequency logit - (count * frequency + presence), count
 * being how often it was selected within the window (the OpenAI API's "presence_penalty" and
 * "frequency_penalty")
 *
 * in this order, each in f64 and rounded to f32. */
struct select_penalties {
    double repeat;              /* > 0; 1: off */
    double presence, frequency; /* 0: off */
    bool prompt;                /* they count tokens that were given, too */
    int64_t last;               /* < 0: all */
};

/* Counts of tokens, kept from one call to the next. */
struct penalizer;
struct penalizer *penalizer_new(void);
void penalizer_free(struct penalizer *penalizer);

/* Tokens that have no logit (ids >= n) count nothing. */
void select_penalize(struct penalizer *penalizer, const struct select_penalties *penalties,
                     const struct select_context *context, float *logits, uint32_t n);

/* DRY, "don't repeat yourself" (P. E. Weidmann, "DRY: a modern repetition penalty that reliably
 * prevents looping", text-generation-webui pull request 5677): where the end of the context,
 * `length` tokens long and as long as possible, stands earlier in it with a token after it,
 * selecting that token would make the repetition longer, and its logit loses
 *
 *   multiplier * base ^ (length - allowed_length)    where length >= allowed_length
 *
 * (in f64, at most the greatest finite f32).  Of several such places the one with the greatest
 * length counts. */
struct select_dry {
    double multiplier; /* 0: off */
    double base;       /* >= 1 */
    int64_t allowed_length;
    int64_t last; /* only this many tokens at the end are looked at; < 0: all */
};

/* Time and memory are linear in the context: the lengths are those of the Z algorithm (Gusfield,
 * "Algorithms on strings, trees and sequences", 1997, section 1.4), on the context read backwards.
 * No repetition is longer than `clear`, the number of tokens at the end in which no sequence
 * breaker ends; `breaks` says whether a token would end one itself, and so is never penalized
 * (NULL: none does). */
void select_dry(struct penalizer *penalizer, const struct select_dry *dry, const uint32_t *tokens,
                uint32_t n_tokens, uint32_t clear, bool (*breaks)(void *context, uint32_t id),
                void *breaks_context, float *logits, uint32_t n);

#endif
