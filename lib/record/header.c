#include "record/record.h"

#include <stdio.h>
#include <string.h>

/* Offsets of the fields; unroll-stream(5) has the table. */
enum {
    AT_MAGIC = 0,
    AT_TYPE = 4,
    AT_FLAGS = 5,
    AT_RESERVED = 6,
    AT_SEQUENCE = 8,
    AT_POSITION = 12,
    AT_COUNT = 16,
    AT_BINDING = 20,
    AT_LENGTH = 24,
    AT_RAW_LENGTH = 32,
    AT_PAYLOAD_CRC = 40,
    AT_RESERVED_2 = 44,
    AT_HEADER_CRC = 60,
};
static const uint8_t magic[4] = "UNR1";

const char *record_type_name(uint8_t type)
{
    static const char *const names[] = {"type 0", "MODEL", "TOKENS", "CACHE",
                                        "LOGITS", "FORK",  "END"};
    static const char *const ancillary[] = {"RAW", "LOGPROBS", "SCORE"};
    static char other[16];
    if (type < sizeof names / sizeof *names)
        return names[type];
    if (type >= RECORD_ANCILLARY && type < RECORD_ANCILLARY + sizeof ancillary / sizeof *ancillary)
        return ancillary[type - RECORD_ANCILLARY];
    snprintf(other, sizeof other, "%s %u", type < RECORD_ANCILLARY ? "type" : "ancillary", type);
    return other;
}

uint64_t record_padded(uint64_t length)
{
    return (length + RECORD_HEADER - 1) / RECORD_HEADER * RECORD_HEADER;
}

static uint64_t limit_of(uint8_t type)
{
    switch (type) {
    case RECORD_TOKENS:
        return (uint64_t)RECORD_MAX_TOKENS * 4;
    case RECORD_CACHE:
        return RECORD_MAX_PAGE;
    case RECORD_LOGITS:
        return (uint64_t)RECORD_MAX_VOCABULARY * 4;
    default:
        return type >= RECORD_ANCILLARY ? RECORD_MAX_ANCILLARY : RECORD_MAX_SMALL;
    }
}

static bool all_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}

/* How many positions the record is about, from its own on; END and FORK name the one after the
 * last. */
static uint64_t positions_of(const struct record *r)
{
    return r->type == RECORD_TOKENS || r->type == RECORD_CACHE ? r->count
                                                               : r->type == RECORD_LOGITS;
}

/* The lengths that the type and the count prescribe. */
static bool check_lengths(const struct record *r, struct error *error)
{
    const char *name = record_type_name(r->type);
    uint64_t limit = limit_of(r->type);
    if (r->length > limit || r->raw_length > limit)
        return error_set(error, STATUS_INPUT, "%s of %llu bytes (%llu inflated), the limit is %llu",
                         name, (unsigned long long)r->length, (unsigned long long)r->raw_length,
                         (unsigned long long)limit);
    if (!(r->flags & RECORD_DEFLATED) && r->raw_length != r->length)
        return error_set(error, STATUS_INPUT,
                         "%s: not deflated, but length %llu and raw length %llu differ", name,
                         (unsigned long long)r->length, (unsigned long long)r->raw_length);
    if ((r->type == RECORD_TOKENS || r->type == RECORD_LOGITS) &&
        r->raw_length != (uint64_t)r->count * 4)
        return error_set(error, STATUS_INPUT,
                         "%s: count %u needs %llu bytes of payload, found %llu", name, r->count,
                         (unsigned long long)r->count * 4, (unsigned long long)r->raw_length);
    uint64_t covered = positions_of(r);
    if (r->type < RECORD_ANCILLARY && r->position != RECORD_APPEND &&
        r->position + covered > RECORD_MAX_TOKENS)
        return error_set(error, STATUS_INPUT,
                         "%s: position %u and count %u pass the limit of %u positions", name,
                         r->position, (unsigned)covered, RECORD_MAX_TOKENS);
    return true;
}

bool record_decode(struct record *r, const uint8_t bytes[RECORD_HEADER], struct error *error)
{
    if (memcmp(bytes, "GGUF", 4) == 0)
        return error_set(error, STATUS_INPUT,
                         "not a record: a model file (GGUF), which is given by its name (see -m)");
    if (memcmp(bytes, magic, 3) != 0)
        return error_set(error, STATUS_INPUT,
                         "not a record: expected magic 'UNR1', found %02x %02x %02x %02x", bytes[0],
                         bytes[1], bytes[2], bytes[3]);
    if (bytes[3] != magic[3])
        return error_set(error, STATUS_INPUT,
                         "stream format version '%c', this program reads version '1'", bytes[3]);
    uint32_t crc = crc32_update(0, bytes, AT_HEADER_CRC);
    if (load_u32(bytes + AT_HEADER_CRC) != crc)
        return error_set(error, STATUS_INPUT, "header is damaged: CRC %08x expected, %08x found",
                         load_u32(bytes + AT_HEADER_CRC), crc);
    *r = (struct record){
        .type = bytes[AT_TYPE],
        .flags = bytes[AT_FLAGS],
        .sequence = load_u32(bytes + AT_SEQUENCE),
        .position = load_u32(bytes + AT_POSITION),
        .count = load_u32(bytes + AT_COUNT),
        .binding = load_u32(bytes + AT_BINDING),
        .length = load_u64(bytes + AT_LENGTH),
        .raw_length = load_u64(bytes + AT_RAW_LENGTH),
        .payload_crc = load_u32(bytes + AT_PAYLOAD_CRC),
    };
    const uint8_t known = RECORD_DEFLATED | RECORD_HELD | RECORD_OPEN | RECORD_GENERATED;
    if (!all_zero(bytes + AT_RESERVED, 2) || !all_zero(bytes + AT_RESERVED_2, 16) ||
        (r->flags & ~known))
        return error_set(error, STATUS_INPUT, "%s: reserved bits are set (a newer format?)",
                         record_type_name(r->type));
    if (r->type == 0 || (r->type > RECORD_END && r->type < RECORD_ANCILLARY))
        return error_set(error, STATUS_INPUT, "unknown record %s", record_type_name(r->type));
    return check_lengths(r, error);
}

void record_encode(const struct record *r, uint8_t bytes[RECORD_HEADER])
{
    memset(bytes, 0, RECORD_HEADER);
    memcpy(bytes, magic, sizeof magic);
    bytes[AT_TYPE] = r->type;
    bytes[AT_FLAGS] = r->flags;
    store_u32(bytes + AT_SEQUENCE, r->sequence);
    store_u32(bytes + AT_POSITION, r->position);
    store_u32(bytes + AT_COUNT, r->count);
    store_u32(bytes + AT_BINDING, r->binding);
    store_u64(bytes + AT_LENGTH, r->length);
    store_u64(bytes + AT_RAW_LENGTH, r->raw_length);
    store_u32(bytes + AT_PAYLOAD_CRC, r->payload_crc);
    store_u32(bytes + AT_HEADER_CRC, crc32_update(0, bytes, AT_HEADER_CRC));
}
