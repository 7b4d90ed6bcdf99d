// Programs that do one thing badly, or well: the first argument is the name of a rule of the adviser, the second
// "bad" for what the rule must find, or "good" for what it must not.
#include "program.h"

#include <string.h>
#include <unistd.h>

enum { N = 1 << 14, ROUNDS = 64, SMALL = 64 };

static Gpu gpu;
static CUstream stream;
static CUdeviceptr a, b, c, d;

// Kernels with much of what a multiprocessor has little of, as PTX text.
static char needy[1 << 16];

static CUdeviceptr memory(size_t bytes) {
    CUdeviceptr address;
    CHECK(cuMemAlloc_v2(&address, bytes));
    CHECK(cuMemsetD8_v2(address, 0, bytes));
    return address;
}

static void add(unsigned blocks, unsigned threads, CUstream where) {
    unsigned n = N;
    void *parameters[] = {&a, &b, &c, &n};
    CHECK(cuLaunchKernel(gpu.add, blocks, 1, 1, threads, 1, 1, 0, where, parameters, NULL));
}

static void scale(CUdeviceptr x, unsigned blocks, unsigned threads, CUstream where) {
    unsigned n = N;
    float by = 1;
    void *parameters[] = {&x, &by, &n};
    CHECK(cuLaunchKernel(gpu.scale, blocks, 1, 1, threads, 1, 1, 0, where, parameters, NULL));
}

static void wait(void) { CHECK(cuStreamSynchronize(stream)); }

// Launches one shape some times.
static void shape(unsigned blocks, unsigned threads) {
    for (int i = 0; i < 8; i++)
        add(blocks, threads, stream);
    wait();
}

// A kernel that keeps `registers` values alive at once, or that has `shared` bytes of shared memory.
static CUfunction needy_kernel(unsigned registers, unsigned shared) {
    char *at = needy;
    at += sprintf(at, ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry needy(.param .u64 x)\n{\n");
    at += sprintf(at, ".reg .b64 %%d<2>; .reg .b32 %%r<%u>;\n", registers + 1);
    if (shared > 0)
        at += sprintf(at, ".shared .align 4 .b8 tile[%u];\nmov.u32 %%r0, 0; st.shared.u32 [tile], %%r0;\n", shared);
    at += sprintf(at, "ld.param.u64 %%d0, [x]; cvta.to.global.u64 %%d1, %%d0;\n");
    for (unsigned i = 0; i < registers; i++)
        at += sprintf(at, "ld.global.u32 %%r%u, [%%d1+%u];\n", i, 4 * i);
    for (unsigned i = 0; i < registers; i++)
        at += sprintf(at, "st.global.u32 [%%d1+%u], %%r%u;\n", 4 * (registers - 1 - i), i);
    sprintf(at, "ret;\n}\n");
    CUmodule module;
    CUfunction function;
    CHECK(cuModuleLoadData(&module, needy));
    CHECK(cuModuleGetFunction(&function, module, "needy"));
    return function;
}

static void needy_launches(unsigned registers, unsigned shared, unsigned blocks, unsigned threads) {
    CUfunction function = needy_kernel(registers, shared);
    void *parameters[] = {&a};
    for (int i = 0; i < 4; i++)
        CHECK(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL));
    wait();
}

static void block_not_multiple_of_warp(int bad) { shape(512, bad ? 48 : 64); }
static void critical_small_block(int bad) { shape(bad ? 132 * 64 : 132 * 16, bad ? 32 : 128); }
static void very_large_block(int bad) { shape(132 * 8, bad ? 768 : 1024); }
static void small_grid(int bad) { shape(bad ? 8 : 1056, 256); }
static void under_utilisation(int bad) { shape(bad ? 264 : 1056, 256); }
static void tail_effect(int bad) { shape(bad ? 1320 : 2112, 256); }
// What praises is provoked by what is well done.
static void excellent(int bad) { shape(bad ? 2112 : 1320, 256); }
static void occupancy_registers(int bad) { needy_launches(bad ? 120 : 8, 0, 132 * 9, 256); }
static void occupancy_shared_memory(int bad) { needy_launches(4, bad ? 48 << 10 : 1 << 10, 132 * 17, 128); }
static void occupancy_block_size(int bad) { shape(40 * 12, bad ? 352 : 256); }
static void register_granule(int bad) { needy_launches(bad ? 36 : 8, 0, 132 * 9, 256); }

static void launch_bound(int bad) {
    for (int i = 0; i < 240; i++) {
        add(bad ? 1 + i % 24 : 512 + i % 24, 128, stream);
        if (bad) {
            wait();
            usleep(1500);
        }
    }
    wait();
}

static void repeated_sequence(int bad) {
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned more = bad ? 0 : i * i % 61;
        add(4 + more, 64, stream);
        scale(c, 5 + more, 64, stream);
        scale(d, 6, 64, stream);
    }
    wait();
}

