// Two small kernels, for the examples of the documentation.

extern "C" __global__ void add(const float* a, const float* b, float* sum, unsigned length) {
    unsigned place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place < length) {
        sum[place] = a[place] + b[place];
    }
}

extern "C" __global__ void scale(float* values, float factor, unsigned length) {
    unsigned place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place < length) {
        values[place] *= factor;
    }
}
