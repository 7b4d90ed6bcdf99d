//! The points of the zoo: which kernel, with which values, grid, block and shared memory.
//!
//! A kernel's launch space is the product of its axes, blocks, grids and shared sizes, less what makes no
//! sense. Bad launches are in it on purpose (blocks of 1 or 33 threads, grids of one block, tails): a
//! predictor that has seen only good ones cannot advise. Which points are taken from it depends on the
//! seed alone, and of fewer points each is among the more: a sweep can be continued.

use super::estimate::{Target, estimated_nanos};
use super::kernel::{Argument, Given, Work, ZooKernel};
use std::collections::{HashMap, HashSet};

/// Longer launches are left out of a sweep.
const LONGEST_NANOS: f64 = 10e6;
/// Instructions of whole warps, times 32, beyond which a launch is no small one.
const SMALL_INSTRUCTIONS: f64 = 8e6;

/// One configuration of one kernel.
///
/// ```
/// use apex_exec::zoo::{self, Scale, Target};
///
/// let kernels: Vec<_> = zoo::kernels().collect();
/// for point in zoo::points(&kernels, &Target::H200, Scale::Small, Some(100), 1) {
///     assert!(point.blocks() > 0 && point.threads_per_block() <= 1024);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Point {
    /// The kernel.
    pub kernel: &'static ZooKernel,
    /// The values of its axes, in their order.
    pub values: Vec<u32>,
    /// Blocks of the grid by dimension.
    pub grid: [u32; 3],
    /// Threads of a block by dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
}

/// For which kind of device points are.
///
/// ```
/// use apex_exec::zoo::{self, Scale, Target};
///
/// let copy = zoo::kernels().next().unwrap();
/// let count = |scale| zoo::all_points(copy, &Target::H200, scale).len();
/// assert!(count(Scale::Full) > count(Scale::Small));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A GPU: problems up to hundreds of megabytes.
    Full,
    /// The software GPU, and quick checks: thousands of elements.
    Small,
}

impl Point {
    /// The values of the first axes.
    pub(crate) fn axes<const COUNT: usize>(&self) -> [u32; COUNT] {
        std::array::from_fn(|axis| self.values.get(axis).copied().unwrap_or(0))
    }

    /// The axes with their values.
    ///
    /// ```
    /// use apex_exec::zoo::{self, Scale, Target};
    ///
    /// let copy = zoo::kernels().next().unwrap();
    /// let point = &zoo::all_points(copy, &Target::H200, Scale::Small)[0];
    /// assert_eq!(point.parameters().collect::<Vec<_>>(), [("words", 1), ("n", 1)]);
    /// ```
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        self.kernel.axes.iter().map(|axis| axis.name).zip(self.values.iter().copied())
    }

    /// The kernel's entry in its module.
    ///
    /// ```
    /// use apex_exec::zoo::{self, Scale, Target};
    ///
    /// let copy = zoo::kernels().next().unwrap();
    /// assert_eq!(zoo::all_points(copy, &Target::H200, Scale::Small)[0].entry(), "copy_1");
    /// ```
    pub fn entry(&self) -> String {
        match (self.kernel.variants, self.values.first()) {
            (true, Some(variant)) => format!("{}_{variant}", self.kernel.name),
            _ => self.kernel.name.to_owned(),
        }
    }

    /// Threads of one block.
    ///
    /// ```
    /// use apex_exec::zoo::{self, Scale, Target};
    ///
    /// let copy = zoo::kernels().next().unwrap();
    /// assert_eq!(zoo::all_points(copy, &Target::H200, Scale::Small)[0].threads_per_block(), 1);
    /// ```
    pub fn threads_per_block(&self) -> u32 {
        self.block.iter().product()
    }

    /// Blocks of the whole grid.
    ///
    /// ```
    /// use apex_exec::zoo::{self, Scale, Target};
    ///
    /// let copy = zoo::kernels().next().unwrap();
    /// assert_eq!(zoo::all_points(copy, &Target::H200, Scale::Small)[0].blocks(), 1);
    /// ```
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&side| u64::from(side)).product()
    }

    /// What a launch of it does.
    ///
    /// ```
    /// use apex_exec::zoo::{self, Scale, Target};
    ///
    /// let copy = zoo::kernels().next().unwrap();
    /// let work = zoo::all_points(copy, &Target::H200, Scale::Small)[0].work();
    /// assert_eq!((work.bytes_read, work.bytes_written, work.flops), (4, 4, 0));
    /// ```
    pub fn work(&self) -> Work {
        (self.kernel.work)(self)
    }

    /// What the kernel is given, in its order, as a launch seen from outside tells it.
    ///
    /// ```
    /// use apex_exec::zoo::{self, Given, Scale, Target};
    ///
    /// let copy = zoo::kernels().next().unwrap();
    /// let given = zoo::all_points(copy, &Target::H200, Scale::Small)[0].given();
    /// assert_eq!(given, [Given::Memory(4), Given::Memory(4), Given::Integer(1)]);
    /// ```
    pub fn given(&self) -> Vec<Given> {
        (self.kernel.arguments)(self).iter().map(Argument::given).collect()
    }
}

