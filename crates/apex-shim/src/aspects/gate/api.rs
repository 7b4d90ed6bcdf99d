//! What a program that knows apex may ask of it: the functions behind `include/apex.h`.
//!
//! They are found by name in the running process, so a program that uses them runs without apex too. Each
//! answers for this process alone, touches nothing of the driver, and says "not known" (a NaN) rather than a
//! number it does not have.

use super::attach::{GATES, is_on};
use super::program::Gate;
use super::wishes;
use crate::settings::{knobs, time_launches};
use crate::state::{
    extras::Extra,
    process::{self, guard},
    thread, times,
};
use apex_core::gate_page::{Own, SLOTS};
use apex_core::time::monotonic_nanos;
use core::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering};

/// The fields of `apex_config`.
#[repr(C)]
pub(crate) struct Config {
    latency_critical_threshold_ms: f32,
    throughput_optimization: c_int,
    enable_preemption: c_int,
}

/// The fields of `apex_metrics` behind its size.
#[repr(C)]
pub(crate) struct Metrics {
    avg_queue_wait_ms: f64,
    sm_utilization_percent: f64,
    prediction_accuracy: f64,
    launches: u64,
    holds: u64,
    waited_ns: u64,
    admitted_ns: u64,
    in_flight_ns: u64,
    bursts: u64,
}

static LEVEL: AtomicI32 = AtomicI32::new(WARNING);

const WARNING: i32 = 1;
const DEBUG: i32 = 3;
/// Bit of an answer: preemption below a launch was asked for and is not to be had.
const PREEMPTION_REFUSED: c_int = 1;
const NO_PREEMPTION: &core::ffi::CStr =
    c"preemption works between launches only: kernels are not sliced by this version of apex";

/// 1 where apex is in this process and switched on.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn apex_active() -> c_int {
    guard(|| c_int::from(knobs().enabled && knobs().rings.is_some())).unwrap_or(0)
}

/// The version of apex.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn apex_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Takes part in scheduling (as `normal`, unless the program was started with a class), or stops taking part.
/// Answers 1 if it takes part from the next launch on.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn apex_enable_scheduling(on: c_int) -> c_int {
    guard(|| {
        if on == 0 {
            thread::switch(Extra::Gate, false);
            for gate in gates() {
                gate.page.own(gate.slot, Own::Class).store(0, Ordering::Relaxed);
                gate.at_work().forget();
            }
            say(DEBUG, "scheduling is off for this program");
            return 0;
        }
        if !knobs().enabled || knobs().gate.is_none() {
            say(WARNING, "scheduling needs apex run: there is no page to meet others on");
            return 0;
        }
        for gate in gates() {
            gate.page.own(gate.slot, Own::Class).store(gate.class as u64 + 1, Ordering::Relaxed);
        }
        thread::switch(Extra::Gate, true);
        say(DEBUG, "scheduling is on for this program");
        1
    })
    .unwrap_or(0)
}

/// Says what the program wants. Answers 0, or bits for what it cannot have; [`apex_reason`] has the sentence.
///
/// # Safety
///
/// `config` is null or points to a whole `apex_config`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn apex_configure(config: *const Config) -> c_int {
    // SAFETY: the caller's promise.
    let Some(config) = (unsafe { config.as_ref() }) else { return 0 };
    guard(|| {
        let millis = f64::from(config.latency_critical_threshold_ms);
        let nanos = if millis.is_finite() && millis > 0.0 { (millis * 1e6) as u64 } else { 0 };
        wishes::wish(nanos, config.throughput_optimization == 0);
        for gate in gates() {
            wishes::tell(|word, value| gate.store(word, value));
        }
        say(DEBUG, "the program's configuration is taken");
        if config.enable_preemption == 0 {
            return 0;
        }
        say(DEBUG, &NO_PREEMPTION.to_string_lossy());
        PREEMPTION_REFUSED
    })
    .unwrap_or(0)
}

/// Why something was refused.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn apex_reason(refused: c_int) -> *const c_char {
    if refused & PREEMPTION_REFUSED != 0 { NO_PREEMPTION.as_ptr() } else { c"".as_ptr() }
}

