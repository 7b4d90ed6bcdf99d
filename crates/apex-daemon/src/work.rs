//! What launches do: operations and bytes of one execution of each kernel and shape, and the roofline above them.
//!
//! Where launches were looked at closely, it is told of each shape what the first launch passed. Its warps are walked
//! through the kernel's PTX ([`crate::code`]) with that ([`apex_ptx::walk`]). What cannot be known so is
//! said with its reason, never guessed: nobody here reads machine code, and how often a loop turns may depend on data.

use crate::code::Codes;
use crate::code_document::parameters;
use crate::contain::contained;
use crate::known::{Known, KnownProcess};
use crate::names::Demangled;
use crate::summarise::peaks::{bytes_per_second, double_flops_per_second, flops_per_second};
use crate::summary::{ConfigSummary, Summary, Work};
use apex_core::facts::{Device, Kernel, Passed};
use apex_ptx::walk::{Counts, Launch, Program, walk};
use std::collections::HashMap;

/// Bytes of a sector: memory moves no less.
const SECTOR: f64 = 32.0;
const LANES: u64 = 32;

/// A configuration as a summary names it: name, grid, block, cluster, dynamic shared memory.
type Shape = (String, Vec<u64>);

/// Completes the summary with what its configurations do, by the code of kernels. Where launches were not looked at
/// closely nothing is said.
pub(crate) fn complete(summary: &mut Summary, known: &Known, codes: &Codes, names: &mut Demangled) {
    let launches = launches(known, names);
    if launches.is_empty() {
        return;
    }
    for config in &mut summary.configs {
        let work = match launches.get(&shape_of(config)) {
            Some(launch) => launch.work(config, codes),
            None => Err("what its launches passed was not seen".into()),
        };
        match work {
            Ok(work) => config.work = Some(work),
            Err(why) => config.work_unknown = Some(why),
        }
    }
}

/// The first launch of a kernel in a shape.
struct First<'a> {
    process: &'a KnownProcess,
    kernel: &'a Kernel,
    passed: &'a Passed,
}

/// The first launches of all processes. Of several kernels with one name the first process' stands for all.
fn launches<'a>(known: &'a Known, names: &mut Demangled) -> HashMap<Shape, First<'a>> {
    let mut found = HashMap::new();
    for process in &known.processes {
        for ((number, shape), passed) in &process.passed {
            let Some(kernel) = process.kernels.get(number) else { continue };
            let name = names.name(&kernel.name).to_owned();
            found.entry((name, shape.clone())).or_insert(First { process, kernel, passed });
        }
    }
    found
}

fn shape_of(config: &ConfigSummary) -> Shape {
    let sides = config.grid.into_iter().map(u64::from);
    let sides = sides.chain(config.block.map(u64::from)).chain(config.cluster.map(u64::from));
    (config.name.clone(), sides.chain([u64::from(config.dynamic_shared)]).collect())
}

impl First<'_> {
    fn work(&self, config: &ConfigSummary, codes: &Codes) -> Result<Work, String> {
        let mut devices = self.process.devices.values();
        let device = devices.next().filter(|_| devices.next().is_none());
        let code = codes.get(&(self.kernel.image_hash, self.kernel.name.clone()));
        let code = code.ok_or("its code was loaded unseen")?;
        let program = code.program.as_ref().ok_or_else(|| code.untold.clone())?;
        let sms = device.map_or(1, |device| device.sms);
        let counts = contained(|| self.walked(config, program, sms))?;
        if counts.tensor > 0.0 {
            return Err("it uses matrix instructions, whose operations are not counted".into());
        }
        if counts.guessed > 0.0 {
            return Err("how often its loops turn depends on data".into());
        }
        Ok(work(config, &counts, device))
    }

    /// What its warps do on average.
    fn walked(
        &self,
        config: &ConfigSummary,
        program: &Program,
        sms: u64,
    ) -> Result<Counts, String> {
        let parameters = parameters(program, self.kernel, self.passed)
            .ok_or("its PTX has other parameters than the driver says")?;
        let bytes = &self.passed.bytes;
        let block = config.block.map(u32::from);
        let (blocks, warps) = blocks_and_warps(config);
        let resident = config.fit.as_ref().map_or(1, |fit| fit.blocks_per_sm.max(1));
        let sharing = blocks.div_ceil(sms.max(1)).min(resident) * warps;
        let launch = Launch {
            grid: config.grid,
            block,
            dynamic_shared: config.dynamic_shared,
            sharing: u32::try_from(sharing).unwrap_or(u32::MAX),
            parameters: &parameters,
            bytes,
        };
        Ok(walk(program, &launch))
    }
}

