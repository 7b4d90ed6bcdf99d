//! The calls that may wait: each went well before, and nothing that it names has ended since.
//!
//! A launch is told by kernel, block, shared memory, stream and attributes; its grid and its parameters may be any, for a
//! grid that no GPU takes is never queued. With attributes the grid counts too: a cooperative one may be too large, and
//! one of clusters must be whole. Other calls are told by their function and by the handles, addresses and sizes that they
//! name. Behind both stand a few plain tables which the writer of the ring owns.

use apex_cuda::Driver;
use apex_cuda::types::*;
use std::collections::HashMap;
use std::rc::Rc;

/// Bytes of parameters that may wait: with its head an entry of the ring has 4,096.
const MOST_BYTES: usize = 4_064;

/// A kernel's parameters, as the driver lays them out.
pub(super) struct Kernel {
    /// The function that nodes of graphs are made of.
    pub(super) node: CUfunction,
    /// Offset and size of each parameter.
    pub(super) parameters: Vec<(u32, u32)>,
    /// All parameters with the gaps between them.
    pub(super) bytes: usize,
    /// The blocks of a cluster, if the kernel was compiled for clusters: a grid must be whole clusters.
    pub(super) cluster: Option<[u32; 3]>,
    /// There are gaps. They are filled with zeros, so that equal parameters are equal bytes.
    pub(super) has_gaps: bool,
}

/// A launch that may wait.
pub(super) struct Launch {
    pub(super) kernel: Rc<Kernel>,
    /// As the program names it.
    pub(super) function: CUfunction,
    pub(super) stream: CUstream,
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    pub(super) attributes: Vec<CUlaunchAttribute>,
    /// Tells this launch from others; 0 if it may not be part of a graph.
    pub(super) word: u64,
}

/// What a launch is told by.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) function: CUfunction,
    pub(super) stream: CUstream,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    /// Copies, with zeros where the driver does not look.
    pub(super) attributes: &'a [CUlaunchAttribute],
}

/// Launches and calls known at most; beyond that all are forgotten.
const MOST: usize = 1 << 14;
const SLOTS: usize = 4 * MOST;

/// All that is known. It grows with the first launch.
#[derive(Default)]
pub(super) struct Known {
    /// Key and launch, found from the key's own place on.
    slots: Vec<(u64, *const Launch)>,
    // Boxed: entries of the ring point to them.
    #[expect(clippy::vec_box, reason = "waiting launches point to them")]
    launches: Vec<Box<Launch>>,
    kernels: HashMap<u64, Option<Rc<Kernel>>>,
    calls: HashMap<u64, ()>,
}

// SAFETY: pointers and counts point to what stands here, and all of it is reached under one lock.
unsafe impl Send for Known {}

impl Asked<'_> {
    /// The number that tells this launch from others; never 0.
    #[inline(always)]
    pub(super) fn key(&self) -> u64 {
        let [x, y, z] = self.block.map(u64::from);
        let shared = u64::from(self.shared);
        let words = [self.function as u64, self.stream as u64, x | y << 32, z | shared << 32];
        let plain = mixed(&words);
        if self.attributes.is_empty() {
            return plain;
        }
        let [x, y, z] = self.grid.map(u64::from);
        mixed(&[plain, of_attributes(self.attributes), x, y, z])
    }

    /// Whether every GPU takes such a grid for this kernel.
    #[inline(always)]
    pub(super) fn fits(&self, kernel: &Kernel) -> bool {
        let [x, y, z] = self.grid;
        let is_usual = (1..=i32::MAX as u32).contains(&x)
            && (1..=65_535).contains(&y)
            && (1..=65_535).contains(&z);
        let is_whole = |cluster: [u32; 3]| {
            self.grid.iter().zip(cluster).all(|(&blocks, of)| blocks.is_multiple_of(of))
        };
        is_usual && kernel.cluster.is_none_or(is_whole)
    }
}

impl Known {
    /// The launch of this key.
    #[inline(always)]
    pub(super) fn launch(&self, key: u64) -> Option<*const Launch> {
        let mut at = key as usize % SLOTS;
        loop {
            let &(found, launch) = self.slots.get(at)?;
            if found == key {
                return Some(launch);
            }
            if found == 0 {
                return None;
            }
            at = (at + 1) % SLOTS;
        }
    }

    /// A launch went well. Nothing is kept of it where its kernel's parameters cannot be learned.
    pub(super) fn learn(&mut self, asked: &Asked, driver: &Driver) {
        if self.launches.len() >= MOST || self.launch(asked.key()).is_some() {
            return;
        }
        let handle = asked.function as u64;
        let kernel = self
            .kernels
            .entry(handle)
            .or_insert_with(|| Kernel::ask(asked.function, driver).map(Rc::new));
        let Some(kernel) = kernel.clone() else { return };
        let is_plain = asked.attributes.is_empty() && is_usual(asked.stream, driver);
        let key = asked.key();
        let launch = Box::new(Launch {
            kernel,
            function: asked.function,
            stream: asked.stream,
            block: asked.block,
            shared: asked.shared,
            attributes: asked.attributes.to_vec(),
            word: if is_plain { key } else { 0 },
        });
        if self.slots.is_empty() {
            self.slots = vec![(0, core::ptr::null()); SLOTS];
        }
        let mut at = key as usize % SLOTS;
        while self.slots[at].0 != 0 {
            at = (at + 1) % SLOTS;
        }
        self.slots[at] = (key, &raw const *launch);
        self.launches.push(launch);
    }

    /// Whether a call went well before.
    pub(super) fn has_call(&self, key: u64) -> bool {
        self.calls.contains_key(&key)
    }

