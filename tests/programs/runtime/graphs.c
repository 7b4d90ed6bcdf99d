// Graphs built by hand and by capture: their nodes give back what they were given.
#include "runtime.h"

extern cudaError_t cudaGraphCreate(cudaGraph_t *, unsigned), cudaGraphDestroy(cudaGraph_t);
extern cudaError_t cudaGraphInstantiate(cudaGraphExec_t *, cudaGraph_t, unsigned long long);
extern cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t), cudaGraphExecDestroy(cudaGraphExec_t);
extern cudaError_t cudaGraphGetNodes(cudaGraph_t, cudaGraphNode_t *, size_t *);
extern cudaError_t cudaGraphNodeGetType(cudaGraphNode_t, int *);
struct kernel_node { void *func; dim3 grid, block; unsigned shared; void **arguments, **extra; };
struct host_node { void (*function)(void *); void *data; };
struct fill_node { void *address; size_t pitch; unsigned value, element; size_t width, height; };
struct copy3d {
    cudaArray_t source_array; cudaPos source_position; cudaPitchedPtr source;
    cudaArray_t target_array; cudaPos target_position; cudaPitchedPtr target;
    cudaExtent extent; int kind;
};
struct node { int type, reserved[3]; union { long long words[29]; struct kernel_node kernel; struct fill_node fill;
    struct { int flags, reserved[3]; struct copy3d copy; } copy; } of; long long end; };
typedef const cudaGraphNode_t *nodes;
extern cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *, cudaGraph_t, nodes, size_t, const struct kernel_node *);
extern cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t, struct kernel_node *);
extern cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t, cudaGraphNode_t, const struct kernel_node *);
extern cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *, cudaGraph_t, nodes, size_t, void *, const void *, size_t, int);
extern cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t, struct copy3d *);
extern cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *, cudaGraph_t, nodes, size_t, const struct fill_node *);
extern cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *, cudaGraph_t, nodes, size_t, const struct host_node *);
extern cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t, struct host_node *);
extern cudaError_t cudaStreamBeginCapture(cudaStream_t, int), cudaStreamEndCapture(cudaStream_t, cudaGraph_t *);
extern cudaError_t cudaStreamIsCapturing(cudaStream_t, int *);
#if CUDART == 12
extern cudaError_t cudaGraphAddNode(cudaGraphNode_t *, cudaGraph_t, nodes, size_t, struct node *);
extern cudaError_t cudaGraphGetEdges(cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, size_t *);
extern cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t *, size_t *);
extern cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t, int *, unsigned long long *, cudaGraph_t *, nodes *, size_t *);
#define ADD_NODE(out, graph, after, count, node) cudaGraphAddNode(out, graph, after, count, node)
#define EDGES(graph, from, to, count) cudaGraphGetEdges(graph, from, to, count)
#define DEPENDENCIES(node, list, count) cudaGraphNodeGetDependencies(node, list, count)
#define CAPTURE_INFO(stream, status, id, graph, list, count) cudaStreamGetCaptureInfo_v2(stream, status, id, graph, list, count)
#else
extern cudaError_t cudaGraphAddNode(cudaGraphNode_t *, cudaGraph_t, nodes, const void *, size_t, struct node *);
extern cudaError_t cudaGraphGetEdges(cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, void *, size_t *);
extern cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t *, void *, size_t *);
extern cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, int *, unsigned long long *, cudaGraph_t *, nodes *, void *, size_t *);
#define ADD_NODE(out, graph, after, count, node) cudaGraphAddNode(out, graph, after, NULL, count, node)
#define EDGES(graph, from, to, count) cudaGraphGetEdges(graph, from, to, NULL, count)
#define DEPENDENCIES(node, list, count) cudaGraphNodeGetDependencies(node, list, NULL, count)
#define CAPTURE_INFO(stream, status, id, graph, list, count) cudaStreamGetCaptureInfo(stream, status, id, graph, list, NULL, count)
#endif

static void kernel(void) {}

__attribute__((constructor)) static void begin(void) {
    static struct wrapper wrapper = {WRAPPER_MAGIC, 1, NULL, NULL};
    wrapper.data = fatbin_of(KERNELS);
    void **handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, (const char *)kernel, (char *)"scale_add", "scale_add", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
}

static void called(void *data) { ++*(int *)data; }

static int calls;
static int *a, *b;
static unsigned length = 32;

