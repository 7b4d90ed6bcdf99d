//! One run of the program for `apex tune`: recorded, with what came out of it.
//!
//! Standard output goes to a file and is compared by its bytes; standard input is empty, because a program that is
//! run a dozen times must read the same each time.

use crate::device::{self, Driver};
use crate::environment;
use anyhow::{Context, Result, bail};
use apex_bench::child::ends_with_us;
use apex_core::knobs::Timing;
use apex_core::outputs::{self, Outputs};
use apex_core::time::wall_nanos;
use apex_core::tuning::Tuning;
use apex_daemon::find;
use apex_daemon::known::Known;
use apex_daemon::progress::Progress;
use apex_daemon::recording::Recording;
use apex_daemon::scratch::Scratch;
use apex_daemon::session::new_id;
use apex_daemon::speech::say;
use apex_daemon::summary::{Exit, Summary};
use apex_daemon::user_setup::{UserSetup, own_executable};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Share of the program's time that timing may take in a trial: all of it, so that no kernel goes untimed because
/// the machine was busy when its turn came.
const SAMPLING_PERCENT: &str = "100";
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// Runs the same program again and again.
pub(crate) struct Trials<'a> {
    setup: &'a UserSetup,
    command: &'a [OsString],
    shim: PathBuf,
    driver: Driver,
    folder: Scratch,
    count: u32,
    progress: Progress,
    purpose: String,
}

/// What one run left.
pub(crate) struct Ran {
    pub(crate) summary: Summary,
    pub(crate) known: Known,
    pub(crate) outputs: Outputs,
    pub(crate) stdout: Vec<u8>,
    pub(crate) exit: Exit,
    /// Where images of code lie, by their hash.
    pub(crate) images: PathBuf,
}

impl<'a> Trials<'a> {
    /// Prepares; `folder` is for everything that is written.
    pub(crate) fn new(
        setup: &'a UserSetup,
        command: &'a [OsString],
        choice: Option<apex_bench::arguments::DeviceWord>,
        folder: Scratch,
    ) -> Result<Trials<'a>> {
        let executable = own_executable().context("apex cannot find its own executable")?;
        let Some(shim) = find::shim(&executable) else {
            bail!("{} is not beside {}", find::SHIM, executable.display());
        };
        let choice = choice.map_or(setup.knobs.device, Into::into);
        let driver = device::choose(&setup.knobs, choice, &executable);
        if let Some(sentence) = driver.sentence() {
            say(&sentence);
        }
        let (progress, purpose) = (Progress::on_stderr(), String::new());
        Ok(Trials { setup, command, shim, driver, folder, count: 0, progress, purpose })
    }

    /// How often the program was run.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// What the next runs are for.
    pub(crate) fn begin(&mut self, purpose: String) {
        self.purpose = purpose;
    }

    /// Runs the program once with a tuning.
    pub(crate) fn run(&mut self, tuning: &Tuning) -> Result<Ran> {
        self.count += 1;
        self.progress.step(&format!("{}: run {} of the program", self.purpose, self.count), 1, 1);
        let own = self.folder.path().join(format!("run-{}", self.count));
        fs::create_dir(&own).with_context(|| format!("{} cannot be made", own.display()))?;
        let id = new_id(wall_nanos(), std::process::id());
        let rings = Scratch::rings(&self.setup.rings_places, &own, &id)
            .context("there is no place for the rings")?;
        let rings = rings.path();
        let variables = environment::variables(
            &self.setup.knobs,
            Timing::Sampled,
            rings,
            &self.shim,
            &self.driver,
            self.command,
        )
        .with_context(|| format!("{} cannot be prepared", rings.display()))?;
        let mut command = Command::new(self.command.first().cloned().unwrap_or_default());
        ends_with_us(&mut command);
        command.args(self.command.iter().skip(1)).envs(variables);
        command.env("APEX_OUTPUTS", &own).env("APEX_SAMPLING_PERCENT", SAMPLING_PERCENT);
        if tuning.is_empty() {
            command.env_remove("APEX_TUNING");
        } else {
            let lines = own.join("tuning");
            fs::write(&lines, tuning.text())
                .with_context(|| format!("{} cannot be written", lines.display()))?;
            command.env("APEX_TUNING", lines);
        }
        let (stdout, stderr) = (own.join("stdout"), own.join("stderr"));
        let file = |path: &Path| {
            File::create(path).with_context(|| format!("{} cannot be written", path.display()))
        };
        command.stdin(Stdio::null()).stdout(file(&stdout)?).stderr(file(&stderr)?);
        let words: Vec<String> =
            self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let mut recording = Recording::start(rings, None, &id, &words);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                bail!("{} cannot be executed: {error}", command.get_program().to_string_lossy());
            }
        };
        let status = loop {
            let wait = recording.look();
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::sleep(wait.min(LONGEST_LOOK));
        };
        recording.look();
        let known = recording.known().clone();
        let exit = crate::supervise::exit_of(status);
        let (summary, _) = recording.finish(Some(exit));
        let outputs = outputs::read_all(&own)?;
        Ok(Ran { summary, known, outputs, stdout: fs::read(&stdout)?, exit, images: own })
    }
}

impl Ran {
    /// What the program said to the user when it failed, shortened.
    pub(crate) fn complaint(&self) -> String {
        let text = fs::read_to_string(self.images.join("stderr")).unwrap_or_default();
        let last: Vec<&str> = text.lines().rev().take(3).collect();
        last.into_iter().rev().collect::<Vec<_>>().join("; ")
    }

    /// Mean GPU time of a kernel in nanoseconds, and how it was taken.
    pub(crate) fn time(&self, mangled: &str) -> Option<(f64, &str)> {
        let kernel = self.summary.kernels.iter().find(|kernel| kernel.mangled == mangled)?;
        let gpu = kernel.gpu.as_ref()?;
        Some((gpu.mean_ns, &gpu.basis))
    }
}
