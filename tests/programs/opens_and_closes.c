// Ten thousand bursts of one launch and one wait, and nothing grows: neither memory nor open files.
#include "program.h"

#include <dirent.h>
#include <unistd.h>

static long resident_pages(void) {
    long all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file != NULL && fscanf(file, "%ld %ld", &all, &resident) == 2);
    fclose(file);
    return resident;
}

static int open_files(void) {
    int files = 0;
    DIR *directory = opendir("/proc/self/fd");
    EXPECT(directory != NULL);
    while (readdir(directory) != NULL)
        files += 1;
    closedir(directory);
    return files;
}

int main(int count, char **words) {
    int cycles = count > 1 ? atoi(words[1]) : 10000;
    Gpu gpu = start();
    long pages = 0;
    int files = 0;
    for (int i = 0; i < cycles; i++) {
        if (i == cycles / 10) {
            pages = resident_pages();
            files = open_files();
        }
        launch_nothing(&gpu, 4, NULL);
        CHECK(cuCtxSynchronize());
    }
    // A ring of the recorder may still touch pages it had reserved; a leak per cycle would be far more.
    EXPECT(resident_pages() - pages < 1024);
    EXPECT(open_files() == files);
    printf("expected launches=%d sync=%d\n", cycles, cycles);
    return 0;
}
