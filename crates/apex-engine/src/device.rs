//! The device as kernels see it, and what they may call back for.

use crate::dump::Dump;
use crate::window::Window;

/// What special registers and limits tell of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Multiprocessors: `%nsmid`.
    pub multiprocessors: u32,
    /// Compute capability times ten: 90.
    pub capability: u32,
    /// Clock of `%clock`, in kHz.
    pub clock_khz: u32,
    /// Shared memory a block may have.
    pub shared_per_block: u32,
    /// Threads a multiprocessor holds: bounds the blocks that are alive together.
    pub threads_per_multiprocessor: u32,
    /// Blocks a multiprocessor holds.
    pub blocks_per_multiprocessor: u32,
}

impl Default for Identity {
    fn default() -> Self {
        Identity {
            multiprocessors: 132,
            capability: 90,
            clock_khz: 1_980_000,
            shared_per_block: 227 << 10,
            threads_per_multiprocessor: 2048,
            blocks_per_multiprocessor: 32,
        }
    }
}

/// What the engine needs to know and to call while kernels run.
pub struct Device {
    /// Facts kernels can read.
    pub identity: Identity,
    /// Every access is checked, and reported like compute-sanitizer does.
    pub checked: bool,
    /// The fast tier may be used.
    pub jit: bool,
    /// Where its memory lies. What else kernels touch is asked of [`Services::reaches`]; without a window they may
    /// touch everything the process can.
    pub window: Option<Window>,
    /// What the driver does for kernels.
    pub services: Box<dyn Services>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("identity", &self.identity)
            .field("checked", &self.checked)
            .field("jit", &self.jit)
            .finish_non_exhaustive()
    }
}

/// What the driver does for kernels. Called from any worker.
pub trait Services: Send + Sync {
    /// Output of `vprintf`, formatted; flushed by the driver when the program synchronises.
    fn print(&self, text: &[u8]);

    /// A failed assertion: "file:line: function: block: [..], thread: [..] Assertion `..` failed."
    fn assert_failed(&self, message: &str);

    /// Device `malloc`; 0 when the heap is full.
    fn heap_alloc(&self, bytes: u64) -> u64;

    /// Device `free`.
    fn heap_free(&self, address: u64);

    /// The allocation an address falls in: base and bytes.
    fn find(&self, address: u64) -> Option<(u64, u64)>;

    /// Whether kernels may touch bytes outside of [`Device::window`].
    fn reaches(&self, address: u64, bytes: u64) -> bool {
        self.find(address).is_some_and(|(base, length)| {
            address.checked_add(bytes).is_some_and(|end| end - base <= length)
        })
    }

    /// Whether a launch must do the same in every run, because its steps are counted: then none comes to compiled code
    /// while it runs.
    fn counts_steps(&self) -> bool {
        false
    }

    /// Where to write what compiled kernels are after each pass.
    fn dump(&self) -> Option<&Dump> {
        None
    }
}