    /// A call went well.
    pub(super) fn learn_call(&mut self, key: u64) {
        if self.calls.len() < MOST {
            self.calls.insert(key, ());
        }
    }

    /// Whether there is no room for another launch.
    pub(super) fn is_full(&self) -> bool {
        self.launches.len() >= MOST
    }

    /// Memory, events or graphs that calls name may have ended.
    pub(super) fn forget_calls(&mut self) {
        if !self.calls.is_empty() {
            self.calls.clear();
        }
    }

    /// Anything may have ended. Nothing may wait while this is done.
    pub(super) fn forget(&mut self) {
        *self = Known::default();
    }
}

impl Kernel {
    /// Asks the driver for a kernel's parameters. The handle may be a function's or, as the driver allows, a kernel's.
    fn ask(function: CUfunction, driver: &Driver) -> Option<Kernel> {
        let ask = |ask: &dyn Fn(usize, *mut usize, *mut usize) -> CUresult| {
            let mut parameters = Vec::new();
            loop {
                let (mut offset, mut size) = (0, 0);
                match ask(parameters.len(), &raw mut offset, &raw mut size) {
                    CUDA_SUCCESS => parameters.push((offset as u32, size as u32)),
                    CUDA_ERROR_INVALID_VALUE => return Some(parameters),
                    _ => return None,
                }
            }
        };
        let kernel = function.cast();
        // SAFETY: a handle that the driver has just launched, and valid places for the answers; of a handle of the other
        // kind it says that it is not one.
        let (parameters, node) = unsafe {
            let of_function =
                ask(&|nth, offset, size| (driver.cuFuncGetParamInfo)(function, nth, offset, size));
            match of_function {
                Some(parameters) => (parameters, function),
                None => {
                    let mut node = core::ptr::null_mut();
                    let found = (driver.cuKernelGetFunction)(&raw mut node, kernel) == CUDA_SUCCESS;
                    let of_kernel = ask(&|nth, offset, size| {
                        (driver.cuKernelGetParamInfo)(kernel, nth, offset, size)
                    });
                    (of_kernel.filter(|_| found)?, node)
                }
            }
        };
        let bytes =
            parameters.iter().map(|&(offset, size)| (offset + size) as usize).max().unwrap_or(0);
        let cluster = required_cluster(node, driver);
        let has_gaps = parameters.iter().map(|&(_, size)| size as usize).sum::<usize>() < bytes;
        (bytes <= MOST_BYTES).then_some(Kernel { node, parameters, bytes, cluster, has_gaps })
    }
}

/// The clusters that a kernel was compiled for; none of them is of zero blocks.
fn required_cluster(function: CUfunction, driver: &Driver) -> Option<[u32; 3]> {
    const WIDTH: u32 = 11;
    let sides = [WIDTH, WIDTH + 1, WIDTH + 2].map(|attribute| {
        let mut blocks = 0;
        // SAFETY: a function that the driver has just launched, and a valid place for the answer.
        let result = unsafe { (driver.cuFuncGetAttribute)(&raw mut blocks, attribute, function) };
        if result == CUDA_SUCCESS { blocks.unsigned_abs() } else { 0 }
    });
    sides.iter().any(|&blocks| blocks > 1).then(|| sides.map(|blocks| blocks.max(1)))
}

/// Whether nodes of a graph run as launches on this stream do: they have the usual priority, all of the device, and
/// nothing of what a stream can set for its launches.
fn is_usual(stream: CUstream, driver: &Driver) -> bool {
    /// Attributes of a stream with the word of their value that is zero where they are not set: the bytes of a window of
    /// memory that stays in the L2 cache, and the domain of memory.
    const ATTRIBUTES: [(u32, usize); 2] = [(1, 1), (10, 0)];
    let mut priority = 0;
    // SAFETY: a stream that the driver has just launched on, and a valid place for the answer.
    let known = unsafe { (driver.cuStreamGetPriority)(stream, &raw mut priority) } == CUDA_SUCCESS;
    let is_unset = |(attribute, nth): (u32, usize)| {
        let mut words = [0_u64; 8];
        const { assert!(size_of::<CUstreamAttrValue>() == size_of::<[u64; 8]>()) };
        // SAFETY: as above; the answer is as large. A driver that does not know the attribute cannot have it set.
        let result =
            unsafe { (driver.cuStreamGetAttribute)(stream, attribute, words.as_mut_ptr().cast()) };
        result != CUDA_SUCCESS || words[nth] == 0
    };
    let mut part = core::ptr::null_mut();
    // SAFETY: as above. A driver without the function knows no parts of a device.
    let is_part = unsafe { (driver.cuStreamGetGreenCtx)(stream, &raw mut part) } == CUDA_SUCCESS
        && !part.is_null();
    known && priority == 0 && !is_part && ATTRIBUTES.into_iter().all(is_unset)
}

/// One number for several.
#[inline(always)]
pub(super) fn mixed(words: &[u64]) -> u64 {
    let mut sum = 0x9e37_79b9_7f4a_7c15_u64;
    for &word in words {
        let product = u128::from(sum ^ word) * 0xa076_1d64_78bd_642f;
        sum = (product as u64) ^ (product >> 64) as u64;
    }
    sum | 1
}

/// One number for the attributes of a launch.
#[inline(never)]
fn of_attributes(attributes: &[CUlaunchAttribute]) -> u64 {
    let words = attributes.iter().flat_map(|attribute| {
        // SAFETY: a number and 64 bytes, all set: they are copies (`enter::attributes`).
        unsafe {
            let id: u32 = (&raw const attribute.id).cast::<u32>().read();
            let value: [u64; 8] = (&raw const attribute.value).cast::<[u64; 8]>().read();
            value.into_iter().chain([id.into()])
        }
    });
    mixed(&words.collect::<Vec<_>>())
}
