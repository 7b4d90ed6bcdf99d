// Launches graphs of which the host does not know how many kernels they run: with a conditional node, in the
// graph itself or in a child of it, and one that kernels may launch again. And one whose kernels are all known.
#include "cuda_driver.h"

#include <stdio.h>
#include <string.h>

// As the driver declares them: a type, and behind it what that type of node needs.
typedef struct { int type; int reserved[3]; long long rest[30]; } CUgraphNodeParams;
CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                        CUgraphNodeParams *params);

enum { CU_GRAPH_NODE_TYPE_CONDITIONAL = 13, INSTANTIATE_FLAG_DEVICE_LAUNCH = 4 };

static void check(CUresult result) {
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "a call gave %d\n", result);
        _Exit(3);
    }
}

static void add(CUgraph graph, int type) {
    CUgraphNode node;
    CUgraphNodeParams params;
    memset(&params, 0, sizeof params);
    params.type = type;
    check(cuGraphAddNode(&node, graph, NULL, 0, &params));
}

static CUgraph graph_with(int conditionals) {
    CUgraph graph;
    check(cuGraphCreate(&graph, 0));
    add(graph, CU_GRAPH_NODE_TYPE_KERNEL);
    for (int i = 0; i < conditionals; i++)
        add(graph, CU_GRAPH_NODE_TYPE_CONDITIONAL);
    add(graph, CU_GRAPH_NODE_TYPE_KERNEL);
    return graph;
}

static void launch(CUgraph graph, uint64_t flags, int times) {
    CUgraphExec exec;
    check(cuGraphInstantiateWithFlags(&exec, graph, flags));
    for (int i = 0; i < times; i++)
        check(cuGraphLaunch(exec, NULL));
}

int main(void) {
    check(cuInit(0));
    CUgraph known = graph_with(0), conditional = graph_with(1), outer = graph_with(0);
    CUgraphNode child;
    check(cuGraphAddChildGraphNode(&child, outer, NULL, 0, conditional));
    launch(known, 0, 5);
    launch(conditional, 0, 3);
    launch(outer, 0, 2);
    launch(known, INSTANTIATE_FLAG_DEVICE_LAUNCH, 1);
    printf("expected graph_launches=11 graph_kernels=%d kernels=%d\nopen=6\n", 26, 26);
    return 0;
}
