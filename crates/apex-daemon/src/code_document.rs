//! The document `code.json` of a session that was looked at closely: what the code of its kernels tells, and what the
//! first launch of each kernel and shape passed and did. Rows to train on are made of it, and nothing else reads it.

use crate::code::{Codes, KernelCode};
use crate::described::{guessed, plain_kernel};
use crate::known::{Known, KnownProcess};
use apex_core::facts::{Device, Kernel, Passed};
use apex_policy::LaunchShape;
use apex_policy::predict::exact::exact;
use apex_policy::predict::question::Question;
use apex_ptx::walk::{Launch, Program, walk};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Name of the document.
pub const CODE_FILE: &str = "code.json";

/// What `code.json` says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CodeDocument {
    /// Kernels whose code was read.
    pub kernels: Vec<ReadKernel>,
    /// The first launches of each kernel and shape.
    pub launches: Vec<SeenLaunch>,
}

/// What the code of a kernel tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadKernel {
    /// Hash of its image.
    pub image: u64,
    /// Its mangled name.
    pub name: String,
    /// Its instructions by kind, in the order of [`apex_ptx::totals::NAMES`].
    pub totals: Vec<u32>,
    /// The operations of its machine code, as [`apex_ptx::machine::Machine::text`] writes them.
    pub machine: String,
    /// Why it has no text that can be walked; empty where it has one.
    pub untold: String,
}

/// What a launch passed and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeenLaunch {
    /// Hash of the kernel's image.
    pub image: u64,
    /// The kernel's mangled name.
    pub name: String,
    /// Sides of grid, block and cluster, three each, and bytes of dynamic shared memory.
    pub shape: Vec<u64>,
    /// Sizes of its parameters.
    pub sizes: Vec<u64>,
    /// Values of parameters of eight bytes or fewer; 0 for others, and for what points to an allocation.
    pub values: Vec<u64>,
    /// Bytes of the allocation that each points to.
    pub bytes: Vec<u64>,
    /// Words of longer parameters; 0 for what points to an allocation.
    pub inside: Vec<u64>,
    /// Bytes of the allocation that each of these points to.
    pub inside_bytes: Vec<u64>,
    /// What its warps do, in the order of [`apex_ptx::walk::Counts::NAMES`]; empty where they were not walked.
    pub walked: Vec<f32>,
}

/// All that is known; launches are walked until `end`.
#[must_use]
pub fn of_session(known: &Known, codes: &Codes, end: Instant) -> CodeDocument {
    let kernel = |((image, name), code): (&(u64, String), &KernelCode)| ReadKernel {
        image: *image,
        name: name.clone(),
        totals: code.totals.map(Vec::from).unwrap_or_default(),
        machine: code.machine.as_ref().map(|machine| machine.text()).unwrap_or_default(),
        untold: code.untold.clone(),
    };
    let mut kernels: Vec<ReadKernel> = codes.iter().map(kernel).collect();
    kernels.sort_by(|a, b| (a.image, &a.name).cmp(&(b.image, &b.name)));
    let mut launches = Vec::new();
    for process in &known.processes {
        for ((number, _), passed) in &process.passed {
            let Some(kernel) = process.kernels.get(number) else { continue };
            let code = codes.get(&(kernel.image_hash, kernel.name.clone()));
            let program = code.and_then(|code| code.program.as_ref());
            let program = program.filter(|_| Instant::now() < end);
            let walked = program.zip(only_device(process));
            let walked =
                walked.and_then(|(program, device)| walked_of(program, kernel, passed, device));
            launches.push(seen(kernel, passed, walked));
        }
    }
    CodeDocument { kernels, launches }
}

fn only_device(process: &KnownProcess) -> Option<&Device> {
    let mut devices = process.devices.values();
    devices.next().filter(|_| devices.next().is_none())
}

fn seen(kernel: &Kernel, passed: &Passed, walked: Option<Vec<f32>>) -> SeenLaunch {
    let plain = |values: &[u64], bytes: &[u64]| -> Vec<u64> {
        let both = values.iter().zip(bytes);
        both.map(|(value, bytes)| if *bytes > 0 { 0 } else { *value }).collect()
    };
    SeenLaunch {
        image: kernel.image_hash,
        name: kernel.name.clone(),
        shape: passed.shape.clone(),
        sizes: sizes(kernel).collect(),
        values: plain(&passed.values, &passed.bytes),
        bytes: passed.bytes.clone(),
        inside: plain(&passed.inside, &passed.inside_bytes),
        inside_bytes: passed.inside_bytes.clone(),
        walked: walked.unwrap_or_default(),
    }
}

fn sizes(kernel: &Kernel) -> impl Iterator<Item = u64> {
    kernel.parameters.chunks_exact(2).map(|pair| pair[1])
}

/// What the warps of a launch do on average; nothing where its PTX has other parameters than the driver says.
pub(crate) fn walked_of(
    program: &Program,
    kernel: &Kernel,
    passed: &Passed,
    device: &Device,
) -> Option<Vec<f32>> {
    let parameters = parameters(program, kernel, passed)?;
    let (shape, dynamic_shared) = shape_of(passed)?;
    let device = guessed(device)?;
    let asked = plain_kernel(kernel);
    let question = Question::by_shape(&device, &asked, shape, dynamic_shared);
    let exact = exact(&question);
    let given = exact.blocks.div_ceil(u64::from(device.multiprocessors.max(1)));
    let resident = given.min(u64::from(exact.occupancy.blocks_per_sm.max(1)));
    let warps = u64::from(exact.threads_per_block.div_ceil(device.chip.warp_threads).max(1));
    let launch = Launch {
        grid: shape.grid,
        block: shape.block,
        dynamic_shared,
        sharing: u32::try_from(resident.saturating_mul(warps)).unwrap_or(u32::MAX),
        parameters: &parameters,
        bytes: &passed.bytes,
    };
    Some(walk(program, &launch).numbers().to_vec())
}

/// The value of each parameter, where it has eight bytes or fewer; nothing where the PTX has other parameters.
pub(crate) fn parameters(
    program: &Program,
    kernel: &Kernel,
    passed: &Passed,
) -> Option<Vec<Option<u64>>> {
    let values = &passed.values;
    if program.pointers().len() != values.len() || sizes(kernel).count() != values.len() {
        return None;
    }
    let value = |(value, size): (&u64, u64)| (size <= 8).then_some(*value);
    Some(values.iter().zip(sizes(kernel)).map(value).collect())
}

fn shape_of(passed: &Passed) -> Option<(LaunchShape, u32)> {
    let small = |nth: usize| u32::try_from(*passed.shape.get(nth)?).ok();
    let sides = |from: usize| Some([small(from)?, small(from + 1)?, small(from + 2)?]);
    Some((LaunchShape { grid: sides(0)?, block: sides(3)? }, small(9)?))
}
