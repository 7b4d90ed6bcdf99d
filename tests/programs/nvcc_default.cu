// What plain nvcc makes of a program: the runtime is linked in. With an argument it opens a library that was made in the
// same way, twice.
//
// A kernel before main and in main; memory of several kinds; a runtime of the library's own, whose last error is not
// ours.
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

#define EXPECT(truth) \
    do { if (!(truth)) { fprintf(stderr, "line %d: not so: %s\n", __LINE__, #truth); exit(1); } } while (0)

__device__ int answer = 41;
__constant__ int step = 1;

__global__ void add(const int *a, const int *b, int *sum, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) sum[i] = a[i] + b[i];
}

__global__ void next() { answer += step; }

static struct BeforeMain {
    BeforeMain() { next<<<1, 1>>>(); EXPECT(cudaDeviceSynchronize() == cudaSuccess); }
} before_main;

static void add_managed() {
    const int count = 1000;
    int *a, *b, *sum;
    EXPECT(cudaMallocManaged(&a, count * sizeof *a) == cudaSuccess);
    EXPECT(cudaMallocHost(&b, count * sizeof *b) == cudaSuccess);
    EXPECT(cudaMalloc(&sum, count * sizeof *sum) == cudaSuccess);
    for (int i = 0; i < count; i++) a[i] = i, b[i] = 2 * i;
    add<<<(count + 255) / 256, 256>>>(a, b, sum, count);
    int *host = new int[count];
    EXPECT(cudaMemcpy(host, sum, count * sizeof *sum, cudaMemcpyDefault) == cudaSuccess);
    for (int i = 0; i < count; i++) EXPECT(host[i] == 3 * i);
    printf("%d sums are right\n", count);
}

static void open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) { fprintf(stderr, "%s\n", dlerror()); exit(1); }
    EXPECT(((int (*)())dlsym(library, "doubled"))() == 0);
    EXPECT(((int (*)())dlsym(library, "leaves_an_error"))() == cudaErrorMemoryAllocation);
    EXPECT(cudaPeekAtLastError() == cudaSuccess);
    EXPECT(dlclose(library) == 0);
    puts("the library is right");
}

int main(int count, char **arguments) {
    int value = 0, version = 0;
    EXPECT(cudaMemcpyFromSymbol(&value, answer, sizeof value) == cudaSuccess && value == 42);
    EXPECT(cudaRuntimeGetVersion(&version) == cudaSuccess && version / 1000 == CUDART_VERSION / 1000);
    add_managed();
    for (int i = 0; count > 1 && i < 2; i++) open_library(arguments[1]);
    cudaDeviceProp properties;
    EXPECT(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
    printf("%d.%d\n", properties.major, properties.minor);
    return 0;
}