static void built(void) {
    cudaGraph_t graph;
    cudaGraphNode_t fill, copy, run, host, more;
    CHECK(cudaGraphCreate(&graph, 0));
    struct fill_node fill_node = {a, 0, 6, 4, 32, 1};
    CHECK(cudaGraphAddMemsetNode(&fill, graph, NULL, 0, &fill_node));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &fill, 1, b, a, 128, DeviceToDevice));
    void *arguments[] = {&a, &b, &length};
    struct kernel_node kernel_node = {(void *)kernel, shape(1), shape(32), 0, arguments, NULL}, found;
    CHECK(cudaGraphAddKernelNode(&run, graph, &copy, 1, &kernel_node));
    struct host_node host_node = {called, &calls}, host_found;
    CHECK(cudaGraphAddHostNode(&host, graph, &run, 1, &host_node));

    CHECK(cudaGraphKernelNodeGetParams(run, &found));
    EXPECT(found.func == (void *)kernel && found.block.x == 32 && found.grid.x == 1);
    struct copy3d copied;
    CHECK(cudaGraphMemcpyNodeGetParams(copy, &copied));
    EXPECT(copied.target.ptr == b && copied.source.ptr == a && copied.kind == DeviceToDevice);
    EXPECT(copied.extent.width == 128 && copied.extent.height == 1);
    CHECK(cudaGraphHostNodeGetParams(host, &host_found));
    EXPECT(host_found.function == called && host_found.data == &calls);

    // The same again through the one struct for all kinds.
    struct node any = {.type = 2, .of.fill = fill_node};
    CHECK(ADD_NODE(&more, graph, &host, 1, &any));
    struct node any_kernel = {.type = 0, .of.kernel = kernel_node};
    CHECK(ADD_NODE(&more, graph, &more, 1, &any_kernel));
    EXPECT(any_kernel.of.kernel.func == (void *)kernel);
    struct node any_copy = {.type = 1, .of.copy.copy = copied};
    CHECK(ADD_NODE(&more, graph, &more, 1, &any_copy));
    CHECK(cudaGraphMemcpyNodeGetParams(more, &copied));
    EXPECT(copied.target.ptr == b && copied.extent.width == 128);

    size_t count = 0;
    CHECK(cudaGraphGetNodes(graph, NULL, &count));
    EXPECT(count == 7);
    CHECK(EDGES(graph, NULL, NULL, &count));
    EXPECT(count == 6);
    cudaGraphNode_t before[2];
    count = 2;
    CHECK(DEPENDENCIES(run, before, &count));
    EXPECT(count == 1 && before[0] == copy);

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, NULL));
    CHECK(cudaDeviceSynchronize());
    EXPECT(calls == 1);
    int host_values[32];
    CHECK(cudaMemcpy(host_values, b, sizeof host_values, DeviceToHost));
    for (int i = 0; i < 32; i++) EXPECT(host_values[i] == 6);
    kernel_node.grid = shape(2);
    CHECK(cudaGraphExecKernelNodeSetParams(exec, run, &kernel_node));
    kernel_node.func = (void *)called;
    GIVES(cudaErrorInvalidDeviceFunction, cudaGraphExecKernelNodeSetParams(exec, run, &kernel_node));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

static void captured(void) {
    cudaStream_t stream;
    cudaGraph_t graph, seen = NULL;
    int status = -1;
    unsigned long long id = 0;
    nodes list = NULL;
    size_t count = 0;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, 0));
    CHECK(cudaMemcpyAsync(b, a, 128, DeviceToDevice, stream));
    void *arguments[] = {&a, &b, &length};
    CHECK(cudaLaunchKernel((void *)kernel, shape(1), shape(32), arguments, 0, stream));
    CHECK(CAPTURE_INFO(stream, &status, &id, &seen, &list, &count));
    EXPECT(status == 1 && id != 0 && seen != NULL && count == 1);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == 0);
    cudaGraphNode_t all[2];
    count = 2;
    CHECK(cudaGraphGetNodes(graph, all, &count));
    EXPECT(count == 2);
    for (size_t i = 0; i < 2; i++) {
        int type;
        struct kernel_node found;
        CHECK(cudaGraphNodeGetType(all[i], &type));
        if (type != 0) continue;
        CHECK(cudaGraphKernelNodeGetParams(all[i], &found));
        EXPECT(found.func == (void *)kernel);
    }
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

int main(void) {
    CHECK(cudaMalloc((void **)&a, 128));
    CHECK(cudaMalloc((void **)&b, 128));
    built();
    captured();
    return 0;
}
