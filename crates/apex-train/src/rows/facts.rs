//! Rows as models know them.

use super::Row;
use apex_policy::predict::question::{
    ALLOCATIONS, Arguments, INTEGERS, Kernel, Mix, Pipe, Walked, Work,
};
use apex_policy::{Carveout, LaunchShape};

/// What models know of a row's launch beside its shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// The kernel.
    pub kernel: Kernel,
    /// What is passed.
    pub arguments: Arguments,
    /// What its warps do.
    pub walked: Walked,
}

impl Row {
    /// All that models know of it beside its shape.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let (kernel, arguments) = (self.kernel_facts(), self.arguments());
        Facts { kernel, arguments, walked: self.walked_facts() }
    }

    /// What its warps do.
    #[must_use]
    pub fn walked_facts(&self) -> Walked {
        let mut numbers = [0.0; Walked::NAMES.len()];
        let words = self.walked.split(',').filter_map(|word| word.parse().ok());
        numbers.iter_mut().zip(words).for_each(|(number, word)| *number = word);
        Walked::from_numbers(&numbers)
    }

    /// The kernel as models know it.
    #[must_use]
    pub fn kernel_facts(&self) -> Kernel {
        let mut counts = [0; Mix::NAMES.len()];
        counts.iter_mut().zip(numbers(&self.mix)).for_each(|(count, found)| {
            *count = u32::try_from(found).unwrap_or(u32::MAX);
        });
        Kernel {
            identity: self.identity,
            registers: self.registers,
            static_shared: self.static_shared,
            max_dynamic_shared: self.max_dynamic_shared,
            local_bytes: self.local_bytes,
            carveout: Carveout::from_attribute(self.carveout),
            mix: Mix::from_counts(&counts),
        }
    }

    /// What the launch passed.
    #[must_use]
    pub fn arguments(&self) -> Arguments {
        let integers: Vec<u64> = numbers(&self.integers).take(INTEGERS).collect();
        let allocations: Vec<u64> = numbers(&self.allocations).take(ALLOCATIONS).collect();
        let mut arguments = Arguments::of(&integers, &allocations);
        let count = numbers(&self.integers).count() + numbers(&self.allocations).count();
        arguments.count = u8::try_from(count).unwrap_or(u8::MAX);
        arguments
    }

    /// Grid and block.
    #[must_use]
    pub fn shape(&self) -> LaunchShape {
        LaunchShape {
            grid: [self.grid_x, self.grid_y, self.grid_z],
            block: [self.block_x, self.block_y, self.block_z],
        }
    }

    /// What the launch did.
    #[must_use]
    pub fn work(&self) -> Option<Work> {
        let pipe = match self.pipe.as_str() {
            "double" => Pipe::Double,
            "tensor" => Pipe::Tensor,
            _ => Pipe::Single,
        };
        let bytes = self.bytes_read + self.bytes_written;
        self.work_known.then_some(Work { flops: self.flops, bytes, pipe })
    }
}

fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split(',').filter(|word| !word.is_empty()).map(|word| word.parse().unwrap_or(0))
}
