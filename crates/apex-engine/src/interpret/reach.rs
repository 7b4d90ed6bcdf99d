//! Whether an access reaches memory of the device.
//!
//! Most addresses lie in the window of device memory, and one comparison settles it. What lies outside is the
//! block's own memory, host memory that is registered with the driver, or nothing that a GPU could touch: then the
//! launch ends as there, before a byte has moved.

use super::context::{Context, Outcome};
use super::file::{dense, lanes_of, wide};
use crate::code::{LANES, Space};
use crate::site::Access;
use crate::window::Window;

/// Refuses an access of lanes to global or generic addresses that are not the kernel's to touch.
pub(super) fn check(x: &Context, at: &[u64; LANES], bytes: u32, access: Access) -> Outcome {
    match x.block().facts().device.window {
        Some(window) if !all_inside(at, x.mask(), window) => {
            lanes_of(x.mask()).try_for_each(|lane| one(x, lane, at[lane], bytes, access))
        }
        _ => Ok(()),
    }
}

wide! {
fn all_inside(at: &[u64; LANES], mask: u32, window: Window) -> bool {
    let mut differing = 0;
    match dense(mask) {
        Some(count) => {
            for &at in &at[..count] {
                differing |= at ^ window.start();
            }
        }
        None => {
            for lane in lanes_of(mask) {
                differing |= at[lane] ^ window.start();
            }
        }
    }
    differing >> window.bits() == 0
}
}

/// As [`check`], for one lane and any number of bytes.
pub(super) fn one(x: &Context, lane: usize, address: u64, bytes: u32, access: Access) -> Outcome {
    let block = x.block();
    let device = &block.facts().device;
    let Some(window) = device.window else { return Ok(()) };
    let last = address.wrapping_add(u64::from(bytes).saturating_sub(1));
    let reaches = (window.holds(address) && window.holds(last))
        || block.owns(address, bytes.into())
        || device.services.reaches(address, bytes.into());
    if reaches {
        return Ok(());
    }
    Err(x.bad_address(lane, address, bytes, Some((access, Space::Global))))
}
