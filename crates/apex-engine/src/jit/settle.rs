//! What compiled code calls where registers pass between it and the interpreter.

use super::emit::Regular;
use crate::frame::WarpFrame;

/// Tests that registers the interpreter left are as regular as compiled code takes them to be.
///
/// # Safety
/// Called by compiled code, with its own tables.
pub(super) unsafe extern "C" fn admit(
    warp: *mut WarpFrame,
    table: *const Regular,
    count: u64,
    width: u32,
) -> u32 {
    // SAFETY: as promised; the offsets are those of the kernel's register file.
    unsafe {
        let file = (*warp).registers;
        for regular in std::slice::from_raw_parts(table, count as usize) {
            let at = file.add(regular.offset as usize);
            let regular_lanes = if regular.lane_bytes == 8 {
                let lanes = at.cast::<u64>();
                let base = lanes.read();
                (1..u64::from(width)).all(|lane| {
                    let expected = base.wrapping_add((regular.stride as u64).wrapping_mul(lane));
                    lanes.add(lane as usize).read() == expected
                })
            } else {
                let lanes = at.cast::<u32>();
                let base = lanes.read();
                (1..width).all(|lane| {
                    let expected = base.wrapping_add((regular.stride as u32).wrapping_mul(lane));
                    lanes.add(lane as usize).read() == expected
                })
            };
            if !regular_lanes {
                return 0;
            }
        }
    }
    1
}

/// Writes all lanes of regular registers, and PTX's NaN, for the interpreter.
///
/// # Safety
/// Called by compiled code, with its own tables.
pub(super) unsafe extern "C" fn settle(
    warp: *mut WarpFrame,
    table: *const Regular,
    count: u64,
    width: u32,
) -> u32 {
    // SAFETY: as promised; the offsets are those of the kernel's register file.
    unsafe {
        (*warp).compact = 0;
        let file = (*warp).registers;
        for regular in std::slice::from_raw_parts(table, count as usize) {
            let at = file.add(regular.offset as usize);
            if regular.spread && regular.lane_bytes == 8 {
                let lanes = at.cast::<u64>();
                let base = lanes.read();
                for lane in 1..u64::from(width) {
                    let value = base.wrapping_add((regular.stride as u64).wrapping_mul(lane));
                    lanes.add(lane as usize).write(value);
                }
            } else if regular.spread {
                let lanes = at.cast::<u32>();
                let base = lanes.read();
                for lane in 1..width {
                    let value = base.wrapping_add((regular.stride as u32).wrapping_mul(lane));
                    lanes.add(lane as usize).write(value);
                }
            }
            if regular.raw {
                let lanes = at.cast::<f32>();
                for lane in 0..width as usize {
                    if lanes.add(lane).read().is_nan() {
                        lanes.add(lane).cast::<u32>().write(0x7fff_ffff);
                    }
                }
            }
        }
    }
    1
}
