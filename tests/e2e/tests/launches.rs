//! Launches in every form are seen as what they are, through whatever way the program found them.

use apex_e2e::{Line, Place, alone, library, linked, tools};
use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn a_plain_program_is_seen_whole() {
    let place = Place::new();
    let watched = place.compare(&linked("vector_add"), &[]);
    watched.check_expected();
    let summary = watched.summary();
    assert!(summary.soft);
    assert_eq!(summary.kernels_executed, 400);
    assert_eq!(summary.kernels[0].name, "add");
    assert_eq!(summary.own.failures + summary.own.damaged + summary.own.facts_lost, 0);
    assert!(watched.ended.stderr.contains("400 kernels executed"), "{}", watched.ended.stderr);
    assert_eq!(watched.known().processes[0].kernels.len(), 1);
}

#[test]
fn every_form_is_one_event_with_its_shape() {
    let place = Place::new();
    let watched = place.compare(&linked("launch_forms"), &[]);
    let events = watched.check_expected();
    let check = |function: &str, grid: [u32; 3], block: [u32; 3], shared: u32| -> Line {
        let mut found = events.iter().filter(|line| {
            let shape = [line.grid_x, line.grid_y, line.grid_z];
            line.kind == "launch" && line.result == 0 && line.function == function && shape == grid
        });
        let line = found.next().unwrap_or_else(|| panic!("{function} {grid:?} was not seen"));
        assert_eq!([line.block_x, line.block_y, line.block_z], block, "{function}");
        assert_eq!(line.dynamic_shared, shared, "{function}");
        assert_eq!(line.kernel_name.as_deref(), Some("nothing"));
        line.clone()
    };
    let plain = check("cuLaunchKernel", [3, 2, 1], [64, 2, 1], 1024);
    assert!(plain.stream > 2 && !plain.cooperative && plain.cluster_x == 0);
    assert_eq!(check("cuLaunchKernel_ptsz", [5, 1, 1], [32, 1, 1], 0).stream, 2);
    let cluster = check("cuLaunchKernelEx", [8, 1, 1], [128, 1, 1], 0);
    assert_eq!([cluster.cluster_x, cluster.cluster_y, cluster.cluster_z], [2, 1, 1]);
    assert!(!cluster.cooperative && cluster.stream == plain.stream);
    let described = check("cuLaunchKernelEx_ptsz", [7, 1, 1], [32, 1, 1], 0);
    assert!(described.cooperative && described.stream == 2);
    assert!(check("cuLaunchCooperativeKernel", [6, 1, 1], [32, 1, 1], 0).cooperative);
    let twin = check("cuLaunchCooperativeKernel_ptsz", [9, 1, 1], [32, 1, 1], 0);
    assert!(twin.cooperative && twin.stream == 2);
    assert_eq!(check("cuLaunch", [1, 1, 1], [16, 4, 2], 256).stream, 0);
    assert_eq!(check("cuLaunchGrid", [10, 11, 1], [16, 4, 2], 256).stream, 0);
    let last = check("cuLaunchGridAsync", [12, 13, 1], [16, 4, 2], 256);
    assert_eq!(last.stream, plain.stream);
    assert_eq!(watched.summary().failed_launches, 1);
}

#[test]
fn a_null_stream_of_a_twin_is_the_threads_own() {
    let place = Place::new();
    let watched = place.compare(&linked("per_thread_stream"), &[]);
    let events = watched.check_expected();
    let is_twin =
        |line: &&Line| line.function.ends_with("_ptsz") || line.function.ends_with("_ptds");
    let streams: BTreeSet<u64> = events.iter().filter(is_twin).map(|line| line.stream).collect();
    assert_eq!(streams, BTreeSet::from([2]));
    for (blocks, stream) in [(2, 2), (3, 1), (4, 0)] {
        let meant = events.iter().filter(|line| line.kind == "launch" && line.grid_x == blocks);
        assert_eq!(meant.map(|line| line.stream).collect::<Vec<_>>(), [stream, stream]);
    }
}

