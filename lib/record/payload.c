/* The payloads with fields: MODEL and END. */
#include "record/record.h"

#include <stdio.h>
#include <string.h>

#define FIELD(name, member, kind, may_differ)                                                      \
    {                                                                                              \
        name, offsetof(struct model_facts, member), kind, may_differ                               \
    }
const struct model_field model_fields[] = {
    FIELD("layers", n_layers, FACT_NUMBER, false),
    FIELD("KV heads", n_kv_heads, FACT_NUMBER, false),
    FIELD("key dimension", key_dim, FACT_NUMBER, false),
    FIELD("value dimension", value_dim, FACT_NUMBER, false),
    FIELD("cache type", element, FACT_ELEMENT, false),
    FIELD("logits", n_logits, FACT_NUMBER, false),
    FIELD("vocabulary", n_vocabulary, FACT_NUMBER, false),
    FIELD("context", n_context, FACT_NUMBER, true),
    FIELD("model context", model_context, FACT_NUMBER, false),
    FIELD("BOS", bos, FACT_TOKEN, false),
    FIELD("RoPE scaling", rope_scaling, FACT_SCALING, false),
    FIELD("RoPE dimension", rope_dim, FACT_NUMBER, false),
    FIELD("RoPE base", rope_base, FACT_REAL, false),
    FIELD("RoPE scale", rope_scale, FACT_REAL, false),
    FIELD("vocabulary fingerprint", vocabulary_fingerprint, FACT_HEX, false),
    FIELD("model fingerprint", model_fingerprint, FACT_HEX, false),
    FIELD("arithmetic revision", arithmetic, FACT_NUMBER, false),
    FIELD("EOG tokens", n_eog, FACT_NUMBER, false),
};
const size_t n_model_fields = sizeof model_fields / sizeof *model_fields;

#define MAX_EOG (sizeof((struct model_facts *)0)->eog / sizeof(uint32_t))

/* The bits of a field; reals are f32. */
static uint32_t field_bits(const struct model_facts *facts, const struct model_field *field)
{
    uint32_t bits;
    memcpy(&bits, (const char *)facts + field->offset, sizeof bits);
    return bits;
}

void model_field_print(const struct model_facts *facts, const struct model_field *field, char *text,
                       size_t size)
{
    static const char *const scalings[] = {"none", "linear", "yarn", "longrope"};
    uint32_t bits = field_bits(facts, field);
    const struct tensor_type_facts *type;
    switch (field->kind) {
    case FACT_REAL:
        snprintf(text, size, "%g", (double)load_f32((const uint8_t *)&bits));
        return;
    case FACT_HEX:
        snprintf(text, size, "%08x", bits);
        return;
    case FACT_ELEMENT:
        type = tensor_type_facts(bits);
        snprintf(text, size, "%s", type ? type->name : "unknown");
        return;
    case FACT_SCALING:
        snprintf(text, size, "%s", bits < 4 ? scalings[bits] : "unknown");
        return;
    case FACT_TOKEN:
        if (bits == RECORD_NO_TOKEN) {
            snprintf(text, size, "none");
            return;
        }
        break;
    case FACT_NUMBER:
        break;
    }
    snprintf(text, size, "%u", bits);
}

size_t model_facts_encode(const struct model_facts *facts, uint8_t *bytes)
{
    uint8_t *at = bytes;
    for (size_t i = 0; i < n_model_fields; i++, at += 4)
        store_u32(at, field_bits(facts, &model_fields[i]));
    for (uint32_t i = 0; i < facts->n_eog; i++, at += 4)
        store_u32(at, facts->eog[i]);
    size_t length = strlen(facts->name);
    store_u32(at, (uint32_t)length);
    memcpy(at + 4, facts->name, length);
    return (size_t)(at + 4 - bytes) + length;
}