/// Two points are one if they launch the same thing in the same way.
impl PartialEq for Point {
    fn eq(&self, other: &Point) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Point {}

impl std::hash::Hash for Point {
    fn hash<State: std::hash::Hasher>(&self, state: &mut State) {
        self.key().hash(state);
    }
}

impl Point {
    fn key(&self) -> (&'static str, &[u32], [u32; 3], [u32; 3], u32) {
        (self.kernel.name, &self.values, self.grid, self.block, self.shared_bytes)
    }
}

/// All points of one kernel on a device.
///
/// ```
/// use apex_exec::zoo::{self, Scale, Target};
///
/// let all: usize =
///     zoo::kernels().map(|kernel| zoo::all_points(kernel, &Target::H200, Scale::Small).len()).sum();
/// assert!(all > 1_000);
/// ```
pub fn all_points(kernel: &'static ZooKernel, target: &Target, scale: Scale) -> Vec<Point> {
    let mut points = Vec::new();
    let mut seen = HashSet::new();
    let sides: Vec<&[u32]> = kernel
        .axes
        .iter()
        .map(|axis| if scale == Scale::Full { axis.full } else { axis.small })
        .collect();
    let mut places = vec![0; sides.len()];
    loop {
        let values: Vec<u32> = sides.iter().zip(&places).map(|(side, &at)| side[at]).collect();
        for &block in kernel.blocks {
            let draft =
                Point { kernel, values: values.clone(), grid: [1; 3], block, shared_bytes: 0 };
            for point in launches(target, &draft) {
                let work = point.work();
                let fits = match scale {
                    Scale::Full => estimated_nanos(target, &point, &work) <= LONGEST_NANOS,
                    Scale::Small => lanes_kept_busy(&point, &work) <= SMALL_INSTRUCTIONS,
                };
                if fits && seen.insert(point.clone()) {
                    points.push(point);
                }
            }
        }
        if !advance(&mut places, &sides) {
            return points;
        }
    }
}

/// So many points of the given kernels, evenly over the kernels and over the entries of each; all without a
/// limit.
///
/// ```
/// use apex_exec::zoo::{self, Scale, Target};
///
/// let kernels: Vec<_> = zoo::kernels().collect();
/// let points = zoo::points(&kernels, &Target::H200, Scale::Small, Some(200), 1);
/// assert_eq!(points.len(), 200);
/// ```
pub fn points(
    kernels: &[&'static ZooKernel],
    target: &Target,
    scale: Scale,
    limit: Option<usize>,
    seed: u64,
) -> Vec<Point> {
    let mut lists: Vec<std::vec::IntoIter<Point>> = kernels
        .iter()
        .map(|kernel| {
            let mut list = all_points(kernel, target, scale);
            shuffle(&mut list, seed ^ name_number(kernel.name));
            let mut of_entry = HashMap::new();
            // Sorting keeps the order within an entry, so the first of each come first, then the second.
            list.sort_by_cached_key(|point| {
                let count = of_entry.entry(point.entry()).or_insert(0);
                *count += 1;
                *count
            });
            list.into_iter()
        })
        .collect();
    let mut taken: Vec<Vec<Point>> = kernels.iter().map(|_| Vec::new()).collect();
    let mut left = limit.unwrap_or(usize::MAX);
    loop {
        let before = left;
        for (list, taken) in lists.iter_mut().zip(&mut taken) {
            if left > 0
                && let Some(point) = list.next()
            {
                taken.push(point);
                left -= 1;
            }
        }
        if left == 0 || left == before {
            return taken.concat();
        }
    }
}

fn launches(target: &Target, draft: &Point) -> Vec<Point> {
    let mut points = Vec::new();
    if !(draft.kernel.accepts)(draft) {
        return points;
    }
    for grid in (draft.kernel.grids)(target, draft) {
        let with_grid = Point { grid, ..draft.clone() };
        let possible =
            grid[0] > 0 && (1..=65_535).contains(&grid[1]) && (1..=65_535).contains(&grid[2]);
        for shared_bytes in (draft.kernel.shared)(target, &with_grid) {
            if possible && shared_bytes <= target.shared_bytes_per_block {
                points.push(Point { shared_bytes, ..with_grid.clone() });
            }
        }
    }
    points
}

/// The instructions of a launch if each warp took all its lanes: a block of one thread costs 32.
fn lanes_kept_busy(point: &Point, work: &Work) -> f64 {
    work.instructions * 32.0 / f64::from(point.threads_per_block().min(32))
}

/// Counts up with the last place first; says whether there was a next combination.
fn advance(places: &mut [usize], sides: &[&[u32]]) -> bool {
    for (place, side) in places.iter_mut().zip(sides).rev() {
        *place += 1;
        if *place < side.len() {
            return true;
        }
        *place = 0;
    }
    false
}

/// Fisher and Yates, with a generator that is ours so that the order stays for ever.
fn shuffle(list: &mut [Point], seed: u64) {
    let mut state = seed;
    for end in (1..list.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        list.swap(end, ((word ^ word >> 31) % (end as u64 + 1)) as usize);
    }
}

fn name_number(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
