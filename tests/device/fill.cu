// Programs that fill 98 % of the device with memory of their own, alone and two at a time.
//
//   fill alone SECONDS   one process keeps 98 % of what is free filled with blocks of changing sizes
//   fill pair SECONDS    two processes at once, each between a tenth of that and half of it
//   fill turns SECONDS   two processes in turns: one gives everything back, then the other fills 85 % or 98 %
//
// No allocation may be refused that the sum of what both have leaves room for. Each block holds its own number, which is
// looked at before it is freed. Exit code 0 is right, 4 a refusal, 5 a wrong number.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                                                     \
    do {                                                                                                \
        cudaError_t result_ = (call);                                                                   \
        if (result_ != cudaSuccess) {                                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(result_));            \
            exit(3);                                                                                    \
        }                                                                                               \
    } while (0)

static const size_t MIB = 1 << 20;
static const size_t GRAIN = 2 * MIB;

struct Block {
    char *at;
    size_t bytes;
    int number;
};

struct Filler {
    const char *name;
    std::vector<Block> blocks;
    size_t held = 0, most = 0;
    unsigned long long seed;
    int numbers = 0;

    explicit Filler(const char *name, unsigned long long seed) : name(name), seed(seed) {}

    size_t random(size_t below) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        return (size_t)(seed >> 33) % below;
    }

    // Blocks of a thirty-second of the goal or less, until no grain more fits below it.
    void grow(size_t goal) {
        while (held + GRAIN <= goal) {
            size_t most_bytes = goal / 32 / GRAIN * GRAIN;
            size_t bytes = GRAIN * (1 + random((most_bytes > GRAIN ? most_bytes : GRAIN) / GRAIN));
            if (held + bytes > goal)
                bytes = (goal - held) / GRAIN * GRAIN;
            Block block = {nullptr, bytes, ++numbers};
            cudaError_t result = cudaMalloc(&block.at, bytes);
            if (result != cudaSuccess) {
                size_t free = 0, total = 0;
                cudaMemGetInfo(&free, &total);
                printf("%s: refused %zu MiB with %zu of %zu MiB held, %zu free: %s\n", name, bytes / MIB, held / MIB, goal / MIB,
                       free / MIB, cudaGetErrorString(result));
                exit(4);
            }
            CHECK(cudaMemset(block.at, block.number & 0xff, bytes));
            held += bytes;
            blocks.push_back(block);
        }
        most = held > most ? held : most;
    }

    void shrink(size_t goal) {
        while (held > goal && !blocks.empty()) {
            size_t nth = random(blocks.size());
            Block block = blocks[nth];
            unsigned char ends[2];
            CHECK(cudaMemcpy(ends, block.at, 1, cudaMemcpyDeviceToHost));
            CHECK(cudaMemcpy(ends + 1, block.at + block.bytes - 1, 1, cudaMemcpyDeviceToHost));
            if (ends[0] != (block.number & 0xff) || ends[1] != (block.number & 0xff)) {
                printf("%s: block %d holds %d and %d\n", name, block.number & 0xff, ends[0], ends[1]);
                exit(5);
            }
            CHECK(cudaFree(block.at));
            held -= block.bytes;
            blocks[nth] = blocks.back();
            blocks.pop_back();
        }
    }
};

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static char wait_for(int pipe) {
    char word = 0;
    if (read(pipe, &word, 1) != 1)
        exit(6);
    return word;
}

static void tell(int pipe, char word) {
    if (write(pipe, &word, 1) != 1)
        exit(6);
}

// One of two processes: `in` and `out` are its ends of the pipes between them.
static void one_of_two(bool is_turns, bool is_first, double seconds, int in, int out) {
    CHECK(cudaFree(nullptr));
    // Both contexts are there before the room is measured.
    tell(out, 'c');
    wait_for(in);
    size_t free, total;
    CHECK(cudaMemGetInfo(&free, &total));
    tell(out, 'm');
    wait_for(in);
    size_t room = (size_t)(free * 0.98);
    Filler filler(is_first ? "first" : "second", is_first ? 1 : 2);
    double until = now() + seconds;
    int turns = 0;
    if (!is_turns) {
        for (; now() < until; turns++) {
            filler.grow(room / 2 - filler.random(room / 4));
            filler.grow(room / 2);
            filler.shrink(room / 10 + filler.random(room / 4));
        }
        filler.shrink(0);
    } else {
        for (bool is_mine = is_first;; is_mine = !is_mine) {
            if (!is_mine) {
                if (wait_for(in) == 'e')
                    break;
                continue;
            }
            // With less than all of it, nobody has reason to think that memory is scarce.
            filler.grow(turns % 2 ? room : room / 100 * 85);
            filler.shrink(0);
            CHECK(cudaDeviceSynchronize());
            turns++;
            bool is_over = now() > until;
            tell(out, is_over ? 'e' : 't');
            if (is_over)
                break;
        }
    }
    printf("%s: %d turns, %d blocks, %zu of %zu MiB held at most\n", filler.name, turns, filler.numbers, filler.most / MIB,
           free / MIB);
    exit(0);
}

int main(int count, char **words) {
    double seconds = count > 2 ? atof(words[2]) : 0;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (count != 3 || seconds <= 0) {
        fprintf(stderr, "usage: fill alone|pair|turns SECONDS\n");
        return 2;
    }
    if (!strcmp(words[1], "alone")) {
        size_t free, total;
        CHECK(cudaMemGetInfo(&free, &total));
        size_t room = (size_t)(free * 0.98);
        Filler filler("alone", 1);
        double until = now() + seconds;
        int turns = 0;
        for (; now() < until; turns++) {
            filler.grow(room);
            filler.shrink(room / 10 + filler.random(room * 8 / 10));
        }
        filler.shrink(0);
        printf("alone: %d turns, %d blocks, %zu of %zu MiB held at most\n", turns, filler.numbers, filler.most / MIB, free / MIB);
        return 0;
    }
    bool is_turns = !strcmp(words[1], "turns");
    int there[2], back[2], code = 0;
    if (pipe(there) || pipe(back))
        return 6;
    // No call of CUDA before this: each has a process of its own.
    for (bool is_first : {true, false})
        if (fork() == 0) {
            // Who is left alone is to see it.
            close(is_first ? there[0] : back[0]), close(is_first ? back[1] : there[1]);
            one_of_two(is_turns, is_first, seconds, is_first ? back[0] : there[0], is_first ? there[1] : back[1]);
        }
    close(there[0]), close(there[1]), close(back[0]), close(back[1]);
    for (int nth = 0; nth < 2; nth++) {
        int status;
        wait(&status);
        int ended = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        code = ended > code ? ended : code;
    }
    return code;
}
