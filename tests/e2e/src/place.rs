//! A test's own surroundings, and commands run in them.
//!
//! Every command is given its own process group and a minute; what is left of the group then is
//! killed. Output goes to files, so that nothing waits for a reader.

use crate::ended::{Ended, Watched};
use crate::tools::{scratch, tools};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(240);

/// Directories and variables of one test.
#[derive(Debug)]
pub struct Place {
    root: PathBuf,
    rings: PathBuf,
    variables: Vec<(OsString, Option<OsString>)>,
    runs: AtomicU32,
}

/// A command under way.
#[derive(Debug)]
pub struct Running {
    /// Apex, or the program itself.
    pub child: Child,
    output: PathBuf,
    since: Instant,
    session: Option<PathBuf>,
}

impl Place {
    /// A place with the software GPU as its driver.
    pub fn new() -> Place {
        Place::with_driver(&tools().libcuda)
    }

    /// A place with another driver.
    pub fn with_driver(library: &Path) -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("run-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let root = scratch().join(&name);
        let memory = Path::new("/dev/shm");
        let rings = if memory.is_dir() {
            memory.join(format!("apex-e2e-{name}"))
        } else {
            root.join("rings")
        };
        for directory in [&root, &rings, &root.join("driver"), &root.join("state")] {
            fs::create_dir_all(directory).expect("a test's own directory can be made");
        }
        let driver = root.join("driver/libcuda.so.1");
        // Not a link by name: the loader shows where such a link leads.
        if fs::hard_link(library, &driver).is_err() {
            fs::copy(library, &driver).expect("the driver can be copied");
        }
        std::os::unix::fs::symlink("libcuda.so.1", root.join("driver/libcuda.so"))
            .expect("a link can be made");
        let place = Place { variables: Vec::new(), runs: AtomicU32::new(0), root, rings };
        let (driver, state, rings) =
            (place.root.join("driver"), place.state(), place.rings.clone());
        let specialised = place.root.join("specialised");
        place
            .with("LD_LIBRARY_PATH", driver)
            .with("APEX_DEVICE", "gpu")
            .with("APEX_STATE", state)
            .with("XDG_RUNTIME_DIR", rings)
            .with("APEX_SPECIALISE_CACHE", specialised)
            .without("LD_PRELOAD")
            .without("APEX_REAL_LIBCUDA")
    }

    /// With a variable set for all commands.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<OsStr>) -> Place {
        self.variables.push((name.into(), Some(value.as_ref().to_owned())));
        self
    }

    /// With a variable removed for all commands.
    #[must_use]
    pub fn without(mut self, name: &str) -> Place {
        self.variables.push((name.into(), None));
        self
    }

    /// The test's own directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The driver as a program finds it.
    pub fn driver(&self) -> PathBuf {
        self.root.join("driver/libcuda.so.1")
    }

    /// Where sessions are kept.
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Where running sessions have their rings.
    pub fn rings(&self) -> PathBuf {
        self.rings.join("apex")
    }

    /// Where programs that share a GPU meet.
    pub fn gate(&self) -> PathBuf {
        self.rings.join("apex-gate")
    }

    /// Runs a program plain.
    pub fn plain(&self, program: &Path, arguments: &[&str]) -> Ended {
        self.start(program, arguments).wait()
    }

    /// Runs a program under apex.
    pub fn watch(&self, program: &Path, arguments: &[&str]) -> Watched {
        self.watch_with(&[], program, arguments)
    }

    /// Runs a program under apex with options.
    pub fn watch_with(&self, options: &[&str], program: &Path, arguments: &[&str]) -> Watched {
        let running = self.start_watched(options, program, arguments);
        let session = running.session.clone().unwrap_or_default();
        Watched { ended: running.wait(), session }
    }

    /// Runs a program both ways: what it says and how it ends must be the same.
    pub fn compare(&self, program: &Path, arguments: &[&str]) -> Watched {
        let plain = self.plain(program, arguments);
        let watched = self.watch(program, arguments);
        assert_eq!(plain.stdout, watched.ended.stdout, "what the program says");
        assert_eq!(plain.code, watched.ended.code, "exit code\n{}", watched.ended.stderr);
        assert_eq!(plain.signal, watched.ended.signal, "signal\n{}", watched.ended.stderr);
        watched
    }

    /// Runs apex itself.
    pub fn apex(&self, arguments: &[&str]) -> Ended {
        self.start(&tools().apex, arguments).wait()
    }

    /// Starts a program plain.
    pub fn start(&self, program: &Path, arguments: &[&str]) -> Running {
        let mut command = Command::new(program);
        command.args(arguments);
        self.spawn(command, None)
    }

    /// Starts a program under apex.
    pub fn start_watched(&self, options: &[&str], program: &Path, arguments: &[&str]) -> Running {
        let session = self.root.join(format!("session-{}", self.runs.load(Ordering::Relaxed)));
        let mut command = Command::new(&tools().apex);
        command.arg("run").arg("-o").arg(&session).args(options).arg("--");
        command.arg(program).args(arguments);
        self.spawn(command, Some(session))
    }

    /// Runs a line of shell as root in a mount namespace of its own, where this machine lets us.
    pub fn mounted(&self, script: &str) -> Option<Ended> {
        let possible = Command::new("unshare")
            .args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !possible {
            eprintln!("left out: this user may not mount a file system");
            return None;
        }
        Some(self.start(Path::new("unshare"), &["-m", "sh", "-ec", script]).wait())
    }

    fn spawn(&self, mut command: Command, session: Option<PathBuf>) -> Running {
        let output =
            self.root.join(format!("output-{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        let file =
            |end: &str| File::create(output.with_extension(end)).expect("a file can be made");
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err")).process_group(0);
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Running { child, output, since: Instant::now(), session }
    }
}

impl Default for Place {
    fn default() -> Place {
        Place::new()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.rings);
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

impl Running {
    /// Waits for the end.
    ///
    /// # Panics
    ///
    /// If it does not come in time.
    pub fn wait(mut self) -> Ended {
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return Ended::of(status, &self.stdout(), &self.stderr());
            }
            if self.since.elapsed() > PATIENCE {
                self.signal_all("KILL");
                panic!("still running after {PATIENCE:?}\n{}\n{}", self.stdout(), self.stderr());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What was written to standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.output.with_extension("out"))
    }

    /// What was written to standard error so far.
    pub fn stderr(&self) -> String {
        read(&self.output.with_extension("err"))
    }

    /// Where the session is kept, if apex runs.
    pub fn session(&self) -> &Path {
        self.session.as_deref().expect("a session is kept of what apex runs")
    }

    /// Sends a signal to the command alone.
    pub fn signal(&self, name: &str) {
        send(name, &self.child.id().to_string());
    }

    /// Sends a signal to a process.
    pub fn signal_process(pid: u32, name: &str) {
        send(name, &pid.to_string());
    }

    /// Ends the command and all it has started.
    pub fn kill_all(mut self) {
        self.signal_all("KILL");
        let _ = self.child.wait();
    }

    fn signal_all(&self, name: &str) {
        send(name, &format!("-{}", self.child.id()));
    }
}

/// A test that fails leaves nothing that runs on beside the others.
impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let group = format!("-{}", self.child.id());
            let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).status();
        }
    }
}

fn send(name: &str, to: &str) {
    let status = Command::new("kill").args(["-s", name, "--", to]).status();
    assert!(status.is_ok_and(|status| status.success()), "{name} cannot be sent to {to}");
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// Asks again until something is so.
///
/// # Panics
///
/// If it does not become so in time.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
