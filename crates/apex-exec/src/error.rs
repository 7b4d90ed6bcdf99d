//! What can go wrong, said so that the reader knows what to do next.
//!
//! One enum for the whole crate. A sentence names the kernel and the argument where there is one, and ends
//! with the remedy. What the driver said stands in it word for word, for those who search for it.

use core::fmt;
use std::path::PathBuf;

/// What every fallible function of this crate gives.
pub type Result<T> = core::result::Result<T, Error>;

/// Why something could not be done.
///
/// ```
/// use apex_exec::Error;
///
/// let error = Error::WrongCount { kernel: "add".into(), expected: 4, given: 3 };
/// assert!(error.to_string().contains("add takes 4 arguments, 3 were given"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is no such device, or no driver for it.
    NoDevice {
        /// Which one was asked for.
        asked: String,
        /// Why it cannot be had.
        reason: String,
    },
    /// A library is not on this machine.
    LibraryMissing {
        /// What it is called.
        library: &'static str,
        /// What it would be needed for.
        purpose: &'static str,
        /// Where it was looked for.
        searched: Vec<PathBuf>,
    },
    /// The device has too little free memory.
    OutOfMemory {
        /// Bytes asked for.
        asked: u64,
        /// Bytes free.
        free: u64,
    },
    /// The machine has too little memory that the device can reach, for a staging area.
    OutOfPinnedMemory {
        /// Bytes asked for.
        asked: u64,
    },
    /// A source does not compile.
    Compilation {
        /// What the compiler said, with its lines.
        log: String,
    },
    /// An option of the compiler is not understood.
    CompileOption {
        /// What is wrong.
        reason: String,
    },
    /// An image (PTX, cubin, fatbin) cannot be loaded.
    BadImage {
        /// What it was meant to be.
        kind: &'static str,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// A module has no kernel of that name.
    NoSuchKernel {
        /// The name asked for.
        name: String,
        /// The names there are, where they are known.
        known: Vec<String>,
    },
    /// A kernel was given too few or too many arguments.
    WrongCount {
        /// The kernel.
        kernel: String,
        /// How many it takes.
        expected: usize,
        /// How many it was given.
        given: usize,
    },
    /// An argument has another size than the kernel's parameter.
    WrongSize {
        /// The kernel.
        kernel: String,
        /// Which argument, from 1.
        argument: usize,
        /// Bytes that the kernel's parameter has.
        expected: usize,
        /// What was given.
        given: &'static str,
        /// Bytes that it has.
        given_bytes: usize,
    },
    /// An argument has the size of the kernel's parameter, but is another thing.
    WrongType {
        /// The kernel.
        kernel: String,
        /// Which argument, from 1.
        argument: usize,
        /// What the kernel declares.
        expected: &'static str,
        /// What was given.
        given: &'static str,
    },
    /// A launch that the device cannot do.
    BadGrid {
        /// The kernel.
        kernel: String,
        /// Which limit it breaks, and what to do.
        reason: String,
    },
    /// Shapes that do not fit the operation.
    BadShape {
        /// The operation.
        operation: &'static str,
        /// What does not fit, and what would.
        reason: String,
    },
    /// Something of one executor was given to another.
    OtherExecutor {
        /// What it is.
        what: &'static str,
    },
    /// Too many of something at once.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there can be.
        limit: usize,
    },
    /// The driver refused, or reports that earlier work failed.
    Driver {
        /// The call that said so.
        call: &'static str,
        /// Its number.
        code: u32,
        /// Its name and text.
        text: String,
        /// The kernel this is about: the one launched, or the last one launched before.
        kernel: Option<String>,
    },
}

