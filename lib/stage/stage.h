/* stage: what the programs share when they open a model and run it over a state. */
#ifndef UNROLL_STAGE_H
#define UNROLL_STAGE_H

#include "base/base.h"

/* The model's file: the option, else $UNROLL_MODEL, else the small model beside the programs or in
 * ../share/unroll.  Ends the program when there is none. */
const char *model_path(const char *option);
/* The folder of the running program, with a slash at its end; to be freed. */
char *program_folder(void);

#endif
