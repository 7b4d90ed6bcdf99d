// Memory of every kind, copied and filled in every form: what comes back is what went there.
#include "runtime.h"

extern cudaError_t cudaMallocManaged(void **, size_t, unsigned), cudaMallocHost(void **, size_t);
extern cudaError_t cudaHostAlloc(void **, size_t, unsigned), cudaFreeHost(void *);
extern cudaError_t cudaHostRegister(void *, size_t, unsigned), cudaHostUnregister(void *);
extern cudaError_t cudaHostGetDevicePointer(void **, void *, unsigned), cudaHostGetFlags(unsigned *, void *);
extern cudaError_t cudaMallocPitch(void **, size_t *, size_t, size_t), cudaMalloc3D(cudaPitchedPtr *, cudaExtent);
extern cudaError_t cudaMemGetInfo(size_t *, size_t *);
extern cudaError_t cudaMallocAsync(void **, size_t, cudaStream_t), cudaFreeAsync(void *, cudaStream_t);
extern cudaError_t cudaMemcpy_ptds(void *, const void *, size_t, int);
extern cudaError_t cudaMemcpyAsync_ptsz(void *, const void *, size_t, int, cudaStream_t);
extern cudaError_t cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
extern cudaError_t cudaMemcpy2DAsync(void *, size_t, const void *, size_t, size_t, size_t, int, cudaStream_t);
extern cudaError_t cudaMemcpyPeer(void *, int, const void *, int, size_t);
extern cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t);
extern cudaError_t cudaMemset2D(void *, size_t, int, size_t, size_t);
extern cudaError_t cudaMemset3D(cudaPitchedPtr, int, cudaExtent);
struct copy3d {
    cudaArray_t source_array; cudaPos source_position; cudaPitchedPtr source;
    cudaArray_t target_array; cudaPos target_position; cudaPitchedPtr target;
    cudaExtent extent; int kind;
};
extern cudaError_t cudaMemcpy3D(const struct copy3d *), cudaMemcpy3DAsync(const struct copy3d *, cudaStream_t);
extern cudaChannelFormatDesc cudaCreateChannelDesc(int, int, int, int, int);
extern cudaError_t cudaMallocArray(cudaArray_t *, const cudaChannelFormatDesc *, size_t, size_t, unsigned);
extern cudaError_t cudaMalloc3DArray(cudaArray_t *, const cudaChannelFormatDesc *, cudaExtent, unsigned);
extern cudaError_t cudaFreeArray(cudaArray_t), cudaGetChannelDesc(cudaChannelFormatDesc *, cudaArray_t);
extern cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc *, cudaExtent *, unsigned *, cudaArray_t);
extern cudaError_t cudaMemcpy2DToArray(cudaArray_t, size_t, size_t, const void *, size_t, size_t, size_t, int);
extern cudaError_t cudaMemcpy2DFromArray(void *, size_t, cudaArray_t, size_t, size_t, size_t, size_t, int);
extern cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t, size_t, size_t, cudaArray_t, size_t, size_t, size_t, size_t, int);
extern cudaError_t cudaMemcpyToArray(cudaArray_t, size_t, size_t, const void *, size_t, int);
extern cudaError_t cudaMemcpyFromArray(void *, cudaArray_t, size_t, size_t, size_t, int);
struct pointer { int type, device; void *device_pointer, *host_pointer; long reserved[8]; long guard; };
extern cudaError_t cudaPointerGetAttributes(struct pointer *, const void *);

enum { BYTES = 4096 };
static unsigned char there[BYTES], back[BYTES];

