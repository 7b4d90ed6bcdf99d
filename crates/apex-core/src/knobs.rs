//! Every setting of apex: its name, type, default, environment variable and one line of help.
//!
//! The table makes the struct, the reader of the environment, the help and `docs/knobs.md`. Nothing else in
//! apex reads the environment. A value that cannot be understood is reported and its default used:
//! a typing error must not keep a program from running. What is marked `internal` one part of apex tells another,
//! or a test tells it: users neither need it nor see it.

mod bytes;
mod capability;
mod fast;
mod unknown;

use crate::small_file::{self, read_text};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub use bytes::Bytes;
pub use capability::Capability;
pub use fast::Fast;

macro_rules! knobs {
    ($($(#[doc = $help:literal])+ $name:ident: $type:ty = $default:expr, $variable:literal $(, $internal:ident)?;)+) => {
        /// All settings of one process.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Knobs { $($(#[doc = $help])+ pub $name: $type,)+ }

        impl Default for Knobs {
            fn default() -> Knobs { Knobs { $($name: $default,)+ } }
        }

        impl Knobs {
            /// Reads every knob by its variable through `lookup`; hands what it cannot understand,
            /// as one sentence each, to `complain`.
            pub fn read(
                mut lookup: impl FnMut(&str) -> Option<String>,
                mut complain: impl FnMut(String),
            ) -> Knobs {
                let mut knobs = Knobs::default();
                $(if let Some(text) = lookup($variable) {
                    match <$type as Value>::parse(&text) {
                        Ok(value) => knobs.$name = value,
                        Err(wanted) => complain(format!(
                            "{}={text} is not {wanted}; the default {} is used",
                            $variable, Value::show(&knobs.$name),
                        )),
                    }
                })+
                knobs
            }

            /// Reads every knob through `lookup`, and what it does not say from the file that it names as
            /// `APEX_CONFIG`: how a container is told without changing its command.
            pub fn read_with_file(
                mut lookup: impl FnMut(&str) -> Option<String>,
                mut complain: impl FnMut(String),
            ) -> Knobs {
                let text = config(&mut lookup, &mut complain);
                Knobs::read(|name| lookup(name).or_else(|| from_file(&text, name)), complain)
            }

            /// Reads what a program's process is told. Under `apex run` it complains of nothing: that command has, once
            /// for all processes of the program.
            pub fn of_program(
                mut lookup: impl FnMut(&str) -> Option<String>,
                mut complain: impl FnMut(String),
            ) -> Knobs {
                let is_told = lookup("APEX_RINGS").is_some();
                let complain = |sentence| if !is_told { complain(sentence) };
                Knobs::read_with_file(lookup, complain)
            }

            /// Reads the environment of this process, which is a program's.
            pub fn from_environment(complain: impl FnMut(String)) -> Knobs {
                Knobs::of_program(|name| std::env::var(name).ok(), complain)
            }

            /// Reads the environment of a command of apex: names that are none are complained about too.
            pub fn of_command(mut complain: impl FnMut(String)) -> Knobs {
                let mut lookup = |name: &str| std::env::var(name).ok();
                let text = config(&mut lookup, &mut complain);
                let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
                let names: Vec<String> = names.collect();
                let written = lines(&text).map(|(name, _)| name);
                unknown::unknown(names.iter().map(String::as_str).chain(written))
                    .into_iter()
                    .for_each(&mut complain);
                Knobs::read(|name| lookup(name).or_else(|| from_file(&text, name)), complain)
            }
        }

        /// Every knob: variable, default, help.
        #[must_use]
        pub fn list() -> Vec<Knob> {
            let defaults = Knobs::default();
            vec![$(Knob {
                variable: $variable,
                default: Value::show(&defaults.$name),
                help: concat!($($help),+).trim(),
                is_internal: !stringify!($($internal)?).is_empty(),
            }),+]
        }
    };
}

knobs! {
    /// 0 switches apex off: every call goes to the driver as if apex were absent.
    enabled: bool = true, "APEX";
    /// Directory in which a session's processes put their rings; set by `apex run`.
    rings: Option<PathBuf> = None, "APEX_RINGS", internal;
    /// Absolute path of the real driver library; set by `apex run`.
    real_libcuda: Option<PathBuf> = None, "APEX_REAL_LIBCUDA";
    /// What `apex run` gives a program: gpu, soft (the software GPU), or auto (a GPU if there is one).
    device: DeviceChoice = DeviceChoice::Auto, "APEX_DEVICE";
    /// Directory of what stands in for NVIDIA's libraries and programs; set by `apex run` with the software GPU.
    stand_ins: Option<PathBuf> = None, "APEX_STAND_INS", internal;
    /// How GPU times are taken: off, sampled (event pairs under a budget) or full (CUPTI).
    timing: Timing = Timing::Sampled, "APEX_TIMING";
    /// Share of a program's time that sampling may take, in per cent.
    sampling_percent: f64 = 0.25, "APEX_SAMPLING_PERCENT";
    /// Absolute path of CUPTI's library for full timing; set by `apex run` where it finds one.
    cupti: Option<PathBuf> = None, "APEX_CUPTI";
    /// 1 records the pointers that launches pass and digests of what is uploaded too; set by `apex run --mode advise`.
    detail: bool = false, "APEX_DETAIL", internal;
    /// 0 neither uses nor keeps what was measured of kernels in other runs; see `apex history`.
    history: bool = true, "APEX_HISTORY";
    /// Seconds that the end of a session with advice may read the code of kernels and walk through it.
    code_seconds: f64 = 10.0, "APEX_CODE_SECONDS";
    /// Events that one thread's ring holds; a power of two.
    ring_events: u64 = 32768, "APEX_RING_EVENTS";
    /// What the program is to others on its GPU: latency, normal or batch; without it nothing is scheduled.
    class: Option<String> = None, "APEX_CLASS";
    /// Latency that the scheduler holds for this program, such as p95=10ms.
    sla: Option<String> = None, "APEX_SLA";
    /// Weight of this program among those of its class.
    share: f64 = 1.0, "APEX_SHARE";
    /// How programs share a GPU: none, priority, deadline, fair or adaptive; the controller's own decides.
    policy: Option<String> = None, "APEX_POLICY";
    /// File to which whoever leads adds what the policy sees and believes, a line of JSON each.
    schedule_log: Option<PathBuf> = None, "APEX_SCHEDULE_LOG";
    /// 1 gives the launches of a latency program the highest priority; set by `apex run` under MPS.
    launch_priority: bool = false, "APEX_LAUNCH_PRIORITY", internal;
    /// 0 holds launches of a program that yields in the program alone; by default the GPU itself waits where it can, and the program runs ahead.
    fences: bool = true, "APEX_FENCES";
    /// Directory in which programs that share a GPU find each other; by default apex-gate in the user's runtime directory.
    gate: Option<PathBuf> = None, "APEX_GATE";
    /// File of lines such as APEX_CLASS=batch, for what the environment does not say.
    config: Option<PathBuf> = None, "APEX_CONFIG";
    /// For apex's own tests: panic-in-record makes a part of it fail, slow-clock has it spare the clock, short-grid drops a block of every reshaped launch.
    fault: Option<String> = None, "APEX_FAULT", internal;
    /// What makes the program faster: launch, memory, specialise, overlap, with commas, or all (the first two); with strict each call waits for the driver's answer. Set by `apex run --fast`.
    fast: Fast = Fast::default(), "APEX_FAST";
    /// The driver's own setting, set where each launch is to wait for its kernel: then none waits in a queue.
    launch_blocking: Option<String> = None, "CUDA_LAUNCH_BLOCKING", internal;
    /// File of what launches cost the driver here; set by `apex run --fast` where `apex bench launch --calibrate` has made one.
    launch_costs: Option<PathBuf> = None, "APEX_LAUNCH_COSTS", internal;
    /// File of what kernels are to be run with instead; set by `apex run --tuning`.
    tuning: Option<PathBuf> = None, "APEX_TUNING", internal;
    /// Directory for what comes out of kernels and for their code; set by `apex tune`.
    outputs: Option<PathBuf> = None, "APEX_OUTPUTS", internal;
    /// 0 leaves code for newer chips to the driver, which refuses it; by default its PTX is brought down to the GPU that is there.
    compatibility: bool = true, "APEX_COMPATIBILITY";
    /// Compute capability that programs are told, such as 12.0, for those that refuse older devices at their start; limits stay the device's own.
    device_capability: Option<Capability> = None, "APEX_DEVICE_CAPABILITY";
    /// Directory of PTX that was brought down; by default apex/lowered in the user's cache directory.
    compatibility_cache: Option<PathBuf> = None, "APEX_COMPATIBILITY_CACHE";
    /// Directory of which kernels `--fast=specialise` found worth to be compiled again; by default apex/specialised in the user's cache directory.
    specialise_cache: Option<PathBuf> = None, "APEX_SPECIALISE_CACHE";
    /// The user's cache directory, as the system knows it.
    cache_home: Option<PathBuf> = None, "XDG_CACHE_HOME", internal;
    /// The user's own directory, as the system knows it.
    home: Option<PathBuf> = None, "HOME", internal;
    /// Directory of the predictor's models; by default `models` beside the executable.
    models: Option<PathBuf> = None, "APEX_MODELS";
    /// 1 keeps predictions of launches inside the program, where a scheduler can ask for them, 0 never does; by default programs with a class have them.
    predict: Option<bool> = None, "APEX_PREDICT";
    /// Directory of the kept sessions; by default apex/sessions in the user's state directory.
    state: Option<PathBuf> = None, "APEX_STATE";
    /// Sessions kept; the oldest goes first.
    sessions_kept: u64 = 50, "APEX_SESSIONS_KEPT";
    /// Bytes that all kept sessions may take together; the oldest goes first.
    sessions_bytes: Bytes = Bytes(4 << 30), "APEX_SESSIONS_BYTES";
    /// What the software GPU says it is: h200, a100, rtx4090, l4, t4, b200 or rtx5090.
    softgpu_device: String = "h200".into(), "APEX_SOFTGPU_DEVICE";
    /// How many devices the software GPU has, 64 at most; 0 is a machine without any.
    softgpu_devices: u64 = 1, "APEX_SOFTGPU_DEVICES";
    /// 1 has the software GPU refuse PTX for a newer chip or of a newer version, as a GPU does; by default it runs it.
    softgpu_strict: bool = false, "APEX_SOFTGPU_STRICT";
    /// Bytes of memory each software device has; 0 is as much as the machine has free, at most what the device would have.
    softgpu_memory: Bytes = Bytes(0), "APEX_SOFTGPU_MEMORY";
    /// Threads that execute kernels on the software GPU; 0 is one per processor.
    softgpu_workers: u64 = 0, "APEX_SOFTGPU_WORKERS";
    /// 1 checks every access of kernels on the software GPU: bounds, races, uninitialised reads, divergent barriers.
    softgpu_checked: bool = false, "APEX_SOFTGPU_CHECKED";
    /// 0 runs kernels on the software GPU in the reference tier only.
    softgpu_jit: bool = true, "APEX_SOFTGPU_JIT";
    /// What event times on the software GPU tell: wall (the machine's clock) or virtual (a model's, the same in every run).
    softgpu_clock: Clock = Clock::Wall, "APEX_SOFTGPU_CLOCK";
    /// 1 lets the software GPU name driver functions that it lacks and modules that it cannot load, on stderr.
    softgpu_verbose: bool = false, "APEX_SOFTGPU_VERBOSE";
    /// Directory that gets a folder for each kernel of the software GPU: what it is after each pass of lowering and compiling.
    softgpu_dump: Option<PathBuf> = None, "APEX_SOFTGPU_DUMP";
    /// Path of the software GPU's library for programs that use apex-exec; by default it is looked for beside the program.
    softgpu_library: Option<PathBuf> = None, "APEX_SOFTGPU_LIBRARY";
    /// Directory of the compiled kernels that apex-exec keeps; by default apex/kernels in the user's cache directory.
    kernel_cache: Option<PathBuf> = None, "APEX_KERNEL_CACHE";
    /// Bytes that the kept kernels may take; the oldest go first, and 0 keeps none.
    kernel_cache_bytes: Bytes = Bytes(256 << 20), "APEX_KERNEL_CACHE_BYTES";
}

/// The text of the file of settings, if one is named.
fn config(
    lookup: &mut impl FnMut(&str) -> Option<String>,
    complain: &mut impl FnMut(String),
) -> String {
    let Some(path) = lookup("APEX_CONFIG").filter(|path| !path.is_empty()) else {
        return String::new();
    };
    read_text(Path::new(&path), small_file::WRITTEN).unwrap_or_else(|error| {
        complain(format!("APEX_CONFIG={path} is not read: {error}"));
        String::new()
    })
}

/// The lines `NAME=value` of a file; what begins with `#` is a remark.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.trim(), value.trim()))
}

/// The value of a variable in a file.
fn from_file(text: &str, name: &str) -> Option<String> {
    lines(text).find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}

/// What event times on the software GPU tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    Wall,
    /// A model of instructions and bytes.
    Virtual,
}

