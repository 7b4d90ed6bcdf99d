//! Programs with code for newer chips: they run on the chip that is there, or fail as they do without apex.

use apex_e2e::{Place, Watched, linked};

/// A software GPU that refuses what a GPU refuses.
fn place(device: &str) -> Place {
    Place::new().with("APEX_SOFTGPU_STRICT", "1").with("APEX_SOFTGPU_DEVICE", device)
}

fn run(place: &Place) -> Watched {
    let folder = place.root().to_str().expect("a path in words");
    let watched = place.watch_with(&["--device", "soft"], &linked("newer_code"), &[folder]);
    watched.ended.check_success();
    watched
}

/// What each way gives where the kernel runs: the sum of squares up to 15, and the chip that its PTX is for. What the
/// driver linked is for the chip that is there.
fn runs(linked: &str) -> String {
    let plain = [
        "module",
        "with options",
        "fatbin",
        "plain fatbin",
        "file",
        "library",
        "library of a file",
    ];
    let plain = plain.iter().map(|way| format!("{way}: 1240, for 120\n"));
    let linked =
        ["link", "link of a fatbin"].iter().map(|way| format!("{way}: 1240, for {linked}\n"));
    plain.chain(linked).collect()
}

#[test]
fn code_for_a_newer_chip_runs_on_an_older_one() {
    for (device, chip) in [("h200", "sm_90"), ("a100", "sm_80"), ("t4", "sm_75")] {
        let place = place(device);
        let cache = place.root().join("cache");
        let place = place.with("APEX_COMPATIBILITY_CACHE", cache);
        let first = run(&place);
        let number = chip.trim_start_matches("sm_");
        let expected = format!("{}newest version: 140, for 80\nnever: error 218\n", runs(number));
        assert_eq!(first.ended.stdout, expected, "{device}: {}", first.ended.stderr);
        let notes = first.summary().notes.join("\n");
        assert!(notes.contains(&format!("images for sm_120 ran on {chip}")), "{notes}");
        assert!(notes.contains("add, sub, mul, fma .f32x2"), "{notes}");
        // The second time all lies on disk.
        let second = run(&place);
        assert_eq!(second.ended.stdout, expected, "{device}");
        let notes = second.summary().notes.join("\n");
        assert!(notes.contains("9 from disk"), "{notes}");
    }
}

#[test]
fn where_nothing_is_to_be_brought_down_the_errors_are_the_drivers() {
    let place = place("h200").with("APEX_COMPATIBILITY", "0");
    let watched = run(&place);
    let plain = watched.ended.stdout.as_str();
    for line in
        ["module: error 218\n", "fatbin: error 209\n", "library: error 209\n", "file: error 218\n"]
    {
        assert!(plain.contains(line), "{plain}");
    }
    assert!(plain.contains("newest version: error 222\n"), "{plain}");
    assert!(!watched.summary().notes.join("\n").contains("ran on"), "{plain}");
}

#[test]
fn on_its_own_chip_nothing_is_brought_down() {
    let place = place("rtx5090");
    let watched = run(&place);
    assert!(watched.ended.stdout.starts_with(&runs("120")), "{}", watched.ended.stdout);
    let notes = watched.summary().notes.join("\n");
    assert!(!notes.contains("for sm_120 ran"), "{notes}");
}

#[test]
fn a_program_may_be_told_that_its_device_is_newer() {
    let program = linked("asks_capability");
    let plain = place("h200").watch_with(&["--device", "soft"], &program, &[]);
    let expected = |capability: &str, major: u32| {
        format!("attributes: {capability}, 232448 bytes\nboth: {capability}\nfound: {major}\n")
    };
    assert_eq!(plain.ended.stdout, expected("9.0", 9));
    let told = place("h200").with("APEX_DEVICE_CAPABILITY", "12.0");
    let told = told.watch_with(&["--device", "soft"], &program, &[]);
    told.ended.check_success();
    assert_eq!(told.ended.stdout, expected("12.0", 12));
    let notes = told.summary().notes.join("\n");
    assert!(
        notes.contains("4 times, that its device has compute capability 12.0; it has 9.0"),
        "{notes}"
    );
}
