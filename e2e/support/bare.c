/* The one program of an image without a shell: what a distroless image of a user's looks like.
 *   bare work TEXT   leaves TEXT as its result and a file in the workspace
 *   bare serve       runs until it is told to end
 *   bare hang        runs on whatever it is told
 *   bare say TEXT    prints TEXT
 *   bare exit CODE   ends with CODE
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_to(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        exit(9);
    }
    fputs(text, file);
    fclose(file);
}

static void end(int signal) { _exit(signal == SIGTERM ? 0 : 1); }

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "serve";
    const char *text = argc > 2 ? argv[2] : "";
    if (strcmp(what, "exit") == 0)
        return atoi(text);
    if (strcmp(what, "say") == 0)
        return puts(text) < 0;
    if (strcmp(what, "work") == 0) {
        write_to("/dev/termination-log", text);
        write_to("/workspace/shared/report.md", text);
        return 0;
    }
    signal(SIGTERM, strcmp(what, "hang") == 0 ? SIG_IGN : end);
    for (;;)
        pause();
}
