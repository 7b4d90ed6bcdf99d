// Chunks of f32 operands in shared memory: how they are copied in, and how threads read them.
//
// A chunk is WIDTH rows of A or columns of B by DEPTH steps of k. It keeps the order of global memory,
// so every copy is of 16 bytes where the operand's lines start at multiples of that, and of single
// elements otherwise, which is found out here. Threads work in squares of four steps of k: a square can
// be read by 16-byte reads along k as well as across it, so a stored transpose costs nothing.

#pragma once

// ALONG_K says that lines, the contiguous direction, run along k.
template <bool ALONG_K, int WIDTH, int DEPTH> struct Chunk {
    static const bool LINES_ALONG_K = ALONG_K;
    static const int LINES = ALONG_K ? WIDTH : DEPTH;
    static const int LENGTH = ALONG_K ? DEPTH : WIDTH;
    // Lines along k are four floats longer than they need be: neighbours then start in other banks.
    static const int PITCH = ALONG_K ? DEPTH + 4 : WIDTH;
    static const int SIZE = LINES * PITCH;
};

// One operand as a thread copies it: the same four elements of every LINES_APART-th line, chunk after
// chunk along k. Only `next` moves, so that the inner loop computes few addresses.
template <bool ALONG_K, int WIDTH, int DEPTH, int THREADS> struct Operand {
    typedef Chunk<ALONG_K, WIDTH, DEPTH> Shape;
    static const int FOURS = Shape::LENGTH / 4;
    static const int LINES_APART = THREADS / FOURS;
    static const int COPIES = Shape::LINES / LINES_APART;
    static_assert(LINES_APART * FOURS == THREADS && COPIES * LINES_APART == Shape::LINES,
                  "a chunk must divide evenly among the threads");
    const float *next;
    long long leading;
    // Rows of A or columns of B from this thread's first one on, and what is left of k.
    int left_across;
    int left_k;
    // Whether every line starts at a multiple of 16 bytes.
    bool in_fours;
    // Whether the chunk lies within the operand in the direction across k.
    bool inside;

    // `corner` is the chunk's first row of A or column of B, `width` their count.
    __device__ __forceinline__ Operand(const float *start, long long leading, int corner, int width,
                                       int k)
        : leading(leading), left_k(k), inside(corner + WIDTH <= width) {
        const int line = first_line() + (ALONG_K ? corner : 0);
        const int element = first_element() + (ALONG_K ? 0 : corner);
        next = start + line * leading + element;
        left_across = width - (ALONG_K ? line : element);
        in_fours = ((reinterpret_cast<unsigned long long>(start) | (leading * 4)) & 15) == 0;
    }

    static __device__ __forceinline__ int first_line() { return threadIdx.x / FOURS; }
    static __device__ __forceinline__ int first_element() { return threadIdx.x % FOURS * 4; }

    // Copies the first `valid` of four elements and fills the rest with zeros.
    __device__ __forceinline__ void gather(unsigned slot, const float *from, int valid) {
        if (in_fours) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(slot), "l"(from),
                         "r"(valid * 4)
                         : "memory");
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(slot + j * 4),
                             "l"(from + j), "r"(j < valid ? 4 : 0)
                             : "memory");
            }
        }
    }

    // Starts the copy of the next chunk.
    __device__ __forceinline__ void load(float *chunk) {
        const unsigned slots_apart = LINES_APART * Shape::PITCH * 4;
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(chunk)) +
                            (first_line() * Shape::PITCH + first_element()) * 4;
        if (inside && left_k >= DEPTH && in_fours) {
            const float *from = next;
#pragma unroll
            for (int i = 0; i < COPIES; ++i) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * slots_apart),
                             "l"(from)
                             : "memory");
                from += LINES_APART * leading;
            }
        } else {
            // Not unrolled: registers are for the usual way.
#pragma unroll 1
            for (int i = 0; i < COPIES; ++i) {
                int lines = ALONG_K ? left_across : left_k - first_line();
                int elements = ALONG_K ? left_k - first_element() : left_across;
                int valid = i * LINES_APART < lines ? min(max(elements, 0), 4) : 0;
                gather(to + i * slots_apart, next + i * LINES_APART * leading, valid);
            }
        }
        next += ALONG_K ? DEPTH : DEPTH * leading;
        left_k -= DEPTH;
    }
};

// A warp's lanes stand 8 down and 4 across, neighbours in twos: of each group of lanes that is served
// together, half then read the same address, in both operands.
__device__ __forceinline__ int lane_down() { return threadIdx.x / 2 % 8; }
__device__ __forceinline__ int lane_across() { return threadIdx.x % 2 + threadIdx.x / 16 % 2 * 2; }

// Where in its direction the value `own` of a thread stands, when LANES threads share the direction.
// Reads along k take every LANES-th line, reads across k take four neighbours at a time.
template <bool ALONG_K, int LANES> __device__ __forceinline__ int place(int lane, int own) {
    return ALONG_K ? lane + own * LANES : own / 4 * (LANES * 4) + lane * 4 + own % 4;
}

// Reads the square of four steps of k by OWN values, from step `step` and position `corner` on.
template <typename Shape, int LANES, int OWN>
__device__ __forceinline__ void read_square(float (&square)[4][OWN], const float *chunk, int step,
                                            int corner, int lane) {
    if (Shape::LINES_ALONG_K) {
#pragma unroll
        for (int own = 0; own < OWN; ++own) {
            float4 four = *reinterpret_cast<const float4 *>(
                chunk + (corner + place<true, LANES>(lane, own)) * Shape::PITCH + step);
            square[0][own] = four.x, square[1][own] = four.y;
            square[2][own] = four.z, square[3][own] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int own = 0; own < OWN; own += 4) {
                float4 four = *reinterpret_cast<const float4 *>(
                    chunk + (step + i) * Shape::PITCH + corner + place<false, LANES>(lane, own));
                square[i][own] = four.x, square[i][own + 1] = four.y;
                square[i][own + 2] = four.z, square[i][own + 3] = four.w;
            }
        }
    }
}

// sums += the product of two squares.
template <int OWN_M, int OWN_N>
__device__ __forceinline__ void multiply_squares(float (&sums)[OWN_M][OWN_N],
                                                 const float (&a)[4][OWN_M],
                                                 const float (&b)[4][OWN_N]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int y = 0; y < OWN_M; ++y) {
#pragma unroll
            for (int x = 0; x < OWN_N; ++x) sums[y][x] = fmaf(a[i][y], b[i][x], sums[y][x]);
        }
    }
}
