//! How a launch fails, in one clear sentence each.

pub(crate) mod guard;
pub(crate) mod operand;

use std::fmt;

use crate::check::Report;
use crate::code::Space;
use crate::site::{Access, Site};

/// Why a launch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Memory that is not there. The address is unknown when the processor does not tell it.
    IllegalAddress {
        /// Where in the program.
        place: Site,
        /// What was touched.
        address: Option<u64>,
        /// Bytes of the access; 0 when unknown.
        bytes: u32,
        /// What it does to which memory; none for stacks, surfaces and handles.
        access: Option<(Access, Space)>,
    },
    /// An address that is no multiple of the access's size.
    MisalignedAddress {
        /// Where in the program.
        place: Site,
        /// What was touched.
        address: u64,
        /// Bytes of the access.
        bytes: u32,
    },
    /// An instruction with operands it cannot have.
    IllegalInstruction {
        /// Where in the program.
        place: Site,
        /// What is wrong.
        reason: String,
    },
    /// A failed `assert`; its text went to the driver.
    Assert(Site),
    /// `trap`.
    Trap(Site),
    /// `brkpt` with no debugger.
    Breakpoint(Site),
    /// All threads wait for each other.
    Deadlock(Site),
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

/// What an access outside of all memory did.
fn describe_access(
    f: &mut fmt::Formatter<'_>,
    address: Option<u64>,
    bytes: u32,
    access: Option<(Access, Space)>,
) -> fmt::Result {
    let Some((access, space)) = access else {
        return match address {
            Some(handle) => write!(f, "uses {handle:#x}, which is nothing of the device"),
            None if bytes == 0 => write!(f, "the thread's stack is full"),
            None => write!(f, "touches {bytes} bytes outside of a surface"),
        };
    };
    let verb = match access {
        Access::Read => "reads",
        Access::Write => "writes",
        Access::Atomic => "changes",
    };
    let missed = match space {
        Space::Generic | Space::Global => "no memory of the device",
        Space::Shared => "not in the shared memory of the block",
        Space::Local => "not in the local memory of the thread",
        Space::Param => "not in the parameters",
    };
    write!(f, "{verb} {bytes} bytes ")?;
    match address {
        Some(address) => write!(f, "at {address:#x}; that is {missed}"),
        None => write!(f, "at an address that is {missed}"),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::IllegalAddress { place, address, bytes, access } => {
                write!(f, "{place}: ")?;
                describe_access(f, *address, *bytes, *access)
            }
            Fault::MisalignedAddress { place, address, bytes } => {
                write!(f, "{place}: touches {bytes} bytes at {address:#x}, not aligned to {bytes}")
            }
            Fault::IllegalInstruction { place, reason } => write!(f, "{place}: {reason}"),
            Fault::Assert(place) => write!(f, "{place}: an assertion failed"),
            Fault::Trap(place) => write!(f, "{place}: trap"),
            Fault::Breakpoint(place) => write!(f, "{place}: breakpoint without a debugger"),
            Fault::Deadlock(place) => {
                write!(
                    f,
                    "{place}: waits, as all threads of its block do, at a barrier that cannot complete"
                )
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
