//! Full timing: every kernel's time from CUPTI's activity records.
//!
//! Asked for with `--timing full`, started after a successful `cuInit`. CUPTI hands over its records
//! in buffers, on a thread of its own; that thread has a ring like any other and waits for the
//! collector when it is full, because nobody waits for it. The copy of CUPTI that the program has
//! loaded is taken, else the one that `apex run` found. A program that uses CUPTI itself takes the
//! records over from us; where none can be had the launches are sampled instead.

use crate::settings::{knobs, log_line};
use crate::state::{kernels, process::guard, thread};
use apex_core::event::{CallId, Event, Head, LaunchShape, TimeBasis, What};
use apex_core::knobs::Timing;
use apex_core::time::{self, Anchor, Scale};
use core::ffi::{CStr, c_char, c_void};
use std::alloc::Layout;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(false);
static CUPTI: OnceLock<Cupti> = OnceLock::new();

/// Whether CUPTI gives the times.
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Starts CUPTI if full timing was asked for; the first call does it.
pub(crate) fn start_once() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if knobs().timing != Timing::Full || STARTED.swap(true, Ordering::Relaxed) {
        return;
    }
    match start() {
        Ok(()) => ON.store(true, Ordering::Relaxed),
        Err(why) => {
            log_line(&format!("full timing is not to be had ({why}); launches are sampled"))
        }
    }
}

type BufferRequested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type BufferCompleted = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

macro_rules! cupti {
    ($($field:ident: $type:ty = $symbol:literal;)*) => {
        /// The functions of CUPTI that are used, and when they were found.
        struct Cupti {
            $($field: $type,)*
            began: Anchor,
        }

        fn open() -> Result<Cupti, String> {
            let library = find_library()?;
            Ok(Cupti {
                // SAFETY: the symbol has this signature in CUPTI's header.
                $($field: unsafe { core::mem::transmute::<*mut c_void, $type>(symbol(library, $symbol)?) },)*
                began: Anchor::take(),
            })
        }
    };
}

cupti! {
    register_callbacks: unsafe extern "C" fn(BufferRequested, BufferCompleted) -> u32 = c"cuptiActivityRegisterCallbacks";
    register_clock: unsafe extern "C" fn(extern "C" fn() -> u64) -> u32 = c"cuptiActivityRegisterTimestampCallback";
    enable: unsafe extern "C" fn(u32) -> u32 = c"cuptiActivityEnable";
    flush_period: unsafe extern "C" fn(u32) -> u32 = c"cuptiActivityFlushPeriod";
    flush_all: unsafe extern "C" fn(u32) -> u32 = c"cuptiActivityFlushAll";
    next_record: unsafe extern "C" fn(*mut u8, usize, *mut *const KernelRecord) -> u32 = c"cuptiActivityGetNextRecord";
}

/// A kernel's record as CUPTI 12 and 13 lay it out, up to the last field that is used.
#[repr(C)]
struct KernelRecord {
    kind: u32,
    _configuration: [u32; 3],
    start: u64,
    end: u64,
    _completed: u64,
    device: u32,
    context: u32,
    stream: u32,
    grid: [i32; 3],
    block: [i32; 3],
    _static_shared: i32,
    dynamic_shared: i32,
    _local: [u32; 2],
    _correlation: u32,
    _grid_id: i64,
    name: *const c_char,
    _times: [u64; 4],
    _graph_node: u64,
    _shared_limit: u32,
    _graph: u32,
    _window: u64,
    _channel: [u32; 2],
    cluster: [u32; 3],
}

const _: () = {
    assert!(core::mem::offset_of!(KernelRecord, start) == 16);
    assert!(core::mem::offset_of!(KernelRecord, grid) == 52);
    assert!(core::mem::offset_of!(KernelRecord, dynamic_shared) == 80);
    assert!(core::mem::offset_of!(KernelRecord, name) == 104);
    assert!(core::mem::offset_of!(KernelRecord, cluster) == 176);
};

const KIND_KERNEL: u32 = 3;
const KIND_CONCURRENT_KERNEL: u32 = 10;
const FLUSH_FORCED: u32 = 1;
const FLUSH_MILLIS: u32 = 100;
/// About 4,800 records: less than a third of a ring.
const BUFFER: Layout = match Layout::from_size_align(1 << 20, 8) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

