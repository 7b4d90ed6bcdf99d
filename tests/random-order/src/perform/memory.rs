//! Memory that is filled, copied, taken and given back.

use super::{Lane, Performer, View, call};
use crate::kernels::WORDS;
use crate::program::{How, Kind};
use crate::random::Random;
use crate::side::PINNED;
use std::ptr::null_mut;

/// Where a lane's pinned memory takes what is downloaded, and from where on it keeps what is uploaded.
const DOWNLOADED: usize = 64;
const UPLOADED: usize = 128;
const MOST_UPLOADS: usize = (PINNED - UPLOADED) / WORDS;

impl Lane {
    /// The words that a download has brought.
    pub(super) fn downloaded(&self) -> [u32; WORDS] {
        // SAFETY: this lane's own memory; the download is done.
        unsafe { self.pinned.add(DOWNLOADED).cast::<[u32; WORDS]>().read_volatile() }
    }
}

impl Performer<'_> {
    pub(super) fn is_alone(&self) -> bool {
        self.meetings.is_alone
    }

    pub(super) fn fill(&mut self, lane: usize, bits: u32, value: u32, at: usize, count: usize) {
        let View { stream, words, .. } = self.lanes[lane].view();
        let value = value.wrapping_add(self.salt as u32);
        let place = words + 4 * at as u64;
        match bits {
            8 => call!(self, cuMemsetD8Async(place, value as u8, count, stream)),
            16 => call!(self, cuMemsetD16Async(place, value as u16, count, stream)),
            _ => call!(self, cuMemsetD32Async(place, value, count, stream)),
        };
    }

    /// A fill in the order of the legacy stream.
    pub(super) fn fill_now(&mut self, lane: usize, value: u32) {
        let is_apart = self.wait_if_apart(lane);
        let View { words, .. } = self.lanes[lane].view();
        call!(self, cuMemsetD32_v2(words + 32, value, 8));
        if is_apart {
            call!(self, cuStreamSynchronize(null_mut()));
        }
    }

    /// A call in the order of the legacy stream does not wait for such a stream: it is waited for first.
    fn wait_if_apart(&mut self, lane: usize) -> bool {
        let is_apart = !self.lanes[lane].kind.meets_legacy();
        if is_apart {
            self.sync(lane);
        }
        is_apart
    }

    pub(super) fn copy_within(&mut self, lane: usize, to: usize, from: usize, count: usize) {
        let View { stream, words, .. } = self.lanes[lane].view();
        let (to, from) = (words + 4 * to as u64, words + 4 * from as u64);
        call!(self, cuMemcpyDtoDAsync_v2(to, from, 4 * count, stream));
    }

    pub(super) fn exchange(&mut self, to: usize, from: usize, event: usize) {
        let (source, target) = (self.lanes[from].view(), self.lanes[to].view());
        let kinds = [self.lanes[from].kind, self.lanes[to].kind];
        // The legacy stream and a blocking one wait for each other by themselves.
        let is_implied =
            kinds.contains(&Kind::Legacy) && kinds.iter().all(|kind| kind.meets_legacy());
        let event = self.events[event];
        if !is_implied {
            call!(self, cuEventRecord(event, source.stream));
            call!(self, cuStreamWaitEvent(target.stream, event, 0));
        }
        call!(self, cuMemcpyDtoDAsync_v2(target.words, source.words, 4 * WORDS - 8, target.stream));
        if !is_implied {
            call!(self, cuEventRecord(event, target.stream));
            call!(self, cuStreamWaitEvent(source.stream, event, 0));
        }
    }

    pub(super) fn upload(&mut self, lane: usize, how: How, seed: u64) {
        let mut random = Random::new(seed ^ self.salt);
        let mut given: [u32; WORDS] = std::array::from_fn(|_| random.next() as u32);
        let from = given.as_mut_ptr();
        let bytes = 4 * WORDS;
        match how {
            How::Blocking => {
                self.wait_if_apart(lane);
                let View { words, .. } = self.lanes[lane].view();
                call!(self, cuMemcpyHtoD_v2(words, from.cast(), bytes));
            }
            How::Pageable => {
                let View { stream, words, .. } = self.lanes[lane].view();
                call!(self, cuMemcpyHtoDAsync_v2(words, from.cast(), bytes, stream));
            }
            How::Pinned => {
                if self.lanes[lane].uploads == MOST_UPLOADS {
                    self.sync(lane);
                }
                let View { stream, words, pinned, .. } = self.lanes[lane].view();
                let place = pinned.wrapping_add(UPLOADED + self.lanes[lane].uploads * WORDS);
                // SAFETY: a part of this lane's memory that nothing uses since the last wait.
                unsafe { place.copy_from_nonoverlapping(from, WORDS) };
                self.lanes[lane].uploads += 1;
                call!(self, cuMemcpyHtoDAsync_v2(words, place.cast(), bytes, stream));
            }
        }
        // What is pageable belongs to the program again.
        given.fill(0xdead_beef);
        std::hint::black_box(&given);
    }

    pub(super) fn download(&mut self, lane: usize, how: How) {
        let bytes = 4 * WORDS;
        match how {
            How::Blocking => {
                self.wait_if_apart(lane);
                self.download_now(lane);
            }
            How::Pageable => {
                let View { stream, words, .. } = self.lanes[lane].view();
                let mut got = [0_u32; WORDS];
                call!(self, cuMemcpyDtoHAsync_v2(got.as_mut_ptr().cast(), words, bytes, stream));
                self.record.words("pageable download", &got);
            }
            How::Pinned => {
                let View { stream, words, pinned, .. } = self.lanes[lane].view();
                let place = pinned.wrapping_add(DOWNLOADED).cast();
                call!(self, cuMemcpyDtoHAsync_v2(place, words, bytes, stream));
                self.lanes[lane].is_downloading = true;
            }
        }
    }

    pub(super) fn download_now(&mut self, lane: usize) {
        let View { words, .. } = self.lanes[lane].view();
        let mut got = [0_u32; WORDS];
        call!(self, cuMemcpyDtoH_v2(got.as_mut_ptr().cast(), words, 4 * WORDS));
        self.record.words("download", &got);
    }

    /// Memory comes, is used and goes while the work that uses it is under way.
    pub(super) fn allocate(&mut self, lane: usize, is_ordered: bool, value: u32) {
        const BYTES: usize = 256;
        let View { stream, words, .. } = self.lanes[lane].view();
        let mut address = 0;
        if is_ordered {
            call!(self, cuMemAllocAsync(&raw mut address, BYTES, stream));
        } else {
            call!(self, cuMemAlloc_v2(&raw mut address, BYTES));
        }
        let value = value.wrapping_add(self.salt as u32);
        call!(self, cuMemsetD32Async(address, value, BYTES / 4, stream));
        call!(self, cuMemcpyDtoDAsync_v2(address + 16, words, 64, stream));
        call!(self, cuMemcpyDtoDAsync_v2(words + 128, address, 128, stream));
        if is_ordered {
            call!(self, cuMemFreeAsync(address, stream));
        } else {
            call!(self, cuMemFree_v2(address));
        }
    }
}
