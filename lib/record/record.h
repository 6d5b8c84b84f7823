/* record: the stream that all programs speak.  unroll-stream(5) is its definition for users. */
#ifndef UNROLL_RECORD_H
#define UNROLL_RECORD_H

#include "base/base.h"

#define RECORD_HEADER   64 /* bytes of a header, and the multiple that payloads are padded to */
#define RECORD_APPEND   UINT32_MAX /* position of a record that goes on where its sequence ends */
#define RECORD_NO_TOKEN UINT32_MAX

enum record_type {
    RECORD_MODEL = 1,
    RECORD_TOKENS = 2,
    RECORD_CACHE = 3,
    RECORD_LOGITS = 4,
    RECORD_FORK = 5,
    RECORD_END = 6,
    RECORD_ANCILLARY = 128, /* this and above: ignored by readers that do not know the type */
    RECORD_RAW =
        128, /* before LOGITS that a filter has changed: what they were; count 0: not kept */
    RECORD_LOGPROBS = 129, /* before the TOKENS that sample chose: log-probabilities */
    RECORD_SCORE = 130,    /* before an END of beam's: f64 score, f64 sum, u32 tokens */
};
enum record_flags {
    RECORD_DEFLATED = 1,
    RECORD_HELD = 2,
    RECORD_OPEN = 4,
    RECORD_GENERATED = 8,
};
/* Limits on every length, part of the format. */
#define RECORD_MAX_TOKENS     (1u << 24) /* tokens in one record; also positions of a sequence */
#define RECORD_MAX_VOCABULARY (1u << 24) /* entries of a LOGITS record */
#define RECORD_MAX_PAGE       (1u << 30) /* bytes of a CACHE record */
#define RECORD_MAX_SMALL      (1u << 16) /* bytes of a MODEL, FORK, END or ancillary payload... */
#define RECORD_SCORE_BYTES    20         /* bytes of a SCORE payload */
#define RECORD_MAX_ANCILLARY  (1u << 27) /* ... except that ancillary records may be large */

/* A header in host form. */
struct record {
    uint8_t type, flags;
    uint32_t sequence, position, count, binding;
    uint64_t length, raw_length;
    uint32_t payload_crc;
};

/* The 64 bytes of a header to and from its fields.  Decoding checks magic, CRC, reserved bits,
 * flags, and the bounds of both lengths for the type; a pure function. */
bool record_decode(struct record *record, const uint8_t bytes[RECORD_HEADER], struct error *error);
void record_encode(const struct record *record, uint8_t bytes[RECORD_HEADER]);
/* "TOKENS", ..., "ancillary 130". */
const char *record_type_name(uint8_t type);
/* Payload bytes with their padding. */
uint64_t record_padded(uint64_t length);

/* ---- MODEL --------------------------------------------------------------------------------- */

enum rope_scaling { ROPE_NONE, ROPE_LINEAR, ROPE_YARN, ROPE_LONGROPE };

/* What a MODEL record says; also the sizes that cache and sampler need. */
struct model_facts {
    uint32_t n_layers, n_kv_heads, key_dim, value_dim;
    uint32_t element;       /* of the cache: tensor type F16 or F32 */
    uint32_t n_logits;      /* entries of a LOGITS record: rows of the output matrix */
    uint32_t n_vocabulary;  /* ids that have a text; ids from here on are never selected */
    uint32_t n_context;     /* positions that may be used: the model's, or what -c asked for */
    uint32_t model_context; /* positions the model was made for */
    uint32_t bos;           /* RECORD_NO_TOKEN: none */
    uint32_t rope_scaling;  /* effective RoPE settings */
    uint32_t rope_dim;
    float rope_base, rope_scale;
    uint32_t vocabulary_fingerprint, model_fingerprint;
    uint32_t arithmetic; /* revision of the canonical arithmetic */
    uint32_t n_eog;
    uint32_t eog[256]; /* ascending */
    char name[128];    /* terminated */
};
/* The numeric fields in the order of the payload, four bytes each: what encoding, decoding,
 * comparing and printing all go by. */
