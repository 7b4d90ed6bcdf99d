// Kernels that read a neighbourhood of each element; neighbours share most of what they read.

extern "C" __global__ void stencil_1d(const float *__restrict__ in, float *out, unsigned n, unsigned radius) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int offset = -(int)radius; offset <= (int)radius; ++offset) {
        int at = min(max((int)i + offset, 0), (int)n - 1);
        sum += in[at];
    }
    out[i] = sum / (float)(2 * radius + 1);
}

// The same through shared memory: each word is read from global memory once, and the halo twice.
extern "C" __global__ void stencil_1d_shared(const float *__restrict__ in, float *out, unsigned n,
                                             unsigned radius) {
    extern __shared__ float tile[];
    int first = (int)(blockIdx.x * blockDim.x) - (int)radius;
    for (unsigned at = threadIdx.x; at < blockDim.x + 2 * radius; at += blockDim.x) {
        tile[at] = in[min(max(first + (int)at, 0), (int)n - 1)];
    }
    __syncthreads();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (unsigned offset = 0; offset <= 2 * radius; ++offset) sum += tile[threadIdx.x + offset];
    out[i] = sum / (float)(2 * radius + 1);
}

extern "C" __global__ void stencil_2d(const float *__restrict__ in, float *out, unsigned width,
                                      unsigned height) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    unsigned at = y * width + x;
    if (x == 0 || y == 0 || x + 1 == width || y + 1 == height) {
        out[at] = in[at];
        return;
    }
    float around = (in[at - 1] + in[at + 1]) + (in[at - width] + in[at + width]);
    out[at] = fmaf(0.125f, around, 0.5f * in[at]);
}

extern "C" __global__ void stencil_3d(const float *__restrict__ in, float *out, unsigned width,
                                      unsigned height, unsigned depth) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= width || y >= height || z >= depth) return;
    unsigned plane = width * height, at = z * plane + y * width + x;
    if (x == 0 || y == 0 || z == 0 || x + 1 == width || y + 1 == height || z + 1 == depth) {
        out[at] = in[at];
        return;
    }
    float around = (in[at - 1] + in[at + 1]) + (in[at - width] + in[at + width]);
    around += in[at - plane] + in[at + plane];
    out[at] = fmaf(0.0625f, around, 0.5f * in[at]);
}

extern "C" __global__ void convolution_2d(const float *__restrict__ in, const float *__restrict__ weights,
                                          float *out, unsigned width, unsigned height, unsigned radius) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= (int)width || y >= (int)height) return;
    int reach = radius;
    float sum = 0.0f;
    for (int down = -reach; down <= reach; ++down) {
        int row = min(max(y + down, 0), (int)height - 1);
        for (int right = -reach; right <= reach; ++right) {
            int column = min(max(x + right, 0), (int)width - 1);
            sum = fmaf(in[row * width + column], weights[(down + reach) * (2 * reach + 1) + right + reach],
                       sum);
        }
    }
    out[y * width + x] = sum;
}
