// A driver that has graphs with conditional nodes and runs nothing: what stands in a graph is all there is to
// tell, and the software GPU has no such nodes.
#include "cuda_driver.h"

#include <stdlib.h>

typedef struct { int type; int reserved[3]; long long rest[30]; } CUgraphNodeParams;

enum { MOST_NODES = 8, CU_GRAPH_NODE_TYPE_GRAPH = 4 };

struct CUgraphNode_st {
    int type;
    CUgraph child;
};

struct CUgraph_st {
    size_t count;
    struct CUgraphNode_st nodes[MOST_NODES];
};

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

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    *graph = calloc(1, sizeof **graph);
    return flags == 0 && *graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult add(CUgraphNode *node, CUgraph graph, int type, CUgraph child) {
    if (graph->count == MOST_NODES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *node = &graph->nodes[graph->count++];
    (*node)->type = type;
    (*node)->child = child;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                        CUgraphNodeParams *params);
CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                        CUgraphNodeParams *params) {
    (void)dependencies, (void)count;
    return add(node, graph, params->type, NULL);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                  CUgraph child) {
    (void)dependencies, (void)count;
    return add(node, graph, CU_GRAPH_NODE_TYPE_GRAPH, child);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child);
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child) {
    *child = node->child;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    for (size_t i = 0; nodes && i < graph->count && i < *count; i++)
        nodes[i] = &graph->nodes[i];
    *count = graph->count;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, int *type) {
    *type = node->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, uint64_t flags) {
    (void)graph, (void)flags;
    *exec = calloc(1, 16);
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    (void)stream;
    return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