static void linear(void) {
    void *a, *b;
    CHECK(cudaMalloc(&a, 0));
    EXPECT(a == NULL);
    CHECK(cudaFree(NULL));
    GIVES(cudaErrorInvalidValue, cudaMalloc(NULL, 4));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&a, (size_t)1 << 50));
    CHECK(cudaMalloc(&a, BYTES));
    CHECK(cudaMalloc(&b, BYTES));
    CHECK(cudaMemcpy(a, there, BYTES, HostToDevice));
    CHECK(cudaMemcpy(b, a, BYTES, DeviceToDevice));
    CHECK(cudaMemcpy(back, b, BYTES, DeviceToHost));
    EXPECT(memcmp(there, back, BYTES) == 0);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemsetAsync(b, 7, BYTES, stream));
    CHECK(cudaMemcpyAsync(back, b, BYTES, Default, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(back[0] == 7 && back[BYTES - 1] == 7);
    CHECK(cudaMemcpyAsync_ptsz(b, a, BYTES, DeviceToDevice, NULL));
    CHECK(cudaMemcpy_ptds(back, b, BYTES, DeviceToHost));
    EXPECT(memcmp(there, back, BYTES) == 0);
    CHECK(cudaMemset(b, 1, 16));
    CHECK(cudaMemcpyPeer(b, 0, a, 0, BYTES));
    memset(back, 0, BYTES);
    CHECK(cudaMemcpy(back, there, BYTES, HostToHost));
    EXPECT(memcmp(there, back, BYTES) == 0);
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(back, b, BYTES, 5));
    CHECK(cudaMemcpy(back, b, 0, DeviceToHost));
    void *pooled;
    CHECK(cudaMallocAsync(&pooled, BYTES, stream));
    CHECK(cudaMemcpyAsync(pooled, there, BYTES, HostToDevice, stream));
    CHECK(cudaMemcpyAsync(back, pooled, BYTES, DeviceToHost, stream));
    CHECK(cudaFreeAsync(pooled, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(memcmp(there, back, BYTES) == 0);
    CHECK(cudaStreamDestroy(stream));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamDestroy(NULL));
    size_t free_bytes, total;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes > 0 && free_bytes <= total);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    GIVES(cudaErrorInvalidValue, cudaFree(there));
}

static struct pointer facts(const void *address) {
    struct pointer found;
    memset(&found, 0xff, sizeof found);
    CHECK(cudaPointerGetAttributes(&found, address));
    // CUDA 12's struct ends before what CUDA 13 reserves.
    EXPECT(found.guard == -1 && found.reserved[7] == (CUDART == 12 ? -1 : 0));
    return found;
}

static void kinds(void) {
    void *device, *managed, *pinned, *mapped, *seen;
    unsigned flags;
    CHECK(cudaMalloc(&device, 64));
    CHECK(cudaMallocManaged(&managed, 64, 1));
    CHECK(cudaMallocHost(&pinned, 64));
    CHECK(cudaHostAlloc(&mapped, 64, 2));
    CHECK(cudaHostGetDevicePointer(&seen, mapped, 0));
    CHECK(cudaHostGetFlags(&flags, mapped));
    EXPECT(flags & 2);
    struct pointer found = facts(device);
    EXPECT(found.type == 2 && found.device == 0 && found.device_pointer == device && !found.host_pointer);
    found = facts(managed);
    EXPECT(found.type == 3 && found.device_pointer == managed && found.host_pointer == managed);
    EXPECT(facts(pinned).type == 1 && facts(mapped).type == 1);
    found = facts(there);
    EXPECT(found.type == 0 && found.device == -2 && found.device_pointer == NULL);
    memset(managed, 5, 64);
    CHECK(cudaMemcpy(mapped, managed, 64, Default));
    EXPECT(((char *)mapped)[63] == 5);
    static char own[8192];
    CHECK(cudaHostRegister(own, sizeof own, 0));
    EXPECT(facts(own).type == 1);
    CHECK(cudaHostUnregister(own));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFreeHost(mapped));
    CHECK(cudaFree(managed));
    CHECK(cudaFree(device));
}

