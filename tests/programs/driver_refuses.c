// A driver that refuses whatever describes itself in memory, without a look at the description.
#include "cuda_driver.h"

CUresult cuInit(unsigned flags) {
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int *version) {
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = NULL;
    return CUDA_SUCCESS;
}

#define REFUSES(name, ...)          \
    CUresult name(__VA_ARGS__) {    \
        return CUDA_ERROR_INVALID_HANDLE; \
    }
#define ANY __attribute__((unused))

REFUSES(cuMemcpy2D_v2, ANY const CUDA_MEMCPY2D *copy)
REFUSES(cuMemcpy2DAsync_v2, ANY const CUDA_MEMCPY2D *copy, ANY CUstream stream)
REFUSES(cuMemcpy3D_v2, ANY const CUDA_MEMCPY3D *copy)
REFUSES(cuArrayCreate_v2, ANY CUarray *array, ANY const CUDA_ARRAY_DESCRIPTOR *description)
REFUSES(cuArray3DCreate_v2, ANY CUarray *array, ANY const CUDA_ARRAY3D_DESCRIPTOR *description)
REFUSES(cuModuleLoad, ANY CUmodule *module, ANY const char *path)
REFUSES(cuModuleLoadData, ANY CUmodule *module, ANY const void *image)
REFUSES(cuLaunchKernelEx, ANY const CUlaunchConfig *config, ANY CUfunction function, ANY void **parameters,
        ANY void **extra)
REFUSES(cuLaunchKernelEx_ptsz, ANY const CUlaunchConfig *config, ANY CUfunction function, ANY void **parameters,
        ANY void **extra)
