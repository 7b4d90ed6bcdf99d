// Asks about memory that it has, that it freed and that it got again, and about the pool of stream-ordered memory. What it
// is told is the same with and without a pool of freed memory.
#include "program.h"

enum { SIZES = 4, TURNS = 3 };

static const size_t sizes[SIZES] = {1, 1000, 3 << 20, 70000};

static void ask(const char *what, CUdeviceptr of, CUdeviceptr offset) {
    CUdeviceptr base = 0, start = 0;
    size_t size = 0, range = 0;
    int ranged = cuMemGetAddressRange_v2(&base, &size, of + offset);
    printf("%s: range %d", what, ranged);
    if (ranged == CUDA_SUCCESS)
        printf(" %lld %zu", (long long)(of - base), size);
    unsigned type = 0;
    printf(", type %d", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, of + offset));
    printf(" %u", type);
    int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *data[] = {&type, &start, &range};
    printf(", all %d", cuPointerGetAttributes(3, attributes, data, of + offset));
    printf(" %u %lld %zu\n", type, start == 0 ? -1 : (long long)(of - start), range);
}

static void threshold(const char *when, CUmemoryPool pool) {
    unsigned long long bytes = 99;
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
    printf("threshold %s %llu\n", when, bytes);
}

int main(void) {
    Gpu gpu = start();
    CUdeviceptr blocks[SIZES], rows, memory, other;
    unsigned long long id = 0, next = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        size_t pitch = 0, again = 0;
        for (int i = 0; i < SIZES; i++) {
            CHECK(cuMemAlloc_v2(&blocks[i], sizes[i]));
            CHECK(cuMemsetD8_v2(blocks[i], (unsigned char)i, sizes[i]));
            ask("had", blocks[i], sizes[i] / 2);
        }
        CHECK(cuMemAllocPitch_v2(&rows, &pitch, 100 + 400 * (turn & 1), 7, 4));
        ask("rows", rows, pitch * 6);
        CHECK(cuMemFree_v2(rows));
        CHECK(cuMemAllocPitch_v2(&rows, &again, 100 + 400 * (turn & 1), 7, 4));
        printf("pitch %d\n", pitch == again && pitch >= 100);
        CHECK(cuMemFree_v2(rows));
        ask("freed rows", rows, 0);
        for (int i = 0; i < SIZES; i++) {
            unsigned char last = 99;
            CHECK(cuMemcpyDtoH_v2(&last, blocks[i] + sizes[i] - 1, 1));
            EXPECT(last == i);
            CHECK(cuMemFree_v2(blocks[i]));
            ask("freed", blocks[i], sizes[i] / 2);
            printf("freed twice %d\n", cuMemFree_v2(blocks[i]));
        }
    }
    // Memory that was marked is not handed out again, so nobody gets another's marks.
    unsigned one = 1;
    CHECK(cuMemAlloc_v2(&memory, 4096));
    CHECK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
    CHECK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory));
    CHECK(cuMemFree_v2(memory));
    CHECK(cuMemAlloc_v2(&memory, 4096));
    CHECK(cuPointerGetAttribute(&next, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory));
    printf("another buffer %d\n", id != next);
    CHECK(cuMemFree_v2(memory));

    CUmemoryPool pool;
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuDeviceGetMemPool(&pool, gpu.device));
    threshold("at first", pool);
    for (int turn = 0; turn < TURNS; turn++) {
        CHECK(cuMemAllocAsync(&memory, 1 << 20, stream));
        CHECK(cuMemFreeAsync(memory, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    threshold("in use", pool);
    unsigned long long own = 12345;
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &own));
    CHECK(cuMemAllocAsync(&memory, 1 << 20, stream));
    threshold("set", pool);
    CHECK(cuMemFreeAsync(memory, stream));
    // A plain block may end in the order of a stream too.
    CHECK(cuMemAlloc_v2(&memory, 5000));
    CHECK(cuMemAlloc_v2(&other, 5000));
    CHECK(cuMemFreeAsync(memory, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("ended in order, freed %d\n", cuMemFree_v2(memory));
    CHECK(cuMemFree_v2(other));
    CHECK(cuStreamDestroy_v2(stream));
    printf("right\n");
    return 0;
}
