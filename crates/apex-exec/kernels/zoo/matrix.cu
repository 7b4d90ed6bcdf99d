// Products of matrices and vectors, dense and sparse, and many small systems of equations.
// All matrices are row-major: a is m by k, b is k by n, c is m by n.

extern "C" __global__ void gemm_naive(const float *__restrict__ a, const float *__restrict__ b, float *c,
                                      unsigned m, unsigned n, unsigned k) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (unsigned i = 0; i < k; ++i) sum = fmaf(a[row * k + i], b[i * n + column], sum);
    c[row * n + column] = sum;
}

// One element a thread, tiles of both factors in shared memory; blocks of SIDE by SIDE.
template <unsigned SIDE>
__device__ void gemm_by_tile(const float *__restrict__ a, const float *__restrict__ b, float *c, unsigned m,
                             unsigned n, unsigned k) {
    __shared__ float left[SIDE][SIDE], right[SIDE][SIDE];
    unsigned x = threadIdx.x, y = threadIdx.y;
    unsigned column = blockIdx.x * SIDE + x, row = blockIdx.y * SIDE + y;
    float sum = 0.0f;
    for (unsigned begin = 0; begin < k; begin += SIDE) {
        left[y][x] = row < m && begin + x < k ? a[row * k + begin + x] : 0.0f;
        right[y][x] = column < n && begin + y < k ? b[(begin + y) * n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < SIDE; ++i) sum = fmaf(left[y][i], right[i][x], sum);
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

#define GEMM_TILED(SIDE)                                                                                \
    extern "C" __global__ void gemm_tiled_##SIDE(const float *__restrict__ a, const float *__restrict__ b, \
                                                 float *c, unsigned m, unsigned n, unsigned k) {       \
        gemm_by_tile<SIDE>(a, b, c, m, n, k);                                                           \
    }
GEMM_TILED(8)
GEMM_TILED(16)
GEMM_TILED(32)

// EACH by EACH elements a thread, kept in registers; blocks of 16 by 16.
template <unsigned EACH>
__device__ void gemm_by_registers(const float *__restrict__ a, const float *__restrict__ b, float *c,
                                  unsigned m, unsigned n, unsigned k) {
    constexpr unsigned SIDE = 16 * EACH, STEP = 8;
    __shared__ float left[STEP][SIDE], right[STEP][SIDE];
    unsigned thread = threadIdx.y * 16 + threadIdx.x;
    unsigned first_row = blockIdx.y * SIDE, first_column = blockIdx.x * SIDE;
    float sums[EACH][EACH] = {};
    for (unsigned begin = 0; begin < k; begin += STEP) {
        for (unsigned at = thread; at < SIDE * STEP; at += 256) {
            unsigned row = first_row + at / STEP, i = begin + at % STEP;
            left[at % STEP][at / STEP] = row < m && i < k ? a[row * k + i] : 0.0f;
            unsigned column = first_column + at % SIDE, j = begin + at / SIDE;
            right[at / SIDE][at % SIDE] = column < n && j < k ? b[j * n + column] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < STEP; ++i) {
            float down[EACH], across[EACH];
#pragma unroll
            for (unsigned j = 0; j < EACH; ++j) {
                down[j] = left[i][threadIdx.y * EACH + j];
                across[j] = right[i][j * 16 + threadIdx.x];
            }
#pragma unroll
            for (unsigned y = 0; y < EACH; ++y) {
#pragma unroll
                for (unsigned x = 0; x < EACH; ++x) sums[y][x] = fmaf(down[y], across[x], sums[y][x]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (unsigned y = 0; y < EACH; ++y) {
        unsigned row = first_row + threadIdx.y * EACH + y;
#pragma unroll
        for (unsigned x = 0; x < EACH; ++x) {
            unsigned column = first_column + x * 16 + threadIdx.x;
            if (row < m && column < n) c[row * n + column] = sums[y][x];
        }
    }
}

#define GEMM_BLOCKED(EACH)                                                                              \
    extern "C" __global__ __launch_bounds__(256) void gemm_blocked_##EACH(                              \
        const float *__restrict__ a, const float *__restrict__ b, float *c, unsigned m, unsigned n,     \
        unsigned k) {                                                                                   \
        gemm_by_registers<EACH>(a, b, c, m, n, k);                                                      \
    }
GEMM_BLOCKED(2)
GEMM_BLOCKED(4)
GEMM_BLOCKED(8)

// One product of 16 by 16 and 16 by 8 halves, added to floats.
__device__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Tensor cores through shared memory: 64 by 64 a block of four warps, 32 by 32 a warp. The pitch of 24
// halves puts the rows that a warp reads together into different banks.
extern "C" __global__ __launch_bounds__(128) void gemm_tensor(const unsigned short *__restrict__ a,
                                                              const unsigned short *__restrict__ b, float *c,
                                                              unsigned m, unsigned n, unsigned k) {
    constexpr unsigned PITCH = 24;
    __shared__ __align__(16) unsigned short left[64 * PITCH], right[64 * PITCH];
    unsigned warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, pair = threadIdx.x % 4 * 2;
    unsigned first_row = blockIdx.y * 64, first_column = blockIdx.x * 64;
    unsigned warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
    float sums[2][4][4] = {};
    for (unsigned begin = 0; begin < k; begin += 16) {
        for (unsigned at = threadIdx.x; at < 64 * 16; at += 128) {
            unsigned row = first_row + at / 16, i = begin + at % 16;
            left[at / 16 * PITCH + at % 16] = row < m && i < k ? a[row * k + i] : 0;
            unsigned column = first_column + at % 64, j = begin + at / 64;
            right[at % 64 * PITCH + at / 64] = column < n && j < k ? b[j * n + column] : 0;
        }
        __syncthreads();
        unsigned rows[2][4], columns[4][2];
        for (unsigned y = 0; y < 2; ++y) {
            const unsigned short *from = left + (warp_row + y * 16 + group) * PITCH + pair;
            rows[y][0] = *(const unsigned *)from;
            rows[y][1] = *(const unsigned *)(from + 8 * PITCH);
            rows[y][2] = *(const unsigned *)(from + 8);
            rows[y][3] = *(const unsigned *)(from + 8 * PITCH + 8);
        }
        for (unsigned x = 0; x < 4; ++x) {
            const unsigned short *from = right + (warp_column + x * 8 + group) * PITCH + pair;
            columns[x][0] = *(const unsigned *)from;
            columns[x][1] = *(const unsigned *)(from + 8);
        }
        for (unsigned y = 0; y < 2; ++y) {
            for (unsigned x = 0; x < 4; ++x) multiply_add(sums[y][x], rows[y], columns[x]);
        }
        __syncthreads();
    }
    for (unsigned y = 0; y < 2; ++y) {
        for (unsigned x = 0; x < 4; ++x) {
            for (unsigned part = 0; part < 4; ++part) {
                unsigned row = first_row + warp_row + y * 16 + group + part / 2 * 8;
                unsigned column = first_column + warp_column + x * 8 + pair + part % 2;
                if (row < m && column < n) c[row * n + column] = sums[y][x][part];
            }
        }
    }
}

// Tensor cores straight from global memory: each warp alone makes 16 by 32. m and k are multiples of 16,
// n is one of 32.
extern "C" __global__ void gemm_tensor_direct(const unsigned short *__restrict__ a,
                                              const unsigned short *__restrict__ b, float *c, unsigned m,
                                              unsigned n, unsigned k) {
    unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    unsigned group = threadIdx.x % 32 / 4, pair = threadIdx.x % 4 * 2;
    unsigned across = n / 32;
    if (warp >= m / 16 * across) return;
    unsigned first_row = warp / across * 16, first_column = warp % across * 32;
    float sums[4][4] = {};
    for (unsigned begin = 0; begin < k; begin += 16) {
        const unsigned short *from = a + (first_row + group) * k + begin + pair;
        unsigned rows[4] = {*(const unsigned *)from, *(const unsigned *)(from + 8 * k),
                            *(const unsigned *)(from + 8), *(const unsigned *)(from + 8 * k + 8)};
        for (unsigned x = 0; x < 4; ++x) {
            const unsigned short *down = b + (begin + pair) * n + first_column + x * 8 + group;
            unsigned columns[2] = {down[0] | (unsigned)down[n] << 16, down[8 * n] | (unsigned)down[9 * n] << 16};
            multiply_add(sums[x], rows, columns);
        }
    }
    for (unsigned x = 0; x < 4; ++x) {
        float *to = c + (first_row + group) * n + first_column + x * 8 + pair;
        to[0] = sums[x][0];
        to[1] = sums[x][1];
        to[8 * n] = sums[x][2];
        to[8 * n + 1] = sums[x][3];
    }
}

// Tensor cores at their own speed: CHAINS sums a warp, no memory. Each product adds 1/16 everywhere.
// Blocks and threads are whole warps.
template <unsigned CHAINS>
__device__ void tensor_by_chains(float *out, unsigned threads, unsigned length) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i / 32 * 32 >= threads) return;
    constexpr unsigned SIXTEENTHS = 0x2c002c00; // two halves of 1/16
    unsigned rows[4] = {SIXTEENTHS, SIXTEENTHS, SIXTEENTHS, SIXTEENTHS};
    unsigned columns[2] = {SIXTEENTHS, SIXTEENTHS};
    float sums[CHAINS][4] = {};
    for (unsigned step = 0; step < length; ++step) {
#pragma unroll
        for (unsigned chain = 0; chain < CHAINS; ++chain) multiply_add(sums[chain], rows, columns);
    }
    float sum = 0.0f;
    for (unsigned chain = 0; chain < CHAINS; ++chain) sum += sums[chain][0];
    out[i] = sum;
}

#define TENSOR_CHAIN(CHAINS)                                                                             \
    extern "C" __global__ void tensor_chain_##CHAINS(float *out, unsigned threads, unsigned length) {    \
        tensor_by_chains<CHAINS>(out, threads, length);                                                  \
    }
TENSOR_CHAIN(1)
TENSOR_CHAIN(2)
TENSOR_CHAIN(4)

// A thread walks a row: a warp's reads lie a row apart.
extern "C" __global__ void matvec_thread(const float *__restrict__ a, const float *__restrict__ x, float *y,
                                         unsigned rows, unsigned columns) {
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (unsigned i = 0; i < columns; ++i) sum = fmaf(a[row * columns + i], x[i], sum);
    y[row] = sum;
}

__device__ float whole_warp_sum(float value) {
    for (unsigned offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

// A warp walks a row together; blocks are whole warps.
extern "C" __global__ void matvec_warp(const float *__restrict__ a, const float *__restrict__ x, float *y,
                                       unsigned rows, unsigned columns) {
    unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (unsigned i = lane; i < columns; i += 32) sum = fmaf(a[row * columns + i], x[i], sum);
    sum = whole_warp_sum(sum);
    if (lane == 0) y[row] = sum;
}

extern "C" __global__ void spmv_thread(const unsigned *__restrict__ starts, const unsigned *__restrict__ columns,
                                       const float *__restrict__ values, const float *__restrict__ x, float *y,
                                       unsigned rows) {
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (unsigned i = starts[row]; i < starts[row + 1]; ++i) sum = fmaf(values[i], x[columns[i]], sum);
    y[row] = sum;
}

extern "C" __global__ void spmv_warp(const unsigned *__restrict__ starts, const unsigned *__restrict__ columns,
                                     const float *__restrict__ values, const float *__restrict__ x, float *y,
                                     unsigned rows) {
    unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (unsigned i = starts[row] + lane; i < starts[row + 1]; i += 32) {
        sum = fmaf(values[i], x[columns[i]], sum);
    }
    sum = whole_warp_sum(sum);
    if (lane == 0) y[row] = sum;
}

// A thread solves one system of SIDE equations, made diagonally dominant, by elimination. Interleaved,
// neighbouring threads read neighbouring words; else each system lies on its own.
template <unsigned SIDE>
__device__ void solve(const float *__restrict__ matrices, const float *__restrict__ sides, float *out,
                      unsigned systems, unsigned interleaved) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= systems) return;
    float a[SIDE][SIDE], x[SIDE], inverse[SIDE];
#pragma unroll
    for (unsigned row = 0; row < SIDE; ++row) {
#pragma unroll
        for (unsigned column = 0; column < SIDE; ++column) {
            unsigned at = row * SIDE + column;
            a[row][column] = matrices[interleaved ? at * systems + i : i * SIDE * SIDE + at];
        }
        a[row][row] += 2.0f * SIDE;
        x[row] = sides[interleaved ? row * systems + i : i * SIDE + row];
    }
#pragma unroll
    for (unsigned pivot = 0; pivot < SIDE; ++pivot) {
        inverse[pivot] = 1.0f / a[pivot][pivot];
#pragma unroll
        for (unsigned row = pivot + 1; row < SIDE; ++row) {
            float factor = a[row][pivot] * inverse[pivot];
#pragma unroll
            for (unsigned column = pivot + 1; column < SIDE; ++column) {
                a[row][column] = fmaf(-factor, a[pivot][column], a[row][column]);
            }
            x[row] = fmaf(-factor, x[pivot], x[row]);
        }
    }
#pragma unroll
    for (unsigned up = 0; up < SIDE; ++up) {
        unsigned row = SIDE - 1 - up;
#pragma unroll
        for (unsigned column = row + 1; column < SIDE; ++column) x[row] = fmaf(-a[row][column], x[column], x[row]);
        x[row] *= inverse[row];
    }
#pragma unroll
    for (unsigned row = 0; row < SIDE; ++row) out[interleaved ? row * systems + i : i * SIDE + row] = x[row];
}

#define SOLVE(SIDE)                                                                                      \
    extern "C" __global__ void batched_solve_##SIDE(const float *__restrict__ matrices,                  \
                                                    const float *__restrict__ sides, float *out,         \
                                                    unsigned systems, unsigned interleaved) {            \
        solve<SIDE>(matrices, sides, out, systems, interleaved);                                         \
    }
SOLVE(2)
SOLVE(4)
SOLVE(8)