fn start() -> Result<(), String> {
    let found = open()?;
    let cupti = CUPTI.get_or_init(|| found);
    // SAFETY: the functions of CUPTI with the signatures of its header; our callbacks are never
    // unloaded.
    unsafe {
        (cupti.register_clock)(clock);
        let steps = [
            ("callbacks", (cupti.register_callbacks)(request_buffer, complete_buffer)),
            ("kernel records", (cupti.enable)(KIND_CONCURRENT_KERNEL)),
        ];
        if let Some((step, code)) = steps.into_iter().find(|(_, code)| *code != 0) {
            return Err(format!("CUPTI refused {step} with error {code}"));
        }
        (cupti.flush_period)(FLUSH_MILLIS);
        libc::atexit(flush);
    }
    Ok(())
}

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: an open library and a C string.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    if address.is_null() {
        Err(format!("CUPTI has no {}", name.to_string_lossy()))
    } else {
        Ok(address)
    }
}

fn find_library() -> Result<*mut c_void, String> {
    for name in [c"libcupti.so.13", c"libcupti.so.12"] {
        // SAFETY: only asks whether the program has it loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if !handle.is_null() {
            return Ok(handle);
        }
    }
    let path = knobs().cupti.as_ref().ok_or("libcupti.so was not found")?;
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the launcher found CUPTI at this path.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() { Err(format!("{} cannot be loaded", path.display())) } else { Ok(handle) }
}

extern "C" fn clock() -> u64 {
    time::monotonic_nanos()
}

extern "C" fn flush() {
    if let Some(cupti) = CUPTI.get() {
        // SAFETY: CUPTI's own function.
        unsafe { (cupti.flush_all)(FLUSH_FORCED) };
    }
}

unsafe extern "C" fn request_buffer(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    // SAFETY: three valid places of CUPTI's; the layout is not empty.
    unsafe {
        let memory = std::alloc::alloc(BUFFER);
        *buffer = memory;
        *size = if memory.is_null() { 0 } else { BUFFER.size() };
        *records = 0;
    }
}

unsafe extern "C" fn complete_buffer(
    _: *mut c_void,
    _: u32,
    buffer: *mut u8,
    _: usize,
    valid: usize,
) {
    guard(|| {
        let Some(cupti) = CUPTI.get() else { return };
        let scale = Scale::between(cupti.began, Anchor::take());
        let mut names = HashMap::new();
        let mut record: *const KernelRecord = core::ptr::null();
        // SAFETY: CUPTI's own buffer, of which `valid` bytes hold records; it goes from one to the
        // next. A record of the asked kind has at least the fields of `KernelRecord`.
        unsafe {
            while valid > 0 && (cupti.next_record)(buffer, valid, &raw mut record) == 0 {
                if matches!((*record).kind, KIND_KERNEL | KIND_CONCURRENT_KERNEL) {
                    write(&*record, &scale, &mut names);
                }
            }
        }
    });
    // SAFETY: made by `request_buffer` with this layout and given back here.
    unsafe { std::alloc::dealloc(buffer, BUFFER) };
}

fn write(record: &KernelRecord, scale: &Scale, names: &mut HashMap<usize, apex_core::KernelId>) {
    let kernel = *names.entry(record.name as usize).or_insert_with(|| {
        if record.name.is_null() {
            return apex_core::KernelId(0);
        }
        // SAFETY: CUPTI's string, valid while the record is.
        kernels::number_by_name(&unsafe { CStr::from_ptr(record.name) }.to_string_lossy())
    });
    let shape = LaunchShape {
        grid: record.grid.map(|blocks| u32::try_from(blocks).unwrap_or(0)),
        block: record.block.map(|threads| u16::try_from(threads).unwrap_or(0)),
        cluster: record.cluster.map(|blocks| u8::try_from(blocks).unwrap_or(0)),
        dynamic_shared: u32::try_from(record.dynamic_shared).unwrap_or(0),
    };
    let head = Head {
        call: CallId(u16::MAX),
        result: 0,
        start: scale.reading(record.start),
        ticks: 0,
        device: u8::try_from(record.device).unwrap_or(u8::MAX),
        context: u16::try_from(record.context).unwrap_or(0),
        stream: u64::from(record.stream),
    };
    let nanos = record.end.saturating_sub(record.start);
    let Some(thread) = thread::current() else { return };
    const PATIENCE: u32 = 200;
    for _ in 0..PATIENCE {
        if !thread.writer.is_full() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let what = What::GpuTime { kernel, shape, nanos, basis: TimeBasis::Cupti };
    thread.writer.push(&Event { head, what });
}
