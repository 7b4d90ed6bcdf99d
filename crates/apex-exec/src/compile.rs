//! CUDA C++ to PTX, through NVRTC, with what was compiled before kept on disk.
//!
//! The compiler is called only for what the cache does not have; the cache's key holds everything that decides
//! about the result: source, options, compiler, architecture and headers. NVRTC's log comes back word for word
//! in the error.

use crate::cache;
use crate::error::{Error, Result};
use crate::libraries::{self, Companion};
use crate::nvrtc;
use core::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The architecture that PTX is kept for: every newer GPU runs it.
const KEPT_ARCHITECTURE: &str = "compute_80";

/// How a source is compiled.
///
/// ```
/// use apex_exec::CompileOptions;
///
/// let options = CompileOptions::default().define("TILE", "32").flag("--maxrregcount=64");
/// assert!(!options.fast_math);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompileOptions {
    /// Architecture such as `compute_90a`; that of the device where there is none.
    pub architecture: Option<String>,
    /// Names defined for the preprocessor, with their values.
    pub defines: Vec<(String, String)>,
    /// Folders in which `#include` looks, before CUDA's own headers.
    pub include_folders: Vec<PathBuf>,
    /// Whether accuracy may be given up for speed (`--use_fast_math`).
    pub fast_math: bool,
    /// Further flags of NVRTC, as they are.
    pub flags: Vec<String>,
}

impl CompileOptions {
    /// What the leading comment lines of a source ask of the compiler, as [`crate::KeptSource`] has them.
    ///
    /// ```
    /// # use apex_exec::CompileOptions;
    /// let options = CompileOptions::of_source("// keep: flag --restrict\nint x;");
    /// assert_eq!(options.flags, ["--restrict"]);
    /// ```
    #[must_use]
    pub fn of_source(source: &str) -> CompileOptions {
        let mut options = CompileOptions::default();
        let lines = source.lines().map(str::trim);
        let comments = lines.take_while(|line| line.is_empty() || line.starts_with("//"));
        for line in comments.filter_map(|line| line.strip_prefix("// keep: ")) {
            match line.split_once(' ') {
                Some(("architecture", name)) => options.architecture = Some(name.trim().into()),
                Some(("flag", flag)) => options.flags.push(flag.trim().into()),
                _ => {}
            }
        }
        options
    }

    /// The same with a name defined for the preprocessor.
    ///
    /// ```
    /// # use apex_exec::CompileOptions;
    /// assert_eq!(CompileOptions::default().define("N", "4").defines, [("N".into(), "4".into())]);
    /// ```
    #[must_use]
    pub fn define(mut self, name: &str, value: &str) -> CompileOptions {
        self.defines.push((name.into(), value.into()));
        self
    }

    /// The same with one more folder for `#include`.
    ///
    /// ```
    /// # use apex_exec::CompileOptions;
    /// assert_eq!(CompileOptions::default().include("/x").include_folders.len(), 1);
    /// ```
    #[must_use]
    pub fn include(mut self, folder: impl Into<PathBuf>) -> CompileOptions {
        self.include_folders.push(folder.into());
        self
    }

    /// The same with one more flag of NVRTC.
    ///
    /// ```
    /// # use apex_exec::CompileOptions;
    /// assert_eq!(CompileOptions::default().flag("--restrict").flags, ["--restrict"]);
    /// ```
    #[must_use]
    pub fn flag(mut self, flag: &str) -> CompileOptions {
        self.flags.push(flag.into());
        self
    }

    /// The same for another architecture than the device's, such as `compute_90a`.
    ///
    /// ```
    /// # use apex_exec::CompileOptions;
    /// let options = CompileOptions::default().architecture("compute_90a");
    /// assert_eq!(options.architecture.as_deref(), Some("compute_90a"));
    /// ```
    #[must_use]
    pub fn architecture(mut self, name: &str) -> CompileOptions {
        self.architecture = Some(name.into());
        self
    }

    /// The compiler's flags; for `device` where no architecture is named.
    fn flags_for(&self, device: &str, headers: Option<&Path>) -> Result<Vec<String>> {
        let architecture = self.architecture.clone().unwrap_or_else(|| device.into());
        let mut flags = vec![format!("--gpu-architecture={architecture}")];
        if !self.flags.iter().any(|flag| flag.starts_with("--std") || flag.starts_with("-std")) {
            flags.push("--std=c++17".into());
        }
        for (name, value) in &self.defines {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(Error::CompileOption {
                    reason: format!("{name:?} is no name to define"),
                });
            }
            flags.push(format!("--define-macro={name}={value}"));
        }
        let folders = self.include_folders.iter().map(PathBuf::as_path).chain(headers);
        flags.extend(folders.map(|folder| format!("--include-path={}", folder.display())));
        if self.fast_math {
            flags.push("--use_fast_math".into());
        }
        flags.extend(self.flags.iter().cloned());
        Ok(flags)
    }
}

