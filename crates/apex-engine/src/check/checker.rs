//! Looks at the steps of one block before they are executed.
//!
//! It sees frames and masks, never the tier that executes: what it finds goes to whoever shows it the step, who
//! knows where that stands.

use super::Kind;
use super::shadow::{Clash, Shadow};
use crate::code::{Code, LANES, Reg, Step};
use crate::device::Services;
use crate::frame::{BlockFrame, WarpFrame};
use crate::operands::{reads, writes};
use crate::site::Access;

/// How far below a bad address its allocation is looked for.
const NEAR: [u64; 6] = [1, 16, 256, 4096, 1 << 16, 1 << 20];

/// What is known of one block.
pub(crate) struct Checker {
    shared: Shadow,
    /// Whether each byte of local memory was written, for all lanes of all warps.
    local: Vec<bool>,
    /// Lanes that wrote each register, by warp.
    registers: Vec<u32>,
    register_count: usize,
}

/// A step of a warp, as the checker sees it.
pub(crate) struct CheckedStep<'a> {
    /// The lanes that take part.
    pub(crate) mask: u32,
    /// Their warp.
    pub(crate) warp: &'a WarpFrame,
    /// Their block.
    pub(crate) block: &'a BlockFrame,
    /// Whether an address outside of the block's shared and local memory is the launch's own.
    pub(crate) is_of_launch: &'a dyn Fn(u64) -> bool,
    /// Who knows the allocations.
    pub(crate) services: &'a dyn Services,
    /// Takes what is found.
    pub(crate) report: &'a dyn Fn(Finding),
}

/// One error, still without its place in the program.
pub(crate) struct Finding {
    /// What is wrong.
    pub(crate) kind: Kind,
    /// The first lane of the warp that it concerns.
    pub(crate) lane: usize,
    /// What was touched: a host address, or an offset in shared or local memory.
    pub(crate) address: u64,
    /// Bytes of the access; 0 where there is none.
    pub(crate) bytes: u32,
    /// What else is known.
    pub(crate) detail: String,
}

/// Where an address lies.
enum Region {
    Shared(u64),
    Local(u64),
    Known,
    Global,
}

