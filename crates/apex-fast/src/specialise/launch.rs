//! The way of a launch: of a kernel that is watched its numbers are read, and where a rewritten form fits them, both
//! forms take turns until one is known to be faster.

use super::compare::{Step, packed};
use super::kernels::{self, EARLY, Early, Field, Kernel, Known, Sample, State, Variant};
use super::make::{Job, may_propose, settle};
use super::numbers::{Call, MOST_FIELDS, SHAPE, packed_block, packed_grid};
use super::study::layout;
use super::verdict::{drop_variant, judge};
use super::{compare, is_aside, own_context, thread};
use crate::captures;
use crate::counts::COUNTERS;
use apex_cuda::types::*;
use apex_policy::duel::{Form, Verdict};
use apex_policy::specialise::Seen;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

/// Parameters of a kernel that is looked at before it is known.
const MOST_PARAMETERS: usize = 64;
/// Launches in a row that no rewritten form fits, after which a kernel is left alone.
const MOST_MISSES: u32 = 4_096;

/// Launches the function or a rewritten form of it.
///
/// # Safety
///
/// The call is the program's own; `forward` makes it with the function that it is given.
#[inline(always)]
pub(super) unsafe fn launch(call: &Call, forward: impl Fn(CUfunction) -> CUresult) -> CUresult {
    if is_aside() || captures::any() {
        return forward(call.function);
    }
    let Some(kernel) = kernels::get(call.function) else { return forward(call.function) };
    match kernel.state() {
        State::Left => forward(call.function),
        State::Young | State::Studied => match kernel.grows() {
            Early::Any => forward(call.function),
            // SAFETY: the caller's promise.
            moment => unsafe { sampled(kernel, call, moment, forward) },
        },
        // SAFETY: the caller's promise.
        State::Watched => unsafe { look(kernel, call, forward) },
    }
}

/// A launch of a kernel that is not known yet is remembered as it was, and the kernel studied.
///
/// # Safety
///
/// As for [`launch`].
#[cold]
unsafe fn sampled(
    kernel: &'static Kernel,
    call: &Call,
    moment: Early,
    forward: impl Fn(CUfunction) -> CUresult,
) -> CUresult {
    if !call.parameters.is_null() {
        let layout = layout(call.function, MOST_PARAMETERS);
        let layout: Vec<(u32, u32)> =
            layout.iter().map(|&(offset, bytes)| (offset as u32, bytes as u32)).collect();
        let sample = Sample {
            grid: call.grid,
            block: call.block,
            shared: call.shared,
            // SAFETY: the caller's promise: a pointer for each parameter, to as many bytes as the driver says.
            packed: unsafe { packed(call, &layout) },
        };
        if let Ok(mut early) = kernel.early.try_lock() {
            early.push(sample);
        }
    }
    let result = match (moment, kernel.known.try_lock()) {
        (Early::Second, Ok(mut known)) if known.timing.can_begin() => {
            timed(kernel, &mut known, (EARLY, &Way::Original), call, &forward)
        }
        _ => forward(call.function),
    };
    if result == CUDA_SUCCESS && kernel.begins() {
        thread::ask(Job::Study { kernel, context: own_context() });
    }
    result
}

/// What is to be launched.
enum Way {
    Original,
    /// The rewritten form with this place among the kernel's.
    Rewritten(usize, CUfunction),
}

