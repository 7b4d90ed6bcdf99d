// A row held in the registers of the threads that share it: softmax and layer_norm read their input once.
//
// `group` threads, a power of two, hold a row; each has ITEMS runs of RUN elements, one group apart, so that
// loads are whole lines. Up to 32 threads share a row by shuffles and a block holds several rows; more are
// the whole block. RUN is a vector where every row begins on a 16-byte border, else one element.

#define ROWS

// Runs of a thread: in a short row, in a wide one, and in one of single elements. A double takes two registers.
template <class T> struct Items {
    static constexpr int narrow = sizeof(T) == 8 ? 2 : 4, wide = 2 * narrow, odd = 4 * narrow;
};

template <class T, int RUN, int ITEMS> struct RowInRegisters {
    typedef Wide<T> W;
    W values[ITEMS][RUN];
    u32 lane, columns, group;
    bool inside;

    __device__ __forceinline__ bool has(int item) const { return inside && at(item) < columns; }
    __device__ __forceinline__ u32 at(int item) const { return ((u32)item * group + lane) * RUN; }

    __device__ __forceinline__ void load(const T *row, u32 row_columns, u32 row_group, bool row_inside, W fill) {
        lane = threadIdx.x % row_group;
        columns = row_columns;
        group = row_group;
        inside = row_inside;
#pragma unroll
        for (int item = 0; item < ITEMS; item++) {
#pragma unroll
            for (int i = 0; i < RUN; i++) values[item][i] = fill;
            if (has(item)) Run<T, RUN>::load(row + at(item), values[item]);
        }
    }
    __device__ __forceinline__ void store(T *row) const {
#pragma unroll
        for (int item = 0; item < ITEMS; item++)
            if (has(item)) Run<T, RUN>::store(row + at(item), values[item]);
    }
};

__device__ __forceinline__ u32 row_of_group(u32 group) {
    return blockIdx.x * (blockDim.x / group) + threadIdx.x / group;
}
