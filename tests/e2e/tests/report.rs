//! What a report says of times holds on the software GPU too, whatever else the machine does.

use apex_daemon::summary::ConfigSummary;
use apex_e2e::{Place, linked};

#[test]
fn a_time_on_an_idle_stream_is_no_shorter_than_its_kernel() {
    let place = Place::new().with("APEX_SAMPLING_PERCENT", "100");
    let watched = place.watch(&linked("one_by_one"), &["spins"]);
    watched.ended.check_success();
    watched.check_expected();
    let events = watched.events();
    let times: Vec<_> = events.iter().filter(|line| line.kind == "gpu-time").collect();
    // Of eight launches the second to the fifth are timed, and the last: its time is known after the last copy.
    assert_eq!(times.len(), 5, "{times:?}");
    for time in times {
        let nanos = time.gpu_ns.unwrap_or(0);
        // Milliseconds of the driver are single precision.
        assert!(nanos >= 999_000, "a kernel of 1 ms is said to take at most {nanos} ns: {time:?}");
    }
    let kernel = &watched.summary().kernels[0];
    assert!(kernel.gpu.as_ref().is_some_and(|gpu| gpu.mean_ns >= 999_000.0), "{kernel:?}");
}

#[test]
fn copies_that_wait_are_waiting() {
    let place = Place::new();
    let watched = place.watch(&linked("one_by_one"), &["spins"]);
    let said = &watched.ended.check_success().stderr;
    let syncs = watched.summary().syncs;
    assert_eq!((syncs.count, syncs.blocking_copies), (0, 8), "{syncs:?}");
    assert!(syncs.blocking_copies_ns > 0 && syncs.share_of_wall > 0.0, "{syncs:?}");
    assert!(
        said.contains("in 0 synchronisations and ") && said.contains(" in 8 blocking copies, ")
    );
}

#[test]
fn what_is_compiled_within_the_first_launch_is_loading() {
    let place = Place::new();
    let watched = place.watch(&linked("one_by_one"), &["long"]);
    let said = &watched.ended.check_success().stderr;
    let loads = watched.summary().loads;
    // Thousands of instructions are not compiled in less, on any machine.
    assert!(loads.first_launch_ns > 1_000_000, "{loads:?}");
    assert!(said.contains("in 1 module or library") || said.contains("in 2 modules"), "{said}");
    assert!(said.contains(" in the first launch of 1 kernel"), "{said}");
}

#[test]
fn what_launches_do_is_known_of_code_from_memory_where_they_are_looked_at() {
    let place = Place::new();
    let program = linked("launch_forms");
    let looked = place.watch_with(&["--mode", "advise"], &program, &[]);
    looked.ended.check_success();
    let configs = looked.summary().configs;
    assert!(configs.len() > 5, "{configs:?}");
    for config in configs {
        let work = config.work.as_ref().map(|work| (work.flops, work.bytes));
        assert_eq!((work, config.work_unknown), (Some((0.0, 0.0)), None), "{}", config.name);
    }
    let plain = place.watch(&program, &[]);
    plain.ended.check_success();
    let is_silent = |one: &ConfigSummary| one.work.is_none() && one.work_unknown.is_none();
    assert!(plain.summary().configs.iter().all(is_silent));
}