impl Checker {
    /// For blocks of so many threads with so many bytes of shared memory.
    pub(crate) fn new(code: &Code, threads: u32, shared_bytes: u32) -> Checker {
        let warps = threads.div_ceil(code.width.max(1)) as usize;
        let stride = code.local_stride();
        Checker {
            shared: Shadow::new(shared_bytes as usize),
            local: vec![false; stride * LANES * warps],
            registers: vec![0; code.registers.len() * warps],
            register_count: code.registers.len(),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.shared.reset();
        self.local.fill(false);
        self.registers.fill(0);
    }

    /// Threads met at a barrier.
    pub(crate) fn barrier(&mut self) {
        self.shared.barrier();
    }

    /// Lanes of a warp come to an aligned barrier: all of them should.
    pub(crate) fn at_barrier(&mut self, at: &CheckedStep<'_>, live: u32) {
        if at.mask == live {
            return;
        }
        let detail = format!(
            "{} of the warp's {} threads are there",
            at.mask.count_ones(),
            live.count_ones()
        );
        let lane = at.mask.trailing_zeros() as usize;
        add(at, lane, Kind::DivergentBarrier, 0, 0, detail);
    }

    /// Looks at the registers of a step.
    pub(crate) fn step(&mut self, at: &CheckedStep<'_>, step: &Step) {
        let first = at.warp.index as usize * self.register_count;
        let mut missing = 0;
        reads(step, &mut |Reg(number)| {
            missing |= at.mask & !self.registers[first + number as usize]
        });
        if missing != 0 && step.line != 0 {
            let lane = missing.trailing_zeros() as usize;
            let detail = "a register that nothing was written to".to_owned();
            add(at, lane, Kind::Uninitialised, 0, 0, detail);
        }
        writes(step, &mut |Reg(number)| self.registers[first + number as usize] |= at.mask);
    }

    /// Looks at an access; false when the memory is not the kernel's.
    pub(crate) fn access(
        &mut self,
        at: &CheckedStep<'_>,
        lane: usize,
        address: u64,
        bytes: u32,
        access: Access,
    ) -> bool {
        match region(at, address) {
            Region::Known => true,
            Region::Shared(offset) => self.shared_access(at, lane, offset, bytes, access),
            Region::Local(offset) => {
                self.local_access(at, lane, offset, bytes, access);
                true
            }
            Region::Global => global(at, lane, address, bytes),
        }
    }

    fn shared_access(
        &mut self,
        at: &CheckedStep<'_>,
        lane: usize,
        offset: u64,
        bytes: u32,
        access: Access,
    ) -> bool {
        if offset + u64::from(bytes) > at.block.shared_bytes.into() {
            let detail =
                format!("beyond the block's {} bytes of shared memory", at.block.shared_bytes);
            add(at, lane, Kind::OutOfBounds, offset, bytes, detail);
            return false;
        }
        let warp = at.warp.index as u8;
        let (kind, detail) = match self.shared.access(offset as usize, bytes as usize, warp, access)
        {
            None => return true,
            Some(Clash::Unwritten) => {
                (Kind::Uninitialised, "shared memory that nothing was written to".to_owned())
            }
            Some(Clash::Write(other)) => (
                Kind::Race,
                format!("shared memory that warp {other} wrote since the last barrier"),
            ),
            Some(Clash::Read) => (
                Kind::Race,
                "shared memory that another warp read since the last barrier".to_owned(),
            ),
        };
        add(at, lane, kind, offset, bytes, detail);
        true
    }

    fn local_access(
        &mut self,
        at: &CheckedStep<'_>,
        lane: usize,
        offset: u64,
        bytes: u32,
        access: Access,
    ) {
        let warp = at.warp;
        let base = warp.index as usize * LANES * warp.local_stride as usize + offset as usize;
        let end = (base + bytes as usize).min(self.local.len());
        let touched = &mut self.local[base.min(end)..end];
        if access != Access::Read {
            touched.fill(true);
        } else if touched.iter().any(|written| !written) {
            let offset = offset % warp.local_stride.max(1);
            let detail = "local memory that nothing was written to".to_owned();
            add(at, lane, Kind::Uninitialised, offset, bytes, detail);
        }
    }
}

fn region(at: &CheckedStep<'_>, address: u64) -> Region {
    let within = |base: u64, bytes: u64| {
        let offset = address.wrapping_sub(base);
        (offset < bytes).then_some(offset)
    };
    let (block, warp) = (at.block, at.warp);
    if let Some(offset) = within(block.shared as u64, block.shared_bytes.into()) {
        Region::Shared(offset)
    } else if let Some(offset) = within(warp.local as u64, warp.local_stride * LANES as u64) {
        Region::Local(offset)
    } else if (at.is_of_launch)(address) {
        Region::Known
    } else {
        Region::Global
    }
}

fn global(at: &CheckedStep<'_>, lane: usize, address: u64, bytes: u32) -> bool {
    let detail = match at.services.find(address) {
        Some((base, size)) if address - base + u64::from(bytes) <= size => return true,
        Some((base, size)) => {
            format!("across the end of the allocation of {size} bytes at {base:#x}")
        }
        None => {
            let near =
                NEAR.iter().find_map(|&distance| at.services.find(address.checked_sub(distance)?));
            match near {
                Some((base, size)) => format!(
                    "{} bytes after the end of the allocation of {size} bytes at {base:#x}",
                    address - base - size
                ),
                None => "in no allocation".to_owned(),
            }
        }
    };
    add(at, lane, Kind::OutOfBounds, address, bytes, detail);
    false
}

fn add(at: &CheckedStep<'_>, lane: usize, kind: Kind, address: u64, bytes: u32, detail: String) {
    (at.report)(Finding { kind, lane, address, bytes, detail });
}
