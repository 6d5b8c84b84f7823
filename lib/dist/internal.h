/* Private to lib/dist. */
#ifndef UNROLL_DIST_INTERNAL_H
#define UNROLL_DIST_INTERNAL_H

#include "dist/dist.h"
#include "dist/divide.h"

#include <mpi.h>

/* Messages between two ranks.  Those of a layer's keys and values have the number of the page. */
enum { TAG_ERROR = 1, TAG_INPUT, TAG_PAGE, TAG_LOGITS, TAG_KEYS = 16 };

struct failure {
    int32_t status;
    char text[512];
};

/* What a rank tells about its work (-v). */
struct account {
    char host[64];
    uint64_t positions, bytes_sent;
    uint64_t memory; /* private, when all layers are done */
    double compute;  /* in the model */
    double wait;     /* for keys and values that had not arrived */
    double transfer; /* in other calls of MPI */
    double total;    /* from the first layer to the last */
};

struct dist {
    MPI_Comm comm;
    int rank, size;
    struct account account;
    struct failure failure; /* rank 0: what another rank tells; the receive is always posted */
    MPI_Request failing;
};

/* ---- start.c: ranks and their errors -------------------------------------------------------- */

/* The share of the CPUs of this machine that a rank's threads should have. */
int dist_cpus(const struct dist *dist);
/* Waits for a request.  On rank 0, where a rank tells of an error meanwhile, it is said and ends
 * the job. */
void dist_wait(struct dist *dist, MPI_Request *request);
/* Waits for all ranks in that way. */
void dist_meet(struct dist *dist);
/* To be called by all: where `ok` is false on some, rank 0 tells the error of the first and the job
 * ends. */
void dist_agree(struct dist *dist, bool ok, const struct error *error);
/* Ends the job with this rank's error, told once, by rank 0. */
_Noreturn void dist_fail(struct dist *dist, const struct error *error);

/* ---- input.c: the operands, read by rank 0, their cache divided as it is read --------------- */

/* A sequence as all ranks know it.  Of the cache each has its pages, the others are absent. */
struct part {
    struct cache_sequence *cache;
    uint32_t end;      /* one past the last token */
    uint32_t *tokens;  /* (end) */
    struct lane *lane; /* rank 0 only */
};
struct input {
    struct part *part;
    size_t n_parts;
    struct record_reader *reader; /* rank 0 only, as is the state */
    struct state state;
};
void input_read(struct input *input, struct dist *dist, const struct engine *engine,
                const char *reuse, char **operands, int n_operands);
void input_free(struct input *input, const struct dist *dist);

/* ---- exchange.c: one layer's keys and values of all pages ----------------------------------- */

/* Receives are numbered from 0 in the order of layers, then pages; number i is received into slot i
 * mod n_slots. There are slots for a whole layer and a few pages of the next. */
struct exchange {
    struct dist *dist;
    const struct division *division;
    const struct cache_sequence *cache;
    bool every;   /* all rows go through the last layer, not only the last */
    size_t bytes; /* of a page in one layer */
    const uint8_t *
        *pages;       /* (pages) of the layer in work: ours where they lie, the others in slots */
    uint32_t *needed; /* (n_needed) the pages of others that we attend to, ascending */
    size_t n_needed;
    uint8_t *slots;         /* (n_slots, bytes) */
    MPI_Request *receiving; /* (n_slots) */
    size_t n_slots;
    size_t n_receives, posted, arrived, retired;
    uint32_t *last; /* (ranks) one past the last page that each evaluates */
    MPI_Request *sending;
    size_t n_sending, sending_capacity;
};
void exchange_begin(struct exchange *exchange, struct dist *dist, const struct division *division,
                    const struct cache_sequence *cache, bool every);
/* Sends a layer of one of our pages to all ranks that will attend to it; its bytes must not change
 * any more. */
void exchange_send(struct exchange *exchange, uint32_t layer, uint32_t page);
/* Begins a layer: fills in `pages`. */
void exchange_layer(struct exchange *exchange, uint32_t layer);
/* Waits until all pages before `end` of the layer in work are there. */
void exchange_need(struct exchange *exchange, uint32_t layer, uint32_t end);
/* Lets messages move; a large one does not by itself. */
void exchange_progress(struct exchange *exchange);
/* The layer's pages are not needed any more. */
void exchange_layer_done(struct exchange *exchange);
void exchange_end(struct exchange *exchange);

/* ---- evaluate.c ------------------------------------------------------------------------------ */

/* Evaluates a part's tokens that its cache does not hold, this rank's positions of them.  `pass`:
 * the rows, for logits (NULL where there are none), to be ended by the caller. */
struct model_pass *evaluate_part(struct dist *dist, struct engine *engine, struct part *part,
                                 const struct division *division, bool every);
/* The row of a fresh position in this rank's pass. */
uint32_t row_of(const struct dist *dist, const struct division *division, uint32_t position);

/* ---- output.c: pages and logits to rank 0 and from there to the output ----------------------- */

struct sink {
    struct dist *dist;
    const struct model_facts *facts;
    struct engine *engine;
    struct output output;        /* rank 0 */
    struct record_writer writer; /* rank 0 */
    bool begun, parallel, every;
    MPI_File file; /* --parallel-write */
};
void sink_open(struct sink *sink, struct dist *dist, const struct prefill_options *options);
void sink_begin(struct sink *sink, struct engine *engine);
/* Writes a part as a state. */
void sink_part(struct sink *sink, struct part *part, const struct division *division,
               struct model_pass *pass);
void sink_close(struct sink *sink);

/* ---- report.c -------------------------------------------------------------------------------- */

/* Tells, on rank 0, what each rank has done. */
void report_accounts(struct dist *dist);

#endif
