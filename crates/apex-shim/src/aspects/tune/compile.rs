//! Code being loaded that the driver may have to compile: with other limits, where a tuning says so.
//!
//! The program's own options stay as they are and come first; where it sets a limit itself, nothing is added. What
//! the driver writes back into its list of values is copied to where the program reads it. If the driver refuses
//! the load with our options, the program's own load is made.

use super::refusal::was_refused;
use crate::state::tuning::{is_device, tuning};
use crate::state::{
    extras::{self, Extra},
    inside, outputs,
    process::guard,
};
use apex_core::tuning::Image;
use apex_cuda::Function;
use apex_cuda::foreign;
use apex_cuda::image::identify_at;
use apex_cuda::types::*;

const MAX_REGISTERS: CUjit_option = 0;
const OPTIMIZATION_LEVEL: CUjit_option = 7;
/// More than the driver has kinds of options.
const MOST_OPTIONS: usize = 256;

/// The program's options with ours behind them.
struct Options {
    words: Vec<CUjit_option>,
    values: Vec<*mut c_void>,
    own: usize,
}

impl Options {
    /// Nothing where the image is not tuned, or limited by the program itself.
    ///
    /// # Safety
    ///
    /// The arguments are those that the driver is given.
    unsafe fn with_ours(
        image: *const c_void,
        count: u32,
        words: *const CUjit_option,
        values: *const *mut c_void,
    ) -> Option<Options> {
        let tuning = tuning().filter(|tuning| !tuning.images.is_empty())?;
        let hash = identify_at(image)?.hash;
        let tuned = tuning.images.iter().find(|tuned| tuned.hash == hash)?;
        let own = count as usize;
        // The driver has not seen them yet, and may refuse the load before it does.
        let are_there = own == 0
            || own <= MOST_OPTIONS
                && words.is_aligned()
                && values.is_aligned()
                && foreign::is_there(words as u64, own * size_of::<CUjit_option>())
                && foreign::is_there(values as u64, own * size_of::<*mut c_void>());
        if !are_there {
            return None;
        }
        let (words, values) = match own {
            0 => (&[][..], &[][..]),
            // SAFETY: so many of each were there just now.
            _ => unsafe {
                (core::slice::from_raw_parts(words, own), core::slice::from_raw_parts(values, own))
            },
        };
        Options::behind(words, values, tuned).filter(|_| is_device(&tuning.device))
    }

    /// What an image is tuned to behind the program's own options; nothing where those say all of it.
    fn behind(words: &[CUjit_option], values: &[*mut c_void], tuned: &Image) -> Option<Options> {
        let own = words.len();
        let mut options = Options { words: words.to_vec(), values: values.to_vec(), own };
        for (word, value) in
            [(MAX_REGISTERS, &tuned.max_registers), (OPTIMIZATION_LEVEL, &tuned.optimisation)]
        {
            if let Some(&value) = value.first()
                && !words.contains(&word)
            {
                options.words.push(word);
                options.values.push(core::ptr::without_provenance_mut(value as usize));
            }
        }
        (options.words.len() > own).then_some(options)
    }

    /// Gives the program what the driver wrote among its values.
    ///
    /// # Safety
    ///
    /// `values` is the program's own list.
    unsafe fn give_back(&self, values: *mut *mut c_void) {
        for nth in 0..self.own {
            // SAFETY: the list is as long as the program said.
            unsafe { values.add(nth).write(self.values[nth]) };
        }
    }
}

/// Loads with our options if there are any, and with the program's own if that fails.
///
/// # Safety
///
/// The arguments are those that the driver is given.
pub(crate) unsafe fn load(
    (function, started): (Function, u64),
    image: *const c_void,
    (count, words, values): (u32, *mut CUjit_option, *mut *mut c_void),
    ours: impl FnOnce(u32, *mut CUjit_option, *mut *mut c_void) -> CUresult,
    own: impl FnOnce() -> CUresult,
) -> CUresult {
    if extras::has(Extra::Tuning) {
        // SAFETY: the program's own arguments.
        let options =
            guard(|| unsafe { Options::with_ours(image, count, words, values) }).flatten();
        if let Some(mut options) = options {
            let all = u32::try_from(options.words.len()).unwrap_or(count);
            let (words, list) = (options.words.as_mut_ptr(), options.values.as_mut_ptr());
            let result = inside::call(function, started, || ours(all, words, list));
            if result == CUDA_SUCCESS {
                // SAFETY: the program's own list, which the driver may write.
                unsafe { options.give_back(values) };
                outputs::count(|outputs| outputs.compiled += 1);
                return result;
            }
            was_refused("a limit of registers", result);
        }
    }
    inside::call(function, started, own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_limit_stands_behind_the_options_of_the_program() {
        let tuned = Image { hash: 1, max_registers: vec![40], optimisation: vec![] };
        let value = core::ptr::without_provenance_mut;
        let alone = Options::behind(&[], &[], &tuned).expect("a limit to add");
        assert_eq!((&alone.words[..], &alone.values[..]), (&[MAX_REGISTERS][..], &[value(40)][..]));
        let (words, values) = ([5, 6], [value(1), value(2)]);
        let behind = Options::behind(&words, &values, &tuned).expect("a limit to add");
        assert_eq!(behind.words, [5, 6, MAX_REGISTERS]);
        assert_eq!(behind.values, [value(1), value(2), value(40)]);
        let mut given = [value(0); 2];
        // SAFETY: a list of two, as many as the program's own.
        unsafe { behind.give_back(given.as_mut_ptr()) };
        assert_eq!(given, values);
        // A program that sets a limit knows why, and an image without a tuning gets nothing.
        assert!(Options::behind(&[MAX_REGISTERS], &[value(64)], &tuned).is_none());
        assert!(Options::behind(&[], &[], &Image::default()).is_none());
    }
}
