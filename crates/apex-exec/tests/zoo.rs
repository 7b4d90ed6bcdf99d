//! Every kernel of the zoo, on whatever device is here: right results, refused wrong ones, true counts.

use apex_exec::zoo::{self, Fill, Ground, Outputs, Pipe, Point, Scale, Target, ZooKernel};
use apex_exec::{Device, Executor};
use std::collections::HashSet;

/// Points of each kernel that are checked.
const POINTS: usize = 10;

fn executor() -> Executor {
    Executor::new(Device::Auto).expect("a device")
}

fn small_points(kernel: &'static ZooKernel, target: &Target) -> Vec<Point> {
    zoo::points(&[kernel], target, Scale::Small, Some(POINTS), 1)
}

#[test]
fn every_kernel_is_right() {
    let ground = Ground::new(&executor()).unwrap();
    let target = ground.target();
    let mut wrong = Vec::new();
    for kernel in zoo::kernels() {
        let points = small_points(kernel, &target);
        assert!(points.len() >= 4, "{} has {} points", kernel.name, points.len());
        for point in points {
            match ground.prepare(&point).and_then(|mut prepared| prepared.check()) {
                Ok(verdict) => {
                    assert!(verdict.compared > 0, "{point:?}");
                    wrong.extend(verdict.fault.map(|fault| format!("{fault} at {point:?}")));
                }
                Err(error) => wrong.push(format!("{error} at {point:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_entry_is_among_the_small_points() {
    for kernel in zoo::kernels() {
        let entries = |scale| -> HashSet<String> {
            zoo::all_points(kernel, &Target::H200, scale).iter().map(Point::entry).collect()
        };
        assert_eq!(entries(Scale::Full), entries(Scale::Small), "{}", kernel.name);
    }
}

/// A check that cannot fail proves nothing: each kind of wrong output is refused.
#[test]
fn a_wrong_output_is_refused() {
    let ground = Ground::new(&executor()).unwrap();
    let target = ground.target();
    for kernel in zoo::kernels() {
        let point = small_points(kernel, &target).remove(0);
        let right = ground.prepare(&point).unwrap().outputs().unwrap();
        assert_eq!(right.verdict().fault, None, "{}", kernel.name);
        let refused = |change: &dyn Fn(&mut Vec<u32>)| {
            let mut changed: Outputs = right.clone();
            changed.words.iter_mut().for_each(change);
            changed.verdict().fault.is_some()
        };
        // A high bit: of a float the exponent.
        let all_wrong = |words: &mut Vec<u32>| words.iter_mut().for_each(|word| *word ^= 1 << 25);
        assert!(refused(&all_wrong), "{}: all elements differ", kernel.name);
        assert!(refused(&|words| words[0] ^= 1 << 25), "{}: the first differs", kernel.name);
        assert!(refused(&|words| *words.last_mut().unwrap() = 5), "{}: the guard", kernel.name);
        let lost = |words: &mut Vec<u32>| words.fill(u32::MAX);
        assert!(refused(&lost), "{}: nothing was written", kernel.name);
        assert!(refused(&|words| words.truncate(1)), "{}: too short", kernel.name);
    }
}

#[test]
fn fills_are_the_same_on_device_and_host() {
    let executor = executor();
    let ground = Ground::new(&executor).unwrap();
    let filled =
        |fill, elements| executor.download(&*ground.input(fill, elements).unwrap()).unwrap();
    for fill in [
        Fill::Unit(3),
        Fill::Words(4),
        Fill::Below(100),
        Fill::Shuffled(9),
        Fill::Ring(10),
        Fill::RowStarts { least: 2, step: 3 },
    ] {
        for (index, &word) in filled(fill, 5_000).iter().enumerate() {
            assert_eq!(word, fill.word(index as u64), "{fill:?} {index}");
        }
    }
    let letters = filled(Fill::Letters, 4_000);
    for (index, byte) in letters.iter().flat_map(|word| word.to_le_bytes()).enumerate() {
        assert_eq!(u32::from(byte), Fill::Letters.word(index as u64));
    }
    let halves = filled(Fill::Half(5), 4_000);
    let halves = halves.iter().flat_map(|word| [*word as u16, (word >> 16) as u16]);
    for (index, bits) in halves.enumerate() {
        assert_eq!(half::f16::from_bits(bits).to_f64(), Fill::Half(5).number(index as u64));
    }
    // A longer one begins with what the shorter one held.
    let short = filled(Fill::Words(8), 100);
    assert_eq!(short[..], filled(Fill::Words(8), 1_000)[..100]);
}

/// One configuration of a kernel with these values.
fn at(name: &str, values: &[u32], grid: [u32; 3], block: [u32; 3]) -> Point {
    let kernel = zoo::kernels().find(|kernel| kernel.name == name).expect(name);
    Point { kernel, values: values.to_vec(), grid, block, shared_bytes: 0 }
}

/// Counts made by hand: operations, bytes read, bytes written, of four blocks of 256.
fn check(name: &str, values: &[u32], flops: u64, read: u64, written: u64) {
    let point = at(name, values, [4, 1, 1], [256, 1, 1]);
    let work = point.work();
    let found = (work.flops, work.bytes_read, work.bytes_written);
    assert_eq!(found, (flops, read, written), "{point:?}");
}

#[test]
fn work_is_counted_as_by_hand() {
    check("copy", &[4, 1_000], 0, 4_000, 4_000);
    check("triad", &[1_000], 2_000, 8_000, 4_000);
    // 100 indices and all 64 words of the table, or ten of each.
    check("gather", &[100, 6], 0, 400 + 256, 400);
    check("gather", &[10, 6], 0, 40 + 40, 40);
    // Three values and a division.
    check("stencil_1d", &[10, 1], 10 * 4, 40, 40);
    // Inside 4 by 5 lie 2 by 3 points of six operations.
    check("stencil_2d", &[4, 5], 36, 80, 80);
    check("stencil_3d", &[4, 3], 8 * 2 * 2, 4 * 48, 4 * 48);
    check("convolution_2d", &[10, 10, 1], 100 * 9 * 2, 436, 400);
    // One sum for each of four blocks.
    check("reduce_tree", &[1_000], 1_000, 4_000, 16);
    check("histogram_shared", &[1_000, 16], 0, 4_000, 64);
    // Of each 65,536 numbers so many are below the limit, and a count for each of four blocks.
    check("compaction", &[131_072, 1_000], 0, 4 * 131_072, 4 * (2_000 + 4));
    check("gemm_naive", &[2, 3, 5], 60, 4 * (10 + 15), 24);
    check("gemm_tensor", &[16, 16, 16], 8_192, 2 * 512, 4 * 256);
    // Two warps with one product of 4,096 operations each, and an addition a thread.
    check("tensor_chain", &[1, 64, 1], 2 * 4_096 + 64, 0, 256);
    check("matvec_warp", &[10, 20], 400, 4 * 220, 40);
    // Rows of 1 to 16 elements, 136 together, read all 64 words of the vector.
    check("spmv_thread", &[16, 1, 1, 6], 2 * 136, 4 * (17 + 2 * 136 + 64), 64);
    // Two equations: two for the diagonal, two inverses, a factor, two multiply-adds below and one above,
    // two products.
    check("batched_solve", &[2, 10, 0], 10 * (2 + 2 + 1 + 4 + 2 + 2), 10 * 4 * 6, 80);
    check("softmax_rows", &[2, 10], 6 * 20 + 2, 80, 80);
    check("layer_norm", &[2, 10], 8 * 20 + 8, 80 + 80, 80);
    check("fma_chain", &[2, 100, 8], 100 * (2 * 17 + 1), 0, 400);
    check("fma_double", &[1, 100, 8], 100 * 17, 0, 800);
    check("nbody", &[10], 1_900, 160, 160);
    check("monte_carlo", &[10, 7], 350, 0, 40);
    // 40 threads: 5 of the first 32 and 5 of the other 8 go the long way.
    check("divergence_lanes", &[40, 5, 10], 40 + 10 * 20 + 30, 0, 160);
    // Loops of 1 to 32 steps, then of 1 and 2.
    check("divergence_loop", &[34, 1, 1], 34 + 2 * (528 + 3), 0, 136);
    // Arcs of 16 words, until all of the ring is visited.
    check("pointer_chase", &[8, 10, 16], 0, 640, 40);
    check("pointer_chase", &[6, 10, 16], 0, 256, 40);
    assert_eq!(at("fma_double", &[1, 1, 1], [1; 3], [1; 3]).work().pipe, Pipe::Double);
}

/// The steps that the kernel counted give the same operations as the host's own count.
#[test]
fn mandelbrot_counts_what_it_does() {
    let ground = Ground::new(&executor()).unwrap();
    let limit = 50;
    let point = at("mandelbrot", &[32, limit], [1, 4, 1], [32, 8, 1]);
    let steps = ground.prepare(&point).unwrap().outputs().unwrap().words.remove(0);
    let flops = steps[..32 * 32].iter().map(|&steps| {
        let tests = (steps + 1).min(limit);
        u64::from(4 + 3 * tests + 5 * steps)
    });
    assert_eq!(flops.sum::<u64>(), point.work().flops);
}

#[test]
fn points_are_many_distinct_and_the_same_again() {
    let kernels: Vec<_> = zoo::kernels().collect();
    let all = zoo::points(&kernels, &Target::H200, Scale::Full, None, 1);
    assert!(all.len() >= 5_000, "{} points", all.len());
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    let points = |limit, seed| zoo::points(&kernels[..9], &Target::H200, Scale::Full, limit, seed);
    let some = points(Some(300), 1);
    assert_eq!(some.len(), 300);
    assert_eq!(some, points(Some(300), 1));
    assert_ne!(some, points(Some(300), 2));
    // A longer sweep holds the shorter one.
    let more: HashSet<Point> = points(Some(700), 1).into_iter().collect();
    assert!(some.iter().all(|point| more.contains(point)));
    // Each entry comes before any comes again.
    let first: HashSet<String> = points(Some(27), 1).iter().map(Point::entry).collect();
    assert!(["copy_1", "copy_2", "copy_4"].iter().all(|&entry| first.contains(entry)));
    // Bad launches belong to it.
    assert!(all.iter().any(|point| point.threads_per_block() == 33));
    assert!(all.iter().any(|point| point.threads_per_block() == 1));
    assert!(all.iter().any(|point| point.blocks() == 1));
}

#[test]
fn names_are_distinct() {
    let names: Vec<&str> = zoo::kernels().map(|kernel| kernel.name).collect();
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    assert!(names.len() >= 40);
}

#[test]
fn a_point_can_be_timed_warm_and_cold() {
    let ground = Ground::new(&executor()).unwrap();
    let point = at("triad", &[1_000], [4, 1, 1], [256, 1, 1]);
    let mut prepared = ground.prepare(&point).unwrap();
    for timing in [prepared.time(20).unwrap(), prepared.time_cold(5).unwrap()] {
        assert!(timing.median_ns > 0.0 && timing.spread() >= 0.0, "{timing:?}");
        assert!(timing.lower_quartile_ns <= timing.median_ns);
        assert!(timing.median_ns <= timing.upper_quartile_ns);
    }
    assert_eq!(prepared.time(20).unwrap().runs, 20);
    // What was written by all those launches does not spoil the check.
    assert_eq!(prepared.check().unwrap().fault, None);
}

#[test]
fn the_arithmetic_of_residency_agrees_with_the_driver() {
    let ground = Ground::new(&executor()).unwrap();
    let kernels: Vec<_> = zoo::kernels().collect();
    for point in zoo::points(&kernels, &ground.target(), Scale::Small, Some(300), 3) {
        let residency = ground.prepare(&point).unwrap().residency().unwrap();
        if let Some(blocks) = residency.blocks_by_arithmetic {
            assert_eq!(blocks, residency.blocks_by_driver, "{point:?}");
        }
        assert!(residency.blocks_by_driver > 0, "{point:?} cannot run");
    }
}

/// The page is made from the table: `UPDATE_EXPECT=1` renews it.
#[test]
fn the_page_shows_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/zoo.md");
    let mut page = String::from(PAGE);
    for kernel in zoo::kernels() {
        let axes: Vec<String> = kernel
            .axes
            .iter()
            .map(|axis| {
                let values: Vec<String> = axis.full.iter().map(u32::to_string).collect();
                format!("{}: {}", axis.name, values.join(" "))
            })
            .collect();
        let count = zoo::all_points(kernel, &Target::H200, Scale::Full).len();
        let (name, stands_for) = (kernel.name, kernel.stands_for);
        page += &format!("| `{name}` | {stands_for} | {} | {count} |\n", axes.join("; "));
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        kept, page,
        "docs/zoo.md is stale: UPDATE_EXPECT=1 cargo test -p apex-exec --test zoo"
    );
}

const PAGE: &str = "\
# The kernel zoo

Made from the table in `crates/apex-exec/src/zoo/table/`; do not edit.

Kernels of ours that stand for what programs do. Each has a launch space (good and bad blocks, grids and shared
memory), exact counts of its work, and a reference its results are checked against.

```
apex bench zoo                                 # 20 configurations of each kernel, a line for each
apex bench zoo --kernel triad --points all    # all of one
apex bench zoo --points 90 --json             # a sweep of 5,000
apex bench zoo --quick --check --points 4     # every entry once, small, with its results compared
```

**Operations** are those the mathematics asks for: a sum of n values is n, a multiply-add two, a division, root or
function one, a comparison none. **Bytes** are those of global memory that no cache can avoid: each distinct byte
read once, each byte written once. **Times** are medians of 20 runs; a run is launches back to back between two
events, as many as fill 60 µs, queued while the device is held back. What lies between two launches (about a
microsecond) is part of the time: nothing is subtracted. `--cold` empties the second-level cache before each run.

| kernel | stands for | its own parameters | configurations on an H200 |
|---|---|---|---:|
";
