//! Launches that go down as one graph: which of them depend on which.

use super::allocations::{self, Look};
use super::is_always;
use super::kernels::{self, Answer, Followed};
use crate::counts::{COUNTERS, add, barrier};
use apex_cuda::Driver;
use apex_cuda::types::*;
use apex_policy::hazards::{Costs, Task, Touched, Window, ancestors, place, reduced};
use apex_ptx::touches::{Barrier, Kind, Place, Scratch, Shape};
use apex_ptx::walk::{self, walk};

/// A launch, as the queue has it.
pub(crate) struct Launched<'a> {
    /// As the program names it.
    pub(crate) function: CUfunction,
    /// As nodes of graphs name it.
    pub(crate) node: CUfunction,
    /// Offset and size of each parameter.
    pub(crate) parameters: &'a [(u32, u32)],
    pub(crate) packed: &'a [u8],
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
}

/// What can be done with the launches of a graph.
pub(crate) enum Placing {
    /// Some kernel is not known yet; the number says what was known when this was found.
    NotYet(u64),
    /// One after the other.
    Chain,
    /// As branches.
    Branches(Piece),
}

/// Launches whose graph has branches.
pub(crate) struct Piece {
    known: Vec<Known>,
    /// The predecessors of each as a node, one bit each.
    pub(crate) edges: Vec<u128>,
    /// All that each comes after.
    after: Vec<u128>,
    /// Allocations that had ended when this was worked out.
    ended: u64,
    scratch: Scratch,
}

struct Known {
    answer: Answer,
    /// `None` where nothing is known of this launch.
    touched: Option<Vec<Touched>>,
}

/// Launches in a piece at most.
const MOST: usize = 128;
/// What a kernel takes of which nobody knows more.
const UNKNOWN_NS: u64 = 5_000;

