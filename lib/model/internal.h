/* Private to lib/model. */
#ifndef UNROLL_MODEL_INTERNAL_H
#define UNROLL_MODEL_INTERNAL_H

#include "model/model.h"

/* ---- family.c ------------------------------------------------------------------------------ */

enum rope_kind { ROPE_NONE_BUT_LEARNED, ROPE_ADJACENT, ROPE_HALVES };
enum qk_norm {
    QK_NORM_NONE,
    QK_NORM_HEAD,
    QK_NORM_WHOLE
}; /* over a head, over all heads together */
enum activation { ACTIVATION_SILU, ACTIVATION_GELU };

/* What the metadata of a file do not say. */
struct family {
    const char *name;
    unsigned reads; /* groups of settings in family.c */
    enum rope_kind rope;
    bool rope_switch; /* rope.scaling.finetuned: false turns rotary positions off */
    enum qk_norm qk_norm;
    enum activation activation;
    bool layer_norm;  /* LayerNorm with biases; otherwise RMSNorm */
    bool no_pre_norm; /* attention and feed-forward get the residual stream as it is */
    bool post_norm;   /* their outputs are normalised */
    bool biases;      /* queries, keys and values have biases; all matrices with layer_norm */
    bool ungated;     /* feed-forward without a gate */
    bool fused_gate;  /* gate and up are one tensor */
    bool shared_gate; /* the shared expert has a gate of its own */
    bool needs_experts;
    bool raw_expert_weights; /* not normalised, without a key */
    bool divided_width;      /* without a key the experts used share the width of a dense layer */
    bool embedding_by_root;  /* embeddings are multiplied by sqrt(dim) */
    /* Sliding windows: of each `period` layers all but the last are local; 0: all are.  Without a
     * key `window` positions. */
    uint32_t period, window;
    bool local_unscaled;                    /* rotary positions of local layers are not scaled */
    float local_base;                       /* their base; 0: that of the others */
    float attention_softcap, logit_softcap; /* without a key */
    uint32_t wide_layers; /* with so many layers scores are scaled by 1 / sqrt(dim / heads) */
};

/* The family that the file names, and its settings.  Anything among them that the pass does not
 * implement is an error.  NULL, false on error. */
const struct family *family_find(const struct gguf *gguf, struct error *error);
bool family_read(struct hyperparameters *hyper, const struct family *family,
                 const struct gguf *gguf, const struct model_options *options, struct error *error);
/* Which layers are local: local (n_layers). */
bool family_local_layers(bool *local, const struct hyperparameters *hyper,
                         const struct family *family, const struct gguf *gguf, struct error *error);

/* ---- tensors.c ----------------------------------------------------------------------------- */

/* Weights are (outputs, inputs), as in the file.  What a family lacks is NULL; a matrix then has
 * data NULL. */
struct norm {
    const float *weight, *bias;
};

/* The experts of a layer, (n) each. */
struct experts {
    struct matrix router; /* (n, dim) */
    struct matrix *gate, *up, *down;
    struct matrix shared_gate; /* (1, dim) */
};

struct layer {
    uint32_t window; /* positions that are seen, its own included; 0: all */
    uint32_t rope;   /* index of the rotary settings */
    struct norm attention_norm, attention_post_norm; /* (dim) */
    struct matrix query, key, value,
        output; /* (heads * head_dim, dim) ..., (dim, heads * head_dim) */
    const float *query_bias, *key_bias, *value_bias, *output_bias;
    struct norm query_norm, key_norm;    /* (key_dim), or (heads * key_dim) */
    struct norm ffn_norm, ffn_post_norm; /* (dim) */
    struct matrix gate, up, down;        /* (ffn, dim), (ffn, dim), (dim, ffn) */
    const float *gate_bias, *up_bias, *down_bias;
    struct experts experts; /* in a mixture; the matrices above are then the shared expert's */
};

/* Finds all tensors; a missing one, one of the wrong shape or type, and one that is left over are
 * errors. */
bool find_tensors(struct model *model, const struct gguf *gguf, struct error *error);
void free_tensors(struct model *model);

/* ---- forward.c, experts.c ------------------------------------------------------------------ */

