//! How often a launch may run its kernel's loops, by what it is given.
//!
//! Operations and bytes tell how often most loops run. They say nothing of loops that count rounds of integers, wait
//! at barriers for each row or read constants. Their turns then stand in an argument: all of them, or those that are
//! left when blocks, threads or the threads of a block share them; and what halves a block until one thread is left
//! turns as often as the logarithm of its threads. Which it is nobody says, so each is a guess of its
//! own, and a kernel's measured launches tell which one holds ([`super::own_costs`]).

use super::exact::Exact;
use super::question::Question;

/// How many guesses there are.
pub const TURNS: usize = 15;

/// The turns by each guess; 0 where a guess does not apply.
pub type Turns = [f32; TURNS];

/// No loop turns as often as this: an argument so large is no count, but a number's bits or an address.
const MOST: u64 = 500_000_000;

/// The turns of a launch by each guess. A kernel without loops has none.
#[must_use]
pub fn turns(question: &Question<'_>, exact: &Exact) -> Turns {
    if question.kernel.mix.loops == 0 {
        return [0.0; TURNS];
    }
    let inside = (exact.threads_per_block as f32).max(1.0);
    let blocks = (exact.blocks as f32).max(1.0);
    let given = |at: usize| match question.arguments.integers[at] {
        count if count < MOST => count as f32,
        _ => 0.0,
    };
    let shared = |at: usize, sharers: f32| (given(at) / sharers).ceil();
    [
        given(0),
        given(1),
        given(2),
        shared(0, blocks),
        shared(1, blocks),
        shared(2, blocks),
        shared(0, inside),
        shared(1, inside),
        shared(2, inside),
        shared(0, blocks * inside),
        given(0) * given(1),
        given(1) * given(2),
        shared(0, blocks) * shared(1, inside),
        shared(0, blocks * inside) * given(1),
        inside.log2().ceil(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::exact::exact;
    use crate::predict::question::{Arguments, Device, Kernel, Mix};
    use crate::{Chip, LaunchShape};

    #[test]
    fn arguments_are_shared_out_and_bits_of_numbers_are_no_turns() {
        let chip = Chip::for_capability(9, 0).unwrap();
        let device = Device::from_attributes(chip, 132, 1_980_000, 4.8e12, 60 << 20);
        let mut kernel = Kernel { registers: 32, ..Kernel::default() };
        let arguments = Arguments::of(&[1000, 96, 1_069_547_520], &[]);
        let shape = LaunchShape { grid: [10, 1, 1], block: [64, 1, 1] };
        let asked = |kernel: &Kernel| {
            let question = Question::by_shape(&device, kernel, shape, 0);
            let question = Question { arguments: &arguments, ..question };
            turns(&question, &exact(&question))
        };
        assert_eq!(asked(&kernel), [0.0; TURNS]);
        kernel.mix = Mix { loops: 1, ..Mix::default() };
        let found = asked(&kernel);
        assert_eq!((found[0], found[1], found[2]), (1000.0, 96.0, 0.0));
        assert_eq!((found[3], found[6], found[9]), (100.0, 16.0, 2.0));
        assert_eq!((found[12], found[13], found[14]), (200.0, 192.0, 6.0));
    }
}
