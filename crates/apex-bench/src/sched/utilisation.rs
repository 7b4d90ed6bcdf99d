//! How busy the multiprocessors are while a turn runs, from the counters (GPM) of NVIDIA's management library.
//!
//! They are read several times a second from the begin of the turn to its end: `nvidia-smi`, which reads the same ones,
//! needs most of a second to start, and its readings reach beyond a turn of four.

#![allow(unsafe_code, reason = "calls the driver's management library by its C functions")]

use super::numbers::mean_of;
use apex_cuda::Library;
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr::null_mut;
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// NVML's number for the share of time in which a multiprocessor has work, and its version of [`Question`].
const SM_UTILISATION: c_uint = 2;
const VERSION: c_uint = 1;
/// More than NVML has, of any version: it fills those that it is asked for.
const METRICS: usize = 400;
const EVERY: Duration = Duration::from_millis(250);

/// A reader of the device's counters, which ends by itself.
pub(super) struct Utilisation {
    reader: JoinHandle<Vec<f64>>,
}

impl Utilisation {
    /// Reads in a turn that begins after `lead` and lasts for `length`; none where nothing counts.
    pub(super) fn watch(lead: Duration, length: Duration) -> Option<Utilisation> {
        static COUNTERS: OnceLock<Option<Counters>> = OnceLock::new();
        let counters = COUNTERS.get_or_init(Counters::open).as_ref()?;
        let begin = Instant::now() + lead;
        let read = move || {
            std::thread::sleep(begin.saturating_duration_since(Instant::now()));
            let mut last = counters.read();
            let mut values = Vec::new();
            while begin.elapsed() + EVERY <= length {
                std::thread::sleep(EVERY);
                let next = counters.read();
                let both = last.as_ref().zip(next.as_ref());
                values.extend(both.and_then(|(last, next)| counters.percent(last, next)));
                last = next;
            }
            values
        };
        let reader = std::thread::Builder::new().name("counters".into()).spawn(read).ok()?;
        Some(Utilisation { reader })
    }

    /// The mean of what was read; none where the device or its driver counts nothing.
    pub(super) fn mean_percent(self) -> Option<f64> {
        mean(&self.reader.join().ok()?)
    }
}

/// The mean of what can be a share: counters of a device that was just handed over have been seen to say millions of
/// percent.
fn mean(values: &[f64]) -> Option<f64> {
    let shares: Vec<f64> =
        values.iter().copied().filter(|value| (0.0..=100.0).contains(value)).collect();
    mean_of(&shares)
}

/// What is asked about one metric, as nvml.h has it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Metric {
    number: c_uint,
    result: c_int,
    value: f64,
    names: [*const c_char; 3],
}

/// What is asked about two readings.
#[repr(C)]
struct Question {
    version: c_uint,
    metrics_asked: c_uint,
    readings: [*mut c_void; 2],
    metrics: [Metric; METRICS],
}

type Init = unsafe extern "C" fn() -> c_int;
type Find = unsafe extern "C" fn(c_uint, *mut *mut c_void) -> c_int;
type Take = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Fill = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type GiveBack = unsafe extern "C" fn(*mut c_void) -> c_int;
type Ask = unsafe extern "C" fn(*mut Question) -> c_int;

/// The opened library and its first device.
struct Counters {
    device: *mut c_void,
    take: Take,
    fill: Fill,
    give_back: GiveBack,
    ask: Ask,
}

// SAFETY: the library may be called by any thread, with any of its handles.
unsafe impl Send for Counters {}
// SAFETY: as above; nothing here changes.
unsafe impl Sync for Counters {}

/// The counters at one moment.
struct Reading<'a> {
    counters: &'a Counters,
    handle: *mut c_void,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // SAFETY: the library gave it, and nobody else has it.
        unsafe { (self.counters.give_back)(self.handle) };
    }
}

impl Counters {
    /// Opens the library, which stays open.
    fn open() -> Option<Counters> {
        let library = Library::management()?;
        let init = library.symbol(c"nvmlInit_v2")?;
        let find = library.symbol(c"nvmlDeviceGetHandleByIndex_v2")?;
        let take = library.symbol(c"nvmlGpmSampleAlloc")?;
        let fill = library.symbol(c"nvmlGpmSampleGet")?;
        let give_back = library.symbol(c"nvmlGpmSampleFree")?;
        let ask = library.symbol(c"nvmlGpmMetricsGet")?;
        let mut device = null_mut();
        // SAFETY: these are the types that nvml.h declares the functions with, and the out-pointer is a local's.
        unsafe {
            let init: Init = core::mem::transmute(init);
            let find: Find = core::mem::transmute(find);
            if init() != 0 || find(0, &raw mut device) != 0 {
                return None;
            }
            Some(Counters {
                device,
                take: core::mem::transmute::<*const c_void, Take>(take),
                fill: core::mem::transmute::<*const c_void, Fill>(fill),
                give_back: core::mem::transmute::<*const c_void, GiveBack>(give_back),
                ask: core::mem::transmute::<*const c_void, Ask>(ask),
            })
        }
    }

    fn read(&self) -> Option<Reading<'_>> {
        let mut handle = null_mut();
        // SAFETY: the out-pointer is a local's.
        if unsafe { (self.take)(&raw mut handle) } != 0 {
            return None;
        }
        let reading = Reading { counters: self, handle };
        // SAFETY: both handles are the library's own.
        (unsafe { (self.fill)(self.device, handle) } == 0).then_some(reading)
    }

    /// The part of the time between two readings in which a multiprocessor had work.
    fn percent(&self, first: &Reading<'_>, second: &Reading<'_>) -> Option<f64> {
        let metric = Metric { number: 0, result: 0, value: 0.0, names: [core::ptr::null(); 3] };
        let mut question = Box::new(Question {
            version: VERSION,
            metrics_asked: 1,
            readings: [first.handle, second.handle],
            metrics: [metric; METRICS],
        });
        question.metrics[0].number = SM_UTILISATION;
        // SAFETY: it is as nvml.h has it, with room for all metrics there are, and both readings are there.
        let answered = unsafe { (self.ask)(&raw mut *question) } == 0;
        (answered && question.metrics[0].result == 0).then_some(question.metrics[0].value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_share_was_misread() {
        assert_eq!(mean(&[80.0, 453_080_940.0, 90.0]), Some(85.0));
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn where_nothing_counts_nothing_is_read() {
        if let Some(reader) = Utilisation::watch(Duration::ZERO, 2 * EVERY) {
            assert!(reader.mean_percent().is_none_or(|percent| (0.0..=100.0).contains(&percent)));
        }
    }

    #[test]
    fn it_is_laid_out_as_nvml_has_it() {
        assert_eq!(size_of::<Metric>(), 40);
        assert_eq!(core::mem::offset_of!(Question, metrics), 24);
    }
}