/* Tokens on their way through the layers. */
struct rows {
    uint32_t n;
    float *x;                   /* (n, dim) residual stream */
    float *cosine, *sine;       /* (n, ropes, rope dim / 2) */
    struct model_row *row;      /* (n) */
    struct attention_row *seen; /* (n) */
};

/* What a mixture works in: rows times experts used, grouped by expert. */
struct expert_scratch {
    uint32_t capacity;
    float *logits;                    /* (rows, experts) of the router */
    uint32_t *chosen;                 /* (rows, used): experts, ascending */
    float *weight;                    /* (rows, used) */
    uint32_t *slot;                   /* (rows, used): where among the grouped */
    uint32_t *first;                  /* (experts + 1): first slot of each */
    float *x;                         /* (rows * used, dim): inputs, then outputs */
    float *gate, *up;                 /* (rows * used, ffn) */
    float *shared;                    /* (rows, dim) */
    float *shared_weight;             /* (rows) */
    struct activations **activations; /* (experts) */
    struct activations **x_of;        /* (2 experts), with: */
    struct product *products;         /* (2 experts) */
};

/* What the layers work in; grows to the largest number of rows seen. */
struct scratch {
    uint32_t capacity;
    struct rows rows; /* of model_evaluate */
    float *h;         /* (rows, dim) normalised input of a block, then its output */
    float *q;         /* (rows, heads, key_dim) */
    float *k;         /* (rows, kv heads, key_dim) */
    float *v;         /* (rows, kv heads, value_dim) */
    float *attended;  /* (rows, heads, value_dim) */
    float *gate, *up; /* (rows, ffn) */
    struct expert_scratch experts;
};

struct model {
    struct hyperparameters hyper;
    const struct family *family;
    uint32_t fingerprint;
    const struct kernel *kernel;
    struct threads *threads;
    struct matrix embedding; /* (n_logits, dim) */
    struct matrix positions; /* (model_context, dim), learned */
    struct norm output_norm;
    struct matrix output;      /* (n_logits, dim); the embedding where they are tied */
    struct layer *layers;      /* (n_layers) */
    uint32_t n_ropes;          /* rotary settings: 1, or 2 where local layers have their own */
    double *rope_frequency[2]; /* (rope dim / 2) radians a position */
    struct activations *activations;
    struct scratch scratch;
};

/* Steps that forward.c and experts.c share. */
void multiply(struct model *model, const float *x, uint32_t cols, const struct product *products,
              size_t n, uint32_t rows);
/* gate = act(gate) * up, or up = act(up) without a gate: (rows, width), biases added before; those
 * of the layer, or none. */
void activate(struct model *model, const struct layer *biased, float *gate, float *up,
              uint32_t width, uint32_t rows);
/* y (rows, dim) = W_down act(W_gate x, W_up x), without the last bias. */
void feed_forward_dense(struct model *model, const struct layer *layer, const float *x, float *y,
                        uint32_t rows);
/* y (rows, dim) = the layer's experts over x (rows, dim), which may be y. */
void feed_forward_experts(struct model *model, const struct layer *layer, const float *x, float *y,
                          uint32_t rows);
void experts_reserve(struct model *model, uint32_t rows);
void experts_free(struct model *model);

/* ---- rope.c, layout.c ---------------------------------------------------------------------- */

/* Reads rope.* settings; the frequencies need the tensors rope_freqs or rope_factors_*, which are
 * given here (NULL: absent; f32, rope dim / 2 entries). */
bool rope_read(struct hyperparameters *hyper, const struct family *family, const struct gguf *gguf,
               struct error *error);
double *rope_frequencies(const struct rope_settings *rope, const float *factors);
/* Cosines and sines of one position: (rope dim / 2) each. */
void rope_angles(const struct rope_settings *rope, const double *frequency, uint32_t position,
                 float *cosine, float *sine);

/* Frees what a pass works in. */
void scratch_free(struct scratch *scratch);

/* Puts the kept layout in the place of the file's, as `repack` says.  Fails only for
 * MODEL_REPACK_ONLY. */
bool layout_apply(struct model *model, const struct gguf *gguf, enum model_repack repack,
                  struct error *error);

#endif
