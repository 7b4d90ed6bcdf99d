//! Checks what a session needs on this machine, and names the remedy for what is missing.
//!
//! A check looks and says what it found; it changes nothing and loads nothing. Everything is looked up
//! below a root directory, so that the checks are tested on directories made for them. A failure is
//! what keeps `apex run` from seeing CUDA calls; a warning costs something less.

use crate::find;
use crate::rings_place::free_bytes;
use crate::show::{bytes, counted};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Something is lost.
    Warn,
    /// A session would see nothing.
    Fail,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do; null if there is nothing to do.
    pub remedy: Option<String>,
}

/// Where to look.
pub struct Machine<'a> {
    /// Root of the file system.
    pub root: &'a Path,
    /// The environment.
    pub lookup: &'a dyn Fn(&str) -> Option<String>,
    /// The driver that the loader gives a program.
    pub driver: Option<PathBuf>,
    /// The shim.
    pub shim: Option<PathBuf>,
    /// The software GPU.
    pub softgpu: Option<PathBuf>,
    /// Where sessions are kept.
    pub sessions: Option<&'a Path>,
}

/// All checks in the order in which to read them.
#[must_use]
pub fn examine(machine: &Machine<'_>) -> Vec<Check> {
    let gpu = [driver_library(machine), kernel_module(machine), device_nodes(machine)];
    let usable = gpu.iter().all(|check| check.verdict != Verdict::Fail);
    let gpu = gpu.map(|check| if machine.softgpu.is_some() { check.not_needed() } else { check });
    let mut checks = vec![shim(machine), device(machine, usable)];
    checks.extend(gpu);
    checks.extend([
        softgpu(machine),
        container(machine),
        shared_memory(machine),
        state_directory(machine),
        preload(machine),
        mps(machine),
        mig(machine),
        cupti(machine),
        counters(machine),
        reach(),
    ]);
    checks
}

fn check(name: &'static str, verdict: Verdict, found: impl Into<String>) -> Check {
    Check { name, verdict, found: found.into(), remedy: None }
}

impl Check {
    /// A failure that keeps nobody from working.
    fn not_needed(mut self) -> Check {
        if self.verdict == Verdict::Fail {
            self.verdict = Verdict::Warn;
        }
        self
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Check {
        self.remedy = Some(remedy.into());
        self
    }
}

/// What `apex run` gives a program here.
fn device(machine: &Machine<'_>, gpu: bool) -> Check {
    match (gpu, &machine.softgpu) {
        (true, _) => check(
            "device",
            Verdict::Ok,
            "programs run on the GPU (--device soft: on the software GPU)",
        ),
        (false, Some(_)) => check(
            "device",
            Verdict::Ok,
            "no usable GPU, as the next lines say: programs run on the software GPU",
        ),
        (false, None) => {
            check("device", Verdict::Fail, "neither a usable GPU nor the software GPU")
                .remedy("mend what the next lines name, or build the software GPU")
        }
    }
}

fn softgpu(machine: &Machine<'_>) -> Check {
    match &machine.softgpu {
        Some(path) => check(
            "software GPU",
            Verdict::Ok,
            format!("{}; for the driver API and shared cudart", path.display()),
        ),
        None => {
            check("software GPU", Verdict::Warn, format!("{} is not beside apex", find::SOFTGPU))
                .remedy(find::REMEDY)
        }
    }
}

fn shim(machine: &Machine<'_>) -> Check {
    match &machine.shim {
        Some(path) => check("shim", Verdict::Ok, path.display().to_string()),
        None => check("shim", Verdict::Fail, format!("{} is not beside apex", find::SHIM))
            .remedy(find::REMEDY),
    }
}

fn driver_library(machine: &Machine<'_>) -> Check {
    match &machine.driver {
        Some(path) => check("driver library", Verdict::Ok, path.display().to_string()),
        None => check("driver library", Verdict::Fail, "the loader finds no libcuda.so.1").remedy(
            "install the NVIDIA driver; in a container start it with --gpus all; or put its directory in LD_LIBRARY_PATH",
        ),
    }
}

fn kernel_module(machine: &Machine<'_>) -> Check {
    let path = machine.root.join("proc/driver/nvidia/version");
    let text = fs::read_to_string(path).unwrap_or_default();
    match text.lines().next() {
        Some(line) => {
            let version =
                line.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
            check("kernel module", Verdict::Ok, format!("NVIDIA {}", version.unwrap_or(line)))
        }
        None => check("kernel module", Verdict::Fail, "the NVIDIA kernel module is not loaded")
            .remedy("load it with `modprobe nvidia`, or use a machine with a GPU"),
    }
}

fn device_nodes(machine: &Machine<'_>) -> Check {
    let entries = fs::read_dir(machine.root.join("dev")).into_iter().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("nvidia"))
        .collect();
    names.sort();
    let devices: Vec<&String> =
        names.iter().filter(|name| name["nvidia".len()..].parse::<u32>().is_ok()).collect();
    if devices.is_empty() {
        return check("device nodes", Verdict::Fail, "there is no /dev/nvidia0")
            .remedy("run `nvidia-modprobe`; in a container start it with --gpus all");
    }
    let refused: Vec<&str> = names
        .iter()
        .filter(|name| devices.contains(name) || *name == "nvidiactl")
        .filter(|name| {
            let path = machine.root.join("dev").join(name);
            fs::File::options().read(true).write(true).open(path).is_err()
        })
        .map(String::as_str)
        .collect();
    if refused.is_empty() {
        let found = counted(devices.len() as u64, "GPU device node", "GPU device nodes");
        return check("device nodes", Verdict::Ok, found);
    }
    check("device nodes", Verdict::Fail, format!("/dev/{} cannot be opened", refused.join(", /dev/")))
        .remedy("give the user read and write access (group video or render), or allow the device in the container")
}

