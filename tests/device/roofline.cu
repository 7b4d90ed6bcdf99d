// Kernels whose operations and bytes follow from their sources, and one whose loop depends on data.
//
// `roofline [PART]` launches each of them; PART makes everything smaller by so much, for a slow device. What each does in
// one launch is printed: name, operations, bytes beyond the nearest cache (0 where data decides).
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                                         \
    do {                                                                                    \
        cudaError_t status = (call);                                                        \
        if (status != cudaSuccess) {                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(status));         \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

constexpr int kTile = 32, kBlock = 256;

extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void chain_single(float *a, int steps, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];
    for (int step = 0; step < steps; step++) x = fmaf(x, by, by);
    a[i] = x;
}

extern "C" __global__ void chain_double(double *a, int steps, double by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = a[i];
    for (int step = 0; step < steps; step++) x = fma(x, by, by);
    a[i] = x;
}

extern "C" __global__ void product(const float *a, const float *b, float *c, int side) {
    __shared__ float part_a[kTile][kTile], part_b[kTile][kTile];
    int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
    float sum = 0;
    for (int at = 0; at < side; at += kTile) {
        part_a[threadIdx.y][threadIdx.x] = a[row * side + at + threadIdx.x];
        part_b[threadIdx.y][threadIdx.x] = b[(at + threadIdx.y) * side + column];
        __syncthreads();
        for (int k = 0; k < kTile; k++) sum = fmaf(part_a[threadIdx.y][k], part_b[k][threadIdx.x], sum);
        __syncthreads();
    }
    c[row * side + column] = sum;
}

extern "C" __global__ void follow(const int *next, int *out) {
    int at = threadIdx.x, turns = 0;
    while (at != 0) at = next[at], turns++;
    out[threadIdx.x] = turns;
}

int main(int count, char **words) {
    int part = count > 1 ? atoi(words[1]) : 1, times = part > 1 ? 3 : 30;
    int n = (64 << 20) / part, threads = (4 << 20) / part, steps = 1024, side = 2048;
    while (part > 1 && side > 256) side /= 2, part /= 4;
    float *a, *b, *c;
    CHECK(cudaMalloc(&a, n * 4L));
    CHECK(cudaMalloc(&b, n * 4L));
    CHECK(cudaMalloc(&c, n * 4L));
    CHECK(cudaMemset(a, 0, n * 4L));
    CHECK(cudaMemset(b, 0, n * 4L));
    dim3 tiles(side / kTile, side / kTile), tile(kTile, kTile);
    for (int i = 0; i < times; i++) {
        add<<<n / kBlock, kBlock>>>(a, b, c, n);
        chain_single<<<threads / kBlock, kBlock>>>(a, steps, 0.5f);
        chain_double<<<threads / kBlock, kBlock>>>((double *)b, steps, 0.5);
        product<<<tiles, tile>>>(a, b, c, side);
        CHECK(cudaMemset(c, 0, 4096));
        follow<<<1, kBlock>>>((int *)c, (int *)c);
        CHECK(cudaDeviceSynchronize());
    }
    double s = side, blocks = (s / kTile) * (s / kTile);
    printf("add %.0f %.0f\n", 1.0 * n, 12.0 * n);
    printf("chain_single %.0f %.0f\n", 2.0 * steps * threads, 8.0 * threads);
    printf("chain_double %.0f %.0f\n", 2.0 * steps * threads, 16.0 * threads);
    printf("product %.0f %.0f\n", 2 * s * s * s, blocks * 2 * kTile * s * 4 + s * s * 4);
    printf("follow 0 0\n");
    return 0;
}
