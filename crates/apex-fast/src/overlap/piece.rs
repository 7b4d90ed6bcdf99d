//! Launches that go down as one graph: which of them depend on which.

use super::allocations::{self, Look};
use super::kernels::{self, Answer};
use super::told::{self, Found, Sequence};
use crate::counts::{COUNTERS, add, barrier};
use apex_cuda::Driver;
use apex_cuda::types::*;
use apex_policy::hazards::{Touched, Window, ancestors, is_chain, reduced};
use apex_ptx::touches::{Barrier, Kind, Place, Scratch, Shape};

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
}

/// What can be done with the launches of a graph.
pub(crate) enum Placing {
    /// Some kernel is not known yet; the number says what was known when this was found.
    NotYet(u64),
    /// One after the other: some launch follows each.
    Chain,
    /// Branches are possible.
    Branches(Piece),
}

/// Launches of which some may run at once.
pub(crate) struct Piece {
    known: Vec<Known>,
    /// The predecessors of each as a node, one bit each.
    pub(crate) edges: Vec<u128>,
    /// All that each comes after.
    after: Vec<u128>,
    /// Allocations that had ended when this was worked out.
    ended: u64,
    scratch: Scratch,
    /// What it was told as.
    number: Option<u64>,
}

struct Known {
    answer: Answer,
    /// `None` where nothing is known of this launch.
    touched: Option<Vec<Touched>>,
}

/// Launches in a piece at most.
const MOST: usize = 128;

impl Placing {
    /// Looks at the launches of a graph.
    pub(crate) fn of(launches: &[Launched<'_>], driver: &Driver) -> Placing {
        if !super::is_raised() || !(2..=MOST).contains(&launches.len()) {
            return Placing::Chain;
        }
        let settled = kernels::settled();
        let ask = || -> Option<Vec<Answer>> {
            let of = |launch: &Launched<'_>| {
                kernels::ask(launch.function, launch.node, launch.parameters, driver)
            };
            launches.iter().map(of).collect()
        };
        let mut answers = ask();
        while answers.is_none() && super::is_endless() {
            std::thread::yield_now();
            answers = ask();
        }
        let Some(answers) = answers else { return Placing::NotYet(settled) };
        let known = answers.into_iter().map(|answer| Known { answer, touched: None });
        let mut piece = Piece {
            known: known.collect(),
            edges: Vec::new(),
            after: Vec::new(),
            ended: allocations::ended(),
            scratch: Scratch::default(),
            number: told::number(),
        };
        let look = allocations::look();
        let mut window = Window::default();
        let mut direct = Vec::with_capacity(launches.len());
        let (mut found, mut reasons) = (Vec::new(), Vec::new());
        add(&COUNTERS.overlap_looked, launches.len() as u64);
        for (nth, launch) in launches.iter().enumerate() {
            let reason = piece.follow(nth, launch, &look).err();
            add(reason.map_or(&COUNTERS.overlap_proven, barrier), 1);
            reasons.push((launch.function as u64, reason));
            direct.push(window.add(piece.known[nth].touched.as_deref()));
            found.push(window.found());
        }
        let hazards = window.hazards();
        add(&COUNTERS.overlap_read_after_write, hazards.read_after_write);
        add(&COUNTERS.overlap_write_after_read, hazards.write_after_read);
        add(&COUNTERS.overlap_write_after_write, hazards.write_after_write);
        piece.edges = reduced(&direct);
        if let Some(number) = piece.number {
            let edges = told::edges(&piece.edges, &found);
            told::tell(&Found::Sequence(Sequence { number, launches: reasons, edges }));
        }
        if is_chain(&piece.edges) {
            return Placing::Chain;
        }
        piece.after = ancestors(&piece.edges);
        Placing::Branches(piece)
    }
}

impl Piece {
    /// The nodes have not got the parameters that were asked about: all is worked out again before the next launch.
    pub(crate) fn doubt(&mut self) {
        self.ended = u64::MAX;
    }

    /// Both forms were timed until the faster one was known.
    pub(crate) fn tried(&self, has_won: bool, chain_ns: u64, branches_ns: u64) {
        if let Some(sequence) = self.number {
            told::tell(&Found::Tried { sequence, has_won, chain_ns, branches_ns });
        }
    }

    /// Whether the branches hold for launches with other parameters: `is_changed` says which have some.
    pub(crate) fn holds(&mut self, launches: &[Launched<'_>], is_changed: &[bool]) -> bool {
        let ended = allocations::ended();
        let is_all = ended != self.ended;
        if !is_all && !is_changed.contains(&true) {
            return true;
        }
        let look = allocations::look();
        // Until all of them are found to hold, what is kept may be of launches that went down otherwise.
        self.doubt();
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
