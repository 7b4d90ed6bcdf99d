//! The devices that the software GPU can pose as.
//!
//! A row holds what tells one product from another; what follows from the compute
//! capability is taken from `apex-policy`, where occupancy takes it too. The numbers
//! are those of the products, so that a program chooses here what it would choose
//! there. Only the name says what the device really is.

use apex_policy::Chip;

/// One product.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The word by which it is chosen.
    pub(crate) key: &'static str,
    /// What the device is called.
    pub(crate) name: &'static str,
    pub(crate) capability: (u32, u32),
    pub(crate) memory_bytes: u64,
    pub(crate) multiprocessors: u32,
    pub(crate) clock_khz: u32,
    pub(crate) memory_clock_khz: u32,
    pub(crate) bus_bits: u32,
    pub(crate) l2_bytes: u32,
    pub(crate) persisting_l2_bytes: u32,
    pub(crate) copy_engines: u32,
    /// How much slower double precision is than single.
    pub(crate) double_ratio: u32,
    pub(crate) is_ecc: bool,
}

const GIB: u64 = 1 << 30;
const MIB: u32 = 1 << 20;

/// Every product, the default first.
#[rustfmt::skip]
pub(crate) const IDENTITIES: &[Identity] = &[
    Identity { key: "h200", name: "apex software GPU (H200)", capability: (9, 0), memory_bytes: 150_109_880_320, multiprocessors: 132, clock_khz: 1_980_000, memory_clock_khz: 3_201_000, bus_bits: 6016, l2_bytes: 60 * MIB, persisting_l2_bytes: 39_321_600, copy_engines: 3, double_ratio: 2, is_ecc: true },
    Identity { key: "a100", name: "apex software GPU (A100)", capability: (8, 0), memory_bytes: 85_031_714_816, multiprocessors: 108, clock_khz: 1_410_000, memory_clock_khz: 1_593_000, bus_bits: 5120, l2_bytes: 40 * MIB, persisting_l2_bytes: 26_214_400, copy_engines: 3, double_ratio: 2, is_ecc: true },
    Identity { key: "rtx4090", name: "apex software GPU (RTX 4090)", capability: (8, 9), memory_bytes: 25_282_281_472, multiprocessors: 128, clock_khz: 2_520_000, memory_clock_khz: 10_501_000, bus_bits: 384, l2_bytes: 72 * MIB, persisting_l2_bytes: 49_545_216, copy_engines: 2, double_ratio: 64, is_ecc: false },
    Identity { key: "l4", name: "apex software GPU (L4)", capability: (8, 9), memory_bytes: 23_664_721_920, multiprocessors: 58, clock_khz: 2_040_000, memory_clock_khz: 6_251_000, bus_bits: 192, l2_bytes: 48 * MIB, persisting_l2_bytes: 33_030_144, copy_engines: 2, double_ratio: 64, is_ecc: true },
    Identity { key: "t4", name: "apex software GPU (T4)", capability: (7, 5), memory_bytes: 15_655_829_504, multiprocessors: 40, clock_khz: 1_590_000, memory_clock_khz: 5_001_000, bus_bits: 256, l2_bytes: 4 * MIB, persisting_l2_bytes: 0, copy_engines: 3, double_ratio: 32, is_ecc: true },
    Identity { key: "b200", name: "apex software GPU (B200)", capability: (10, 0), memory_bytes: 178 * GIB, multiprocessors: 148, clock_khz: 1_965_000, memory_clock_khz: 3_996_000, bus_bits: 7680, l2_bytes: 126 * MIB, persisting_l2_bytes: 82_575_360, copy_engines: 4, double_ratio: 2, is_ecc: true },
    Identity { key: "rtx5090", name: "apex software GPU (RTX 5090)", capability: (12, 0), memory_bytes: 33_660_665_856, multiprocessors: 170, clock_khz: 2_407_000, memory_clock_khz: 14_001_000, bus_bits: 512, l2_bytes: 96 * MIB, persisting_l2_bytes: 62_914_560, copy_engines: 2, double_ratio: 64, is_ecc: false },
];

