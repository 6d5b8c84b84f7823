/* Small models with random weights and real shapes of blocks, made by the tests themselves. */
#ifndef UNROLL_TESTS_MODELS_H
#define UNROLL_TESTS_MODELS_H

#include "base/base.h"

struct model_plan {
    const char *family; /* general.architecture */
    const struct model_kind *kind;
    uint32_t type; /* of the matrices: enum tensor_type */
    uint32_t dim, n_layers, n_heads, n_kv_heads, n_ffn, n_context, n_vocabulary;
    uint64_t seed;
    float rope_base;
    bool spm; /* an SPM vocabulary; otherwise byte-level BPE */
    bool tied;
};
/* A plan with every size set.  The name is that of a family or of a variant of one (models.c); NULL
 * as the plan's family where it is unknown. */
struct model_plan model_plan(const char *name, uint32_t type);
/* The names in turn, ended by NULL. */
const char *model_plan_name(size_t index);
/* The sizes of a model in use ("tinyllama-1.1b", ...), for timing; the type stays.  False: unknown.
 */
bool model_plan_shape(struct model_plan *plan, const char *name);
/* Writes the model as a GGUF file. */
void model_make(const struct model_plan *plan, const char *path);

#endif
