//! Random calls of the driver: random functions, arguments and order, from several threads.
//!
//! What a program may get wrong is got wrong: handles that are null, small numbers, of another kind or
//! destroyed; addresses and sizes that are anything; calls before what they need. What C itself forbids
//! is not: pointers lead to memory that is there, and a handle is used by one thread alone; it is forgotten
//! long before its slot can become another thread's. A run is
//! repeated by its seed, up to the order in which threads meet. A thread that makes no call for a long
//! time is a hang.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use std::ffi::CString;
use std::time::{Duration, Instant};

use apex_cuda::Driver;
use apex_cuda::types::*;

/// Numbers that look random and are the same for the same seed (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A size: mostly small, sometimes absurd.
    fn size(&mut self) -> usize {
        match self.below(12) {
            0 => 0,
            1 => usize::MAX - self.below(64),
            2 => self.next() as usize,
            3 => 1 << self.below(40),
            _ => self.below(HOST_BYTES),
        }
    }

    fn number(&mut self) -> u32 {
        match self.below(8) {
            0 => 0,
            1 => u32::MAX,
            2 => self.next() as u32,
            _ => self.below(40) as u32,
        }
    }
}

const _: () = assert!(size_of::<CUDA_MEMCPY2D>() == size_of::<[usize; 16]>());

const HOST_BYTES: usize = 64 << 10;
const OBJECTS_AT_MOST: usize = 64;

/// The handles and addresses that one thread has met, dead ones included.
struct Thread<'a> {
    driver: &'a Driver,
    random: Random,
    handles: Vec<*mut c_void>,
    addresses: Vec<u64>,
    functions: Vec<CUfunction>,
    host: Vec<u8>,
    contexts: Vec<CUcontext>,
}

/// What one call is given: values that may be right or wrong.
struct Values {
    stream: CUstream,
    size: usize,
    number: u32,
    /// A size within the thread's host memory.
    within: usize,
    first: u64,
    second: u64,
    host: *mut c_void,
}

