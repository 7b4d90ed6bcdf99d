// Devices, their properties in the struct of the program's CUDA, threads, events, host functions, and
// what is exported without being supported.
#include "runtime.h"

#include <pthread.h>

extern cudaError_t cudaEventCreate(cudaEvent_t *), cudaEventRecord(cudaEvent_t, cudaStream_t);
extern cudaError_t cudaEventSynchronize(cudaEvent_t), cudaEventQuery(cudaEvent_t), cudaEventDestroy(cudaEvent_t);
extern cudaError_t cudaEventElapsedTime(float *, cudaEvent_t, cudaEvent_t);
extern cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
extern cudaError_t cudaStreamCreateWithPriority(cudaStream_t *, unsigned, int);
extern cudaError_t cudaStreamGetPriority(cudaStream_t, int *), cudaStreamGetFlags(cudaStream_t, unsigned *);
extern cudaError_t cudaDeviceGetStreamPriorityRange(int *, int *);
extern cudaError_t cudaLaunchHostFunc(cudaStream_t, void (*)(void *), void *);
extern cudaError_t cudaStreamAddCallback(cudaStream_t, void (*)(cudaStream_t, cudaError_t, void *), void *, unsigned);
extern cudaError_t cudaDeviceGetLimit(size_t *, int), cudaDeviceSetLimit(int, size_t);
extern cudaError_t cudaGetDeviceFlags(unsigned *), cudaSetDeviceFlags(unsigned), cudaInitDevice(int, unsigned, unsigned);
extern cudaError_t cudaDeviceCanAccessPeer(int *, int, int), cudaDeviceEnablePeerAccess(int, unsigned);
extern cudaError_t cudaDeviceGetPCIBusId(char *, int, int), cudaDeviceGetByPCIBusId(int *, const char *);
extern cudaError_t cudaChooseDevice(int *, const void *), cudaSetValidDevices(int *, int);
extern cudaError_t cudaImportExternalMemory(void *, const void *), cudaGraphicsGLRegisterBuffer(void *, unsigned, unsigned);
extern cudaError_t cudaGetDriverEntryPoint(const char *, void **, unsigned long long, int *);
extern cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *, int);
extern cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, int, void *);
#if CUDART == 12
extern cudaError_t cudaGetDeviceProperties_v2(void *, int), cudaGetDeviceProperties(void *, int);
extern cudaError_t cudaThreadSynchronize(void);
#define PROPERTIES cudaGetDeviceProperties_v2
enum { PROPERTIES_BYTES = 1032, MAJOR = 360, THREADS_DIM = 324, CLUSTER = 772 };
#else
extern cudaError_t cudaGetDeviceProperties(void *, int);
#define PROPERTIES cudaGetDeviceProperties
enum { PROPERTIES_BYTES = 1008, MAJOR = 360, THREADS_DIM = 324, CLUSTER = 748 };
#endif

static int number(const char *properties, size_t offset) {
    int value;
    memcpy(&value, properties + offset, sizeof value);
    return value;
}

static void properties(void) {
    char found[PROPERTIES_BYTES + 8];
    memset(found, 0x77, sizeof found);
    CHECK(PROPERTIES(found, 0));
    EXPECT(found[PROPERTIES_BYTES] == 0x77 && found[PROPERTIES_BYTES - 1] == 0);
    int major, cluster, block_x;
    CHECK(cudaDeviceGetAttribute(&major, 75, 0));
    CHECK(cudaDeviceGetAttribute(&cluster, 120, 0));
    CHECK(cudaDeviceGetAttribute(&block_x, 2, 0));
    EXPECT(number(found, MAJOR) == major && number(found, CLUSTER) == cluster);
    EXPECT(number(found, THREADS_DIM) == block_x);
    EXPECT(strlen(found) > 0);
    GIVES(cudaErrorInvalidDevice, PROPERTIES(found, 99));
#if CUDART == 12
    // The plain name fills only what CUDA 11's struct had.
    memset(found, 0x77, sizeof found);
    CHECK(cudaGetDeviceProperties(found, 0));
    EXPECT(number(found, MAJOR) == major && found[728] == 0x77);
    CHECK(cudaThreadSynchronize());
#endif
}

