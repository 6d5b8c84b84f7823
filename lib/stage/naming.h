/* naming: tokens and vocabularies as the options of programs name them. */
#ifndef UNROLL_NAMING_H
#define UNROLL_NAMING_H

#include "record/record.h"
#include "select/select.h"
#include "vocab/vocab.h"

/* The vocabulary that options with texts go by: opened when the first of them needs it. */
struct naming {
    const char *model; /* what -m says, or NULL; the file's name once it is open */
    struct gguf *gguf;
    struct vocab *vocab;   /* NULL: not opened */
    const char *needed_by; /* the option that wanted it first, for messages */
};
/* Opens it where that was not done; ends the program when that fails. */
const struct vocab *naming_open(struct naming *naming, const char *option);
void naming_close(struct naming *naming);
/* Ends the program where the stream is of another vocabulary than the one that was opened. */
void naming_check(const struct naming *naming, struct record_reader *reader);
/* The same by what one record says; the vocabulary must be open. */
void naming_check_record(const struct naming *naming, struct record_reader *reader,
                         const struct record *record);

/* The token that `word` (length bytes) names: a decimal number is an id; "..." is a text with the
 * escapes that peek prints; everything else is a text as it is.  A text must be exactly one token
 * where it goes on after other text (so a leading space counts), special tokens included.  For a
 * text the vocabulary is opened where it is not open yet, which ends the program when it fails;
 * `option` wants it.  False where the word names no token. */
bool naming_token(struct naming *naming, const char *option, const char *word, size_t length,
                  uint32_t *id, struct error *error);

/* The bytes of a text that is given as above, in new memory; never an id.  False where the escapes
 * are wrong. */
bool naming_text(const char *word, size_t length, char **bytes, size_t *n, struct error *error);

/* ---- biases -------------------------------------------------------------------------------- */

struct bias_list {
    struct select_bias *item;
    size_t count, capacity;
};
/* Appends what one word of --bias says: NAME=VALUE with a name as above (the last '=' counts), or
 * as llama.cpp has it ID+VALUE, ID-VALUE.  A value is a number from -1e6 to 1e6 or -inf.  False
 * with a message that has no option's name. */
bool naming_bias(struct naming *naming, const char *option, const char *word, size_t length,
                 struct bias_list *list, struct error *error);
/* Appends the biases of a file, one a line as above; empty lines and lines that begin with '#' are
 * passed over.  Ends the program (STATUS_INPUT) with the number of the line that is wrong. */
void naming_bias_file(struct naming *naming, const char *option, const char *path,
                      struct bias_list *list);

/* Appends the ids that a word of --ban or --allow names: one name, or a list of ids "1,2,3". */
bool naming_list(struct naming *naming, const char *option, const char *word,
                 struct token_list *list, struct error *error);

#endif