static void graph_reinstantiation(int bad) {
    CUgraph graph;
    CUgraphExec exec = NULL;
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < 4; i++)
        scale(c, 4, 64, stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    for (int i = 0; i < 20; i++) {
        if (bad || exec == NULL)
            CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        CHECK(cuGraphLaunch(exec, stream));
        if (bad) {
            wait();
            CHECK(cuGraphExecDestroy(exec));
        }
    }
    wait();
}

static void allocation_churn(int bad) {
    CUdeviceptr kept = bad ? 0 : memory(N * 4);
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr x = bad ? memory(N * 4) : kept;
        scale(x, 4, 64, stream);
        if (bad)
            CHECK(cuMemFree_v2(x));
    }
    wait();
}

// A size that never comes again is of no use to anybody.
static void kept_memory(int bad) {
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr x = memory(N * 4 + (bad ? 0 : 4096 * i));
        scale(x, 4, 64, stream);
        CHECK(cuMemFree_v2(x));
    }
}

static void pinning_in_loop(int bad) {
    void *kept;
    CHECK(cuMemHostAlloc(&kept, N, 0));
    for (int i = 0; i < ROUNDS; i++) {
        void *staging = kept;
        if (bad)
            CHECK(cuMemHostAlloc(&staging, N, 0));
        CHECK(cuMemcpyHtoDAsync_v2(a, staging, N, stream));
        add(4, 64, stream);
        wait();
        if (bad)
            CHECK(cuMemFreeHost(staging));
    }
}

static void object_churn(int bad) {
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < ROUNDS; i++) {
        CUevent own = event;
        if (bad)
            CHECK(cuEventCreate(&own, CU_EVENT_DISABLE_TIMING));
        add(4, 64, stream);
        CHECK(cuEventRecord(own, stream));
        if (bad)
            CHECK(cuEventDestroy_v2(own));
    }
    wait();
}

static void implicit_synchronisation(int bad) {
    float first;
    for (int i = 0; i < ROUNDS; i++) {
        add(64, 256, stream);
        if (bad)
            CHECK(cuMemcpyDtoH_v2(&first, c, sizeof first));
    }
    wait();
    CHECK(cuMemcpyDtoH_v2(&first, c, sizeof first));
}

static void pageable_copies(int bad) {
    size_t bytes = 1 << 20;
    CUdeviceptr to = memory(bytes);
    void *from = malloc(bytes);
    if (!bad)
        CHECK(cuMemHostAlloc(&from, bytes, 0));
    memset(from, 1, bytes);
    for (int i = 0; i < 8; i++) {
        CHECK(cuMemcpyHtoDAsync_v2(to, from, bytes, stream));
        add(4, 64, stream);
    }
    wait();
}

static void tiny_copies(int bad) {
    static char bytes[100 * SMALL];
    for (int i = 0; i < 100 && bad; i++)
        CHECK(cuMemcpyHtoDAsync_v2(a + i * SMALL, bytes + i * SMALL, SMALL, stream));
    if (!bad)
        CHECK(cuMemcpyHtoDAsync_v2(a, bytes, sizeof bytes, stream));
    shape(4, 64);
}

static void redundant_upload(int bad) {
    static float values[N];
    for (int i = 0; i < 16; i++) {
        if (!bad)
            values[7] = (float)i;
        CHECK(cuMemcpyHtoD_v2(a, values, sizeof values));
        add(4, 64, stream);
        wait();
    }
}

