#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *program_name = "unroll";

/* A message is one line of UTF-8: what a file's strings hold beside plain characters must not move
 * the cursor, turn the direction of the text, or make the line unreadable for a program. */
static void make_printable(char *text)
{
    size_t length = strlen(text);
    char *out = text;
    for (size_t i = 0, n; i < length; i += n) {
        uint32_t code;
        n = character_decode((const uint8_t *)text + i, length - i, &code);
        if (n && character_is_plain(code)) {
            memmove(out, text + i, n);
            out += n;
        } else {
            *out++ = '?';
            n += n == 0;
        }
    }
    *out = 0;
}

/* Formats a message; one that ends in ':' gets the reason of errno. */
__attribute__((format(printf, 3, 0))) static void
format_message(char *text, size_t size, const char *format, va_list arguments)
{
    const char *reason = strerror(errno);
    int length = vsnprintf(text, size, format, arguments);
    size_t n = length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
    if (n && text[n - 1] == ':')
        snprintf(text + n, size - n, " %s", reason);
    make_printable(text);
}

/* One write, so that lines of several stages do not mix. */
static void print_line(const char *text)
{
    char line[1200];
    int length = snprintf(line, sizeof line, "%s: %s\n", program_name, text);
    if (length > 0 &&
        write(2, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1) < 0)
        return; /* there is nowhere left to say it */
}

static void (*last_action)(void *context, const char *message);
static void *last_context;

void die_action(void (*action)(void *context, const char *message), void *context)
{
    last_action = action;
    last_context = context;
}

_Noreturn static void end_badly(enum status status, const char *message)
{
    void (*action)(void *, const char *) = last_action;
    last_action = NULL;
    if (action)
        action(last_context, message);
    exit((int)status);
}

void die(enum status status, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    format_message(text, sizeof text, format, arguments);
    va_end(arguments);
    print_line(text);
    end_badly(status, text);
}

void die_quietly(enum status status)
{
    end_badly(status, "");
}

void warn(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    format_message(text, sizeof text, format, arguments);
    va_end(arguments);
    print_line(text);
}

bool error_set(struct error *error, enum status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    format_message(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    error->status = status;
    return false;
}

bool error_prefix(struct error *error, const char *prefix)
{
    char text[sizeof error->text];
    memcpy(text, error->text, sizeof text);
    return error_set(error, error->status, "%.200s: %s", prefix, text);
}

void die_error(const struct error *error)
{
    die(error->status, "%s", error->text);
}

/* A mapped file that was truncated under us faults on access. */
static void on_bus_error(int signal)
{
    (void)signal;
    print_line("a mapped file (model or state) was cut short while it was in use");
    _exit(STATUS_SYSTEM);
}

void program_start(char **argv)
{
    const char *slash = argv[0] ? strrchr(argv[0], '/') : NULL;
    if (argv[0])
        program_name = slash ? slash + 1 : argv[0];
    for (int fd = 0; fd <= 2; fd++) /* so that no file we open becomes standard output */
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) /* the wrong way round: use fails */
            exit(STATUS_SYSTEM);
    struct sigaction quiet = {.sa_handler = SIG_DFL}, bus = {.sa_handler = on_bus_error};
    sigaction(SIGPIPE, &quiet, NULL);
    sigaction(SIGBUS, &bus, NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int program_end(void)
{
    if (fflush(stdout) || ferror(stdout))
        die(STATUS_SYSTEM, "cannot write standard output:");
    if (close(1) && errno != EBADF)
        die(STATUS_SYSTEM, "cannot close standard output:");
    return STATUS_OK;
}