unsafe fn look(
    kernel: &'static Kernel,
    call: &Call,
    forward: impl Fn(CUfunction) -> CUresult,
) -> CUresult {
    // Who would have to wait launches the original.
    let Ok(mut known) = kernel.known.try_lock() else { return forward(call.function) };
    let has_numbers = known.fields.is_empty() || !call.parameters.is_null();
    if !has_numbers || own_context() != known.context || kernel.is_forgotten() {
        return forward(call.function);
    }
    let mut room = [0; SHAPE + MOST_FIELDS];
    // SAFETY: the caller's promise: a pointer for each parameter, as many bytes as the kernel says.
    let numbers = unsafe { numbers(call, &known.fields, &mut room) };
    known.calls += 1;
    if judge(&mut known) {
        thread::ask(Job::Keep { kernel, context: known.context });
    }
    let Some(nth) = known.variants.iter().position(|variant| fits(variant, numbers)) else {
        missed(kernel, &mut known, call, numbers);
        drop(known);
        return forward(call.function);
    };
    known.misses = 0;
    let can_time = known.timing.can_begin();
    let variant = &mut known.variants[nth];
    if variant.is_refused {
        drop(known);
        return forward(call.function);
    }
    let settings = kernels::settings();
    if variant.settings != settings {
        variant.settings = settings;
        settle(kernel.handle, variant.function as CUfunction);
    }
    if variant.proof.is_some() {
        let way = match compare::step(kernel, &mut known, nth, call) {
            Step::Timed if can_time => Some(Way::Original),
            Step::Original | Step::Timed => None,
            Step::Equal => {
                known.variants[nth].proof = None;
                None
            }
            Step::Never(reason) => {
                drop_variant(&mut known, nth, &reason);
                thread::ask(Job::Keep { kernel, context: known.context });
                None
            }
        };
        return match way {
            Some(way) => timed(kernel, &mut known, (nth, &way), call, &forward),
            None => {
                drop(known);
                forward(call.function)
            }
        };
    }
    let turn = variant.duel.turn(can_time);
    let way = match turn.form {
        Form::Original => Way::Original,
        Form::Rewritten => Way::Rewritten(nth, variant.function as CUfunction),
    };
    let gain = variant.gain;
    if turn.is_timed {
        return timed(kernel, &mut known, (nth, &way), call, &forward);
    }
    let Way::Rewritten(_, function) = way else {
        drop(known);
        return forward(call.function);
    };
    drop(known);
    let result = forward(function);
    if result != CUDA_SUCCESS {
        return refused(kernel, nth, call, result, forward);
    }
    COUNTERS.rewritten_launches.fetch_add(1, Ordering::Relaxed);
    COUNTERS.rewritten_saved_ns.fetch_add(gain, Ordering::Relaxed);
    result
}

/// Launches between two events, if the driver has any.
fn timed(
    kernel: &'static Kernel,
    known: &mut MutexGuard<'_, Known>,
    (nth, way): (usize, &Way),
    call: &Call,
    forward: &impl Fn(CUfunction) -> CUresult,
) -> CUresult {
    let is_timed = known.timing.before(call.stream, call.is_twin);
    let (result, ran) = run(known, way, call, forward);
    if is_timed && result == CUDA_SUCCESS {
        let is_first = !known.timing.is_waiting();
        known.timing.after(call.stream, call.is_twin, nth, ran);
        if is_first && known.context != 0 {
            thread::ask(Job::Judge { kernel, context: known.context });
        }
    }
    result
}

/// Launches as it is to be, and as the program has it where the driver refuses that. Says which form ran.
fn run(
    known: &mut MutexGuard<'_, Known>,
    way: &Way,
    call: &Call,
    forward: &impl Fn(CUfunction) -> CUresult,
) -> (CUresult, Form) {
    let Way::Rewritten(nth, function) = *way else {
        return (forward(call.function), Form::Original);
    };
    let result = forward(function);
    if result == CUDA_SUCCESS {
        COUNTERS.rewritten_launches.fetch_add(1, Ordering::Relaxed);
        return (result, Form::Rewritten);
    }
    drop_variant(known, nth, &refusal(result));
    (forward(call.function), Form::Original)
}

/// The driver has refused a rewritten form: the original is launched, from now on always.
#[cold]
fn refused(
    kernel: &'static Kernel,
    nth: usize,
    call: &Call,
    result: CUresult,
    forward: impl Fn(CUfunction) -> CUresult,
) -> CUresult {
    if let Ok(mut known) = kernel.known.lock() {
        drop_variant(&mut known, nth, &refusal(result));
    }
    forward(call.function)
}

