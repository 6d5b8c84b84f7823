#include "models.h"

#include "gguf/gguf.h"
#include "kernel/quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a family, or a variant, has.  Numbers are small, so that windows, caps and factors matter
 * early. */
enum {
    BIASES = 1, /* of queries, keys, values */
    QK_NORM_HEAD = 2,
    QK_NORM_WHOLE = 4,
    POST_NORMS = 8,
    NO_PRE_NORMS = 16,
    LAYER_NORM = 32, /* with biases everywhere, without a gate, with learned positions: gpt2 */
    FUSED_QKV = 64,
    FUSED_GATE = 128,
    WIDE_HEADS = 256, /* heads of twice dim / heads */
    PARTIAL = 512,    /* three quarters of a head are rotated */
    SCALES = 1024,
    SOFTCAPS = 2048,
    EXPERTS = 4096,
    SHARED = 8192,
    SHARED_GATE = 16384,
    ROPE_FREQS = 32768,
    LONGROPE = 65536,
    LINEAR = 131072,
    YARN = 262144,
    PATTERN = 524288, /* of windows, written layer by layer: three local, one not */
    NOPE = 1048576,
    TIED = 2097152,
    SPLIT = 4194304, /* a tensor for each expert */
};
static const struct model_kind {
    const char *name, *family;
    unsigned has;
    uint32_t n_layers, window;
} kinds[] = {
    {"llama", "llama", 0, 2, 0},
    {"mistral", "llama", 0, 2, 40},
    {"llama3", "llama", ROPE_FREQS, 2, 0},
    {"mixtral", "llama", EXPERTS, 2, 0},
    {"mixtral-split", "llama", EXPERTS | SPLIT, 2, 0},
    {"qwen2", "qwen2", BIASES, 2, 0},
    {"qwen2-yarn", "qwen2", BIASES | YARN, 2, 0},
    {"qwen3", "qwen3", QK_NORM_HEAD, 2, 0},
    {"gpt2", "gpt2", LAYER_NORM | FUSED_QKV, 2, 0},
    {"gemma", "gemma", TIED | WIDE_HEADS, 2, 0},
    {"gemma2", "gemma2", TIED | WIDE_HEADS | POST_NORMS | SOFTCAPS, 3, 40},
    {"gemma3", "gemma3", TIED | WIDE_HEADS | POST_NORMS | QK_NORM_HEAD | LINEAR, 7, 40},
    {"phi3", "phi3", FUSED_QKV | FUSED_GATE | PARTIAL, 2, 40},
    {"phi3-long", "phi3", FUSED_QKV | FUSED_GATE | LONGROPE, 2, 0},
    {"olmo2", "olmo2", QK_NORM_WHOLE | POST_NORMS | NO_PRE_NORMS, 2, 0},
    {"olmo3", "olmo2", QK_NORM_WHOLE | POST_NORMS | NO_PRE_NORMS | YARN | PATTERN, 5, 40},
    {"granite", "granite", SCALES, 2, 0},
    {"granite-nope", "granite", SCALES | NOPE, 2, 0},
    {"granitemoe", "granitemoe", SCALES | EXPERTS | SHARED, 2, 0},
    {"qwen2moe", "qwen2moe", BIASES | EXPERTS | SHARED | SHARED_GATE, 2, 0},
    {"qwen3moe", "qwen3moe", QK_NORM_HEAD | EXPERTS, 2, 0},
};
#define N_KINDS (sizeof kinds / sizeof *kinds)
enum { N_EXPERTS = 6, N_EXPERTS_USED = 2 };

const char *model_plan_name(size_t index)
{
    return index < N_KINDS ? kinds[index].name : NULL;
}

struct model_plan model_plan(const char *name, uint32_t type)
{
    struct model_plan plan = {.type = type,
                              .dim = 256,
                              .n_heads = 8,
                              .n_kv_heads = 2,
                              .n_ffn = 512,
                              .n_context = 512,
                              .n_vocabulary = 320,
                              .seed = 7,
                              .rope_base = 1e4f};
    for (size_t i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            plan.kind = &kinds[i];
            plan.family = kinds[i].family;
            plan.n_layers = kinds[i].n_layers;
            plan.tied = kinds[i].has & TIED;
        }
    return plan;
}

