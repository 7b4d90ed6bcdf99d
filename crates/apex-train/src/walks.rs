//! What the warps of launches do, by walking them through their kernels' texts ([`apex_ptx::walk`]).
//!
//! A measured row says by its identity which text it ran, and with which arguments. So rows that were measured before
//! anybody walked are given what a walk tells without being measured again.

use crate::mix::{self, Text};
use crate::rows::{Row, joined_words};
use apex_policy::Chip;
use apex_policy::predict::exact::exact;
use apex_policy::predict::question::{Device, Question, Walked};
use apex_ptx::walk::{Launch, Program, walk};
use std::collections::BTreeMap;

/// Addresses that pointers are given lie so far apart.
const APART: u64 = 1 << 40;

/// Walks every row of the zoo that nobody walked and whose text is still the one that was measured.
pub fn fill(rows: &mut [Row]) {
    if rows.iter().any(|row| row.walked.is_empty()) {
        let texts: BTreeMap<u64, Text> =
            mix::of_zoo().into_values().map(|text| (text.identity, text)).collect();
        for row in rows.iter_mut().filter(|row| row.walked.is_empty()) {
            if let Some(text) = texts.get(&row.identity) {
                row.walked = column(text, row);
            }
        }
    }
}

/// What a row's column says of its warps; nothing where its text cannot be walked.
pub(crate) fn column(text: &Text, row: &Row) -> String {
    let (Some(program), Some(chip)) = (&text.program, Chip::for_capability(row.major, row.minor))
    else {
        return String::new();
    };
    // How fast the device is, no walk depends on.
    let device = Device::from_attributes(chip, row.multiprocessors, 0, 0.0, row.l2_bytes);
    let facts = row.facts();
    let found = walked(program, &crate::examples::question(row, &device, &facts));
    joined_words(found.numbers())
}

/// What the warps of a launch do.
pub(crate) fn walked(program: &Program, question: &Question<'_>) -> Walked {
    let mut integers = question.arguments.integers.iter();
    let mut allocations = question.arguments.allocations.iter().filter(|bytes| **bytes > 0);
    let (mut parameters, mut bytes) = (Vec::new(), Vec::new());
    for (nth, pointer) in program.pointers().iter().enumerate() {
        // Where pointers are fewer than parameters as wide, the rest are integers.
        match pointer.then(|| allocations.next()).flatten() {
            Some(allocation) => {
                parameters.push(Some((nth as u64 + 1) * APART));
                bytes.push(*allocation);
            }
            None => {
                parameters.push(integers.next().copied());
                bytes.push(0);
            }
        }
    }
    let exact = exact(question);
    let given = exact.blocks.div_ceil(u64::from(question.device.multiprocessors.max(1)));
    let blocks = given.min(u64::from(exact.occupancy.blocks_per_sm)) as u32;
    let found = walk(
        program,
        &Launch {
            grid: question.shape.grid,
            block: question.shape.block,
            dynamic_shared: question.dynamic_shared,
            sharing: blocks * exact.threads_per_block.div_ceil(question.device.chip.warp_threads),
            parameters: &parameters,
            bytes: &bytes,
        },
    );
    Walked::from_numbers(&found.numbers())
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_ptx::walk::Counts;

    #[test]
    fn both_name_the_same_counts() {
        assert_eq!(Walked::NAMES, Counts::NAMES);
    }

    /// A row of a kernel of the zoo on an H200.
    fn row(entry: &str, grid: u32, block: u32, integers: &str, allocations: &str) -> Row {
        let mut row = Row {
            entry: entry.into(),
            identity: mix::of_zoo()[entry].identity,
            major: 9,
            multiprocessors: 132,
            grid_x: grid,
            grid_y: 1,
            grid_z: 1,
            block_x: block,
            block_y: 1,
            block_z: 1,
            registers: 32,
            integers: integers.into(),
            allocations: allocations.into(),
            ..Row::default()
        };
        fill(std::slice::from_mut(&mut row));
        row
    }

    #[test]
    fn the_zoo_does_what_its_sources_say() {
        let strided = |stride: u32| {
            let integers = format!("1048576,{stride}");
            row("copy_strided", 4096, 256, &integers, "4194304,4194304").walked_facts()
        };
        // One access reads four sectors straight and one a lane with a wide stride; the other writes four.
        assert_eq!((strided(1).lines, strided(1).missed, strided(1).stored), (2.0, 4.0, 4.0));
        assert_eq!((strided(32).lines, strided(32).missed, strided(32).stored), (33.0, 32.0, 4.0));

        let banks = |stride: u32| {
            let integers = format!("65536,{stride},256");
            row("bank_stride", 256, 256, &integers, "262144").walked_facts()
        };
        let (free, conflicting) = (banks(1), banks(32));
        assert!((256.0..300.0).contains(&free.shared), "{free:?}");
        assert!((256.0 * 32.0..256.0 * 32.0 + 50.0).contains(&conflicting.shared));
        assert_eq!(free.instructions, conflicting.instructions);

        let chain = |length: u32| {
            let integers = format!("65536,{length},0,0");
            row("fma_chain_1", 256, 256, &integers, "262144").walked_facts()
        };
        let turns = chain(4096).cycles - chain(2048).cycles;
        assert!((turns / (4.0 * 2048.0) - 1.0).abs() < 0.05, "{turns}");

        let chased = row("gather", 4096, 256, "1048576", "67108864,4194304,4194304").walked_facts();
        assert_eq!(chased.rounds, 2.0);
        assert!(chased.gathered > 31.0, "{chased:?}");
        let sums = row("spmv_thread", 4, 256, "1024", "4100,65536,65536,4096,4096").walked_facts();
        assert!(sums.guessed > 0.0 && chased.guessed == 0.0);
    }

    #[test]
    fn rows_of_other_texts_stay_as_they_are() {
        let mut rows = [Row { identity: 1, ..Row::default() }];
        fill(&mut rows);
        assert_eq!(rows[0].walked, "");
        assert!(!rows[0].walked_facts().is_known());
    }
}
