// Product of large f32 matrices by plain fused multiply-adds: every product and sum is f32, never tf32.
//
//     C[b] = activation(alpha * op(A[b]) * op(B[b]) + beta * C[b] + bias[column]), row-major
//
// Each thread keeps 8 x 8 sums, so that four 16-byte reads of shared memory feed 64 multiply-adds. The
// next chunks of A and B are copied while the current ones are multiplied.
//
// Compiled with -arch=compute_80 or newer and these -D (all integers):
//   TRANSPOSE_A    0: A is stored m x k; 1: stored k x m
//   TRANSPOSE_B    0: B is stored k x n; 1: stored n x k
//   TILE_M         64 or 128: rows of a block's tile
//   TILE_N         64 or 128: its columns
//
// Launch: block TILE_M / 8 * TILE_N / 8; grid.x = ceil(m / TILE_M) * ceil(n / TILE_N),
// grid.y = min(batches, 65535). Shared memory is static, at most 40960 bytes. Registers are limited so
// that 384 threads fit a multiprocessor: on an H200 tiles of 64 x 64 and 128 x 64 then do best, within
// 2 % of each other from 1024 to 4096.
//
// Leading dimensions and batch strides count elements; a stride of 0 shares a matrix among batches.
// Any shape and any alignment; k may be 0; bias may be null; C must not overlap A or B.
//
// keep: nothing (compiled at run time, for the transposes and tiles of a product)

#include "elements.cuh"
#include "f32_chunks.cuh"

#ifndef TRANSPOSE_A
#define TRANSPOSE_A 0
#endif
#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 64
#endif

const int TILE_K = 16;
// Rows and columns of one thread.
const int OWN = 8;
const int WARPS_N = TILE_N / (4 * OWN);
const int THREADS = TILE_M / OWN * (TILE_N / OWN);
// Rows of tiles that neighbouring blocks go down before they turn to the next column.
const int GROUP = 8;

typedef Chunk<!TRANSPOSE_A, TILE_M, TILE_K> ChunkA;
typedef Chunk<TRANSPOSE_B, TILE_N, TILE_K> ChunkB;
typedef Operand<!TRANSPOSE_A, TILE_M, TILE_K, THREADS> OperandA;
typedef Operand<TRANSPOSE_B, TILE_N, TILE_K, THREADS> OperandB;

// Finishes and stores the eight sums a thread has in one row.
__device__ __forceinline__ void store_row(float *c, const float *bias, const float (&sums)[OWN],
                                          int column, int lane, int n, float alpha, float beta,
                                          int activation, bool fours) {
    float values[OWN];
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        int at = column + place<TRANSPOSE_B, 4>(lane, i);
        // One load each under one condition: nested conditions made the compiler write all of this thrice.
        float old = beta != 0.0f && at < n ? c[at] : 0.0f;
        float added = bias != nullptr && at < n ? bias[at] : 0.0f;
        values[i] = fmaf(beta, old, alpha * sums[i]) + added;
    }
    activate(values, activation);
#pragma unroll
    for (int i = 0; i < OWN; i += 4) {
        int at = column + place<TRANSPOSE_B, 4>(lane, i);
        if (!TRANSPOSE_B && fours && at + 4 <= n) {
            *reinterpret_cast<float4 *>(c + at) =
                make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
        } else {
#pragma unroll
            for (int j = i; j < i + 4; ++j) {
                int single = column + place<TRANSPOSE_B, 4>(lane, j);
                if (single < n) c[single] = values[j];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 384 / THREADS)
    matmul_f32(const float *a, const float *b, float *c, const float *bias, int m, int n, int k,
               int batches, long long lda, long long ldb, long long ldc, long long batch_stride_a,
               long long batch_stride_b, long long batch_stride_c, float alpha, float beta,
               int activation) {
    __shared__ alignas(16) float chunks_a[2][ChunkA::SIZE];
    __shared__ alignas(16) float chunks_b[2][ChunkB::SIZE];
    const int lane_m = lane_down();
    const int lane_n = lane_across();
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / WARPS_N * (8 * OWN);
    const int warp_column = warp % WARPS_N * (4 * OWN);
    const int blocks_k = (k + TILE_K - 1) / TILE_K;

    const unsigned tiles_m = (m + TILE_M - 1) / TILE_M;
    const unsigned tiles_n = (n + TILE_N - 1) / TILE_N;
    const unsigned first = blockIdx.x / (GROUP * tiles_n) * GROUP;
    const unsigned rows = min(static_cast<unsigned>(GROUP), tiles_m - first);
    const unsigned in_group = blockIdx.x % (GROUP * tiles_n);
    const int row = (first + in_group % rows) * TILE_M;
    const int column = in_group / rows * TILE_N;

    for (int batch = blockIdx.y; batch < batches; batch += gridDim.y) {
        OperandA operand_a(a + batch * batch_stride_a, lda, row, m, k);
        OperandB operand_b(b + batch * batch_stride_b, ldb, column, n, k);
        auto load_next = [&](int slot) {
            operand_a.load(chunks_a[slot]);
            operand_b.load(chunks_b[slot]);
            asm volatile("cp.async.commit_group;" ::: "memory");
        };

        float sums[OWN][OWN] = {};
        if (blocks_k > 0) load_next(0);
        for (int block = 0; block < blocks_k; ++block) {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
            __syncthreads();
            const int slot = block % 2;
            if (block + 1 < blocks_k) load_next(1 - slot);
#pragma unroll
            for (int step = 0; step < TILE_K; step += 4) {
                float square_a[4][OWN], square_b[4][OWN];
                read_square<ChunkA, 8>(square_a, chunks_a[slot], step, warp_row, lane_m);
                read_square<ChunkB, 4>(square_b, chunks_b[slot], step, warp_column, lane_n);
                multiply_squares(sums, square_a, square_b);
            }
        }
        // The next batch fills the same chunks.
        __syncthreads();

        float *out = c + batch * batch_stride_c;
        const bool fours = ((reinterpret_cast<unsigned long long>(out) | (ldc * 4)) & 15) == 0;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            int at_row = row + warp_row + place<!TRANSPOSE_A, 8>(lane_m, i);
            if (at_row >= m) continue;
            store_row(out + at_row * ldc, bias, sums[i], column + warp_column, lane_n, n, alpha, beta,
                      activation, fours);
        }
    }
}
