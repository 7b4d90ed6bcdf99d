// Loads code that was made for a newer chip, in every way in which a program can, and says what each way gives: an
// error's number, or the sum that the kernel worked out. The argument is a folder for files.
#include "program.h"

#include <stdint.h>
#include <string.h>

// void pairs(float *x): x[i] becomes x[i] + x[i + 8], by pairs and by 256 bits
#define BODY                                                                                       \
    ".address_size 64\n"                                                                           \
    ".visible .entry pairs(.param .u64 x)\n"                                                       \
    "{\n"                                                                                          \
    "  .reg .b64 %d<10>;\n"                                                                        \
    "  ld.param.u64 %d0, [x];\n"                                                                   \
    "  ld.global.v4.b64 {%d1, %d2, %d3, %d4}, [%d0];\n"                                            \
    "  ld.global.v4.b64 {%d5, %d6, %d7, %d8}, [%d0+32];\n"                                         \
    "  add.rn.f32x2 %d1, %d1, %d5; add.rn.f32x2 %d2, %d2, %d6;\n"                                  \
    "  add.rn.f32x2 %d3, %d3, %d7; add.rn.f32x2 %d4, %d4, %d8;\n"                                  \
    "  st.global.v4.b64 [%d0], {%d1, %d2, %d3, %d4};\n"                                            \
    "  ret;\n"                                                                                     \
    "}\n"
static const char NEWER[] = ".version 8.8\n.target sm_120\n" BODY;
static const char LATEST[] = ".version 9.7\n.target sm_80\n.address_size 64\n"
                             ".visible .entry pairs(.param .u64 x) { ret; }\n";
static const char NEVER[] = ".version 8.8\n.target sm_100a\n.address_size 64\n"
                            ".visible .entry pairs(.param .u64 x)\n{\n"
                            "  tcgen05.fence::before_thread_sync;\n  ret;\n}\n";

enum { PTX_VERSION = 5 };
static CUdeviceptr memory;

// Says what came of a way, and runs the kernel if there is one, whose PTX is for a chip.
static void say(const char *way, CUresult result, CUfunction kernel, int chip) {
    if (result != CUDA_SUCCESS) {
        printf("%s: error %d\n", way, result);
        return;
    }
    float values[16];
    for (int i = 0; i < 16; i++)
        values[i] = (float)(i * i);
    void *parameters[] = {&memory};
    CHECK(cuMemcpyHtoD_v2(memory, values, sizeof values));
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    CHECK(cuMemcpyDtoH_v2(values, memory, sizeof values));
    float sum = 0;
    for (int i = 0; i < 8; i++)
        sum += values[i];
    printf("%s: %g, for %d\n", way, sum, chip);
}

static void say_module(const char *way, CUresult result, const CUmodule *module) {
    CUfunction kernel = NULL;
    int chip = 0;
    if (result == CUDA_SUCCESS) {
        CHECK(cuModuleGetFunction(&kernel, *module, "pairs"));
        CHECK(cuFuncGetAttribute(&chip, PTX_VERSION, kernel));
    }
    say(way, result, kernel, chip);
}

static void say_library(const char *way, CUresult result, const CUlibrary *library) {
    CUkernel kernel = NULL;
    int chip = 0;
    if (result == CUDA_SUCCESS) {
        CHECK(cuLibraryGetKernel(&kernel, *library, "pairs"));
        CHECK(cuKernelGetAttribute(&chip, PTX_VERSION, kernel, 0));
    }
    say(way, result, (CUfunction)kernel, chip);
}

// A fatbin with one PTX, as the compiler lays it out.
static const void *fatbin(void) {
    static _Alignas(8) unsigned char bytes[16 + 64 + sizeof NEWER + 8];
    uint64_t body = (sizeof NEWER + 7) / 8 * 8, inside = 64 + body;
    uint32_t magic = 0xba55ed50, header = 64, chip = 120;
    uint16_t one = 1, sixteen = 16, version = 0x101;
    memcpy(bytes, &magic, 4), memcpy(bytes + 4, &one, 2), memcpy(bytes + 6, &sixteen, 2);
    memcpy(bytes + 8, &inside, 8);
    unsigned char *entry = bytes + 16;
    memcpy(entry, &one, 2), memcpy(entry + 2, &version, 2), memcpy(entry + 4, &header, 4);
    memcpy(entry + 8, &body, 8), memcpy(entry + 28, &chip, 4);
    memcpy(entry + 64, NEWER, sizeof NEWER);
    return bytes;
}

static const char *file(const char *folder) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/newer.ptx", folder);
    FILE *out = fopen(path, "w");
    EXPECT(out && fwrite(NEWER, 1, sizeof NEWER - 1, out) == sizeof NEWER - 1 && fclose(out) == 0);
    return path;
}

static void link_it(const char *way, int kind, const void *piece, size_t bytes) {
    CUlinkState state;
    CUmodule module = NULL;
    void *image;
    CHECK(cuLinkCreate_v2(0, NULL, NULL, &state));
    CUresult result = cuLinkAddData_v2(state, kind, (void *)piece, bytes, "newer", 0, NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = cuLinkComplete(state, &image, NULL);
    if (result == CUDA_SUCCESS)
        result = cuModuleLoadData(&module, image);
    say_module(way, result, &module);
    CHECK(cuLinkDestroy(state));
}

int main(int count, char **words) {
    enum { ERROR_LOG = 5, ERROR_LOG_BYTES = 6, PTX = 1, FATBIN = 2 };
    EXPECT(count == 2);
    start();
    CUmodule module = NULL;
    CUlibrary library = NULL;
    CHECK(cuMemAlloc_v2(&memory, 64));
    say_module("module", cuModuleLoadData(&module, NEWER), &module);
    char log[512] = "";
    int options[] = {ERROR_LOG, ERROR_LOG_BYTES};
    void *values[] = {log, (void *)sizeof log};
    say_module("with options", cuModuleLoadDataEx(&module, NEWER, 2, options, values), &module);
    say_module("fatbin", cuModuleLoadData(&module, fatbin()), &module);
    say_module("plain fatbin", cuModuleLoadFatBinary(&module, fatbin()), &module);
    say_module("file", cuModuleLoad(&module, file(words[1])), &module);
    say_library("library", cuLibraryLoadData(&library, fatbin(), NULL, NULL, 0, NULL, NULL, 0), &library);
    CUresult loaded = cuLibraryLoadFromFile(&library, file(words[1]), NULL, NULL, 0, NULL, NULL, 0);
    say_library("library of a file", loaded, &library);
    link_it("link", PTX, NEWER, sizeof NEWER);
    link_it("link of a fatbin", FATBIN, fatbin(), 16 + 64 + (sizeof NEWER + 7) / 8 * 8);
    say_module("newest version", cuModuleLoadData(&module, LATEST), &module);
    say_module("never", cuModuleLoadData(&module, NEVER), &module);
    return 0;
}
