/* make-model: a GGUF file with random weights, small for the tests or of a real model's shape for
 * timing. */
#include "../models.h"

#include <stdio.h>
#include <string.h>

static const char *shape;
static const char *family = "llama", *type = "F32";
static int64_t context = 512, vocabulary = 320, dim, layers, seed = 7;
static bool spm, list;

static const struct option_spec options[] = {
    {0, "family", "NAME", OPTION_TEXT, &family, 0, 0,
     "a family or a variant of one (llama); --list shows them", 0},
    {0, "type", "NAME", OPTION_TEXT, &type, 0, 0, "tensor type of the matrices (F32)", 0},
    {0, "shape", "NAME", OPTION_TEXT, &shape, 0, 0,
     "sizes of tinyllama-1.1b, llama-3.2-1b, qwen2.5-0.5b", 0},
    {0, "context", "N", OPTION_INTEGER, &context, 1, 1 << 24, "context (512)", 0},
    {0, "vocabulary", "N", OPTION_INTEGER, &vocabulary, 280, 1 << 20, "tokens (320)", 0},
    {0, "dim", "N", OPTION_INTEGER, &dim, 32, 1 << 14, "dimension (64; 256 for K-quants)", 0},
    {0, "layers", "N", OPTION_INTEGER, &layers, 1, 64, "layers (by family)", 0},
    {0, "seed", "N", OPTION_INTEGER, &seed, 0, 1e9, "seed (7)", 0},
    {0, "list", NULL, OPTION_FLAG, &list, 0, 0, "print the families and variants", 0},
    {0, "spm", NULL, OPTION_FLAG, &spm, 0, 0, "an SPM vocabulary in the place of BPE", 0},
    {0},
};
static const struct program program = {"FILE", "Make a model with random weights.", options};

int main(int argc, char **argv)
{
    program_start(argv);
    int first = options_parse(&program, argc, argv, NULL, NULL);
    for (size_t i = 0; list && model_plan_name(i); i++)
        printf("%s\n", model_plan_name(i));
    if (list)
        return program_end();
    if (argc - first != 1)
        die(STATUS_USAGE, "expected one operand, the file to be made");
    struct model_plan plan = model_plan(family, UINT32_MAX);
    if (!plan.family)
        die(STATUS_USAGE, "--family: '%s' is unknown", family);
    for (uint32_t t = 0; t < 64; t++)
        if (tensor_type_facts(t) && strcmp(tensor_type_facts(t)->name, type) == 0)
            plan.type = t;
    if (plan.type == UINT32_MAX)
        die(STATUS_USAGE, "--type: '%s' is unknown", type);
    uint32_t block = tensor_type_facts(plan.type)->block_items;
    plan.dim = plan.n_ffn = dim ? (uint32_t)dim : block > 64 ? block : 64;
    plan.n_heads = 4;
    plan.n_context = (uint32_t)context;
    plan.n_vocabulary = (uint32_t)vocabulary;
    plan.n_layers = layers ? (uint32_t)layers : plan.n_layers;
    plan.spm = spm;
    plan.seed = (uint64_t)seed;
    if (shape && !model_plan_shape(&plan, shape))
        die(STATUS_USAGE, "--shape: '%s' is unknown", shape);
    model_make(&plan, argv[first]);
    return program_end();
}
