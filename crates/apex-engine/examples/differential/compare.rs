//! Runs a generated kernel in both tiers.

use super::generate::{self, INPUT, Random, WORDS};
use apex_engine::frame::FastTier;
use apex_engine::{Device, Grid, Identity, Kernel, Launch, Module, Services};
use std::sync::Arc;

struct Quiet;

impl Services for Quiet {
    fn print(&self, _: &[u8]) {}
    fn assert_failed(&self, _: &str) {}
    fn heap_alloc(&self, _: u64) -> u64 {
        0
    }
    fn heap_free(&self, _: u64) {}
    fn find(&self, _: u64) -> Option<(u64, u64)> {
        None
    }
}

/// What a comparison found.
pub(crate) enum Verdict {
    /// Both agree.
    Same,
    /// The kernel was not compiled.
    NotCompiled,
    /// They differ, or one failed; says where, with the text.
    Different(String),
}

/// Compares the tiers on the kernel of a seed.
pub(crate) fn check(seed: u64) -> Verdict {
    let made = generate::kernel(seed);
    let module = match Module::load(&[&made.text], &mut |_| None) {
        Ok(module) => module,
        Err(error) => return Verdict::Different(format!("{error}\n{}", made.text)),
    };
    let Some(kernel) = module.kernel("k") else {
        return Verdict::Different("no kernel".into());
    };
    if let Some(reason) = &kernel.unsupported {
        return Verdict::Different(format!("unsupported: {reason}\n{}", made.text));
    }
    let Some(fast) = apex_engine::compile(&kernel.code, made.block, None, false) else {
        return Verdict::NotCompiled;
    };
    let reference = run(kernel, &made, (seed, None), None);
    let compiled = run(kernel, &made, (seed, None), Some(fast));
    match (reference, compiled) {
        (Ok(reference), Ok(compiled)) => match difference(&reference, &compiled) {
            None => Verdict::Same,
            Some(place) => Verdict::Different(format!("seed {seed}: {place}\n{}", made.text)),
        },
        (reference, compiled) => Verdict::Different(format!(
            "seed {seed}: interpreted {:?}, compiled {:?}\n{}",
            reference.err(),
            compiled.err(),
            made.text
        )),
    }
}

/// Words before the results that all threads count in.
const COUNTERS: usize = 4;

/// Runs a kernel on the input of a seed; `number` is its last parameter, by default another one of each seed.
pub(crate) fn run(
    kernel: &Arc<Kernel>,
    made: &generate::Generated,
    (seed, number): (u64, Option<u32>),
    fast: Option<Arc<dyn FastTier>>,
) -> Result<Vec<u32>, String> {
    let mut random = Random::new(seed ^ 0xdead_beef);
    let special =
        [0u32, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_1234, 1, 0x3f80_0000, u32::MAX];
    let input: Vec<u64> = (0..INPUT / 2 + 64)
        .map(|_| {
            let mut word = || {
                if random.below(4) == 0 {
                    u64::from(special[random.below(8) as usize])
                } else if random.below(2) == 0 {
                    u64::from((random.below(2000) as f32 / 16.0 - 60.0).to_bits())
                } else {
                    random.next() & 0xffff_ffff
                }
            };
            word() | word() << 32
        })
        .collect();
    let threads: u32 = made.block.iter().chain(&made.grid).product();
    let mut output = vec![0u32; COUNTERS + threads as usize * WORDS as usize];
    let mut params = Vec::new();
    params.extend((input.as_ptr() as u64).to_le_bytes());
    params.extend((output.as_mut_ptr() as u64 + COUNTERS as u64 * 4).to_le_bytes());
    params.extend(number.unwrap_or(random.next() as u32).to_le_bytes());
    params.resize(kernel.param_bytes as usize, 0);
    let launch = Launch {
        kernel: kernel.clone(),
        grid: made.grid,
        block: made.block,
        dynamic_shared: 0,
        params,
        cooperative: false,
        cluster: [1; 3],
    };
    let device = Arc::new(Device {
        identity: Identity::default(),
        checked: false,
        jit: fast.is_some(),
        window: None,
        services: Box::new(Quiet),
    });
    let grid = Grid::with_fast_tier(launch, device, fast).map_err(|fault| format!("{fault:?}"))?;
    grid.work();
    match grid.fault() {
        Some(fault) => Err(format!("{fault:?}")),
        None => Ok(output),
    }
}

/// The first word that differs. The bits of an f64 NaN are not defined.
pub(crate) fn difference(reference: &[u32], compiled: &[u32]) -> Option<String> {
    let doubles = (WORDS - 2 * generate::DOUBLES) as usize;
    for index in 0..reference.len() {
        if reference[index] == compiled[index] {
            continue;
        }
        let Some(place) = index.checked_sub(COUNTERS) else {
            return Some(format!(
                "counter {index}: {:#x} != {:#x}",
                reference[index], compiled[index]
            ));
        };
        let (thread, word) = (place / WORDS as usize, place % WORDS as usize);
        if word >= doubles {
            let start = COUNTERS + thread * WORDS as usize + doubles + (word - doubles) / 2 * 2;
            let nan = |words: &[u32]| {
                f64::from_bits(u64::from(words[start + 1]) << 32 | u64::from(words[start])).is_nan()
            };
            if nan(reference) && nan(compiled) {
                continue;
            }
        }
        return Some(format!(
            "thread {thread} word {word}: {:#x} first, {:#x} then",
            reference[index], compiled[index]
        ));
    }
    None
}
