//! A made-up program: its rings and facts, as the shim would write them.

use apex_core::event::{
    AllocKind, CallId, Copy, Direction, Event, Head, KernelId, Launch, LaunchShape, Life,
    ObjectKind, SyncKind, TimeBasis, What,
};
use apex_core::facts::{Device, Fact, Graph, Kernel, Process};
use apex_core::ring::{ProcessMap, ProcessWord, Writer};
use apex_core::time::{Clock, ticks};
use apex_daemon::row::call_named;
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// One process with one thread.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) writer: Writer<'static>,
    facts: fs::File,
}

impl Program {
    /// Makes the files of process `name`, with room for `ring_events`.
    pub(crate) fn start(rings: &Path, name: &str, ring_events: u64) -> Program {
        let path = rings.join(format!("{name}.ring"));
        let map = ProcessMap::create(&path, ring_events, Clock::chosen().code(), ticks()).unwrap();
        let map: &'static ProcessMap = Box::leak(Box::new(map));
        let writer = map.claim().unwrap();
        let facts = fs::File::create(rings.join(format!("{name}.facts"))).unwrap();
        let mut program = Program { path, writer, facts };
        program.fact(&Fact::Process(Process {
            pid: u64::from(std::process::id()),
            executable: "/opt/train".into(),
            arguments: vec!["train".into(), "--fast".into()],
            driver_version: 13000,
            ..Process::default()
        }));
        program.fact(&Fact::Device(Device {
            name: "H200".into(),
            uuid: "aa".into(),
            major: 9,
            sms: 132,
            ..Device::default()
        }));
        program.kernel(1, "_Z5saxpyifPfS_");
        program.kernel(2, "gemm");
        program.fact(&Fact::Graph(Graph {
            id: 1,
            kernel_nodes: 3,
            nodes: 4,
            kernels: vec![1, 2, 2, 1],
            ..Graph::default()
        }));
        program.push(
            "cuInit",
            0,
            What::Life(Life {
                object: ObjectKind::Thread,
                begins: true,
                handle: 77,
                flags: 0,
                priority: 0,
            }),
        );
        program
    }

    /// The process looks as if it had ended: it could have no lock, and no process has this id.
    pub(crate) fn end(self) {
        let file = fs::File::options().write(true).open(&self.path).unwrap();
        let nobody = u64::from(u32::MAX / 2);
        for (word, value) in [(ProcessWord::Pid, nobody), (ProcessWord::Locked, 0)] {
            file.write_all_at(&value.to_le_bytes(), 8 * word as u64).unwrap();
        }
    }

    pub(crate) fn fact(&mut self, fact: &Fact) {
        self.facts.write_all(fact.line().as_bytes()).unwrap();
    }

    pub(crate) fn kernel(&mut self, id: u64, name: &str) {
        self.fact(&Fact::Kernel(Kernel {
            id,
            name: name.into(),
            registers: 32,
            max_threads: 1024,
            carveout: -1,
            ..Kernel::default()
        }));
    }

    pub(crate) fn push(&mut self, function: &str, result: u16, what: What) {
        self.push_on(function, result, 0, what);
    }

    pub(crate) fn push_on(&mut self, function: &str, result: u16, stream: u64, what: What) {
        let CallId(call) = call_named(function);
        let start = ticks();
        let ticks = if matches!(what, What::GpuTime { .. }) { 0 } else { 1_000 };
        let call = CallId(call);
        let head = Head { call, result, start, ticks, device: 0, context: 1, stream };
        self.writer.count_cost(50);
        self.writer.push(&Event { head, what });
    }

    pub(crate) fn launch(&mut self, kernel: u32) {
        self.push("cuLaunchKernel", 0, launch(kernel, false));
    }

    pub(crate) fn time(&mut self, kernel: u32, nanos: u64, basis: TimeBasis) {
        let kernel = KernelId(kernel);
        self.push("cuLaunchKernel", 0, What::GpuTime { kernel, shape: shape(), nanos, basis });
    }

    /// A little of everything: 10 + 5 launches, 2 graph launches of 3 kernels, memory, copies, waits.
    pub(crate) fn work(&mut self) {
        let plain = |address| What::Alloc { kind: AllocKind::Plain, address, bytes: 1 << 20 };
        self.push("cuMemAlloc_v2", 0, plain(0x1000_0000));
        self.push("cuMemAlloc_v2", 2, plain(0));
        let pinned = What::Alloc { kind: AllocKind::Host, address: 0x9000, bytes: 4096 };
        self.push("cuMemHostAlloc", 0, pinned);
        self.copy(0x1000_0000, 0x9000, 4096);
        self.copy(0x1000_0000, 0x5_0000, 1000);
        for _ in 0..10 {
            self.launch(1);
            self.time(1, 2_000, TimeBasis::EventPair);
        }
        for _ in 0..5 {
            self.push("cuLaunchKernelEx", 0, launch(2, false));
        }
        self.time(2, 10_000, TimeBasis::EventPairIdle);
        self.push("cuLaunchKernel", 0, launch(1, true));
        self.push("cuLaunchKernel", 1, launch(1, false));
        for _ in 0..2 {
            let what = What::GraphLaunch { graph: 1, kernels: 3, nodes: 4, captured: false };
            self.push_on("cuGraphLaunch", 0, 0x77, what);
        }
        let object = 0x77;
        self.push_on(
            "cuStreamSynchronize",
            0,
            object,
            What::Sync { kind: SyncKind::Stream, object },
        );
        let free = What::Free { kind: AllocKind::Plain, address: 0x1000_0000, bytes: 0 };
        self.push("cuMemFree_v2", 0, free);
    }

    /// Events that `work` and the start leave.
    pub(crate) const EVENTS: u64 = 1 + 5 + 20 + 6 + 2 + 2 + 2;

    fn copy(&mut self, to: u64, from: u64, bytes: u64) {
        let direction = Direction::Unstated;
        let what =
            What::Copy(Copy { direction, asynchronous: true, captured: false, to, from, bytes });
        self.push("cuMemcpyAsync", 0, what);
    }
}

pub(crate) fn shape() -> LaunchShape {
    LaunchShape { grid: [264, 1, 1], block: [256, 1, 1], cluster: [0; 3], dynamic_shared: 0 }
}

fn launch(kernel: u32, captured: bool) -> What {
    What::Launch(Launch { kernel: KernelId(kernel), shape: shape(), cooperative: false, captured })
}
