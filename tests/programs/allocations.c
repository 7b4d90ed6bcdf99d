// Takes and gives back memory of every kind: plain, pitched, stream-ordered, from a pool, managed, pinned in
// both ways, the program's own made known, reserved, made and mapped by hand, and arrays.
//
// Each is seen with its kind and its bytes, and each free with the bytes it gave back.
#include "program.h"

int main(void) {
    Gpu gpu = start();
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr address;
    void *host;

    CHECK(cuMemAlloc_v2(&address, 1000));
    CHECK(cuMemFree_v2(address));
    size_t pitch;
    CHECK(cuMemAllocPitch_v2(&address, &pitch, 100, 7, 4));
    CHECK(cuMemFree_v2(address));
    size_t plain = 1000 + pitch * 7;

    CHECK(cuMemAllocAsync(&address, 2000, stream));
    CHECK(cuMemFreeAsync(address, stream));
    // What was taken in order of a stream may be given back out of it.
    CHECK(cuMemAllocAsync(&address, 2100, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFree_v2(address));

    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu.device}};
    CUmemoryPool pool;
    CHECK(cuMemPoolCreate(&pool, &properties));
    CHECK(cuMemAllocFromPoolAsync(&address, 3000, pool, stream));
    CHECK(cuMemFreeAsync(address, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemPoolDestroy(pool));

    CHECK(cuMemAllocManaged(&address, 4000, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemFree_v2(address));

    CHECK(cuMemAllocHost_v2(&host, 5000));
    CHECK(cuMemFreeHost(host));
    CHECK(cuMemHostAlloc(&host, 5500, CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cuMemFreeHost(host));

    void *own = aligned_alloc(4096, 8192);
    EXPECT(own != NULL);
    CHECK(cuMemHostRegister_v2(own, 8192, 0));
    CHECK(cuMemHostUnregister(own));
    free(own);

    CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu.device}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, gpu.device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle one, other;
    size_t piece;
    CHECK(cuMemGetAllocationGranularity(&piece, &wanted, 0));
    CHECK(cuMemAddressReserve(&address, 2 * piece, 0, 0, 0));
    CHECK(cuMemCreate(&one, piece, &wanted, 0));
    CHECK(cuMemCreate(&other, piece, &wanted, 0));
    CHECK(cuMemMap(address, piece, 0, one, 0));
    CHECK(cuMemMap(address + piece, piece, 0, other, 0));
    CHECK(cuMemSetAccess(address, 2 * piece, &access, 1));
    CHECK(cuMemsetD8_v2(address, 1, 2 * piece));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemUnmap(address, 2 * piece));
    CHECK(cuMemRelease(one));
    CHECK(cuMemRelease(other));
    CHECK(cuMemAddressFree(address, 2 * piece));

    CUarray array;
    CUDA_ARRAY_DESCRIPTOR flat = {32, 16, CU_AD_FORMAT_FLOAT, 4};
    CHECK(cuArrayCreate_v2(&array, &flat));
    CHECK(cuArrayDestroy(array));
    CUDA_ARRAY3D_DESCRIPTOR deep = {8, 4, 2, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
    CHECK(cuArray3DCreate_v2(&array, &deep));
    CHECK(cuArrayDestroy(array));
    size_t arrays = 32 * 16 * 16 + 8 * 4 * 2;

    // More than any device has.
    EXPECT(cuMemAlloc_v2(&address, (size_t)1 << 50) == CUDA_ERROR_OUT_OF_MEMORY);

    printf("expected alloc=16 free=15 alloc.plain=2 alloc.plain.bytes=%zu free.plain=2 free.plain.bytes=%zu\n", plain,
           plain);
    puts("expected alloc.async=2 alloc.async.bytes=4100 free.async=2 free.async.bytes=4100"
         " alloc.pool=1 alloc.pool.bytes=3000 free.pool=1 free.pool.bytes=3000"
         " alloc.managed=1 alloc.managed.bytes=4000 free.managed=1 free.managed.bytes=4000");
    puts("expected alloc.host=2 alloc.host.bytes=10500 free.host=2 free.host.bytes=10500"
         " alloc.registered=1 alloc.registered.bytes=8192 free.registered=1 free.registered.bytes=8192");
    printf("expected alloc.reserved=1 alloc.reserved.bytes=%zu free.reserved=1 free.reserved.bytes=%zu"
           " alloc.physical=2 alloc.physical.bytes=%zu free.physical=2 free.physical.bytes=%zu"
           " alloc.mapped=2 alloc.mapped.bytes=%zu free.mapped=1 free.mapped.bytes=%zu\n",
           2 * piece, 2 * piece, 2 * piece, 2 * piece, 2 * piece, 2 * piece);
    printf("expected alloc.array=2 alloc.array.bytes=%zu free.array=2 free.array.bytes=%zu refused_alloc=1\n", arrays,
           arrays);
    return 0;
}
