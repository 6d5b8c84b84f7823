/* make-model [FAMILY [TYPE [CONTEXT [VOCABULARY [spm]]]]] FILE: a small model with random weights, for the tests. */
#include "../models.h"

#include <string.h>

int main(int argc, char **argv)
{
    program_start(argv);
    if (argc < 2)
        die(STATUS_USAGE, "expected [FAMILY [TYPE [CONTEXT [VOCABULARY [spm]]]]] FILE");
    struct model_plan plan = model_plan(argc > 2 ? argv[1] : "llama", TENSOR_F32);
    int64_t number;
    for (uint32_t type = 0; argc > 3 && type < 64; type++)
        if (tensor_type_facts(type) && strcmp(tensor_type_facts(type)->name, argv[2]) == 0)
            plan.type = type;
    plan.dim = 64, plan.n_heads = 4, plan.n_ffn = 128;
    if (plan.type >= TENSOR_Q2_K && plan.type <= TENSOR_Q6_K)
        plan.dim = plan.n_ffn = 256;
    if (argc > 4 && parse_integer(argv[3], 1, 1 << 24, &number))
        plan.n_context = (uint32_t)number;
    if (argc > 5 && parse_integer(argv[4], 280, 1 << 20, &number))
        plan.n_vocabulary = (uint32_t)number;
    plan.spm = argc > 6;
    model_make(&plan, argv[argc - 1]);
    return program_end();
}