/// How GPU times are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// Not at all.
    Off,
    /// Event pairs around some launches, under a budget.
    #[default]
    Sampled,
    /// Every kernel, from CUPTI's activity records.
    Full,
}

/// Which device a program is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The GPU if there is one, else the software GPU.
    #[default]
    Auto,
    /// The software GPU.
    Soft,
    /// The GPU, or none.
    Gpu,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Environment variable.
    pub variable: &'static str,
    /// Default, as text.
    pub default: String,
    /// One line of help.
    pub help: &'static str,
    /// Whether it is no matter of users.
    pub is_internal: bool,
}

/// The page `docs/knobs.md`.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(
        "# Settings\n\nMade by `cargo xtask docs` from `crates/apex-core/src/knobs.rs`.\n\n\
         | variable | default | what it does |\n|---|---|---|\n",
    );
    for Knob { variable, default, help, .. } in list().iter().filter(|knob| !knob.is_internal) {
        let _ = writeln!(page, "| `{variable}` | {default} | {help} |");
    }
    page
}

/// A type that a knob can have.
trait Value: Sized {
    fn parse(text: &str) -> Result<Self, &'static str>;
    fn show(&self) -> String;
}

impl Value for bool {
    fn parse(text: &str) -> Result<bool, &'static str> {
        match text {
            "1" | "true" | "on" | "yes" => Ok(true),
            "0" | "false" | "off" | "no" => Ok(false),
            _ => Err("0 or 1"),
        }
    }
    fn show(&self) -> String {
        u8::from(*self).to_string()
    }
}

