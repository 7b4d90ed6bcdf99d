//! Which registers hold a value that is still needed, at every block and at the worst point.
//!
//! The usual backward iteration over the blocks. Only registers whose value passes from one
//! block to another take part in it, and these are few, so a kernel of a hundred thousand
//! instructions needs kilobytes. What passes is kept as one bit per register and block; a
//! function for which even that is more than a quarter of a gigabyte is refused.

use crate::cfg::{BlockId, Graph};
use crate::classes::Classes;
use crate::code::{Code, RegisterId};
use crate::roles::{Role, visit_names};
use crate::tree::{Directive, Function, Instruction};

/// Words of 64 bits a function's sets may take: a quarter of a gigabyte.
const MOST_WORDS: usize = 1 << 25;

/// Where registers are live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Liveness {
    passing: Passing,
    /// The most 32-bit registers that hold needed values at one time; predicates not counted.
    pub most_registers: u32,
    /// The most predicates that are needed at one time.
    pub most_predicates: u32,
}

impl Liveness {
    /// Computes it; `None` for a function too large to be a real one.
    pub fn new(code: &Code, graph: &Graph, classes: &Classes) -> Option<Liveness> {
        let passing = Passing::new(code, graph)?;
        let mut liveness = Liveness { passing, most_registers: 0, most_predicates: 0 };
        liveness.measure(code, graph, classes);
        Some(liveness)
    }

    /// The registers whose values are needed when a block begins, in ascending order.
    pub fn live_in(&self, block: BlockId) -> impl Iterator<Item = RegisterId> {
        self.passing.listed(&self.passing.live_in[block.index()])
    }

    /// The registers whose values are needed when a block ends, in ascending order.
    pub fn live_out(&self, block: BlockId) -> impl Iterator<Item = RegisterId> {
        self.passing.listed(&self.passing.live_out[block.index()])
    }

    /// Registers per thread a compiler would take, between 8 and 255.
    ///
    /// An estimate: what must be held at the worst point, and four more for the stack pointer
    /// and for addresses and constants that have no register in PTX, in pairs; no more than the
    /// function's own limits leave. Compilers reorder and rematerialise: of 55 kernels it was
    /// between half and twice what ptxas 13.0 took for 54, and within a third for 36.
    pub fn registers_per_thread(&self, function: &Function) -> u32 {
        let needed = (self.most_registers + 4).next_multiple_of(2).min(255);
        needed.min(most_allowed(function)).max(8)
    }

    /// Whether a register's value is needed when a block begins.
    pub fn is_live_in(&self, block: BlockId, register: RegisterId) -> bool {
        let Ok(bit) = self.passing.registers.binary_search(&register) else {
            return false;
        };
        self.passing.live_in[block.index()][bit / 64] >> (bit % 64) & 1 != 0
    }

    /// Walks every block backwards with the exact set.
    fn measure(&mut self, code: &Code, graph: &Graph, classes: &Classes) {
        let mut live = vec![false; code.registers.len()];
        for (number, block) in graph.blocks.iter().enumerate() {
            let mut pressure = Pressure { classes, code, registers: 0, predicates: 0 };
            let mut touched: Vec<RegisterId> = self.live_out(BlockId(number as u32)).collect();
            for register in &touched {
                pressure.add(&mut live, *register);
            }
            for place in block.instructions.clone().rev() {
                let instruction = &code.instructions[place];
                let (mut read, mut written) = (Vec::new(), Vec::new());
                uses(code, instruction, &mut |register, role| match role {
                    Role::Read => read.push(register),
                    Role::Write => written.push(register),
                    Role::Update => {
                        read.push(register);
                        written.push(register);
                    }
                });
                // A result needs a place even if nobody reads it.
                for register in &written {
                    pressure.add(&mut live, *register);
                }
                self.most_registers = self.most_registers.max(pressure.registers);
                self.most_predicates = self.most_predicates.max(pressure.predicates);
                for register in &written {
                    pressure.remove(&mut live, *register);
                }
                for register in &read {
                    pressure.add(&mut live, *register);
                }
                self.most_registers = self.most_registers.max(pressure.registers);
                self.most_predicates = self.most_predicates.max(pressure.predicates);
                touched.append(&mut read);
            }
            for register in touched {
                live[register.0 as usize] = false;
            }
        }
    }
}

/// Registers of one multiprocessor, the same for every architecture in use.
const REGISTERS_PER_SM: u32 = 65536;

/// The most registers per thread with which the blocks a function asks for still fit.
fn most_allowed(function: &Function) -> u32 {
    let (mut threads, mut blocks, mut most) = (1, 1, 255);
    for directive in &function.directives {
        match directive {
            Directive::MaxNtid(shape) | Directive::ReqNtid(shape) => {
                threads = shape.iter().fold(1_u32, |all, side| all.saturating_mul(*side)).max(1);
            }
            Directive::MinNctaPerSm(count) => blocks = (*count).max(1),
            Directive::MaxNreg(count) => most = most.min(*count),
            _ => {}
        }
    }
    // Registers are given out to warps of 32 threads, 8 to each thread at a time.
    let warps = threads.div_ceil(32).saturating_mul(blocks);
    most.min(REGISTERS_PER_SM / 32 / warps.min(REGISTERS_PER_SM) / 8 * 8)
}

struct Pressure<'code> {
    classes: &'code Classes,
    code: &'code Code,
    registers: u32,
    predicates: u32,
}

