/* chat: conversations as the text that a model was trained on, with its own template
 * (tokenizer.chat_template).  The templates of the field are known by marks in them and kept as a
 * table of pieces (chat_table.c); there is no interpreter of Jinja here. */
#ifndef UNROLL_CHAT_H
#define UNROLL_CHAT_H

#include "vocab/vocab.h"

/* ---- messages (chat_json.c) ---------------------------------------------------------------- */

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES };

struct chat_message {
    enum chat_role role;
    uint8_t *content; /* any bytes */
    size_t length;
};
/* To be zeroed at first. */
struct chat_messages {
    struct chat_message *items;
    size_t count, capacity;
};
void chat_messages_add(struct chat_messages *messages, enum chat_role role, const void *content,
                       size_t length);
/* Adds the messages of a JSON text: [{"role": "user", "content": "..."}, ...].  Errors name line
 * and column, or the message by its number. */
bool chat_messages_parse(struct chat_messages *messages, const void *json, size_t length,
                         struct error *error);
void chat_messages_free(struct chat_messages *messages);

/* ---- templates (chat.c) -------------------------------------------------------------------- */

/* The text of a conversation, with the opening of the answer at its end. */
struct chat_text {
    uint8_t *bytes;
    size_t length;
    struct vocab_marks marks; /* what the template wrote, and the template itself */
    bool bos;                 /* the template begins with BOS; it is not in `bytes` */
    bool lacks_default;       /* the model's template computes a default system prompt that is not
                               * known here; the conversation has none */
};
/* Renders messages with the template of that name, or with the model's own where `name` is NULL.
 * Errors: an unknown name (STATUS_USAGE, with the list), a model without a template or with one
 * that is not known, roles in an order that the template refuses. */
bool chat_render(struct chat_text *text, const struct vocab *vocab, const char *name,
                 const struct chat_messages *messages, struct error *error);
void chat_text_free(struct chat_text *text);

/* "system", ... */
const char *chat_role_name(enum chat_role role);
/* Every name that chat_render takes, separated by single spaces; in static memory. */
const char *chat_template_names(void);

/* What ends the assistant's turn, for a vocabulary that has no token for it: text to stop at.
 * Copied; NULL where a token of the end-of-generation set does it. */
char *chat_stop_text(const struct vocab *vocab, const char *name, struct error *error);

#endif