enum fact_kind { FACT_NUMBER, FACT_REAL, FACT_TOKEN, FACT_HEX, FACT_ELEMENT, FACT_SCALING };
struct model_field {
    const char *name;
    size_t offset; /* in struct model_facts */
    enum fact_kind kind;
    bool may_differ; /* between repeats in one stream */
};
extern const struct model_field model_fields[];
extern const size_t n_model_fields;
/* One field as text. */
void model_field_print(const struct model_facts *facts, const struct model_field *field, char *text,
                       size_t size);

/* Payload to and from the facts; encoding returns its length (at most RECORD_MAX_SMALL). */
bool model_facts_decode(struct model_facts *facts, const uint8_t *bytes, size_t length,
                        struct error *error);
size_t model_facts_encode(const struct model_facts *facts, uint8_t *bytes);
/* True when both may stand in one stream (all equal except n_context); otherwise an error naming
 * both sides of the first difference. */
bool model_facts_agree(const struct model_facts *a, const struct model_facts *b,
                       struct error *error);
bool model_facts_is_eog(const struct model_facts *facts, uint32_t id);
/* Bytes that one position takes in the cache, all layers. */
uint64_t model_facts_position_bytes(const struct model_facts *facts);

/* ---- END ----------------------------------------------------------------------------------- */

enum end_reason { END_EOS, END_STOP, END_LENGTH, END_CONTEXT, END_DROPPED, END_ERROR, END_REASONS };
struct end {
    enum end_reason reason;
    uint32_t token; /* that matched (eos); RECORD_NO_TOKEN: none */
    uint32_t trim;  /* bytes to cut from the end of the text */
    uint32_t text_length;
    const uint8_t *text; /* that matched (stop), or the message (error) */
};
bool end_decode(struct end *end, const uint8_t *bytes, size_t length, struct error *error);
size_t end_encode(const struct end *end, uint8_t bytes[RECORD_MAX_SMALL]);
const char *end_reason_name(enum end_reason reason);

/* ---- LOGPROBS ------------------------------------------------------------------------------ */

/* Natural logarithms of probabilities, of the token that was chosen and of the most probable ones:
 * raw, under the model's own logits, and processed, among those that the sampling chain left. */
struct logprobs {
    uint32_t id;  /* the token that was chosen */
    bool has_raw; /* false: a filter has changed the logits, and did not keep the model's */
    double raw, processed; /* of that token */
    uint32_t n_raw, n_processed;
    const uint8_t *entries; /* first the raw ones, then the processed, each list with the most
                               probable first */
};
/* The payload in new memory; *length of it.  ids, values: n_raw, then n_processed. */
uint8_t *logprobs_encode(const struct logprobs *logprobs, const uint32_t *ids, const double *values,
                         size_t *length);
/* `entries` points into the payload. */
bool logprobs_decode(struct logprobs *logprobs, const uint8_t *bytes, size_t length,
                     struct error *error);
/* Entry i of n_raw + n_processed: its id and log-probability. */
uint32_t logprobs_entry(const struct logprobs *logprobs, uint32_t i, double *value);

/* ---- writing ------------------------------------------------------------------------------- */

/* Writes records to an output, each flushed when complete. */
struct record_writer {
    struct output *output;
    bool compress;  /* deflate payloads where that makes them smaller */
    uint32_t *open; /* sequences whose last record was OPEN */
    size_t n_open, capacity;
};
/* From now on, a program that dies ends each open sequence (where none is open and the output is a
 * pipe: sequence 0) by END (reason error, with the message), so that the stages after it need not
 * say again what was said. */
void record_writer_report_errors(struct record_writer *writer);
/* Frees what the writer holds; the output is its owner's. */
void record_writer_free(struct record_writer *writer);
/* The header's lengths, CRC and DEFLATED flag are filled in here. */
void record_write(struct record_writer *writer, struct record record, const void *payload,
                  size_t length);
/* A token and the END after it in one call, so that a reader of the first finds the second waiting
 * (decode-step then saves a forward pass). */
void record_write_token_and_end(struct record_writer *writer, struct record token, uint32_t id,
                                const struct end *end);