fn container(machine: &Machine<'_>) -> Check {
    let cgroup = fs::read_to_string(machine.root.join("proc/1/cgroup")).unwrap_or_default();
    let words = ["docker", "kubepods", "containerd", "lxc", "libpod"];
    let named = words.iter().find(|word| cgroup.contains(*word)).copied();
    let marked = [".dockerenv", "run/.containerenv"];
    let marked = marked.iter().find(|name| machine.root.join(name).exists()).map(|_| "container");
    match named.or(marked) {
        Some(kind) => check("container", Verdict::Ok, format!("inside a container ({kind})")),
        None => check("container", Verdict::Ok, "not in a container"),
    }
}

fn shared_memory(machine: &Machine<'_>) -> Check {
    let free = free_bytes(&machine.root.join("dev/shm"));
    let found = format!("{} free in /dev/shm", bytes(free));
    if free >= 256 << 20 {
        check("shared memory", Verdict::Ok, found)
    } else {
        check("shared memory", Verdict::Warn, found + ": rings go to the session's directory").remedy(
            "start the container with --shm-size=1g, or lower APEX_RING_EVENTS for programs with many threads",
        )
    }
}

fn state_directory(machine: &Machine<'_>) -> Check {
    let name = "sessions";
    let Some(sessions) = machine.sessions else {
        return check(
            name,
            Verdict::Warn,
            "this user has no home directory: sessions are not kept",
        )
        .remedy("set APEX_STATE to a directory of yours, or use -o DIR");
    };
    let place = sessions.display();
    let existing = sessions.ancestors().find(|path| path.exists());
    if let Some(path) = existing.filter(|path| !path.is_dir()) {
        let found = format!("{} is no directory: sessions are not kept", path.display());
        return check(name, Verdict::Warn, found)
            .remedy("set APEX_STATE to a directory of yours, or use -o DIR");
    }
    let writable = existing
        .is_some_and(|path| nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok());
    if !writable {
        return check(
            name,
            Verdict::Warn,
            format!("{place} cannot be written: sessions are not kept"),
        )
        .remedy("set APEX_STATE to a directory of yours, or use -o DIR");
    }
    let free = existing.map_or(0, free_bytes);
    let found = format!("{place}, {} free", bytes(free));
    if free < 256 << 20 {
        return check(name, Verdict::Warn, found)
            .remedy("free some space, or set APEX_STATE to another disk");
    }
    check(name, Verdict::Ok, found)
}

fn preload(machine: &Machine<'_>) -> Check {
    match (machine.lookup)("LD_PRELOAD").filter(|value| !value.is_empty()) {
        None => check("preload", Verdict::Ok, "LD_PRELOAD is free"),
        Some(value) if value.contains("libcuda") => check(
            "preload",
            Verdict::Warn,
            format!("LD_PRELOAD has another driver library: {value}"),
        )
        .remedy("unset LD_PRELOAD: two libraries in the driver's place hide calls from each other"),
        Some(value) => {
            check("preload", Verdict::Ok, format!("LD_PRELOAD is kept behind the shim: {value}"))
        }
    }
}

fn mps(machine: &Machine<'_>) -> Check {
    let pipe = (machine.lookup)("CUDA_MPS_PIPE_DIRECTORY").unwrap_or("/tmp/nvidia-mps".into());
    let control = machine.root.join(pipe.trim_start_matches('/')).join("control");
    if control.exists() {
        check(
            "MPS",
            Verdict::Ok,
            format!(
                "a multi-process service listens in {pipe}; GPU times include its other clients"
            ),
        )
    } else {
        check("MPS", Verdict::Ok, "no multi-process service")
    }
}

