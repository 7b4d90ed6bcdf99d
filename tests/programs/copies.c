// Copies in every direction: stated by the call, found from the addresses, from pinned and from pageable
// memory, in rows and in slices, with arrays on either side.
//
// Each copy is seen with its direction, its bytes and whether its host side was pageable, and the bytes
// arrive.
#include "program.h"

#include <string.h>

enum { BYTES = 4096, WIDTH = 64, HEIGHT = 8, DEPTH = 4 };

int main(void) {
    Gpu gpu = start();
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    unsigned char *pageable = malloc(BYTES), *back = malloc(BYTES), *registered = aligned_alloc(4096, BYTES);
    void *pinned;
    CUdeviceptr one, other;
    CHECK(cuMemAlloc_v2(&one, BYTES));
    CHECK(cuMemAlloc_v2(&other, BYTES));
    CHECK(cuMemAllocHost_v2(&pinned, BYTES));
    CHECK(cuMemHostRegister_v2(registered, BYTES, 0));
    for (int i = 0; i < BYTES; i++)
        pageable[i] = (unsigned char)(i * 7);

    // The call says the direction.
    CHECK(cuMemcpyHtoD_v2(one, pageable, BYTES));
    CHECK(cuMemcpyDtoD_v2(other, one, BYTES));
    CHECK(cuMemcpyDtoH_v2(pinned, other, BYTES));
    EXPECT(memcmp(pinned, pageable, BYTES) == 0);
    CHECK(cuMemcpyHtoDAsync_v2(one, pinned, 100, stream));
    CHECK(cuMemcpyDtoDAsync_v2(other, one, 200, stream));
    CHECK(cuMemcpyDtoHAsync_v2(registered, other, 300, stream));
    CHECK(cuStreamSynchronize(stream));
    EXPECT(memcmp(registered, pageable, 300) == 0);

    // The addresses say it.
    CHECK(cuMemcpy(one, (CUdeviceptr)(uintptr_t)pinned, 400));
    CHECK(cuMemcpy((CUdeviceptr)(uintptr_t)pinned, one, 500));
    CHECK(cuMemcpyAsync(other, one, 600, stream));
    CHECK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)registered, other + 8, 700, stream));
    CHECK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)pinned, (CUdeviceptr)(uintptr_t)registered, 50, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyPeer(one, gpu.context, other, gpu.context, 800));

    // Rows, slices and arrays.
    CUarray array, second;
    CUDA_ARRAY_DESCRIPTOR description = {WIDTH, HEIGHT, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CHECK(cuArrayCreate_v2(&array, &description));
    description.Height = 0;
    CHECK(cuArrayCreate_v2(&second, &description));
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = pageable, .srcPitch = WIDTH,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = array,
                          .WidthInBytes = WIDTH, .Height = HEIGHT};
    CHECK(cuMemcpy2D_v2(&rows));
    rows = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array,
                           .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = back, .dstPitch = WIDTH,
                           .WidthInBytes = WIDTH, .Height = HEIGHT};
    CHECK(cuMemcpy2DAsync_v2(&rows, stream));
    CHECK(cuStreamSynchronize(stream));
    EXPECT(memcmp(back, pageable, WIDTH * HEIGHT) == 0);
    CUDA_MEMCPY3D slices = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = one, .srcPitch = WIDTH,
                            .srcHeight = HEIGHT, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = other,
                            .dstPitch = WIDTH, .dstHeight = HEIGHT,
                            .WidthInBytes = WIDTH, .Height = HEIGHT, .Depth = DEPTH};
    CHECK(cuMemcpy3D_v2(&slices));
    CHECK(cuMemcpyHtoA_v2(second, 0, pageable, WIDTH));
    CHECK(cuMemcpyAtoD_v2(one, second, 0, WIDTH));
    CHECK(cuMemcpyDtoA_v2(second, 0, one, WIDTH));
    CHECK(cuMemcpyAtoH_v2(back, second, 0, WIDTH));
    EXPECT(memcmp(back, pageable, WIDTH) == 0);

    CHECK(cuMemsetD8_v2(one, 1, 900));
    CHECK(cuMemsetD32Async(one, 2, 100, stream));
    CHECK(cuMemsetD2D16_v2(other, WIDTH, 3, 10, HEIGHT));
    CHECK(cuCtxSynchronize());
    CHECK(cuArrayDestroy(array));
    CHECK(cuArrayDestroy(second));
    CHECK(cuMemHostUnregister(registered));
    CHECK(cuMemFreeHost(pinned));

    int rows_bytes = WIDTH * HEIGHT;
    printf("expected copy=19 copy.host-to-device=5 copy.host-to-device.bytes=%d copy.device-to-host=6"
           " copy.device-to-host.bytes=%d\n",
           BYTES + 100 + 400 + rows_bytes + WIDTH, BYTES + 300 + 500 + 700 + rows_bytes + WIDTH);
    printf("expected copy.device-to-device=6 copy.device-to-device.bytes=%d copy.peer=1 copy.peer.bytes=800"
           " copy.host-to-host=1 copy.host-to-host.bytes=50\n",
           BYTES + 200 + 600 + rows_bytes * DEPTH + 2 * WIDTH);
    puts("expected copy.pageable=5 copy.pinned=6 set=3 set.bytes=1460");
    return 0;
}
