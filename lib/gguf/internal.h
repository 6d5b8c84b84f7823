/* What the files of this folder share. */
#ifndef UNROLL_GGUF_INTERNAL_H
#define UNROLL_GGUF_INTERNAL_H

#include "gguf/gguf.h"

/* Arguments for "%.*s": a name from a file may be long, and a message is one line. */
#define SHOW(string) ((string).length < 100 ? (int)(string).length : 100), (string).bytes

/* The file's layout. */
enum {
    GGUF_ALIGNMENT = 32, /* without general.alignment */
    GGUF_MAX_DIMS = 4,
};

/* Bytes of one value; 0 for strings and arrays, whose size varies. */
size_t gguf_type_size(enum gguf_type type);

/* A power of two and a multiple of 8, as the format wants general.alignment. */
bool gguf_alignment_valid(uint64_t alignment);

/* Makes the indices of the look-ups; false when a name occurs twice. */
bool gguf_index_values(struct gguf *gguf, struct error *error);
bool gguf_index_tensors(struct gguf *gguf, struct error *error);

#endif
