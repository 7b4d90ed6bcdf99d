// Takes memory by the mebibyte until the device has none left, gives it back, and does it again.
//
// The refusal is "out of memory" and nothing worse, and what was given back can be had again.
#include "program.h"

enum { MOST = 100000, PIECE = 1 << 20 };

static CUdeviceptr pieces[MOST];

int main(void) {
    start();
    size_t free_bytes, total_bytes;
    CHECK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
    int first = 0;
    for (int round = 0; round < 2; round++) {
        int taken = 0;
        CUresult result = CUDA_SUCCESS;
        while (taken < MOST && (result = cuMemAlloc_v2(&pieces[taken], PIECE)) == CUDA_SUCCESS)
            taken += 1;
        EXPECT(result == CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT((size_t)taken <= total_bytes / PIECE);
        if (round == 0)
            first = taken;
        EXPECT(taken == first);
        for (int i = 0; i < taken; i++)
            CHECK(cuMemFree_v2(pieces[i]));
    }
    printf("taken=%d of=%zu\n", first, total_bytes / PIECE);
    printf("expected alloc=%d free=%d refused_alloc=2\n", 2 * first, 2 * first);
    return 0;
}
