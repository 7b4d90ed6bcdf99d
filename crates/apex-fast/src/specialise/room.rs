//! Memory of apex's own in which two forms of a kernel run on copies, one comparison at a time.
//!
//! It is allocated and freed by this layer's thread, on a stream of its own, and is there only while a form waits for
//! its proof. The host hears of a comparison's end by a word of pinned memory, so nobody has to ask the driver.

use super::beneath;
use apex_cuda::types::*;
use apex_policy::specialise::Finding;
use core::ptr::null_mut;
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is free on the device must be so many times what both forms take.
const SPARE: u64 = 8;
/// Bytes behind the two halves, for what is found.
const FOUND_BYTES: u64 = 256;
/// Words of pinned memory: whether it is there, words that differ, words that tell.
const TOLD_BYTES: usize = 64;

const TEXT: &str = include_str!("differing.ptx");

/// What a context needs for comparisons.
pub(super) struct Room {
    context: u64,
    stream: u64,
    pub(super) differing: u64,
    pub(super) tell: u64,
    /// Three words of pinned memory.
    pub(super) told: u64,
    /// The memory; 0 while there is none.
    base: u64,
    half: u64,
    /// Whose comparison is under way: a kernel's handle and the place of its form.
    owner: Option<(u64, usize)>,
    /// Something was sent whose end has not been told.
    is_running: bool,
}

static ROOM: Mutex<Option<Room>> = Mutex::new(None);

/// What asking for the room gave.
pub(super) enum Claim<'a> {
    /// It is the caller's until its comparison is told.
    Given(MutexGuard<'a, Option<Room>>),
    /// Another comparison is under way.
    Busy,
    /// There is none that is large enough.
    Missing,
}

fn lock() -> MutexGuard<'static, Option<Room>> {
    ROOM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for so many bytes for each form, without waiting.
pub(super) fn claim(context: u64, owner: (u64, usize), bytes: u64) -> Claim<'static> {
    let Ok(mut guard) = ROOM.try_lock() else { return Claim::Busy };
    let Some(room) = guard.as_mut().filter(|room| room.context == context) else {
        return Claim::Missing;
    };
    room.is_running &= room.told().is_none();
    if room.owner.is_some() || room.is_running {
        return Claim::Busy;
    }
    if room.base == 0 || room.half < bytes {
        return Claim::Missing;
    }
    room.owner = Some(owner);
    Claim::Given(guard)
}

/// What the comparison of `owner` has found, once; its room is then free for others.
pub(super) fn finding(owner: (u64, usize)) -> Option<Finding> {
    let mut guard = ROOM.try_lock().ok()?;
    let room = guard.as_mut().filter(|room| room.owner == Some(owner))?;
    let found = room.told()?;
    (room.owner, room.is_running) = (None, false);
    Some(found)
}

impl Room {
    /// Where the first form's copies lie, where the second's, and where is noted what was found.
    pub(super) fn halves(&self) -> [u64; 3] {
        [self.base, self.base + self.half, self.base + 2 * self.half]
    }

    /// A comparison is about to be sent.
    pub(super) fn begin(&mut self) {
        // SAFETY: pinned memory of ours that nothing on the device writes now.
        unsafe { (self.told as *mut u32).write_volatile(0) };
        self.is_running = true;
    }

    /// The comparison was not sent whole: nothing of it is waited for. What was sent of it may still run, so the room is
    /// used no more.
    pub(super) fn abandon(&mut self) {
        (self.base, self.half, self.owner, self.is_running) = (0, 0, None, false);
    }

    fn told(&self) -> Option<Finding> {
        let words = self.told as *const u32;
        // SAFETY: pinned memory of ours, three words; the device writes the first one last.
        let [is_there, differing, telling] =
            [0, 1, 2].map(|nth| unsafe { words.add(nth).read_volatile() });
        let finding = Finding { differing: differing.into(), telling: telling.into() };
        (is_there == 1).then_some(finding)
    }
}

