//! How a launch fails, in one clear sentence each.

pub(crate) mod guard;

use std::fmt;

use crate::check::Report;

/// Where it happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The kernel.
    pub kernel: String,
    /// Line in its PTX; 0 when unknown.
    pub line: u32,
    /// `%ctaid`.
    pub block: [u32; 3],
    /// `%tid`, where one thread can be named.
    pub thread: Option<[u32; 3]>,
}

/// Why a launch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Memory that is not there. The address is unknown when the processor does not tell it.
    IllegalAddress {
        /// Where in the program.
        place: Place,
        /// What was touched.
        address: Option<u64>,
        /// Bytes of the access; 0 when unknown.
        bytes: u32,
    },
    /// An address that is no multiple of the access's size.
    MisalignedAddress {
        /// Where in the program.
        place: Place,
        /// What was touched.
        address: u64,
        /// Bytes of the access.
        bytes: u32,
    },
    /// An instruction with operands it cannot have.
    IllegalInstruction {
        /// Where in the program.
        place: Place,
        /// What is wrong.
        reason: String,
    },
    /// A failed `assert`; its text went to the driver.
    Assert(Place),
    /// `trap`.
    Trap(Place),
    /// `brkpt` with no debugger.
    Breakpoint(Place),
    /// All threads wait for each other.
    Deadlock(Place),
    /// The kernel has an instruction that is not known here.
    Unsupported(String),
    /// No memory for the launch.
    OutOfMemory,
    /// The launch does not fit the kernel or the device.
    InvalidLaunch(String),
    /// Stopped by [`crate::Grid::cancel`].
    Cancelled,
    /// Checked mode found errors.
    Checked(Vec<Report>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}", self.kernel)?;
        if self.line != 0 {
            write!(f, ", PTX line {}", self.line)?;
        }
        let [x, y, z] = self.block;
        write!(f, ", block ({x},{y},{z})")?;
        if let Some([x, y, z]) = self.thread {
            write!(f, ", thread ({x},{y},{z})")?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::IllegalAddress { place, address, bytes } => {
                write!(f, "illegal address")?;
                if let Some(address) = address {
                    write!(f, " {address:#x}")?;
                }
                if *bytes != 0 {
                    write!(f, " ({bytes} bytes)")?;
                }
                write!(f, " in {place}")
            }
            Fault::MisalignedAddress { place, address, bytes } => {
                write!(f, "address {address:#x} is not aligned to {bytes} bytes in {place}")
            }
            Fault::IllegalInstruction { place, reason } => write!(f, "{reason} in {place}"),
            Fault::Assert(place) => write!(f, "assertion failed in {place}"),
            Fault::Trap(place) => write!(f, "trap in {place}"),
            Fault::Breakpoint(place) => write!(f, "breakpoint without a debugger in {place}"),
            Fault::Deadlock(place) => {
                write!(f, "all threads of a block wait at barriers that cannot complete in {place}")
            }
            Fault::Unsupported(reason) => write!(f, "{reason}"),
            Fault::OutOfMemory => write!(f, "no memory for the launch"),
            Fault::InvalidLaunch(reason) => write!(f, "{reason}"),
            Fault::Cancelled => write!(f, "the launch was cancelled"),
            Fault::Checked(reports) => {
                write!(f, "{} error(s) found in checked mode", reports.len())?;
                for report in reports {
                    write!(f, "\n{report}")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Fault {}