static void rows(void) {
    void *pitched;
    size_t pitch;
    CHECK(cudaMallocPitch(&pitched, &pitch, 100, 20));
    EXPECT(pitch >= 100);
    CHECK(cudaMemcpy2D(pitched, pitch, there, 100, 100, 20, HostToDevice));
    memset(back, 0, BYTES);
    CHECK(cudaMemcpy2DAsync(back, 50, pitched, pitch, 50, 20, DeviceToHost, NULL));
    CHECK(cudaDeviceSynchronize());
    for (int y = 0; y < 20; y++) EXPECT(memcmp(back + 50 * y, there + 100 * y, 50) == 0);
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2D(pitched, 10, there, 100, 100, 20, HostToDevice));
    CHECK(cudaMemset2D(pitched, pitch, 9, 10, 20));
    CHECK(cudaMemcpy2D(back, 100, pitched, pitch, 100, 20, DeviceToHost));
    EXPECT(back[1900 + 9] == 9 && back[1900 + 10] == there[1900 + 10]);
    CHECK(cudaFree(pitched));

    // Layers with a gap between them are filled one by one.
    cudaPitchedPtr box;
    CHECK(cudaMalloc3D(&box, (cudaExtent){32, 8, 4}));
    EXPECT(box.xsize == 32 && box.ysize == 8);
    CHECK(cudaMemset3D(box, 1, (cudaExtent){32, 8, 4}));
    CHECK(cudaMemset3D(box, 2, (cudaExtent){16, 3, 4}));
    struct copy3d copy = {.source = box, .target = {back, 32, 32, 8}, .extent = {32, 8, 4}, .kind = DeviceToHost};
    CHECK(cudaMemcpy3D(&copy));
    for (int z = 0; z < 4; z++)
        for (int y = 0; y < 8; y++)
            for (int x = 0; x < 32; x++) EXPECT(back[(z * 8 + y) * 32 + x] == (x < 16 && y < 3 ? 2 : 1));
    CHECK(cudaFree(box.ptr));
}

static void arrays(void) {
    cudaChannelFormatDesc pair = cudaCreateChannelDesc(16, 16, 0, 0, 1), found;
    cudaChannelFormatDesc three = cudaCreateChannelDesc(8, 8, 8, 0, 1);
    cudaArray_t array, other;
    GIVES(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&array, &three, 8, 8, 0));
    CHECK(cudaMallocArray(&array, &pair, 16, 8, 0));
    CHECK(cudaMallocArray(&other, &pair, 16, 8, 0));
    cudaExtent extent;
    unsigned flags;
    CHECK(cudaArrayGetInfo(&found, &extent, &flags, array));
    EXPECT(found.x == 16 && found.y == 16 && found.z == 0 && found.f == 1);
    EXPECT(extent.width == 16 && extent.height == 8);
    CHECK(cudaMemcpy2DToArray(array, 0, 0, there, 64, 64, 8, HostToDevice));
    CHECK(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, 64, 8, DeviceToDevice));
    CHECK(cudaMemcpy2DFromArray(back, 64, other, 0, 0, 64, 8, DeviceToHost));
    EXPECT(memcmp(back, there, 512) == 0);
    // Bytes that begin within a row and go on through the next ones.
    CHECK(cudaMemcpyFromArray(back, array, 20, 1, 300, DeviceToHost));
    EXPECT(memcmp(back, there + 64 + 20, 300) == 0);
    CHECK(cudaMemcpyToArray(array, 60, 0, there + 1000, 8, HostToDevice));
    CHECK(cudaMemcpyFromArray(back, array, 0, 0, 512, DeviceToHost));
    EXPECT(memcmp(back + 60, there + 1000, 8) == 0 && back[68] == there[68]);
    CHECK(cudaFreeArray(other));
    CHECK(cudaFreeArray(array));
    CHECK(cudaFreeArray(NULL));

    // In a copy that an array takes part in, widths and the array's places are in elements.
    CHECK(cudaMalloc3DArray(&array, &pair, (cudaExtent){8, 4, 2}, 0));
    struct copy3d in = {.source = {there, 32, 32, 4}, .target_array = array, .extent = {8, 4, 2}, .kind = HostToDevice};
    CHECK(cudaMemcpy3D(&in));
    struct copy3d out = {.source_array = array, .source_position = {2, 1, 1}, .target = {back, 16, 16, 2},
                         .extent = {4, 2, 1}, .kind = DeviceToHost};
    CHECK(cudaMemcpy3DAsync(&out, NULL));
    CHECK(cudaDeviceSynchronize());
    for (int y = 0; y < 2; y++) EXPECT(memcmp(back + 16 * y, there + 128 + 32 * (1 + y) + 8, 16) == 0);
    CHECK(cudaGetChannelDesc(&found, array));
    EXPECT(found.y == 16);
    CHECK(cudaFreeArray(array));
}

int main(void) {
    for (int i = 0; i < BYTES; i++) there[i] = (unsigned char)(i * 7 + i / 256);
    linear();
    kinds();
    rows();
    arrays();
    return 0;
}