bool model_plan_shape(struct model_plan *p, const char *name)
{
    static const struct {
        const char *name;
        struct model_plan plan;
    } shapes[] = {
        {"tinyllama-1.1b",
         {.family = "llama",
          .dim = 2048,
          .n_layers = 22,
          .n_heads = 32,
          .n_kv_heads = 4,
          .n_ffn = 5632,
          .n_context = 2048,
          .n_vocabulary = 32000,
          .spm = true,
          .rope_base = 1e4f}},
        {"llama-3.2-1b",
         {.family = "llama",
          .dim = 2048,
          .n_layers = 16,
          .n_heads = 32,
          .n_kv_heads = 8,
          .n_ffn = 8192,
          .n_context = 8192,
          .n_vocabulary = 128256,
          .tied = true,
          .rope_base = 5e5f}},
        {"qwen2.5-0.5b",
         {.family = "qwen2",
          .dim = 896,
          .n_layers = 24,
          .n_heads = 14,
          .n_kv_heads = 2,
          .n_ffn = 4864,
          .n_context = 32768,
          .n_vocabulary = 151936,
          .tied = true,
          .rope_base = 1e6f}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(name, shapes[i].name) == 0) {
            uint32_t type = p->type;
            *p = shapes[i].plan;
            p->kind = model_plan(p->family, type).kind;
            p->type = type;
            p->seed = 7;
            return true;
        }
    return false;
}

/* About normal: the sum of four uniforms. */
static float random_weight(uint64_t seed, uint32_t tensor, uint32_t index)
{
    uint32_t out[4];
    philox4x32((uint32_t[]){(uint32_t)seed, (uint32_t)(seed >> 32)},
               (uint32_t[]){index, tensor, 0, 0}, out);
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)out[i] * 0x1p-32f - 0.5f;
    return sum * 1.732f;
}

/* ---- vocabularies -------------------------------------------------------------------------- */

/* The code point by which GPT-2's vocabulary spells a byte, as UTF-8. */
static size_t spell_byte(unsigned byte, char *text)
{
    unsigned code = byte, next = 256;
    for (unsigned b = 0; b <= byte; b++) {
        bool plain = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
        if (b == byte)
            code = plain ? byte : next;
        next += !plain;
    }
    if (code < 0x80) {
        text[0] = (char)code;
        return 1;
    }
    text[0] = (char)(0xc0 | code >> 6);
    text[1] = (char)(0x80 | (code & 63));
    return 2;
}

struct words {
    char (*text)[32];
    struct gguf_string *item;
    float *score;
    int32_t *kind;
    uint32_t n;
};

static struct words *words_new(uint32_t n)
{
    struct words *w = allocate(1, sizeof *w);
    w->text = allocate(n, sizeof *w->text);
    w->item = allocate(n, sizeof *w->item);
    w->score = allocate(n, sizeof *w->score);
    w->kind = allocate(n, sizeof *w->kind);
    return w;
}

static void words_free(struct words *w)
{
    free(w->text);
    free(w->item);
    free(w->score);
    free(w->kind);
    free(w);
}

static void word(struct words *w, const char *text, size_t length, int32_t kind)
{
    memcpy(w->text[w->n], text, length);
    w->item[w->n] = (struct gguf_string){w->text[w->n], length};
    w->score[w->n] = -(float)w->n;
    w->kind[w->n++] = kind;
}

