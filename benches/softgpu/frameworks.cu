// Kernels of `apex bench softgpu` in the shapes that frameworks and newer CUDA programs give them.
// frameworks.ptx is made from this file, and numba_matmul.ptx by numba-cuda 0.30.4 from its manual's
// shared-memory matmul, with shorter names:
//   nvcc -ptx -std=c++17 -arch=compute_90 -o frameworks.ptx frameworks.cu
#include <cuda/barrier>
#include <cuda_pipeline.h>

#define TILE 16

extern "C" __global__ void long_loop(float *out, int turns) {
    float x = threadIdx.x, sum = 0;
    for (int i = 0; i < turns; i++) {
        x = x * 0.999f + 0.5f;
        sum += x > 1.0f ? x : -x;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Tiles come by cp.async, two stages deep; threads meet at __syncthreads.
extern "C" __global__ void matmul_cp_async(const float *a, const float *b, float *c, int n) {
    __shared__ __align__(16) float left[2][TILE][TILE], right[2][TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    auto fetch = [&](int tile) {
        int stage = tile % 2;
        __pipeline_memcpy_async(&left[stage][y][x], &a[row * n + tile * TILE + x], 4);
        __pipeline_memcpy_async(&right[stage][y][x], &b[(tile * TILE + y) * n + column], 4);
        __pipeline_commit();
    };
    fetch(0);
    for (int tile = 0; tile < n / TILE; tile++) {
        if (tile + 1 < n / TILE) {
            fetch(tile + 1);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        int stage = tile % 2;
        for (int k = 0; k < TILE; k++) sum += left[stage][y][k] * right[stage][k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// As above with 16 bytes a copy: a quarter of the threads fetches.
extern "C" __global__ void matmul_cp_async_16(const float *a, const float *b, float *c, int n) {
    __shared__ __align__(16) float left[TILE][TILE], right[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int tile = 0; tile < n / TILE; tile++) {
        if (x < TILE / 4) {
            __pipeline_memcpy_async(&left[y][x * 4], &a[row * n + tile * TILE + x * 4], 16);
            __pipeline_memcpy_async(&right[y][x * 4], &b[(tile * TILE + y) * n + blockIdx.x * TILE + x * 4], 16);
        }
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// Threads meet at a cuda::barrier, which waits by mbarrier.try_wait.
extern "C" __global__ void matmul_barrier(const float *a, const float *b, float *c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    __shared__ cuda::barrier<cuda::thread_scope_block> gate;
    int x = threadIdx.x, y = threadIdx.y;
    if (x == 0 && y == 0) init(&gate, TILE * TILE);
    __syncthreads();
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int tile = 0; tile < n / TILE; tile++) {
        left[y][x] = a[row * n + tile * TILE + x];
        right[y][x] = b[(tile * TILE + y) * n + column];
        gate.arrive_and_wait();
        for (int k = 0; k < TILE; k++) sum += left[y][k] * right[k][x];
        gate.arrive_and_wait();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void texture_scale(float *out, cudaTextureObject_t image, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    out[y * width + x] = tex2D<float>(image, x * 0.5f + 0.25f, y * 0.5f + 0.25f);
}
