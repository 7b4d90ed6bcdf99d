// The instructions of sm_90a behind the warpgroup kernel: barriers, the copy engine, the tensor cores.
//
// Each function is one instruction or a fixed few, with its operands in order; what they are used for
// stands in wgmma.cu. Addresses in shared memory are 32-bit, as these instructions take them. Expects
// TILE_N, TRANSPOSE_A, TRANSPOSE_B and INPUT_PTX to be defined.

#pragma once

typedef unsigned long long u64;

struct alignas(64) TensorMap {
    unsigned char opaque[128];
};

// ---- barriers ----

__device__ __forceinline__ void barrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

__device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ bool barrier_passed(unsigned barrier, unsigned parity) {
    unsigned passed;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(passed)
        : "r"(barrier), "r"(parity)
        : "memory");
    return passed != 0;
}

__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
    while (!barrier_passed(barrier, parity)) {
    }
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Meets the 128 threads of one multiplying warpgroup.
__device__ __forceinline__ void warpgroup_sync(int consumer) {
    asm volatile("bar.sync %0, 128;" ::"r"(consumer + 1) : "memory");
}

// ---- the copy engine ----

__device__ __forceinline__ void prefetch_map(const TensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void copy_in(unsigned to, const TensorMap *map, unsigned barrier, int x,
                                        int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
        : "memory");
}

__device__ __forceinline__ void copy_out(const TensorMap *map, unsigned from, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
            map),
        "r"(from), "r"(x), "r"(y), "r"(z)
        : "memory");
}

__device__ __forceinline__ void copy_out_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// ---- the tensor cores ----

// Says where a swizzled operand lies. K-major: rows of 128 bytes, groups of 8 rows 1024 bytes apart.
// MN-major: slabs of 64 columns, `slab_bytes` apart, groups of 8 steps of k 1024 bytes apart.
__device__ __forceinline__ u64 operand_descriptor(unsigned address, unsigned slab_bytes) {
    return static_cast<u64>((address & 0x3FFFF) >> 4) | static_cast<u64>(slab_bytes >> 4) << 16 |
           static_cast<u64>(1024 >> 4) << 32 | 1ull << 62;
}

__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

#define SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12)
#define SUMS_32(i) SUMS_16(i), SUMS_16(i + 16)
#define NAMES_0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
#define NAMES_1 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES_2 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
#define NAMES_3 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMES_4 "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
#define NAMES_5 "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define NAMES_6 "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
#define NAMES_7 "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define WGMMA(shape) "wgmma.mma_async.sync.aligned." shape ".f32." INPUT_PTX "." INPUT_PTX " {"

// sums += A * B over 16 steps of k: 64 rows, TILE_N columns.
__device__ __forceinline__ void multiply(float (&sums)[TILE_N / 2], u64 a, u64 b) {
#if TILE_N == 256
    asm volatile(WGMMA("m64n256k16") NAMES_0 NAMES_1 "," NAMES_2 NAMES_3 "," NAMES_4 NAMES_5
                 "," NAMES_6 NAMES_7 "}, %128, %129, 1, 1, 1, %130, %131;"
                 : SUMS_32(0), SUMS_32(32), SUMS_32(64), SUMS_32(96)
                 : "l"(a), "l"(b), "n"(TRANSPOSE_A), "n"(1 - TRANSPOSE_B));
#elif TILE_N == 128
    asm volatile(WGMMA("m64n128k16") NAMES_0 NAMES_1 "," NAMES_2 NAMES_3
                 "}, %64, %65, 1, 1, 1, %66, %67;"
                 : SUMS_32(0), SUMS_32(32)
                 : "l"(a), "l"(b), "n"(TRANSPOSE_A), "n"(1 - TRANSPOSE_B));
#elif TILE_N == 64
    asm volatile(WGMMA("m64n64k16") NAMES_0 NAMES_1 "}, %32, %33, 1, 1, 1, %34, %35;"
                 : SUMS_32(0)
                 : "l"(a), "l"(b), "n"(TRANSPOSE_A), "n"(1 - TRANSPOSE_B));
#else
#error "TILE_N must be 64, 128 or 256"
#endif
}
