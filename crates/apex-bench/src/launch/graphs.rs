//! Graphs as a program makes them by hand: a chain of the same kernel, each of whose nodes gets other arguments before
//! every launch.

#![allow(unsafe_code, reason = "calls a driver library by its C functions")]

use super::calls::{Four, Gpu};
use crate::libraries::check;
use anyhow::Result;
use apex_cuda::types::{CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode};
use core::ptr::null_mut;

/// A chain of kernels, made ready to launch.
pub(super) struct Chain<'a> {
    gpu: &'a Gpu,
    graph: CUgraph,
    executable: CUgraphExec,
    nodes: Vec<CUgraphNode>,
}

impl Chain<'_> {
    /// Builds it.
    pub(super) fn new(gpu: &Gpu, length: u64) -> Result<Chain<'_>> {
        let mut chain = Chain { gpu, graph: null_mut(), executable: null_mut(), nodes: Vec::new() };
        // SAFETY: a valid place for the answer.
        check("cuGraphCreate", unsafe { (gpu.driver.cuGraphCreate)(&raw mut chain.graph, 0) })?;
        for nth in 0..length {
            let mut arguments = Four::nth(nth);
            let mut pointers = arguments.pointers();
            let described = describe(gpu, &mut pointers);
            let before = chain.nodes.last().copied().unwrap_or(null_mut());
            let many = usize::from(!before.is_null());
            let mut node = null_mut();
            // SAFETY: a graph of ours, the node before, and a launch that the kernel allows.
            let answer = unsafe {
                (gpu.driver.cuGraphAddKernelNode_v2)(
                    &raw mut node,
                    chain.graph,
                    &raw const before,
                    many,
                    &raw const described,
                )
            };
            check("cuGraphAddKernelNode", answer)?;
            chain.nodes.push(node);
        }
        // SAFETY: a graph of ours and a valid place for the answer.
        let answer = unsafe {
            (gpu.driver.cuGraphInstantiateWithFlags)(&raw mut chain.executable, chain.graph, 0)
        };
        check("cuGraphInstantiateWithFlags", answer)?;
        Ok(chain)
    }

    /// Gives every node other arguments.
    pub(super) fn change(&self, from: u64) -> Result<()> {
        for (nth, &node) in (from..).zip(&self.nodes) {
            let mut arguments = Four::nth(nth);
            let mut pointers = arguments.pointers();
            let described = describe(self.gpu, &mut pointers);
            // SAFETY: a node of this graph and a launch of its own kernel.
            let answer = unsafe {
                (self.gpu.driver.cuGraphExecKernelNodeSetParams_v2)(
                    self.executable,
                    node,
                    &raw const described,
                )
            };
            check("cuGraphExecKernelNodeSetParams", answer)?;
        }
        Ok(())
    }

    /// Launches it.
    pub(super) fn launch(&self) -> Result<()> {
        // SAFETY: an executable graph of ours.
        check("cuGraphLaunch", unsafe {
            (self.gpu.driver.cuGraphLaunch)(self.executable, null_mut())
        })
    }
}

impl Drop for Chain<'_> {
    fn drop(&mut self) {
        // SAFETY: both are ours; the driver keeps what still runs.
        unsafe {
            if !self.executable.is_null() {
                (self.gpu.driver.cuGraphExecDestroy)(self.executable);
            }
            if !self.graph.is_null() {
                (self.gpu.driver.cuGraphDestroy)(self.graph);
            }
        }
    }
}

fn describe(gpu: &Gpu, pointers: &mut [*mut core::ffi::c_void; 4]) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: gpu.four,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: pointers.as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    }
}
