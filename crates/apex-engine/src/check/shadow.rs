//! What is known of each byte of a block's shared memory.
//!
//! Races are looked for between warps: lanes of one warp order themselves in ways that no
//! barrier shows (`bar.warp.sync`, shuffles), and to report those would drown the rest.

use crate::site::Access;

/// Several warps have read the byte.
const MANY: u8 = 0xfe;
/// Nobody.
const NONE: u8 = 0xff;

/// One byte. Warps are numbered below 64.
#[derive(Clone, Copy)]
struct Byte {
    /// The accesses noted belong to this stretch between barriers.
    epoch: u32,
    writer: u8,
    reader: u8,
    /// The writer used an atomic operation, or one with an order.
    atomic: bool,
    written: bool,
}

const UNKNOWN: Byte = Byte { epoch: 0, writer: NONE, reader: NONE, atomic: false, written: false };

/// What an access collides with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clash {
    /// The byte was never written.
    Unwritten,
    /// This warp wrote it since the last barrier.
    Write(u8),
    /// Another warp read it since the last barrier.
    Read,
}

/// All bytes.
pub(super) struct Shadow {
    bytes: Vec<Byte>,
    epoch: u32,
}

impl Shadow {
    pub(super) fn new(bytes: usize) -> Shadow {
        Shadow { bytes: vec![UNKNOWN; bytes], epoch: 1 }
    }

    pub(super) fn reset(&mut self) {
        self.bytes.fill(UNKNOWN);
        self.epoch = 1;
    }

    /// All threads have met: what was done before cannot collide with what comes.
    pub(super) fn barrier(&mut self) {
        self.epoch += 1;
    }

    /// Notes an access and tells what it collides with.
    pub(super) fn access(
        &mut self,
        at: usize,
        bytes: usize,
        warp: u8,
        access: Access,
    ) -> Option<Clash> {
        let epoch = self.epoch;
        let mut found = None;
        let range = at..(at + bytes).min(self.bytes.len());
        let touched = self.bytes.get_mut(range)?;
        for byte in touched {
            if byte.epoch != epoch {
                *byte = Byte { epoch, writer: NONE, reader: NONE, atomic: false, ..*byte };
            }
            let clash = byte.note(warp, access);
            found = found.or(clash);
        }
        found
    }
}

impl Byte {
    fn note(&mut self, warp: u8, access: Access) -> Option<Clash> {
        let foreign_write = self.writer != NONE && self.writer != warp;
        let foreign_read = self.reader != NONE && self.reader != warp;
        match access {
            Access::Read => {
                let clash = if !self.written {
                    Some(Clash::Unwritten)
                } else if foreign_write {
                    Some(Clash::Write(self.writer))
                } else {
                    None
                };
                self.reader = if self.reader == NONE || self.reader == warp { warp } else { MANY };
                clash
            }
            Access::Write => {
                let clash = if foreign_write {
                    Some(Clash::Write(self.writer))
                } else {
                    foreign_read.then_some(Clash::Read)
                };
                (self.writer, self.atomic, self.written) = (warp, false, true);
                clash
            }
            Access::Atomic => {
                let clash = (foreign_write && !self.atomic).then_some(Clash::Write(self.writer));
                if self.writer == NONE || self.atomic {
                    (self.writer, self.atomic) = (warp, true);
                }
                self.written = true;
                clash
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn races_end_at_barriers() {
        let mut shadow = Shadow::new(16);
        assert!(shadow.access(0, 4, 0, Access::Read) == Some(Clash::Unwritten));
        assert!(shadow.access(0, 4, 0, Access::Write).is_none());
        assert!(shadow.access(0, 4, 1, Access::Read) == Some(Clash::Write(0)));
        shadow.barrier();
        assert!(shadow.access(0, 4, 1, Access::Read).is_none());
        assert!(shadow.access(2, 2, 2, Access::Write) == Some(Clash::Read));
        shadow.barrier();
        assert!(shadow.access(8, 4, 0, Access::Atomic).is_none());
        assert!(shadow.access(8, 4, 1, Access::Atomic).is_none());
        assert!(shadow.access(8, 4, 0, Access::Write) == Some(Clash::Write(1)));
    }
}
