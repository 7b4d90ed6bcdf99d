// Asks the driver how many blocks fit on a multiprocessor, for many kernels and launches.
//
// `occupancy_sweep FILE [ROWS] [SEED]` writes the table that `check_occupancy` reads, and
// the device's compute capability to standard output. Kernels cannot be given a register
// count, so they are made as PTX that holds many values at once and are compiled under a
// cap on registers, each with its own amount of static shared memory and some with a
// bound on the block size. Every number in the table is read back from the driver,
// never what was asked for.
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        CUresult status = (call);                                                          \
        if (status != CUDA_SUCCESS) {                                                      \
            const char* text = nullptr;                                                    \
            cuGetErrorString(status, &text);                                               \
            fprintf(stderr, "line %d: %s\n", __LINE__, text ? text : "unknown error");     \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

constexpr int kKernels = 240;
constexpr int kKiB = 1024;

static std::mt19937 random_source;

static int between(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_source);
}

// A kernel that loads `held` values before it stores the first: volatile accesses keep
// their order, so all values are alive at once. Shared memory is written so that it stays.
static std::string ptx_holding(int held, int static_shared, int max_threads) {
    std::string text = ".version 7.8\n.target sm_75\n.address_size 64\n"
                       ".visible .entry probe(.param .u64 memory)\n";
    if (max_threads) text += ".maxntid " + std::to_string(max_threads) + ", 1, 1\n";
    text += "{\n.reg .b64 %address;\n.reg .b32 %value<" + std::to_string(held) + ">;\n";
    if (static_shared) {
        text += ".shared .align 4 .b8 buffer[" + std::to_string(static_shared) + "];\n";
    }
    text += "ld.param.u64 %address, [memory];\ncvta.to.global.u64 %address, %address;\n";
    for (int index = 0; index < held; index++) {
        text += "ld.volatile.global.u32 %value" + std::to_string(index) + ", [%address+" +
                std::to_string(4 * index) + "];\n";
    }
    if (static_shared) text += "st.volatile.shared.u8 [buffer], %value0;\n";
    for (int index = 0; index < held; index++) {
        text += "st.volatile.global.u32 [%address+" + std::to_string(4 * (held - 1 - index)) +
                "], %value" + std::to_string(index) + ";\n";
    }
    return text + "ret;\n}\n";
}

static CUfunction load(const std::string& ptx, unsigned register_cap) {
    CUjit_option options[] = {CU_JIT_MAX_REGISTERS};
    void* values[] = {reinterpret_cast<void*>(static_cast<uintptr_t>(register_cap))};
    CUmodule module;
    CUfunction function;
    CHECK(cuModuleLoadDataEx(&module, ptx.c_str(), register_cap ? 1 : 0, options, values));
    CHECK(cuModuleGetFunction(&function, module, "probe"));
    return function;
}

static int attribute(CUfunction function, CUfunction_attribute name) {
    int value = 0;
    CHECK(cuFuncGetAttribute(&value, name, function));
    return value;
}

static int static_shared_size() {
    switch (between(0, 3)) {
        case 0: return 0;
        case 1: return between(1, 4 * kKiB);
        case 2: return kKiB * between(1, 48);
        default: return between(1, 48 * kKiB);
    }
}

int main(int argc, char** argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: occupancy_sweep FILE [ROWS] [SEED]\n");
        return 2;
    }
    const int rows = argc > 2 ? atoi(argv[2]) : 20000;
    random_source.seed(argc > 3 ? atoi(argv[3]) : 1);

    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    int major, minor, optin;
    CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    CHECK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    CHECK(cuDeviceGetAttribute(&optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                               device));

    std::vector<CUfunction> functions;
    std::map<int, int> register_counts;
    for (int index = 0; index < kKernels; index++) {
        // The caps run through all counts; one kernel in four is left to the compiler, which
        // alone gives out fewer than 16, and one in five is bound to a block size.
        const bool capped = index % 4 != 0;
        const int max_threads = index % 5 == 1 ? 32 * between(1, 32) : 0;
        const std::string ptx = ptx_holding(capped ? kKernels : 1 + index, static_shared_size(),
                                            max_threads);
        functions.push_back(load(ptx, capped ? 16 + index : 0));
        register_counts[attribute(functions.back(), CU_FUNC_ATTRIBUTE_NUM_REGS)]++;
    }
    fprintf(stderr, "%zu kernels with %zu register counts from %d to %d\n", functions.size(),
            register_counts.size(), register_counts.begin()->first,
            register_counts.rbegin()->first);

    FILE* table = fopen(argv[1], "w");
    if (!table) {
        perror(argv[1]);
        return 1;
    }
    fprintf(table, "registers,static_shared,dynamic_shared,max_dynamic_shared,block,carveout,"
                   "blocks_from_driver,max_threads_per_block\n");
    std::map<int, int> refusals;
    int written = 0;
    for (int row = 0; row < rows; row++) {
        CUfunction function = functions[row % functions.size()];
        const int static_shared = attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);

        const int limits[] = {48 * kKiB - static_shared, optin - static_shared,
                              between(0, optin - static_shared)};
        const CUfunction_attribute dynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        const CUfunction_attribute carveout = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        CHECK(cuFuncSetAttribute(function, dynamic, std::max(0, limits[between(0, 2)])));
        CHECK(cuFuncSetAttribute(function, carveout, between(0, 2) ? between(0, 100) : -1));
        const int max_dynamic = attribute(function, dynamic);

        // Sizes of a few KiB decide between many block counts, so they come often; one in
        // thirty asks for more than is allowed.
        int dynamic_shared = 0;
        switch (between(0, 3)) {
            case 0: dynamic_shared = between(0, max_dynamic); break;
            case 1: dynamic_shared = between(0, max_dynamic / 8); break;
            case 2: dynamic_shared = std::min(max_dynamic, kKiB * between(0, 32)); break;
            default: break;
        }
        if (between(0, 29) == 0) dynamic_shared = max_dynamic + between(1, kKiB);
        const int block = between(0, 1) ? between(1, 1024) : 32 * between(1, 32);

        int blocks = 0;
        CUresult status = cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, block,
                                                                      dynamic_shared);
        if (status != CUDA_SUCCESS) {
            refusals[status]++;
            continue;
        }
        fprintf(table, "%d,%d,%d,%d,%d,%d,%d,%d\n",
                attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS), static_shared, dynamic_shared,
                max_dynamic, block, attribute(function, carveout), blocks,
                attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
        written++;
    }
    fclose(table);
    for (const auto& [status, count] : refusals) {
        fprintf(stderr, "the driver refused %d questions with error %d\n", count, status);
    }
    fprintf(stderr, "%d rows\n", written);
    printf("%d %d\n", major, minor);
    return 0;
}
