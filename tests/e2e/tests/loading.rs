//! However a program finds its driver, and whatever driver there is, it meets it through apex.

use apex_e2e::{Place, alone, library, linked, tools};
use std::path::Path;

#[test]
fn a_driver_opened_late_by_any_name_is_met() {
    let place = Place::new();
    let driver = place.driver();
    let watched = place.compare(&alone("dlopen_late"), &[driver.to_str().unwrap()]);
    watched.ended.check_success();
    watched.check_expected();
}

#[test]
fn a_driver_closed_early_stays() {
    let place = Place::new();
    let program = alone("dlclose_early");
    place.compare(&program, &[]).check_expected();
    let watched = place.watch(&program, &["kept"]);
    watched.ended.check_success();
    watched.check_expected();
}

#[test]
fn a_driver_of_another_age_answers_for_itself() {
    let place = with_driver_of("driver_other");
    let watched = place.compare(&alone("new_symbol"), &[]);
    watched.ended.check_success();
    watched.check_expected();
    assert!(watched.ended.stdout.contains("the new function answers 42"));
    assert!(watched.ended.stdout.contains("cuGraphLaunch: missing"));
}

/// A place whose driver is one of these programs, made as a library.
fn with_driver_of(name: &str) -> Place {
    let place = Place::new();
    let folder = place.root().join(name);
    let options = ["-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"];
    library(name, &folder, "libcuda.so.1", &options);
    place.with("LD_LIBRARY_PATH", &folder)
}

#[test]
fn an_image_may_claim_to_be_longer_than_it_is() {
    let image =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/apex-exec/tests/images/five.fatbin");
    let place = Place::new();
    let watched = place.compare(&linked("unreadable"), &[image]);
    watched.ended.check_success();
    watched.check_expected();
    assert!(watched.ended.stdout.contains("claims 100000000: 0 0 0 0"), "{}", watched.ended.stdout);
    assert!(watched.ended.stdout.contains("from a pipe: 0"), "{}", watched.ended.stdout);
    assert_eq!(watched.summary().own.failures, 0);
    // What is there to its end has its identity, and what is not has none.
    let known = watched.known();
    let images: Vec<&str> =
        known.processes[0].images.values().map(|image| image.kind.as_str()).collect();
    assert_eq!(images, ["ptx", "fatbin"]);
}

#[test]
fn what_a_driver_refuses_unread_is_not_read() {
    let place = with_driver_of("driver_refuses");
    let watched = place.compare(&linked("refused_unread"), &[]);
    watched.ended.check_success();
    watched.check_expected();
    assert!(watched.ended.stdout.contains("copies: 400 400 400\n"), "{}", watched.ended.stdout);
    assert_eq!(watched.summary().own.failures, 0);
}

#[test]
fn without_a_driver_there_is_no_device() {
    let place = Place::new().with("APEX_REAL_LIBCUDA", "/nowhere/libcuda.so.1");
    let watched = place.watch(&alone("no_driver"), &[]);
    watched.ended.check_success();
    assert_eq!(
        watched.ended.stdout,
        "cuInit: 100\ncuDeviceGetCount: 100\ncuDriverGetVersion: 100\ncuLaunchKernel: 100\n\
         no device: working on the processor\n"
    );
    let said: Vec<&str> = watched
        .ended
        .stderr
        .lines()
        .filter(|line| line.contains("/nowhere/libcuda.so.1"))
        .collect();
    assert_eq!(said.len(), 1, "it is said once:\n{}", watched.ended.stderr);
}

/// A program with a second preloaded library and a library with a RUNPATH of its own.
fn with_company(place: &Place) -> (std::path::PathBuf, std::path::PathBuf) {
    let folder = place.root().join("company");
    let interposer = library("interposer", &folder, "libinterposer.so", &[]);
    library("plugin", &folder.join("plugins"), "libapex_test_plugin.so", &[]);
    library(
        "plugin_host",
        &folder,
        "libplugin_host.so",
        &["-Wl,-soname,libplugin_host.so", "-Wl,-rpath,$ORIGIN/plugins", "-Wl,--enable-new-dtags"],
    );
    (folder, interposer)
}

#[test]
fn other_preloaded_libraries_find_what_is_behind_them() {
    let place = Place::new();
    let (folder, interposer) = with_company(&place);
    let drivers = place.driver().parent().map(Path::to_owned).unwrap_or_default();
    let paths = std::env::join_paths([&drivers, &folder]).unwrap();
    let host = folder.join("libplugin_host.so");
    // The library is not linked in but preloaded: its functions are found the same way.
    let both = format!("{}:{}", interposer.display(), host.display());
    let place = place.with("LD_LIBRARY_PATH", &paths).with("LD_PRELOAD", &both);
    let program = linked("rtld_next");
    let watched = place.compare(&program, &[]);
    watched.ended.check_success();
    watched.check_expected();

    // And with apex behind the others.
    let shim = place.root().join("libcuda.so.1");
    std::os::unix::fs::symlink(&tools().shim, &shim).unwrap();
    let rings = place.root().join("own-rings");
    std::fs::create_dir(&rings).unwrap();
    let place = place
        .with("LD_PRELOAD", format!("{both}:{}", shim.display()))
        .with("APEX_REAL_LIBCUDA", drivers.join("libcuda.so.1"))
        .with("APEX_RINGS", &rings);
    let ended = place.plain(&program, &[]);
    ended.check_success();
    assert_eq!(ended.stdout, watched.ended.stdout);
    let files = std::fs::read_dir(&rings).unwrap().count();
    assert_eq!(files, 2, "a ring and a file of facts");
}

#[test]
fn switched_off_apex_is_not_there() {
    let place = Place::new().with("APEX", "0");
    let program = linked("launch_forms");
    let plain = place.plain(&program, &[]);
    let ended = place.apex(&["run", "--", program.to_str().unwrap()]);
    ended.check_success();
    assert_eq!((ended.stdout, ended.stderr.as_str()), (plain.stdout.clone(), ""));
    assert_eq!(std::fs::read_dir(place.state()).unwrap().count(), 0);

    // Also where the shim is there already.
    let rings = place.root().join("own-rings");
    std::fs::create_dir(&rings).unwrap();
    let driver = place.driver();
    let place = place
        .with("LD_PRELOAD", &tools().shim)
        .with("APEX_REAL_LIBCUDA", driver)
        .with("APEX_RINGS", &rings);
    let ended = place.plain(&program, &[]);
    ended.check_success();
    assert_eq!((ended.stdout, ended.stderr.as_str()), (plain.stdout, ""));
    assert_eq!(std::fs::read_dir(&rings).unwrap().count(), 0, "nothing is recorded");
}
