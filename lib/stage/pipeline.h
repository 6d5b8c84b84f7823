/* pipeline: child processes that are one job, and the relays of bytes between them.
 *
 * Whatever child fails or is killed, the others are ended, and one message and one status come out.
 */
#ifndef UNROLL_PIPELINE_H
#define UNROLL_PIPELINE_H

#include "base/base.h"
#include "record/record.h"

#include <sys/types.h>

struct child {
    const char *name;
    pid_t pid;
    int standard_error; /* read end; -1 when it was closed */
    char *said;         /* what came out of it and is not printed yet */
    size_t said_length, said_capacity;
    bool ended;
    int status; /* of waitpid */
};

/* Bytes that wait for a reader which is slower than we are. */
struct outlet {
    int fd; /* -1: none, or closed */
    uint8_t *bytes;
    size_t begin, end, capacity;
};

/* Copies a stream to one or two readers and shows its records to a function on the way. */
struct relay {
    int in;       /* -1: none, or at its end */
    bool bounded; /* stop reading while much is waiting; never for answers of the loop */
    struct outlet out[2];
    bool apart; /* out[1] gets only what `see` puts there, in whole records */
    void (*see)(void *context, const struct record *record, const uint8_t *payload);
    void *context;
    /* the record that is passing */
    uint8_t header[RECORD_HEADER];
    struct record record;
    uint8_t *payload;
    size_t have, payload_capacity;
};

#define PIPELINE_CHILDREN 16
struct pipeline {
    char *folder;    /* where the programs are */
    char prefix[64]; /* of their names */
    struct child child[PIPELINE_CHILDREN];
    size_t n_children;
    int signals; /* signalfd */
    bool failed;
    double failed_at;
    bool killing;
    int caught; /* the signal that ended us */
};

/* A pipe whose ends are closed on exec, numbered above 9; ends the program on failure. */
void pipeline_pipe(int ends[2]);
/* An input that is empty, numbered above 9. */
int pipeline_null(void);
void pipeline_init(struct pipeline *pipeline);
/* Starts FOLDER/name with the given arguments (argv[0] is filled in, NULL at its end), standard
 * input and output, and up to two more descriptors that it inherits under their numbers (-1: none).
 * The descriptors given are closed here. */
void pipeline_start(struct pipeline *pipeline, const char *name, const char **argv, int in, int out,
                    int third, int fourth);
void outlet_put(struct outlet *outlet, const void *bytes, size_t size);
/* The record that a relay shows. */
void outlet_put_record(struct outlet *outlet, const struct relay *relay,
                       const struct record *record, const uint8_t *payload);
/* Runs until all children have ended.  Returns the status of the job; a failure has been told on
 * standard error.  Where a signal ended it, or the reader of standard output is gone, the program
 * ends by that signal. */
int pipeline_run(struct pipeline *pipeline, struct relay *relays, size_t n_relays);
void pipeline_free(struct pipeline *pipeline, struct relay *relays, size_t n_relays);

#endif
