//! What an assembler does where PTX itself is what the device runs: it checks the text and hands it on.
//!
//! Frameworks call `ptxas`, or a library in its place, before they load a kernel. The software GPU reads PTX, so the
//! text is the result. What callers read besides stands here once, for the program and for the libraries: the
//! version, the refusals in ptxas's own form, and what its `-v` tells of each kernel.
#![forbid(unsafe_code)]

mod check;
mod resources;

pub use check::{Refusal, check};
pub use resources::report;

/// The toolkit that this stands for: the newest whose PTX the parser was tried on.
pub const RELEASE: (u32, u32) = (13, 4);

/// The newest PTX that is taken; the number that belongs to [`RELEASE`].
pub const NEWEST_PTX: (u32, u32) = (9, 4);

/// What `ptxas --version` prints. Callers look for `release X.Y` and for `VX.Y.Z`, and keep the whole beside what they
/// cached: it must differ from that of an assembler that makes machine code.
pub fn version_text() -> String {
    let (major, minor) = RELEASE;
    format!(
        "ptxas: apex's assembler for the software GPU, which checks PTX and hands it on\n\
         Cuda compilation tools, release {major}.{minor}, V{major}.{minor}.0\n\
         Build apex_{}\n",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_has_what_callers_look_for() {
        let text = version_text();
        assert!(text.contains("release 13.4,") && text.contains(" V13.4.0\n"), "{text}");
    }
}
