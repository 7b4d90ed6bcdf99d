//! The software GPU under programs: chosen where there is no other, right in its results, clear in its
//! refusals.

use apex_daemon::find;
use apex_e2e::{Place, alone, linked, until, with_runtime};
use std::path::Path;

/// A place in which no driver is on the library path, and apex decides.
fn bare() -> Place {
    Place::new().without("APEX_DEVICE").without("LD_LIBRARY_PATH")
}

/// Whether this machine has a GPU of its own, where "none is found" cannot be shown.
fn has_gpu() -> bool {
    let found = find::gpu_nodes(Path::new("/"));
    if found {
        eprintln!("left out: this machine has a GPU");
    }
    found
}

#[test]
fn a_program_runs_where_there_is_no_driver() {
    let place = bare();
    let watched = place.watch_with(&["--device", "soft"], &linked("vector_add"), &["20"]);
    watched.ended.check_success();
    assert!(watched.ended.stdout.starts_with("1048576 sums are right\n"));
    watched.check_expected();
    assert!(watched.summary().soft);
    let said = &watched.ended.stderr;
    assert!(!said.contains("no GPU is found"), "it was asked for: {said}");
    assert!(said.contains("the software GPU: times are this CPU's"), "{said}");
}

#[test]
fn without_a_gpu_the_software_gpu_is_taken_and_said() {
    if has_gpu() {
        return;
    }
    let place = bare();
    let watched = place.watch(&linked("vector_add"), &["20"]);
    watched.ended.check_success();
    watched.check_expected();
    let first = watched.ended.stderr.lines().next().unwrap_or_default();
    assert!(
        first.contains("no GPU is found here: the program runs on the software GPU"),
        "{first}"
    );
}

#[test]
fn who_wants_a_gpu_gets_no_other() {
    if has_gpu() {
        return;
    }
    let place = bare();
    let watched = place.watch_with(&["--device", "gpu"], &alone("no_driver"), &[]);
    watched.ended.check_success();
    assert!(watched.ended.stdout.starts_with("cuInit: 100\n"), "{}", watched.ended.stdout);
    assert!(watched.ended.stderr.contains("no CUDA driver"), "{}", watched.ended.stderr);
}

#[test]
fn programs_with_the_shared_runtime_run() {
    let programs =
        ["registered", "relocatable", "copies", "devices", "graphs", "textures", "faults"];
    let place = bare();
    for name in programs {
        let watched = place.watch_with(&["--device", "soft"], &with_runtime(name), &[]);
        watched.ended.check_success();
        let summary = watched.summary();
        assert!(summary.soft && summary.calls > 0, "{name}: {}", watched.ended.stderr);
    }
}

#[test]
fn an_access_out_of_bounds_is_an_illegal_address() {
    let place = Place::new();
    let far = (1_u64 << 40).to_string();
    let watched = place.compare(&linked("out_of_bounds"), &[&far]);
    watched.ended.check_success();
    assert_eq!(watched.ended.stdout, "the wait: 700\nan allocation: 700\n");
}

#[test]
fn checked_mode_names_thread_address_and_line() {
    let place = Place::new().with("APEX_SOFTGPU_CHECKED", "1");
    // One byte after the end is enough here; a warp's third thread is 8 bytes on.
    let watched = place.compare(&linked("out_of_bounds"), &["0"]);
    watched.ended.check_success();
    let said = &watched.ended.stderr;
    let first = said.lines().find(|line| line.contains("of its PTX")).unwrap_or_default();
    assert!(first.contains("scale") && first.contains("thread (0,0,0)"), "{said}");
    assert!(first.contains("0x"), "{said}");
}

#[test]
fn a_kernel_that_never_ends_can_be_interrupted() {
    const SIGINT: i32 = 2;
    let place = Place::new();
    let program = linked("endless");
    for watched in [false, true] {
        for (arguments, code, signal) in
            [(&[][..], None, Some(SIGINT)), (&["handled"], Some(5), None)]
        {
            let running = if watched {
                place.start_watched(&[], &program, arguments)
            } else {
                place.start(&program, arguments)
            };
            until("the kernel runs", || running.stdout() == "waiting\n");
            running.signal("INT");
            let ended = running.wait();
            assert_eq!((ended.code, ended.signal), (code, signal), "{}", ended.stderr);
            assert_eq!(ended.stdout, "waiting\n");
        }
    }
}

#[test]
fn memory_ends_with_an_error_number() {
    let place = Place::new().with("APEX_SOFTGPU_MEMORY", (64 << 20).to_string());
    let watched = place.compare(&linked("exhausted"), &[]);
    watched.ended.check_success();
    watched.check_expected();
    assert_eq!(watched.ended.number("of"), 64);
    assert!(watched.ended.number("taken") > 32, "{}", watched.ended.stdout);
}

#[test]
fn a_static_runtime_is_told_the_remedy_once() {
    let place = Place::new();
    let program = linked("static_runtime");
    for ended in [place.plain(&program, &[]), place.watch(&program, &[]).ended] {
        ended.check_success();
        let said = |line: &&str| line.contains("static CUDA runtime");
        let lines: Vec<&str> = ended.stderr.lines().filter(said).collect();
        assert_eq!(lines.len(), 1, "{}", ended.stderr);
        assert!(lines[0].contains("-cudart shared"), "{}", lines[0]);
    }
}

#[test]
fn a_shared_runtime_of_nvidia_is_not_called_static() {
    let place = Place::new();
    let theirs = place.root().join("libcudart.so.13");
    std::fs::copy(linked("static_runtime"), &theirs).unwrap();
    let ended = place.plain(&theirs, &[]);
    ended.check_success();
    let said = ended.stderr.lines().find(|line| line.contains("NVIDIA's")).unwrap_or_default();
    assert!(said.contains(theirs.to_str().unwrap()) && !said.contains("static"), "{said}");
}

#[test]
fn the_demo_is_right() {
    let program = linked("demo");
    let kernels = concat!(env!("CARGO_MANIFEST_DIR"), "/../programs/demo.ptx");
    let ended = Place::new().watch(&program, &[kernels]).ended;
    ended.check_success();
    assert_eq!(ended.stdout.matches(": right, ").count(), 3, "{}", ended.stdout);
}
