//! Lanes moved between vectors.

use super::emit::Emit;
use cranelift_codegen::ir::types::{I8X16, I32X4, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};

impl Emit<'_, '_> {
    /// Four even or odd 32-bit lanes of two vectors.
    pub(super) fn every_other(&mut self, low: Value, high: Value, odd: bool) -> Value {
        let first = if odd { 4 } else { 0 };
        let mut bytes = [0; 16];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = (index / 4 * 8 + first + index % 4) as u8;
        }
        self.shuffle_bytes(low, high, bytes)
    }

    /// The lanes of two vectors in turn: the lower four, the upper four.
    pub(super) fn interleave(&mut self, x: Value, y: Value) -> [Value; 2] {
        let pattern = |start: usize| {
            let mut bytes = [0; 16];
            for (index, byte) in bytes.iter_mut().enumerate() {
                let from = if index / 4 % 2 == 0 { 0 } else { 16 };
                *byte = (from + (start + index / 8) * 4 + index % 4) as u8;
            }
            bytes
        };
        [self.shuffle_bytes(x, y, pattern(0)), self.shuffle_bytes(x, y, pattern(2))]
    }

    /// Picks 16 of the 32 bytes of two vectors; the result has 32-bit lanes.
    pub(super) fn shuffle_bytes(&mut self, x: Value, y: Value, bytes: [u8; 16]) -> Value {
        let (x, y) = (self.cast(I8X16, x), self.cast(I8X16, y));
        let pattern = self.build.func.dfg.immediates.push(bytes.as_slice().into());
        let picked = self.build.ins().shuffle(x, y, pattern);
        self.cast(I32X4, picked)
    }

    /// Rows to columns.
    pub(super) fn transpose(&mut self, [a, b, c, d]: [Value; 4]) -> [Value; 4] {
        let [ac_low, ac_high] = self.interleave(a, c);
        let [bd_low, bd_high] = self.interleave(b, d);
        let [x, y] = self.interleave(ac_low, bd_low);
        let [z, w] = self.interleave(ac_high, bd_high);
        [x, y, z, w]
    }

    pub(super) fn transpose64(&mut self, a: Value, b: Value) -> [Value; 2] {
        [0, 8].map(|start| {
            let mut bytes = [0; 16];
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = (start + index % 8 + index / 8 * 16) as u8;
            }
            let picked = self.shuffle_bytes(a, b, bytes);
            self.cast(I64X2, picked)
        })
    }
}
