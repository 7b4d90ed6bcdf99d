//! Streams keep their order, say truthfully whether they are done, and wait for each other as CUDA says.

mod support;

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use apex_cuda::types::*;
use support::{Gpu, ok};

const NON_BLOCKING: u32 = 1;

/// Host functions note their number here.
struct Notes(Mutex<Vec<u32>>);

struct Note<'a> {
    notes: &'a Notes,
    number: u32,
}

unsafe extern "C" fn note(data: *mut c_void) {
    // SAFETY: the test hands a note that outlives the wait for its stream.
    let note = unsafe { &*data.cast::<Note<'_>>() };
    std::thread::sleep(Duration::from_millis(3));
    note.notes.0.lock().expect("nobody panics").push(note.number);
}

#[test]
fn work_in_a_stream_is_not_done_before_it_is() {
    let gpu = Gpu::start();
    let (stream, event) = (gpu.stream(NON_BLOCKING), gpu.event());
    let mut pointer = null_mut();
    ok!((gpu.driver.cuMemHostAlloc)(&raw mut pointer, 4, 0));
    // SAFETY: as many bytes were taken.
    let word = unsafe { &*pointer.cast::<AtomicU32>() };
    ok!((gpu.driver.cuStreamWaitValue32_v2)(stream, pointer.addr() as u64, 1, 0));
    assert_eq!(gpu.launch(c"nothing", 1, stream, &[]), CUDA_SUCCESS);
    ok!((gpu.driver.cuEventRecord)(event, stream));
    // SAFETY: plain calls.
    unsafe {
        assert_eq!((gpu.driver.cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
        assert_eq!((gpu.driver.cuEventQuery)(event), CUDA_ERROR_NOT_READY);
    }
    let mut milliseconds = 0.0;
    let start = gpu.event();
    ok!((gpu.driver.cuEventRecord)(start, gpu.stream(NON_BLOCKING)));
    // SAFETY: a plain call.
    let early = unsafe { (gpu.driver.cuEventElapsedTime)(&raw mut milliseconds, start, event) };
    assert_eq!(early, CUDA_ERROR_NOT_READY);
    word.store(1, Ordering::Release);
    ok!((gpu.driver.cuEventSynchronize)(event));
    ok!((gpu.driver.cuStreamQuery)(stream));
    ok!((gpu.driver.cuEventQuery)(event));
}

#[test]
fn events_measure_what_lies_between_them() {
    let gpu = Gpu::start();
    let (stream, start, end) = (gpu.stream(NON_BLOCKING), gpu.event(), gpu.event());
    ok!((gpu.driver.cuEventRecord)(start, stream));
    assert_eq!(gpu.launch(c"spin_20000", 1, stream, &[]), CUDA_SUCCESS);
    ok!((gpu.driver.cuEventRecord)(end, stream));
    ok!((gpu.driver.cuStreamSynchronize)(stream));
    let mut milliseconds = 0.0;
    ok!((gpu.driver.cuEventElapsedTime)(&raw mut milliseconds, start, end));
    assert!((19.0..2000.0).contains(&milliseconds), "{milliseconds}");
}

#[test]
fn copies_and_kernels_follow_each_other() {
    let gpu = Gpu::start();
    let (stream, memory) = (gpu.stream(0), gpu.memory(4096));
    assert_eq!(gpu.launch(c"spin_20000", 1, stream, &[]), CUDA_SUCCESS);
    ok!((gpu.driver.cuMemsetD32Async)(memory, 1, 1024, stream));
    assert_eq!(gpu.launch(c"fill", 1, stream, &[memory, 7, 512]), CUDA_SUCCESS);
    let mut words = [0_u32; 1024];
    // To memory that is not pinned: done when the call returns.
    ok!((gpu.driver.cuMemcpyDtoHAsync_v2)(words.as_mut_ptr().cast(), memory, 4096, stream));
    assert!(words[..512].iter().all(|&word| word == 7));
    assert!(words[512..].iter().all(|&word| word == 1));
}

#[test]
fn pageable_memory_may_be_changed_after_the_call() {
    let gpu = Gpu::start();
    for count in [16_usize, 1 << 20] {
        let (stream, memory) = (gpu.stream(0), gpu.memory(4 * count));
        let mut words = vec![5_u32; count];
        assert_eq!(gpu.launch(c"spin_20000", 1, stream, &[]), CUDA_SUCCESS);
        ok!((gpu.driver.cuMemcpyHtoDAsync_v2)(memory, words.as_ptr().cast(), 4 * count, stream));
        words.fill(6);
        ok!((gpu.driver.cuStreamSynchronize)(stream));
        assert_eq!(gpu.word(memory + 4 * count as u64 - 4), 5);
    }
}

#[test]
fn the_legacy_stream_and_blocking_streams_wait_for_each_other() {
    let gpu = Gpu::start();
    let notes = Notes(Mutex::default());
    let all: Vec<Note<'_>> = (0..4).map(|number| Note { notes: &notes, number }).collect();
    let data = |number: usize| (&raw const all[number]).cast_mut().cast::<c_void>();
    let (first, second) = (gpu.stream(0), gpu.stream(0));
    assert_eq!(gpu.launch(c"spin_20000", 1, first, &[]), CUDA_SUCCESS);
    ok!((gpu.driver.cuLaunchHostFunc)(first, Some(note), data(0)));
    ok!((gpu.driver.cuLaunchHostFunc)(null_mut(), Some(note), data(1)));
    ok!((gpu.driver.cuLaunchHostFunc)(second, Some(note), data(2)));
    ok!((gpu.driver.cuLaunchHostFunc)(null_mut(), Some(note), data(3)));
    // SAFETY: a plain call.
    assert_eq!(unsafe { (gpu.driver.cuStreamQuery)(null_mut()) }, CUDA_ERROR_NOT_READY);
    ok!((gpu.driver.cuStreamSynchronize)(null_mut()));
    assert_eq!(*notes.0.lock().unwrap(), [0, 1, 2, 3]);
}

#[test]
fn a_stream_that_does_not_block_is_not_waited_for() {
    let gpu = Gpu::start();
    let (stream, memory) = (gpu.stream(NON_BLOCKING), gpu.memory(4));
    ok!((gpu.driver.cuMemsetD32_v2)(memory, 0, 1));
    ok!((gpu.driver.cuStreamWaitValue32_v2)(stream, memory, 1, 1));
    // The legacy stream goes on beside it, and ends the wait.
    ok!((gpu.driver.cuStreamWriteValue32_v2)(null_mut(), memory, 1, 0));
    ok!((gpu.driver.cuStreamSynchronize)(stream));
}

#[test]
fn a_stream_waits_for_a_word_that_the_program_writes() {
    let gpu = Gpu::start();
    let stream = gpu.stream(NON_BLOCKING);
    let mut pointer = null_mut();
    ok!((gpu.driver.cuMemHostAlloc)(&raw mut pointer, 8, 0));
    // SAFETY: as many bytes were taken.
    let word = unsafe { &*pointer.cast::<AtomicU32>() };
    ok!((gpu.driver.cuStreamWaitValue32_v2)(stream, pointer.addr() as u64, 3, 0));
    let notes = Notes(Mutex::default());
    let after = Note { notes: &notes, number: 9 };
    let data = (&raw const after).cast_mut().cast();
    ok!((gpu.driver.cuLaunchHostFunc)(stream, Some(note), data));
    std::thread::sleep(Duration::from_millis(20));
    // SAFETY: a plain call.
    assert_eq!(unsafe { (gpu.driver.cuStreamQuery)(stream) }, CUDA_ERROR_NOT_READY);
    assert!(notes.0.lock().unwrap().is_empty());
    word.store(3, Ordering::Release);
    ok!((gpu.driver.cuStreamSynchronize)(stream));
    assert_eq!(*notes.0.lock().unwrap(), [9]);
}

#[test]
fn an_event_holds_another_stream_back() {
    let gpu = Gpu::start();
    let (first, second, event) = (gpu.stream(NON_BLOCKING), gpu.stream(NON_BLOCKING), gpu.event());
    let memory = gpu.memory(4);
    assert_eq!(gpu.launch(c"spin_20000", 1, first, &[]), CUDA_SUCCESS);
    assert_eq!(gpu.launch(c"fill", 1, first, &[memory, 1, 1]), CUDA_SUCCESS);
    ok!((gpu.driver.cuEventRecord)(event, first));
    ok!((gpu.driver.cuStreamWaitEvent)(second, event, 0));
    assert_eq!(gpu.launch(c"fill", 1, second, &[memory, 2, 1]), CUDA_SUCCESS);
    // The event may go as soon as it was waited for.
    ok!((gpu.driver.cuEventDestroy_v2)(event));
    ok!((gpu.driver.cuStreamSynchronize)(second));
    assert_eq!(gpu.word(memory), 2);
}

#[test]
fn memory_freed_in_stream_order_is_there_until_then() {
    let gpu = Gpu::start();
    let stream = gpu.stream(NON_BLOCKING);
    let mut address = 0;
    ok!((gpu.driver.cuMemAllocAsync)(&raw mut address, 4096, stream));
    assert_eq!(gpu.launch(c"spin_20000", 1, stream, &[]), CUDA_SUCCESS);
    assert_eq!(gpu.launch(c"fill", 1, stream, &[address, 1, 1024]), CUDA_SUCCESS);
    ok!((gpu.driver.cuMemFreeAsync)(address, stream));
    ok!((gpu.driver.cuStreamSynchronize)(stream));
    // SAFETY: a plain call.
    let again = unsafe { (gpu.driver.cuMemFreeAsync)(address, stream) };
    assert_eq!(again, CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn a_destroyed_stream_still_does_its_work() {
    let gpu = Gpu::start();
    let (stream, memory) = (gpu.stream(0), gpu.memory(4));
    assert_eq!(gpu.launch(c"spin_20000", 1, stream, &[]), CUDA_SUCCESS);
    assert_eq!(gpu.launch(c"fill", 1, stream, &[memory, 8, 1]), CUDA_SUCCESS);
    ok!((gpu.driver.cuStreamDestroy_v2)(stream));
    assert_eq!(gpu.synchronize(), CUDA_SUCCESS);
    assert_eq!(gpu.word(memory), 8);
}

#[test]
fn many_threads_launch_at_once() {
    let gpu = Gpu::start();
    let (context, memory) = (gpu.context.addr(), gpu.memory(4 * 16));
    let shared = &Shared(&gpu);
    std::thread::scope(|scope| {
        for nth in 0..8_u64 {
            scope.spawn(move || {
                let gpu = shared.0;
                ok!((gpu.driver.cuCtxSetCurrent)(core::ptr::with_exposed_provenance_mut(context)));
                let stream = gpu.stream(nth as u32 % 2);
                for round in 0..200 {
                    let arguments = [memory + 4 * nth, round, 1];
                    assert_eq!(gpu.launch(c"fill", 1, stream, &arguments), CUDA_SUCCESS);
                }
                ok!((gpu.driver.cuStreamSynchronize)(stream));
            });
        }
    });
    for nth in 0..8 {
        assert_eq!(gpu.word(memory + 4 * nth), 199);
    }
}

/// Lets threads share what the test owns; the driver may be called from all of them.
struct Shared<'a>(&'a Gpu);
// SAFETY: the driver's functions may be called from any thread.
unsafe impl Sync for Shared<'_> {}

/// The threads that run kernels, by the name that the driver gives them.
fn workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let names = tasks.filter_map(|task| name(task.ok()?));
    names.filter(|name| name.starts_with("apex-gpu-")).count()
}

#[test]
fn kernels_that_are_merely_long_get_one_worker_more() {
    const WORDS: usize = 1 << 24;
    let gpu = Gpu::start();
    let memory = gpu.memory(4 * WORDS);
    let streams: Vec<CUstream> = (0..12).map(|_| gpu.stream(NON_BLOCKING)).collect();
    for &stream in &streams {
        let arguments = [memory, 7, WORDS as u64];
        assert_eq!(gpu.launch(c"fill", 1, stream, &arguments), CUDA_SUCCESS);
    }
    // The workers have begun: this thread waits, and more is ready than they take.
    std::thread::sleep(Duration::from_millis(3));
    ok!((gpu.driver.cuStreamSynchronize)(streams[0]));
    ok!((gpu.driver.cuStreamSynchronize)(streams[1]));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(workers() <= processors + 1, "{} workers", workers());
    assert_eq!(gpu.synchronize(), CUDA_SUCCESS);
}
