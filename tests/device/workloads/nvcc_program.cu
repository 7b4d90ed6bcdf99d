// A program of the runtime API that touches what such programs use: streams, events,
// asynchronous copies, memset, several kernels, a cooperative launch, a captured graph.
//
// All arithmetic is on integers, so the digest on standard output (64-bit FNV-1a of the
// results) is the same on every device. It is built with the static and with the shared
// runtime, which reach the driver by different ways.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t status = (call);                                                       \
        if (status != cudaSuccess) {                                                       \
            fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(status));        \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

constexpr int kCount = 1 << 16;
constexpr int kThreads = 256;
constexpr int kGraphLaunches = 10;

__global__ void fill(uint32_t* values, int count, uint32_t seed) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) values[index] = (index * 2654435761u) ^ seed;
}

__global__ void mix(uint32_t* values, const uint32_t* other, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) values[index] = values[index] * 1664525u + other[count - 1 - index];
}

__global__ void reverse_in_block(uint32_t* values) {
    extern __shared__ uint32_t held[];
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = values[index];
    __syncthreads();
    values[index] = held[blockDim.x - 1 - threadIdx.x];
}

// Every block adds to one sum, and after the whole grid met, every value takes the sum.
__global__ void sum_and_spread(uint32_t* values, uint32_t* sum, int count) {
    auto grid = cooperative_groups::this_grid();
    uint32_t own = 0;
    for (int index = grid.thread_rank(); index < count; index += grid.size()) own += values[index];
    atomicAdd(sum, own);
    grid.sync();
    for (int index = grid.thread_rank(); index < count; index += grid.size()) values[index] ^= *sum;
}

static uint64_t digest_of(uint64_t digest, const void* bytes, size_t size) {
    const unsigned char* next = static_cast<const unsigned char*>(bytes);
    for (size_t index = 0; index < size; index++) digest = (digest ^ next[index]) * 1099511628211ull;
    return digest;
}

int main(int argc, char** argv) {
    int steps = 3;
    for (int index = 1; index + 1 < argc; index++) {
        if (strcmp(argv[index], "--steps") == 0) steps = atoi(argv[index + 1]);
    }

    const size_t bytes = kCount * sizeof(uint32_t);
    const int blocks = kCount / kThreads;
    uint32_t *left, *right, *sum, *pinned;
    CHECK(cudaMalloc(&left, bytes));
    CHECK(cudaMalloc(&right, bytes));
    CHECK(cudaMalloc(&sum, sizeof(uint32_t)));
    CHECK(cudaMallocHost(&pinned, bytes));
    cudaStream_t first, second;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    cudaEvent_t filled, begin, end;
    CHECK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));

    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
    mix<<<blocks, kThreads, 0, first>>>(left, right, kCount);
    reverse_in_block<<<blocks, kThreads, kThreads * sizeof(uint32_t), first>>>(left);
    mix<<<blocks, kThreads, 0, first>>>(right, left, kCount);
    CHECK(cudaStreamEndCapture(first, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));

    int blocks_per_sm = 0, sms = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_sm, sum_and_spread, kThreads, 0));
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    const int together = blocks_per_sm * sms < blocks ? blocks_per_sm * sms : blocks;

    uint64_t digest = 14695981039346656037ull;
    for (int step = 0; step < steps; step++) {
        CHECK(cudaEventRecord(begin, first));
        fill<<<blocks, kThreads, 0, first>>>(left, kCount, step);
        fill<<<blocks, kThreads, 0, second>>>(right, kCount, ~step);
        CHECK(cudaEventRecord(filled, second));
        CHECK(cudaStreamWaitEvent(first, filled, 0));
        mix<<<blocks, kThreads, 0, first>>>(left, right, kCount);

        for (int launch = 0; launch < kGraphLaunches; launch++) {
            CHECK(cudaGraphLaunch(executable, first));
        }

        CHECK(cudaMemsetAsync(sum, 0, sizeof(uint32_t), first));
        int count = kCount;
        void* arguments[] = {&left, &sum, &count};
        CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(sum_and_spread),
                                          dim3(together), dim3(kThreads), arguments, 0, first));
        CHECK(cudaMemcpyAsync(pinned, left, bytes, cudaMemcpyDeviceToHost, first));
        CHECK(cudaEventRecord(end, first));
        CHECK(cudaEventSynchronize(end));
        float milliseconds = 0;
        CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        digest = digest_of(digest, pinned, bytes);

        CHECK(cudaMemcpyAsync(right, pinned, bytes, cudaMemcpyHostToDevice, second));
        CHECK(cudaStreamSynchronize(second));
        CHECK(cudaMemset(right, step, bytes / 2));
        mix<<<blocks, kThreads>>>(right, left, kCount);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(pinned, right, bytes, cudaMemcpyDeviceToHost));
        digest = digest_of(digest, pinned, bytes);
    }
    printf("%016llx\n", static_cast<unsigned long long>(digest));

    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(filled));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(sum));
    CHECK(cudaFree(right));
    CHECK(cudaFree(left));
    return 0;
}
