//! Runs one file's kernel on the engine.
//!
//! Device memory is host memory, so buffers are plain vectors of words that outlive the launch.

use crate::Expect;
use crate::file::{Image, Parameter, RunFile};
use crate::generate::{Type, generate};
use apex_engine::{
    AddressMode, Channel, Device, Fault, Filter, Grid, Identity, Launch, Module, Services, Surface,
    Texture,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// What a kernel of a run file may take; the longest needs milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

/// What came out: values, or the driver's number for the fault and the fault's own sentence.
pub(crate) enum Outcome {
    Values(Vec<u64>),
    Fault(u32, String),
}

/// Loads the text and runs its kernel as the file says.
pub(crate) fn execute(text: &str, file: &RunFile, jit: bool) -> Result<Outcome, String> {
    let mut buffers = Buffers::default();
    let module = Module::load(&[text], &mut |variable| {
        Some(buffers.place(&vec![0; usize::try_from(variable.bytes).ok()?]))
    });
    let module = module.map_err(|error| format!("does not load: {}", error.log))?;
    let kernel = module.kernel(&file.kernel).ok_or("has no such kernel")?;
    if let Some(reason) = &kernel.unsupported {
        return Err(format!("is unsupported: {reason}"));
    }
    let out_bytes = file.out_count * file.out.bits as usize / 8;
    let out = buffers.place(&vec![0; out_bytes]);
    let mut arguments = vec![out.to_le_bytes().to_vec()];
    for parameter in &file.parameters {
        arguments.push(argument(parameter, file, &mut buffers));
    }
    if arguments.len() != kernel.params.len() {
        return Err(format!("takes {} parameters, not {}", kernel.params.len(), arguments.len()));
    }
    let mut params = vec![0; kernel.param_bytes as usize];
    for (param, argument) in kernel.params.iter().zip(&arguments) {
        let at = param.offset as usize;
        params[at..at + argument.len()].copy_from_slice(argument);
    }
    let launch = Launch {
        kernel: kernel.clone(),
        grid: file.grid,
        block: file.block,
        dynamic_shared: file.shared,
        params,
        cooperative: false,
        cluster: file.cluster,
    };
    // Compiled code does not look whether addresses are aligned.
    let compiled = jit && !matches!(file.expect, Expect::Fault(_));
    if let Err(fault) = run(launch, compiled) {
        return Ok(Outcome::Fault(number(&fault), fault.to_string()));
    }
    Ok(Outcome::Values(unpack(file.out, &buffers.bytes(out, out_bytes))))
}

/// Runs a launch to its end; one that never ends is cancelled.
fn run(launch: Launch, compiled: bool) -> Result<(), Fault> {
    let services = Box::new(HostServices::default());
    let identity = Identity::default();
    let device = Device { identity, checked: false, jit: compiled, window: None, services };
    // Small launches would be interpreted to their end.
    let fast = compiled
        .then(|| apex_engine::compile(&launch.kernel.code, launch.block, None, false))
        .flatten();
    let grid = Arc::new(Grid::with_fast_tier(launch, Arc::new(device), fast)?);
    let (done, ended) = mpsc::channel();
    let worker = std::thread::spawn({
        let grid = grid.clone();
        move || {
            grid.work();
            // The receiver is gone only after it has waited for this thread.
            let _ = done.send(());
        }
    });
    if ended.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
        grid.cancel();
    }
    if worker.join().is_err() {
        return Err(Fault::Unsupported("the engine panicked".into()));
    }
    grid.fault().map_or(Ok(()), Err)
}

/// The driver's error number for a fault.
fn number(fault: &Fault) -> u32 {
    match fault {
        Fault::IllegalAddress { .. } => 700,
        Fault::MisalignedAddress { .. } => 716,
        Fault::IllegalInstruction { .. } => 715,
        Fault::Assert(..) => 710,
        Fault::Trap(..) => 719,
        Fault::OutOfMemory => 2,
        _ => 999,
    }
}

/// The bytes of a parameter; memory it points to goes to `buffers`.
fn argument(parameter: &Parameter, file: &RunFile, buffers: &mut Buffers) -> Vec<u8> {
    match parameter {
        Parameter::Value(input) => pack(input.ty, &input.given),
        Parameter::Memory(input) => {
            let values = pack(input.ty, &generate(input, &file.combined));
            buffers.place(&values).to_le_bytes().to_vec()
        }
        Parameter::Image(image) => {
            let values = pack(image.values.ty, &generate(&image.values, &file.combined));
            let first = buffers.place(&values);
            buffers.image(image, first).to_le_bytes().to_vec()
        }
    }
}