impl Placing {
    /// Looks at the launches of a graph.
    pub(crate) fn of(launches: &[Launched<'_>], driver: &Driver) -> Placing {
        if !super::is_raised() || !(2..=MOST).contains(&launches.len()) {
            return Placing::Chain;
        }
        let settled = kernels::settled();
        let answers: Option<Vec<Answer>> = launches
            .iter()
            .map(|launch| kernels::ask(launch.function, launch.node, launch.parameters, driver))
            .collect();
        let Some(answers) = answers else { return Placing::NotYet(settled) };
        let known = answers.into_iter().map(|answer| Known { answer, touched: None });
        let mut piece = Piece {
            known: known.collect(),
            edges: Vec::new(),
            after: Vec::new(),
            ended: allocations::ended(),
            scratch: Scratch::default(),
        };
        let look = allocations::look();
        let mut window = Window::default();
        let mut tasks = Vec::with_capacity(launches.len());
        add(&COUNTERS.overlap_looked, launches.len() as u64);
        for (nth, launch) in launches.iter().enumerate() {
            match piece.follow(nth, launch, &look) {
                Ok(()) => add(&COUNTERS.overlap_proven, 1),
                Err(reason) => add(barrier(reason), 1),
            }
            let depends = window.add(piece.known[nth].touched.as_deref());
            let followed = piece.known[nth].answer.as_ref().ok();
            tasks.push(task(launch, followed.map(|followed| &**followed), depends, &look, driver));
        }
        let hazards = window.hazards();
        add(&COUNTERS.overlap_read_after_write, hazards.read_after_write);
        add(&COUNTERS.overlap_write_after_read, hazards.write_after_read);
        add(&COUNTERS.overlap_write_after_write, hazards.write_after_write);
        let placed = match is_always() {
            true => Some(reduced(&tasks.iter().map(|task| task.depends).collect::<Vec<_>>())),
            false => place(&tasks, Costs::default()),
        };
        let is_chain = |edges: &Vec<u128>| {
            edges.iter().enumerate().all(|(nth, &edge)| nth == 0 || edge == 1 << (nth - 1))
        };
        match placed.filter(|edges| !is_chain(edges)) {
            Some(edges) => {
                piece.after = ancestors(&edges);
                piece.edges = edges;
                Placing::Branches(piece)
            }
            None => Placing::Chain,
        }
    }

    /// The nodes have not got the parameters that were asked about: all is worked out again before the next launch.
    pub(crate) fn doubt(&mut self) {
        if let Placing::Branches(piece) = self {
            piece.ended = u64::MAX;
        }
    }

    /// Whether it is worth to look again.
    pub(crate) fn may_be_known(&self) -> bool {
        matches!(self, Placing::NotYet(settled) if *settled != kernels::settled())
    }
}

impl Piece {
    /// Whether the branches hold for launches with other parameters: `is_changed` says which have some.
    pub(crate) fn holds(&mut self, launches: &[Launched<'_>], is_changed: &[bool]) -> bool {
        let ended = allocations::ended();
        let is_all = ended != self.ended;
        if !is_all && !is_changed.contains(&true) {
            return true;
        }
        let look = allocations::look();
        // Until all of them are found to hold, what is kept may be of launches that went down otherwise.
        self.ended = u64::MAX;
        for (nth, launch) in launches.iter().enumerate() {
            if is_all || is_changed[nth] {
                let _ = self.follow(nth, launch, &look);
            }
        }
        let mut window = Window::default();
        for (known, after) in self.known.iter().zip(&self.after) {
            if window.add(known.touched.as_deref()) & !after != 0 {
                return false;
            }
        }
        self.ended = ended;
        true
    }

    /// Works out what a launch touches.
    fn follow(&mut self, nth: usize, launch: &Launched<'_>, look: &Look) -> Result<(), Barrier> {
        let known = &mut self.known[nth];
        known.touched = None;
        let followed = known.answer.clone()?;
        let shape = Shape { grid: launch.grid, block: launch.block, parameters: launch.packed };
        let mut found = Vec::new();
        let mut allocation = |address: u64| look.at(address);
        followed.touches.of(&shape, &mut allocation, &mut self.scratch, &mut found)?;
        let touched = found.into_iter().map(|touch| {
            let base = match touch.place {
                Place::Memory => 0,
                Place::Variable(number) => followed.variables[number as usize],
            };
            let bytes = base + touch.bytes.start..base + touch.bytes.end;
            Touched { bytes, writes: touch.kind != Kind::Read }
        });
        known.touched = Some(touched.collect());
        Ok(())
    }
}

/// How much of the device a launch takes and for how long, about.
fn task(
    launch: &Launched<'_>,
    followed: Option<&Followed>,
    depends: u128,
    look: &Look,
    driver: &Driver,
) -> Task {
    let Some(followed) = followed else { return Task { depends, fills: 1.0, ns: UNKNOWN_NS } };
    let threads: u32 = launch.block.iter().product();
    let mut per_multiprocessor = 0;
    // SAFETY: a function that the driver has launched, and a valid place for the answer.
    let result = unsafe {
        (driver.cuOccupancyMaxActiveBlocksPerMultiprocessor)(
            &raw mut per_multiprocessor,
            launch.node,
            threads.cast_signed(),
            launch.shared as usize,
        )
    };
    let at_once = if result == CUDA_SUCCESS { per_multiprocessor.unsigned_abs().max(1) } else { 1 };
    let blocks: f32 = launch.grid.iter().map(|side| *side as f32).product();
    let fills = blocks / (at_once * followed.multiprocessors) as f32;
    Task { depends, fills, ns: duration(launch, followed, fills, look) }
}

/// Nanoseconds of a launch on an idle device, from the longest way of a warp.
fn duration(launch: &Launched<'_>, followed: &Followed, fills: f32, look: &Look) -> u64 {
    /// Cycles until memory answers, and those of a nanosecond, on an H200.
    const ANSWER: f32 = 600.0;
    const PER_NS: f32 = 1.75;
    /// What the shortest kernel takes.
    const LEAST: f32 = 1_500.0;
    let Some(program) = &followed.program else { return UNKNOWN_NS };
    let values: Vec<Option<u64>> = launch
        .parameters
        .iter()
        .map(|&(offset, size)| {
            let mut value = [0; 8];
            let bytes = launch.packed.get(offset as usize..(offset + size) as usize)?;
            value.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(u64::from_le_bytes(value))
        })
        .collect();
    let length = |value: &Option<u64>| {
        let found = value.and_then(|address| look.at(address));
        found.map_or(0, |range| range.end - range.start)
    };
    let bytes: Vec<u64> = values.iter().map(length).collect();
    let counts = walk(
        program,
        &walk::Launch {
            grid: launch.grid,
            block: launch.block,
            dynamic_shared: launch.shared,
            sharing: 1,
            parameters: &values,
            bytes: &bytes,
        },
    );
    let one = (counts.cycles + ANSWER * counts.rounds) / PER_NS;
    (LEAST + one * fills.ceil().max(1.0)) as u64
}
