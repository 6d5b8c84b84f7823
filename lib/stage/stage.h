/* stage: a model and a state brought together: what prefill, decode-step and whoever else runs the
 * model share. */
#ifndef UNROLL_STAGE_H
#define UNROLL_STAGE_H

#include "base/base.h"
#include "model/model.h"
#include "record/record.h"
#include "state/state.h"
#include "vocab/vocab.h"

/* The model's file: the option, else $UNROLL_MODEL, else the small model beside the programs or in
 * ../share/unroll.  Ends the program when there is none. */
const char *model_path(const char *option);
/* The folder of the running program, with a slash at its end; to be freed. */
char *program_folder(void);

/* What the options of a stage that runs the model say; zeros are the defaults (but for cache_type).
 */
struct engine_options {
    const char *model;
    int64_t threads, context, batch;
    int cache_type; /* index into "f16|f32" */
    int repack;     /* index into "auto|never|only" */
    bool verbose;
};
struct engine {
    struct gguf *gguf;
    struct model *model;
    struct model_facts facts; /* what our MODEL records say */
    uint32_t batch;           /* positions evaluated at once */
    bool verbose;
};
/* Opens the model; ends the program with a message when that fails. */
void engine_open(struct engine *engine, const struct engine_options *options);
/* The same with the error returned: what was opened is not closed again. */
bool engine_try_open(struct engine *engine, const struct engine_options *options,
                     struct error *error);
void engine_close(struct engine *engine);

/* Ends the program unless the lane begins at position 0, holds a token, and fits into the context;
 * to be called for every lane before any work. */
void engine_check(const struct engine *engine, const struct lane *lane,
                  struct record_reader *reader);

/* Evaluates the lane's pending tokens (the last one again where its logits are missing), at most
 * engine->batch positions at once, and leaves the logits of the last position in it. */
void engine_advance(struct engine *engine, struct lane *lane);
/* The same, writing the lane as a state as soon as its pages are complete.  `every`: with the
 * logits of all positions that are evaluated. */
void engine_advance_writing(struct engine *engine, struct lane *lane, bool every,
                            struct record_writer *writer);
/* Writes a lane, which must have no pending tokens, as a state. */
void engine_write(struct engine *engine, struct lane *lane, struct record_writer *writer);

/* Monotonic seconds. */
double seconds_now(void);

#endif
