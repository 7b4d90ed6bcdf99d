//! The settings of this process, read once, so that what is wrong with them is said once.

use apex_core::knobs::Knobs;
use apex_core::printable::printable;
use std::sync::OnceLock;

/// The settings.
pub(crate) fn knobs() -> &'static Knobs {
    static KNOBS: OnceLock<Knobs> = OnceLock::new();
    KNOBS.get_or_init(|| {
        Knobs::from_environment(|sentence| {
            // Where the software GPU is loaded, it says itself what is wrong with its own.
            if !sentence.starts_with("APEX_SOFTGPU_") {
                eprintln!("apex: {}", printable(&sentence));
            }
        })
    })
}
