//! Launches in all their forms.

use super::order::BUMPED;
use super::{Performer, View, call};
use crate::kernels::{Kernel, Parameters, WORDS};
use crate::program::{Form, Kind, Launch};
use apex_cuda::types::*;
use std::ffi::CString;
use std::ptr::null_mut;

const BUFFER: usize = 1;
const SIZE: usize = 2;
/// What is written over memory that the driver may look at no more.
const SCRIBBLE: u8 = 0xa5;

/// A module with one kernel, which is loaded and unloaded.
const SMALL: &str = "
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 at, .param .u32 n)
{
    .reg .u64 %at, %by;
    .reg .u32 %x, %n;
    mov.u32 %x, %tid.x;
    mul.wide.u32 %by, %x, 4;
    ld.param.u64 %at, [at];
    add.u64 %at, %at, %by;
    ld.param.u32 %n, [n];
    ld.global.u32 %x, [%at];
    mad.lo.u32 %x, %x, 7, %n;
    st.global.u32 [%at], %x;
    ret;
}
";

impl Performer<'_> {
    /// Makes a launch on its lane's memory.
    pub(super) fn launch(&mut self, launch: &Launch) -> CUresult {
        let View { pinned_address, .. } = self.lanes[launch.lane].view();
        let salted = Launch { seed: launch.seed ^ self.salt.wrapping_mul(0x9e37_79b9), ..*launch };
        self.launch_at(&salted, pinned_address + 4 * BUMPED as u64)
    }

    /// Makes a launch; a kernel for the host to watch works at `mapped`.
    pub(super) fn launch_at(&mut self, launch: &Launch, mapped: CUdeviceptr) -> CUresult {
        let View { words, .. } = self.lanes[launch.lane].view();
        let mut parameters = Parameters::of(launch.kernel, launch.seed, words, mapped);
        let function = match launch.form {
            Form::Handle => self.side.handle(launch.kernel).cast(),
            _ => self.side.kernel(launch.kernel),
        };
        self.launch_function(function, launch, &mut parameters)
    }

    pub(super) fn launch_function(
        &mut self,
        function: CUfunction,
        launch: &Launch,
        parameters: &mut Parameters,
    ) -> CUresult {
        let start = parameters.bytes.as_mut_ptr();
        let mut pointers = parameters.pointers();
        let each = if pointers.is_empty() { null_mut() } else { pointers.as_mut_ptr() };
        let mut size = parameters.bytes.len();
        let mut extra: [*mut c_void; 5] = [
            std::ptr::without_provenance_mut(BUFFER),
            start.cast(),
            std::ptr::without_provenance_mut(SIZE),
            (&raw mut size).cast(),
            null_mut(),
        ];
        let lane = &self.lanes[launch.lane];
        let stream = match (launch.form, lane.kind) {
            (Form::Twin, Kind::PerThread) => null_mut(),
            (Form::Twin, Kind::Legacy) => std::ptr::without_provenance_mut(1),
            _ => lane.stream,
        };
        let ([gx, gy, gz], [bx, by, bz], shared) = (launch.grid, launch.block, launch.shared);
        let none = null_mut();
        let result = match launch.form {
            Form::Pointers | Form::Handle => {
                call!(
                    self,
                    cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, each, none)
                )
            }
            Form::Extra if size > 0 => {
                let extra = extra.as_mut_ptr();
                call!(
                    self,
                    cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, none, extra)
                )
            }
            Form::Twin | Form::Extra => {
                call!(
                    self,
                    cuLaunchKernel_ptsz(
                        function, gx, gy, gz, bx, by, bz, shared, stream, each, none
                    )
                )
            }
            Form::Cooperative => {
                call!(
                    self,
                    cuLaunchCooperativeKernel(
                        function, gx, gy, gz, bx, by, bz, shared, stream, each
                    )
                )
            }
            Form::Described(which) => {
                let mut attributes = attributes(which, launch.grid);
                let mut config = config(launch, stream, &mut attributes);
                let result = call!(self, cuLaunchKernelEx(&raw const config, function, each, none));
                attributes.fill(attribute(99, [u32::MAX; 3]));
                config.gridDimX = 0;
                std::hint::black_box(&config);
                result
            }
        };
        parameters.bytes.fill(SCRIBBLE);
        pointers.fill(null_mut());
        result
    }

    /// Many launches: more than wait at once.
    pub(super) fn flood(&mut self, lane: usize, kernel: Kernel, count: usize) {
        let before = self.record.seen.len();
        for seed in 0..count as u64 {
            self.launch(&Launch { seed, ..Launch::plain(lane, kernel) });
        }
        let failed = self.record.seen.drain(before..).filter(|seen| seen.value != 0).count();
        self.record.note("launches refused", failed as u64);
    }

    /// A module comes, its kernel is launched, and it goes. The work is waited for.
    pub(super) fn module(&mut self, lane: usize, launches: usize) {
        let Some((module, function)) = self.load_small() else { return };
        for nth in 0..launches {
            self.launch_small(lane, function, nth as u32);
        }
        self.sync(lane);
        call!(self, cuModuleUnload(module));
    }

    pub(super) fn load_small(&mut self) -> Option<(CUmodule, CUfunction)> {
        let (mut module, mut function) = (null_mut(), null_mut());
        let text = CString::new(SMALL).unwrap_or_default();
        if call!(self, cuModuleLoadData(&raw mut module, text.as_ptr().cast())) != CUDA_SUCCESS {
            return None;
        }
        call!(self, cuModuleGetFunction(&raw mut function, module, c"add".as_ptr()));
        Some((module, function))
    }

    pub(super) fn launch_small(
        &mut self,
        lane: usize,
        function: CUfunction,
        added: u32,
    ) -> CUresult {
        let View { words, .. } = self.lanes[lane].view();
        let mut bytes = words.to_le_bytes().to_vec();
        bytes.extend_from_slice(&added.to_le_bytes());
        let mut parameters = Parameters { bytes, places: vec![0, 8] };
        let launch = Launch { block: [32, 1, 1], ..Launch::plain(lane, Kernel::Mix) };
        self.launch_function(function, &launch, &mut parameters)
    }

    /// A setting of a kernel decides whether a launch is allowed.
    pub(super) fn setting(&mut self, lane: usize, bytes: u32) {
        const MAX_DYNAMIC_SHARED: u32 = 8;
        let function = self.side.kernel(Kernel::Flip);
        // Where others launch the kernel too, the answer would depend on them.
        if self.is_alone() {
            call!(self, cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, bytes as i32));
            for shared in [256, 60_000, 60_000, 90_000, 90_000, 256] {
                self.launch(&flip(lane, shared));
            }
            call!(self, cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, 0));
            for shared in [256, 256, 60_000] {
                self.launch(&flip(lane, shared));
            }
        } else {
            self.launch(&flip(lane, 256));
        }
    }

    /// Launches in another context, on its legacy stream. A kernel of a library has one handle for all contexts: it was
    /// launched in the first one just before.
    pub(super) fn elsewhere(&mut self, launches: usize, sets: bool) {
        let mut function = self.side.other_mix;
        if launches.is_multiple_of(2) {
            function = self.side.handle(Kernel::Mix).cast();
            (0..3).for_each(|_| self.mix(function, self.side.words(self.number, 0), 0, true));
        }
        let mut popped = null_mut();
        if sets {
            call!(self, cuCtxSetCurrent(self.side.other_context));
        } else {
            call!(self, cuCtxPushCurrent_v2(self.side.other_context));
        }
        let place = self.side.elsewhere(self.number);
        let mut words = [5_u32; WORDS];
        call!(self, cuMemcpyHtoD_v2(place, words.as_mut_ptr().cast(), 4 * WORDS));
        (0..launches).for_each(|seed| self.mix(function, place, seed as u64, false));
        call!(self, cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), place, 4 * WORDS));
        self.record.words("words elsewhere", &words);
        if sets {
            call!(self, cuCtxSetCurrent(self.side.context));
        } else {
            call!(self, cuCtxPopCurrent_v2(&raw mut popped));
        }
    }

    /// Mixes words on the legacy stream, or none of them.
    fn mix(&mut self, function: CUfunction, place: CUdeviceptr, seed: u64, is_empty: bool) {
        let mut parameters = Parameters::of(Kernel::Mix, seed, place, 0);
        if is_empty {
            let count = parameters.bytes.len() - 4;
            parameters.bytes[count..].fill(0);
        }
        let mut pointers = parameters.pointers();
        let (each, none) = (pointers.as_mut_ptr(), null_mut());
        call!(self, cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, null_mut(), each, none));
    }

    /// The context fails; everything after says so.
    pub(super) fn fault(&mut self, lane: usize) {
        let View { stream, words, .. } = self.lanes[lane].view();
        let mix = Launch::plain(lane, Kernel::Mix);
        (0..4).for_each(|_| _ = self.launch(&mix));
        // Once it has failed nobody can wait for what is under way elsewhere.
        call!(self, cuCtxSynchronize());
        let function = self.side.kernel(Kernel::Fault);
        let none = null_mut();
        call!(self, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, none, none.cast()));
        call!(self, cuStreamSynchronize(stream));
        (0..3).for_each(|_| _ = self.launch(&mix));
        let mut address = 0;
        call!(self, cuMemAlloc_v2(&raw mut address, 64));
        call!(self, cuMemsetD32Async(words, 1, 4, stream));
        call!(self, cuEventRecord(self.events[0], stream));
        call!(self, cuStreamSynchronize(stream));
        self.has_failed = true;
    }
}

