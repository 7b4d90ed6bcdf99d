//! Calls and returns, each lane with a stack of its own.

use super::{CALL_DEPTH, Frame, Warp};
use crate::code::{Callee, FUNCTION_BASE, LANES, Reg, Src};
use crate::fault::Fault;
use crate::interpret::block::BlockRun;
use crate::interpret::context::{Context, Outcome};
use crate::interpret::file::lanes_of;

impl Warp {
    pub(super) fn call(
        &mut self,
        x: &Context,
        chosen: usize,
        callee: Callee,
        save: &[Reg],
        frame: u32,
    ) -> Outcome {
        if self.calls.is_empty() {
            self.calls.resize_with(LANES, Vec::new);
        }
        let rest = self.groups[chosen].mask & !x.mask();
        self.take(chosen, rest, x.pc + 1);
        for lane in lanes_of(x.mask()) {
            let saved = save.iter().map(|&reg| (reg, x.file().wide(Src::Reg(reg), lane))).collect();
            self.frames[lane] += frame;
            let full = u64::from(self.frames[lane]) > self.frame.local_stride;
            if full || self.calls[lane].len() >= CALL_DEPTH {
                let place = x.place(Some(lane));
                return x.fail(Fault::IllegalAddress {
                    place,
                    address: None,
                    bytes: 0,
                    access: None,
                });
            }
            self.calls[lane].push(Frame { back: x.pc + 1, bytes: frame, saved });
            let target = match callee {
                Callee::Direct(target) => target,
                Callee::Indirect(register) => {
                    let address = x.get(Src::Reg(register), lane);
                    let number = address.wrapping_sub(FUNCTION_BASE) as usize;
                    match x.block().facts().code().functions.get(&number) {
                        Some(&target) => target,
                        _ => {
                            return x
                                .illegal(format!("call of {address:#x}, which is no function"));
                        }
                    }
                }
            };
            self.push(target, 1 << lane);
        }
        self.merge();
        Ok(())
    }

    pub(super) fn back(&mut self, block: *mut BlockRun, x: &Context, chosen: usize) -> Outcome {
        let outermost = lanes_of(x.mask())
            .filter(|&lane| self.calls.get(lane).is_none_or(Vec::is_empty))
            .fold(0u32, |bits, lane| bits | 1 << lane);
        let inner = x.mask() & !outermost;
        if inner != 0 {
            let rest = self.groups[chosen].mask & !inner;
            for lane in lanes_of(inner) {
                if let Some(frame) = self.calls[lane].pop() {
                    self.frames[lane] -= frame.bytes;
                    for (register, bits) in frame.saved {
                        x.file().set(register, lane, bits);
                    }
                    self.push(frame.back, 1 << lane);
                }
            }
            if outermost == 0 {
                self.take(chosen, rest, x.pc + 1);
                self.merge();
                return Ok(());
            }
            self.groups[chosen].mask = rest;
        }
        // SAFETY: as for `run`; `self` is not used afterwards.
        unsafe { Self::exit(block, self, chosen, outermost, x.pc + 1) };
        Ok(())
    }
}
