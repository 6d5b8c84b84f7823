/* Messages of a conversation, from JSON. */
#include "vocab/chat.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void chat_messages_add(struct chat_messages *messages, enum chat_role role, const void *content,
                       size_t length)
{
    uint8_t *copy = allocate(length + 1, 1);
    if (length)
        memcpy(copy, content, length);
    messages->items =
        grow(messages->items, &messages->capacity, messages->count + 1, sizeof *messages->items);
    messages->items[messages->count++] = (struct chat_message){role, copy, length};
}

void chat_messages_free(struct chat_messages *messages)
{
    for (size_t i = 0; i < messages->count; i++)
        free(messages->items[i].content);
    free(messages->items);
    *messages = (struct chat_messages){0};
}

static const char *kind_of(const json_t *value)
{
    static const char *const names[] = {"an object", "an array", "a string", "a number",
                                        "a number",  "true",     "false",    "null"};
    return names[json_typeof(value)];
}

/* The string under a key of message `number`. */
static const json_t *text_of(json_t *message, size_t number, const char *key, struct error *error)
{
    const json_t *value = json_object_get(message, key);
    if (!value)
        error_set(error, STATUS_INPUT, "message %zu: '%s' is missing", number, key);
    else if (!json_is_string(value))
        error_set(error, STATUS_INPUT, "message %zu: '%s': expected a string, found %s", number,
                  key, kind_of(value));
    return json_is_string(value) ? value : NULL;
}

/* What is not rendered must not be there: tool calls, names, parts of an image. */
static bool check_keys(json_t *message, size_t number, struct error *error)
{
    for (void *at = json_object_iter(message); at; at = json_object_iter_next(message, at)) {
        const char *key = json_object_iter_key(at);
        if (strcmp(key, "role") != 0 && strcmp(key, "content") != 0)
            return error_set(error, STATUS_INPUT,
                             "message %zu: '%.60s' is not supported, only 'role' and 'content' are",
                             number, key);
    }
    return true;
}

static bool add_message(struct chat_messages *messages, json_t *message, struct error *error)
{
    size_t number = messages->count + 1;
    if (!json_is_object(message))
        return error_set(error, STATUS_INPUT, "message %zu: expected an object, found %s", number,
                         kind_of(message));
    const json_t *role = text_of(message, number, "role", error);
    const json_t *content = role ? text_of(message, number, "content", error) : NULL;
    if (!content || !check_keys(message, number, error))
        return false;
    for (int i = 0; i < CHAT_ROLES; i++)
        if (strcmp(json_string_value(role), chat_role_name((enum chat_role)i)) == 0 &&
            json_string_length(role) == strlen(json_string_value(role))) {
            chat_messages_add(messages, (enum chat_role)i, json_string_value(content),
                              json_string_length(content));
            return true;
        }
    return error_set(error, STATUS_INPUT,
                     "message %zu: role '%.60s' is not supported, only 'system', 'user' and "
                     "'assistant' are",
                     number, json_string_value(role));
}

bool chat_messages_parse(struct chat_messages *messages, const void *json, size_t length,
                         struct error *error)
{
    json_error_t where;
    json_t *array = json_loadb(json, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!array)
        return error_set(error, STATUS_INPUT, "the messages are not JSON: line %d, column %d: %s",
                         where.line, where.column, where.text);
    bool good = json_is_array(array) && json_array_size(array) > 0;
    if (!good)
        error_set(error, STATUS_INPUT,
                  "the messages: expected an array like [{\"role\": \"user\", \"content\": "
                  "\"...\"}], found %s",
                  json_is_array(array) ? "an empty one" : kind_of(array));
    for (size_t i = 0; good && i < json_array_size(array); i++)
        good = add_message(messages, json_array_get(array, i), error);
    json_decref(array);
    return good;
}