fn flip(lane: usize, shared: u32) -> Launch {
    Launch { shared, ..Launch::plain(lane, Kernel::Flip) }
}

/// The description of a launch.
pub(super) fn config(
    launch: &Launch,
    stream: CUstream,
    attributes: &mut [CUlaunchAttribute],
) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: launch.grid[0],
        gridDimY: launch.grid[1],
        gridDimZ: launch.grid[2],
        blockDimX: launch.block[0],
        blockDimY: launch.block[1],
        blockDimZ: launch.block[2],
        sharedMemBytes: launch.shared,
        hStream: stream,
        attrs: if attributes.is_empty() { null_mut() } else { attributes.as_mut_ptr() },
        numAttrs: attributes.len() as u32,
    }
}

/// An attribute of a kind, with its value as numbers. What the driver does not look at is no zero.
pub(super) fn attribute(kind: u32, value: [u32; 3]) -> CUlaunchAttribute {
    let mut words = [0x5a5a_5a5a_u32; size_of::<CUlaunchAttribute>() / 4];
    (words[0], words[2], words[3], words[4]) = (kind, value[0], value[1], value[2]);
    // SAFETY: a kind and numbers; kinds are read as the numbers that they are.
    unsafe { std::mem::transmute(words) }
}

/// One attribute for each bit.
fn attributes(which: u32, grid: [u32; 3]) -> Vec<CUlaunchAttribute> {
    let cluster = if grid[0].is_multiple_of(2) { [2, 1, 1] } else { [1; 3] };
    let all = [
        attribute(0, [0; 3]),
        attribute(2, [1, 0, 0]),
        attribute(4, cluster),
        attribute(5, [1, 0, 0]),
        attribute(6, [0; 3]),
        attribute(8, [u32::MAX, 0, 0]),
        attribute(10, [0; 3]),
        attribute(14, [50, 0, 0]),
    ];
    all.into_iter()
        .enumerate()
        .filter(|(nth, _)| which >> nth & 1 != 0)
        .map(|(_, one)| one)
        .collect()
}
