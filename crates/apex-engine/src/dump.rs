//! What a kernel is after each pass, in files for who wants to read it.
//!
//! A kernel gets a folder of its own each time it is lowered or compiled. Each pass writes a file there, so `diff`
//! shows what a pass has changed. A file that cannot be written is left out: no program fails for it.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Letters of a kernel's name that its folder bears. Mangled names are longer than names of files can be.
const MOST_LETTERS: usize = 100;

/// A folder for what kernels are after each pass.
#[derive(Debug)]
pub struct Dump {
    folder: PathBuf,
    /// How many kernels it was given: names repeat.
    count: AtomicU32,
}

impl Dump {
    /// Writes into this folder, which need not be there yet.
    pub fn new(folder: impl Into<PathBuf>) -> Dump {
        Dump { folder: folder.into(), count: AtomicU32::new(0) }
    }

    /// A folder of its own for a kernel: `NAME.PROCESS.NUMBER`, with what else is known of it.
    pub(crate) fn kernel(&self, name: &str, detail: &str) -> KernelDump {
        let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
        let name: String = name.chars().take(MOST_LETTERS).map(letter).collect();
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let folder = format!("{name}.{}.{number}{detail}", std::process::id());
        let folder = self.folder.join(folder);
        let _ = fs::create_dir_all(&folder);
        KernelDump { folder }
    }
}

/// The folder of one kernel.
pub(crate) struct KernelDump {
    folder: PathBuf,
}

impl KernelDump {
    /// Writes what the kernel is after the pass of this number, below one line about the pass.
    pub(crate) fn write(&self, number: usize, pass: &str, line: &str, kernel: &dyn Display) {
        let write = || {
            let file = File::create(self.folder.join(format!("{number:02}-{pass}")))?;
            let mut file = BufWriter::new(file);
            writeln!(file, "// {pass}: {line}")?;
            write!(file, "{kernel}")?;
            file.flush()
        };
        let _ = write();
    }
}
