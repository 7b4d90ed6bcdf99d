//! What one kernel of the zoo is: an entry of CUDA, its launch space, its work and its truth, as data.
//!
//! A kernel is one value in a table. Everything that depends on a point (arguments, counts, expected
//! values) is a plain function of it, so that a sweep, a check and a training set read the same rows.
//!
//! **How work is counted.** Floating operations are those the mathematics asks for, however the threads
//! share them: a sum of n values is n operations where it starts from zero, a multiply-add is two,
//! division, root and each function are one, comparison and conversion none. Bytes are those of global
//! memory that no cache can avoid: each distinct byte read once, each byte written once.

use super::estimate::Target;
use super::fill::Fill;
use super::point::Point;
use crate::KeptSource;

/// One kernel of the zoo.
///
/// ```
/// for kernel in apex_exec::zoo::kernels() {
///     println!("{}: {}", kernel.name, kernel.stands_for);
/// }
/// ```
pub struct ZooKernel {
    /// Its name, unique in the zoo.
    pub name: &'static str,
    /// What behaviour of programs it stands for.
    pub stands_for: &'static str,
    /// The source that holds it.
    pub(crate) source: &'static KeptSource,
    /// Whether the value of the first axis ends the entry's name: one entry for each.
    pub(crate) variants: bool,
    /// Its own parameters, sizes among them.
    pub axes: &'static [Axis],
    /// The blocks it is launched with.
    pub(crate) blocks: &'static [[u32; 3]],
    /// The grids for a point that has all but its grid and its shared memory.
    pub(crate) grids: fn(&Target, &Point) -> Vec<[u32; 3]>,
    /// The dynamic shared memory for a point that has a grid.
    pub(crate) shared: fn(&Target, &Point) -> Vec<u32>,
    /// Whether a combination of values and block makes sense.
    pub(crate) accepts: fn(&Point) -> bool,
    /// What the kernel is given, in its order.
    pub(crate) arguments: fn(&Point) -> Vec<Argument>,
    /// What a launch does.
    pub(crate) work: fn(&Point) -> Work,
    /// What its outputs must hold.
    pub(crate) reference: Reference,
}

impl ZooKernel {
    /// The source that holds it, for who looks at its instructions.
    ///
    /// ```
    /// let copy = apex_exec::zoo::kernels().next().unwrap();
    /// assert!(copy.source().ptx.contains("copy_1"));
    /// ```
    pub fn source(&self) -> &'static KeptSource {
        self.source
    }
}

impl std::fmt::Debug for ZooKernel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ZooKernel").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A parameter of a kernel and the values it takes.
///
/// ```
/// let copy = apex_exec::zoo::kernels().next().unwrap();
/// assert_eq!((copy.axes[0].name, copy.axes[0].full), ("words", &[1, 2, 4][..]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Its name in rows.
    pub name: &'static str,
    /// Values for a GPU.
    pub full: &'static [u32],
    /// Values for a check, small enough for the software GPU.
    pub small: &'static [u32],
}

/// An axis that takes these values on a GPU, and these in a check.
pub(crate) const fn axis(name: &'static str, full: &'static [u32], small: &'static [u32]) -> Axis {
    Axis { name, full, small }
}

/// One argument of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Argument {
    /// So many elements filled by a rule, only read.
    Input(Fill, usize),
    /// A buffer that the kernel writes.
    Output(Output),
    U32(u32),
    F32(f32),
    F64(f64),
}

/// What one argument is, to who sees only the launch.
///
/// ```
/// use apex_exec::zoo::Given;
///
/// assert_ne!(Given::Integer(4), Given::Memory(4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Given {
    /// A pointer to so many bytes.
    Memory(u64),
    /// A whole number.
    Integer(u32),
    /// A floating-point number.
    Float(f64),
}

impl Argument {
    /// What it is, seen from outside.
    pub(crate) fn given(&self) -> Given {
        match *self {
            Argument::Input(fill, len) => Given::Memory(4 * fill.words(len) as u64),
            Argument::Output(output) => {
                Given::Memory((4 * output.len * output.number.words()) as u64)
            }
            Argument::U32(value) => Given::Integer(value),
            Argument::F32(value) => Given::Float(value.into()),
            Argument::F64(value) => Given::Float(value),
        }
    }
}

