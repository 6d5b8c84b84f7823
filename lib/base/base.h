/* base: what every part and every program needs: errors, reading and writing, options, numbers,
 * threads, random numbers, and the elementary functions whose bits are promised. */
#ifndef UNROLL_BASE_H
#define UNROLL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNROLL_VERSION "0.1.0"

/* ---- errors (error.c) ---------------------------------------------------------------------- */

/* How a program ends.  unroll(7) documents them for users. */
enum status {
    STATUS_OK = 0,
    STATUS_INPUT = 1,      /* bad input: a stream, a model, a text */
    STATUS_USAGE = 2,      /* a wrong option or operand */
    STATUS_SYSTEM = 3,     /* input/output, memory, a missing file */
    STATUS_CONSTRAINT = 4, /* a grammar or schema that was not completed */
};

/* The name that messages start with. */
extern const char *program_name;

/* To be called first in main: takes the program's name from argv[0], restores the default action
 * of SIGPIPE (a closed reader ends a program quietly), opens /dev/null in the place of a closed
 * standard descriptor, and gives a plain message where a mapped file shrinks under its reader. */
void program_start(char **argv);

/* To be called last in main: closes standard output and checks that everything was written.
 * Returns the exit status. */
int program_end(void);

/* Prints "program: message" in one line and exits.  A format that ends in ':' gets the reason of
 * errno appended.  Characters that are not plain, and bytes that are none, are shown as '?', so a
 * message stays one line of UTF-8. */