impl Value for Option<bool> {
    fn parse(text: &str) -> Result<Option<bool>, &'static str> {
        if text.is_empty() { Ok(None) } else { bool::parse(text).map(Some) }
    }
    fn show(&self) -> String {
        self.as_ref().map_or("none".into(), Value::show)
    }
}

impl Value for u64 {
    fn parse(text: &str) -> Result<u64, &'static str> {
        text.parse().map_err(|_| "a whole number")
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for f64 {
    fn parse(text: &str) -> Result<f64, &'static str> {
        let number: f64 = text.parse().map_err(|_| "a number")?;
        if number.is_finite() && number >= 0.0 { Ok(number) } else { Err("a number from 0 up") }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for Option<PathBuf> {
    fn parse(text: &str) -> Result<Option<PathBuf>, &'static str> {
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }
    fn show(&self) -> String {
        self.as_ref().map_or("none".into(), |path| path.display().to_string())
    }
}

impl Value for Option<String> {
    fn parse(text: &str) -> Result<Option<String>, &'static str> {
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }
    fn show(&self) -> String {
        self.clone().unwrap_or("none".into())
    }
}

impl Value for String {
    fn parse(text: &str) -> Result<String, &'static str> {
        if text.is_empty() { Err("a name") } else { Ok(text.to_owned()) }
    }
    fn show(&self) -> String {
        self.clone()
    }
}

