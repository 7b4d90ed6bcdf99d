// Texture and surface objects give back what they were made of, in the structs of the program's CUDA.
#include "runtime.h"

#if CUDART == 12
typedef struct {
    int type;
    union {
        cudaArray_t array;
        struct { void *address; cudaChannelFormatDesc channels; size_t bytes; } linear;
        struct { void *address; cudaChannelFormatDesc channels; size_t width, height, pitch; } rows;
    } of;
} resource;
#else
typedef struct {
    int type;
    union {
        cudaArray_t array;
        struct { void *address; cudaChannelFormatDesc channels; size_t bytes; } linear;
        struct { void *address; cudaChannelFormatDesc channels; size_t width, height, pitch; } rows;
        int reserved[32];
    } of;
    unsigned flags;
} resource;
#endif
typedef struct {
    int address_modes[3], filter, read_mode, srgb;
    float border[4];
    int normalized;
    unsigned anisotropy;
    int mipmap_filter;
    float bias, minimum, maximum;
    int no_trilinear, seamless;
} texture;
typedef unsigned long long object;

extern cudaError_t cudaCreateTextureObject(object *, const resource *, const texture *, const void *);
extern cudaError_t cudaDestroyTextureObject(object), cudaDestroySurfaceObject(object);
extern cudaError_t cudaGetTextureObjectResourceDesc(resource *, object);
extern cudaError_t cudaGetTextureObjectTextureDesc(texture *, object);
extern cudaError_t cudaCreateSurfaceObject(object *, const resource *);
extern cudaError_t cudaGetSurfaceObjectResourceDesc(resource *, object);
extern cudaError_t cudaMallocArray(cudaArray_t *, const cudaChannelFormatDesc *, size_t, size_t, unsigned);
extern cudaError_t cudaFreeArray(cudaArray_t);

static struct { resource found; long guard; } place;

static resource *cleared(void) {
    memset(&place, 0xff, sizeof place);
    return &place.found;
}

int main(void) {
    void *memory;
    object made = 0;
    CHECK(cudaMalloc(&memory, 4096));
    resource linear = {.type = 2, .of.linear = {memory, {32, 0, 0, 0, 2}, 1024}};
    texture plain = {.read_mode = 0, .filter = 0};
    CHECK(cudaCreateTextureObject(&made, &linear, &plain, NULL));
    CHECK(cudaGetTextureObjectResourceDesc(cleared(), made));
    EXPECT(place.guard == -1 && place.found.type == 2);
    EXPECT(place.found.of.linear.address == memory && place.found.of.linear.bytes == 1024);
    EXPECT(place.found.of.linear.channels.x == 32 && place.found.of.linear.channels.f == 2);
    CHECK(cudaDestroyTextureObject(made));
    CHECK(cudaDestroyTextureObject(0));

    resource rows = {.type = 3, .of.rows = {memory, {8, 8, 8, 8, 1}, 16, 8, 256}};
    texture rich = {.address_modes = {1, 2, 3}, .filter = 1, .read_mode = 1, .border = {1, 2, 3, 4}, .normalized = 1};
    texture told;
    CHECK(cudaCreateTextureObject(&made, &rows, &rich, NULL));
    CHECK(cudaGetTextureObjectTextureDesc(&told, made));
    EXPECT(memcmp(told.address_modes, rich.address_modes, sizeof told.address_modes) == 0);
    EXPECT(told.filter == 1 && told.read_mode == 1 && told.normalized == 1 && told.border[3] == 4);
    CHECK(cudaGetTextureObjectResourceDesc(cleared(), made));
    EXPECT(place.found.of.rows.width == 16 && place.found.of.rows.height == 8 && place.found.of.rows.pitch == 256);
    CHECK(cudaDestroyTextureObject(made));

    cudaArray_t array;
    cudaChannelFormatDesc bytes = {8, 0, 0, 0, 1};
    CHECK(cudaMallocArray(&array, &bytes, 16, 16, 2));
    resource of_array = {.type = 0, .of.array = array};
    CHECK(cudaCreateTextureObject(&made, &of_array, &plain, NULL));
    CHECK(cudaGetTextureObjectTextureDesc(&told, made));
    EXPECT(told.read_mode == 0 && told.normalized == 0);
    CHECK(cudaDestroyTextureObject(made));
    CHECK(cudaCreateSurfaceObject(&made, &of_array));
    CHECK(cudaGetSurfaceObjectResourceDesc(cleared(), made));
    EXPECT(place.found.type == 0 && place.found.of.array == array && place.guard == -1);
    CHECK(cudaDestroySurfaceObject(made));
    CHECK(cudaFreeArray(array));

    resource wrong = {.type = 9};
    GIVES(cudaErrorInvalidValue, cudaCreateTextureObject(&made, &wrong, &plain, NULL));
    resource three = {.type = 2, .of.linear = {memory, {8, 8, 8, 0, 1}, 64}};
    GIVES(cudaErrorInvalidChannelDescriptor, cudaCreateTextureObject(&made, &three, &plain, NULL));
    return 0;
}
