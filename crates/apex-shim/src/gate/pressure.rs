//! What kernels and graphs press on: decided once for each, when it is first seen, and read before a launch.
//!
//! All that the process knows of a kernel before it ran is its name; `apex_policy` says what that tells. A graph
//! presses on what most of its kernels do, those of which nothing is known left out. One word is read without a
//! lock; who finds nothing in it gets "not known", which costs a little room beside a burst and nothing else.

use apex_policy::schedule::Bottleneck;
use std::sync::atomic::{AtomicU64, Ordering};

/// Two bits each.
const PER_WORD: usize = 32;
const KERNELS: usize = 1 << 16;
const GRAPHS: usize = 1 << 12;

static OF_KERNEL: [AtomicU64; KERNELS / PER_WORD] =
    [const { AtomicU64::new(0) }; KERNELS / PER_WORD];
static OF_GRAPH: [AtomicU64; GRAPHS / PER_WORD] = [const { AtomicU64::new(0) }; GRAPHS / PER_WORD];

/// A kernel got its number.
pub(super) fn named(kernel: u32, name: &str) {
    put(&OF_KERNEL, kernel, Bottleneck::of_kernel(name));
}

/// A graph was made of so many launches of each kernel.
pub(super) fn graph_made(graph: u32, kernels: impl Iterator<Item = (u32, u64)>) {
    let mut counts = [0_u64; 3];
    for (kernel, count) in kernels {
        counts[of_kernel(kernel) as usize] += count;
    }
    let [_, compute, memory] = counts;
    put(
        &OF_GRAPH,
        graph,
        match compute.cmp(&memory) {
            std::cmp::Ordering::Greater => Bottleneck::Compute,
            std::cmp::Ordering::Less => Bottleneck::Memory,
            std::cmp::Ordering::Equal => Bottleneck::Unknown,
        },
    );
}

/// What a kernel presses on.
#[inline(always)]
pub(super) fn of_kernel(kernel: u32) -> Bottleneck {
    get(&OF_KERNEL, kernel)
}

/// What a graph presses on.
#[inline(always)]
pub(super) fn of_graph(graph: u32) -> Bottleneck {
    get(&OF_GRAPH, graph)
}

/// In a forked child both are numbered anew.
pub(super) fn forget() {
    OF_KERNEL.iter().chain(&OF_GRAPH).for_each(|word| word.store(0, Ordering::Relaxed));
}

#[inline(always)]
fn get(table: &[AtomicU64], number: u32) -> Bottleneck {
    let Some(word) = table.get(number as usize / PER_WORD) else { return Bottleneck::Unknown };
    let shift = number as usize % PER_WORD * 2;
    Bottleneck::from_code((word.load(Ordering::Relaxed) >> shift & 3) as u8)
}

/// Numbers beyond the table stay unknown.
fn put(table: &[AtomicU64], number: u32, bottleneck: Bottleneck) {
    if let Some(word) = table.get(number as usize / PER_WORD) {
        let shift = number as usize % PER_WORD * 2;
        word.fetch_and(!(3 << shift), Ordering::Relaxed);
        word.fetch_or((bottleneck as u64) << shift, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_graphs_are_kept_apart() {
        named(31, "cutlass_gemm");
        named(32, "vectorized_elementwise_kernel");
        named(33, "mystery");
        named(u32::MAX, "cutlass_gemm");
        assert_eq!(of_kernel(31), Bottleneck::Compute);
        assert_eq!(of_kernel(32), Bottleneck::Memory);
        assert_eq!([of_kernel(33), of_kernel(u32::MAX)], [Bottleneck::Unknown; 2]);
        graph_made(31, [(32, 3), (31, 2), (33, 9)].into_iter());
        graph_made(5, [(32, 1), (31, 1)].into_iter());
        assert_eq!((of_graph(31), of_graph(5)), (Bottleneck::Memory, Bottleneck::Unknown));
        forget();
        assert_eq!((of_kernel(31), of_graph(31)), (Bottleneck::Unknown, Bottleneck::Unknown));
    }
}
