// A library as plain nvcc makes it: with a runtime of its own, which its constructor uses already.

__global__ void twice(int *values) { values[threadIdx.x] *= 2; }

static struct WhenLoaded {
    int *values = nullptr;
    cudaError_t result;
    WhenLoaded() { result = cudaMalloc(&values, 32 * sizeof *values); }
    ~WhenLoaded() { cudaFree(values); }
} when_loaded;

extern "C" int doubled() {
    int host[32], wrong = when_loaded.result != cudaSuccess;
    for (int i = 0; i < 32; i++) host[i] = i;
    wrong += cudaMemcpy(when_loaded.values, host, sizeof host, cudaMemcpyDefault) != cudaSuccess;
    twice<<<1, 32>>>(when_loaded.values);
    wrong += cudaMemcpy(host, when_loaded.values, sizeof host, cudaMemcpyDefault) != cudaSuccess;
    for (int i = 0; i < 32; i++) wrong += host[i] != 2 * i;
    return wrong;
}

extern "C" int leaves_an_error() {
    void *memory;
    return cudaMalloc(&memory, (size_t)1 << 60);
}
