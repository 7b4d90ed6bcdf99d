// Kernels in which a block works on a row at a time and its threads agree on sums between passes.

// Combines one value of each thread; every thread gets the result. Blocks may have any size.
template <bool LARGEST>
__device__ float over_block(float value) {
    __shared__ float parts[32];
    unsigned lanes = min(32u, blockDim.x - threadIdx.x / 32 * 32), lane = threadIdx.x % 32;
    unsigned mask = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_down_sync(mask, value, offset);
        if (lane + offset < lanes) value = LARGEST ? fmaxf(value, other) : value + other;
    }
    // What the last call left must have been read by all.
    __syncthreads();
    if (lane == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (unsigned warp = 1; warp < (blockDim.x + 31) / 32; ++warp) {
        value = LARGEST ? fmaxf(value, parts[warp]) : value + parts[warp];
    }
    return value;
}

extern "C" __global__ void softmax_rows(const float *__restrict__ in, float *out, unsigned rows,
                                        unsigned columns) {
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const float *from = in + row * columns;
        float largest = -3.4e38f, sum = 0.0f;
        for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, from[i]);
        largest = over_block<true>(largest);
        for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(from[i] - largest);
        float inverse = 1.0f / over_block<false>(sum);
        for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) {
            out[row * columns + i] = expf(from[i] - largest) * inverse;
        }
    }
}

extern "C" __global__ void layer_norm(const float *__restrict__ in, const float *__restrict__ scale,
                                      const float *__restrict__ shift, float *out, unsigned rows,
                                      unsigned columns) {
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const float *from = in + row * columns;
        float sum = 0.0f, squares = 0.0f;
        for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) sum += from[i];
        float mean = over_block<false>(sum) / (float)columns;
        for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) {
            float off = from[i] - mean;
            squares = fmaf(off, off, squares);
        }
        float inverse = rsqrtf(over_block<false>(squares) / (float)columns + 1e-5f);
        for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) {
            out[row * columns + i] = fmaf((from[i] - mean) * inverse, scale[i], shift[i]);
        }
    }
}
