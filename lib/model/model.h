/* model: hyperparameters and the transformer's forward pass.
 *
 * The families share one pass (forward.c): what differs is data (family.c), but for the mixtures of
 * experts (experts.c).  family.c names the source of each. */
#ifndef UNROLL_MODEL_H
#define UNROLL_MODEL_H

#include "base/base.h"
#include "cache/cache.h"
#include "gguf/gguf.h"
#include "kernel/kernel.h"

struct rope_settings {
    uint32_t scaling;  /* 0 none, 1 linear, 2 yarn, 3 longrope (record.h's enum rope_scaling) */
    uint32_t dim;      /* rotated elements of a head; 0: the family has no rotary positions */
    float base, scale; /* scale: 1/factor */
    uint32_t original_context;
    float attention_factor;     /* multiplies cosines and sines */
    float beta_fast, beta_slow; /* YaRN's bounds, in turns within the original context */
    bool adjacent;              /* pairs (2i, 2i+1); otherwise (i, i + dim/2) */
};

struct expert_settings {
    uint32_t n, n_used; /* experts of a layer, and of them for a token; 0: the layers are dense */
    uint32_t n_ffn;
    bool normalised; /* the weights of the chosen sum up to 1 */
    float scale;     /* of the weights, then */
};

struct hyperparameters {
    const char *family;
    char name[128];
    uint32_t n_layers, dim, n_heads, n_logits, n_context, model_context;
    uint32_t n_ffn; /* of a dense layer; in a mixture of the expert that all tokens share; 0: there
                       is none */
    float norm_epsilon;
    struct rope_settings rope;
    struct rope_settings local_rope; /* of the layers with a window, where has_local_rope */
    bool has_local_rope;
    struct cache_shape cache; /* n_kv_heads, key_dim, value_dim */
    uint32_t window; /* positions that a local layer sees, its own included; 0: no layer is local */
    float attention_scale, attention_softcap;           /* as in kernel.h's struct attention */
    float embedding_scale, residual_scale, logit_scale; /* factors; 1: none */
    float logit_softcap;                                /* 0: none */
    struct expert_settings experts;
};

/* Whether a layout of the weights that the kernels like better is kept in a file (layout.c). */
enum model_repack {
    MODEL_REPACK_AUTO,  /* used where it is there, made where it pays */
    MODEL_REPACK_NEVER, /* the file's own layout */
    MODEL_REPACK_ONLY,  /* an error where it cannot be had */
};

struct model_options {
    uint32_t n_context;       /* 0: the model's own */
    enum tensor_type element; /* of the cache: TENSOR_F16 or TENSOR_F32 */
    int n_threads;
    enum model_repack repack;
};

struct model;
/* Reads hyperparameters and finds every tensor in an open file, which must outlive the model.  An
 * unknown family, a setting that is not implemented, a missing tensor, one of the wrong shape, and
 * one that the forward pass would not use are errors that name them.  NULL on error. */
struct model *model_open(const struct gguf *gguf, const struct model_options *options,
                         struct error *error);
void model_close(struct model *model);
const struct hyperparameters *model_hyperparameters(const struct model *model);
const struct kernel *model_kernel(const struct model *model);
/* CRC-32 over hyperparameters, names, types and shapes of all tensors, and samples of their bytes.
 */
uint32_t model_fingerprint(const struct model *model);
/* Whether the kept layout is in use. */
bool model_repacked(const struct model *model);

/* One token to be evaluated.  Rows of one sequence stand together, in the order of their positions,
 * beginning at its n_positions. */
struct model_row {
    struct cache_sequence *sequence;
    uint32_t position, token;
    bool wants_logits;
};
/* One forward pass over all rows: extends every sequence's cache by its rows and writes the logits
 * of the rows that want them, in order: logits (wanted rows, n_logits).  A value that is not finite
 * is an error that names layer and position, as is a token that the model has no embedding for;
 * then the caches are as before. */
bool model_evaluate(struct model *model, const struct model_row *rows, uint32_t n_rows,
                    float *logits, struct error *error);

/* ---- the pass in steps --------------------------------------------------------------------- */

/* For who drives the layers because some of the keys and values come from elsewhere (lib/dist). All
 * rows are held from the first layer to the last, and are worked on in ranges [begin, begin + n) of
 * any size:
 *
 *     begin; then for each layer: keys of all rows, layer of all rows; then logits
 *
 * where the keys of a range may follow at once on the layer below.  In the last layer rows that
 * want no logits may be left out.  The bits are those of model_evaluate; the caches' n_positions is
 * the caller's business. */
struct model_pass;
/* Embeds the rows, which are copied.  A token that the model has no embedding for is an error:
 * NULL. */
struct model_pass *model_pass_begin(struct model *model, const struct model_row *rows,
                                    uint32_t n_rows, struct error *error);
/* Makes a layer's keys and values of the range, in the pages of their sequences, which must be
 * there. */
void model_pass_keys(struct model_pass *pass, uint32_t layer, uint32_t begin, uint32_t n);
/* Attention and feed-forward of the range.  pages[i]: the layer's keys and then values of positions
 * 64 i to 64 i + 63, as they lie in a page of the cache, aligned to 64 bytes.  A value that is not
 * finite is an error. */
bool model_pass_layer(struct model_pass *pass, uint32_t layer, uint32_t begin, uint32_t n,
                      const uint8_t *const *pages, struct error *error);
/* logits (n, n_logits) of the range */
bool model_pass_logits(struct model_pass *pass, uint32_t begin, uint32_t n, float *logits,
                       struct error *error);
void model_pass_end(struct model_pass *pass);

#endif
