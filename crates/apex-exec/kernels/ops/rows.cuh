// A row held in the registers of the threads that share it: softmax and layer_norm read their input once.
//
// `group` threads, a power of two, hold a row; each has ITEMS runs of RUN elements, one group apart, so that
// loads are whole lines. Up to 32 threads share a row by shuffles and a block holds several rows; more are
// the whole block. RUN is a vector where every row begins on a 16-byte border, else one element. A row is FULL
// where it is known to leave no place of its threads empty; else every run is asked for.

#define ROWS

// Runs of a thread: in a short row, in a wide one, and in one of single elements. A double takes two registers.
template <class T> struct Items {
    static constexpr int narrow = sizeof(T) == 8 ? 2 : 4, wide = 2 * narrow, odd = 4 * narrow;
};

template <class T, int RUN, int ITEMS, bool FULL = false> struct RowInRegisters {
    typedef Wide<T> W;
    W values[ITEMS][RUN];
    // `runs` is how many this thread holds.
    u32 row, rows, columns, group, lane, runs;

    // Threads of a last block may be beyond the last row. They join among themselves and store nothing; of full
    // rows they read the last, so that nobody asks before a load.
    __device__ __forceinline__ bool inside() const { return row < rows; }
    __device__ __forceinline__ bool has(int item) const { return FULL || (u32)item < runs; }
    __device__ __forceinline__ u32 at(int item) const { return ((u32)item * group + lane) * RUN; }

    __device__ __forceinline__ RowInRegisters(u32 rows, u32 columns, u32 group)
        : rows(rows), columns(columns), group(group), lane(threadIdx.x & (group - 1)) {
        const u32 shift = 31 - __clz((int)group);
        row = blockIdx.x * (blockDim.x >> shift) + (threadIdx.x >> shift);
        runs = FULL ? ITEMS : inside() ? (columns / RUN + group - 1 - lane) >> shift : 0;
    }
    __device__ __forceinline__ void load(const T *input, W fill) {
        const T *place = input + (u64)(FULL && !inside() ? rows - 1 : row) * columns;
#pragma unroll
        for (int item = 0; item < ITEMS; item++) {
#pragma unroll
            for (int i = 0; i < RUN; i++) values[item][i] = fill;
            if (has(item)) Run<T, RUN>::load(place + at(item), values[item]);
        }
    }
    // Run by run, as each is ready.
    __device__ __forceinline__ void store(T *output, int item) const {
        if (FULL ? inside() : has(item)) Run<T, RUN>::store(output + (u64)row * columns + at(item), values[item]);
    }
};
