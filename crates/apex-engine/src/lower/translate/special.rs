//! Special registers.

use crate::code::{Class, Special};

/// What a special register is, and the class of its value.
///
/// `member` is the part behind the dot: `%tid.x`.
pub(super) fn special(name: &str, member: Option<&str>) -> Option<(Special, Class)> {
    let narrow = |which| Some((which, Class::B32));
    let wide = |which| Some((which, Class::B64));
    let name = name.strip_prefix('%')?;
    if let Some(member) = member {
        let axis = match member {
            "x" | "r" => 0,
            "y" | "g" => 1,
            "z" | "b" => 2,
            // The fourth part of every shape is zero.
            "w" | "a" => return axes(name, 0).and(narrow(Special::Zero)),
            _ => return None,
        };
        return axes(name, axis).and_then(narrow);
    }
    match name {
        // Without a part, the first one is meant.
        "tid" | "ntid" | "ctaid" | "nctaid" => axes(name, 0).and_then(narrow),
        "laneid" => narrow(Special::Laneid),
        "warpid" => narrow(Special::Warpid),
        "nwarpid" => narrow(Special::Nwarpid),
        "smid" => narrow(Special::Smid),
        "nsmid" => narrow(Special::Nsmid),
        "gridid" => wide(Special::Gridid),
        "lanemask_eq" => narrow(Special::LanemaskEq),
        "lanemask_le" => narrow(Special::LanemaskLe),
        "lanemask_lt" => narrow(Special::LanemaskLt),
        "lanemask_ge" => narrow(Special::LanemaskGe),
        "lanemask_gt" => narrow(Special::LanemaskGt),
        "clock" => narrow(Special::Clock),
        "clock_hi" => narrow(Special::ClockHi),
        "clock64" => wide(Special::Clock64),
        "globaltimer" => wide(Special::Globaltimer),
        "globaltimer_lo" => narrow(Special::GlobaltimerLo),
        "globaltimer_hi" => narrow(Special::GlobaltimerHi),
        "dynamic_smem_size" => narrow(Special::DynamicSharedBytes),
        "total_smem_size" | "aggr_smem_size" => narrow(Special::TotalSharedBytes),
        "cluster_ctarank" => narrow(Special::ClusterCtarank),
        "cluster_nctarank" => narrow(Special::ClusterNctarank),
        "is_explicit_cluster" => narrow(Special::IsExplicitCluster),
        "current_graph_exec" => wide(Special::Zero),
        "reserved_smem_offset_begin"
        | "reserved_smem_offset_end"
        | "reserved_smem_offset_cap"
        | "reserved_smem_offset_0"
        | "reserved_smem_offset_1" => narrow(Special::Zero),
        _ => {
            if let Some(number) = name.strip_prefix("envreg") {
                return narrow(Special::Envreg(number.parse().ok().filter(|n| *n < 32)?));
            }
            let counter = name.strip_prefix("pm")?;
            match counter.strip_suffix("_64") {
                Some(digits) if digits.parse::<u8>().is_ok() => wide(Special::Zero),
                None if counter.parse::<u8>().is_ok() => narrow(Special::Zero),
                _ => None,
            }
        }
    }
}

fn axes(name: &str, axis: u8) -> Option<Special> {
    Some(match name {
        "tid" => Special::Tid(axis),
        "ntid" => Special::Ntid(axis),
        "ctaid" => Special::Ctaid(axis),
        "nctaid" => Special::Nctaid(axis),
        "clusterid" => Special::Clusterid(axis),
        "nclusterid" => Special::Nclusterid(axis),
        "cluster_ctaid" => Special::ClusterCtaid(axis),
        "cluster_nctaid" => Special::ClusterNctaid(axis),
        _ => return None,
    })
}