_Noreturn void die(enum status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Exits without a message, where another program has given it already. */
_Noreturn void die_quietly(enum status status);
/* The last thing that die and die_quietly do before they exit, with the message ("" when quiet):
 * lets a writer tell its reader.  Once only: an error inside `action` ends the program at once. */
void die_action(void (*action)(void *context, const char *message), void *context);

/* An error that is returned instead of ending the program: parsers of untrusted bytes and
 * everything that a test wants to see fail. */
struct error {
    enum status status;
    char text[640];
};

/* Fills in the error (same format rules as die) and returns false, so that a parser can say
 * `return error_set(...)`. */
bool error_set(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts "prefix: " before the text of an error; returns false too. */
bool error_prefix(struct error *error, const char *prefix);
_Noreturn void die_error(const struct error *error);

/* ---- characters (character.c) -------------------------------------------------------------- */

/* Bytes of the character of UTF-8 that begins with this one; 1 for what begins none. */
size_t character_length(uint8_t first);
/* The character that the bytes begin with: its length and number, or 0 where they begin none. */
size_t character_decode(const uint8_t *bytes, size_t length, uint32_t *code);
/* Whether a character leaves a mark of its own and does nothing to its neighbours: no controls, no
 * marks of direction, no spaces without width. */
bool character_is_plain(uint32_t code);

/* ---- memory (memory.c) --------------------------------------------------------------------- */

/* Zeroed memory for `count` items of `size` bytes.  Never returns NULL: without memory, or when
 * the product overflows, the program ends with STATUS_SYSTEM. */
void *allocate(size_t count, size_t size);
/* The same, aligned to 64 bytes (a cache line, an AVX-512 register); release with free(). */
void *allocate_aligned(size_t count, size_t size);
/* Grows or shrinks; new bytes are not zeroed. */
void *reallocate(void *memory, size_t count, size_t size);
char *copy_string(const char *text);
/* Makes room for at least `needed` items in a growing array: doubles *capacity as required. */
void *grow(void *array, size_t *capacity, size_t needed, size_t size);

/* ---- reading and writing (io.c) ------------------------------------------------------------ */

/* Reads at most `size` bytes, retrying after signals; may be short; 0 is the end of file.
 * Errors end the program (STATUS_SYSTEM), naming `name`. */
size_t read_some(int fd, void *buffer, size_t size, const char *name);
/* Reads until `size` bytes are there or the file ends; less than `size` means the end. */
size_t read_full(int fd, void *buffer, size_t size, const char *name);
/* Reads a whole file or pipe into new memory; *size is its length. */
uint8_t *read_all(int fd, size_t *size, const char *name);
/* Writes everything or ends the program. */
void write_full(int fd, const void *bytes, size_t size, const char *name);

/* A file mapped privately and read-only.  `data` is NULL for an empty file. */
struct mapping {
    const uint8_t *data;
    size_t size;
};
bool mapping_open(struct mapping *mapping, const char *path, struct error *error);
void mapping_close(struct mapping *mapping);

/* Where a program's payload goes: standard output, or a file that appears under its name only
 * when it is complete (written beside it, then renamed; a target that is not a regular file is
 * opened and written).  A full disk, an error or a signal leaves the old file as it was. */
struct output {
    int fd;
    const char *name;
    char *path;      /* final name, when it will be renamed */
    char *temporary; /* name of the file being written; NULL when it has none (O_TMPFILE) */
};
/* path NULL or "-": standard output.  `binary` output to a terminal is refused (STATUS_USAGE)
 * unless `force`. */
void output_open(struct output *output, const char *path, bool binary, bool force);
/* For a file (STATUS_USAGE where path is something else) that other processes write into too before
 * it is complete: they find it as output->temporary. */
void output_open_visible(struct output *output, const char *path);
void output_write(struct output *output, const void *bytes, size_t size);
/* Completes the output: checks the close and renames; standard output is left to program_end. */
void output_close(struct output *output);

/* ---- numbers (number.c) -------------------------------------------------------------------- */

/* Strict parsers: the whole text must be one decimal number (leading '-' allowed where the range
 * allows it; hexadecimal with 0x for integers) inside [low, high]; otherwise false. */
bool parse_integer(const char *text, int64_t low, int64_t high, int64_t *value);
bool parse_unsigned(const char *text, uint64_t high, uint64_t *value);
bool parse_real(const char *text, double low, double high, double *value);

uint16_t load_u16(const uint8_t *bytes);
uint32_t load_u32(const uint8_t *bytes);
uint64_t load_u64(const uint8_t *bytes);
void store_u16(uint8_t *bytes, uint16_t value);
void store_u32(uint8_t *bytes, uint32_t value);
void store_u64(uint8_t *bytes, uint64_t value);
float load_f32(const uint8_t *bytes);
double load_f64(const uint8_t *bytes);
void store_f32(uint8_t *bytes, float value);
void store_f64(uint8_t *bytes, double value);

/* IEEE 754 half precision and bfloat16, rounded to nearest even. */
float f16_to_f32(uint16_t half);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t half);
uint16_t f32_to_bf16(float value);

/* ---- tensor types (tensor_type.c) ---------------------------------------------------------- */

/* Element types of GGUF tensors, numbered as in the file format. */
enum tensor_type {
    TENSOR_F32 = 0,
    TENSOR_F16 = 1,
    TENSOR_Q4_0 = 2,
    TENSOR_Q4_1 = 3,
    TENSOR_Q5_0 = 6,
    TENSOR_Q5_1 = 7,
    TENSOR_Q8_0 = 8,
    TENSOR_Q2_K = 10,
    TENSOR_Q3_K = 11,
    TENSOR_Q4_K = 12,
    TENSOR_Q5_K = 13,
    TENSOR_Q6_K = 14,
    TENSOR_IQ4_NL = 20,
    TENSOR_IQ4_XS = 23,
    TENSOR_BF16 = 30,
};
struct tensor_type_facts {
    uint32_t type;
    const char *name;
    uint32_t block_items; /* weights in a block; rows are whole blocks */
    uint32_t block_bytes;
};
/* NULL for a type that the project does not know. */
const struct tensor_type_facts *tensor_type_facts(uint32_t type);

/* ---- options (option.c) -------------------------------------------------------------------- */

enum option_kind {
    OPTION_FLAG,    /* bool: set to true */
    OPTION_TEXT,    /* const char * */
    OPTION_TEXTS,   /* struct texts: repeatable */
    OPTION_INTEGER, /* int64_t in [low, high] */
    OPTION_REAL,    /* double in [low, high] */
    OPTION_CHOICE,  /* int: index into the words of `argument`, "one|two|three" */
    OPTION_SEED,    /* struct seed: an unsigned 64-bit number or "random" */
};
struct texts {
    const char **item;
    size_t count;
};
struct seed {
    uint64_t value;
    bool random; /* value was drawn from the system: to be printed */
};
struct option_spec {
    char letter;          /* 0: no short form */
    const char *name;     /* long form without dashes; NULL ends the table */
    const char *argument; /* as shown in --help, NULL for a flag; "[=FILE]" is optional */
    enum option_kind kind;
    void *target; /* NULL: only checked (the value is somebody else's) */
    double low, high;
    const char *help; /* one line */
    unsigned forward; /* for `generate`: bits of the stages that get this option */
};
struct program {
    const char *operands; /* "[STREAM ...]" */
    const char *purpose;  /* one line */
    const struct option_spec *options;
};
/* What was given, in order; for programs that hand options on. */
struct given {
    const struct option_spec *option;
    const char *value; /* NULL for flags */
};

/* Parses all options (GNU rules: options and operands may mix, "--" ends options, long options
 * may be abbreviated).  --help and --version print on standard output and exit with 0; anything
 * wrong is one line and STATUS_USAGE.  Moves the operands to the end of argv and returns the
 * index of the first.  given/n_given may be NULL. */
int options_parse(const struct program *program, int argc, char **argv, struct given **given,
                  size_t *n_given);

/* ---- threads (threads.c) ------------------------------------------------------------------- */

/* CPUs that this process may use: affinity mask and cgroup quota (v1 and v2), at least 1. */
int threads_available(void);

struct threads;
/* A pool of n threads, the caller being one of them.  Workers sleep when there is nothing to do. */
struct threads *threads_start(int n);
void threads_stop(struct threads *threads);
int threads_count(const struct threads *threads);
/* Calls work(context, thread, begin, end) for disjoint ranges that cover [0, items), each a
 * multiple of `grain` long (but the last); returns when all are done.  Ranges go to whoever is
 * free: which thread computes an item must not matter to its value. */
void threads_run(struct threads *threads, size_t items, size_t grain,
                 void (*work)(void *context, int thread, size_t begin, size_t end), void *context);

/* ---- random numbers (philox.c) ------------------------------------------------------------- */

/* Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a pure
 * function of a key and a counter. */
void philox4x32(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* ---- elementary functions (math.c) --------------------------------------------------------- */

/* Fixed sequences of IEEE operations, the same bits on every machine and in every kernel (the
 * vector versions in lib/kernel are held to them by the tests).  Not correctly rounded; the errors
 * are given at the definitions. */
float exact_exp(float x);                       /* exp(0) is 1; x < -104: 0 */
double exact_exp_f64(double x);                 /* exp(0) is 1; x < -708: 0; x > 709: +inf */
float exact_tanh(float x);                      /* odd; tanh(0) is 0 */
double exact_log(double x);                     /* natural; x > 0 finite; log(0) is -inf */
double exact_pow(double base, double exponent); /* base > 0 finite */
/* Sine and cosine of an angle in double, |angle| up to 1e9. */
void exact_sincos(double angle, double *sine, double *cosine);

/* CRC-32 (zlib's polynomial), seed 0 to begin; fast enough not to show in a profile. */
uint32_t crc32_update(uint32_t crc, const void *bytes, size_t size);

#endif
