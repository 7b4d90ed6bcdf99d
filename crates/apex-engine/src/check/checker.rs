//! Looks at the steps of one block before they are executed.

use super::shadow::{Clash, Shadow};
use super::{Kind, Report};
use crate::code::{LANES, Reg, Step};
use crate::interpret::Access;
use crate::interpret::block::BlockRun;
use crate::interpret::context::Context;
use crate::interpret::facts::Facts;
use crate::lower::{reads, writes};

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

/// Where an address lies.
enum Region {
    Shared(u64),
    Local(u64),
    Known,
    Global,
}

impl Checker {
    pub(crate) fn new(facts: &Facts) -> Checker {
        let code = facts.code();
        let warps = facts.threads().div_ceil(code.width.max(1)) as usize;
        let stride = (code.local_bytes as usize + code.stack_bytes as usize).next_multiple_of(16);
        Checker {
            shared: Shadow::new(facts.shared_bytes() as usize),
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
    pub(crate) fn at_barrier(&mut self, block: &BlockRun, x: &Context, live: u32) {
        if x.mask() == live {
            return;
        }
        let detail = format!(
            "{} of the warp's {} threads are there",
            x.mask().count_ones(),
            live.count_ones()
        );
        let lane = x.mask().trailing_zeros() as usize;
        add(block, x, lane, Kind::DivergentBarrier, 0, 0, detail);
    }

    /// Looks at the registers of a step.
    pub(crate) fn step(&mut self, block: &BlockRun, x: &Context, step: &Step) {
        let first = x.warp().frame.index as usize * self.register_count;
        let mut missing = 0;
        reads(step, &mut |Reg(number)| {
            missing |= x.mask() & !self.registers[first + number as usize]
        });
        if missing != 0 && step.line != 0 {
            let lane = missing.trailing_zeros() as usize;
            let detail = "a register that nothing was written to".to_owned();
            add(block, x, lane, Kind::Uninitialised, 0, 0, detail);
        }
        writes(step, &mut |Reg(number)| self.registers[first + number as usize] |= x.mask());
    }

    /// Looks at an access; false when the memory is not the kernel's.
    pub(crate) fn access(
        &mut self,
        block: &BlockRun,
        x: &Context,
        lane: usize,
        address: u64,
        bytes: u32,
        access: Access,
    ) -> bool {
        match region(block, x, address) {
            Region::Known => true,
            Region::Shared(offset) => {
                if offset + u64::from(bytes) > block.frame.shared_bytes.into() {
                    let detail = format!(
                        "beyond the block's {} bytes of shared memory",
                        block.frame.shared_bytes
                    );
                    add(block, x, lane, Kind::OutOfBounds, offset, bytes, detail);
                    return false;
                }
                let warp = x.warp().frame.index as u8;
                match self.shared.access(offset as usize, bytes as usize, warp, access) {
                    None => {}
                    Some(Clash::Unwritten) => {
                        let detail = "shared memory that nothing was written to".to_owned();
                        add(block, x, lane, Kind::Uninitialised, offset, bytes, detail);
                    }
                    Some(Clash::Write(other)) => {
                        let detail =
                            format!("shared memory that warp {other} wrote since the last barrier");
                        add(block, x, lane, Kind::Race, offset, bytes, detail);
                    }
                    Some(Clash::Read) => {
                        let detail = "shared memory that another warp read since the last barrier"
                            .to_owned();
                        add(block, x, lane, Kind::Race, offset, bytes, detail);
                    }
                }
                true
            }
            Region::Local(offset) => {
                let frame = &x.warp().frame;
                let base =
                    frame.index as usize * LANES * frame.local_stride as usize + offset as usize;
                let end = (base + bytes as usize).min(self.local.len());
                let touched = &mut self.local[base.min(end)..end];
                if access == Access::Read {
                    if touched.iter().any(|written| !written) {
                        let offset = offset % frame.local_stride.max(1);
                        let detail = "local memory that nothing was written to".to_owned();
                        add(block, x, lane, Kind::Uninitialised, offset, bytes, detail);
                    }
                } else {
                    touched.fill(true);
                }
                true
            }
            Region::Global => global(block, x, lane, address, bytes),
        }
    }
}

fn region(block: &BlockRun, x: &Context, address: u64) -> Region {
    let within = |base: u64, bytes: u64| {
        let offset = address.wrapping_sub(base);
        (offset < bytes).then_some(offset)
    };
    let frame = &block.frame;
    let warp = &x.warp().frame;
    if let Some(offset) = within(frame.shared as u64, frame.shared_bytes.into()) {
        Region::Shared(offset)
    } else if let Some(offset) = within(warp.local as u64, warp.local_stride * LANES as u64) {
        Region::Local(offset)
    } else if within(frame.params as u64, block.param_bytes()).is_some()
        || block.peer_of(address).is_some()
        || block.facts().workspace_holds(address)
    {
        Region::Known
    } else {
        Region::Global
    }
}

fn global(block: &BlockRun, x: &Context, lane: usize, address: u64, bytes: u32) -> bool {
    let services = &block.facts().device.services;
    let detail = match services.find(address) {
        Some((base, size)) if address - base + u64::from(bytes) <= size => return true,
        Some((base, size)) => {
            format!("across the end of the allocation of {size} bytes at {base:#x}")
        }
        None => {
            let near =
                NEAR.iter().find_map(|&distance| services.find(address.checked_sub(distance)?));
            match near {
                Some((base, size)) => format!(
                    "{} bytes after the end of the allocation of {size} bytes at {base:#x}",
                    address - base - size
                ),
                None => "in no allocation".to_owned(),
            }
        }
    };
    add(block, x, lane, Kind::OutOfBounds, address, bytes, detail);
    false
}

fn add(
    block: &BlockRun,
    x: &Context,
    lane: usize,
    kind: Kind,
    address: u64,
    bytes: u32,
    detail: String,
) {
    let thread = x.warp().frame.first_thread + lane as u32;
    let place = block.place(x.pc, Some(thread));
    block.facts().findings.add(Report { kind, place, address, bytes, detail, count: 1 });
}
