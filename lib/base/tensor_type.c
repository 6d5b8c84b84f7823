#include "base/base.h"

#include <stddef.h>

/* Numbers, names and block sizes as in ggml (ggml.h, ggml-common.h of
 * https://github.com/ggml-org/ggml). */
static const struct tensor_type_facts table[] = {
    {TENSOR_F32, "F32", 1, 4},         {TENSOR_F16, "F16", 1, 2},
    {TENSOR_Q4_0, "Q4_0", 32, 18},     {TENSOR_Q4_1, "Q4_1", 32, 20},
    {TENSOR_Q5_0, "Q5_0", 32, 22},     {TENSOR_Q5_1, "Q5_1", 32, 24},
    {TENSOR_Q8_0, "Q8_0", 32, 34},     {TENSOR_Q2_K, "Q2_K", 256, 84},
    {TENSOR_Q3_K, "Q3_K", 256, 110},   {TENSOR_Q4_K, "Q4_K", 256, 144},
    {TENSOR_Q5_K, "Q5_K", 256, 176},   {TENSOR_Q6_K, "Q6_K", 256, 210},
    {TENSOR_IQ4_NL, "IQ4_NL", 32, 18}, {TENSOR_IQ4_XS, "IQ4_XS", 256, 136},
    {TENSOR_BF16, "BF16", 1, 2},
};

const struct tensor_type_facts *tensor_type_facts(uint32_t type)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].type == type)
            return &table[i];
    return NULL;
}
