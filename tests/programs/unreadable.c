// Loads images that claim to be longer than they are, behind which nothing can be read; and an image from a
// pipe, which gives its bytes once.
//
// The driver takes what it needs of an image and never reads as far as the claim. One argument: a fatbin
// with PTX.
#include "program.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image);

enum { PAGE = 4096, MOST = 1 << 16 };

static unsigned char image[MOST];
static size_t length;

static void read_image(const char *path) {
    int file = open(path, O_RDONLY);
    EXPECT(file >= 0);
    ssize_t bytes = read(file, image, MOST);
    EXPECT(bytes > 16 && bytes < MOST);
    length = (size_t)bytes;
    close(file);
}

// A copy with zeros behind it up to the end of its page, where the readable memory ends.
static void *at_the_edge(const void *bytes, size_t count) {
    size_t held = (count + PAGE) / PAGE * PAGE;
    char *start = mmap(NULL, held + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(start != MAP_FAILED);
    EXPECT(mprotect(start + held, PAGE, PROT_NONE) == 0);
    return memcpy(start, bytes, count);
}

static void load(const char *what, const void *bytes) {
    CUmodule module;
    CUlibrary library;
    CUresult answers[] = {
        cuModuleLoadData(&module, bytes),
        cuModuleLoadDataEx(&module, bytes, 0, NULL, NULL),
        cuModuleLoadFatBinary(&module, bytes),
        cuLibraryLoadData(&library, bytes, NULL, NULL, 0, NULL, NULL, 0),
    };
    printf("%s: %d %d %d %d\n", what, answers[0], answers[1], answers[2], answers[3]);
    fflush(stdout);
}

static void *feed(void *path) {
    int end = open(path, O_WRONLY);
    EXPECT(end >= 0);
    EXPECT(write(end, KERNELS, sizeof KERNELS - 1) == sizeof KERNELS - 1);
    close(end);
    return NULL;
}

static void load_from_pipe(void) {
    char path[] = "/tmp/apex-pipe-XXXXXX";
    EXPECT(mkdtemp(path) != NULL);
    char name[64];
    snprintf(name, sizeof name, "%s/pipe", path);
    EXPECT(mkfifo(name, 0600) == 0);
    pthread_t feeder;
    EXPECT(pthread_create(&feeder, NULL, feed, name) == 0);
    CUmodule module;
    printf("from a pipe: %d\n", cuModuleLoad(&module, name));
    EXPECT(pthread_join(feeder, NULL) == 0);
    EXPECT(unlink(name) == 0 && rmdir(path) == 0);
}

int main(int count, char **words) {
    EXPECT(count == 2);
    read_image(words[1]);
    Gpu gpu = start();
    load("as it is", at_the_edge(image, length));
    static const uint64_t claims[] = {1 << 20, 1ull << 32, 1ull << 33, 1ull << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        unsigned char changed[MOST];
        memcpy(changed, image, length);
        memcpy(changed + 8, &claims[i], 8);
        char what[32];
        snprintf(what, sizeof what, "claims %llx", (unsigned long long)claims[i]);
        load(what, at_the_edge(changed, length));
    }
    load("text", at_the_edge(KERNELS, sizeof KERNELS));
    load_from_pipe();
    launch_nothing(&gpu, 1, NULL);
    CHECK(cuCtxSynchronize());
    puts("expected launches=1");
    return 0;
}
