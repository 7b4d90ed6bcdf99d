//! Runs PTX text on the engine: one kernel, buffers in, buffers out.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use apex_engine::{Device, Fault, Grid, Identity, Kernel, Launch, Module, Services};
use std::sync::{Arc, Mutex};

/// What kernels printed, asserted and allocated.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) printed: Mutex<Vec<u8>>,
    pub(crate) asserted: Mutex<Vec<String>>,
    pub(crate) allocations: Mutex<Vec<(u64, u64)>>,
}

struct Forward(Arc<Recorder>);

impl Services for Forward {
    fn print(&self, text: &[u8]) {
        self.0.printed.lock().unwrap().extend_from_slice(text);
    }
    fn assert_failed(&self, message: &str) {
        self.0.asserted.lock().unwrap().push(message.to_owned());
    }
    fn heap_alloc(&self, bytes: u64) -> u64 {
        let block = vec![0u64; bytes.div_ceil(8) as usize].leak();
        block.as_mut_ptr() as u64
    }
    fn heap_free(&self, _: u64) {}
    fn find(&self, address: u64) -> Option<(u64, u64)> {
        let all = self.0.allocations.lock().unwrap();
        all.iter().copied().find(|&(base, bytes)| address >= base && address < base + bytes)
    }
}

/// A kernel's launch under construction.
pub(crate) struct Run {
    text: String,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: [u32; 3],
    shared: u32,
    workers: usize,
    cooperative: bool,
    checked: bool,
    compiled: bool,
    params: Vec<u8>,
    pub(crate) recorder: Arc<Recorder>,
}

/// The text with what every module begins with, unless it has it.
fn module(text: &str) -> String {
    if text.contains(".version") {
        text.to_owned()
    } else {
        format!(".version 8.7\n.target sm_90\n.address_size 64\n{text}")
    }
}

impl Run {
    pub(crate) fn new(text: &str) -> Run {
        Run {
            text: module(text),
            grid: [1; 3],
            block: [32, 1, 1],
            cluster: [1; 3],
            shared: 0,
            workers: 2,
            cooperative: false,
            checked: false,
            compiled: false,
            params: Vec::new(),
            recorder: Arc::default(),
        }
    }

    pub(crate) fn grid(mut self, x: u32) -> Self {
        self.grid[0] = x;
        self
    }

    pub(crate) fn plane(mut self, [x, y]: [u32; 2]) -> Self {
        self.grid = [x, y, 1];
        self
    }

    pub(crate) fn block(mut self, x: u32) -> Self {
        self.block[0] = x;
        self
    }

    pub(crate) fn cluster(mut self, x: u32) -> Self {
        self.cluster[0] = x;
        self
    }

    pub(crate) fn shared(mut self, bytes: u32) -> Self {
        self.shared = bytes;
        self
    }

    pub(crate) fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    pub(crate) fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    pub(crate) fn checked(mut self) -> Self {
        self.checked = true;
        self
    }

    /// In compiled code, wherever there is a compiler.
    pub(crate) fn compiled(mut self, compiled: bool) -> Self {
        self.compiled = compiled;
        self
    }

    pub(crate) fn buffer<T>(mut self, data: &[T]) -> Self {
        let address = data.as_ptr() as u64;
        let bytes = size_of_val(data) as u64;
        self.recorder.allocations.lock().unwrap().push((address, bytes));
        self.params.resize(self.params.len().next_multiple_of(8), 0);
        self.params.extend(address.to_le_bytes());
        self
    }

    pub(crate) fn value(mut self, value: u32) -> Self {
        self.params.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn value64(mut self, value: u64) -> Self {
        self.params.resize(self.params.len().next_multiple_of(8), 0);
        self.params.extend(value.to_le_bytes());
        self
    }

    /// Runs the only kernel, or the first.
    pub(crate) fn launch(&self) -> Result<u64, Fault> {
        let mut place = |variable: apex_engine::Variable<'_>| {
            let words = vec![0u128; (variable.bytes as usize).div_ceil(16) + 1].leak();
            let address = words.as_mut_ptr() as u64;
            self.recorder.allocations.lock().unwrap().push((address, variable.bytes));
            Some(address)
        };
        let module = Module::load(&[&self.text], &mut place).expect("the text loads");
        let kernel: Arc<Kernel> = Arc::clone(module.kernels().next().expect("a kernel"));
        let mut params = self.params.clone();
        params.resize(kernel.param_bytes as usize, 0);
        let launch = Launch {
            kernel,
            grid: self.grid,
            block: self.block,
            dynamic_shared: self.shared,
            params,
            cooperative: self.cooperative,
            cluster: self.cluster,
        };
        let device = Arc::new(Device {
            identity: Identity::default(),
            checked: self.checked,
            jit: false,
            window: None,
            services: Box::new(Forward(Arc::clone(&self.recorder))),
        });
        let fast = self
            .compiled
            .then(|| apex_engine::compile(&launch.kernel.code, launch.block, None, false))
            .flatten();
        let expected = self.compiled && cfg!(all(target_arch = "x86_64", target_os = "linux"));
        assert!(fast.is_some() || !expected, "it is compiled");
        let grid = Grid::with_fast_tier(launch, device, fast)?;
        let last: usize = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..self.workers).map(|_| scope.spawn(|| usize::from(grid.work()))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(last, 1, "exactly one worker finishes the launch");
        match grid.fault() {
            Some(fault) => Err(fault),
            None => Ok(grid.instructions()),
        }
    }
}

/// Runs one warp over `out[32]` and compares: the body leaves its result in `%r0`; `%r1` is the
/// lane, `%rd1` the address of the lane's word of `input`.
pub(crate) fn check(body: &str, input: [u32; 32], expected: [u32; 32]) {
    let text = format!(
        ".visible .entry k(.param .u64 input, .param .u64 output) {{
        .reg .pred %p<10>; .reg .b16 %h<20>; .reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .f32 %f<20>; .reg .f64 %fd<20>;
        .shared .align 16 .b8 space[4096];
        mov.u32 %r1, %tid.x;
        ld.param.u64 %rd2, [input];
        ld.param.u64 %rd3, [output];
        mul.wide.u32 %rd4, %r1, 4;
        add.u64 %rd1, %rd2, %rd4;
        add.u64 %rd5, %rd3, %rd4;
        {body}
        st.global.u32 [%rd5], %r0;
        ret;
        }}"
    );
    let output = [0u32; 32];
    let run = Run::new(&text).buffer(&input).buffer(&output);
    run.launch().unwrap_or_else(|fault| panic!("{body}: {fault}"));
    // SAFETY: the kernel wrote through the address; the compiler must not assume zeros.
    let output = unsafe { (&raw const output).read_volatile() };
    assert_eq!(output, expected, "{body}");
}

/// The same input and expected value for all lanes.
pub(crate) fn check_all(body: &str, input: u32, expected: u32) {
    check(body, [input; 32], [expected; 32]);
}
