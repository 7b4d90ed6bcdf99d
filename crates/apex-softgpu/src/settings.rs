//! The settings of this process, read once, when the driver is first initialised or asked.

use std::sync::OnceLock;

use apex_core::knobs::Knobs;

/// The settings.
pub(crate) fn settings() -> &'static Knobs {
    static SETTINGS: OnceLock<Knobs> = OnceLock::new();
    SETTINGS.get_or_init(|| Knobs::from_environment(|sentence| say(&sentence)))
}

/// One line on stderr.
pub(crate) fn say(sentence: &str) {
    eprintln!("apex: {sentence}");
}
