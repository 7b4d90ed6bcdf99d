//! The most memory of the device that a side takes, as another process sees it.
//!
//! Under apex a program is told that idle memory is free, so it cannot be asked. The software GPU's memory belongs to one
//! process each and is seen by no other.

#![allow(unsafe_code, reason = "calls a driver library by its C functions")]

use super::worker::Order;
use crate::libraries::{begin, check, driver_of};
use crate::side::{Side, Under};
use anyhow::{Context, Result, bail};
use apex_cuda::Driver;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Bytes of the device that the side takes at most beyond what is taken already, and those that it asked for. The side
/// ends.
pub(super) fn of(
    under: Under,
    mut side: Side,
    (most_bytes, times): (u64, u64),
) -> Result<Option<(u64, u64)>> {
    let order = Order::Mixed { most_bytes, times };
    if under != Under::Gpu {
        side.does::<u64>(order)?;
        side.end()?;
        return Ok(None);
    }
    let driver = driver_of(None)?;
    begin(&driver)?;
    let before = used(&driver)?;
    let is_done = AtomicBool::new(false);
    let (asked, most) = std::thread::scope(|scope| -> Result<(u64, u64)> {
        let looks = scope.spawn(|| -> Result<u64> {
            begin(&driver)?;
            let mut most = 0;
            while !is_done.load(Ordering::Relaxed) {
                most = most.max(used(&driver)?);
                std::thread::sleep(LOOK_EVERY);
            }
            Ok(most)
        });
        let asked = side.does(order);
        is_done.store(true, Ordering::Relaxed);
        match looks.join() {
            Ok(most) => Ok((asked?, most.context("the device's memory cannot be looked at")?)),
            Err(_) => bail!("the thread that looks at the device's memory has panicked"),
        }
    })?;
    side.end()?;
    Ok(Some((most.saturating_sub(before), asked)))
}

/// Bytes of the device that are taken, by whomever.
fn used(driver: &Driver) -> Result<u64> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: valid places for the answers.
    check("cuMemGetInfo", unsafe { (driver.cuMemGetInfo_v2)(&raw mut free, &raw mut total) })?;
    Ok((total - free) as u64)
}
