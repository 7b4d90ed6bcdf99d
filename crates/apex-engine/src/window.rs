//! The range of addresses in which the device's memory lies.
//!
//! Device addresses are host addresses, so the processor lets a kernel touch everything that the program
//! has mapped. A GPU does not: memory that the driver does not know gives error 700. One aligned range for all
//! memory of the device makes the question one comparison of an address's upper bits. Before the range and behind it
//! lies a margin that never holds anything: what is at a known distance from an address inside either lies inside too or
//! faults in the margin.

/// `1 << bits` addresses from a multiple of that number on, with a margin on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    upper: u64,
    bits: u32,
}

impl Window {
    /// The range from `start` on, which is a multiple of `1 << bits`.
    pub fn new(start: u64, bits: u32) -> Window {
        debug_assert!((8..63).contains(&bits) && start.is_multiple_of(1 << bits));
        Window { upper: start >> bits, bits }
    }

    /// Its first address.
    pub fn start(self) -> u64 {
        self.upper << self.bits
    }

    /// Addresses before it, and as many behind it, that hold nothing.
    pub fn margin(self) -> u64 {
        1 << (self.bits - 3)
    }

    /// Whether an address lies in it.
    pub fn holds(self, address: u64) -> bool {
        address >> self.bits == self.upper
    }

    /// The bits of an address below those that are compared.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// What the other bits of its addresses are.
    pub fn upper(self) -> u64 {
        self.upper
    }
}