fn mig(machine: &Machine<'_>) -> Check {
    let gpus =
        fs::read_dir(machine.root.join("proc/driver/nvidia/capabilities")).into_iter().flatten();
    let instances = gpus
        .filter_map(|gpu| fs::read_dir(gpu.ok()?.path().join("mig")).ok())
        .flatten()
        .filter(|entry| {
            entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("gi"))
        })
        .count() as u64;
    match instances {
        0 => check("MIG", Verdict::Ok, "no multi-instance GPU"),
        count => check(
            "MIG",
            Verdict::Ok,
            format!(
                "{}; busy shares are those of the instance",
                counted(count, "GPU instance", "GPU instances")
            ),
        ),
    }
}

fn cupti(machine: &Machine<'_>) -> Check {
    match find::cupti(machine.lookup) {
        Some(path) => check("CUPTI", Verdict::Ok, path.display().to_string()),
        None => check(
            "CUPTI",
            Verdict::Warn,
            "no libcupti.so: --timing full is not possible, sampled timing is",
        )
        .remedy("set CUDA_HOME to a toolkit, or `pip install nvidia-cuda-cupti`"),
    }
}

fn counters(machine: &Machine<'_>) -> Check {
    let text =
        fs::read_to_string(machine.root.join("proc/driver/nvidia/params")).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"));
    match value.map(str::trim) {
        Some("1") => check(
            "permissions",
            Verdict::Ok,
            "hardware counters are for administrators only; apex needs none",
        ),
        Some(_) => check(
            "permissions",
            Verdict::Ok,
            "hardware counters are open to all users; apex needs none",
        ),
        None => check("permissions", Verdict::Ok, "apex needs no privilege"),
    }
}

fn reach() -> Check {
    check(
        "reach",
        Verdict::Ok,
        "static and shared cudart are both seen; fully static programs, setuid programs and `env -i` escape",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examine_in(root: &Path, environment: &[(&str, &str)]) -> Vec<Check> {
        let lookup = |name: &str| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        examine(&Machine {
            root,
            lookup: &lookup,
            driver: None,
            shim: None,
            softgpu: None,
            sessions: Some(root),
        })
    }

    fn verdict(checks: &[Check], name: &str) -> (Verdict, String) {
        let check = checks.iter().find(|check| check.name == name).unwrap();
        (check.verdict, check.found.clone())
    }

    #[test]
    fn an_empty_machine_fails_with_remedies() {
        let root = tempfile::tempdir().unwrap();
        let checks = examine_in(root.path(), &[]);
        for check in checks.iter().filter(|check| check.verdict != Verdict::Ok) {
            assert!(check.remedy.is_some(), "{} has no remedy", check.name);
        }
        for name in ["shim", "device", "driver library", "kernel module", "device nodes"] {
            assert_eq!(verdict(&checks, name).0, Verdict::Fail, "{name}");
        }
    }

    #[test]
    fn without_a_gpu_the_software_gpu_is_enough() {
        let root = tempfile::tempdir().unwrap();
        let checks = examine(&Machine {
            root: root.path(),
            lookup: &|_| None,
            driver: None,
            shim: Some("/x/libapex_shim.so".into()),
            softgpu: Some("/x/libapex_softgpu.so".into()),
            sessions: Some(root.path()),
        });
        assert!(checks.iter().all(|check| check.verdict != Verdict::Fail), "{checks:?}");
        assert!(verdict(&checks, "device").1.contains("software GPU"));
        assert_eq!(verdict(&checks, "device nodes").0, Verdict::Warn);
    }

    #[test]
    fn a_file_holds_no_sessions() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        for sessions in [file.clone(), file.join("below")] {
            let machine = Machine {
                root: root.path(),
                lookup: &|_| None,
                driver: None,
                shim: None,
                softgpu: None,
                sessions: Some(&sessions),
            };
            let (verdict, found) = verdict(&examine(&machine), "sessions");
            assert_eq!(verdict, Verdict::Warn);
            assert_eq!(found, format!("{} is no directory: sessions are not kept", file.display()));
        }
    }

    #[test]
    fn a_machine_is_read() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  x\n",
        );
        write("proc/driver/nvidia/params", "A: 0\nRmProfilingAdminOnly: 1\n");
        write("proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "");
        write("dev/nvidia0", "");
        write("dev/nvidiactl", "");
        write("dev/nvidia-uvm", "");
        write("proc/1/cgroup", "0::/kubepods/x\n");
        write("tmp/nvidia-mps/control", "");
        let checks = examine_in(root.path(), &[("LD_PRELOAD", "/x/libcuda.so.1")]);
        assert_eq!(verdict(&checks, "kernel module"), (Verdict::Ok, "NVIDIA 580.159.04".into()));
        assert_eq!(verdict(&checks, "device nodes"), (Verdict::Ok, "1 GPU device node".into()));
        assert!(verdict(&checks, "container").1.contains("kubepods"));
        assert!(verdict(&checks, "MPS").1.contains("listens"));
        assert!(verdict(&checks, "MIG").1.starts_with("1 GPU instance;"));
        assert_eq!(verdict(&checks, "preload").0, Verdict::Warn);
        assert!(verdict(&checks, "permissions").1.contains("administrators"));
    }
}
