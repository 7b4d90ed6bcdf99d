// Programs that allocate as known sorts of GPU programs do: the first argument is a name of the list at the end.
//
// What they compute is of no account: sizes, order and lifetimes are what they are for. `apex train foresee` learns from
// their sessions, and is judged on those that it has not learned from.
#include "program.h"

#include <string.h>

enum { MOST = 4096 };
#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static Gpu gpu;
static unsigned state = 12345;

static unsigned random_below(unsigned most) {
    state = state * 1664525u + 1013904223u;
    return (unsigned)((unsigned long long)(state >> 4) * most >> 28);
}

static CUdeviceptr get(size_t bytes) {
    CUdeviceptr memory;
    CHECK(cuMemAlloc_v2(&memory, bytes < 4 ? 4 : bytes));
    return memory;
}

static void give(CUdeviceptr memory) { CHECK(cuMemFree_v2(memory)); }

// Work that writes to a block, and a kernel after it.
static void use(CUdeviceptr memory) {
    CHECK(cuMemsetD32Async(memory, 0, 1, NULL));
    launch_nothing(&gpu, 1, NULL);
}

static void with(size_t bytes) {
    CUdeviceptr memory = get(bytes);
    use(memory);
    give(memory);
}

static void wait(void) { CHECK(cuStreamSynchronize(NULL)); }

// Blocks that are freed last first.
static CUdeviceptr stack[MOST];
static int depth;
static void push(size_t bytes) { use(stack[depth++] = get(bytes)); }
static void pop(void) { give(stack[--depth]); }
static void pop_all(void) {
    while (depth > 0)
        pop();
}

static void thrust_turn(size_t n) {
    push(4 * n), push(4 * n);
    with(8 * n + 767), with(n / 16 + 1023), with(n / 64 + 511), with(4 * n + 2047);
    wait(), pop_all();
}

static void thrust_loop(void) { for (int i = 0; i < 120; i++) thrust_turn(100000); }
static void thrust_shrinks(void) { for (int i = 0; i < 8; i++) for (size_t n = 1 << 20; n > 1000; n /= 2) thrust_turn(n); }
static void thrust_filters(void) { for (int i = 0; i < 100; i++) thrust_turn(50000 + random_below(50000)); }

static void vector_doubles(void) {
    for (int vector = 0; vector < 40; vector++) {
        size_t last = 16 * KIB << vector % 12, bytes = 4 * KIB;
        CUdeviceptr memory = get(bytes);
        for (; bytes < last; bytes *= 2) {
            CUdeviceptr larger = get(2 * bytes);
            use(larger), give(memory), memory = larger;
        }
        give(memory);
    }
}

static void hash_rehash(void) {
    for (int table = 0; table < 12; table++) {
        CUdeviceptr keys = get(64 * KIB), values = get(128 * KIB);
        for (size_t bytes = 128 * KIB; bytes <= 16 * MIB; bytes *= 2) {
            CUdeviceptr more_keys = get(bytes), more_values = get(2 * bytes), flags = get(bytes / 32);
            use(more_keys), give(flags), give(keys), give(values);
            keys = more_keys, values = more_values;
        }
        give(keys), give(values);
    }
}

static void tree_levels(void) {
    for (int tree = 0; tree < 24; tree++) {
        for (int level = 0; level < 16; level++)
            push((size_t)64 << level), with(((size_t)8 << level) + 256);
        wait(), pop_all();
    }
}

static void multigrid(void) {
    for (int cycle = 0; cycle < 30; cycle++) {
        for (size_t side = 512; side >= 8; side /= 2)
            push(side * side * 8), push(side * side * 8), with(side * side);
        wait(), pop_all();
    }
}

static void strassen(size_t side) {
    if (side < 128)
        return;
    int before = depth;
    for (int i = 0; i < 3; i++)
        push(side * side);
    for (int i = 0; i < 2; i++)
        strassen(side / 2);
    while (depth > before)
        pop();
}
static void strassen_products(void) { for (int i = 0; i < 12; i++) strassen(2048), wait(); }

