// Starts a ptxas by a path where there is none, in each way that a program has, before and after its first CUDA call.
//
// Nothing answers, unless the program has called the software GPU's driver under apex: then what stands in for the
// assembler does.
#include "program.h"

#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *const PATH = "/nowhere/bin/ptxas";
static char *const WORDS[] = {"ptxas", "--version", NULL};

// Replaces the process; comes back only where that fails.
static void replace(int way) {
    switch (way) {
    case 0: execve(PATH, WORDS, environ); break;
    case 1: execv(PATH, WORDS); break;
    case 2: execvp(PATH, WORDS); break;
    case 3: execl(PATH, "ptxas", "--version", (char *)NULL); break;
    case 4: execlp(PATH, "ptxas", "--version", (char *)NULL); break;
    case 5: execle(PATH, "ptxas", "--version", (char *)NULL, environ); break;
    }
}

enum { EXEC_WAYS = 6, WAYS = 8 };

// Whether a program answered, with more words than a refusal has.
static int answers(int way) {
    int ends[2];
    EXPECT(pipe(ends) == 0);
    pid_t child;
    if (way < EXEC_WAYS) {
        child = fork();
        if (child == 0) {
            dup2(ends[1], 1);
            replace(way);
            _exit(127);
        }
    } else {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
        int failed = way == EXEC_WAYS ? posix_spawn(&child, PATH, &actions, NULL, WORDS, environ)
                                      : posix_spawnp(&child, PATH, &actions, NULL, WORDS, environ);
        posix_spawn_file_actions_destroy(&actions);
        if (failed) child = -1;
    }
    close(ends[1]);
    char text[512] = "";
    size_t length = 0;
    for (ssize_t more; length < sizeof text - 1 && (more = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)more;
    close(ends[0]);
    int status = 0;
    if (child > 0) EXPECT(waitpid(child, &status, 0) == child);
    return strstr(text, "release ") != NULL && child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int count(void) {
    int answered = 0;
    for (int way = 0; way < WAYS; way++) answered += answers(way);
    return answered;
}

int main(void) {
    printf("before: %d of %d\n", count(), WAYS);
    CHECK(cuInit(0));
    printf("after: %d of %d\n", count(), WAYS);
    return 0;
}
