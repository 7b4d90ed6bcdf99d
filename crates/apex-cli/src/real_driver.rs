//! The driver that a program would get without apex.
//!
//! Only the loader knows what a name leads to. So apex starts itself again with a hidden verb and the driver loaded,
//! and reads what was mapped.

use apex_daemon::find::{self, AskedLoader};
use apex_daemon::user_setup::own_executable;
use std::io::{self, Write};
use std::path::PathBuf;

/// The hidden verb with which apex asks the loader for the driver.
pub(crate) const MAPPED_DRIVER: &str = "mapped-driver";

/// The answer to the hidden verb; nothing is printed where there is no driver.
pub(crate) fn print_mapped_driver() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if let Some(path) = find::mapped_driver(&maps) {
        let _ = writeln!(io::stdout(), "{path}");
    }
}

/// Begins to ask for the driver that a program would get without us.
pub(crate) fn ask() -> Option<AskedLoader> {
    AskedLoader::ask(&own_executable().ok()?, MAPPED_DRIVER)
}

/// The driver that a program would get without us.
pub(crate) fn real_driver() -> Option<PathBuf> {
    ask()?.driver()
}
