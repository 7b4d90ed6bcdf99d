//! What frameworks are told on the software GPU, so that they find what stands in for NVIDIA's libraries and programs.
//!
//! What the user has set stays. Elsewhere nothing is told, not even by an `apex run` around this one.

use crate::device::Driver;
use apex_daemon::find;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Names and values.
pub(crate) type Variables = Vec<(&'static str, OsString)>;

/// Where Triton looks for the assembler.
const ASSEMBLERS: [&str; 2] = ["TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"];

/// JAX compares versions of NVIDIA's libraries, of which there are none here.
const UNCHECKED: &str = "JAX_SKIP_CUDA_CONSTRAINTS_CHECK";

/// JAX leaves its CUDA plugin out where there is no device node. One that is named here is taken as it is.
const PLUGINS: &str = "PJRT_NAMES_AND_LIBRARY_PATHS";

/// Where the shim reads what stands in.
const STAND_INS: &str = "APEX_STAND_INS";

/// The variables for a program, given the directory in which everything bears its name.
pub(crate) fn variables(libraries: &Path, driver: &Driver, program: &OsStr) -> Variables {
    let is_set = |variable: &str| std::env::var_os(variable).is_some();
    if driver.stand_ins().is_empty() {
        let inherited = is_set(STAND_INS).then(|| (STAND_INS, OsString::new()));
        return inherited.into_iter().collect();
    }
    let assembler = driver.stand_ins().iter().find(|(name, _)| *name == "ptxas");
    let assembler = assembler.map(|(_, path)| path.clone().into_os_string());
    let mut told = Variables::new();
    for variable in ASSEMBLERS {
        told.extend(assembler.clone().map(|path| (variable, path)));
    }
    told.push((UNCHECKED, "1".into()));
    if let Some(plugin) = find::jax_plugin(program, |name| std::env::var(name).ok()) {
        let mut named = OsString::from("apex:");
        named.push(plugin);
        told.push((PLUGINS, named));
    }
    told.retain(|(variable, _)| !is_set(variable));
    told.push((STAND_INS, libraries.into()));
    told.extend(behind("PATH", libraries.as_os_str()).map(|path| ("PATH", path)));
    told
}

/// The toolkit that is installed goes first: whoever builds with it shall find it. A search path that is not set is
/// the system's own, which a value would hide.
fn behind(variable: &str, last: &OsStr) -> Option<OsString> {
    let mut value = std::env::var_os(variable).filter(|value| !value.is_empty())?;
    value.push(":");
    value.push(last);
    Some(value)
}
