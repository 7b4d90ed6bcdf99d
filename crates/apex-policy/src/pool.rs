//! Which freed memory is handed out again, and what must be waited for first.
//!
//! A freed block is kept whole, and only an allocation of exactly its size gets it. So its base, its range and whatever the
//! driver answers about it stay true, and nothing need be known of where a program's pointers go. [`Blocks`] says which
//! block, and how much may lie idle. [`Order`] knows which streams may still use a block that was freed: on the only
//! stream with work the next user comes later anyway; another stream is made to wait; where streams are many, the block
//! rests until the program has waited for all of them.
//!
//! Small blocks stay whole too. The driver itself cuts them from 2 MiB, so whole blocks cost no more memory than the
//! program's own calls, and there is no table of attributes that could be wrong.

mod blocks;
mod order;

pub use blocks::{Ask, Blocks, Freed, Peaks, Taken};
pub use order::{Ending, Mark, Order, Settling, Ticket};

/// Bytes that a pool of stream-ordered memory may keep, where the program left it at none: a quarter of the device.
/// Within that it keeps at most what the program itself had in it at once.
#[must_use]
pub fn kept_in_order(device_bytes: u64) -> u64 {
    device_bytes / 4
}

/// Bytes that may lie idle at most, so that another process that fills 98 % of the device finds room for that: a 64th of
/// the device.
#[must_use]
pub fn idle_of_device(device_bytes: u64) -> u64 {
    device_bytes / 64
}
