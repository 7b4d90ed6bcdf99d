//! A number that the state machines of the gate keep.
//!
//! In the shim several threads reach the same machine, so there its words are atomic; the simulator and the tests
//! have plain ones. The machines are written once, over this trait, and every operation of it means something alone.

use core::cell::Cell;

/// One number. What is written by [`Word::set`] is seen with everything that its thread wrote before.
pub trait Word: Default {
    /// Its value.
    fn get(&self) -> u64;
    /// Gives it a value.
    fn set(&self, value: u64);
    /// Adds to it, wrapping; the value after.
    fn add(&self, more: u64) -> u64;
    /// Adds to it where no other thread does; whoever asks for a barrier of all threads then sees it.
    fn add_alone(&self, more: u64);
    /// Raises it to at least this; the value before.
    fn raise(&self, least: u64) -> u64;
    /// Lowers it to at most this.
    fn lower(&self, most: u64);
    /// Gives it a value; the value before.
    fn swap(&self, value: u64) -> u64;
    /// Gives it another value if it has this one. Of several threads one succeeds.
    fn exchange(&self, from: u64, to: u64) -> bool;
}

/// A word of one thread.
pub type Plain = Cell<u64>;

impl Word for Plain {
    fn get(&self) -> u64 {
        Cell::get(self)
    }

    fn set(&self, value: u64) {
        Cell::set(self, value);
    }

    fn add(&self, more: u64) -> u64 {
        Cell::set(self, Cell::get(self).wrapping_add(more));
        Cell::get(self)
    }

    fn add_alone(&self, more: u64) {
        self.add(more);
    }

    fn raise(&self, least: u64) -> u64 {
        self.replace(Cell::get(self).max(least))
    }

    fn lower(&self, most: u64) {
        Cell::set(self, Cell::get(self).min(most));
    }

    fn swap(&self, value: u64) -> u64 {
        self.replace(value)
    }

    fn exchange(&self, from: u64, to: u64) -> bool {
        let is_there = Cell::get(self) == from;
        if is_there {
            Cell::set(self, to);
        }
        is_there
    }
}
