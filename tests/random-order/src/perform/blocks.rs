//! Blocks that a thread holds for longer than an act: freed while work that uses them is under way, and asked about.
//!
//! What a fresh block has in it is nobody's business, so each is filled before anything of it is read. One lane at a time
//! uses a block; when another takes it over, that one waits for an event.

use super::{Performer, View, call};
use crate::kernels::WORDS;
use apex_cuda::types::*;
use std::ffi::c_void;

/// Bytes that a lane and a block exchange.
const PART: usize = 4 * WORDS / 2;

/// A block.
#[derive(Clone, Copy)]
pub(super) struct Block {
    address: CUdeviceptr,
    bytes: usize,
    /// The lane that has used it last.
    lane: usize,
}

impl Performer<'_> {
    pub(super) fn hold(&mut self, lane: usize, place: usize, bytes: usize, rows: usize, value: u8) {
        self.drop_block(place);
        let (mut address, mut pitch) = (0, 0);
        let bytes = if rows == 0 {
            call!(self, cuMemAlloc_v2(&raw mut address, bytes));
            bytes
        } else {
            call!(self, cuMemAllocPitch_v2(&raw mut address, &raw mut pitch, bytes, rows, 4));
            self.record.note("pitch", pitch as u64);
            pitch * rows
        };
        if address == 0 {
            return;
        }
        let View { stream, .. } = self.lanes[lane].view();
        let value = value.wrapping_add(self.salt as u8);
        call!(self, cuMemsetD8Async(address, value, bytes, stream));
        self.blocks[place] = Some(Block { address, bytes, lane });
    }

    pub(super) fn mingle(&mut self, lane: usize, place: usize, event: usize) {
        let Some(Block { address, bytes, lane: before }) = self.blocks[place] else { return };
        let View { stream, words, .. } = self.lanes[lane].view();
        if before != lane {
            let event = self.events[event];
            call!(self, cuEventRecord(event, self.lanes[before].stream));
            call!(self, cuStreamWaitEvent(stream, event, 0));
        }
        let last = address + (bytes - PART) as u64;
        call!(self, cuMemcpyDtoDAsync_v2(words + PART as u64, last, PART, stream));
        call!(self, cuMemcpyDtoDAsync_v2(address, words, PART, stream));
        self.blocks[place] = Some(Block { address, bytes, lane });
    }

    /// What is answered but for the address itself, which may be any.
    pub(super) fn look(&mut self, place: usize) {
        const MEMORY_TYPE: u32 = 2;
        const RANGE_START: u32 = 11;
        const RANGE_BYTES: u32 = 12;
        let Some(Block { address, bytes, .. }) = self.blocks[place] else { return };
        let (mut base, mut size) = (0, 0);
        let inside = address + bytes as u64 / 2;
        call!(self, cuMemGetAddressRange_v2(&raw mut base, &raw mut size, inside));
        self.record.note("before the block", address.wrapping_sub(base));
        self.record.note("its bytes", size as u64);
        for attribute in [MEMORY_TYPE, RANGE_START, RANGE_BYTES] {
            let mut value = 0_u64;
            let data = (&raw mut value).cast::<c_void>();
            call!(self, cuPointerGetAttribute(data, attribute, inside));
            let value = if attribute == RANGE_START { address.wrapping_sub(value) } else { value };
            self.record.note("attribute", value);
        }
    }

    pub(super) fn drop_block(&mut self, place: usize) {
        let Some(Block { address, .. }) = self.blocks[place].take() else { return };
        // Where the context has failed the driver says so at each free, and the pool at the next wait.
        if !self.has_failed {
            call!(self, cuMemFree_v2(address));
        }
    }
}