static void write_spm(struct gguf_writer *g, uint32_t n)
{
    static const char *const pieces[] = {
        "\xe2\x96\x81",    "e",  "t", "a", "o", "n", "th", "\xe2\x96\x81th", "the",
        "\xe2\x96\x81the", "an", "on"};
    struct words *w = words_new(n);
    word(w, "<unk>", 5, 2);
    word(w, "<s>", 3, 3);
    word(w, "</s>", 4, 3);
    for (int b = 0; b < 256; b++) {
        char text[8];
        word(w, text, (size_t)snprintf(text, sizeof text, "<0x%02X>", b), 6);
    }
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        word(w, pieces[i], strlen(pieces[i]), 1);
    while (w->n < n) {
        char text[16];
        word(w, text, (size_t)snprintf(text, sizeof text, "w%u", w->n), 1);
    }
    gguf_write_text(g, "tokenizer.ggml.model", "llama", 5);
    gguf_write_strings(g, "tokenizer.ggml.tokens", w->item, n);
    gguf_write_array(g, "tokenizer.ggml.scores", GGUF_F32, w->score, n);
    gguf_write_array(g, "tokenizer.ggml.token_type", GGUF_I32, w->kind, n);
    gguf_write_u32(g, "tokenizer.ggml.bos_token_id", 1);
    gguf_write_u32(g, "tokenizer.ggml.eos_token_id", 2);
    words_free(w);
}

static void write_bpe(struct gguf_writer *g, uint32_t n)
{
    static const char *const merges[] = {"t h", "th e", "\xc4\xa0 the", "a n", "o n"};
    static const char *const merged[] = {"th", "the", "\xc4\xa0the", "an", "on"};
    struct words *w = words_new(n);
    struct gguf_string lines[5];
    for (unsigned b = 0; b < 256; b++) {
        char text[4];
        word(w, text, spell_byte(b, text), 1);
    }
    for (size_t i = 0; i < 5; i++) {
        word(w, merged[i], strlen(merged[i]), 1);
        lines[i] = (struct gguf_string){merges[i], strlen(merges[i])};
    }
    word(w, "<|endoftext|>", 13, 3);
    while (w->n < n) {
        char text[16];
        word(w, text, (size_t)snprintf(text, sizeof text, "w%u", w->n), 1);
    }
    gguf_write_text(g, "tokenizer.ggml.model", "gpt2", 4);
    gguf_write_text(g, "tokenizer.ggml.pre", "gpt-2", 5);
    gguf_write_strings(g, "tokenizer.ggml.tokens", w->item, n);
    gguf_write_array(g, "tokenizer.ggml.token_type", GGUF_I32, w->kind, n);
    gguf_write_strings(g, "tokenizer.ggml.merges", lines, 5);
    gguf_write_u32(g, "tokenizer.ggml.eos_token_id", 261);
    gguf_write_bool(g, "tokenizer.ggml.add_bos_token", false);
    words_free(w);
}

/* ---- tensors ------------------------------------------------------------------------------- */

struct plan_tensor {
    char name[48];
    uint64_t count, rows, cols; /* count 0: no third dimension; rows 0: a vector */
    float scale; /* 0: a norm, around 1; above 2: factors of frequencies, from 1 up to it */
};

struct plan_tensors {
    struct plan_tensor *item;
    size_t n;
};

static void tensor(struct plan_tensors *list, uint64_t count, uint64_t rows, uint64_t cols,
                   float scale, const char *format, uint32_t layer)
{
    struct plan_tensor *t = &list->item[list->n++];
    *t = (struct plan_tensor){.count = count, .rows = rows, .cols = cols, .scale = scale};
    snprintf(t->name, sizeof t->name, format, layer);
}

static uint32_t head_of(const struct model_plan *p)
{
    return p->dim / p->n_heads * (p->kind->has & WIDE_HEADS ? 2 : 1);
}

static uint32_t rope_of(const struct model_plan *p)
{
    return p->kind->has & PARTIAL ? head_of(p) / 8 * 6 : head_of(p);
}