static void *in_thread(void *unused) {
    int device = -1;
    // A new thread has no error and the first device.
    CHECK(cudaGetLastError());
    CHECK(cudaGetDevice(&device));
    EXPECT(device == 0);
    void *memory;
    CHECK(cudaMalloc(&memory, 64));
    CHECK(cudaFree(memory));
    return unused;
}

static void count_up(void *data) { ++*(int *)data; }
static void count_callback(cudaStream_t stream, cudaError_t status, void *data) {
    (void)stream;
    if (status == cudaSuccess) ++*(int *)data;
}

static void streams(void) {
    cudaStream_t stream;
    cudaEvent_t start, end;
    int least, greatest, priority, called = 0;
    unsigned flags;
    float elapsed = -1;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(greatest <= least);
    CHECK(cudaStreamCreateWithPriority(&stream, 1, greatest));
    CHECK(cudaStreamGetPriority(stream, &priority));
    CHECK(cudaStreamGetFlags(stream, &flags));
    EXPECT(priority == greatest && flags == 1);
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(start, stream));
    CHECK(cudaLaunchHostFunc(stream, count_up, &called));
    CHECK(cudaStreamAddCallback(stream, count_callback, &called, 0));
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaStreamWaitEvent(NULL, end, 0));
    CHECK(cudaEventSynchronize(end));
    EXPECT(called == 2);
    CHECK(cudaEventElapsedTime(&elapsed, start, end));
    EXPECT(elapsed >= 0);
    CHECK(cudaEventQuery(end));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
}

int main(void) {
    int count = 0, device = -1, version = 0, can = -1;
    unsigned flags = 0;
    CHECK(cudaRuntimeGetVersion(&version));
    EXPECT(version == (CUDART == 12 ? 12090 : 13000));
    CHECK(cudaDriverGetVersion(&version));
    EXPECT(version >= 12000);
    CHECK(cudaSetDeviceFlags(4));
    CHECK(cudaInitDevice(0, 0, 0));
    CHECK(cudaGetDeviceCount(&count));
    EXPECT(count >= 1);
    CHECK(cudaGetDevice(&device));
    EXPECT(device == 0);
    CHECK(cudaSetDevice(0));
    CHECK(cudaGetDeviceFlags(&flags));
    EXPECT(flags & 8);
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(count));
    GIVES(cudaErrorInvalidDevice, cudaPeekAtLastError());
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    GIVES(cudaErrorInvalidDevice, cudaGetLastError());
    CHECK(cudaGetLastError());
    streams();
    properties();
    GIVES(cudaErrorInvalidDevice, cudaGetLastError());
    size_t limit;
    CHECK(cudaDeviceSetLimit(2, 16 << 20));
    CHECK(cudaDeviceGetLimit(&limit, 2));
    EXPECT(limit == 16 << 20);
    CHECK(cudaDeviceCanAccessPeer(&can, 0, 0));
    EXPECT(can == 0);
    CHECK(cudaGetLastError());
    GIVES(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(0, 0));
    GIVES(cudaErrorInvalidDevice, cudaGetLastError());
    char bus[32];
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    CHECK(cudaDeviceGetByPCIBusId(&device, bus));
    EXPECT(device == 0);
    CHECK(cudaSetValidDevices(&device, 1));
    CHECK(cudaChooseDevice(&device, bus));
    cudaMemPool_t pool;
    unsigned long long kept = 1;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolGetAttribute(pool, 4, &kept));
    void *address = NULL;
    int status = -1;
    CHECK(cudaGetDriverEntryPoint("cuMemAlloc", &address, 0, &status));
    EXPECT(address != NULL && status == 0);
    CHECK(cudaGetDriverEntryPoint("cuNoSuchFunction", &address, 0, &status));
    EXPECT(address == NULL && status == 1);
    CHECK(cudaGetLastError());
    GIVES(cudaErrorNotSupported, cudaImportExternalMemory(NULL, NULL));
    GIVES(cudaErrorNotSupported, cudaGraphicsGLRegisterBuffer(NULL, 1, 0));
    GIVES(cudaErrorNotSupported, cudaGetLastError());
    return 0;
}
