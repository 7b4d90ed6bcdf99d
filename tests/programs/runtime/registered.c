// Kernels and variables that were registered before `main`, launched in every form there is.
#include "runtime.h"

extern cudaError_t cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
extern cudaError_t cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
extern cudaError_t cudaGetSymbolAddress(void **, const void *);
extern cudaError_t cudaGetSymbolSize(size_t *, const void *);
extern cudaError_t cudaGetKernel(cudaKernel_t *, const void *);
extern cudaError_t cudaGetFuncBySymbol(cudaFunction_t *, const void *);
extern cudaError_t cudaFuncGetName(const char **, const void *);
extern cudaError_t cudaFuncSetAttribute(const void *, int, int);
extern cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);
extern cudaError_t cudaLaunchCooperativeKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
extern cudaError_t cudaLaunchKernel_ptsz(const void *, dim3, dim3, void **, size_t, cudaStream_t);
struct config { dim3 grid, block; size_t shared; cudaStream_t stream; void *attributes; unsigned count; };
extern cudaError_t cudaLaunchKernelExC(const struct config *, const void *, void **);
struct attributes { size_t shared, constant, local; int threads, registers, rest[11], reserved[16]; };
extern cudaError_t cudaFuncGetAttributes(struct attributes *, const void *);

enum { COUNT = 100 };
static int factor, table[16];
static int *shared_count;
static void **handle;
static int *left, *right;
static unsigned length = COUNT;

// What the compiler makes of `scale_add<<<grid, block>>>(left, right, length)`.
static void scale_add(const int *a, int *b, unsigned n) {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    void *arguments[] = {&a, &b, &n};
    if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) != cudaSuccess) return;
#if CUDART == 12
    (void)cudaLaunchKernel((const void *)scale_add, grid, block, arguments, shared, stream);
#else
    static cudaKernel_t kernel;
    if (!kernel) (void)__cudaGetKernel(&kernel, (const void *)scale_add);
    (void)__cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
#endif
}
static void count(void) {}
static void unknown(void) {}

static void forget(void) { __cudaUnregisterFatBinary(handle); }

__attribute__((constructor)) static void begin(void) {
    static struct wrapper wrapper = {WRAPPER_MAGIC, 1, NULL, NULL};
    wrapper.data = fatbin_of(KERNELS);
    handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, (const char *)scale_add, (char *)"scale_add", "scale_add", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(handle, (const char *)count, (char *)"count", "count", -1, 0, 0, 0, 0, 0);
    __cudaRegisterVar(handle, (char *)&factor, (char *)"factor", "factor", 0, sizeof factor, 1, 0);
    __cudaRegisterVar(handle, (char *)table, (char *)"table", "table", 0, sizeof table, 0, 0);
    __cudaRegisterManagedVar(handle, (void **)&shared_count, (char *)"shared_count", "shared_count", 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
    atexit(forget);
}

// The sum of what all launches so far should have added, in units of `left`.
static void expect_added(int times) {
    int host[COUNT];
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host, right, sizeof host, DeviceToHost));
    for (int i = 0; i < COUNT; i++) EXPECT(host[i] == 1000 + 3 * times * i);
}