static void plan_attention(const struct model_plan *p, struct plan_tensors *t, uint32_t i)
{
    unsigned has = p->kind->has;
    uint64_t d = p->dim, q = (uint64_t)p->n_heads * head_of(p);
    uint64_t kv = (has & LAYER_NORM ? p->n_heads : p->n_kv_heads) * (uint64_t)head_of(p);
    float s = 1 / sqrtf((float)d);
    bool whole = has & QK_NORM_WHOLE;
    if (!(has & NO_PRE_NORMS))
        tensor(t, 0, 0, d, 0, "blk.%u.attn_norm.weight", i);
    if (has & FUSED_QKV) {
        tensor(t, 0, q + 2 * kv, d, s, "blk.%u.attn_qkv.weight", i);
    } else {
        tensor(t, 0, q, d, s, "blk.%u.attn_q.weight", i);
        tensor(t, 0, kv, d, s, "blk.%u.attn_k.weight", i);
        tensor(t, 0, kv, d, s, "blk.%u.attn_v.weight", i);
    }
    tensor(t, 0, d, q, 1 / sqrtf((float)q), "blk.%u.attn_output.weight", i);
    if (has & BIASES) {
        tensor(t, 0, 0, q, 0.1f, "blk.%u.attn_q.bias", i);
        tensor(t, 0, 0, kv, 0.1f, "blk.%u.attn_k.bias", i);
        tensor(t, 0, 0, kv, 0.1f, "blk.%u.attn_v.bias", i);
    }
    if (has & LAYER_NORM) {
        tensor(t, 0, 0, d, 0.1f, "blk.%u.attn_norm.bias", i);
        tensor(t, 0, 0, q + 2 * kv, 0.1f, "blk.%u.attn_qkv.bias", i);
        tensor(t, 0, 0, d, 0.1f, "blk.%u.attn_output.bias", i);
    }
    if (has & (QK_NORM_HEAD | QK_NORM_WHOLE)) {
        tensor(t, 0, 0, whole ? q : head_of(p), 0, "blk.%u.attn_q_norm.weight", i);
        tensor(t, 0, 0, whole ? kv : head_of(p), 0, "blk.%u.attn_k_norm.weight", i);
    }
    if (has & POST_NORMS)
        tensor(t, 0, 0, d, 0, "blk.%u.post_attention_norm.weight", i);
}

static void plan_feed_forward(const struct model_plan *p, struct plan_tensors *t, uint32_t i)
{
    unsigned has = p->kind->has;
    uint64_t d = p->dim, f = p->n_ffn;
    float s = 1 / sqrtf((float)d), down = 1 / sqrtf((float)f);
    if (!(has & NO_PRE_NORMS))
        tensor(t, 0, 0, d, 0, "blk.%u.ffn_norm.weight", i);
    if (has & EXPERTS)
        tensor(t, 0, N_EXPERTS, d, s, "blk.%u.ffn_gate_inp.weight", i);
    if (has & SPLIT) {
        for (uint32_t e = 0; e < N_EXPERTS; e++) {
            char name[3][48];
            for (int k = 0; k < 3; k++)
                snprintf(name[k], sizeof name[k], "blk.%%u.ffn_%s.%u.weight",
                         (const char *[]){"gate", "up", "down"}[k], e);
            tensor(t, 0, f, d, s, name[0], i);
            tensor(t, 0, f, d, s, name[1], i);
            tensor(t, 0, d, f, down, name[2], i);
        }
    } else if (has & EXPERTS) {
        tensor(t, N_EXPERTS, f, d, s, "blk.%u.ffn_gate_exps.weight", i);
        tensor(t, N_EXPERTS, f, d, s, "blk.%u.ffn_up_exps.weight", i);
        tensor(t, N_EXPERTS, d, f, down, "blk.%u.ffn_down_exps.weight", i);
    } else {
        if (!(has & (LAYER_NORM | FUSED_GATE)))
            tensor(t, 0, f, d, s, "blk.%u.ffn_gate.weight", i);
        tensor(t, 0, has & FUSED_GATE ? 2 * f : f, d, s, "blk.%u.ffn_up.weight", i);
        tensor(t, 0, d, f, down, "blk.%u.ffn_down.weight", i);
    }
    if (has & SHARED) {
        tensor(t, 0, f, d, s, "blk.%u.ffn_gate_shexp.weight", i);
        tensor(t, 0, f, d, s, "blk.%u.ffn_up_shexp.weight", i);
        tensor(t, 0, d, f, down, "blk.%u.ffn_down_shexp.weight", i);
    }
    if (has & SHARED_GATE)
        tensor(t, 0, 0, d, s, "blk.%u.ffn_gate_inp_shexp.weight", i);
    if (has & LAYER_NORM) {
        tensor(t, 0, 0, d, 0.1f, "blk.%u.ffn_norm.bias", i);
        tensor(t, 0, 0, f, 0.1f, "blk.%u.ffn_up.bias", i);
        tensor(t, 0, 0, d, 0.1f, "blk.%u.ffn_down.bias", i);
    }
    if (has & POST_NORMS)
        tensor(t, 0, 0, d, 0, "blk.%u.post_ffw_norm.weight", i);
}

