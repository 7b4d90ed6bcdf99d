//! The options of a load without those that the driver writes into.
//!
//! A load of ours must leave no trace where it fails: the program's logs are for its own load. Where ours succeeds, the
//! program is told that they are empty. A target is ours to choose.

use apex_cuda::foreign;
use apex_cuda::types::{CUjit_option, c_void};

const WALL_TIME: CUjit_option = 2;
const INFO_LOG: CUjit_option = 3;
const INFO_LOG_BYTES: CUjit_option = 4;
const ERROR_LOG: CUjit_option = 5;
const ERROR_LOG_BYTES: CUjit_option = 6;
const TARGET: CUjit_option = 9;
const LEFT_OUT: [CUjit_option; 6] =
    [WALL_TIME, INFO_LOG, INFO_LOG_BYTES, ERROR_LOG, ERROR_LOG_BYTES, TARGET];
/// More than the driver has kinds of options.
const MOST_OPTIONS: usize = 256;

/// Options for a load of ours.
pub(crate) struct Plain {
    words: Vec<CUjit_option>,
    values: Vec<*mut c_void>,
}

/// A program's own options: how many, their words and their values.
type Own = (u32, *mut CUjit_option, *mut *mut c_void);

impl Plain {
    /// Those of the program that only say what it wants.
    ///
    /// # Safety
    ///
    /// The arguments are those that the driver is given.
    pub(crate) unsafe fn of(own: Own) -> Plain {
        let mut plain = Plain { words: Vec::new(), values: Vec::new() };
        // SAFETY: the caller vouches for them.
        for (word, place) in unsafe { list(own) } {
            if !LEFT_OUT.contains(&word) {
                plain.words.push(word);
                // SAFETY: `list` saw that the place is there.
                plain.values.push(unsafe { place.read() });
            }
        }
        plain
    }

    /// As the driver's functions take them.
    pub(crate) fn parts(&mut self) -> Own {
        let count = u32::try_from(self.words.len()).unwrap_or(0);
        (count, self.words.as_mut_ptr(), self.values.as_mut_ptr())
    }

    /// Our load has succeeded: the program's logs hold nothing.
    ///
    /// # Safety
    ///
    /// The program's own arguments, into which the driver may write.
    pub(crate) unsafe fn empty_logs(own: Own) {
        // SAFETY: the caller vouches for them.
        for (word, place) in unsafe { list(own) } {
            if matches!(word, INFO_LOG_BYTES | ERROR_LOG_BYTES) {
                // SAFETY: a successful load of the driver writes here.
                unsafe { place.write(core::ptr::null_mut()) };
            }
        }
    }
}

/// The options that are there, each with the place of its value.
///
/// # Safety
///
/// The arguments are those that the driver is given.
unsafe fn list((count, words, values): Own) -> Vec<(CUjit_option, *mut *mut c_void)> {
    let own = count as usize;
    let are_there = (1..=MOST_OPTIONS).contains(&own)
        && words.is_aligned()
        && values.is_aligned()
        && foreign::is_there(words as u64, own * size_of::<CUjit_option>())
        && foreign::is_there(values as u64, own * size_of::<*mut c_void>());
    if !are_there {
        return Vec::new();
    }
    // SAFETY: so many of each were there just now.
    (0..own).map(|nth| unsafe { (words.add(nth).read(), values.add(nth)) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_writes_into_is_left_out() {
        let value = core::ptr::without_provenance_mut;
        let mut words = [0, ERROR_LOG_BYTES, 7, TARGET];
        let mut values = [value(32), value(100), value(3), value(120)];
        let own = (4, words.as_mut_ptr(), values.as_mut_ptr());
        // SAFETY: four of each.
        let plain = unsafe { Plain::of(own) };
        assert_eq!(
            (&plain.words[..], &plain.values[..]),
            (&[0, 7][..], &[value(32), value(3)][..])
        );
        // SAFETY: as above.
        unsafe { Plain::empty_logs(own) };
        assert_eq!(values[1], core::ptr::null_mut());
        // SAFETY: nothing is read through what is not there.
        let none = unsafe { Plain::of((3, core::ptr::null_mut(), value(8).cast())) };
        assert!(none.words.is_empty());
    }
}