/// Fills in what is known of this program; what is not is a NaN. Answers 1 if it takes part in scheduling.
///
/// The structure begins with its own size, so that a program and an apex of different versions agree on the fields
/// that both have.
///
/// # Safety
///
/// `metrics` is null or points to an `apex_metrics` of as many bytes as its first field says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn apex_fill_metrics(metrics: *mut u64) -> c_int {
    if metrics.is_null() {
        return 0;
    }
    let (known, takes_part) = known();
    // SAFETY: the caller's promise: the size stands first.
    let size = usize::try_from(unsafe { metrics.read() }).unwrap_or(0);
    let bytes = size.saturating_sub(size_of::<u64>()).min(size_of::<Metrics>());
    let (from, to) = ((&raw const known).cast::<u8>(), metrics.wrapping_add(1).cast::<u8>());
    // SAFETY: no more than ours holds, and no more than the caller's holds behind its size.
    unsafe { from.copy_to_nonoverlapping(to, bytes) };
    takes_part
}

/// The same for programs built with a header whose structure had no size: its fields are the first that it ever had.
///
/// # Safety
///
/// `metrics` is null or points to those fields.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn apex_get_metrics(metrics: *mut Metrics) -> c_int {
    // SAFETY: the caller's promise.
    let Some(metrics) = (unsafe { metrics.as_mut() }) else { return 0 };
    let takes_part;
    (*metrics, takes_part) = known();
    takes_part
}

/// What is known of this program, and 1 if it takes part in scheduling.
fn known() -> (Metrics, c_int) {
    let mut metrics = Metrics {
        avg_queue_wait_ms: f64::NAN,
        sm_utilization_percent: f64::NAN,
        prediction_accuracy: times::accuracy().unwrap_or(f64::NAN),
        launches: 0,
        holds: 0,
        waited_ns: 0,
        admitted_ns: 0,
        in_flight_ns: 0,
        bursts: 0,
    };
    let takes_part = guard(|| {
        let mut filled = None;
        for gate in gates() {
            let load = |word| gate.page.own(gate.slot, word).load(Ordering::Relaxed);
            metrics.launches += load(Own::Launches);
            metrics.holds += load(Own::Holds);
            metrics.waited_ns += load(Own::WaitedNs);
            metrics.admitted_ns += load(Own::AdmittedNs);
            metrics.in_flight_ns += gate.flight.in_flight_ns(&gate.streams);
            metrics.bursts += load(Own::Bursts);
            filled = Some(filled.unwrap_or(0.0) + filled_share(gate));
        }
        if metrics.launches > 0 {
            metrics.avg_queue_wait_ms = metrics.waited_ns as f64 / metrics.launches as f64 / 1e6;
        }
        let devices = gates().count().max(1) as f64;
        if let Some(filled) = filled {
            metrics.sm_utilization_percent = (filled / devices * 100.0).min(100.0);
        }
        c_int::from(filled.is_some() && is_on())
    });
    (metrics, takes_part.unwrap_or(0))
}

/// How much is said on standard error: 0 errors, 1 warnings, 2 what happens, 3 everything.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn apex_set_log_level(level: c_int) {
    LEVEL.store(level, Ordering::Relaxed);
}

/// Times launches, or stops timing them. Answers 1 if this program is recorded.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn apex_enable_profiling(on: c_int) -> c_int {
    time_launches(on != 0);
    guard(|| c_int::from(on != 0 && process::current().is_some())).unwrap_or(0)
}

fn gates() -> impl Iterator<Item = &'static Gate> {
    // SAFETY: null or a leaked box.
    GATES.iter().filter_map(|gate| unsafe { gate.load(Ordering::Acquire).as_ref() })
}

/// Part of the GPU's multiprocessors that the launches of all programs on its page fill, by their measured
/// times and their blocks, since each began.
fn filled_share(gate: &Gate) -> f64 {
    let now = monotonic_nanos();
    let share = |slot: usize| {
        let load = |word| gate.page.own(slot, word).load(Ordering::Relaxed);
        let since = load(Own::Since);
        if load(Own::Claim) == 0 || since == 0 || now <= since {
            return 0.0;
        }
        load(Own::FilledNs) as f64 / (now - since) as f64
    };
    (0..SLOTS).map(share).sum()
}

fn say(level: i32, sentence: &str) {
    if LEVEL.load(Ordering::Relaxed) >= level {
        let line = format!("apex: {sentence}\n");
        // SAFETY: plain write of our own bytes; a short write is as good as none.
        unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    }
}