static struct plan_tensors plan_tensors(const struct model_plan *p)
{
    struct plan_tensors t = {allocate(32 * (p->n_layers + (size_t)1), sizeof *t.item), 0};
    unsigned has = p->kind->has;
    uint64_t d = p->dim;
    float s = 1 / sqrtf((float)d);
    tensor(&t, 0, p->n_vocabulary, d, p->tied ? s : 1, "token_embd.weight", 0);
    if (has & LAYER_NORM) {
        tensor(&t, 0, p->n_context, d, 0.5f, "position_embd.weight", 0);
        tensor(&t, 0, 0, d, 0.1f, "output_norm.bias", 0);
    }
    if (has & ROPE_FREQS)
        tensor(&t, 0, 0, rope_of(p) / 2, 8, "rope_freqs.weight", 0);
    if (has & LONGROPE) {
        tensor(&t, 0, 0, rope_of(p) / 2, 40, "rope_factors_long.weight", 0);
        tensor(&t, 0, 0, rope_of(p) / 2, 3, "rope_factors_short.weight", 0);
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        plan_attention(p, &t, i);
        plan_feed_forward(p, &t, i);
    }
    tensor(&t, 0, 0, d, 0, "output_norm.weight", 0);
    if (!p->tied)
        tensor(&t, 0, p->n_vocabulary, d, s, "output.weight", 0);
    return t;
}

/* Routers stay F32, as in the files of the field. */
static uint32_t type_of(const struct model_plan *p, const struct plan_tensor *t)
{
    return t->rows && !strstr(t->name, "ffn_gate_inp.") ? p->type : TENSOR_F32;
}

static void write_tensor(struct gguf_writer *g, struct output *out, const struct model_plan *p,
                         const struct plan_tensor *t, uint32_t index)
{
    size_t rows = (t->count ? t->count : 1) * (t->rows ? t->rows : 1), n = rows * t->cols;
    float *values = allocate(n, sizeof *values);
    for (size_t i = 0; i < n; i++) {
        float w = random_weight(p->seed, index, (uint32_t)i);
        values[i] = t->scale > 2    ? 1 + (t->scale - 1) * (float)i / (float)n
                    : t->scale != 0 ? w * t->scale
                                    : 1 + 0.05f * w;
    }
    const struct tensor_type_facts *type = tensor_type_facts(type_of(p, t));
    size_t row_bytes = t->cols / type->block_items * type->block_bytes;
    uint8_t *bytes = allocate(rows * row_bytes, 1);
    for (size_t r = 0; r < rows; r++)
        quantize_row(type->type, values + r * t->cols, (uint32_t)t->cols, bytes + r * row_bytes);
    gguf_write_data(g, out, bytes, rows * row_bytes);
    free(bytes);
    free(values);
}

/* ---- settings ------------------------------------------------------------------------------ */

struct settings {
    struct gguf_writer *g;
    const char *family;
    char key[80];
};

static const char *key_of(struct settings *s, const char *suffix)
{
    snprintf(s->key, sizeof s->key, "%s.%s", s->family, suffix);
    return s->key;
}

static void set_u32(struct settings *s, const char *suffix, uint32_t value)
{
    gguf_write_u32(s->g, key_of(s, suffix), value);
}

static void set_f32(struct settings *s, const char *suffix, float value)
{
    gguf_write_f32(s->g, key_of(s, suffix), value);
}

