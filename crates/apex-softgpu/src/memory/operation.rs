//! What streams read and write in memory by themselves: waits for a word, and words
//! written.
//!
//! A wait holds no thread (see [`crate::run::scheduler`]), so the word may be written by a
//! kernel, by another stream or by the program. The words are read and written as
//! atomics: a program and a stream use them to tell each other something.

use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use apex_cuda::types::*;

use crate::memory::hold::Hold;
use crate::memory::range::is_known;

/// One order of a stream to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryOperation {
    address: u64,
    value: u64,
    bytes: u64,
    /// How the word is compared; none for a write.
    condition: Option<Condition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// The word has come at least so far, going round.
    AtLeast,
    Equal,
    /// They have a bit in common.
    And,
    /// Some bit is in neither.
    Nor,
}

const WAIT_32: u64 = 1;
const WRITE_32: u64 = 2;
const FLUSH: u64 = 3;
const WAIT_64: u64 = 4;
const WRITE_64: u64 = 5;
const BARRIER: u64 = 6;

impl MemoryOperation {
    /// A word to be written.
    pub(crate) fn write(address: u64, value: u64, bytes: u64) -> Result<MemoryOperation, CUresult> {
        MemoryOperation { address, value, bytes, condition: None }.checked()
    }

    /// A word to be waited for.
    pub(crate) fn wait(
        address: u64,
        value: u64,
        bytes: u64,
        flags: u32,
    ) -> Result<MemoryOperation, CUresult> {
        let condition = match flags & 0xf {
            0 => Condition::AtLeast,
            1 => Condition::Equal,
            2 => Condition::And,
            3 => Condition::Nor,
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        };
        MemoryOperation { address, value, bytes, condition: Some(condition) }.checked()
    }

    /// An order as C writes it: operation, address, value, flags. None for an order
    /// that has nothing to do here, where all memory is seen by all.
    pub(crate) fn read(words: [u64; 6]) -> Result<Option<MemoryOperation>, CUresult> {
        let [operation, address, value, flags, ..] = words;
        let (low, flags) = (value & u64::from(u32::MAX), flags as u32);
        Ok(Some(match operation & u64::from(u32::MAX) {
            WAIT_32 => MemoryOperation::wait(address, low, 4, flags)?,
            WAIT_64 => MemoryOperation::wait(address, value, 8, flags)?,
            WRITE_32 => MemoryOperation::write(address, low, 4)?,
            WRITE_64 => MemoryOperation::write(address, value, 8)?,
            FLUSH | BARRIER => return Ok(None),
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        }))
    }

    /// Whether the order needs no waiting.
    pub(crate) fn is_write(&self) -> bool {
        self.condition.is_none()
    }

    fn checked(self) -> Result<MemoryOperation, CUresult> {
        let fits = self.address.is_multiple_of(self.bytes) && is_known(self.address, self.bytes);
        if fits { Ok(self) } else { Err(CUDA_ERROR_INVALID_VALUE) }
    }

    /// Writes the word, or looks whether the wait is over; whether the order is done.
    pub(crate) fn advance(&self) -> bool {
        // Memory that was freed meanwhile cannot be waited for.
        let Some(_held) = Hold::on(self.address, self.bytes) else { return true };
        let address = self.address as usize;
        // SAFETY: aligned and known, found just now; any bytes are an integer.
        unsafe {
            match (self.condition, self.bytes) {
                (None, 4) => {
                    let word = &*with_exposed_provenance::<AtomicU32>(address);
                    word.store(self.value as u32, Ordering::Release);
                    true
                }
                (None, _) => {
                    let word = &*with_exposed_provenance::<AtomicU64>(address);
                    word.store(self.value, Ordering::Release);
                    true
                }
                (Some(condition), 4) => {
                    let word = &*with_exposed_provenance::<AtomicU32>(address);
                    let found = word.load(Ordering::Acquire);
                    let ahead = found.wrapping_sub(self.value as u32) as i32 >= 0;
                    condition.is_met(found.into(), self.value, ahead, u32::MAX.into())
                }
                (Some(condition), _) => {
                    let word = &*with_exposed_provenance::<AtomicU64>(address);
                    let found = word.load(Ordering::Acquire);
                    let ahead = found.wrapping_sub(self.value) as i64 >= 0;
                    condition.is_met(found, self.value, ahead, u64::MAX)
                }
            }
        }
    }
}

impl Condition {
    fn is_met(self, found: u64, value: u64, ahead: bool, all_bits: u64) -> bool {
        match self {
            Condition::AtLeast => ahead,
            Condition::Equal => found == value,
            Condition::And => found & value != 0,
            Condition::Nor => !(found | value) & all_bits != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(condition: Condition, found: u32, value: u32, expected: bool) {
        let ahead = found.wrapping_sub(value) as i32 >= 0;
        let met = condition.is_met(found.into(), value.into(), ahead, u32::MAX.into());
        assert_eq!(met, expected, "{condition:?} {found} {value}");
    }

    #[test]
    fn words_are_compared() {
        check(Condition::AtLeast, 5, 5, true);
        check(Condition::AtLeast, 4, 5, false);
        check(Condition::AtLeast, 3, u32::MAX, true);
        check(Condition::Equal, 5, 5, true);
        check(Condition::Equal, 6, 5, false);
        check(Condition::And, 6, 2, true);
        check(Condition::And, 5, 2, false);
        check(Condition::Nor, 1, u32::MAX - 1, false);
        check(Condition::Nor, 0, u32::MAX - 1, true);
    }

    #[test]
    fn unknown_memory_and_operations_are_refused() {
        assert!(MemoryOperation::write(8, 0, 4).is_err());
        assert!(MemoryOperation::read([99, 8, 0, 0, 0, 0]).is_err());
        assert_eq!(MemoryOperation::read([FLUSH, 0, 0, 0, 0, 0]), Ok(None));
    }
}