impl Pressure<'_> {
    /// Hardware registers and predicates a register takes.
    fn takes(&self, register: RegisterId) -> (u32, u32) {
        let parts = self.code.registers[register.0 as usize].vector.map_or(1, u32::from);
        let each = self.classes.class(register).registers();
        (each * parts, if each == 0 { parts } else { 0 })
    }

    fn add(&mut self, live: &mut [bool], register: RegisterId) {
        if !core::mem::replace(&mut live[register.0 as usize], true) {
            let (registers, predicates) = self.takes(register);
            self.registers += registers;
            self.predicates += predicates;
        }
    }

    fn remove(&mut self, live: &mut [bool], register: RegisterId) {
        if core::mem::replace(&mut live[register.0 as usize], false) {
            let (registers, predicates) = self.takes(register);
            self.registers -= registers;
            self.predicates -= predicates;
        }
    }
}

fn uses(code: &Code, instruction: &Instruction, visit: &mut impl FnMut(RegisterId, Role)) {
    visit_names(instruction, &mut |name, role| {
        if let Some(register) = code.register(name) {
            visit(register, role);
        }
    });
}

/// The registers that pass from block to block, and where they do.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Passing {
    /// The registers by their bit, in ascending order.
    registers: Vec<RegisterId>,
    live_in: Vec<Vec<u64>>,
    live_out: Vec<Vec<u64>>,
}

impl Passing {
    fn new(code: &Code, graph: &Graph) -> Option<Passing> {
        const NOT_YET: u32 = u32::MAX;
        // Read before written in some block: only such values come from another block.
        let mut exposed: Vec<Vec<RegisterId>> = Vec::with_capacity(graph.blocks.len());
        let mut written_in = vec![NOT_YET; code.registers.len()];
        let mut exposed_in = vec![NOT_YET; code.registers.len()];
        for (number, block) in graph.blocks.iter().enumerate() {
            let mut reads = Vec::new();
            for instruction in &code.instructions[block.instructions.clone()] {
                // What an instruction writes it writes after it has read.
                uses(code, instruction, &mut |register, role| {
                    let place = register.0 as usize;
                    if role != Role::Write
                        && written_in[place] != number as u32
                        && exposed_in[place] != number as u32
                    {
                        exposed_in[place] = number as u32;
                        reads.push(register);
                    }
                });
                uses(code, instruction, &mut |register, role| {
                    if role == Role::Write {
                        written_in[register.0 as usize] = number as u32;
                    }
                });
            }
            exposed.push(reads);
        }
        let mut registers: Vec<RegisterId> = exposed.iter().flatten().copied().collect();
        registers.sort_unstable();
        registers.dedup();
        let mut bit_of = vec![NOT_YET; code.registers.len()];
        for (bit, register) in registers.iter().enumerate() {
            bit_of[register.0 as usize] = bit as u32;
        }
        let words = registers.len().div_ceil(64);
        if words.checked_mul(graph.blocks.len() * 3)? > MOST_WORDS {
            return None;
        }
        let empty = vec![vec![0_u64; words]; graph.blocks.len()];
        let mut passing = Passing { registers, live_in: empty.clone(), live_out: empty.clone() };
        let mut kill = empty;
        for (number, block) in graph.blocks.iter().enumerate() {
            for register in &exposed[number] {
                set(&mut passing.live_in[number], bit_of[register.0 as usize]);
            }
            for instruction in &code.instructions[block.instructions.clone()] {
                uses(code, instruction, &mut |register, role| {
                    let bit = bit_of[register.0 as usize];
                    if role == Role::Write && bit != NOT_YET {
                        set(&mut kill[number], bit);
                    }
                });
            }
        }
        passing.iterate(graph, &kill);
        Some(passing)
    }

    /// `live_in` begins as what each block reads itself and only grows. Sweeps from the last
    /// block to the first follow the text backwards, so that nearly all is known after one and
    /// each further one serves a loop around a loop.
    fn iterate(&mut self, graph: &Graph, kill: &[Vec<u64>]) {
        let mut is_waiting = vec![true; graph.blocks.len()];
        let mut any_waiting = true;
        while core::mem::take(&mut any_waiting) {
            for block in (0..graph.blocks.len()).rev() {
                if !core::mem::replace(&mut is_waiting[block], false)
                    || !self.grow(graph, block, &kill[block])
                {
                    continue;
                }
                for predecessor in &graph.blocks[block].predecessors {
                    is_waiting[predecessor.index()] = true;
                    any_waiting |= predecessor.index() >= block;
                }
            }
        }
    }

    /// Brings one block up to date with its successors; whether more is live when it begins.
    fn grow(&mut self, graph: &Graph, block: usize, kill: &[u64]) -> bool {
        let mut out = core::mem::take(&mut self.live_out[block]);
        for successor in graph.blocks[block].successors.iter().map(|block| block.index()) {
            for (word, more) in out.iter_mut().zip(&self.live_in[successor]) {
                *word |= more;
            }
        }
        let mut grew = false;
        for ((word, out), kill) in self.live_in[block].iter_mut().zip(&out).zip(kill) {
            let grown = *word | (out & !kill);
            grew |= grown != *word;
            *word = grown;
        }
        self.live_out[block] = out;
        grew
    }

    fn listed(&self, bits: &[u64]) -> impl Iterator<Item = RegisterId> {
        bits.iter().enumerate().flat_map(move |(place, word)| {
            let mut left = *word;
            core::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                self.registers.get(place * 64 + bit).copied().filter(|_| bit < 64)
            })
        })
    }
}

fn set(bits: &mut [u64], bit: u32) {
    bits[bit as usize / 64] |= 1 << (bit % 64);
}