fn refusal(result: CUresult) -> String {
    format!("the driver refused its launch with error {result}")
}

/// The numbers of a call: block, grid, fields.
///
/// # Safety
///
/// There is a pointer for each parameter that a field names, to as many bytes as the field needs.
#[inline(always)]
unsafe fn numbers<'a>(call: &Call, fields: &[Field], room: &'a mut [u64]) -> &'a [u64] {
    room[0] = packed_block(call.block);
    room[1] = packed_grid(call.grid);
    for (number, field) in room[SHAPE..].iter_mut().zip(fields) {
        // SAFETY: the caller's promise.
        *number = unsafe {
            let from =
                (*call.parameters.add(field.parameter)).cast::<u8>().add(field.within as usize);
            match field.bytes {
                4 => u64::from(from.cast::<u32>().read_unaligned()),
                8 => from.cast::<u64>().read_unaligned(),
                bytes => {
                    let mut whole = [0; 8];
                    from.copy_to_nonoverlapping(whole.as_mut_ptr(), bytes.min(8) as usize);
                    u64::from_le_bytes(whole)
                }
            }
        };
    }
    &room[..SHAPE + fields.len()]
}

#[inline(always)]
fn fits(variant: &Variant, numbers: &[u64]) -> bool {
    variant
        .numbers
        .iter()
        .zip(numbers)
        .all(|(wanted, number)| wanted.is_none_or(|it| it == *number))
}

/// A call that no rewritten form fits is watched, as long as that promises anything.
fn missed(kernel: &'static Kernel, known: &mut Known, call: &Call, numbers: &[u64]) {
    match known.watch.as_mut().map(|watch| watch.seen(numbers)) {
        Some(Seen::More) => return,
        Some(Seen::Often(numbers)) => {
            if may_propose(known, &numbers) {
                let (shared, block) = (call.shared, call.block);
                thread::ask(Job::Make { kernel, numbers, shared, block });
                return;
            }
            known.watch = None;
        }
        Some(Seen::Enough) => known.watch = None,
        None => known.misses += 1,
    }
    let is_alone = known.under_way == 0 && known.variants.iter().all(is_lost);
    if is_alone || known.misses > MOST_MISSES {
        kernel.set(State::Left);
    }
}

fn is_lost(variant: &Variant) -> bool {
    variant.is_refused || variant.duel.verdict() == Verdict::Lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::c_void;

    #[test]
    fn bytes_of_parameters_are_numbers() {
        let (mut first, mut second) = ([1_u8, 2, 3, 4, 5, 6, 7, 8], 0x1234_u16);
        let mut parameters = [first.as_mut_ptr().cast::<c_void>(), (&raw mut second).cast()];
        let call = Call {
            function: core::ptr::null_mut(),
            grid: [2, 1, 1],
            block: [32, 1, 1],
            shared: 0,
            stream: core::ptr::null_mut(),
            is_twin: false,
            parameters: parameters.as_mut_ptr(),
        };
        let field = |parameter, within, bytes| Field { parameter, within, offset: 0, bytes };
        let fields = [field(0, 0, 8), field(0, 4, 4), field(1, 0, 2), field(0, 7, 1)];
        let mut room = [0; SHAPE + MOST_FIELDS];
        // SAFETY: a pointer for each parameter, to all the bytes that the fields need.
        let found = unsafe { numbers(&call, &fields, &mut room) };
        let shape = [packed_block([32, 1, 1]), packed_grid([2, 1, 1])];
        assert_eq!(found[..SHAPE], shape);
        assert_eq!(found[SHAPE..], [0x0807_0605_0403_0201, 0x0807_0605, 0x1234, 8]);
    }
}
