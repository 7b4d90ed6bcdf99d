//! Keeps a panic of a library inside the call that caused it.
//!
//! The Parquet reader refuses most broken files by an error and some by a panic. A broken file is bad input, so
//! both become the same sentence, and nothing is printed of the second. Panics of apex itself are not touched.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// This thread is inside [`contained`].
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read`; a panic is its error. What `read` was working on must not be used after an error.
pub(crate) fn contained<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !INSIDE.get() {
                usual(panic);
            }
        }));
    });
    INSIDE.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(read));
    INSIDE.set(false);
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(text.unwrap_or("its reader gave up").to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_sentence() {
        let limit = 3;
        let broken = || if limit > 2 { panic!("length {limit} is too long") } else { Ok(limit) };
        assert_eq!(contained(broken), Err("length 3 is too long".into()));
        assert_eq!(contained(|| Ok(7)), Ok(7));
        assert_eq!(contained::<()>(|| Err("no".into())), Err("no".into()));
    }
}
