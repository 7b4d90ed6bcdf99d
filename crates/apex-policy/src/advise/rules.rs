//! The lists of rules: one file and one line each.
//!
//! A rule sees evidence and nothing else, and says nothing where it does not know. Shape rules leave kernels of
//! libraries alone where only the block size could help: it is not the user's to choose. What follows from how a GPU
//! is built has a list of its own: the software GPU has neither multiprocessors nor a bus, so a saving there is
//! that of the GPU whose name it bears.

use super::evidence::Evidence;
use super::finding::Finding;

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, as findings carry it.
    pub name: &'static str,
    /// What it sees.
    pub sees: &'static str,
    /// What it says.
    pub says: &'static str,
    /// Looks at a session.
    pub find: fn(&Evidence) -> Vec<Finding>,
}

macro_rules! rules {
    ($($(#[$comment:meta])* $list:ident: $($name:ident)+;)+) => {
        $($(mod $name;)+)+

        $($(#[$comment])* pub const $list: &[Rule] = &[$($name::RULE),+];)+
    };
}

rules! {
    /// Rules about what a GPU is built of.
    HARDWARE_RULES:
        block_not_multiple_of_warp
        critical_small_block
        very_large_block
        small_grid
        under_utilisation
        tail_effect
        occupancy_registers
        occupancy_shared_memory
        occupancy_block_slots
        occupancy_block_size
        register_granule
        excellent
        default_stream
        idle_sms
        pageable_copies
        device_imbalance
        clock_throttling;

    /// Rules about what only one who stands between program and driver sees.
    PROGRAM_RULES:
        launch_bound
        repeated_sequence
        graph_reinstantiation
        wait_per_launch
        device_wide_wait
        implicit_synchronisation
        fusion_candidate
        allocation_churn
        kept_memory
        pinning_in_loop
        object_churn
        tiny_copies
        redundant_upload
        late_loading
        memory_leak;
}
