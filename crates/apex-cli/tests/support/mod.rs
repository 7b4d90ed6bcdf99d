//! A copy of `apex` with places of its own, and a made-up program for it to run.
//!
//! The program is the test executable itself: started under `apex run` it finds its ring directory in the
//! environment and writes what the shim would write. In the shim's place lies the C library, which every
//! program has loaded anyway.

#[path = "../../../apex-daemon/tests/synthetic/mod.rs"]
#[allow(dead_code, reason = "the tests of apex-daemon use all of it")]
mod synthetic;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use synthetic::Program;

/// An `apex` with its own state and ring directories.
pub(crate) struct Apex {
    pub(crate) root: tempfile::TempDir,
}

impl Apex {
    pub(crate) fn with_shim() -> Apex {
        let apex = Apex::without_shim();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let library = maps.lines().find(|line| line.ends_with("libc.so.6")).unwrap();
        let library = &library[library.find('/').unwrap()..];
        symlink(library, apex.path("libapex_shim.so")).unwrap();
        apex
    }

    pub(crate) fn without_shim() -> Apex {
        let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let runtime = root.path().join("runtime");
        fs::create_dir(&runtime).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
        // A link, not a copy: a file that another thread's child still holds open for writing
        // cannot be executed.
        fs::hard_link(env!("CARGO_BIN_EXE_apex"), root.path().join("apex")).unwrap();
        Apex { root }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// `apex` with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("apex"));
        command.args(arguments);
        for name in ["APEX", "APEX_RINGS", "APEX_REAL_LIBCUDA", "LD_PRELOAD", "LD_LIBRARY_PATH"] {
            command.env_remove(name);
        }
        command.env("XDG_RUNTIME_DIR", self.path("runtime")).env("APEX_STATE", self.path("state"));
        command
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs the made-up program under `apex run`.
    pub(crate) fn run_program(&self, options: &[&str]) -> Output {
        let exe = std::env::current_exe().unwrap();
        let mut arguments = vec!["run"];
        arguments.extend(options);
        arguments.extend(["--", exe.to_str().unwrap()]);
        arguments.extend(PROGRAM);
        self.output(&arguments)
    }
}

/// Arguments with which a test executable becomes the made-up program.
pub(crate) const PROGRAM: [&str; 3] = ["--exact", "the_program", "--nocapture"];

/// Set for the made-up program: it works, waits until this file exists, and works once more.
pub(crate) const WAIT_FOR: &str = "TEST_PROGRAM_WAITS_FOR";

/// The made-up program; every test file that uses it has a test `the_program` that calls this.
pub(crate) fn program() {
    let Ok(rings) = std::env::var("APEX_RINGS") else { return };
    let name = format!("{}-0", std::process::id());
    let mut program = Program::start(Path::new(&rings), &name, 1024);
    program.work();
    if let Some(file) = std::env::var_os(WAIT_FOR) {
        wait_for(Path::new(&file));
        for _ in 0..7 {
            program.launch(2);
        }
    }
}

/// Waits until a file exists.
pub(crate) fn wait_for(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(240);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