int main(void) {
    EXPECT(shared_count == NULL);
    EXPECT(__cudaInitModule(handle) == 1);
    EXPECT(shared_count != NULL);
    *shared_count = 41;

    int host[COUNT], three = 3, answer = 0;
    CHECK(cudaMalloc((void **)&left, sizeof host));
    CHECK(cudaMalloc((void **)&right, sizeof host));
    for (int i = 0; i < COUNT; i++) host[i] = i;
    CHECK(cudaMemcpy(left, host, sizeof host, HostToDevice));
    for (int i = 0; i < COUNT; i++) host[i] = 1000;
    CHECK(cudaMemcpy(right, host, sizeof host, HostToDevice));
    CHECK(cudaMemcpyToSymbol(&factor, &three, sizeof three, 0, HostToDevice));
    CHECK(cudaMemcpyFromSymbol(&answer, &factor, sizeof answer, 0, DeviceToHost));
    EXPECT(answer == 3);

    // Through `<<<>>>`; a launch among the arguments does not disturb the outer one.
    dim3 grid = shape(4), block = shape(32);
    EXPECT(__cudaPushCallConfiguration(grid, block, 0, NULL) == 0);
    EXPECT(__cudaPushCallConfiguration(grid, block, 0, NULL) == 0);
    scale_add(left, right, length);
    scale_add(left, right, length);
    CHECK(cudaGetLastError());
    expect_added(2);
    EXPECT(__cudaPopCallConfiguration(&grid, &block, &(size_t){0}, &(void *){0}) == cudaErrorMissingConfiguration);
    GIVES(cudaErrorMissingConfiguration, cudaGetLastError());

    void *arguments[] = {&left, &right, &length};
    grid = shape(4), block = shape(32);
    CHECK(cudaLaunchKernel((void *)scale_add, grid, block, arguments, 0, NULL));
    CHECK(cudaLaunchKernel_ptsz((void *)scale_add, grid, block, arguments, 0, NULL));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaLaunchCooperativeKernel((void *)scale_add, grid, block, arguments, 0, NULL));
    struct config config = {grid, block, 0, NULL, NULL, 0};
    CHECK(cudaLaunchKernelExC(&config, (void *)scale_add, arguments));
    cudaKernel_t kernel;
    cudaFunction_t function;
    CHECK(cudaGetKernel(&kernel, (void *)scale_add));
    CHECK(cudaLaunchKernel((void *)kernel, grid, block, arguments, 0, NULL));
    CHECK(cudaGetFuncBySymbol(&function, (void *)scale_add));
    CHECK(cudaLaunchKernel((void *)function, grid, block, arguments, 0, NULL));
    expect_added(8);

    CHECK(cudaLaunchKernel((void *)count, shape(1), shape(1), NULL, 0, NULL));
    CHECK(cudaDeviceSynchronize());
    EXPECT(*shared_count == 42);

    // A bad shape is told from a bad argument, and is the last error once.
    GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernel((void *)count, shape(0), block, NULL, 0, NULL));
    GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernel((void *)count, grid, shape(4096), NULL, 0, NULL));
    GIVES(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
    GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
    CHECK(cudaGetLastError());
    GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel((void *)unknown, grid, block, NULL, 0, NULL));
    GIVES(cudaErrorInvalidDeviceFunction, cudaGetLastError());

    const char *name;
    size_t bytes;
    struct attributes attributes;
    CHECK(cudaFuncGetName(&name, (void *)scale_add));
    EXPECT(strcmp(name, "scale_add") == 0);
    CHECK(cudaFuncGetAttributes(&attributes, (void *)scale_add));
    EXPECT(attributes.threads == 1024 && attributes.registers > 0);
    CHECK(cudaFuncSetAttribute((void *)scale_add, 8, 64 << 10));
    GIVES(cudaErrorInvalidValue, cudaFuncSetAttribute((void *)scale_add, 0, 1));
    int blocks = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (void *)scale_add, 1024, 0));
    EXPECT(blocks >= 1 && blocks <= 2);

    void *address;
    CHECK(cudaGetSymbolSize(&bytes, table));
    EXPECT(bytes == sizeof table);
    CHECK(cudaGetSymbolAddress(&address, table));
    CHECK(cudaMemcpyToSymbol(table, &three, sizeof three, 60, HostToDevice));
    CHECK(cudaMemcpy(&answer, (char *)address + 60, sizeof answer, DeviceToHost));
    EXPECT(answer == 3);
    GIVES(cudaErrorInvalidValue, cudaMemcpyToSymbol(table, &three, sizeof three, 61, HostToDevice));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyToSymbol(table, &three, 4, 0, DeviceToHost));
    GIVES(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, &three));
    // A managed variable is known by its shadow and by where the host sees it.
    CHECK(cudaGetSymbolAddress(&address, shared_count));
    EXPECT(address == shared_count);
    CHECK(cudaGetSymbolAddress(&address, &shared_count));
    EXPECT(address == shared_count);

    // After a reset everything begins anew, the managed variable's place included.
    CHECK(cudaDeviceReset());
    CHECK(cudaMalloc((void **)&left, 64));
    EXPECT(shared_count != NULL);
    CHECK(cudaLaunchKernel((void *)count, shape(1), shape(1), NULL, 0, NULL));
    CHECK(cudaDeviceSynchronize());
    return 0;
}
