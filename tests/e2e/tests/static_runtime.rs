//! Programs as nvcc makes them by default, with NVIDIA's runtime linked in, on the software GPU.

use apex_daemon::find;
use apex_e2e::{Ended, Place, nvcc, tools, with_runtime, with_static_runtime};
use std::path::Path;
use std::process::Command;

const SOFT: [&str; 2] = ["--device", "soft"];

/// A place in which no driver is on the library path, and apex decides.
fn bare() -> Place {
    Place::new().without("APEX_DEVICE").without("LD_LIBRARY_PATH")
}

/// What the program says under apex, which it must end well.
fn watched(program: &Path, arguments: &[&str]) -> Ended {
    let ended = bare().watch_with(&SOFT, program, arguments).ended;
    ended.check_success();
    ended
}

#[test]
fn a_program_of_plain_nvcc_does_as_with_the_shared_runtime() {
    let shared = nvcc(
        "nvcc_default",
        &[
            "-cudart",
            "none",
            "-Xlinker",
            tools().cudart.to_str().expect("a path of the tests is a text"),
        ],
    );
    let expected = watched(&shared, &[]).stdout;
    assert_eq!(expected.lines().count(), 2, "{expected}");
    for options in [&[][..], &["-Xcompiler", "-no-pie", "-Xlinker", "-no-pie"], &["-rdc=true"]] {
        let program = nvcc("nvcc_default", options);
        assert_eq!(watched(&program, &[]).stdout, expected, "{options:?}");
    }
}

#[test]
fn a_library_that_comes_later_has_a_runtime_of_its_own() {
    let library = nvcc("nvcc_default_library", &["-shared", "-Xcompiler", "-fPIC"]);
    let said = watched(&nvcc("nvcc_default", &[]), &[library.to_str().unwrap()]).stdout;
    assert_eq!(said.matches("the library is right\n").count(), 2, "{said}");
}

#[test]
fn the_runtime_programs_do_the_same_with_it_linked_in() {
    let place = bare();
    for name in ["registered", "relocatable", "copies", "devices", "graphs", "textures", "faults"] {
        let shared = place.watch_with(&SOFT, &with_runtime(name), &[]).ended;
        let linked_in = place.watch_with(&SOFT, &with_static_runtime(name), &[]).ended;
        linked_in.check_success();
        assert_eq!(linked_in.stdout, shared.stdout, "{name}");
    }
}

#[test]
fn a_runtime_that_a_program_names_by_its_own_path_is_ours() {
    let place = bare();
    let theirs = place.root().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join("libcudart.so.13"), "not ours").unwrap();
    let program = nvcc(
        "nvcc_default",
        &[
            "-cudart",
            "none",
            "-Xlinker",
            tools().cudart.to_str().unwrap(),
            "-Xlinker",
            "--disable-new-dtags,-rpath",
            "-Xlinker",
            theirs.to_str().unwrap(),
        ],
    );
    assert_eq!(place.plain(&program, &[]).code, Some(127), "the loader takes what DT_RPATH names");
    assert_eq!(watched(&program, &[]).stdout.lines().count(), 2);
}

#[test]
fn a_stripped_program_is_told_the_remedy_and_left_as_it_is() {
    let place = bare();
    let stripped = place.root().join("stripped");
    let program = nvcc("nvcc_default", &[]);
    let status = Command::new("strip").arg("-o").arg(&stripped).arg(program).status();
    assert!(status.is_ok_and(|status| status.success()));
    let ended = place.watch_with(&SOFT, &stripped, &[]).ended;
    // As without apex: the first launch fails, which the program notices.
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let about: Vec<&str> =
        ended.stderr.lines().filter(|line| line.contains("static CUDA runtime")).collect();
    assert_eq!(about.len(), 1, "{}", ended.stderr);
    assert!(about[0].contains(stripped.to_str().unwrap()), "{}", about[0]);
    assert!(about[0].contains("do not strip it"), "{}", about[0]);
}

#[test]
fn nothing_of_it_is_loaded_where_there_is_another_driver() {
    let place = Place::new();
    let ended = place.watch(Path::new("/bin/cat"), &["/proc/self/maps"]).ended;
    ended.check_success();
    assert!(ended.stdout.contains(find::SHIM), "{}", ended.stdout);
    for name in ["libapex_doors", "libcudart"] {
        assert!(!ended.stdout.contains(name), "{}", ended.stdout);
    }
    let soft = watched(Path::new("/bin/cat"), &["/proc/self/maps"]).stdout;
    for name in ["libapex_doors.so", "libcudart.so.12", "libcudart.so.13"] {
        assert!(soft.contains(name), "{soft}");
    }
}