impl Thread<'_> {
    /// A handle that may be of any kind and dead, or no handle.
    fn handle<H>(&mut self) -> *mut H {
        match self.random.below(10) {
            0 => null_mut(),
            1 => core::ptr::without_provenance_mut(self.random.below(1 << 16)),
            _ if self.handles.is_empty() => null_mut(),
            _ => self.handles[self.random.below(self.handles.len())].cast(),
        }
    }

    fn address(&mut self) -> u64 {
        let offset = if self.random.one_in(3) { self.random.size() as u64 } else { 0 };
        match self.random.below(12) {
            0 => self.random.next(),
            1 => self.random.below(1 << 20) as u64,
            _ if self.addresses.is_empty() => 0,
            _ => self.addresses[self.random.below(self.addresses.len())].wrapping_add(offset),
        }
    }

    fn keep<H>(&mut self, handle: *mut H) {
        if !handle.is_null() {
            if self.handles.len() >= OBJECTS_AT_MOST {
                let at = self.random.below(OBJECTS_AT_MOST);
                self.handles.swap_remove(at);
            }
            self.handles.push(handle.cast());
        }
    }

    fn keep_address(&mut self, address: u64, result: CUresult) {
        if result == CUDA_SUCCESS {
            if self.addresses.len() >= OBJECTS_AT_MOST {
                let at = self.random.below(OBJECTS_AT_MOST);
                let old = self.addresses.swap_remove(at);
                // SAFETY: an address of this thread's own.
                unsafe { (self.driver.cuMemFree_v2)(old) };
            }
            self.addresses.push(address);
        }
    }

    /// A context of its own, made when there is none or the last one failed.
    fn begin(&mut self) {
        let mut context = null_mut();
        let text = CString::new(super::KERNELS).unwrap_or_default();
        // SAFETY: plain calls; the text is a whole image.
        unsafe {
            if let Some(old) = self.contexts.pop() {
                (self.driver.cuCtxDestroy_v2)(old);
            }
            (self.driver.cuInit)(0);
            if (self.driver.cuCtxCreate_v2)(&raw mut context, 0, 0) != CUDA_SUCCESS {
                return;
            }
            self.contexts.push(context);
            self.addresses.clear();
            self.functions.clear();
            let mut module = null_mut();
            if (self.driver.cuModuleLoadData)(&raw mut module, text.as_ptr().cast()) != CUDA_SUCCESS
            {
                return;
            }
            for name in [c"nothing", c"fill", c"fault"] {
                let mut function = null_mut();
                (self.driver.cuModuleGetFunction)(&raw mut function, module, name.as_ptr());
                self.functions.push(function);
            }
        }
    }

    fn launch(&mut self) {
        let which = if self.random.one_in(200) { 2 } else { self.random.below(2) };
        let function = match self.functions.get(which) {
            Some(&function) if !self.random.one_in(20) => function,
            _ => self.handle(),
        };
        let own = self.own_memory();
        // Where `fill` writes must be memory: a kernel's faults are another test's matter.
        let mut arguments = [own, self.random.next(), if own == 0 { 0 } else { 4 }];
        let mut pointers: Vec<*mut c_void> =
            arguments.iter_mut().map(|argument| (&raw mut *argument).cast()).collect();
        let params = if self.random.one_in(30) { null_mut() } else { pointers.as_mut_ptr() };
        let sides: [u32; 6] = core::array::from_fn(|_| match self.random.below(20) {
            0 => self.random.number(),
            _ => 1 + self.random.below(3) as u32,
        });
        // A grid of billions of blocks is right and would not end.
        let fits = sides[..3].iter().map(|&side| f64::from(side)).product::<f64>() < 10_000.0;
        let sides = if fits { sides } else { [0; 6] };
        let (shared, stream) = (self.random.number(), self.handle());
        let [grid_x, grid_y, grid_z, x, y, z] = sides;
        // SAFETY: the arguments are those of any kernel there is.
        unsafe {
            (self.driver.cuLaunchKernel)(
                function,
                grid_x,
                grid_y,
                grid_z,
                x,
                y,
                z,
                shared,
                stream,
                params,
                null_mut(),
            );
        }
    }

    /// Memory that is really there and longer than a kernel writes; 0 if none is.
    fn own_memory(&mut self) -> u64 {
        let mut bytes = 0;
        let Some(&address) = self.addresses.last() else { return 0 };
        // SAFETY: places for the answers.
        let result =
            unsafe { (self.driver.cuMemGetAddressRange_v2)(null_mut(), &raw mut bytes, address) };
        if result == CUDA_SUCCESS && bytes >= 64 { address } else { 0 }
    }

    fn call(&mut self) {
        let which = self.random.below(46);
        let stream = self.handle();
        let (size, number) = (self.random.size(), self.random.number());
        let within = size.min(HOST_BYTES);
        let (first, second) = (self.address(), self.address());
        let host = self.host.as_mut_ptr().cast();
        let with = Values { stream, size, number, within, first, second, host };
        let was_called = self.call_for_memory(which, &with)
            || self.call_for_streams(which, &with)
            || self.call_for_graphs(which, &with)
            || self.call_for_others(which, &with);
        if !was_called {
            self.launch();
        }
    }

    /// Calls that take, move and fill memory; whether `which` is one of them.
    #[expect(clippy::too_many_lines, reason = "a table of calls")]
    fn call_for_memory(&mut self, which: usize, with: &Values) -> bool {
        let driver = self.driver;
        let &Values { stream, size, number, within, first, second, host, .. } = with;
        let mut address = 0_u64;
        // SAFETY: pointers lead to memory of this thread that is long enough, or are null.
        unsafe {
            match which {
                0..=3 => {
                    let result = (driver.cuMemAlloc_v2)(&raw mut address, size);
                    self.keep_address(address, result);
                }
                4 => {
                    (driver.cuMemFree_v2)(first);
                }
                5 => {
                    let result = (driver.cuMemAllocManaged)(&raw mut address, within, number % 4);
                    self.keep_address(address, result);
                }
                6 => {
                    let result = (driver.cuMemAllocAsync)(&raw mut address, within, stream);
                    self.keep_address(address, result);
                }
                7 => {
                    (driver.cuMemFreeAsync)(first, stream);
                }
                8 => {
                    (driver.cuMemcpyHtoD_v2)(first, host, within);
                }
                9 => {
                    (driver.cuMemcpyDtoH_v2)(host, first, within);
                }
                10 => {
                    (driver.cuMemcpyDtoD_v2)(first, second, size);
                }
                11 => {
                    (driver.cuMemcpyHtoDAsync_v2)(first, host, within, stream);
                }
                12 => {
                    (driver.cuMemcpyDtoHAsync_v2)(host, first, within, stream);
                }
                13 => {
                    (driver.cuMemcpyDtoDAsync_v2)(first, second, size, stream);
                }
                14 => {
                    (driver.cuMemsetD8_v2)(first, number as u8, size);
                }
                15 => {
                    (driver.cuMemsetD32Async)(first, number, size, stream);
                }
                16 => {
                    let (pitch, height) = (self.random.size(), self.random.size());
                    (driver.cuMemsetD2D16Async)(first, pitch, 7, size, height, stream);
                }
                34 => {
                    (driver.cuPointerGetAttribute)(host, number % 24, first);
                }
                36 => {
                    let result =
                        (driver.cuMemAddressReserve)(&raw mut address, size, within, first, 0);
                    if result == CUDA_SUCCESS {
                        (driver.cuMemAddressFree)(address, size);
                    }
                }
                37 => {
                    let (pitch, mut wide) = (self.random.size(), 0);
                    let result = (driver.cuMemAllocPitch_v2)(
                        &raw mut address,
                        &raw mut wide,
                        pitch,
                        within,
                        number,
                    );
                    self.keep_address(address, result);
                }
                38 => {
                    // X, Y, kind, host, device, array and pitch of each side, then the size.
                    let mut copy = [0_usize; 16];
                    (copy[2], copy[9]) = (2, 2);
                    (copy[4], copy[11]) = (first as usize, second as usize);
                    (copy[6], copy[13]) = (self.random.size(), self.random.size());
                    (copy[14], copy[15]) = (size, self.random.size());
                    (copy[0], copy[8]) = (self.random.below(9), self.random.size());
                    (driver.cuMemcpy2DAsync_v2)(copy.as_ptr().cast(), stream);
                }
                41 => {
                    (driver.cuMemHostRegister_v2)(host, within, number % 8);
                    (driver.cuMemHostUnregister)(host);
                }
                _ => return false,
            }
        }
        true
    }

    /// The same for streams and events.
    fn call_for_streams(&mut self, which: usize, with: &Values) -> bool {
        let driver = self.driver;
        let &Values { stream, number, first, .. } = with;
        let mut handle = null_mut::<c_void>();
        // SAFETY: pointers lead to memory of this thread that is long enough, or are null.
        unsafe {
            match which {
                17 => {
                    (driver.cuStreamCreateWithPriority)(
                        (&raw mut handle).cast(),
                        number % 3,
                        number as i32,
                    );
                    self.keep(handle);
                }
                18 => {
                    (driver.cuStreamDestroy_v2)(stream);
                }
                19 => {
                    (driver.cuStreamSynchronize)(stream);
                }
                20 => {
                    (driver.cuStreamQuery)(stream);
                }
                21 => {
                    (driver.cuEventCreate)((&raw mut handle).cast(), number % 9);
                    self.keep(handle);
                }
                22 => {
                    let event = self.handle();
                    (driver.cuEventRecord)(event, stream);
                }
                23 => {
                    let event = self.handle();
                    (driver.cuStreamWaitEvent)(stream, event, number % 3);
                }
                24 => {
                    let event = self.handle();
                    (driver.cuEventSynchronize)(event);
                }
                25 => {
                    let (start, end, mut time) = (self.handle(), self.handle(), 0.0);
                    (driver.cuEventElapsedTime)(&raw mut time, start, end);
                }
                26 => {
                    let event = self.handle();
                    (driver.cuEventDestroy_v2)(event);
                }
                42 => {
                    (driver.cuStreamWriteValue32_v2)(stream, first, number, 0);
                }
                _ => return false,
            }
        }
        true
    }

    /// The same for captures and graphs.
    fn call_for_graphs(&mut self, which: usize, with: &Values) -> bool {
        let driver = self.driver;
        let &Values { stream, number, .. } = with;
        // SAFETY: pointers lead to memory of this thread that is long enough, or are null.
        unsafe {
            match which {
                27 => {
                    (driver.cuStreamBeginCapture_v2)(stream, number % 4);
                }
                28 => {
                    let mut graph = null_mut();
                    (driver.cuStreamEndCapture)(stream, &raw mut graph);
                    self.keep(graph);
                }
                29 => {
                    let graph = self.handle();
                    let mut exec = null_mut();
                    if (driver.cuGraphInstantiateWithFlags)(&raw mut exec, graph, 0) == CUDA_SUCCESS
                    {
                        self.keep(exec);
                    }
                }
                30 => {
                    let exec = self.handle();
                    (driver.cuGraphLaunch)(exec, stream);
                }
                31 => {
                    let exec = self.handle();
                    (driver.cuGraphExecDestroy)(exec);
                }
                32 => {
                    let graph = self.handle();
                    (driver.cuGraphDestroy)(graph);
                }
                _ => return false,
            }
        }
        true
    }

    /// The same for devices, modules, functions and contexts.
    fn call_for_others(&mut self, which: usize, with: &Values) -> bool {
        let driver = self.driver;
        let &Values { size, number, host, .. } = with;
        let mut count = 0_usize;
        // SAFETY: pointers lead to memory of this thread that is long enough, or are null.
        unsafe {
            match which {
                33 => {
                    let mut value = 0;
                    (driver.cuDeviceGetAttribute)(&raw mut value, number, number as i32 % 3);
                }
                35 => {
                    let mut module = null_mut();
                    let image = [b".vers" as &[u8], b"\x7fELF", b"\x50\xed\x55\xba", b"garbage"];
                    self.host[..16].fill(0);
                    let image = image[self.random.below(4)];
                    self.host[..image.len()].copy_from_slice(image);
                    (driver.cuModuleLoadData)(&raw mut module, host);
                }
                39 => {
                    let function = self.handle();
                    (driver.cuFuncSetAttribute)(function, number, size as i32);
                    (driver.cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                        (&raw mut count).cast(),
                        function,
                        number as i32,
                        size,
                    );
                }
                40 => {
                    (driver.cuCtxSetLimit)(number % 10, size);
                }
                _ => return false,
            }
        }
        true
    }

    fn has_failed(&self) -> bool {
        let mut device = 0;
        // SAFETY: a place for the answer.
        unsafe { (self.driver.cuCtxGetDevice)(&raw mut device) != CUDA_SUCCESS }
    }
}