impl fmt::Display for Error {
    #[expect(clippy::too_many_lines, reason = "a table: one sentence for each error")]
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoDevice { asked, reason } => write!(out, "{asked} cannot be used: {reason}"),
            Error::LibraryMissing { library, purpose, searched } => {
                write!(
                    out,
                    "{library} was not found, which {purpose} needs: install it (pip install \
                     nvidia-cuda-nvrtc, nvidia-cublas, or the CUDA toolkit), or name its folder in \
                     LD_LIBRARY_PATH or CUDA_HOME"
                )?;
                if searched.is_empty() {
                    return Ok(());
                }
                let folders: Vec<String> =
                    searched.iter().map(|folder| folder.display().to_string()).collect();
                write!(out, "; looked in the loader's path, {}", folders.join(", "))
            }
            Error::OutOfMemory { asked, free } => write!(
                out,
                "the device has {free} bytes free, {asked} were asked for: drop buffers that are no \
                 longer needed, or work in smaller pieces (see Pipeline); the executor stays usable"
            ),
            Error::OutOfPinnedMemory { asked } => write!(
                out,
                "{asked} bytes of pinned memory cannot be had: use smaller or fewer staging areas, or \
                 raise the limit on locked memory (ulimit -l)"
            ),
            Error::Compilation { log } => {
                write!(out, "the source does not compile:\n{}", log.trim_end())
            }
            Error::CompileOption { reason } => {
                write!(out, "the compiler cannot be asked so: {reason}")
            }
            Error::BadImage { kind, reason } => {
                write!(out, "this {kind} cannot be loaded: {reason}")
            }
            Error::NoSuchKernel { name, known } => {
                write!(out, "the module has no kernel {name}")?;
                match known.as_slice() {
                    [] => write!(
                        out,
                        ": declare it extern \"C\" __global__, so that its name is not mangled"
                    ),
                    known => write!(out, "; it has {}", known.join(", ")),
                }
            }
            Error::WrongCount { kernel, expected, given } => write!(
                out,
                "{kernel} takes {expected} arguments, {given} were given: give one .arg() for each \
                 parameter, in the order of its declaration"
            ),
            Error::WrongSize { kernel, argument, expected, given, given_bytes } => write!(
                out,
                "argument {argument} of {kernel} takes {expected} bytes, {given} of {given_bytes} bytes \
                 was given: give a value of the declared type (an int is i32 or u32, a size_t u64, a \
                 pointer a buffer)"
            ),
            Error::WrongType { kernel, argument, expected, given } => write!(
                out,
                "argument {argument} of {kernel} is declared as {expected}, {given} was given: give a \
                 value of the declared type"
            ),
            Error::BadGrid { kernel, reason } => {
                write!(out, "{kernel} cannot be launched: {reason}")
            }
            Error::BadShape { operation, reason } => write!(out, "{operation}: {reason}"),
            Error::OtherExecutor { what } => write!(
                out,
                "{what} belongs to another executor: each has its own device memory and modules; use \
                 what this executor (or its clones) made"
            ),
            Error::TooMany { what, limit } => {
                write!(out, "there can be {limit} {what} at once: drop some before making more")
            }
            Error::Driver { call, code, text, kernel } => {
                write!(out, "{call} answered {text} ({code})")?;
                if let Some(kernel) = kernel {
                    write!(out, "; the last kernel launched there is {kernel}")?;
                }
                out.write_str(remedy(*code))
            }
        }
    }
}

impl std::error::Error for Error {}

/// What to do about a result of the driver.
fn remedy(code: u32) -> &'static str {
    use apex_cuda::types::*;
    match code {
        CUDA_ERROR_ILLEGAL_ADDRESS | CUDA_ERROR_MISALIGNED_ADDRESS | CUDA_ERROR_LAUNCH_FAILED => {
            ": run the program under compute-sanitizer, or on the software GPU with \
             APEX_SOFTGPU_CHECKED=1, to see the access; the device's context is lost, start the process anew"
        }
        CUDA_ERROR_ASSERT => ": an assert in the kernel failed; its text is on the standard output",
        CUDA_ERROR_NO_BINARY_FOR_GPU => ": compile for this device's architecture, or load PTX",
        CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            ": the PTX is newer than the driver; update the driver or compile with an older NVRTC"
        }
        CUDA_ERROR_NOT_SUPPORTED => ": this device or driver does not have it",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_error_names_the_call_the_kernel_and_the_remedy() {
        let error = Error::Driver {
            call: "cuStreamSynchronize",
            code: 700,
            text: "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered".into(),
            kernel: Some("scatter".into()),
        };
        let text = error.to_string();
        for word in ["cuStreamSynchronize", "ILLEGAL_ADDRESS", "scatter", "compute-sanitizer"] {
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_wrong_size_names_kernel_argument_and_both_sizes() {
        let error = Error::WrongSize {
            kernel: "scale".into(),
            argument: 3,
            expected: 8,
            given: "f32",
            given_bytes: 4,
        };
        assert!(error.to_string().starts_with("argument 3 of scale takes 8 bytes, f32 of 4 bytes"));
    }
}
