//! Checked mode: what the block shows the checker, and where it puts what is found.

use super::block::BlockRun;
use super::context::{Context, Outcome};
use super::facts::Facts;
use super::file::lanes_of;
use crate::check::{CheckedStep, Checker, Finding, Report};
use crate::code::{LANES, Space, Step};
use crate::site::Access;

/// The checker of a new block, where the device is checked.
pub(super) fn checker(facts: &Facts) -> Option<Box<Checker>> {
    let (threads, shared_bytes) = (facts.threads(), facts.shared_bytes());
    let make = || Box::new(Checker::new(facts.code(), threads, shared_bytes));
    facts.device.checked.then(make)
}

impl BlockRun {
    /// Looks at an access before it is made. All lanes are looked at, so that the report counts them all.
    pub(crate) fn check_access(
        &mut self,
        x: &Context,
        at: &[u64; LANES],
        bytes: u32,
        access: Access,
    ) -> Outcome {
        let mut bad = None;
        self.with_checker(x, |checker, step| {
            for lane in lanes_of(x.mask()) {
                if !checker.access(step, lane, at[lane], bytes, access) {
                    bad = bad.or(Some((lane, at[lane])));
                }
            }
        });
        match bad {
            Some((lane, address)) => {
                Err(x.bad_address(lane, address, bytes, Some((access, Space::Global))))
            }
            None => Ok(()),
        }
    }

    /// Looks at the registers of a step before it is executed.
    pub(crate) fn check_step(&mut self, x: &Context, step: &Step) {
        self.with_checker(x, |checker, checked| checker.step(checked, step));
    }

    /// Looks at the lanes that come to an aligned barrier; `live` are those that have not ended.
    pub(crate) fn check_barrier(&mut self, x: &Context, live: u32) {
        self.with_checker(x, |checker, checked| checker.at_barrier(checked, live));
    }

    /// Shows the checker a step, when there is one.
    fn with_checker(&mut self, x: &Context, look: impl FnOnce(&mut Checker, &CheckedStep<'_>)) {
        let Some(mut checker) = self.checker.take() else { return };
        let (block, warp) = (&*self, &x.warp().frame);
        let is_of_launch = |address: u64| {
            address.wrapping_sub(block.frame.params as u64) < block.param_bytes()
                || block.peer_of(address).is_some()
                || block.facts().workspace_holds(address)
        };
        let report = |finding: Finding| {
            let Finding { kind, lane, address, bytes, detail } = finding;
            let site = block.place(x.pc, Some(warp.first_thread + lane as u32));
            let report = Report { kind, place: site, address, bytes, detail, count: 1 };
            block.facts().findings.add(report);
        };
        let checked = CheckedStep {
            mask: x.mask(),
            warp,
            block: &block.frame,
            is_of_launch: &is_of_launch,
            services: &*block.facts().device.services,
            report: &report,
        };
        look(&mut checker, &checked);
        self.checker = Some(checker);
    }
}
