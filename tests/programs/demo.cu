// The kernels of demo.c. The program loads demo.ptx, made from this file, so that it needs no compiler of CUDA.
extern "C" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
#define TILE 16
// c = a * b, square, n a multiple of the tile.
extern "C" __global__ void matrix_product(const float *a, const float *b, float *c, unsigned n) {
    __shared__ float part_a[TILE][TILE], part_b[TILE][TILE];
    unsigned row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (unsigned tile = 0; tile < n; tile += TILE) {
        part_a[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
        part_b[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
        __syncthreads();
        for (unsigned k = 0; k < TILE; k++) sum += part_a[threadIdx.y][k] * part_b[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
// Adds up all x: within a warp by shuffles, within a block through shared memory, between blocks by an atomic.
extern "C" __global__ void reduction(const float *x, float *total, unsigned n) {
    __shared__ float of_warp[32];
    float sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0;
        for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
        if (threadIdx.x == 0) atomicAdd(total, sum);
    }
}