/// Makes room for so many bytes of each form in the current context. By this layer's thread.
pub(super) fn make(context: u64, bytes: u64) -> Result<(), String> {
    let mut guard = lock();
    if guard.as_ref().is_none_or(|room| room.context != context) {
        *guard = Some(prepared(context)?);
    }
    let Some(room) = guard.as_mut() else { return Ok(()) };
    if room.owner.is_some() || room.is_running || room.half >= bytes {
        return Ok(());
    }
    empty(room);
    let wanted = 2 * bytes + FOUND_BYTES;
    let (mut free, mut total, mut base) = (0, 0, 0);
    // SAFETY: valid places for the answers, and a stream of ours in the current context.
    let result = unsafe {
        (beneath().cuMemGetInfo_v2)(&raw mut free, &raw mut total);
        if (free as u64) < SPARE * wanted {
            return Err(format!("{} MiB to compare it are too much", wanted >> 20));
        }
        let stream = room.stream as CUstream;
        match (beneath().cuMemAllocAsync)(&raw mut base, wanted as usize, stream) {
            CUDA_SUCCESS => (beneath().cuStreamSynchronize)(stream),
            refused => refused,
        }
    };
    if result != CUDA_SUCCESS {
        return Err(format!("the driver refused memory to compare it with error {result}"));
    }
    (room.base, room.half) = (base, bytes);
    Ok(())
}

/// Gives the memory back, unless a comparison is under way. By this layer's thread.
pub(super) fn clear(context: u64) {
    let mut guard = lock();
    if let Some(room) = guard.as_mut().filter(|room| room.context == context)
        && room.owner.is_none()
        && !room.is_running
    {
        empty(room);
    }
}

/// The context ends, or code was unloaded: nobody waits for a comparison any more.
pub(super) fn forget(is_context: bool) {
    let mut guard = lock();
    if is_context {
        // What belongs to a context ends with it.
        *guard = None;
    } else if let Some(room) = guard.as_mut() {
        room.owner = None;
    }
}

fn empty(room: &mut Room) {
    if room.base != 0 {
        // SAFETY: memory and stream of ours; nothing that uses the memory is under way.
        unsafe {
            (beneath().cuMemFreeAsync)(room.base, room.stream as CUstream);
            (beneath().cuStreamSynchronize)(room.stream as CUstream);
        }
        (room.base, room.half) = (0, 0);
    }
}

/// Stream, functions and pinned words for a context, which is current.
fn prepared(context: u64) -> Result<Room, String> {
    const NON_BLOCKING: u32 = 1;
    const PORTABLE: u32 = 1;
    let refused = |result| format!("the driver refused what comparing needs with error {result}");
    let text = CString::new(TEXT).map_err(|_| refused(0))?;
    let (mut stream, mut module, mut told) = (null_mut(), null_mut(), null_mut());
    let [mut differing, mut tell] = [null_mut(); 2];
    // SAFETY: valid places for the answers, and strings that outlive the calls.
    let results = unsafe {
        let driver = beneath();
        [
            (driver.cuStreamCreate)(&raw mut stream, NON_BLOCKING),
            (driver.cuModuleLoadData)(&raw mut module, text.as_ptr().cast()),
            (driver.cuModuleGetFunction)(&raw mut differing, module, c"apex_differing".as_ptr()),
            (driver.cuModuleGetFunction)(&raw mut tell, module, c"apex_tell".as_ptr()),
            (driver.cuMemHostAlloc)(&raw mut told, TOLD_BYTES, PORTABLE),
        ]
    };
    if let Some(result) = results.into_iter().find(|result| *result != CUDA_SUCCESS) {
        return Err(refused(result));
    }
    Ok(Room {
        context,
        stream: stream as u64,
        differing: differing as u64,
        tell: tell as u64,
        told: told as u64,
        base: 0,
        half: 0,
        owner: None,
        is_running: false,
    })
}
