/* Private to lib/select. */
#ifndef UNROLL_SELECT_INTERNAL_H
#define UNROLL_SELECT_INTERNAL_H

#include "base/base.h"

/* weights[i] = exact_exp((float)((logits[i] - greatest) / temperature)), the difference and the
 * quotient in f64; no logit exceeds `greatest`, and none is NaN. */
void select_weights(const float *logits, size_t n, float greatest, double temperature,
                    float *weights);
/* The same without instructions that this machine may lack. */
void select_weights_plain(const float *logits, size_t n, float greatest, double temperature,
                          float *weights);

/* The sum of exact_exp_f64((logit - greatest) / temperature) over n logits, none of which exceeds
 * `greatest` or is NaN, in the order that select_log_total gives. */
double select_exponentials(const float *logits, size_t n, float greatest, double temperature);
/* The same without instructions that this machine may lack. */
double select_exponentials_plain(const float *logits, size_t n, float greatest, double temperature);

/* The f32 nearest to a value, but the greatest finite one where that would be infinite and the
 * value is not. */
float select_round(double value);

#endif
