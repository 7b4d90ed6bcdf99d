//! What puts work in order: events, waits of streams and of the host, callbacks, meetings of threads.

use super::{Performer, Shared, View, call};
use crate::kernels::{Kernel, Parameters, WORDS};
use crate::program::{Act, Launch};
use apex_cuda::types::*;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// What callbacks of a lane said, in the order in which they ran.
pub(crate) type Log = Shared<Vec<u64>>;

/// Words of a lane's pinned memory.
const SIGNAL: usize = 0;
pub(super) const BUMPED: usize = 1;
const GATE: usize = 2;

/// The host looks so long for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a host function is given.
pub(crate) struct Callback {
    slot: u64,
    pinned: *const u32,
    log: Log,
}

impl Callback {
    pub(super) fn new(slot: usize, pinned: *const u32, log: &Log) -> Callback {
        Callback { slot: slot as u64, pinned, log: log.clone() }
    }

    fn say(&self, kind: u64) {
        // SAFETY: memory that is kept; a kernel of the same stream that wrote it is done.
        let bumped = unsafe { self.pinned.add(BUMPED).read_volatile() };
        let said = kind << 60 | self.slot << 40 | u64::from(bumped);
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(said);
    }
}

unsafe extern "C" fn host_function(data: *mut c_void) {
    // SAFETY: what `call_back` gave, which is kept until the lane is done.
    unsafe { &*data.cast::<Callback>() }.say(1);
}

unsafe extern "C" fn stream_callback(_stream: CUstream, status: CUresult, data: *mut c_void) {
    // SAFETY: as above.
    unsafe { &*data.cast::<Callback>() }.say(2 + u64::from(status != CUDA_SUCCESS));
}

