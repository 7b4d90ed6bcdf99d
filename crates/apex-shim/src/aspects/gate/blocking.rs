//! Which streams the default stream waits for: those made without `CU_STREAM_NON_BLOCKING`.
//!
//! The table is by place, so that of two with the same place one may be forgotten; who waits for the default stream then
//! waits on for the other.

use std::sync::atomic::{AtomicU64, Ordering};

static BLOCKING: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// A stream was made.
pub(super) fn stream_made(stream: u64, non_blocking: bool) {
    let place = &BLOCKING[place(stream)];
    if !non_blocking {
        place.store(stream, Ordering::Relaxed);
    } else if place.load(Ordering::Relaxed) == stream {
        place.store(0, Ordering::Relaxed);
    }
}

/// Whether the default stream waits for the stream of this key.
pub(super) fn is_blocking(key: u64) -> bool {
    key != 0 && BLOCKING[place(key)].load(Ordering::Relaxed) == key
}

fn place(stream: u64) -> usize {
    (stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % BLOCKING.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_blocking_until_its_handle_is_made_anew() {
        stream_made(0x3000, false);
        stream_made(0x4000, true);
        assert!(is_blocking(0x3000) && !is_blocking(0x4000) && !is_blocking(0));
        stream_made(0x3000, true);
        assert!(!is_blocking(0x3000));
    }
}
