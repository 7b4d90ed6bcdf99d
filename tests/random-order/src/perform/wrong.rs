//! What programs get wrong. Mostly the same call was right just before: whoever has learned that must not believe it.

use super::launching::{attribute, config};
use super::order::nowhere;
use super::{Performer, View, call};
use crate::kernels::{Kernel, Parameters};
use crate::program::{Form, Launch, Wrong};
use apex_cuda::types::*;
use std::ptr::{null_mut, without_provenance_mut};

/// So often a right call is made first.
const BEFORE: usize = 3;

impl Performer<'_> {
    pub(super) fn wrong(&mut self, lane: usize, what: Wrong) {
        match what {
            Wrong::NoGrid => self.wrong_shape(lane, [0, 1, 1], [64, 1, 1], 0),
            Wrong::HighGrid => self.wrong_shape(lane, [1, 65_536, 1], [64, 1, 1], 0),
            Wrong::NoBlock => self.wrong_shape(lane, [1; 3], [64, 0, 1], 0),
            Wrong::LongBlock => self.wrong_shape(lane, [1; 3], [1025, 1, 1], 0),
            Wrong::ManyThreads => self.wrong_shape(lane, [1; 3], [32, 33, 1], 0),
            Wrong::PackedBlock => self.wrong_shape(lane, [1; 3], [64 | 1 << 16, 0, 1], 0),
            Wrong::SharedMemory => self.wrong_shape(lane, [1; 3], [64, 1, 1], 1 << 20),
            Wrong::NoFunction
            | Wrong::NoParameters
            | Wrong::BothParameters
            | Wrong::UnknownExtra
            | Wrong::NoStream => self.wrong_launch(lane, what),
            Wrong::OddCluster => self.wrong_cluster(lane),
            Wrong::ManyBlocksTogether => self.wrong_cooperation(lane),
            Wrong::RecordFlags | Wrong::WaitFlags | Wrong::ValueFlags => {
                self.wrong_flags(lane, what)
            }
            Wrong::CopyAddress | Wrong::CopyLength | Wrong::FillAddress => {
                self.wrong_memory(lane, what)
            }
            Wrong::DestroyedEvent => self.destroyed_event(lane),
            Wrong::DestroyedStream => self.destroyed_stream(lane),
            Wrong::DestroyedGraph => self.destroyed_graph(lane),
            Wrong::FreedMemory => self.freed_memory(lane),
            Wrong::UnloadedModule => self.unloaded_module(lane),
            Wrong::EndOfNoCapture => {
                let mut graph = null_mut();
                call!(self, cuStreamEndCapture(self.lanes[lane].stream, &raw mut graph));
            }
        }
    }

    fn right_launches(&mut self, lane: usize) {
        let right = Launch::plain(lane, Kernel::Mix);
        (0..BEFORE).for_each(|_| _ = self.launch(&right));
    }

    fn wrong_shape(&mut self, lane: usize, grid: [u32; 3], block: [u32; 3], shared: u32) {
        self.right_launches(lane);
        self.launch(&Launch { grid, block, shared, ..Launch::plain(lane, Kernel::Mix) });
    }

    fn wrong_launch(&mut self, lane: usize, what: Wrong) {
        self.right_launches(lane);
        let View { mut stream, words, .. } = self.lanes[lane].view();
        let mut parameters = Parameters::of(Kernel::Mix, 3, words, 0);
        let start = parameters.bytes.as_mut_ptr();
        let mut pointers = parameters.pointers();
        let mut size = parameters.bytes.len();
        let mut list: [*mut c_void; 5] = [
            without_provenance_mut(1),
            start.cast(),
            without_provenance_mut(2),
            (&raw mut size).cast(),
            null_mut(),
        ];
        let (mut function, mut each, mut extra) =
            (self.side.kernel(Kernel::Mix), pointers.as_mut_ptr(), null_mut());
        match what {
            Wrong::NoFunction => function = null_mut(),
            Wrong::NoParameters => each = null_mut(),
            Wrong::NoStream => stream = nowhere(),
            Wrong::UnknownExtra => {
                list[0] = without_provenance_mut(7);
                (each, extra) = (null_mut(), list.as_mut_ptr());
            }
            _ => extra = list.as_mut_ptr(),
        }
        // The driver looks where handles point to: this one points to readable memory that is no stream.
        if what == Wrong::NoStream {
            stream = self.events[0].cast();
        }
        call!(self, cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, each, extra));
    }

    /// A grid that its clusters do not divide, after one that they do.
    fn wrong_cluster(&mut self, lane: usize) {
        self.attributed(lane, 4, [2, 1, 1], [2, 2, 2, 4, 3, 3, 2]);
    }

    /// Blocks that cannot all be on the GPU at once, after some that can.
    fn wrong_cooperation(&mut self, lane: usize) {
        self.attributed(lane, 2, [1, 0, 0], [1, 1, 2, 1_000_000, 1_000_000, 1]);
        let form = Form::Cooperative;
        for blocks in [1, 1, 1_000_000, 1] {
            let grid = [blocks, 1, 1];
            self.launch(&Launch { grid, form, ..Launch::plain(lane, Kernel::Mix) });
        }
    }

    fn attributed<const COUNT: usize>(
        &mut self,
        lane: usize,
        kind: u32,
        value: [u32; 3],
        grids: [u32; COUNT],
    ) {
        let View { stream, words, .. } = self.lanes[lane].view();
        for blocks in grids {
            let launch = Launch { grid: [blocks, 1, 1], ..Launch::plain(lane, Kernel::Mix) };
            let mut parameters = Parameters::of(Kernel::Mix, 3, words, 0);
            let mut pointers = parameters.pointers();
            let mut attributes = [attribute(kind, value)];
            let config = config(&launch, stream, &mut attributes);
            let function = self.side.kernel(Kernel::Mix);
            call!(
                self,
                cuLaunchKernelEx(&raw const config, function, pointers.as_mut_ptr(), null_mut())
            );
        }
    }

    fn wrong_flags(&mut self, lane: usize, what: Wrong) {
        const GATE: u64 = 2;
        self.right_launches(lane);
        let View { stream, pinned_address, .. } = self.lanes[lane].view();
        let event = self.events[0];
        for flags in [0, 0, 0, 0x40, 0] {
            match what {
                Wrong::RecordFlags => call!(self, cuEventRecordWithFlags(event, stream, flags)),
                Wrong::WaitFlags => call!(self, cuStreamWaitEvent(stream, event, flags)),
                _ => {
                    call!(self, cuStreamWaitValue32_v2(stream, pinned_address + 4 * GATE, 0, flags))
                }
            };
        }
    }

    fn wrong_memory(&mut self, lane: usize, what: Wrong) {
        const NOTHING_THERE: CUdeviceptr = 0x1230;
        const TOO_LONG: usize = 1 << 40;
        let View { stream, words, .. } = self.lanes[lane].view();
        (0..BEFORE)
            .for_each(|_| _ = call!(self, cuMemcpyDtoDAsync_v2(words, words + 64, 64, stream)));
        match what {
            Wrong::CopyAddress => {
                call!(self, cuMemcpyDtoDAsync_v2(words, NOTHING_THERE, 64, stream))
            }
            Wrong::CopyLength => {
                call!(self, cuMemcpyDtoDAsync_v2(words, words + 64, TOO_LONG, stream))
            }
            _ => call!(self, cuMemsetD32Async(NOTHING_THERE, 1, 4, stream)),
        };
    }

    fn destroyed_event(&mut self, lane: usize) {
        self.right_launches(lane);
        let stream = self.lanes[lane].stream;
        let mut event = null_mut();
        call!(self, cuEventCreate(&raw mut event, 2));
        for _ in 0..BEFORE {
            call!(self, cuEventRecord(event, stream));
            call!(self, cuStreamWaitEvent(stream, event, 0));
        }
        call!(self, cuEventDestroy_v2(event));
        call!(self, cuEventRecord(event, stream));
        call!(self, cuStreamWaitEvent(stream, event, 0));
        call!(self, cuEventQuery(event));
    }

    fn destroyed_stream(&mut self, lane: usize) {
        if !self.lanes[lane].kind.is_own() {
            return;
        }
        self.right_launches(lane);
        let stream = self.lanes[lane].stream;
        self.sync(lane);
        call!(self, cuStreamDestroy_v2(stream));
        let kind = self.lanes[lane].kind;
        let another = self.stream(kind);
        // Others are launched in between, so that whoever has forgotten all has begun to learn again.
        for stream in [stream, another, stream] {
            self.lanes[lane].stream = stream;
            self.right_launches(lane);
        }
        call!(self, cuEventRecord(self.events[0], stream));
        self.lanes[lane].stream = another;
    }

    fn destroyed_graph(&mut self, lane: usize) {
        if !self.lanes[lane].kind.is_own() {
            return;
        }
        self.right_launches(lane);
        let stream = self.lanes[lane].stream;
        let (mut graph, mut executable) = (null_mut(), null_mut());
        call!(self, cuStreamBeginCapture_v2(stream, 2));
        self.right_launches(lane);
        call!(self, cuStreamEndCapture(stream, &raw mut graph));
        call!(self, cuGraphInstantiateWithFlags(&raw mut executable, graph, 0));
        (0..BEFORE).for_each(|_| _ = call!(self, cuGraphLaunch(executable, stream)));
        call!(self, cuGraphExecDestroy(executable));
        call!(self, cuGraphLaunch(executable, stream));
        call!(self, cuGraphDestroy(graph));
    }

    fn freed_memory(&mut self, lane: usize) {
        self.right_launches(lane);
        let stream = self.lanes[lane].stream;
        let mut address = 0;
        call!(self, cuMemAlloc_v2(&raw mut address, 1 << 16));
        (0..BEFORE).for_each(|_| _ = call!(self, cuMemsetD32Async(address, 1, 16, stream)));
        call!(self, cuMemFree_v2(address));
        if !self.side.is_for_pool {
            call!(self, cuMemsetD32Async(address, 1, 16, stream));
        }
    }

    fn unloaded_module(&mut self, lane: usize) {
        self.right_launches(lane);
        let Some((module, function)) = self.load_small() else { return };
        (0..BEFORE as u32).for_each(|nth| _ = self.launch_small(lane, function, nth));
        self.sync(lane);
        call!(self, cuModuleUnload(module));
        self.right_launches(lane);
        self.launch_small(lane, function, 9);
    }
}
