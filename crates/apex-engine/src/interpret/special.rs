//! Special registers.

use super::context::Context;
use crate::code::{Class, LANES, Reg, Special};
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads one.
pub(crate) fn special(x: &Context, dst: Reg, which: Special) {
    let block = x.block();
    let facts = block.facts();
    let frame = &block.frame;
    let first = x.warp().frame.first_thread;
    let per_lane: Option<fn(u32) -> u64> = match which {
        Special::Laneid => Some(|lane| lane.into()),
        Special::LanemaskEq => Some(|lane| 1 << lane),
        Special::LanemaskLe => Some(|lane| (2 << lane) - 1),
        Special::LanemaskLt => Some(|lane| (1 << lane) - 1),
        Special::LanemaskGe => Some(|lane| u64::from(u32::MAX << lane)),
        Special::LanemaskGt => Some(|lane| u64::from(u32::MAX << lane << 1)),
        _ => None,
    };
    if let Some(f) = per_lane {
        return each(x, dst, |lane| f(lane as u32));
    }
    if let Special::Tid(axis) = which {
        let ids: [u32; LANES] = std::array::from_fn(|lane| {
            thread_of(frame.threads, first + lane as u32)[axis as usize]
        });
        return x.file().put(dst, x.mask(), &ids);
    }
    if which == Special::Warpid {
        return each(x, dst, |lane| u64::from((first + lane as u32) / 32));
    }
    let axis = |values: [u32; 3], axis: u8| u64::from(values[axis as usize & 3]);
    let in_cluster = |axis: u8| frame.block[axis as usize & 3] % frame.cluster[axis as usize & 3];
    let value = match which {
        Special::Ntid(n) => axis(frame.threads, n),
        Special::Ctaid(n) => axis(frame.block, n),
        Special::Nctaid(n) => axis(frame.grid, n),
        Special::Nwarpid => u64::from(facts.threads().div_ceil(32)),
        Special::Smid => frame.sm.into(),
        Special::Nsmid => frame.sms.into(),
        Special::Gridid => facts.grid_id,
        Special::Clock | Special::Clock64 => clock(x),
        Special::ClockHi => clock(x) >> 32,
        Special::Globaltimer | Special::GlobaltimerLo => timer(),
        Special::GlobaltimerHi => timer() >> 32,
        Special::DynamicSharedBytes => frame.dynamic_shared_bytes.into(),
        Special::TotalSharedBytes => frame.shared_bytes.into(),
        Special::Envreg(n) => {
            let workspace = facts.workspace.as_ref().map_or(0, |w| &raw const **w as u64);
            match n {
                1 => workspace >> 32,
                2 => workspace & 0xffff_ffff,
                _ => 0,
            }
        }
        Special::Clusterid(n) => {
            u64::from(frame.block[n as usize & 3] / frame.cluster[n as usize & 3])
        }
        Special::Nclusterid(n) => {
            u64::from(frame.grid[n as usize & 3] / frame.cluster[n as usize & 3])
        }
        Special::ClusterCtaid(n) => in_cluster(n).into(),
        Special::ClusterNctaid(n) => axis(frame.cluster, n),
        Special::ClusterCtarank => block.rank().into(),
        Special::ClusterNctarank => facts.cluster_blocks().into(),
        Special::IsExplicitCluster => u64::from(facts.cluster_blocks() > 1),
        _ => 0,
    };
    each(x, dst, |_| value);
}

fn each(x: &Context, dst: Reg, f: impl Fn(usize) -> u64) {
    if x.file().class(dst) == Class::B64 {
        let values: [u64; LANES] = std::array::from_fn(f);
        x.file().put(dst, x.mask(), &values);
    } else {
        let values: [u32; LANES] = std::array::from_fn(|lane| f(lane) as u32);
        x.file().put(dst, x.mask(), &values);
    }
}

/// `%tid` of a thread's linear number.
pub(crate) fn thread_of(threads: [u32; 3], linear: u32) -> [u32; 3] {
    let [width, height, _] = threads;
    [linear % width, linear / width % height, linear / (width * height)]
}

fn clock(x: &Context) -> u64 {
    let facts = x.block().facts();
    let nanos = facts.started.elapsed().as_nanos();
    (nanos * u128::from(facts.device.identity.clock_khz) / 1_000_000) as u64
}

fn timer() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}
