// Fills the device, frees, and asks in every way for more than was ever left: memory that lies idle somewhere is in nobody's
// way. Then it does so while everything is in use.
#include "program.h"

enum { BLOCKS = 12, PARTS = 16, WAYS = 6 };

static Gpu gpu;
static size_t part;

static const char *const names[WAYS] = {"plain", "rows", "managed", "in order", "array", "physical"};

// Asks for half of the device in one way, and gives it back.
static CUresult ask(int way) {
    CUdeviceptr memory;
    CUarray array;
    CUmemGenericAllocationHandle handle;
    CUresult result;
    size_t bytes = part * PARTS / 2, pitch;
    CUDA_ARRAY_DESCRIPTOR description = {1 << 14, bytes >> 16, CU_AD_FORMAT_FLOAT, 1};
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    switch (way) {
    case 0:
        if ((result = cuMemAlloc_v2(&memory, bytes)) == CUDA_SUCCESS)
            CHECK(cuMemFree_v2(memory));
        return result;
    case 1:
        if ((result = cuMemAllocPitch_v2(&memory, &pitch, 1 << 16, bytes >> 16, 4)) == CUDA_SUCCESS)
            CHECK(cuMemFree_v2(memory));
        return result;
    case 2:
        if ((result = cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL)) == CUDA_SUCCESS)
            CHECK(cuMemFree_v2(memory));
        return result;
    case 3:
        if ((result = cuMemAllocAsync(&memory, bytes, NULL)) == CUDA_SUCCESS)
            CHECK(cuMemFreeAsync(memory, NULL));
        CHECK(cuCtxSynchronize());
        return result;
    case 4:
        if ((result = cuArrayCreate_v2(&array, &description)) == CUDA_SUCCESS)
            CHECK(cuArrayDestroy(array));
        return result;
    default:
        if ((result = cuMemCreate(&handle, bytes & ~(size_t)0x1fffff, &properties, 0)) == CUDA_SUCCESS)
            CHECK(cuMemRelease(handle));
        return result;
    }
}

int main(void) {
    gpu = start();
    size_t before, after, total;
    CUdeviceptr blocks[BLOCKS];
    CHECK(cuMemGetInfo_v2(&before, &total));
    part = before / PARTS & ~(size_t)0xffff;
    for (int way = 0; way < WAYS; way++) {
        for (int i = 0; i < BLOCKS; i++)
            CHECK(cuMemAlloc_v2(&blocks[i], part));
        printf("%s, everything in use: %d\n", names[way], ask(way));
        for (int i = 0; i < BLOCKS; i++) {
            CHECK(cuMemsetD32Async(blocks[i], 1, part / 4, NULL));
            CHECK(cuMemFree_v2(blocks[i]));
        }
        printf("%s, everything freed: %d\n", names[way], ask(way));
        CHECK(cuCtxSynchronize());
        CHECK(cuMemGetInfo_v2(&after, &total));
        printf("as much free as at first: %d\n", after >= before);
    }
    // Sizes that never come again, until nothing is left.
    for (size_t bytes = part; bytes < 6 * part; bytes += part / 5) {
        CUdeviceptr one, other;
        CHECK(cuMemAlloc_v2(&one, bytes));
        CHECK(cuMemAlloc_v2(&other, bytes + 4096));
        CHECK(cuMemsetD32Async(one, 1, bytes / 4, NULL));
        CHECK(cuMemFree_v2(one));
        CHECK(cuMemFree_v2(other));
    }
    printf("right\n");
    return 0;
}
