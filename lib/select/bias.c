#include "select/internal.h"
#include "select/select.h"

#include <float.h>
#include <math.h>

float select_round(double value)
{
    if (isinf(value))
        return (float)value;
    return (float)(value > (double)FLT_MAX    ? (double)FLT_MAX
                   : value < -(double)FLT_MAX ? -(double)FLT_MAX
                                              : value);
}

void select_add_biases(const struct select_bias *biases, size_t n_biases, float *logits, uint32_t n)
{
    for (size_t i = 0; i < n_biases; i++)
        if (biases[i].id < n)
            logits[biases[i].id] = select_round((double)logits[biases[i].id] + biases[i].value);
}

void select_allow(const uint32_t *allowed, size_t n_allowed, float *logits, uint32_t n)
{
    size_t next = 0;
    for (uint32_t id = 0; id < n; id++) {
        while (next < n_allowed && allowed[next] < id)
            next++;
        if (next == n_allowed || allowed[next] != id)
            logits[id] = -INFINITY;
    }
}
