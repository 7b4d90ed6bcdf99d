// What these programs need of the CUDA runtime, written by hand: the headers are not there.
//
// A program is compiled twice, with CUDART 12 and with CUDART 13, where it holds for both; it ends
// with 0 only if all it looked at was right. Kernels come as PTX text in a fatbin that is built here
// the way nvcc builds it, and are registered before `main` the way compilers do it.
#ifndef RUNTIME_H
#define RUNTIME_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if CUDART != 12 && CUDART != 13
#error "compile with -DCUDART=12 or -DCUDART=13"
#endif

typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUkern_st *cudaKernel_t;
typedef struct CUfunc_st *cudaFunction_t;
typedef struct cudaArray *cudaArray_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
typedef struct { unsigned x, y, z; } dim3;
typedef struct { size_t width, height, depth; } cudaExtent;
typedef struct { size_t x, y, z; } cudaPos;
typedef struct { void *ptr; size_t pitch, xsize, ysize; } cudaPitchedPtr;
typedef struct { int x, y, z, w, f; } cudaChannelFormatDesc;

enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidPitchValue = 12,
    cudaErrorInvalidSymbol = 13,
    cudaErrorInvalidChannelDescriptor = 20,
    cudaErrorInvalidMemcpyDirection = 21,
    cudaErrorInsufficientDriver = 35,
    cudaErrorMissingConfiguration = 52,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotSupported = 801,
};
enum { HostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Default };

extern cudaError_t cudaGetLastError(void), cudaPeekAtLastError(void);
extern const char *cudaGetErrorName(cudaError_t), *cudaGetErrorString(cudaError_t);
extern cudaError_t cudaGetDeviceCount(int *), cudaGetDevice(int *), cudaSetDevice(int);
extern cudaError_t cudaDeviceSynchronize(void), cudaDeviceReset(void);
extern cudaError_t cudaDeviceGetAttribute(int *, int, int);
extern cudaError_t cudaRuntimeGetVersion(int *), cudaDriverGetVersion(int *);
extern cudaError_t cudaMalloc(void **, size_t), cudaFree(void *);
extern cudaError_t cudaMemcpy(void *, const void *, size_t, int);
extern cudaError_t cudaMemcpyAsync(void *, const void *, size_t, int, cudaStream_t);
extern cudaError_t cudaMemset(void *, int, size_t);
extern cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
extern cudaError_t cudaStreamCreate(cudaStream_t *), cudaStreamDestroy(cudaStream_t);
extern cudaError_t cudaStreamSynchronize(cudaStream_t), cudaStreamQuery(cudaStream_t);

extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFatBinaryEnd(void **), __cudaUnregisterFatBinary(void **);
extern void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *,
                                   void *, void *, int *);
extern void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
extern void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int);
extern char __cudaInitModule(void **);
extern unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
extern cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
extern cudaError_t __cudaGetKernel(cudaKernel_t *, const void *);
extern cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t);

#define GIVES(expected, call)                                                              \
    do {                                                                                   \
        cudaError_t error_ = (call);                                                       \
        if (error_ != (expected)) {                                                        \
            fprintf(stderr, "%s:%d: %s gave %s\n", __FILE__, __LINE__, #call,              \
                    cudaGetErrorName(error_));                                             \
            exit(3);                                                                       \
        }                                                                                  \
    } while (0)

#define CHECK(call) GIVES(cudaSuccess, call)

#define EXPECT(truth)                                                                      \
    do {                                                                                   \
        if (!(truth)) {                                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #truth);            \
            exit(4);                                                                       \
        }                                                                                  \
    } while (0)

static inline dim3 shape(unsigned x) { return (dim3){x, 1, 1}; }

// The record that compilers hand to __cudaRegisterFatBinary.
struct wrapper {
    int magic, version;
    const void *data;
    void *units;
};

#define WRAPPER_MAGIC 0x466243b1

// A fatbin with one PTX text, as `nvcc --compress-mode=none` writes it. It is never freed.
__attribute__((unused)) static void *fatbin_of(const char *ptx) {
    size_t length = strlen(ptx), padded = (length + 8) / 8 * 8;
    unsigned char *made = calloc(1, 16 + 80 + padded);
    EXPECT(made != NULL);
    uint32_t container[2] = {0xba55ed50, 0x00100001};
    uint64_t content = 80 + padded, entry_bytes = padded, flags = 0x11;
    uint16_t kind[2] = {1, 0x101}, version[2] = {0, 8};
    uint32_t header = 80, options = 64, architecture = 90, options_begin = 0x48;
    memcpy(made, container, 8);
    memcpy(made + 8, &content, 8);
    unsigned char *entry = made + 16;
    memcpy(entry, kind, 4);
    memcpy(entry + 4, &header, 4);
    memcpy(entry + 8, &entry_bytes, 8);
    memcpy(entry + 20, &options, 4);
    memcpy(entry + 24, version, 4);
    memcpy(entry + 28, &architecture, 4);
    memcpy(entry + 40, &flags, 8);
    memcpy(entry + 64, &options_begin, 4);
    memcpy(entry + 80, ptx, length);
    return made;
}

// The PTX of most programs, with its variables.
__attribute__((unused)) static const char KERNELS[] =
    ".version 8.0\n"
    ".target sm_90\n"
    ".address_size 64\n"
    ".visible .const .align 4 .b8 factor[4];\n"
    ".visible .global .align 4 .b8 table[64];\n"
    ".visible .global .attribute(.managed) .align 4 .b8 shared_count[4];\n"
    // void scale_add(const int *a, int *b, unsigned n): b[i] += a[i] * factor
    ".visible .entry scale_add(.param .u64 a, .param .u64 b, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %d<8>;\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
    "  ld.param.u32 %r5, [n];\n"
    "  setp.ge.u32 %p1, %r4, %r5;\n"
    "  @%p1 bra DONE;\n"
    "  ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b];\n"
    "  cvta.to.global.u64 %d3, %d1; cvta.to.global.u64 %d4, %d2;\n"
    "  mul.wide.u32 %d5, %r4, 4;\n"
    "  add.s64 %d6, %d3, %d5; add.s64 %d7, %d4, %d5;\n"
    "  ld.global.u32 %r6, [%d6]; ld.global.u32 %r7, [%d7];\n"
    "  ld.const.u32 %r8, [factor];\n"
    "  mad.lo.s32 %r7, %r6, %r8, %r7;\n"
    "  st.global.u32 [%d7], %r7;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n"
    // void count(): shared_count = shared_count + 1
    ".visible .entry count()\n"
    "{\n"
    "  .reg .b32 %r<3>;\n"
    "  ld.global.u32 %r1, [shared_count];\n"
    "  add.u32 %r2, %r1, 1;\n"
    "  st.global.u32 [shared_count], %r2;\n"
    "  ret;\n"
    "}\n";

#endif
