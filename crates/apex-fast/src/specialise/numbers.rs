//! A call, and the call as a list of numbers: its block, its grid, and the fields of its parameters.

use super::kernels::{Field, Sample};
use apex_cuda::types::*;

/// Numbers of a call: block, grid, and so many fields.
pub(super) const MOST_FIELDS: usize = 30;
/// Numbers before the fields.
pub(super) const SHAPE: usize = 2;

/// A launch as the program gives it.
pub(super) struct Call {
    pub(super) function: CUfunction,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    pub(super) stream: CUstream,
    pub(super) is_twin: bool,
    /// A pointer for each parameter.
    pub(super) parameters: *mut *mut c_void,
}

/// A block as one number; one that no GPU takes is like none that any takes.
pub(super) fn packed_block(sides: [u32; 3]) -> u64 {
    let [x, y, z] = sides.map(|side| u64::from(side.min(0xffff)));
    x | y << 16 | z << 32
}

pub(super) fn unpacked_block(number: u64) -> [u32; 3] {
    [number, number >> 16, number >> 32].map(|side| side as u32 & 0xffff)
}

/// A grid as one number: its first side has 32 bits, the others 16.
pub(super) fn packed_grid(sides: [u32; 3]) -> u64 {
    let [x, y, z] = sides.map(u64::from);
    x | y.min(0xffff) << 32 | z.min(0xffff) << 48
}

pub(super) fn unpacked_grid(number: u64) -> [u32; 3] {
    [number as u32, (number >> 32) as u32 & 0xffff, (number >> 48) as u32]
}

/// The numbers that two launches have in common; none for one in which they differ.
pub(super) fn common(one: &Sample, other: &Sample, fields: &[Field]) -> Vec<Option<u64>> {
    let numbers = |sample: &Sample| {
        let mut found = vec![Some(packed_block(sample.block)), Some(packed_grid(sample.grid))];
        found.extend(fields.iter().map(|field| {
            let (begin, bytes) = (field.offset as usize, field.bytes as usize);
            let mut whole = [0; 8];
            whole.get_mut(..bytes)?.copy_from_slice(sample.packed.get(begin..begin + bytes)?);
            Some(u64::from_le_bytes(whole))
        }));
        found
    };
    let pairs = numbers(one).into_iter().zip(numbers(other));
    pairs.map(|(one, other)| one.filter(|_| one == other)).collect()
}

/// What is written into a form, for people.
pub(super) fn described(fields: &[Field], numbers: &[Option<u64>]) -> String {
    let sides = |sides: [u32; 3]| format!("{}x{}x{}", sides[0], sides[1], sides[2]);
    let mut words = Vec::new();
    let [block, grid, values @ ..] = numbers else { return String::new() };
    words.extend(block.map(|it| format!("block {}", sides(unpacked_block(it)))));
    words.extend(grid.map(|it| format!("grid {}", sides(unpacked_grid(it)))));
    for (field, number) in fields.iter().zip(values) {
        let Some(number) = number else { continue };
        let within = if field.within > 0 { format!("+{}", field.within) } else { String::new() };
        words.push(format!("{}{within}={number:#x}", field.parameter));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_launches_have_in_common_repeats() {
        let sample = |grid, step: u32| {
            let packed = [7_u32.to_le_bytes(), step.to_le_bytes()].concat();
            Sample { grid: [grid, 1, 1], block: [32, 1, 1], shared: 0, packed }
        };
        let field = |offset| Field { parameter: 0, within: 0, offset, bytes: 4 };
        let fields = [field(0), field(4)];
        let block = Some(packed_block([32, 1, 1]));
        let found = common(&sample(4, 8), &sample(4, 23), &fields);
        assert_eq!(found, [block, Some(packed_grid([4, 1, 1])), Some(7), None]);
        assert_eq!(common(&sample(4, 8), &sample(5, 8), &fields), [block, None, Some(7), Some(8)]);
    }

    #[test]
    fn shapes_come_back_as_they_were() {
        for grid in [[1, 1, 1], [0x7fff_ffff, 65_535, 65_535], [0, 3, 9]] {
            assert_eq!(unpacked_grid(packed_grid(grid)), grid);
        }
        for block in [[1024, 1, 1], [1, 1024, 64], [33, 7, 2]] {
            assert_eq!(unpacked_block(packed_block(block)), block);
        }
    }
}
