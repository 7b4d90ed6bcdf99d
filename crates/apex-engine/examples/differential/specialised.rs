//! Runs a generated kernel as it is, and rewritten for the call that it gets.

use super::compare::{Verdict, difference, run};
use super::generate::{self, Random};
use apex_engine::Module;
use apex_ptx::specialise::{Call, Known, PASSES, specialise};

/// Where the number stands behind the two pointers.
const NUMBER_AT: u32 = 16;

/// Compares the kernel of a seed with what random passes make of it for a random part of its call.
pub(crate) fn check(seed: u64) -> Verdict {
    let made = generate::kernel(seed);
    // Smaller blocks read shared memory that none of their threads wrote: what stands there is nobody's promise.
    if made.block.iter().product::<u32>() < 8 {
        return Verdict::NotCompiled;
    }
    let mut random = Random::new(seed ^ 0x5eed);
    let number = match random.below(4) {
        0 => random.next() as u32,
        1 => 0,
        _ => random.below(70) as u32,
    };
    let mut is_known = |percent| random.below(100) < percent;
    let call = Call {
        grid: is_known(80).then_some(made.grid),
        block: is_known(80).then_some(made.block),
        known: is_known(85)
            .then(|| Known { offset: NUMBER_AT, bytes: number.to_le_bytes().to_vec() })
            .into_iter()
            .collect(),
        addresses: Vec::new(),
    };
    let without: Vec<&str> = PASSES.iter().map(|pass| pass.name).filter(|_| is_known(10)).collect();
    match compared(&made, (seed, number), &call, &without) {
        Ok(()) => Verdict::Same,
        Err(report) => Verdict::Different(format!("seed {seed}: {report}\n{}", made.text)),
    }
}

fn compared(
    made: &generate::Generated,
    (seed, number): (u64, u32),
    call: &Call,
    without: &[&str],
) -> Result<(), String> {
    let module = apex_ptx::parse(&made.text).map_err(|error| error.to_string())?;
    let rewritten = specialise(&module, "k", call, without)?.module.to_string();
    let outputs = |text: &str| {
        let module = Module::load(&[text], &mut |_| None).map_err(|error| error.to_string())?;
        let kernel = module.kernel("k").ok_or("no kernel")?;
        run(kernel, made, (seed, Some(number)), None)
    };
    let (plain, other) = (outputs(&made.text)?, outputs(&rewritten));
    let other = other.map_err(|error| format!("{error}\n{rewritten}"))?;
    difference(&plain, &other)
        .map_or(Ok(()), |found| Err(format!("{found}, {call:?}\n{rewritten}")))
}
