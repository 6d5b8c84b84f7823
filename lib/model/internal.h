/* Private to lib/model. */
#ifndef UNROLL_MODEL_INTERNAL_H
#define UNROLL_MODEL_INTERNAL_H

#include "model/model.h"

/* Weights are (outputs, inputs), as in the file.  A bias or norm that the family lacks is NULL. */
struct layer {
    const float *attention_norm;                                 /* (dim) */
    struct matrix query, key, value, output;                     /* (heads * head_dim, dim) ..., (dim, heads * head_dim) */
    const float *query_bias, *key_bias, *value_bias;
    const float *query_norm, *key_norm;                          /* (key_dim) */
    const float *ffn_norm;                                       /* (dim) */
    struct matrix gate, up, down;                                /* (ffn, dim), (ffn, dim), (dim, ffn) */
};

/* Tokens on their way through the layers. */
struct rows {
    uint32_t n;
    float *x;                   /* (n, dim) residual stream */
    float *cosine, *sine;       /* (n, rope dim / 2) */
    struct model_row *row;      /* (n) */
    struct attention_row *seen; /* (n) */
};

/* What the layers work in; grows to the largest number of rows seen. */
struct scratch {
    uint32_t capacity;
    struct rows rows; /* of model_evaluate */
    float *h;       /* (rows, dim) normalised input of a block, then its output */
    float *q;       /* (rows, heads, key_dim) */
    float *k;       /* (rows, kv heads, key_dim) */
    float *v;       /* (rows, kv heads, value_dim) */
    float *attended; /* (rows, heads, value_dim) */
    float *gate, *up; /* (rows, ffn) */
};

struct model {
    struct hyperparameters hyper;
    uint32_t fingerprint;
    const struct kernel *kernel;
    struct threads *threads;
    struct matrix embedding; /* (n_logits, dim) */
    const float *output_norm;
    struct matrix output;    /* (n_logits, dim); the embedding where they are tied */
    struct layer *layers;    /* (n_layers) */
    double *rope_frequency;  /* (rope dim / 2) radians a position */
    struct activations *activations;
    struct scratch scratch;
};

/* Reads rope.* settings; the frequencies need the tensors rope_freqs or rope_factors_*, which are
 * given here (NULL: absent; f32, rope dim / 2 entries). */
bool rope_read(struct hyperparameters *hyper, const struct gguf *gguf, struct error *error);
double *rope_frequencies(const struct hyperparameters *hyper, const float *factors);
/* Cosines and sines of one position: (rope dim / 2) each. */
void rope_angles(const struct hyperparameters *hyper, const double *frequency, uint32_t position,
                 float *cosine, float *sine);

/* Frees what a pass works in. */
void scratch_free(struct scratch *scratch);

/* Puts the kept layout in the place of the file's, as `repack` says.  Fails only for MODEL_REPACK_ONLY. */
bool layout_apply(struct model *model, const struct gguf *gguf, enum model_repack repack, struct error *error);

#endif
