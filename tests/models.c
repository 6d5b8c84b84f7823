#include "models.h"

#include "gguf/gguf.h"
#include "kernel/quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model_plan model_plan(const char *family, uint32_t type)
{
    return (struct model_plan){.family = family, .type = type, .dim = 256, .n_layers = 2, .n_heads = 8, .n_kv_heads = 2,
                               .n_ffn = 512, .n_context = 512, .n_vocabulary = 320, .seed = 7, .rope_base = 1e4f};
}

bool model_plan_shape(struct model_plan *p, const char *name)
{
    static const struct {
        const char *name;
        struct model_plan plan;
    } shapes[] = {
        {"tinyllama-1.1b", {.family = "llama", .dim = 2048, .n_layers = 22, .n_heads = 32, .n_kv_heads = 4, .n_ffn = 5632, .n_context = 2048, .n_vocabulary = 32000, .spm = true, .rope_base = 1e4f}},
        {"llama-3.2-1b", {.family = "llama", .dim = 2048, .n_layers = 16, .n_heads = 32, .n_kv_heads = 8, .n_ffn = 8192, .n_context = 8192, .n_vocabulary = 128256, .tied = true, .rope_base = 5e5f}},
        {"qwen2.5-0.5b", {.family = "qwen2", .dim = 896, .n_layers = 24, .n_heads = 14, .n_kv_heads = 2, .n_ffn = 4864, .n_context = 32768, .n_vocabulary = 151936, .tied = true, .rope_base = 1e6f}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(name, shapes[i].name) == 0) {
            uint32_t type = p->type;
            *p = shapes[i].plan;
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
    philox4x32((uint32_t[]){(uint32_t)seed, (uint32_t)(seed >> 32)}, (uint32_t[]){index, tensor, 0, 0}, out);
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
    static const char *const pieces[] = {"\xe2\x96\x81", "e", "t", "a", "o", "n", "th", "\xe2\x96\x81th", "the", "\xe2\x96\x81the", "an", "on"};
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
    uint64_t rows, cols; /* rows 0: a vector */
    float scale;         /* 0: a norm, around 1 */
};

static size_t plan_tensors(const struct model_plan *p, struct plan_tensor *t)
{
    size_t n = 0;
    uint64_t d = p->dim, head = d / p->n_heads, kv = p->n_kv_heads * head;
    float s = 1 / sqrtf((float)d);
#define TENSOR(r, c, by, ...)                                     \
    do {                                                             \
        snprintf(t[n].name, sizeof t[n].name, __VA_ARGS__);          \
        t[n].rows = r, t[n].cols = c, t[n++].scale = (float)(by);          \
    } while (0)
    TENSOR(p->n_vocabulary, d, p->tied ? s : 1, "token_embd.weight");
    for (uint32_t i = 0; i < p->n_layers; i++) {
        TENSOR(0, d, 0, "blk.%u.attn_norm.weight", i);
        TENSOR(d, d, s, "blk.%u.attn_q.weight", i);
        TENSOR(kv, d, s, "blk.%u.attn_k.weight", i);
        TENSOR(kv, d, s, "blk.%u.attn_v.weight", i);
        TENSOR(d, d, s, "blk.%u.attn_output.weight", i);
        if (strcmp(p->family, "qwen2") == 0) {
            TENSOR(0, d, 0.1f, "blk.%u.attn_q.bias", i);
            TENSOR(0, kv, 0.1f, "blk.%u.attn_k.bias", i);
            TENSOR(0, kv, 0.1f, "blk.%u.attn_v.bias", i);
        }
        if (strcmp(p->family, "qwen3") == 0) {
            TENSOR(0, head, 0, "blk.%u.attn_q_norm.weight", i);
            TENSOR(0, head, 0, "blk.%u.attn_k_norm.weight", i);
        }
        TENSOR(0, d, 0, "blk.%u.ffn_norm.weight", i);
        TENSOR(p->n_ffn, d, s, "blk.%u.ffn_gate.weight", i);
        TENSOR(p->n_ffn, d, s, "blk.%u.ffn_up.weight", i);
        TENSOR(d, p->n_ffn, 1 / sqrtf((float)p->n_ffn), "blk.%u.ffn_down.weight", i);
    }
    TENSOR(0, d, 0, "output_norm.weight");
    if (!p->tied)
        TENSOR(p->n_vocabulary, d, s, "output.weight");
#undef TENSOR
    return n;
}

static void write_tensor(struct gguf_writer *g, struct output *out, const struct model_plan *p,
                         const struct plan_tensor *t, uint32_t index)
{
    size_t rows = t->rows ? t->rows : 1, n = rows * t->cols;
    float *values = allocate(n, sizeof *values);
    for (size_t i = 0; i < n; i++) {
        float w = random_weight(p->seed, index, (uint32_t)i);
        values[i] = t->scale != 0 ? w * t->scale : 1 + 0.05f * w;
    }
    const struct tensor_type_facts *type = tensor_type_facts(t->rows ? p->type : TENSOR_F32);
    size_t row_bytes = t->cols / type->block_items * type->block_bytes;
    uint8_t *bytes = allocate(rows * row_bytes, 1);
    for (size_t r = 0; r < rows; r++)
        quantize_row(type->type, values + r * t->cols, (uint32_t)t->cols, bytes + r * row_bytes);
    gguf_write_data(g, out, bytes, rows * row_bytes);
    free(bytes);
    free(values);
}

void model_make(const struct model_plan *p, const char *path)
{
    struct gguf_writer *g = gguf_writer_new();
    struct plan_tensor *tensors = allocate(16 * (p->n_layers + 2), sizeof *tensors);
    size_t n = plan_tensors(p, tensors);
    char key[64];
#define KEY(text) (snprintf(key, sizeof key, "%s.%s", p->family, text), key)
    gguf_write_text(g, "general.architecture", p->family, strlen(p->family));
    gguf_write_text(g, "general.name", "random", 6);
    gguf_write_u32(g, KEY("block_count"), p->n_layers);
    gguf_write_u32(g, KEY("context_length"), p->n_context);
    gguf_write_u32(g, KEY("embedding_length"), p->dim);
    gguf_write_u32(g, KEY("feed_forward_length"), p->n_ffn);
    gguf_write_u32(g, KEY("attention.head_count"), p->n_heads);
    gguf_write_u32(g, KEY("attention.head_count_kv"), p->n_kv_heads);
    gguf_write_f32(g, KEY("attention.layer_norm_rms_epsilon"), 1e-5f);
    gguf_write_f32(g, KEY("rope.freq_base"), p->rope_base);
#undef KEY
    (p->spm ? write_spm : write_bpe)(g, p->n_vocabulary);
    for (size_t i = 0; i < n; i++)
        gguf_write_tensor(g, tensors[i].name, tensors[i].rows ? p->type : TENSOR_F32, tensors[i].rows ? 2 : 1,
                          (uint64_t[]){tensors[i].cols, tensors[i].rows});
    struct output out;
    output_open(&out, path, false, false);
    gguf_write_header(g, &out);
    for (size_t i = 0; i < n; i++)
        write_tensor(g, &out, p, &tensors[i], (uint32_t)i);
    output_close(&out);
    gguf_writer_free(g);
    free(tensors);
}
