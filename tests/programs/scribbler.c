// Finds the ring that apex mapped into it and writes rubbish over it, again and again, while it goes on
// launching.
//
// The program ends as if nothing had been. Whoever reads the ring believes no event that was not
// written, does not hang, and says that there was damage.
#include "program.h"

#include <string.h>
#include <unistd.h>

enum { LAUNCHES = 200, ROUNDS = 40 };

static unsigned long long next = 88172645463325252ULL;

static unsigned long long random_word(void) {
    next ^= next << 13;
    next ^= next >> 7;
    next ^= next << 17;
    return next;
}

// The header of the file, the header of the first ring, and the ring's first records.
static void scribble(unsigned long long *ring, size_t words) {
    for (int i = 0; i < 300; i++) {
        size_t place = random_word() % words;
        // Small numbers make heads and tails that could be true.
        ring[place] = random_word() & 1 ? random_word() : random_word() >> 50;
    }
}

int main(void) {
    Gpu gpu = start();
    for (int i = 0; i < LAUNCHES; i++)
        launch_nothing(&gpu, 1, NULL);
    // Whoever reads the ring has opened it by now: a file that was never a ring is another matter.
    usleep(200 * 1000);
    unsigned long long *ring = NULL;
    size_t bytes = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    EXPECT(maps != NULL);
    char line[4096];
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (strstr(line, ".ring\n") && strstr(line, " rw-s ") && sscanf(line, "%lx-%lx", &from, &to) == 2) {
            ring = (unsigned long long *)from;
            bytes = to - from;
        }
    }
    fclose(maps);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LAUNCHES; i++)
            launch_nothing(&gpu, 1, NULL);
        // Only what the ring has taken: beyond it the file has no pages.
        if (ring != NULL && bytes > 1 << 16)
            scribble(ring, (1 << 16) / sizeof *ring);
    }
    CHECK(cuCtxSynchronize());
    printf("launches=%d\n", LAUNCHES * (ROUNDS + 1));
    return 0;
}
