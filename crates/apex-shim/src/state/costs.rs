//! What launches cost this machine's driver, told to the queue of `--fast` and to the report.
//!
//! `apex bench launch --calibrate` has measured it or nobody has. Looked up once, when the driver has begun: before, the
//! device has no name.

use crate::driver::driver;
use crate::settings::knobs;
use crate::state::process::tell;
use apex_core::facts::{Fact, LaunchCosts};
use apex_core::launch_costs;
use apex_cuda::types::CUDA_SUCCESS;
use apex_policy::submit::Costs;
use core::ffi::CStr;
use std::sync::Once;

/// The driver has begun.
pub(crate) fn look_up() {
    static ONCE: Once = Once::new();
    if apex_fast::is_raised() {
        ONCE.call_once(|| {
            let measured = measured();
            if let Some(costs) = measured {
                apex_fast::expect(costs);
            }
            tell(&Fact::LaunchCosts(described(apex_fast::known_costs(), measured.is_some())));
        });
    }
}

fn measured() -> Option<Costs> {
    let file = knobs().launch_costs.as_deref()?;
    let mut name = [0_u8; 256];
    let mut version = 0;
    // SAFETY: valid places for the answers, with the length of the first.
    let results = unsafe {
        [
            (driver().cuDeviceGetName)(name.as_mut_ptr().cast(), name.len() as i32, 0),
            (driver().cuDriverGetVersion)(&raw mut version),
        ]
    };
    let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| results == [CUDA_SUCCESS; 2])?;
    let found = launch_costs::find(file, &name.to_string_lossy(), u64::try_from(version).ok()?)?;
    Some(Costs {
        launch: found.launch_ns,
        graph: found.graph_ns,
        node: found.node_ns,
        changed: found.changed_ns,
        build: found.build_ns,
    })
}

fn described(costs: Costs, measured_here: bool) -> LaunchCosts {
    let Costs { launch, graph, node, changed, build } = costs;
    LaunchCosts {
        launch_ns: launch,
        graph_ns: graph,
        node_ns: node,
        changed_ns: changed,
        build_ns: build,
        measured_here,
    }
}