/// A buffer that the kernel writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Output {
    pub(crate) number: Number,
    pub(crate) len: usize,
    /// Starts as zeros, because the kernel adds to it; else poisoned.
    pub(crate) adds: bool,
    /// Every element is written; else the reference says which stay untouched.
    pub(crate) whole: bool,
}

/// A poisoned output that must be written throughout.
pub(crate) fn written(number: Number, len: u32) -> Argument {
    Argument::Output(Output { number, len: len as usize, adds: false, whole: true })
}

/// A poisoned output of which the reference knows the untouched elements.
pub(crate) fn partly_written(number: Number, len: u32) -> Argument {
    Argument::Output(Output { number, len: len as usize, adds: false, whole: false })
}

/// An output of zeros that the kernel adds to.
pub(crate) fn added_to(number: Number, len: u32) -> Argument {
    Argument::Output(Output { number, len: len as usize, adds: true, whole: false })
}

/// An input of so many elements.
pub(crate) fn input(fill: Fill, len: u32) -> Argument {
    Argument::Input(fill, len as usize)
}

/// The type of an output's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    F32,
    F64,
    U32,
}

impl Number {
    /// Words of one element.
    pub(crate) fn words(self) -> usize {
        if self == Number::F64 { 2 } else { 1 }
    }
}

/// What a launch does: exact counts, and rough ones by which points are chosen.
///
/// ```
/// assert_eq!(apex_exec::zoo::Work::default().flops, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating operations.
    pub flops: u64,
    /// Where they are done.
    pub pipe: Pipe,
    /// Distinct bytes read from global memory.
    pub bytes_read: u64,
    /// Distinct bytes written to global memory.
    pub bytes_written: u64,
    /// About how many instructions all threads execute together.
    pub(crate) instructions: f64,
    /// About how many cycles one thread needs if it never waits for another.
    pub(crate) chain_cycles: f64,
    /// About how many cycles pass in what only one thread of the launch can do at a time.
    pub(crate) serial_cycles: f64,
}

/// Which units of the device do the floating operations.
///
/// ```
/// assert_eq!(apex_exec::zoo::Pipe::default(), apex_exec::zoo::Pipe::Single);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pipe {
    /// Single precision.
    #[default]
    Single,
    /// Double precision.
    Double,
    /// Tensor cores on halves.
    Tensor,
}

impl Pipe {
    /// Its name in rows.
    ///
    /// ```
    /// assert_eq!(apex_exec::zoo::Pipe::Double.name(), "f64");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Pipe::Single => "f32",
            Pipe::Double => "f64",
            Pipe::Tensor => "f16 tensor",
        }
    }
}

impl Work {
    /// So many words read and written.
    pub(crate) fn words(read: u64, written: u64) -> Work {
        Work { bytes_read: 4 * read, bytes_written: 4 * written, ..Work::default() }
    }

    /// With floating operations.
    pub(crate) fn flops(self, flops: u64) -> Work {
        Work { flops, ..self }
    }

    /// On other units.
    pub(crate) fn on(self, pipe: Pipe) -> Work {
        Work { pipe, ..self }
    }

    /// With the rough counts.
    pub(crate) fn about(self, instructions: f64, chain_cycles: f64) -> Work {
        Work { instructions, chain_cycles, ..self }
    }

    /// With so many cycles one after the other.
    pub(crate) fn serial(self, serial_cycles: f64) -> Work {
        Work { serial_cycles, ..self }
    }
}

/// How the expected content of an output is known.
pub(crate) enum Reference {
    /// For one element of one output, on its own.
    Each(fn(&Point, usize, u64) -> Expected),
    /// For all elements of one output at once.
    Whole(fn(&Point, usize) -> Vec<Expected>),
}

/// What one element of an output must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Expected {
    /// Exactly this.
    Exact(u32),
    /// This number, or one so near.
    Near { value: f64, within: f64 },
    /// What was there before the launch.
    Untouched,
}

/// A number whose terms have so much magnitude together: what rounding leaves of it.
pub(crate) fn near(value: f64, magnitude: f64) -> Expected {
    Expected::Near { value, within: 1e-6 * magnitude + 1e-30 }
}