/* ---- reading ------------------------------------------------------------------------------- */

/* What a reader of a stream knows of each sequence: its tokens and where they stand (design
 * section 3, "What the records mean", rules 1 to 5, checked here for every program). */
struct sequence {
    uint32_t id;
    size_t index;     /* in order of appearance */
    uint32_t *tokens; /* (n_tokens) */
    uint8_t *flags;   /* (n_tokens) RECORD_GENERATED | RECORD_HELD of each */
    uint32_t n_tokens;
    uint32_t
        first; /* position of tokens[0]; not 0 where only a part of the sequence is in the stream */
    bool appended; /* the first tokens came with an open position: text that goes on */
    size_t capacity, flags_capacity;
    uint32_t n_cached;    /* positions whose CACHE records were seen */
    uint32_t draw_stream; /* 0 from a prompt; FORK gives another */
    uint32_t
        changed_from; /* first position that the last record changed: where consumers catch up */
    bool open, ended;
    bool dropped; /* it ended so and is forgotten; a record that follows begins it anew */
    int64_t logits_position; /* of the last LOGITS record; -1: none */
};

struct record_reader;
/* Reads the streams named by the operands in order ("-" or no operand: standard input).  A regular
 * file is mapped, never copied.  Every failure ends the program with a message that names file and
 * record number. */
struct record_reader *reader_open(char **operands, int n_operands);
/* From memory, for tests and fuzzing; errors are returned by reader_next_checked. */
struct record_reader *reader_open_memory(const char *name, const uint8_t *bytes, size_t size);
void reader_close(struct record_reader *reader);

/* The next record, its header checked, with the sequence it belongs to brought up to date: TOKENS
 * are appended (their ids are sequence->tokens), FORK copies or cuts, MODEL is kept, END closes.
 * The record is filled in as the writer should pass it on: an append has got its position.  False
 * END with reason error ends the program: quietly when it came through a pipe, since the program
 * that sent it has given the message.  False at the end of all input, which is an error when there
 * was no record, when a sequence is open, or when CACHE is ahead of TOKENS. */
bool reader_next(struct record_reader *reader, struct record *record);
/* The same with errors returned: 1 record, 0 end, -1 error. */
int reader_next_checked(struct record_reader *reader, struct record *record, struct error *error);

/* The payload of the record last returned, CRC and padding checked, inflated; raw_length bytes,
 * valid until the next reader_next; or, where *mapped is set (may be NULL), for good. */
const uint8_t *reader_payload(struct record_reader *reader, bool *mapped);
bool reader_payload_checked(struct record_reader *reader, const uint8_t **payload, bool *mapped,
                            struct error *error);

/* The sequence of a record or NULL; all sequences in order of appearance. */
struct sequence *reader_sequence(struct record_reader *reader, uint32_t id);
size_t reader_n_sequences(const struct record_reader *reader);
struct sequence *reader_sequence_at(struct record_reader *reader, size_t index);
/* The last MODEL record, or NULL before there was one. */
const struct model_facts *reader_model(const struct record_reader *reader);
/* The fingerprint of the vocabulary that the stream's records so far are of; 0: none has said it.
 */
uint32_t reader_vocabulary(const struct record_reader *reader);
/* Ends the program with a message that names the current file and record. */
_Noreturn void reader_die(struct record_reader *reader, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The payload (raw_length bytes) of a record that reader_next has used itself (MODEL, TOKENS, FORK,
 * END), to look at it or pass it on. */
const uint8_t *reader_used_payload(const struct record_reader *reader);
/* The type of the next record where its header is there already; 0 where it is not, or is damaged.
 * Nothing is brought up to date by it. */
uint8_t reader_waiting(struct record_reader *reader);
/* "FILE, record 3 (LOGITS)": where the reader stands, for messages. */
const char *reader_place(struct record_reader *reader);
/* From now on every input that is no regular file is read ahead by a thread into a queue, so that a
 * writer upstream is never blocked by us while we write (the loop with several sequences). */
void reader_read_ahead(struct record_reader *reader);

#endif