/// Makes random calls for so long; how many were made. A panic, even one that the driver catches, or a
/// thread that hangs ends the process.
pub(crate) fn run(length: Duration, seed: u64, threads: usize) -> u64 {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        eprintln!("a panic with seed {seed}");
        std::process::abort();
    }));
    // SAFETY: no other thread runs yet that reads the environment. Without a limit, filling memory would
    // take all that the machine has.
    unsafe { std::env::set_var("APEX_SOFTGPU_MEMORY", "134217728") };
    let driver = &Shared(apex_softgpu::driver());
    let calls: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let end = Instant::now() + length;
    std::thread::scope(|scope| {
        for (nth, calls) in calls.iter().enumerate() {
            scope.spawn(move || {
                let mut thread = Thread {
                    driver: &driver.0,
                    random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (nth as u64 + 1)),
                    handles: Vec::new(),
                    addresses: Vec::new(),
                    functions: Vec::new(),
                    host: vec![0; HOST_BYTES],
                    contexts: Vec::new(),
                };
                thread.begin();
                while Instant::now() < end {
                    thread.call();
                    let count = calls.fetch_add(1, Ordering::Relaxed);
                    if count % 1000 == 999 {
                        thread.handles.clear();
                    }
                    if count % 64 == 0 && thread.has_failed() || thread.random.one_in(20_000) {
                        thread.begin();
                    }
                }
                calls.store(u64::MAX / 2 + calls.load(Ordering::Relaxed), Ordering::Relaxed);
            });
        }
        watch(&calls);
    });
    calls.iter().map(|count| count.load(Ordering::Relaxed) - u64::MAX / 2).sum()
}

/// Ends the process when a thread makes no call for a long time.
fn watch(calls: &[AtomicU64]) {
    const PATIENCE: Duration = Duration::from_secs(240);
    let read = || calls.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let (mut last, mut since) = (read(), Instant::now());
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = read();
        if now.iter().all(|&count| count >= u64::MAX / 2) {
            return;
        }
        let moved = |nth: usize| now[nth] != last[nth] || now[nth] >= u64::MAX / 2;
        if (0..now.len()).all(moved) {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > PATIENCE {
            eprintln!("a thread hangs: calls by thread {now:?}");
            std::process::abort();
        }
    }
}

/// The driver's functions may be called from any thread.
struct Shared(Driver);
// SAFETY: as said above.
unsafe impl Sync for Shared {}
