//! Device memory held over the steady phase, for a forecast.

use crate::row::Row;
use crate::summarise::is_device_memory;
use apex_core::event::What;
use apex_policy::advise::Growth as Points;

/// Memory held, at some of the launches.
#[derive(Default)]
pub(super) struct Growth {
    live: u64,
    points: Vec<(f64, f64)>,
    /// Launches between two points; doubles when there are too many.
    every: u64,
    next: u64,
}

const MOST: usize = 256;

impl Growth {
    pub(super) fn add(&mut self, row: &Row, steady: bool, launched: u64) {
        match row.what {
            What::Alloc { kind, bytes, .. } if is_device_memory(kind) => {
                self.live = self.live.saturating_add(bytes);
            }
            What::Free { kind, bytes, .. } if is_device_memory(kind) => {
                self.live = self.live.saturating_sub(bytes);
            }
            What::Launch(_) | What::GraphLaunch { .. } if steady && launched >= self.next => {
                if self.points.len() == MOST {
                    let mut nth = 0;
                    self.points.retain(|_| {
                        nth += 1;
                        nth % 2 == 1
                    });
                    self.every *= 2;
                }
                self.every = self.every.max(1);
                self.next = launched + self.every;
                self.points.push((row.time_ns as f64, self.live as f64));
            }
            _ => {}
        }
    }

    pub(super) fn finish(self, memory_bytes: u64) -> Points {
        Points { points: self.points, memory_bytes }
    }
}