impl Identity {
    /// The product of that name.
    pub(crate) fn named(key: &str) -> Option<&'static Identity> {
        IDENTITIES.iter().find(|identity| identity.key.eq_ignore_ascii_case(key))
    }

    /// What one multiprocessor holds.
    pub(crate) fn chip(&self) -> Chip {
        let (major, minor) = self.capability;
        Chip::for_capability(major, minor).expect("a test holds every row to a listed capability")
    }

    fn has(&self, major: u32) -> i32 {
        i32::from(self.capability.0 >= major)
    }

    /// An attribute by its number; none where there is no such attribute. A service
    /// that the driver does not answer is said to be absent.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub(crate) fn attribute(&self, attribute: u32, ordinal: i32) -> Option<i32> {
        let chip = self.chip();
        let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        Some(match attribute {
            1 => number(chip.max_threads_per_block),
            2 | 3 => 1024,
            4 => 64,
            5 | 11 => i32::MAX,
            6 | 7 => 65_535,
            8 => number(chip.max_shared_per_block),
            9 | 23 | 57 => 65_536,
            10 => number(chip.warp_threads),
            12 => number(chip.max_registers_per_block),
            13 => number(self.clock_khz),
            14 | 30 => 512,
            // What the driver does: host memory mapped, kernels side by side, one address
            // space, stream priorities, caches, managed memory, cooperative launches, host
            // registration, mapping by hand and its files, pools, waits and writes of
            // streams, events between processes, pointers to functions.
            15
            | 19
            | 31
            | 41
            | 44
            | 78..=80
            | 83
            | 89..=91
            | 95
            | 96
            | 99
            | 102
            | 103
            | 113
            | 115
            | 122
            | 123
            | 125
            | 129 => 1,
            16 => number(self.multiprocessors),
            32 => i32::from(self.is_ecc),
            17
            | 18
            | 20
            | 34
            | 35
            | 50
            | 84
            | 86
            | 88
            | 92..=94
            | 98
            | 100
            | 101
            | 104
            | 105
            | 107
            | 110
            | 112
            | 114
            | 116..=119
            | 121
            | 124
            | 128
            | 130
            | 132..=147 => 0,
            21 | 22 | 56 | 70 => 131_072,
            24..=26 | 58..=60 => 16_384,
            27 | 28 | 42 | 45 | 46 | 49 | 52 | 53 | 55 | 61 | 63 | 64 | 66 | 67 | 73 | 74 | 77 => {
                32_768
            }
            29 | 43 | 62 | 65 => 2048,
            33 => ordinal + 1,
            36 => number(self.memory_clock_khz),
            37 => number(self.bus_bits),
            38 => number(self.l2_bytes),
            39 => number(chip.max_threads_per_sm),
            40 => number(self.copy_engines),
            47 | 48 => 8192,
            51 => 32,
            54 | 68 => 2046,
            69 => 268_435_456,
            71 => 65_000,
            72 => 2_097_120,
            75 => number(self.capability.0),
            76 => number(self.capability.1),
            81 => number(chip.shared_per_sm),
            82 => number(chip.registers_per_sm),
            85 => ordinal,
            87 => number(self.double_ratio),
            97 => number(chip.max_shared_per_block_optin),
            106 => number(chip.max_blocks_per_sm),
            108 => number(self.persisting_l2_bytes),
            109 => {
                if self.persisting_l2_bytes > 0 {
                    128 * number(MIB)
                } else {
                    0
                }
            }
            111 => number(chip.reserved_shared_per_block),
            120 | 127 => self.has(9),
            126 => {
                if self.capability.0 >= 9 {
                    4
                } else {
                    1
                }
            }
            131 => -1,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_has_a_chip_and_all_attributes() {
        for identity in IDENTITIES {
            let (major, minor) = identity.capability;
            assert!(Chip::for_capability(major, minor).is_some(), "{}", identity.key);
            for attribute in 1..=147 {
                assert!(identity.attribute(attribute, 0).is_some(), "{attribute}");
            }
            assert_eq!(identity.attribute(148, 0), None);
            assert_eq!(identity.attribute(0, 0), None);
        }
    }

    #[test]
    fn products_are_chosen_by_name() {
        assert_eq!(Identity::named("H200").map(|identity| identity.multiprocessors), Some(132));
        assert_eq!(Identity::named("t4").and_then(|t4| t4.attribute(75, 0)), Some(7));
        assert_eq!(Identity::named("rtx5090").and_then(|one| one.attribute(97, 0)), Some(99 << 10));
        assert!(Identity::named("voodoo").is_none());
    }
}