/// Compiles CUDA C++ to PTX text, without a device; for compute capability 8.0 where the options name no
/// architecture.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::{CompileOptions, Error, compile_to_ptx};
///
/// match compile_to_ptx("extern \"C\" __global__ void nothing() {}", &CompileOptions::default()) {
///     Ok(ptx) => assert!(ptx.contains(".entry nothing")),
///     Err(Error::LibraryMissing { .. }) => {} // no NVRTC on this machine
///     Err(other) => return Err(other),
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::Compilation`] with the compiler's log, [`Error::CompileOption`], [`Error::LibraryMissing`].
pub fn compile_to_ptx(source: &str, options: &CompileOptions) -> Result<String> {
    to_ptx(source, options, KEPT_ARCHITECTURE)
}

/// Compiles a source to PTX, or takes it from the disk. `device` is the architecture of the device.
pub(crate) fn to_ptx(source: &str, options: &CompileOptions, device: &str) -> Result<String> {
    let folder = Companion::Nvrtc.open()?;
    let headers = libraries::headers(folder);
    let flags = options.flags_for(&known_architecture(device), headers.as_deref())?;
    let key = key(source, &flags, options);
    if let Some(ptx) = key.as_deref().and_then(cache::get) {
        return Ok(ptx);
    }
    let ptx = nvrtc::compile(source, &flags)?;
    if let Some(key) = &key {
        cache::put(key, &ptx);
    }
    Ok(ptx)
}

/// The device's architecture as a target, or the newest before it that the compiler knows: PTX for that runs on the
/// device too.
fn known_architecture(device: &str) -> String {
    let number = device.rsplit('_').next().and_then(|number| number.parse::<u32>().ok());
    let known = nvrtc::architectures();
    match number.and_then(|device| known.into_iter().filter(|&known| known <= device).max()) {
        Some(known) => format!("compute_{known}"),
        None => device.replace("sm_", "compute_"),
    }
}

/// Everything that decides about the result. None where that cannot be told, because there are too many headers.
fn key(source: &str, flags: &[String], options: &CompileOptions) -> Option<String> {
    let (major, minor) = nvrtc::version()?;
    let mut key = format!("NVRTC {major}.{minor}\n");
    for flag in flags {
        let _ = writeln!(key, "{flag}");
    }
    for folder in &options.include_folders {
        cache::describe_folder(folder, &mut key)?;
    }
    key.push_str("\n\n");
    key.push_str(source);
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_in_the_leading_comment() {
        let options = CompileOptions::of_source(
            "// A kernel.\n// keep: architecture compute_90a\n// keep: flag --maxrregcount=64\n\n\
             int x;\n// keep: flag --never\n",
        );
        assert_eq!(options.architecture.as_deref(), Some("compute_90a"));
        assert_eq!(options.flags, ["--maxrregcount=64"]);
    }

    #[test]
    fn flags_come_in_a_fixed_order() {
        let options = CompileOptions { fast_math: true, ..CompileOptions::default() };
        let options = options.define("N", "4").include("/x").flag("--restrict");
        let flags = options.flags_for("compute_90", Some(Path::new("/cuda/include"))).unwrap();
        assert_eq!(
            flags,
            [
                "--gpu-architecture=compute_90",
                "--std=c++17",
                "--define-macro=N=4",
                "--include-path=/x",
                "--include-path=/cuda/include",
                "--use_fast_math",
                "--restrict"
            ]
        );
    }

    #[test]
    fn a_definition_without_a_name_is_refused() {
        for name in ["", "A B", "x=1"] {
            let options = CompileOptions::default().define(name, "1");
            assert!(matches!(
                options.flags_for("compute_90", None),
                Err(Error::CompileOption { .. })
            ));
        }
    }

    #[test]
    fn what_was_compiled_comes_from_the_disk_until_something_changes() {
        let folder =
            std::env::temp_dir().join(format!("apex-exec-compiled-{}", std::process::id()));
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "compile::tests::with_a_cache_of_its_own", "--ignored"])
            .env("APEX_KERNEL_CACHE", &folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && text.contains("1 passed"), "{text}");
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    #[ignore = "needs a cache of its own, which the test above gives it"]
    fn with_a_cache_of_its_own() {
        let source = "extern \"C\" __global__ void f(int* out) { *out = 1; }";
        let compiled = |source: &str, options: &CompileOptions| to_ptx(source, options, "sm_80");
        let plain = CompileOptions::default();
        match compiled(source, &plain) {
            Ok(ptx) => assert!(ptx.contains(".entry f")),
            Err(Error::LibraryMissing { .. }) => return,
            Err(other) => panic!("{other}"),
        }
        // Another answer is laid under the same key: it is what comes now, and only for that key.
        let headers = libraries::headers(Companion::Nvrtc.open().unwrap());
        let flags = plain.flags_for("compute_80", headers.as_deref()).unwrap();
        cache::put(&key(source, &flags, &plain).unwrap(), "from the disk");
        assert_eq!(compiled(source, &plain).unwrap(), "from the disk");
        assert_eq!(
            compiled(source, &plain.clone().architecture("compute_80")).unwrap(),
            "from the disk"
        );
        for changed in [
            compiled(&format!("{source} "), &plain),
            compiled(source, &plain.clone().define("X", "1")),
            compiled(source, &plain.clone().flag("--restrict")),
            compiled(source, &plain.clone().architecture("compute_90")),
            compiled(source, &CompileOptions { fast_math: true, ..plain.clone() }),
        ] {
            assert!(changed.unwrap().contains(".entry f"));
        }
    }
}
