#include "stage/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of this program's file, with a slash at its end. */
char *program_folder(void)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    char *slash = strrchr(path, '/');
    if (slash)
        slash[1] = 0;
    return copy_string(path);
}

const char *model_path(const char *option)
{
    static const char *const places[] = {"", "../share/unroll/"};
    const char *environment = getenv("UNROLL_MODEL");
    if (option)
        return option;
    if (environment && *environment)
        return environment;
    char *folder = program_folder();
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        static char path[4300]; /* lasts as long as the other two do */
        snprintf(path, sizeof path, "%s%sunroll-small.gguf", folder, places[i]);
        if (access(path, R_OK) == 0) {
            free(folder);
            return path;
        }
    }
    die(STATUS_SYSTEM,
        "no model: give one by -m FILE or UNROLL_MODEL (the small one is not installed beside %s)",
        folder);
}
