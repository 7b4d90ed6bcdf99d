// Product of small f32 matrices by plain fused multiply-adds, built to be done soon.
//
//     C[b] = activation(alpha * op(A[b]) * op(B[b]) + beta * C[b] + bias[column]), row-major
//
// A small product ends long before the chip is full, so what counts is the way from the first load to
// the last store. Tiles are small, so that all multiprocessors get one; within a block the eight warps
// divide k, each making all sums of the tile over its share, and meet once at the end; the loads of
// several chunks of k are all under way before the first is used.
//
// Compiled with -arch=compute_80 or newer and these -D (all integers):
//   TRANSPOSE_A    0: A is stored m x k; 1: stored k x m
//   TRANSPOSE_B    0: B is stored k x n; 1: stored n x k
//   TILE_M         32 or 64: rows of a block's tile
//   TILE_N         16 or 32: its columns
//   CHUNK_K        a multiple of 32: steps of k in one slot
//   SLOTS          slots of the ring
//
// Launch: block 256; grid.x = ceil(m / TILE_M) * ceil(n / TILE_N), grid.y = min(batches, 65535).
// Dynamic shared memory: 4 * max(SLOTS * (SIZE_A + SIZE_B), 8 * TILE_M * (TILE_N + 4)) bytes, where
// SIZE_A is TILE_M * (CHUNK_K + 4) with TRANSPOSE_A 0 and CHUNK_K * TILE_M with 1, and
// SIZE_B is TILE_N * (CHUNK_K + 4) with TRANSPOSE_B 1 and CHUNK_K * TILE_N with 0.
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
#define TILE_M 32
#endif
#ifndef TILE_N
#define TILE_N 16
#endif
#ifndef CHUNK_K
#define CHUNK_K 64
#endif
#ifndef SLOTS
#define SLOTS 4
#endif

const int WARPS = 8;
const int THREADS = WARPS * 32;
const int WARP_K = CHUNK_K / WARPS;
// Sums of one thread: its warp's lanes stand 8 down and 4 across.
const int OWN_M = TILE_M / 8;
const int OWN_N = TILE_N / 4;
const int PITCH_SUMS = TILE_N + 4;

typedef Chunk<!TRANSPOSE_A, TILE_M, CHUNK_K> ChunkA;
typedef Chunk<TRANSPOSE_B, TILE_N, CHUNK_K> ChunkB;
typedef Operand<!TRANSPOSE_A, TILE_M, CHUNK_K, THREADS> OperandA;
typedef Operand<TRANSPOSE_B, TILE_N, CHUNK_K, THREADS> OperandB;
const int SLOT = ChunkA::SIZE + ChunkB::SIZE;

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul_f32_small(const float *a, const float *b, float *c, const float *bias, int m, int n, int k,
                     int batches, long long lda, long long ldb, long long ldc,
                     long long batch_stride_a, long long batch_stride_b, long long batch_stride_c,
                     float alpha, float beta, int activation) {
    extern __shared__ __align__(16) float shared_floats[];
    const int lane_m = lane_down();
    const int lane_n = lane_across();
    const int warp = threadIdx.x / 32;
    const int chunks = (k + CHUNK_K - 1) / CHUNK_K;
    const unsigned tiles_n = (n + TILE_N - 1) / TILE_N;
    const int row = blockIdx.x / tiles_n * TILE_M;
    const int column = blockIdx.x % tiles_n * TILE_N;

    for (int batch = blockIdx.y; batch < batches; batch += gridDim.y) {
        OperandA operand_a(a + batch * batch_stride_a, lda, row, m, k);
        OperandB operand_b(b + batch * batch_stride_b, ldb, column, n, k);
        auto load_next = [&](int slot) {
            operand_a.load(shared_floats + slot * SLOT);
            operand_b.load(shared_floats + slot * SLOT + ChunkA::SIZE);
        };

        float sums[OWN_M][OWN_N] = {};
#pragma unroll
        for (int chunk = 0; chunk < SLOTS; ++chunk) {
            if (chunk < chunks) load_next(chunk);
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
        for (int chunk = 0; chunk < chunks; ++chunk) {
            // Groups are closed also when empty, so that the count of those under way stays known.
            asm volatile("cp.async.wait_group %0;" ::"n"(SLOTS - 1) : "memory");
            __syncthreads();
            const int slot = chunk % SLOTS;
            const float *chunk_a = shared_floats + slot * SLOT;
            const float *chunk_b = chunk_a + ChunkA::SIZE;
#pragma unroll
            for (int step = 0; step < WARP_K; step += 4) {
                float square_a[4][OWN_M], square_b[4][OWN_N];
                read_square<ChunkA, 8>(square_a, chunk_a, warp * WARP_K + step, 0, lane_m);
                read_square<ChunkB, 4>(square_b, chunk_b, warp * WARP_K + step, 0, lane_n);
                multiply_squares(sums, square_a, square_b);
            }
            if (chunk + SLOTS < chunks) {
                __syncthreads();
                load_next(slot);
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
        }

        // The warps' sums take the place of the chunks and are added in a fixed order.
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        float *own_sums = shared_floats + warp * (TILE_M * PITCH_SUMS);
#pragma unroll
        for (int y = 0; y < OWN_M; ++y) {
#pragma unroll
            for (int x = 0; x < OWN_N; ++x) {
                own_sums[place<!TRANSPOSE_A, 8>(lane_m, y) * PITCH_SUMS +
                         place<TRANSPOSE_B, 4>(lane_n, x)] = sums[y][x];
            }
        }
        __syncthreads();
        float *out = c + batch * batch_stride_c;
        for (int i = threadIdx.x; i < TILE_M * TILE_N; i += THREADS) {
            int at_row = row + i / TILE_N, at_column = column + i % TILE_N;
            if (at_row >= m || at_column >= n) continue;
            float sum = 0.0f;
#pragma unroll
            for (int from = 0; from < WARPS; ++from) {
                sum += shared_floats[(from * TILE_M + i / TILE_N) * PITCH_SUMS + i % TILE_N];
            }
            float value[1] = {alpha * sum};
            if (beta != 0.0f) value[0] += beta * out[at_row * ldc + at_column];
            if (bias != nullptr) value[0] += bias[at_column];
            activate(value, activation);
            out[at_row * ldc + at_column] = value[0];
        }
        // The next batch fills the same memory.
        __syncthreads();
    }
}