fn pack(ty: Type, values: &[u64]) -> Vec<u8> {
    let bytes = ty.bits as usize / 8;
    values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(bytes)).collect()
}

fn unpack(ty: Type, bytes: &[u8]) -> Vec<u64> {
    let value =
        |part: &[u8]| part.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    bytes.chunks(ty.bits as usize / 8).map(value).collect()
}

/// What the launch's addresses point to.
#[derive(Default)]
struct Buffers {
    /// 16-byte words, so that every vector access is aligned; one more keeps small ones apart.
    memory: HashMap<u64, Vec<u128>>,
    #[allow(clippy::vec_box, reason = "kernels hold their addresses")]
    textures: Vec<Box<Texture>>,
    #[allow(clippy::vec_box, reason = "kernels hold their addresses")]
    surfaces: Vec<Box<Surface>>,
}

impl Buffers {
    fn place(&mut self, bytes: &[u8]) -> u64 {
        let word =
            |part: &[u8]| part.iter().rev().fold(0u128, |word, byte| word << 8 | u128::from(*byte));
        // Sixteen words of room let an aligned start be found: variables may ask for 256 bytes.
        let mut words = vec![0u128; bytes.len().div_ceil(16) + 17];
        let skipped = words.as_ptr().align_offset(256);
        for (place, part) in words[skipped..].iter_mut().zip(bytes.chunks(16)) {
            *place = word(part);
        }
        let address = words[skipped..].as_mut_ptr() as u64;
        self.memory.insert(address, words);
        address
    }

    fn bytes(&self, address: u64, bytes: usize) -> Vec<u8> {
        let words = &self.memory[&address];
        let skipped = words.as_ptr().align_offset(256);
        // The engine wrote behind the compiler's back.
        let words = std::hint::black_box(&words[skipped..]);
        words.iter().flat_map(|word| word.to_le_bytes()).take(bytes).collect()
    }

    fn image(&mut self, image: &Image, address: u64) -> u64 {
        let row_pitch = u64::from(image.width * image.channels * image.values.ty.bits / 8);
        let texels = apex_engine::Image {
            data: address,
            width: image.width,
            height: image.height,
            depth: image.slices,
            row_bytes: row_pitch,
            slice_bytes: row_pitch * u64::from(image.height),
            channels: image.channels,
            bits: image.values.ty.bits,
            channel: channel(image.values.ty),
        };
        if image.surface {
            let surface = Box::new(Surface { image: texels });
            let handle = std::ptr::from_ref(&*surface) as u64;
            self.surfaces.push(surface);
            return handle;
        }
        let address = match image.address.as_str() {
            _ if image.linear_memory => AddressMode::Border,
            "wrap" => AddressMode::Wrap,
            "mirror" => AddressMode::Mirror,
            "border" => AddressMode::Border,
            _ => AddressMode::Clamp,
        };
        let texture = Box::new(Texture {
            image: texels,
            coarser: Vec::new(),
            address: [address; 3],
            filter: if image.linear_filter { Filter::Linear } else { Filter::Point },
            level_filter: Filter::Point,
            level_bias: 0.0,
            level_least: 0.0,
            level_most: 0.0,
            normalized: image.normalized,
            normalized_float: !image.reads_integers,
            srgb: false,
            border: [0.0; 4],
        });
        let handle = std::ptr::from_ref(&*texture) as u64;
        self.textures.push(texture);
        handle
    }
}

fn channel(ty: Type) -> Channel {
    match ty.name.as_bytes().first() {
        Some(b's') => Channel::Signed,
        Some(b'f') => Channel::Float,
        _ => Channel::Unsigned,
    }
}

/// Device `malloc` from the host's heap; what kernels print is not looked at.
#[derive(Default)]
struct HostServices {
    heap: Mutex<HashMap<u64, Vec<u128>>>,
}

impl Services for HostServices {
    fn print(&self, _text: &[u8]) {}

    fn assert_failed(&self, _message: &str) {}

    fn heap_alloc(&self, bytes: u64) -> u64 {
        let mut memory = vec![0u128; usize::try_from(bytes.div_ceil(16)).unwrap_or(0) + 1];
        let address = memory.as_mut_ptr() as u64;
        self.heap.lock().unwrap_or_else(PoisonError::into_inner).insert(address, memory);
        address
    }

    fn heap_free(&self, address: u64) {
        self.heap.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
    }

    fn find(&self, _address: u64) -> Option<(u64, u64)> {
        None
    }
}