/* Sizes that later arithmetic relies on. */
static bool check_facts(const struct model_facts *f, struct error *error)
{
    static const char *const names[] = {"layers", "KV heads",   "key dimension", "value dimension",
                                        "logits", "vocabulary", "context"};
    const uint32_t sizes[] = {f->n_layers, f->n_kv_heads,   f->key_dim,  f->value_dim,
                              f->n_logits, f->n_vocabulary, f->n_context};
    const uint32_t limits[] = {
        1u << 12,    1u << 12,         1u << 14, 1u << 14, RECORD_MAX_VOCABULARY,
        f->n_logits, RECORD_MAX_TOKENS};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] == 0 || sizes[i] > limits[i])
            return error_set(error, STATUS_INPUT, "MODEL: %s: expected 1 to %u, found %u", names[i],
                             limits[i], sizes[i]);
    if (f->element != TENSOR_F16 && f->element != TENSOR_F32)
        return error_set(error, STATUS_INPUT,
                         "MODEL: cache type: expected F16 (1) or F32 (0), found %u", f->element);
    if (model_facts_position_bytes(f) > RECORD_MAX_PAGE)
        return error_set(error, STATUS_INPUT, "MODEL: %llu bytes of cache a position",
                         (unsigned long long)model_facts_position_bytes(f));
    return true;
}

bool model_facts_decode(struct model_facts *facts, const uint8_t *bytes, size_t length,
                        struct error *error)
{
    *facts = (struct model_facts){0};
    size_t fixed = n_model_fields * 4;
    if (length < fixed + 4)
        return error_set(error, STATUS_INPUT, "MODEL: expected at least %zu bytes, found %zu",
                         fixed + 4, length);
    for (size_t i = 0; i < n_model_fields; i++) {
        uint32_t bits = load_u32(bytes + 4 * i);
        memcpy((char *)facts + model_fields[i].offset, &bits, sizeof bits);
    }
    if (facts->n_eog > MAX_EOG || fixed + 4 * (size_t)facts->n_eog + 4 > length)
        return error_set(error, STATUS_INPUT, "MODEL: %u EOG tokens do not fit (at most %zu)",
                         facts->n_eog, MAX_EOG);
    const uint8_t *at = bytes + fixed;
    for (uint32_t i = 0; i < facts->n_eog; i++, at += 4)
        facts->eog[i] = load_u32(at);
    size_t name = load_u32(at), rest = length - (size_t)(at + 4 - bytes);
    if (name != rest || name >= sizeof facts->name)
        return error_set(error, STATUS_INPUT,
                         "MODEL: name of %zu bytes, %zu are left (at most %zu)", name, rest,
                         sizeof facts->name - 1);
    memcpy(facts->name, at + 4, name);
    return check_facts(facts, error);
}

bool model_facts_agree(const struct model_facts *a, const struct model_facts *b,
                       struct error *error)
{
    char left[64], right[64];
    for (size_t i = 0; i < n_model_fields; i++) {
        const struct model_field *field = &model_fields[i];
        if (field->may_differ || field_bits(a, field) == field_bits(b, field))
            continue;
        model_field_print(a, field, left, sizeof left);
        model_field_print(b, field, right, sizeof right);
        return error_set(
            error, STATUS_INPUT,
            "made by another model or with other settings: %s is %s (%s), expected %s (%s)%s",
            field->name, left, a->name, right, b->name,
            field->kind == FACT_ELEMENT ? "; see --cache-type" : "");
    }
    if (memcmp(a->eog, b->eog, sizeof a->eog) != 0)
        return error_set(error, STATUS_INPUT, "made with another set of EOG tokens (model %s)",
                         b->name);
    return true;
}

bool model_facts_is_eog(const struct model_facts *facts, uint32_t id)
{
    for (uint32_t i = 0; i < facts->n_eog; i++)
        if (facts->eog[i] == id)
            return true;
    return false;
}

uint64_t model_facts_position_bytes(const struct model_facts *f)
{
    return (uint64_t)f->n_layers * f->n_kv_heads * ((uint64_t)f->key_dim + f->value_dim) *
           (f->element == TENSOR_F32 ? 4 : 2);
}

/* ---- END: u32 reason, u32 token, u32 trim, then the text ----------------------------------- */