static void default_stream(int bad) {
    CUstream other;
    CHECK(cuStreamCreate(&other, bad ? 0 : CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ROUNDS; i++) {
        scale(c, 4, 64, other);
        scale(d, 4, 64, NULL);
    }
    CHECK(cuCtxSynchronize());
}

static void idle_sms(int bad) {
    for (int i = 0; i < ROUNDS; i++) {
        scale(c, 4, 64, stream);
        scale(bad ? d : c, 5, 64, stream);
    }
    wait();
}

static void fusion_candidate(int bad) {
    for (int i = 0; i < ROUNDS; i++) {
        add(N / 256, 256, stream);
        scale(bad ? c : d, N / 256, 256, stream);
    }
    wait();
}

static void late_loading(int bad) {
    CUmodule kept;
    CHECK(cuModuleLoadData(&kept, KERNELS));
    for (int i = 0; i < 16; i++) {
        CUmodule module = kept;
        CUfunction nothing;
        if (bad)
            CHECK(cuModuleLoadData(&module, KERNELS));
        CHECK(cuModuleGetFunction(&nothing, module, "nothing"));
        CHECK(cuLaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
        wait();
        if (bad)
            CHECK(cuModuleUnload(module));
    }
}

static void memory_leak(int bad) {
    for (int i = 0; i < ROUNDS && !bad; i++)
        memory(1 << 16);
    for (int i = 0; i < ROUNDS; i++) {
        if (bad)
            memory(1 << 16);
        add(4, 64, stream);
        wait();
        usleep(500);
    }
}

static void multi_gpu_imbalance(int bad) {
    int count;
    CHECK(cuDeviceGetCount(&count));
    EXPECT(count == 2);
    for (int nth = 0; nth < 2; nth++) {
        CUcontext context;
        CHECK(cuCtxCreate_v2(&context, 0, nth));
        CHECK(cuModuleLoadData(&gpu.module, KERNELS));
        CHECK(cuModuleGetFunction(&gpu.add, gpu.module, "add"));
        a = memory(N * 4), b = memory(N * 4), c = memory(N * 4);
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < (bad && nth == 1 ? 8 : 80); i++)
            add(N / 256, 256, stream);
        wait();
    }
}

static void device_wide_wait(int bad) {
    CUstream other;
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 16; i++) {
        scale(c, 4, 64, stream);
        scale(d, 4, 64, other);
        if (bad)
            CHECK(cuCtxSynchronize());
        else
            wait();
    }
    CHECK(cuCtxSynchronize());
}

static void wait_per_launch(int bad) {
    for (int i = 0; i < ROUNDS; i++) {
        add(4, 64, stream);
        if (bad)
            wait();
    }
    wait();
}

// The clocks are told by who runs this.
static void clock_throttling(int bad) {
    (void)bad;
    shape(64, 256);
    usleep(300 * 1000);
}

#define CASE(name, function) {name, function}
static const struct {
    const char *rule;
    void (*run)(int bad);
} CASES[] = {
    CASE("block-not-multiple-of-warp", block_not_multiple_of_warp),
    CASE("critical-small-block", critical_small_block),
    CASE("very-large-block", very_large_block),
    CASE("small-grid", small_grid),
    CASE("under-utilisation", under_utilisation),
    CASE("tail-effect", tail_effect),
    CASE("excellent", excellent),
    CASE("occupancy-registers", occupancy_registers),
    CASE("occupancy-shared-memory", occupancy_shared_memory),
    CASE("occupancy-block-size", occupancy_block_size),
    CASE("register-granule", register_granule),
    CASE("launch-bound", launch_bound),
    CASE("repeated-sequence", repeated_sequence),
    CASE("graph-reinstantiation", graph_reinstantiation),
    CASE("allocation-churn", allocation_churn),
    CASE("kept-memory", kept_memory),
    CASE("pinning-in-loop", pinning_in_loop),
    CASE("object-churn", object_churn),
    CASE("implicit-synchronisation", implicit_synchronisation),
    CASE("pageable-copies", pageable_copies),
    CASE("tiny-copies", tiny_copies),
    CASE("redundant-upload", redundant_upload),
    CASE("default-stream", default_stream),
    CASE("idle-sms", idle_sms),
    CASE("fusion-candidate", fusion_candidate),
    CASE("late-loading", late_loading),
    CASE("memory-leak", memory_leak),
    CASE("multi-gpu-imbalance", multi_gpu_imbalance),
    CASE("device-wide-wait", device_wide_wait),
    CASE("wait-per-launch", wait_per_launch),
    CASE("clock-throttling", clock_throttling),
};

int main(int count, char **words) {
    EXPECT(count == 3);
    gpu = start();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    a = memory(N * 4), b = memory(N * 4), c = memory(N * 4), d = memory(N * 4);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        if (strcmp(CASES[i].rule, words[1]) == 0) {
            CASES[i].run(strcmp(words[2], "bad") == 0);
            printf("%s %s\n", words[1], words[2]);
            return 0;
        }
    }
    fprintf(stderr, "there is no case for %s\n", words[1]);
    return 2;
}
