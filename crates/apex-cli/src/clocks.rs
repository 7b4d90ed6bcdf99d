//! Reads the GPU's clocks while a program runs, so that advice can tell a slow program from a slow GPU.
//!
//! `nvidia-smi` does the reading, as a process of its own twice a second, into a file of the session; where it is
//! missing or refuses, the file stays empty and nothing is said of clocks.

use apex_daemon::evidence::CLOCKS_FILE;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const FIELDS: &str =
    "--query-gpu=clocks.sm,clocks.max.sm,clocks_event_reasons.active,utilization.gpu";

/// A reader under way; it ends when this is dropped.
pub(crate) struct Clocks(Child);

impl Clocks {
    /// Begins to read into the session; nothing where the reader cannot be started.
    pub(crate) fn watch(session: &Path) -> Option<Clocks> {
        let file = File::create(session.join(CLOCKS_FILE)).ok()?;
        let reader = Command::new("nvidia-smi")
            .args([FIELDS, "--format=csv,noheader,nounits", "--loop-ms=500"])
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(Stdio::null())
            .spawn();
        if reader.is_err() {
            let _ = std::fs::remove_file(session.join(CLOCKS_FILE));
        }
        reader.ok().map(Clocks)
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
