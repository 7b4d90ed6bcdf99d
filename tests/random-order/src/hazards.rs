//! Random launches over shared buffers: which pairs are kept in order, and which must be.
//!
//! What launches are said to touch goes through the window of hazards as in the queue. Beside it each launch runs in the
//! interpreter, which asks before each access outside its window; so every address is noted, and what changed was written.
//! A pair that conflicts in these records must be ordered. A pair that is ordered though nothing in the records asks for
//! it, not even through others, is kept apart needlessly.

use crate::kernels::{Kernel, Parameters, TEXT, WORDS};
use crate::random::Random;
use anyhow::{Context, Result, ensure};
use apex_engine::{Device, Grid, Identity, Launch, Module, Services, Window};
use apex_policy::hazards::{self, Touched, ancestors};
use apex_ptx::touches::{Kind, Scratch, Shape, Touches};
use std::collections::BTreeSet;
use std::fmt::{Display, Formatter};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Buffers; each has room for two kernels' words, and they stand side by side.
const BUFFERS: usize = 6;
const BUFFER_WORDS: usize = 2 * WORDS;
/// Launches of a program at most: as many as a window has room for.
const MOST: usize = 128;

/// What was found of pairs of launches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Programs.
    pub programs: u64,
    /// Launches, and those of which it was proven what they touch.
    pub launches: u64,
    /// Of those.
    pub proven: u64,
    /// Pairs of launches of one program.
    pub all: u64,
    /// Those that must be in order, for themselves or through others.
    pub needed: u64,
    /// Those that were kept in order beside them.
    pub needless: u64,
    /// Those that conflict and were not ordered: there must be none.
    pub missed: u64,
}

impl Display for Pairs {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        let Pairs { programs, launches, proven, all, needed, needless, missed } = self;
        write!(
            to,
            "{programs} programs, {launches} launches, {proven} proven; of {all} pairs {needed} must be in order, \
             {needless} are kept so needlessly, {missed} were missed"
        )
    }
}

/// Looks at the launches of so many programs, from a seed on.
///
/// # Errors
///
/// A kernel cannot be read.
pub fn pairs(seed: u64, programs: u64) -> Result<Pairs> {
    let bench = Bench::new()?;
    let mut found = Pairs::default();
    for seed in seed..seed + programs {
        bench.program(&mut Random::new(seed), &mut found)?;
    }
    Ok(found)
}

/// The kernels, read for both sides.
struct Bench {
    module: Arc<Module>,
    touches: Vec<(Kernel, Option<Touches>)>,
    device: Arc<Device>,
    /// Addresses that were asked for, with their bytes.
    accesses: Arc<Mutex<Vec<(u64, u64)>>>,
}

/// Notes each access and allows it: all of them lie in the program's buffers.
struct Noted(Arc<Mutex<Vec<(u64, u64)>>>);

impl Services for Noted {
    fn print(&self, _: &[u8]) {}
    fn assert_failed(&self, _: &str) {}
    fn heap_alloc(&self, _: u64) -> u64 {
        0
    }
    fn heap_free(&self, _: u64) {}
    fn find(&self, _: u64) -> Option<(u64, u64)> {
        None
    }
    fn reaches(&self, address: u64, bytes: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((address, bytes));
        true
    }
}

/// What a launch really did, as words of the buffers.
#[derive(Default)]
struct Done {
    touched: BTreeSet<usize>,
    written: BTreeSet<usize>,
}

impl Done {
    fn conflicts(&self, other: &Done) -> bool {
        !self.written.is_disjoint(&other.touched) || !other.written.is_disjoint(&self.touched)
    }
}

impl Bench {
    fn new() -> Result<Bench> {
        let tree = apex_ptx::parse(TEXT).ok().context("the kernels are not read")?;
        // What belongs to the host, and what ends a program, stands in no graph with branches.
        let kernels = Kernel::ALL.into_iter();
        let kernels = kernels.filter(|kernel| !matches!(kernel, Kernel::Bump | Kernel::Fault));
        let touches = kernels.map(|kernel| {
            let name = kernel.name().to_string_lossy();
            let text = tree.functions().find(|function| *function.name == *name);
            (kernel, text.and_then(|text| Touches::new(&tree, text).ok()))
        });
        let touches = touches.collect();
        let accesses = Arc::default();
        let device = Device {
            identity: Identity::default(),
            checked: false,
            jit: false,
            window: Some(Window::new(1 << 46, 38)),
            services: Box::new(Noted(Arc::clone(&accesses))),
        };
        let module =
            Module::load(&[TEXT], &mut |_| None).ok().context("the kernels do not load")?;
        Ok(Bench { module: Arc::new(module), touches, device: Arc::new(device), accesses })
    }

