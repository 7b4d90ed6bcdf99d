//! Finds the gate of the GPU that a thread works on, and opens it when it is first asked for.
//!
//! A gate is opened once for each GPU and never taken down: threads keep where it lies. One that cannot be had is not
//! asked for again; a line says why, and the program's launches go as if it had no class.

use super::events::Events;
use super::fence::DeviceFences;
use super::program::Gate;
use super::tally::Tally;
use super::word::{Bursts, Flight, Streams};
use super::{priority, wishes};
use crate::driver::driver;
use crate::settings::{knobs, log_line};
use crate::state::{
    contexts,
    extras::{self, Extra},
    streams::PER_THREAD_STREAM,
    thread::{self, Thread},
};
use apex_core::gate_page::{self, Files, Own, Page, Shared};
use apex_core::time::monotonic_nanos;
use apex_cuda::types::{CUDA_SUCCESS, CUcontext, CUdevice};
use apex_policy::gate::LATE_NS;
use apex_policy::schedule::{Class, Sla};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

const DEVICES: usize = 16;

pub(super) static GATES: [AtomicPtr<Gate>; DEVICES] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; DEVICES];
/// Devices whose gate could not be had, a bit each.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Whether launches of this process are seen here.
#[inline(always)]
pub(super) fn is_on() -> bool {
    extras::has(Extra::Gate)
}

/// This thread's gate, context, and the key of a stream of it.
pub(super) fn here(stream: u64) -> Option<(&'static Gate, CUcontext, u64)> {
    let thread = thread::current()?;
    contexts::follow(thread);
    let (device, context) = (thread.device, thread.context);
    let key = stream_key(stream, context, thread);
    let gate = match GATES.get(usize::from(device)) {
        // SAFETY: null or a leaked box.
        Some(gate) => unsafe { gate.load(Ordering::Acquire).as_ref() },
        None => return None,
    };
    let gate = gate.or_else(|| attach(device))?;
    if let Some(thread) = thread::current() {
        Tally::of(&mut thread.gate_room).gate = gate;
    }
    Some((gate, context, key))
}

/// Streams by one number that is never zero: the default stream belongs to its context, the per-thread one to
/// its thread.
pub(super) fn stream_key(stream: u64, context: CUcontext, thread: &Thread) -> u64 {
    match stream {
        0 | 1 => context as u64 | 1,
        PER_THREAD_STREAM => (&raw const *thread) as u64 | 2,
        other => other,
    }
}

/// The key of this thread's own default stream.
pub(super) fn own_key() -> Option<u64> {
    let thread = thread::current()?;
    Some(stream_key(PER_THREAD_STREAM, thread.context, thread))
}

/// In a forked child: the gates are its parent's.
pub(super) fn forget() {
    REFUSED.store(0, Ordering::Relaxed);
    GATES.iter().for_each(|gate| gate.store(core::ptr::null_mut(), Ordering::Release));
}

#[cold]
fn attach(device: u8) -> Option<&'static Gate> {
    let bit = 1 << device.min(63);
    if !is_on() || REFUSED.load(Ordering::Relaxed) & bit != 0 {
        return None;
    }
    match open(device) {
        Ok(gate) => {
            let gate = Box::into_raw(Box::new(gate));
            let place = &GATES[usize::from(device)];
            let null = core::ptr::null_mut();
            // SAFETY: just made, or the box of the thread that was first; neither is ever dropped.
            unsafe {
                match place.compare_exchange(null, gate, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => gate.as_ref(),
                    Err(first) => first.as_ref(),
                }
            }
        }
        Err(sentence) => {
            REFUSED.fetch_or(bit, Ordering::Relaxed);
            log_line(&format!("this program is not scheduled: {sentence}"));
            None
        }
    }
}

fn open(device: u8) -> Result<Gate, String> {
    let knobs = knobs();
    let class: Class = knobs.class.as_deref().unwrap_or("normal").parse()?;
    let sla: Option<Sla> = knobs.sla.as_deref().map(str::parse).transpose()?;
    let directory =
        knobs.gate.as_deref().ok_or("APEX_GATE names no directory; start it with apex run")?;
    let files = Files::of(directory, &uuid(device)?);
    gate_page::check_directory(directory).map_err(|error| error.to_string())?;
    // Where a daemon owns the directory the files are there already.
    files.create(0o600, 0o600).map_err(|error| error.to_string())?;
    let page = Page::map(&files).map_err(|error| error.to_string())?;
    let slot = page.claim(std::process::id()).ok_or("all slots of this GPU are taken")?;
    let mut sms = 0;
    // SAFETY: a valid place for the answer; 16 asks for the number of multiprocessors.
    unsafe { (driver().cuDeviceGetAttribute)(&raw mut sms, 16, CUdevice::from(device)) };
    let sms = u32::try_from(sms).unwrap_or(0).max(1);
    let own = |word, value| page.own(slot, word).store(value, Ordering::Relaxed);
    let session = knobs.rings.as_deref().map_or(0, gate_page::session_number);
    own(Own::Session, session);
    own(Own::ShareMilli, (knobs.share * 1_000.0) as u64);
    if let Some(sla) = sla {
        own(Own::SlaNs, sla.limit_ns);
        own(Own::SlaMicro, (f64::from(sla.quantile) * 1e6) as u64);
    }
    wishes::tell(own);
    own(Own::Since, monotonic_nanos());
    own(Own::Class, class as u64 + 1);
    if class == Class::Latency {
        priority::raise();
    }
    page.shared(Shared::Sms).store(u64::from(sms), Ordering::Relaxed);
    Ok(Gate {
        gated: page.gated_word(slot),
        page,
        slot,
        claim: page.own(slot, Own::Claim).load(Ordering::Relaxed),
        class,
        sms,
        has_bursts: class >= Class::Normal,
        bursts: Bursts::default(),
        streams: Streams::default(),
        flight: Flight::default(),
        events: Events::new(),
        fences: DeviceFences::new(),
        late_ns: AtomicU64::new(LATE_NS),
        guard_over: AtomicU64::new(0),
    })
}

fn uuid(device: u8) -> Result<String, String> {
    // SAFETY: an all-zero UUID is a valid place for the answer.
    let mut uuid: apex_cuda::types::CUuuid = unsafe { core::mem::zeroed() };
    // SAFETY: a valid place for the answer.
    let result = unsafe { (driver().cuDeviceGetUuid)(&raw mut uuid, CUdevice::from(device)) };
    if result != CUDA_SUCCESS {
        return Err("its GPU has no UUID".into());
    }
    Ok(uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect())
}