/// Blocks of a launch, and warps of each.
fn blocks_and_warps(config: &ConfigSummary) -> (u64, u64) {
    let blocks = config.grid.iter().map(|side| u64::from(*side)).fold(1, u64::saturating_mul);
    let threads: u64 = config.block.iter().map(|side| u64::from(*side)).product();
    (blocks, threads.div_ceil(LANES).max(1))
}

/// The work of all warps, and what the device could do of it at best.
fn work(config: &ConfigSummary, counts: &Counts, device: Option<&Device>) -> Work {
    let (blocks, warps) = blocks_and_warps(config);
    let all = blocks as f64 * warps as f64;
    let flops = f64::from(counts.flops) * all;
    let bytes = f64::from(counts.missed + counts.stored) * SECTOR * all;
    let double = counts.double > 0.0;
    let mean_ns = config.gpu.as_ref().map(|gpu| gpu.mean_ns).filter(|mean| *mean > 0.0);
    let rate = if double { double_flops_per_second } else { flops_per_second };
    let compute_ns = device.and_then(rate).map(|rate| flops * 1e9 / rate);
    let memory_ns = device.and_then(bytes_per_second).map(|rate| bytes * 1e9 / rate);
    let least = compute_ns.zip(memory_ns).map(|(compute, memory)| match compute > memory {
        true => (compute, "compute"),
        false => (memory, "memory"),
    });
    let least = least.filter(|(nanos, _)| *nanos > 0.0);
    Work {
        flops,
        bytes,
        double,
        flops_per_byte: if bytes > 0.0 { flops / bytes } else { 0.0 },
        flops_per_second: mean_ns.map(|mean| flops * 1e9 / mean),
        least_ns: least.map(|(nanos, _)| nanos),
        bound: least.map(|(_, bound)| bound.into()),
        reached: least.zip(mean_ns).map(|((least, _), mean)| least / mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code;
    use crate::summary::GpuTime;
    use apex_core::facts::{Image, image_file};
    use apex_cuda::image::hash;
    use std::time::{Duration, Instant};

    const PTX: &str = include_str!("../../../tests/programs/demo.ptx");

    /// One process that launched `vector_add` on 1024 numbers, by a device of a thousand operations and bytes a second.
    fn session(code: &[u8], kernel: &str, values: &[u64], sizes: &[u64]) -> (Known, ConfigSummary) {
        let mut process = KnownProcess::default();
        let image = Image { id: 1, kind: "ptx".into(), hash: hash(code), ..Image::default() };
        process.images.insert(1, image);
        let device = Device {
            major: 9,
            sms: 1,
            clock_khz: 1,
            memory_clock_khz: 1,
            bus_bits: 4,
            double_ratio: 2,
            ..Device::default()
        };
        process.devices.insert(0, device);
        let parameters = sizes.iter().flat_map(|size| [0, *size]).collect();
        let facts = Kernel {
            id: 3,
            name: kernel.into(),
            image_hash: hash(code),
            parameters,
            ..Kernel::default()
        };
        process.kernels.insert(3, facts);
        let shape = vec![4, 1, 1, 256, 1, 1, 0, 0, 0, 0];
        let bytes = values.iter().map(|value| if *value > 1 << 32 { 1 << 20 } else { 0 }).collect();
        let values = values.into();
        let passed = Passed { kernel: 3, shape: shape.clone(), values, bytes, ..Passed::default() };
        process.passed.insert((3, shape), passed);
        let config = ConfigSummary {
            name: kernel.into(),
            grid: [4, 1, 1],
            block: [256, 1, 1],
            gpu: Some(GpuTime { mean_ns: 1e9, ..GpuTime::default() }),
            ..ConfigSummary::default()
        };
        (Known { processes: vec![process] }, config)
    }

    fn completed(known: &Known, config: ConfigSummary, kept: Option<&[u8]>) -> ConfigSummary {
        let folder = tempfile::tempdir().unwrap();
        if let Some(bytes) = kept {
            let hash = known.processes[0].images[&1].hash;
            std::fs::write(folder.path().join(image_file(hash)), bytes).unwrap();
        }
        let mut summary = Summary { configs: vec![config], ..Summary::default() };
        let codes = code::read(known, folder.path(), Instant::now() + Duration::from_secs(240));
        complete(&mut summary, known, &codes, &mut Demangled::default());
        summary.configs.remove(0)
    }

    const ADDED: [u64; 4] = [1 << 40, 1 << 41, 1 << 42, 1024];
    const SIZES: [u64; 4] = [8, 8, 8, 4];

    #[test]
    fn a_vector_add_does_one_operation_for_twelve_bytes() {
        let (known, config) = session(PTX.as_bytes(), "vector_add", &ADDED, &SIZES);
        let found = completed(&known, config, Some(PTX.as_bytes()));
        assert_eq!(found.work_unknown, None);
        let work = found.work.unwrap();
        assert_eq!((work.flops, work.bytes), (1024.0, 12.0 * 1024.0));
        assert_eq!(work.flops_per_second, Some(1024.0));
        // 256,000 operations a second, and 1,000 bytes.
        assert_eq!(work.bound.as_deref(), Some("memory"));
        assert_eq!(work.least_ns, Some(12.288e9));
        assert!((work.reached.unwrap() - 12.288).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_known_has_its_reason() {
        let why = |known: &Known, config: ConfigSummary, kept: Option<&[u8]>| {
            let found = completed(known, config, kept);
            assert_eq!(found.work, None);
            found.work_unknown.unwrap_or_default()
        };
        let code = PTX.as_bytes();
        let (known, config) = session(code, "vector_add", &ADDED, &SIZES);
        let with = |more: &str| {
            why(&known, ConfigSummary { name: more.into(), ..config.clone() }, Some(code))
        };
        assert!(with("other").contains("was not seen"));
        assert!(why(&known, config.clone(), None).contains("was not kept"));
        // A file that was cut short is none.
        assert!(why(&known, config, Some(&code[..code.len() / 2])).contains("was not kept"));
        let cubin = include_bytes!("../../apex-ptx/tests/machine/known.cubin");
        let (known, config) = session(cubin, "straight", &ADDED[..2], &SIZES[..2]);
        assert!(why(&known, config, Some(cubin)).contains("machine code"));
        let (known, config) = session(code, "vector_add", &ADDED[..3], &SIZES[..3]);
        assert!(why(&known, config, Some(code)).contains("other parameters"));
        let (known, config) = session(code, "no_such_kernel", &ADDED, &SIZES);
        assert!(why(&known, config, Some(code)).contains("no PTX of it"));
        let (known, config) = session(b"no code", "vector_add", &ADDED, &SIZES);
        assert!(why(&known, config, Some(b"no code")).contains("was not kept"));
        let text = LOOP.as_bytes();
        let (known, config) = session(text, "follow", &ADDED[..1], &SIZES[..1]);
        assert!(why(&known, config, Some(text)).contains("depends on data"));
    }

    #[test]
    fn nothing_is_said_where_launches_were_not_looked_at() {
        let (mut known, config) = session(PTX.as_bytes(), "vector_add", &ADDED, &SIZES);
        known.processes[0].passed.clear();
        let found = completed(&known, config, Some(PTX.as_bytes()));
        assert_eq!((found.work, found.work_unknown), (None, None));
    }

    const LOOP: &str = "
.version 8.0
.target sm_70
.address_size 64
.visible .entry follow(.param .u64 start)
{
    .reg .b64 %at, %next;
    .reg .pred %end;
    ld.param.u64 %at, [start];
again:
    ld.global.u64 %next, [%at];
    mov.u64 %at, %next;
    setp.ne.u64 %end, %next, 0;
    @%end bra again;
    ret;
}
";
}