static const size_t channels[] = {64, 64, 128, 128, 256, 256, 256, 512, 512, 512};
static void network(size_t batch, int trains) {
    for (int layer = 0; layer < 10; layer++) {
        size_t side = 56 >> layer / 3;
        push(batch * channels[layer] * side * side * 4), with(channels[layer] * 9 * 64 * 4);
    }
    if (trains)
        for (int layer = 9; layer >= 0; layer--)
            with(channels[layer] * 9 * 64 * 4), with(batch * channels[layer] * 256), pop();
    wait(), pop_all();
}
static void cnn_inference(void) { for (int i = 0; i < 40; i++) network(8, 0); }
static void cnn_training(void) { for (int i = 0; i < 24; i++) network(16, 1); }
static void cnn_last_batch(void) { for (int i = 0; i < 30; i++) network(i % 8 == 7 ? 5 : 16, 1); }
static void cnn_batch_sizes(void) { for (int i = 0; i < 40; i++) network((size_t)1 << random_below(5), 0); }

static void attention_layers(size_t length) {
    for (int layer = 0; layer < 6; layer++) {
        for (int i = 0; i < 3; i++)
            push(length * 768 * 2);
        with(length * length * 12 * 2), with(length * 3072 * 2);
        pop(), pop(), pop();
    }
    wait();
}
static void language_lengths(void) { for (int i = 0; i < 45; i++) attention_layers(16 + random_below(240)); }
static void language_buckets(void) { for (int i = 0; i < 45; i++) attention_layers((size_t)64 << random_below(3)); }

static void cache_grows(void) {
    for (int request = 0; request < 12; request++) {
        int tokens = 20 + (int)random_below(60);
        for (int token = 0; token < tokens; token++) {
            with(768 * 2);
            if (token % 16 == 0)
                push(16 * 768 * 4);
        }
        wait(), pop_all();
    }
}

static void mesh_adapts(void) {
    CUdeviceptr patches[64] = {0};
    for (int step = 0; step < 500; step++) {
        unsigned nth = random_below(64);
        if (patches[nth] != 0)
            give(patches[nth]), patches[nth] = 0;
        else
            use(patches[nth] = get((size_t)16 * KIB << 2 * random_below(3)));
        if (step % 20 == 0)
            with(64 * KIB), wait();
    }
    for (int i = 0; i < 64; i++)
        if (patches[i] != 0)
            give(patches[i]);
}