const char *end_reason_name(enum end_reason reason)
{
    static const char *const names[] = {"eos", "stop", "length", "context", "dropped", "error"};
    return reason < END_REASONS ? names[reason] : "unknown";
}

bool end_decode(struct end *end, const uint8_t *bytes, size_t length, struct error *error)
{
    if (length < 12)
        return error_set(error, STATUS_INPUT, "END: expected at least 12 bytes, found %zu", length);
    uint32_t reason = load_u32(bytes);
    if (reason >= END_REASONS)
        return error_set(error, STATUS_INPUT, "END: unknown reason %u", reason);
    *end = (struct end){(enum end_reason)reason, load_u32(bytes + 4), load_u32(bytes + 8),
                        (uint32_t)(length - 12), bytes + 12};
    return true;
}

size_t end_encode(const struct end *end, uint8_t bytes[RECORD_MAX_SMALL])
{
    size_t text =
        end->text_length > RECORD_MAX_SMALL - 12 ? RECORD_MAX_SMALL - 12 : end->text_length;
    store_u32(bytes, end->reason);
    store_u32(bytes + 4, end->token);
    store_u32(bytes + 8, end->trim);
    if (text)
        memcpy(bytes + 12, end->text, text);
    return 12 + text;
}

/* ---- LOGPROBS ------------------------------------------------------------------------------ */

enum { LOGPROBS_FIXED = 32, LOGPROBS_ENTRY = 12 };

uint8_t *logprobs_encode(const struct logprobs *l, const uint32_t *ids, const double *values,
                         size_t *length)
{
    size_t n = (size_t)l->n_raw + l->n_processed;
    *length = LOGPROBS_FIXED + n * LOGPROBS_ENTRY;
    uint8_t *bytes = allocate(*length, 1);
    store_u32(bytes, l->id);
    store_u32(bytes + 4, l->has_raw);
    store_f64(bytes + 8, l->has_raw ? l->raw : 0);
    store_f64(bytes + 16, l->processed);
    store_u32(bytes + 24, l->n_raw);
    store_u32(bytes + 28, l->n_processed);
    for (size_t i = 0; i < n; i++) {
        store_u32(bytes + LOGPROBS_FIXED + i * LOGPROBS_ENTRY, ids[i]);
        store_f64(bytes + LOGPROBS_FIXED + i * LOGPROBS_ENTRY + 4, values[i]);
    }
    return bytes;
}

bool logprobs_decode(struct logprobs *l, const uint8_t *bytes, size_t length, struct error *error)
{
    if (length < LOGPROBS_FIXED)
        return error_set(error, STATUS_INPUT, "LOGPROBS of %zu bytes, expected at least %d", length,
                         LOGPROBS_FIXED);
    *l = (struct logprobs){
        .id = load_u32(bytes),
        .has_raw = load_u32(bytes + 4) == 1,
        .raw = load_f64(bytes + 8),
        .processed = load_f64(bytes + 16),
        .n_raw = load_u32(bytes + 24),
        .n_processed = load_u32(bytes + 28),
        .entries = bytes + LOGPROBS_FIXED,
    };
    uint64_t n = (uint64_t)l->n_raw + l->n_processed;
    if (load_u32(bytes + 4) > 1 || (!l->has_raw && l->n_raw))
        return error_set(error, STATUS_INPUT, "LOGPROBS with flags %u and %u raw entries",
                         load_u32(bytes + 4), l->n_raw);
    if (length != LOGPROBS_FIXED + n * LOGPROBS_ENTRY)
        return error_set(error, STATUS_INPUT,
                         "LOGPROBS of %zu bytes, expected %llu for %u and %u entries", length,
                         (unsigned long long)(LOGPROBS_FIXED + n * LOGPROBS_ENTRY), l->n_raw,
                         l->n_processed);
    return true;
}

uint32_t logprobs_entry(const struct logprobs *l, uint32_t i, double *value)
{
    const uint8_t *entry = l->entries + (size_t)i * LOGPROBS_ENTRY;
    *value = load_f64(entry + 4);
    return load_u32(entry);
}