static void write_rope(struct settings *s, const struct model_plan *p)
{
    unsigned has = p->kind->has;
    set_u32(s, "rope.dimension_count", rope_of(p));
    set_f32(s, "rope.freq_base", p->rope_base);
    if (has & LINEAR) {
        gguf_write_text(s->g, key_of(s, "rope.scaling.type"), "linear", 6);
        set_f32(s, "rope.scaling.factor", 8);
    }
    if (has & YARN) {
        gguf_write_text(s->g, key_of(s, "rope.scaling.type"), "yarn", 4);
        set_f32(s, "rope.scaling.factor", 4);
    }
    if (has & (YARN | LONGROPE))
        set_u32(s, "rope.scaling.original_context_length", p->n_context / 4);
    if (has & LONGROPE)
        set_f32(s, "rope.scaling.attn_factor", 1.19f);
    if (has & NOPE)
        gguf_write_bool(s->g, key_of(s, "rope.scaling.finetuned"), false);
}

static void write_window(struct settings *s, const struct model_plan *p)
{
    uint8_t local[64];
    set_u32(s, "attention.sliding_window", p->kind->window);
    for (uint32_t i = 0; i < p->n_layers; i++)
        local[i] = i % 4 != 3;
    if (p->kind->has & PATTERN)
        gguf_write_array(s->g, key_of(s, "attention.sliding_window_pattern"), GGUF_BOOL, local,
                         p->n_layers);
}

static void write_settings(struct settings *s, const struct model_plan *p)
{
    unsigned has = p->kind->has;
    set_u32(s, "block_count", p->n_layers);
    set_u32(s, "context_length", p->n_context);
    set_u32(s, "embedding_length", p->dim);
    set_u32(s, "feed_forward_length", p->n_ffn);
    set_u32(s, "attention.head_count", p->n_heads);
    set_f32(s,
            has & LAYER_NORM ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
            1e-5f);
    if (!(has & LAYER_NORM)) {
        set_u32(s, "attention.head_count_kv", p->n_kv_heads);
        write_rope(s, p);
    }
    if (has & WIDE_HEADS) {
        set_u32(s, "attention.key_length", head_of(p));
        set_u32(s, "attention.value_length", head_of(p));
    }
    if (p->kind->window > 0)
        write_window(s, p);
    if (has & SOFTCAPS) {
        set_f32(s, "attn_logit_softcapping", 2);
        set_f32(s, "final_logit_softcapping", 3);
    }
    if (has & SCALES) {
        set_f32(s, "embedding_scale", 1.5f);
        set_f32(s, "residual_scale", 0.6f);
        set_f32(s, "logit_scale", 1.3f);
        set_f32(s, "attention.scale", 0.4f);
    }
    if (has & EXPERTS) {
        set_u32(s, "expert_count", N_EXPERTS);
        set_u32(s, "expert_used_count", N_EXPERTS_USED);
        set_u32(s, "expert_feed_forward_length", p->n_ffn);
    }
    if (has & SHARED)
        set_u32(s, "expert_shared_feed_forward_length", p->n_ffn);
}

void model_make(const struct model_plan *p, const char *path)
{
    struct settings s = {.g = gguf_writer_new(), .family = p->family};
    struct plan_tensors t = plan_tensors(p);
    gguf_write_text(s.g, "general.architecture", p->family, strlen(p->family));
    gguf_write_text(s.g, "general.name", "random", 6);
    write_settings(&s, p);
    (p->spm ? write_spm : write_bpe)(s.g, p->n_vocabulary);
    for (size_t i = 0; i < t.n; i++) {
        const struct plan_tensor *item = &t.item[i];
        gguf_write_tensor(s.g, item->name, type_of(p, item),
                          item->count  ? 3
                          : item->rows ? 2
                                       : 1,
                          (uint64_t[]){item->cols, item->rows, item->count});
    }
    struct output out;
    output_open(&out, path, false, false);
    gguf_write_header(s.g, &out);
    for (size_t i = 0; i < t.n; i++)
        write_tensor(s.g, &out, p, &t.item[i], (uint32_t)i);
    output_close(&out);
    gguf_writer_free(s.g);
    free(t.item);
}
