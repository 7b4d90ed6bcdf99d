//! The one control daemon of MPS that all systems of a group share.
//!
//! Two on one GPU are not reliable, and nothing needs two: the priority of a client and its part of the threads are
//! the client's own environment. `apex run --mps` uses a daemon in the folder `mps` of its gate while somebody holds
//! the lock there, so this one is held that way, and a gate is given a link to it.
//!
//! Beside it waits a shell that does nothing until its input ends, because this was dropped or this program was
//! killed, and then stops the daemon. It is in a group of its own: what ends the group of this program leaves it.

use anyhow::{Context, Result, bail};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CONTROL: &str = "nvidia-cuda-mps-control";
/// Asks the daemon to end; one that waits for a client that never ends is told by a signal.
const GUARD: &str = r#"
trap '' HUP INT TERM
read -r line
echo quit | timeout 15 nvidia-cuda-mps-control >/dev/null 2>&1
pid=$(cat "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid" 2>/dev/null)
if [ -n "$pid" ] && grep -q nvidia-cuda-mps "/proc/$pid/comm" 2>/dev/null; then kill "$pid"; fi
"#;

/// The daemon, which runs until this is dropped.
pub(super) struct Mps {
    meeting: MpsFolder,
    guard: Child,
}

impl Mps {
    /// Starts it in a folder of its own.
    pub(super) fn start(folder: &Path) -> Result<Mps> {
        let meeting = MpsFolder::hold(folder)?;
        let guard = Command::new("sh")
            .args(["-c", GUARD])
            .envs(meeting.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("there is no shell to watch over MPS")?;
        // From here on it is stopped whatever happens.
        let mps = Mps { meeting, guard };
        let status = Command::new("timeout")
            .args(["20", CONTROL, "-d"])
            .envs(mps.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(mps),
            Ok(status) => bail!("{CONTROL} ends with {status}"),
            Err(error) => bail!("{CONTROL} does not start: {error}"),
        }
    }

    /// What makes a program its client.
    pub(super) fn environment(&self) -> [(&'static str, PathBuf); 2] {
        self.meeting.environment()
    }

    /// Programs that meet in this gate use it.
    pub(super) fn offer(&self, gate: &Path) -> Result<()> {
        self.meeting.offer(gate)
    }
}

impl Drop for Mps {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        // The next daemon must not find this one's server.
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Where the daemon and its clients meet, held for as long as this lives.
struct MpsFolder {
    folder: PathBuf,
    _lock: File,
}

impl MpsFolder {
    fn hold(folder: &Path) -> Result<MpsFolder> {
        for name in ["pipe", "log"] {
            std::fs::create_dir_all(folder.join(name)).context("no folder for MPS")?;
        }
        let lock = File::create(folder.join("lock")).context("no file for MPS")?;
        lock.lock_shared().context("the file of MPS cannot be locked")?;
        Ok(MpsFolder { folder: folder.to_owned(), _lock: lock })
    }

    fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [
            ("CUDA_MPS_PIPE_DIRECTORY", self.folder.join("pipe")),
            ("CUDA_MPS_LOG_DIRECTORY", self.folder.join("log")),
        ]
    }

    fn offer(&self, gate: &Path) -> Result<()> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(gate);
        made.and_then(|()| symlink(&self.folder, gate.join("mps")))
            .context("the gate cannot be given MPS")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_daemon::schedule::{self, mps::Mps as Joined};

    #[test]
    fn apex_joins_what_a_gate_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let meeting = MpsFolder::hold(&folder.path().join("mps")).unwrap();
        let pipe = meeting.environment()[0].1.canonicalize().unwrap();
        let gates = ["one", "two"].map(|name| folder.path().join(name).join("gate"));
        let joined = gates.each_ref().map(|gate| {
            meeting.offer(gate).unwrap();
            schedule::prepare(gate).unwrap();
            // It would write down its process, or fail where there is no such program.
            Joined::start(gate).unwrap()
        });
        for mps in joined {
            let (name, theirs) = &mps.variables(true)[0];
            assert_eq!(*name, "CUDA_MPS_PIPE_DIRECTORY");
            assert_eq!(theirs.canonicalize().unwrap(), pipe);
            // Nor is it stopped by one that leaves.
            assert_eq!(mps.end(), None);
        }
        assert_eq!(std::fs::read_dir(pipe).unwrap().count(), 0);
    }
}