impl Performer<'_> {
    pub(super) fn call_back(&mut self, lane: usize, slot: usize, is_old: bool) {
        let data = (&raw const self.lanes[lane].callbacks[slot]).cast_mut().cast();
        let stream = self.lanes[lane].stream;
        if is_old {
            call!(self, cuStreamAddCallback(stream, Some(stream_callback), data, 0));
        } else {
            call!(self, cuLaunchHostFunc(stream, Some(host_function), data));
        }
    }

    pub(super) fn record_event(&mut self, event: usize, lane: usize, flags: Option<u32>) {
        let (event, stream) = (self.events[event], self.lanes[lane].stream);
        match flags {
            None => call!(self, cuEventRecord(event, stream)),
            Some(flags) => call!(self, cuEventRecordWithFlags(event, stream, flags)),
        };
    }

    pub(super) fn ask(&mut self, lane: usize) {
        let stream = self.lanes[lane].stream;
        let (mut priority, mut flags, mut capturing, mut current) = (0, 0, 9, null_mut());
        call!(self, cuStreamGetPriority(stream, &raw mut priority));
        call!(self, cuStreamGetFlags(stream, &raw mut flags));
        call!(self, cuStreamIsCapturing(stream, &raw mut capturing));
        call!(self, cuCtxGetCurrent(&raw mut current));
        self.record.note("flags", u64::from(flags) << 8 | u64::from(capturing));
        self.record.note("own context", u64::from(current == self.side.context));
    }

    pub(super) fn query(&mut self, lane: usize) {
        // SAFETY: the program's own stream.
        let result = unsafe { (self.driver.cuStreamQuery)(self.lanes[lane].stream) };
        self.record.early_answer("cuStreamQuery", result);
    }

    pub(super) fn query_event(&mut self, event: usize) {
        // SAFETY: the program's own event.
        let result = unsafe { (self.driver.cuEventQuery)(self.events[event]) };
        self.record.early_answer("cuEventQuery", result);
    }

    /// Asked earlier, the answer is that of the event which the driver happens to look at first.
    pub(super) fn elapsed(&mut self, from: usize, to: usize) {
        let (from, to, mut time) = (self.events[from], self.events[to], 0.0);
        call!(self, cuEventSynchronize(from));
        call!(self, cuEventSynchronize(to));
        call!(self, cuEventElapsedTime_v2(&raw mut time, from, to));
    }

    /// Waits for an event: then all about it is known.
    pub(super) fn settle(&mut self, event: usize) {
        let (event, mut time) = (self.events[event], -1.0);
        call!(self, cuEventSynchronize(event));
        call!(self, cuEventQuery(event));
        call!(self, cuEventElapsedTime_v2(&raw mut time, event, event));
        self.record.note("no time", u64::from(time == 0.0));
    }

    pub(super) fn sync(&mut self, lane: usize) {
        call!(self, cuStreamSynchronize(self.lanes[lane].stream));
        let lane = &mut self.lanes[lane];
        lane.uploads = 0;
        let callbacks = lane.log.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.record.note("callbacks", callbacks as u64);
        // SAFETY: memory of this lane, which has nothing under way.
        self.record.note("bumped", unsafe { lane.pinned.add(BUMPED).read_volatile() }.into());
        if std::mem::take(&mut lane.is_downloading) {
            let words = lane.downloaded();
            self.record.words("pinned download", &words);
        }
    }

    /// The host sees what the lane writes, without a call in between.
    pub(super) fn watch(&mut self, lane: usize, by_kernel: bool) {
        let View { stream, pinned, pinned_address, signals, .. } = self.lanes[lane].view();
        let address = pinned_address + 4 * SIGNAL as u64;
        let expected = if by_kernel {
            let seed = u64::from(signals) ^ 0x7761_7463_6800;
            let added = Parameters::of(Kernel::Bump, seed, 0, 0).bytes;
            let added = u32::from_le_bytes(added[8..12].try_into().unwrap_or_default());
            let launch = Launch { seed, ..Launch::plain(lane, Kernel::Bump) };
            self.launch_at(&launch, address);
            signals.wrapping_mul(5).wrapping_add(added)
        } else {
            let value = signals.wrapping_add(7);
            call!(self, cuStreamWriteValue32_v2(stream, address, value, 0));
            value
        };
        self.lanes[lane].signals = expected;
        let since = Instant::now();
        // SAFETY: memory of this lane, which the GPU may write.
        while unsafe { pinned.add(SIGNAL).read_volatile() } != expected {
            if since.elapsed() > PATIENCE {
                eprintln!("the host waits in vain for memory that the GPU is to write");
                std::process::abort();
            }
            std::hint::spin_loop();
        }
        // SAFETY: what wrote it stands before the signal in the stream.
        self.record.note("bumped", unsafe { pinned.add(BUMPED).read_volatile() }.into());
        let callbacks = self.lanes[lane].log.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.record.note("callbacks", callbacks as u64);
    }

    /// The lane is held until the host has looked that nothing behind the gate was done.
    pub(super) fn gate(&mut self, lane: usize, inner: &[Act]) {
        const AT_LEAST: u32 = 0;
        self.sync(lane);
        let held = &mut self.lanes[lane];
        held.gates += 1;
        let (stream, pinned, gates) = (held.stream, held.pinned, held.gates);
        let address = held.pinned_address + 4 * GATE as u64;
        let log = held.log.clone();
        let count = || log.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        let callbacks = count();
        // SAFETY: memory of this lane.
        let bumped = || unsafe { pinned.add(BUMPED).read_volatile() };
        let before = bumped();
        let mut event = null_mut();
        call!(self, cuEventCreate(&raw mut event, 0));
        call!(self, cuStreamWaitValue32_v2(stream, address, gates, AT_LEAST));
        inner.iter().for_each(|act| self.act(act));
        call!(self, cuEventRecord(event, stream));
        call!(self, cuEventQuery(event));
        call!(self, cuStreamQuery(stream));
        let mut time = 0.0;
        call!(self, cuEventElapsedTime_v2(&raw mut time, event, event));
        self.record.note("callbacks behind the gate", count() - callbacks);
        self.record.note("work behind the gate", u64::from(bumped() != before));
        // SAFETY: memory of this lane, which the GPU reads.
        unsafe { pinned.add(GATE).write_volatile(gates) };
        call!(self, cuEventSynchronize(event));
        call!(self, cuEventQuery(event));
        call!(self, cuEventDestroy_v2(event));
        self.record.note("callbacks", count());
    }

    /// The stream ends while its work is under way; another takes its place behind that work.
    pub(super) fn recreate(&mut self, lane: usize) {
        let mut event = null_mut();
        let (kind, stream) = (self.lanes[lane].kind, self.lanes[lane].stream);
        if !kind.is_own() {
            return;
        }
        call!(self, cuEventCreate(&raw mut event, 2));
        call!(self, cuEventRecord(event, stream));
        call!(self, cuStreamDestroy_v2(stream));
        let stream = self.stream(kind);
        self.lanes[lane].stream = stream;
        call!(self, cuStreamWaitEvent(stream, event, 0));
        call!(self, cuEventDestroy_v2(event));
    }

    pub(super) fn send(&mut self, meeting: usize, lane: usize) {
        let View { stream, words, .. } = self.lanes[lane].view();
        let (place, event) = (self.side.meeting(meeting), self.meetings.events[meeting]);
        call!(self, cuMemcpyDtoDAsync_v2(place, words, 4 * WORDS, stream));
        call!(self, cuEventRecord(event, stream));
        self.meetings.sent.lock().unwrap_or_else(PoisonError::into_inner)[meeting] = true;
        self.meetings.changed.notify_all();
    }

    pub(super) fn receive(&mut self, meeting: usize, lane: usize) {
        let sent = self.meetings.sent.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.meetings.changed.wait_while(sent, |sent| !sent[meeting]));
        let View { stream, words, .. } = self.lanes[lane].view();
        let (place, event) = (self.side.meeting(meeting), self.meetings.events[meeting]);
        call!(self, cuStreamWaitEvent(stream, event, 0));
        call!(self, cuMemcpyDtoDAsync_v2(words, place, 4 * WORDS / 2, stream));
    }
}

/// A handle that the driver never gave.
pub(super) fn nowhere<T>() -> *mut T {
    without_provenance_mut(0x1230)
}
