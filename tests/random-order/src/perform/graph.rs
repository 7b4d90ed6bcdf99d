//! Sequences that the program itself captures and launches as graphs.

use super::{Performer, View, call};
use crate::kernels::{Kernel, Parameters};
use crate::program::{Act, Graph, Launch, Spoil};
use apex_cuda::types::*;
use std::ptr::null_mut;

impl Performer<'_> {
    pub(super) fn graph(&mut self, graph: &Graph) {
        let stream = self.lanes[graph.lane].stream;
        let mut event = null_mut();
        call!(self, cuEventCreate(&raw mut event, 2));
        if let Some(fork) = graph.fork {
            self.follow(graph.lane, fork, event);
        }
        let mut made = null_mut();
        let result = self.capture(graph, event, &mut made);
        if result == CUDA_SUCCESS {
            self.launch_graph(graph, made);
            call!(self, cuGraphDestroy(made));
        }
        call!(self, cuEventDestroy_v2(event));
        call!(self, cuEventCreate(&raw mut event, 2));
        if let Some(fork) = graph.fork {
            self.follow(fork, graph.lane, event);
        }
        call!(self, cuEventDestroy_v2(event));
        self.record.note("is whole", u64::from(!stream.is_null()));
    }

    /// What one lane does next comes behind what another has done.
    fn follow(&mut self, later: usize, earlier: usize, event: CUevent) {
        call!(self, cuEventRecord(event, self.lanes[earlier].stream));
        call!(self, cuStreamWaitEvent(self.lanes[later].stream, event, 0));
    }

    fn capture(&mut self, graph: &Graph, event: CUevent, made: &mut CUgraph) -> CUresult {
        let stream = self.lanes[graph.lane].stream;
        let mut ended = null_mut();
        if call!(self, cuStreamBeginCapture_v2(stream, graph.mode)) != CUDA_SUCCESS {
            return CUDA_ERROR_ILLEGAL_STATE;
        }
        graph.body.iter().for_each(|act| self.act(act));
        if let Some(fork) = graph.fork {
            self.follow(fork, graph.lane, event);
            let launch = Launch::plain(fork, Kernel::Mix);
            (0..2).for_each(|_| _ = self.launch(&launch));
            if graph.spoil == Some(Spoil::Unmatched) {
                call!(self, cuStreamEndCapture(self.lanes[fork].stream, &raw mut ended));
            }
            if graph.spoil != Some(Spoil::Unjoined) {
                self.follow(graph.lane, fork, event);
            }
        }
        match graph.spoil {
            Some(Spoil::Query) => _ = call!(self, cuStreamQuery(stream)),
            Some(Spoil::Context) => _ = call!(self, cuCtxSynchronize()),
            Some(Spoil::Legacy) => _ = call!(self, cuMemsetD8Async(0, 0, 0, null_mut())),
            Some(Spoil::Unmatched | Spoil::Unjoined) | None => {}
        }
        let mut capturing = 9;
        call!(self, cuStreamIsCapturing(stream, &raw mut capturing));
        self.record.note("capturing", capturing.into());
        let launch = Launch::plain(graph.lane, Kernel::Mix);
        (0..2).for_each(|_| _ = self.launch(&launch));
        call!(self, cuStreamEndCapture(stream, made))
    }

    fn launch_graph(&mut self, graph: &Graph, made: CUgraph) {
        let stream = self.lanes[graph.lane].stream;
        let mut executable = null_mut();
        let mut count = 1;
        let mut first = null_mut();
        call!(self, cuGraphGetNodes(made, null_mut(), &raw mut count));
        self.record.note("nodes", count as u64);
        count = 1;
        call!(self, cuGraphGetNodes(made, &raw mut first, &raw mut count));
        if call!(self, cuGraphInstantiateWithFlags(&raw mut executable, made, 0)) != CUDA_SUCCESS {
            return;
        }
        for nth in 0..graph.launches {
            call!(self, cuGraphLaunch(executable, stream));
            graph.between.iter().for_each(|act| self.act(act));
            if let Some(Act::Launch(launch)) = graph.body.first().filter(|_| graph.changes) {
                self.change(executable, first, launch, nth as u64);
            }
        }
        call!(self, cuGraphExecDestroy(executable));
    }

    /// Gives the node of a launch other parameters.
    fn change(&mut self, executable: CUgraphExec, node: CUgraphNode, launch: &Launch, nth: u64) {
        let View { words, pinned_address, .. } = self.lanes[launch.lane].view();
        let mut parameters =
            Parameters::of(launch.kernel, launch.seed ^ nth, words, pinned_address + 4);
        let mut pointers = parameters.pointers();
        let described = CUDA_KERNEL_NODE_PARAMS {
            func: self.side.kernel(launch.kernel),
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.block[0],
            blockDimY: launch.block[1],
            blockDimZ: launch.block[2],
            sharedMemBytes: launch.shared,
            kernelParams: if pointers.is_empty() { null_mut() } else { pointers.as_mut_ptr() },
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        };
        call!(self, cuGraphExecKernelNodeSetParams_v2(executable, node, &raw const described));
        parameters.bytes.fill(0);
    }
}
