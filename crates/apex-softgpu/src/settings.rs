//! The settings of this process, read once, when the driver is first initialised or asked.

use std::io::Write;
use std::sync::OnceLock;

use apex_core::knobs::Knobs;
use apex_core::printable::printable;
use apex_engine::Dump;

/// The settings.
pub(crate) fn settings() -> &'static Knobs {
    static SETTINGS: OnceLock<Knobs> = OnceLock::new();
    // What is not its own, those say who use it: a program with apex-exec has both.
    let own = |sentence: &str| {
        ["APEX_SOFTGPU_", "APEX_CONFIG"].iter().any(|name| sentence.starts_with(name))
    };
    let complain = |sentence: String| {
        if own(&sentence) {
            say(&sentence);
        }
    };
    SETTINGS.get_or_init(|| Knobs::from_environment(complain))
}

/// Where what kernels are after each pass is written, when it is asked for.
pub(crate) fn dump() -> Option<&'static Dump> {
    static DUMP: OnceLock<Option<Dump>> = OnceLock::new();
    DUMP.get_or_init(|| settings().softgpu_dump.as_ref().map(Dump::new)).as_ref()
}

/// One line on stderr. Where it cannot be written, on a full disk, nothing is said: a panic would end the thread that runs
/// kernels, and whoever waits for them would wait for ever.
pub(crate) fn say(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "apex: {}", printable(sentence));
}
