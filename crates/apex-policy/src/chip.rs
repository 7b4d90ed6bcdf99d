//! What one streaming multiprocessor of each compute capability holds.
//!
//! Occupancy is arithmetic over these facts. They follow NVIDIA's published occupancy
//! calculator where it and the programming guide differ, because the driver answers
//! with the former. A device that tells its own attributes overwrites the fields it
//! told; what no attribute tells (allocation units, sub-partitions, the capacities
//! the carve-out may take) stays as listed. A capability not listed has no chip: a
//! guessed limit would look like a fact in a report.

const KIB: u32 = 1024;

/// The limits of one streaming multiprocessor (SM) and of one block on it.
///
/// Sizes of shared memory are bytes; registers are 32 bits wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// Threads of a warp.
    pub warp_threads: u32,
    /// Threads one block may have.
    pub max_threads_per_block: u32,
    /// Threads resident on one SM.
    pub max_threads_per_sm: u32,
    /// Blocks resident on one SM.
    pub max_blocks_per_sm: u32,
    /// The parts of an SM, each with its own share of the register file.
    pub sub_partitions: u32,
    /// Registers of one SM.
    pub registers_per_sm: u32,
    /// Registers one block may hold.
    pub max_registers_per_block: u32,
    /// Registers one thread may be counted with. The calculator accepts 256, though a
    /// compiler gives out 255 at most.
    pub max_registers_per_thread: u32,
    /// Registers are given to a warp in multiples of this.
    pub register_unit: u32,
    /// Shared memory of one SM at its largest carve-out.
    pub shared_per_sm: u32,
    /// The capacities the carve-out may take, ascending.
    pub shared_capacities: &'static [u32],
    /// Shared memory is given to a block in multiples of this.
    pub shared_unit: u32,
    /// Shared memory the driver takes for itself from every block.
    pub reserved_shared_per_block: u32,
    /// Shared memory one block may have without asking.
    pub max_shared_per_block: u32,
    /// Shared memory one block may have when its kernel opts in.
    pub max_shared_per_block_optin: u32,
}

impl Chip {
    /// The facts of a compute capability, or nothing where they are not known.
    pub fn for_capability(major: u32, minor: u32) -> Option<Chip> {
        let (max_threads_per_sm, max_blocks_per_sm, shared_capacities) = match (major, minor) {
            (7, 0 | 2) => (2048, 32, VOLTA),
            (7, 5) => (1024, 16, TURING),
            (8, 0) => (2048, 32, UP_TO_164),
            (8, 6) => (1536, 16, UP_TO_100),
            (8, 7) => (1536, 16, UP_TO_164),
            (8, 9) => (1536, 24, UP_TO_100),
            (9, 0) => (2048, 32, UP_TO_228),
            (10, 0 | 3) => (2048, 32, UP_TO_228),
            // One chip under two numbers: CUDA 13 renamed 10.1 to 11.0.
            (10, 1) | (11, 0) => (1536, 24, UP_TO_228),
            (12, 0 | 1) => (1536, 24, UP_TO_100),
            _ => return None,
        };
        let shared_per_sm = *shared_capacities.last()?;
        let (shared_unit, reserved_shared_per_block) =
            if major >= 8 { (128, KIB) } else { (256, 0) };
        Some(Chip {
            warp_threads: 32,
            max_threads_per_block: 1024,
            max_threads_per_sm,
            max_blocks_per_sm,
            sub_partitions: 4,
            registers_per_sm: 65_536,
            max_registers_per_block: 65_536,
            max_registers_per_thread: 256,
            register_unit: 256,
            shared_per_sm,
            shared_capacities,
            shared_unit,
            reserved_shared_per_block,
            max_shared_per_block: 48 * KIB,
            max_shared_per_block_optin: shared_per_sm - reserved_shared_per_block,
        })
    }

    /// Warps resident on one SM.
    pub fn max_warps_per_sm(&self) -> u32 {
        self.max_threads_per_sm / self.warp_threads
    }
}

const VOLTA: &[u32] = &[0, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 96 * KIB];
const TURING: &[u32] = &[32 * KIB, 64 * KIB];
const UP_TO_100: &[u32] = &[0, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 100 * KIB];
const UP_TO_164: &[u32] =
    &[0, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 100 * KIB, 132 * KIB, 164 * KIB];
const UP_TO_228: &[u32] = &[
    0,
    8 * KIB,
    16 * KIB,
    32 * KIB,
    64 * KIB,
    100 * KIB,
    132 * KIB,
    164 * KIB,
    196 * KIB,
    228 * KIB,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// (threads per SM, blocks per SM, KiB of shared memory per SM, KiB per block).
    fn check(major: u32, minor: u32, expected: (u32, u32, u32, u32)) {
        let chip = Chip::for_capability(major, minor).unwrap();
        let found = (
            chip.max_threads_per_sm,
            chip.max_blocks_per_sm,
            chip.shared_per_sm / KIB,
            chip.max_shared_per_block_optin / KIB,
        );
        assert_eq!(found, expected, "{major}.{minor}");
        assert!(chip.shared_capacities.is_sorted());
    }

    #[test]
    fn limits_by_capability() {
        check(7, 0, (2048, 32, 96, 96));
        check(7, 2, (2048, 32, 96, 96));
        check(7, 5, (1024, 16, 64, 64));
        check(8, 0, (2048, 32, 164, 163));
        check(8, 6, (1536, 16, 100, 99));
        check(8, 7, (1536, 16, 164, 163));
        check(8, 9, (1536, 24, 100, 99));
        check(9, 0, (2048, 32, 228, 227));
        check(10, 0, (2048, 32, 228, 227));
        check(10, 1, (1536, 24, 228, 227));
        check(10, 3, (2048, 32, 228, 227));
        check(11, 0, (1536, 24, 228, 227));
        check(12, 0, (1536, 24, 100, 99));
        check(12, 1, (1536, 24, 100, 99));
    }

    #[test]
    fn unknown_capabilities_have_no_chip() {
        for (major, minor) in [(6, 1), (7, 1), (8, 1), (9, 1), (10, 2), (11, 1), (12, 2), (13, 0)] {
            assert_eq!(Chip::for_capability(major, minor), None, "{major}.{minor}");
        }
    }
}
