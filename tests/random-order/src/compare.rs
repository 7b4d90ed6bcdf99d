//! Runs a program on both sides and says where they differ.

use crate::perform::{Outcome, perform};
use crate::program::Program;
use crate::record::{Record, Seen};
use crate::side::Side;
use anyhow::Result;
use apex_cuda::Driver;
use std::fmt::Write;

/// Programs after which both sides begin again: a thread's own streams live as long as their context.
const PROGRAMS: u64 = 400;

/// Both sides.
pub(crate) struct Sides {
    plain: Side,
    fast: Side,
    programs: u64,
}

impl Sides {
    pub(crate) fn new(plain: Driver, fast: Driver, is_for_pool: bool) -> Result<Sides> {
        let side = |driver| Side::new(driver, is_for_pool);
        Ok(Sides { plain: side(plain)?, fast: side(fast)?, programs: 0 })
    }

    /// Runs a program on both. `Some` says what differs.
    pub(crate) fn compare(mut self, program: &Program) -> Result<(Sides, Option<String>)> {
        let plain = perform(program, &self.plain);
        let fast = perform(program, &self.fast);
        let mut difference = difference(program, &plain, &fast);
        if let Some(text) = &mut difference {
            let again = perform(program, &self.plain);
            if again.records != plain.records {
                text.push_str("\nthe program differs from itself without an accelerator: it is no fair program\n");
            }
        }
        self.programs += 1;
        if self.programs.is_multiple_of(PROGRAMS) || plain.has_failed || fast.has_failed {
            self = Sides { plain: self.plain.again()?, fast: self.fast.again()?, ..self };
        }
        Ok((self, difference))
    }
}

fn difference(program: &Program, plain: &Outcome, fast: &Outcome) -> Option<String> {
    let pairs = plain.records.iter().zip(&fast.records).enumerate();
    let mut differing = pairs.filter(|(_, (plain, fast))| plain != fast);
    let (thread, (plain, fast)) = differing.next()?;
    let same = plain.seen.iter().zip(&fast.seen).take_while(|(plain, fast)| plain == fast).count();
    let mut text = format!("thread {thread}, observation {same}: ");
    let show = |seen: Option<&Seen>| {
        seen.map_or("none".into(), |seen| format!("{} {:#x}", seen.what, seen.value))
    };
    let (one, other) = (plain.seen.get(same), fast.seen.get(same));
    let _ = writeln!(text, "{} without, {} with", show(one), show(other));
    let act = one.or(other).map_or(0, |seen| seen.act);
    let thread = &program.threads[thread];
    match thread.acts.get(act) {
        Some(act) => _ = writeln!(text, "in {act:?}"),
        None => text.push_str("at its end\n"),
    }
    let _ = writeln!(text, "lanes {:?}, events {:?}", thread.lanes, thread.events);
    around(&mut text, plain, fast, same);
    Some(text)
}

/// What was observed around a place.
fn around(text: &mut String, plain: &Record, fast: &Record, place: usize) {
    for nth in place.saturating_sub(12)..place + 4 {
        let (Some(one), Some(other)) = (plain.seen.get(nth), fast.seen.get(nth)) else { break };
        let mark = if one == other { ' ' } else { '!' };
        let _ = writeln!(
            text,
            "{mark} act {:3} {} {:#x} | {} {:#x}",
            one.act, one.what, one.value, other.what, other.value
        );
    }
}
