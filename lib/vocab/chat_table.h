/* The table of chat templates: what chat.c reads. */
#ifndef UNROLL_CHAT_TABLE_H
#define UNROLL_CHAT_TABLE_H

#include "vocab/chat.h"

/* In pieces: the texts of the model's own BOS and EOS tokens. */
#define CHAT_BOS "\1"
#define CHAT_EOS "\2"

enum chat_flags {
    /* White space around the content goes, where the model's own template says so too. */
    CHAT_TRIM_SYSTEM = 1,
    CHAT_TRIM_USER = 2,
    CHAT_TRIM_ASSISTANT = 4,
    CHAT_TRIM_ALL = CHAT_TRIM_SYSTEM | CHAT_TRIM_USER | CHAT_TRIM_ASSISTANT,
    CHAT_TRIM_SOME = 256, /* not by the name alone: only some models' templates do */
    CHAT_TRIM_JOINED = 8, /* the user's content together with a system prompt before it */
    /* The system prompt stands in the first user turn, or in the last one. */
    CHAT_SYSTEM_IN_FIRST = 16,
    CHAT_SYSTEM_IN_LAST = 32,
    CHAT_SYSTEM_ANYWHERE = 64, /* system messages may come later too */
    CHAT_SYSTEM_ALWAYS = 128,  /* a system turn is written even when there is no such message */
    CHAT_SYSTEM_AFTER_PRESET = 512, /* the default stays, before a system prompt and a space */
};
enum { CHAT_MARKS = 4, CHAT_PROMPTS = 3 };

struct chat_template {
    const char *names;             /* for --template, separated by spaces */
    const char *marks[CHAT_MARKS]; /* all of these occur in the model's template ... */
    const char *without[3];        /* ... and none of these */
    const char *begin;             /* once, before everything */
    struct {
        const char *before, *after;
    } turn[CHAT_ROLES];
    const char *prompts[CHAT_PROMPTS]; /* opens the answer: the first that occurs in the model's
                                        * template, else the last */
    unsigned flags;
    const char *source; /* where the fact is from */
    /* What stands before and after a default system prompt in the model's template; without it,
     * the pieces around a system turn.  end: what is written after it, where that is not what
     * comes after a system prompt of the conversation. */
    struct {
        const char *before, *after, *end;
    } preset;
};
extern const struct chat_template chat_table[];
extern const size_t chat_table_length;

#endif