static void solver_cg(void) {
    for (int solve = 0; solve < 60; solve++) {
        for (int i = 0; i < 4; i++)
            push(800000);
        for (int i = 0; i < 5; i++)
            with(2048);
        wait(), pop_all();
    }
}
static void solver_restarts(void) {
    for (int solve = 0; solve < 14; solve++) {
        for (int i = 0; i < 20 + solve % 3 * 10; i++)
            push(400000), with(1024);
        wait(), pop_all();
    }
}
static void transforms(void) {
    static const size_t lengths[] = {1 << 10, 1 << 14, 1000, 1 << 18, 6561, 1 << 12};
    for (int i = 0; i < 240; i++)
        push(8 * lengths[i % 6]), with(16 * lengths[i % 6]), wait(), pop();
}
static void frontier(void) {
    for (int source = 0; source < 20; source++)
        for (int level = 0; level < 12; level++) {
            size_t n = (size_t)(1 << 16) * (size_t)(1 + (level < 6 ? level : 12 - level)) + random_below(9000);
            push(4 * n), with(n / 8), wait();
            if (depth > 2)
                pop_all();
        }
    pop_all();
}
static void clusters(void) {
    push(8 * MIB);
    for (int i = 0; i < 200; i++)
        with(64 * 1024), with(64 * 32 * 4), with(64 * 4), wait();
    pop_all();
}
static void generations(void) {
    for (int i = 0, people = 4000; i < 150; i++, people += (int)random_below(801) - 400)
        push((size_t)people * 128), with((size_t)people * 4), push((size_t)people * 64), wait(), pop_all();
}
static void pyramids(void) {
    for (int image = 0; image < 30; image++) {
        size_t width = image % 5 == 4 ? 1280 : 1920, height = image % 5 == 4 ? 720 : 1080;
        for (int level = 0; level < 6; level++, width /= 2, height /= 2)
            push(width * height * 4), with(width * height);
        wait(), pop_all();
    }
}
static void video(void) {
    static const char order[] = "IBBPBBPBBPBB";
    CUdeviceptr frames[3];
    for (int i = 0; i < 3; i++)
        frames[i] = get(1920 * 1088 * 3 / 2);
    for (int i = 0; i < 240; i++) {
        char kind = order[i % 12];
        with(kind == 'I' ? 2 * MIB : kind == 'P' ? 768 * KIB : 256 * KIB);
        with(kind == 'B' ? 65536 : 32768);
        if (kind != 'B')
            give(frames[i % 3]), use(frames[i % 3] = get(1920 * 1088 * 3 / 2));
    }
    for (int i = 0; i < 3; i++)
        give(frames[i]);
}
static void paths(void) { for (int i = 0; i < 250; i++) with(4 * MIB), with(64 * KIB), with(256), wait(); }
static void bounces(void) {
    for (int frame = 0; frame < 30; frame++) {
        push(8 * MIB);
        for (double rays = 1920 * 1080 / 4.0; rays > 5000; rays *= 0.55 + random_below(100) / 1000.0)
            with((size_t)rays * 48), with((size_t)rays * 4);
        wait(), pop_all();
    }
}
static void neighbours(void) {
    for (int i = 0; i < 200; i++)
        push(90000 * 12), push(4 * MIB + random_below(400) * KIB), with(90000 * 4), wait(), pop_all();
}
static void panels(void) {
    for (int matrix = 0; matrix < 12; matrix++)
        for (size_t side = 2048; side > 64; side -= 64)
            with(side * 64 * 8), with(64 * 64 * 8);
}
static void joins(void) {
    for (int query = 0; query < 40; query++) {
        int parts = 4 + (int)random_below(5);
        for (int i = 0; i < parts; i++)
            push(256 * KIB + random_below(64) * KIB), with(128 * KIB);
        for (int i = 0; i < parts; i++)
            with(512 * KIB);
        wait(), pop_all();
    }
}
static void wavefront(void) {
    for (int pair = 0; pair < 12; pair++)
        for (int diagonal = 1; diagonal < 60; diagonal++)
            with((size_t)(diagonal < 30 ? diagonal : 60 - diagonal) * 16 * KIB);
}
static void anything(void) {
    for (int i = 0; i < 400; i++) {
        size_t least = (size_t)256 << random_below(16);
        push(least + random_below((unsigned)least));
        if (depth > 8)
            pop_all();
    }
    pop_all();
}
static void phases(void) {
    for (int phase = 0; phase < 6; phase++)
        for (int i = 0; i < 60; i++)
            push((size_t)(1 + phase) * 100000), with((size_t)(phase % 3 + 1) * 7000), wait(), pop();
}
static void checkpoints(void) {
    for (int step = 0; step < 160; step++) {
        for (int i = 0; i < 3; i++)
            with(300000 + 100000 * (size_t)i);
        if (step % 20 == 19)
            for (int i = 0; i < 8; i++)
                push(2 * MIB);
        wait(), pop_all();
    }
}
static void servers(void) {
    for (int request = 0; request < 160; request++) {
        unsigned kind = random_below(4);
        for (unsigned i = 0; i <= kind; i++)
            push((50000 << kind) + 4096 * i), with(8192 << kind);
        wait(), pop_all();
    }
}

#define PROGRAM(name) {#name, name}
static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {
    PROGRAM(thrust_loop), PROGRAM(thrust_shrinks), PROGRAM(thrust_filters), PROGRAM(vector_doubles), PROGRAM(hash_rehash),
    PROGRAM(tree_levels), PROGRAM(multigrid), PROGRAM(strassen_products), PROGRAM(cnn_inference), PROGRAM(cnn_training),
    PROGRAM(cnn_last_batch), PROGRAM(cnn_batch_sizes), PROGRAM(language_lengths), PROGRAM(language_buckets),
    PROGRAM(cache_grows), PROGRAM(mesh_adapts), PROGRAM(solver_cg), PROGRAM(solver_restarts), PROGRAM(transforms),
    PROGRAM(frontier), PROGRAM(clusters), PROGRAM(generations), PROGRAM(pyramids), PROGRAM(video), PROGRAM(paths),
    PROGRAM(bounces), PROGRAM(neighbours), PROGRAM(panels), PROGRAM(joins), PROGRAM(wavefront), PROGRAM(anything),
    PROGRAM(phases), PROGRAM(checkpoints), PROGRAM(servers),
};

int main(int count, char **words) {
    int all = sizeof programs / sizeof *programs;
    if (count > 1 && strcmp(words[1], "names") == 0) {
        for (int i = 0; i < all; i++)
            puts(programs[i].name);
        return 0;
    }
    for (int i = 0; count > 1 && i < all; i++)
        if (strcmp(words[1], programs[i].name) == 0) {
            gpu = start();
            programs[i].run();
            CHECK(cuCtxSynchronize());
            return 0;
        }
    fprintf(stderr, "the first argument is the name of a program, or names\n");
    return 2;
}