#[test]
fn a_kernel_in_place_of_a_function_has_its_facts() {
    let place = Place::new();
    let watched = place.compare(&linked("kernel_handle"), &[]);
    watched.check_expected();
    let known = watched.known();
    let kernels = &known.processes[0].kernels;
    let kernel = |name: &str| {
        let mut found = kernels.values().filter(|kernel| kernel.name == name);
        let kernel = found.next().unwrap_or_else(|| panic!("{name} is not known"));
        assert!(found.next().is_none(), "{name} from the module and from the library are one");
        kernel
    };
    assert_eq!(kernel("add").parameters, [0, 8, 8, 8, 16, 8, 24, 4]);
    assert_eq!(kernel("scale").parameters, [0, 8, 8, 4, 12, 4]);
    assert!(kernel("add").registers > 0 && kernel("add").image_hash != 0);
    assert_eq!(kernel("add").image_hash, kernel("scale").image_hash);
    let counted = watched.summary().kernels;
    let scale = counted.iter().find(|kernel| kernel.name == "scale").unwrap();
    assert_eq!((scale.calls, scale.registers), (9, Some(kernel("scale").registers)));
}

#[test]
fn addresses_that_the_driver_hands_out_are_seen_through() {
    let place = Place::new();
    let names = place.root().join("names");
    std::fs::write(&names, base_names()).unwrap();
    let program = alone("get_proc_address");
    let watched = place.compare(&program, &[names.to_str().unwrap()]);
    watched.ended.check_success();
    let events = watched.check_expected();
    let twins = events.iter().filter(|line| line.function == "cuLaunchKernel_ptsz");
    assert!(twins.into_iter().all(|line| line.stream == 2));
}

/// The names that a program asks for: those the driver exports, without version and twin.
fn base_names() -> String {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(&tools().libcuda).output();
    let output = output.expect("nm comes with gcc");
    let text = String::from_utf8_lossy(&output.stdout);
    let names: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|name| name.starts_with("cu"))
        .map(|name| name.strip_suffix("_ptsz").or(name.strip_suffix("_ptds")).unwrap_or(name))
        .map(|name| match name.rsplit_once("_v") {
            Some((base, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => base,
            _ => name,
        })
        .collect();
    assert!(names.len() > 400, "{} names", names.len());
    names.into_iter().collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn kernels_of_graphs_are_counted_through_their_launches() {
    let place = Place::new();
    let watched = place.compare(&linked("graph_capture"), &[]);
    watched.check_expected();
    let known = watched.known();
    let graphs: Vec<(u64, u64)> =
        known.processes[0].graphs.values().map(|graph| (graph.kernel_nodes, graph.nodes)).collect();
    assert!(graphs.contains(&(5, 7)), "five kernels, a copy and a set: {graphs:?}");
    assert!(graphs.contains(&(10, 16)), "twice that, as two children: {graphs:?}");
}

/// The software GPU has no conditional nodes: the driver is one that has them and runs nothing.
#[test]
fn kernels_that_the_gpu_decides_to_run_are_not_said_to_be_counted() {
    let place = Place::new();
    let folder = place.root().join("conditional");
    let options = ["-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"];
    library("driver_conditional", &folder, "libcuda.so.1", &options);
    let place = place.with("LD_LIBRARY_PATH", &folder);
    let watched = place.compare(&linked("graph_conditional"), &[]);
    watched.ended.check_success();
    watched.check_expected();
    let summary = watched.summary();
    assert_eq!(summary.open_graph_launches, watched.ended.number("open"));
    let said = format!("at least {} kernels executed", summary.kernels_executed);
    assert!(watched.ended.stderr.contains(&said), "{}", watched.ended.stderr);
    let known = watched.known();
    let marks: Vec<(u64, u64, bool)> = known.processes[0]
        .graphs
        .values()
        .map(|graph| (graph.kernel_nodes, graph.conditional_nodes, graph.device_launch))
        .collect();
    assert_eq!(marks, [(2, 0, false), (2, 1, false), (4, 1, false), (2, 0, true)]);
}

#[test]
fn a_callback_may_call_the_driver() {
    let place = Place::new();
    place.compare(&linked("callback_reenters"), &[]).check_expected();
}