    fn program(&self, random: &mut Random, found: &mut Pairs) -> Result<()> {
        // The launches write there by its address.
        let memory: Vec<AtomicU32> =
            (0..BUFFERS * BUFFER_WORDS).map(|_| AtomicU32::new(random.next() as u32)).collect();
        let begin = memory.as_ptr() as u64;
        let mut window = hazards::Window::default();
        let (mut direct, mut conflicts) = (Vec::new(), Vec::new());
        let mut before: Vec<Done> = Vec::new();
        for nth in 0..random.between(2, MOST) {
            let (kernel, touches) = &self.touches[random.below(self.touches.len())];
            let buffer = random.below(BUFFERS) * BUFFER_WORDS;
            let words = begin + 4 * (buffer + random.below(WORDS + 1)) as u64;
            let parameters = Parameters::of(*kernel, random.next(), words, 0).bytes;
            let said = touches.as_ref().and_then(|touches| said(touches, &parameters, begin));
            found.proven += u64::from(said.is_some());
            direct.push(window.add(said.as_deref()));
            let done = self.run(*kernel, parameters, &memory)?;
            let earlier = (0..nth).filter(|&at| before[at].conflicts(&done));
            conflicts.push(earlier.fold(0_u128, |all, at| all | 1 << at));
            before.push(done);
        }
        let count = direct.len() as u64;
        found.programs += 1;
        found.launches += count;
        found.all += count * (count - 1) / 2;
        for ((ordered, needed), conflict) in
            ancestors(&direct).into_iter().zip(ancestors(&conflicts)).zip(conflicts)
        {
            found.needed += u64::from(needed.count_ones());
            found.needless += u64::from((ordered & !needed).count_ones());
            found.missed += u64::from((conflict & !ordered).count_ones());
        }
        Ok(())
    }

    /// Runs a launch, and says which words it touched and which of them it changed.
    fn run(&self, kernel: Kernel, params: Vec<u8>, memory: &[AtomicU32]) -> Result<Done> {
        let name = kernel.name().to_string_lossy();
        let kernel = self.module.kernel(&name).context("a kernel is not there")?.clone();
        ensure!(kernel.unsupported.is_none(), "{name} is not understood");
        let (grid, block, cluster) = (GRID, BLOCK, [1; 3]);
        let launch =
            Launch { kernel, grid, block, dynamic_shared: 0, params, cooperative: false, cluster };
        let words = || memory.iter().map(|word| word.load(Ordering::SeqCst));
        let old: Vec<u32> = words().collect();
        let grid = Grid::with_fast_tier(launch, Arc::clone(&self.device), None);
        grid.ok().context("a launch is refused")?.work();
        let mut accesses = self.accesses.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = memory.as_ptr() as u64;
        let word = |address: u64| ((address - begin) / 4) as usize;
        let mut done = Done::default();
        for (address, bytes) in accesses.drain(..) {
            done.touched.extend(word(address)..=word(address + bytes - 1));
        }
        let changed = words().zip(old).enumerate().filter(|(_, (new, old))| new != old);
        done.written.extend(changed.map(|(at, _)| at));
        Ok(done)
    }
}

const GRID: [u32; 3] = [2, 1, 1];
const BLOCK: [u32; 3] = [32, 1, 1];

/// What a launch is said to touch, among the buffers as allocations of their own.
fn said(touches: &Touches, parameters: &[u8], begin: u64) -> Option<Vec<Touched>> {
    let shape = Shape { grid: GRID, block: BLOCK, parameters };
    let bytes = 4 * BUFFER_WORDS as u64;
    let mut allocation = |address: u64| -> Option<Range<u64>> {
        let nth = address.checked_sub(begin)? / bytes;
        (nth < BUFFERS as u64).then(|| begin + nth * bytes..begin + (nth + 1) * bytes)
    };
    let mut found = Vec::new();
    touches.of(&shape, &mut allocation, &mut Scratch::default(), &mut found).ok()?;
    let touched = found.into_iter();
    Some(touched.map(|it| Touched { bytes: it.bytes, writes: it.kind != Kind::Read }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_that_conflicts_is_in_order() {
        let found = pairs(1, 25).expect("the kernels are read");
        println!("{found}");
        assert_eq!(found.missed, 0, "{found}");
        assert!(found.proven > found.launches / 2 && found.needed > 100, "{found}");
        assert!(found.needless < found.all, "{found}");
    }
}
