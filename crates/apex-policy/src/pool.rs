//! Which freed memory is handed out again, and what must be waited for first.
//!
//! A freed block is kept whole, and only an allocation of exactly its size gets it. So its base, its range and whatever the
//! driver answers about it stay true, and nothing need be known of where a program's pointers go. [`Blocks`] says which
//! block, and how much may lie idle. [`Order`] knows which streams may still use a block that was freed: on the only
//! stream with work the next user comes later anyway; another stream is made to wait; where streams are many, the block
//! rests until the program has waited for all of them.

mod blocks;
mod order;

pub use blocks::{Ask, Blocks, Freed, Taken};
pub use order::{Mark, Order, Ticket};
