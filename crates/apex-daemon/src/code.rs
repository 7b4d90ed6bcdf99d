//! Reads the code of kernels, outside the program: its text where it has one, else its machine code.
//!
//! Most images lie in an executable or a library; the program says in which and where, and its bytes are read from there.
//! Others were kept beside the rings. An image counts only if it has the hash that the program told. Of one image the
//! kernels that a session knows are read together, because unpacking it is most of the work.

use crate::contain::contained;
use crate::known::Known;
use crate::object::place_in_file;
use apex_core::facts::{Image, Kernel, image_file};
use apex_core::small_file;
use apex_cuda::image::{ImageKind, identify};
use apex_ptx::container;
use apex_ptx::machine::{self, Machine};
use apex_ptx::totals::{self, Totals};
use apex_ptx::tree::{Item, Module};
use apex_ptx::walk::Program;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// The most bytes of an image that are read.
const LARGEST_IMAGE: u64 = 256 << 20;
/// Stands for the architecture of PTX that is an image of its own.
const ANY: u32 = 0;

/// What the code of one kernel tells.
#[derive(Clone, Debug, Default)]
pub struct KernelCode {
    /// Its instructions by kind: of its text if it has one, else of its machine code.
    pub totals: Option<Totals>,
    /// The operations of its machine code.
    pub machine: Option<Machine>,
    /// Its text, ready to be walked; or why there is none.
    pub program: Option<Program>,
    /// Why it has no text.
    pub untold: String,
}

/// The kernels of a session by the hash of their image and their name.
pub type Codes = HashMap<(u64, String), KernelCode>;

/// Reads the code of all kernels that are known, until `end`; `rings` has what was kept beside the rings.
#[must_use]
pub fn read(known: &Known, rings: &Path, end: Instant) -> Codes {
    let mut images: BTreeMap<u64, (&Image, Vec<&Kernel>)> = BTreeMap::new();
    for process in &known.processes {
        for kernel in process.kernels.values() {
            let Some(image) = process.images.values().find(|one| one.hash == kernel.image_hash)
            else {
                continue;
            };
            let (_, kernels) = images.entry(image.hash).or_insert_with(|| (image, Vec::new()));
            if !kernels.iter().any(|known| known.name == kernel.name) {
                kernels.push(kernel);
            }
        }
    }
    let mut codes = Codes::new();
    for (hash, (image, kernels)) in images {
        let found = if Instant::now() < end {
            contained(|| of_image(rings, image, &kernels))
        } else {
            Err("there was no time to read its code".into())
        };
        match found {
            Ok(found) => codes.extend(found.into_iter().map(|(name, code)| ((hash, name), code))),
            Err(why) => codes.extend(kernels.iter().map(|kernel| {
                let code = KernelCode { untold: why.clone(), ..KernelCode::default() };
                ((hash, kernel.name.clone()), code)
            })),
        }
    }
    codes
}

/// The kernels of one image.
pub(crate) fn of_image(
    rings: &Path,
    image: &Image,
    kernels: &[&Kernel],
) -> Result<Vec<(String, KernelCode)>, String> {
    let bytes = bytes(rings, image).ok_or("its code was not kept")?;
    let found = identify(&bytes).ok_or("its code was not kept")?;
    let bytes = &bytes[..found.length];
    let texts = match found.kind {
        ImageKind::Ptx => vec![(ANY, String::from_utf8_lossy(bytes).into_owned())],
        ImageKind::Fatbin => container::texts(bytes),
        ImageKind::Cubin | ImageKind::Wrapper => Vec::new(),
    };
    let is_wanted = |(architecture, text): &(u32, String)| {
        kernels.iter().any(|kernel| is_of(*architecture, kernel) && text.contains(&kernel.name))
    };
    let parsed = |(number, text): (u32, String)| Some((number, apex_ptx::parse(&text).ok()?));
    let modules: Vec<_> = texts.into_iter().filter(is_wanted).filter_map(parsed).collect();
    let mut codes: Vec<(String, KernelCode)> =
        kernels.iter().map(|kernel| (kernel.name.clone(), of_text(&modules, kernel))).collect();
    add_machine(bytes, found.kind, kernels, &mut codes);
    for (_, code) in codes.iter_mut().filter(|(_, code)| code.program.is_none()) {
        if code.machine.is_some() || found.kind == ImageKind::Cubin {
            code.untold.push_str(", and machine code is not walked");
        }
    }
    Ok(codes)
}

/// A text that is an image of its own is what ran, whatever it was written for.
fn is_of(architecture: u32, kernel: &Kernel) -> bool {
    architecture == ANY || u64::from(architecture) == kernel.ptx_version
}

fn of_text(modules: &[(u32, Module)], kernel: &Kernel) -> KernelCode {
    let mut untold = format!("its image has no PTX of it for compute_{}", kernel.ptx_version);
    for (_, module) in modules.iter().filter(|(number, _)| is_of(*number, kernel)) {
        let function = module.items.iter().find_map(|item| match item {
            Item::Function(function) if *function.name == *kernel.name => Some(function),
            _ => None,
        });
        if let Some(function) = function {
            let program = Program::new(function, module.variables());
            if program.is_some() {
                let totals = Some(totals::of_function(function));
                return KernelCode { totals, program, ..KernelCode::default() };
            }
            untold = "its PTX cannot be walked".into();
        }
    }
    KernelCode { untold, ..KernelCode::default() }
}

/// Adds what machine code tells of kernels.
fn add_machine(
    bytes: &[u8],
    kind: ImageKind,
    kernels: &[&Kernel],
    codes: &mut [(String, KernelCode)],
) {
    let architectures = kernels.iter().map(|kernel| kernel.binary_version as u32);
    let architecture = architectures.max().unwrap_or(0);
    let mut missing = codes.len();
    let mut look = |cubin: &[u8]| {
        for (name, code) in codes.iter_mut().filter(|(_, code)| code.machine.is_none()) {
            let found = machine::section(cubin, name);
            if let Some(machine) = found.and_then(|code| Machine::of(code, architecture)) {
                code.totals = code.totals.or_else(|| Some(totals::of_machine(&machine)));
                code.machine = Some(machine);
                missing -= 1;
            }
        }
        missing > 0
    };
    match kind {
        ImageKind::Cubin => drop(look(bytes)),
        ImageKind::Fatbin => container::cubins(bytes, architecture, &mut look),
        ImageKind::Ptx | ImageKind::Wrapper => {}
    }
}

/// An image's bytes: those kept beside the rings, those of the file that the driver was named, or those in the object
/// that it lies in.
fn bytes(rings: &Path, image: &Image) -> Option<Vec<u8>> {
    let is_whole = |bytes: &Vec<u8>| identify(bytes).is_some_and(|found| found.hash == image.hash);
    let read = |path: &Path| small_file::read(path, LARGEST_IMAGE).ok().filter(is_whole);
    let kept = || read(&rings.join(image_file(image.hash)));
    let file = || (!image.file.is_empty()).then(|| read(Path::new(&image.file))).flatten();
    kept().or_else(file).or_else(|| within_object(image).filter(is_whole))
}

fn within_object(image: &Image) -> Option<Vec<u8>> {
    if image.object.is_empty() || image.bytes > LARGEST_IMAGE {
        return None;
    }
    let file = small_file::open(Path::new(&image.object)).ok()?;
    let place = place_in_file(&file, image.within)?;
    // What the program told is no reason to ask for much memory.
    let length = image.bytes.min(file.metadata().ok()?.len().saturating_sub(place));
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    File::read_exact_at(&file, &mut bytes, place).ok()?;
    Some(bytes)
}
