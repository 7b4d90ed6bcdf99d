// Captures kernels, a copy and a set into a graph, launches it many times, hangs it into another as a child,
// switches a node off and on, and launches a graph into a capture.
//
// Captured launches make nodes and run nothing; a graph's launch runs as many kernels as it has enabled
// kernel nodes. An end of capture asked of a stream that is not being captured is an error that ends no
// capture.
#include "program.h"

enum { N = 1024, KERNELS_IN_GRAPH = 5, ROUNDS = 40, CHILD_ROUNDS = 10, OFF_ROUNDS = 7, ON_ROUNDS = 3 };

static Gpu gpu;

static void capture_kernels(CUstream stream, CUdeviceptr memory, int count) {
    unsigned n = N;
    float by = 2;
    void *for_scale[] = {&memory, &by, &n};
    for (int i = 0; i < count; i++)
        CHECK(cuLaunchKernel(gpu.scale, N / 256, 1, 1, 256, 1, 1, 0, stream, for_scale, NULL));
}

static CUgraphNode kernel_node(CUgraph graph) {
    CUgraphNode nodes[32];
    size_t count = 32;
    CHECK(cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        int type;
        CHECK(cuGraphNodeGetType(nodes[i], &type));
        if (type == CU_GRAPH_NODE_TYPE_KERNEL)
            return nodes[i];
    }
    EXPECT(!"the graph has a kernel node");
    return NULL;
}

int main(void) {
    gpu = start();
    CUstream stream, other;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CUdeviceptr memory, copy;
    CHECK(cuMemAlloc_v2(&memory, N * sizeof(float)));
    CHECK(cuMemAlloc_v2(&copy, N * sizeof(float)));
    CHECK(cuMemsetD8_v2(memory, 0xff, N * sizeof(float)));
    launch_nothing(&gpu, 1, stream);

    CUgraph graph, not_made = NULL;
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemsetD32Async(memory, 0x3f800000, N, stream));
    capture_kernels(stream, memory, 2);
    // The other stream is not being captured: it works as always, and has no capture to end.
    launch_nothing(&gpu, 2, other);
    EXPECT(cuStreamEndCapture(other, &not_made) != CUDA_SUCCESS);
    capture_kernels(stream, memory, KERNELS_IN_GRAPH - 2);
    CHECK(cuMemcpyDtoDAsync_v2(copy, memory, N * sizeof(float), stream));
    CHECK(cuStreamEndCapture(stream, &graph));

    unsigned first_bytes;
    CHECK(cuMemcpyDtoH_v2(&first_bytes, memory, sizeof first_bytes));
    EXPECT(first_bytes == 0xffffffff);

    CUgraphExec exec;
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < ROUNDS; i++)
        CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    float first;
    CHECK(cuMemcpyDtoH_v2(&first, copy, sizeof first));
    EXPECT(first == 32);

    CHECK(cuGraphNodeSetEnabled(exec, kernel_node(graph), 0));
    CHECK(cuGraphNodeSetEnabled(exec, kernel_node(graph), 0));
    for (int i = 0; i < OFF_ROUNDS; i++)
        CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuGraphNodeSetEnabled(exec, kernel_node(graph), 1));
    for (int i = 0; i < ON_ROUNDS; i++)
        CHECK(cuGraphLaunch(exec, stream));

    // A graph of two nodes: the first graph, twice.
    CUgraph outer;
    CUgraphNode one, two;
    CUgraphExec outer_exec;
    CHECK(cuGraphCreate(&outer, 0));
    CHECK(cuGraphAddChildGraphNode(&one, outer, NULL, 0, graph));
    CHECK(cuGraphAddChildGraphNode(&two, outer, &one, 1, graph));
    CHECK(cuGraphInstantiateWithFlags(&outer_exec, outer, 0));
    for (int i = 0; i < CHILD_ROUNDS; i++)
        CHECK(cuGraphLaunch(outer_exec, stream));
    CHECK(cuStreamSynchronize(stream));

    CHECK(cuGraphExecDestroy(outer_exec));
    CHECK(cuGraphDestroy(outer));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    launch_nothing(&gpu, 3, stream);
    CHECK(cuCtxSynchronize());

    int graph_launches = ROUNDS + OFF_ROUNDS + ON_ROUNDS + CHILD_ROUNDS;
    int graph_kernels = (ROUNDS + ON_ROUNDS) * KERNELS_IN_GRAPH + OFF_ROUNDS * (KERNELS_IN_GRAPH - 1) +
                        CHILD_ROUNDS * 2 * KERNELS_IN_GRAPH;
    printf("expected launches=3 captured=%d captured.copy=1 captured.set=1 graph_launches=%d graph_kernels=%d"
           " kernels=%d\n",
           KERNELS_IN_GRAPH, graph_launches, graph_kernels, 3 + graph_kernels);
    return 0;
}
