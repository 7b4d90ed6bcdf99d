//! What a program is told so that it gets faster: which accelerators, and what launches cost here.

use apex_core::knobs::Fast;
use apex_core::launch_costs;
use apex_daemon::user_setup::UserSetup;
use std::ffi::OsString;

/// Variables of the program. What the command line says takes the place of what the environment does.
pub(super) fn variables(asked: Option<Fast>, setup: &UserSetup) -> Vec<(&'static str, OsString)> {
    let mut variables: Vec<(&'static str, OsString)> = Vec::new();
    if let Some(fast) = asked {
        variables.push(("APEX_FAST", fast.words().into()));
    }
    if asked.unwrap_or(setup.knobs.fast).any()
        && let Some(folder) = setup.sessions.directory()
    {
        // Whether it is there and what it says is found out where it is read.
        variables.push(("APEX_LAUNCH_COSTS", folder.join(launch_costs::FILE).into()));
    }
    variables
}