impl Value for Clock {
    fn parse(text: &str) -> Result<Clock, &'static str> {
        match text {
            "wall" => Ok(Clock::Wall),
            "virtual" => Ok(Clock::Virtual),
            _ => Err("wall or virtual"),
        }
    }
    fn show(&self) -> String {
        match self {
            Clock::Wall => "wall".into(),
            Clock::Virtual => "virtual".into(),
        }
    }
}

impl Timing {
    /// The word for it on the command line and in the environment.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Timing::Off => "off",
            Timing::Sampled => "sampled",
            Timing::Full => "full",
        }
    }
}

impl Value for Timing {
    fn parse(text: &str) -> Result<Timing, &'static str> {
        [Timing::Off, Timing::Sampled, Timing::Full]
            .into_iter()
            .find(|timing| timing.word() == text)
            .ok_or("off, sampled or full")
    }
    fn show(&self) -> String {
        self.word().into()
    }
}

impl DeviceChoice {
    /// The word for it on the command line and in the environment.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            DeviceChoice::Auto => "auto",
            DeviceChoice::Soft => "soft",
            DeviceChoice::Gpu => "gpu",
        }
    }
}

impl Value for DeviceChoice {
    fn parse(text: &str) -> Result<DeviceChoice, &'static str> {
        [DeviceChoice::Auto, DeviceChoice::Soft, DeviceChoice::Gpu]
            .into_iter()
            .find(|choice| choice.word() == text)
            .ok_or("auto, soft or gpu")
    }
    fn show(&self) -> String {
        self.word().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_and_nonsense_is_reported() {
        let mut complaints = Vec::new();
        let lookup = |name: &str| match name {
            "APEX_TIMING" => Some("full".into()),
            "APEX_RING_EVENTS" => Some("many".into()),
            "APEX" => Some("0".into()),
            _ => None,
        };
        let knobs = Knobs::read(lookup, |sentence| complaints.push(sentence));
        assert_eq!(knobs.timing, Timing::Full);
        assert!(!knobs.enabled);
        assert_eq!(knobs.ring_events, 32768);
        assert_eq!(
            complaints,
            ["APEX_RING_EVENTS=many is not a whole number; the default 32768 is used"]
        );
    }

    #[test]
    fn a_file_says_what_the_environment_does_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("knobs");
        std::fs::write(&path, "# for the cluster\nAPEX_CLASS = batch\nAPEX_SHARE=0.5\n").unwrap();
        let lookup = |name: &str| match name {
            "APEX_CONFIG" => Some(path.display().to_string()),
            "APEX_SHARE" => Some("0.7".into()),
            _ => None,
        };
        let knobs = Knobs::read_with_file(lookup, |sentence| panic!("{sentence}"));
        assert_eq!((knobs.class.as_deref(), knobs.share), (Some("batch"), 0.7));
        std::fs::remove_file(&path).ok();
        let mut complaints = 0;
        let gone = Knobs::read_with_file(lookup, |_| complaints += 1);
        assert_eq!((gone.class, complaints), (None, 1));
    }

    #[test]
    fn a_device_that_never_ends_is_no_file_of_settings() {
        let lookup = |name: &str| (name == "APEX_CONFIG").then(|| "/dev/zero".to_owned());
        let mut complaints = Vec::new();
        Knobs::read_with_file(lookup, |sentence| complaints.push(sentence));
        assert_eq!(complaints, ["APEX_CONFIG=/dev/zero is not read: it is not a regular file"]);
    }

    #[test]
    fn under_apex_run_a_program_complains_of_nothing() {
        let complaints = |rings: Option<&str>| {
            let lookup = |name: &str| match name {
                "APEX_RINGS" => rings.map(str::to_owned),
                "APEX_TIMING" => Some("fast".into()),
                _ => None,
            };
            let mut count = 0;
            Knobs::of_program(lookup, |_| count += 1);
            count
        };
        assert_eq!((complaints(None), complaints(Some("/rings"))), (1, 0));
    }

    #[test]
    fn the_page_of_users_has_nothing_internal() {
        let page = page();
        for knob in list() {
            let stands = page.contains(&format!("`{}`", knob.variable));
            assert_eq!(stands, !knob.is_internal, "{}", knob.variable);
        }
        assert!(!page.contains("APEX_FAULT") && page.contains("4GiB"));
    }

    #[test]
    fn every_knob_has_its_own_variable_and_help() {
        let knobs = list();
        for knob in &knobs {
            // What is internal may be another's, such as the driver's.
            assert!(knob.variable.starts_with("APEX") || knob.is_internal);
            assert!(knob.help.ends_with('.') && !knob.help.contains('\n'), "{}", knob.variable);
            assert_eq!(knobs.iter().filter(|other| other.variable == knob.variable).count(), 1);
        }
    }
}
