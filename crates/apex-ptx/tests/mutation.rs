//! Broken text never makes anything panic. The example `fuzz` does the same for hours.

#[path = "../examples/fuzz/mutate.rs"]
mod mutate;

use std::time::{Duration, Instant};

use mutate::{Random, check, mutate};

#[test]
fn broken_text_is_an_error_or_a_tree_but_no_panic() {
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut texts = Vec::new();
    for folder in ["golden", "compiled"] {
        for entry in std::fs::read_dir(tests.join(folder)).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            texts.extend(text.split("//---- printed\n").map(str::to_string));
        }
    }
    texts.sort();
    let start = Instant::now();
    let mut random = Random::new(7);
    let (mut tried, mut parsed, mut before) = (0, 0, None);
    while start.elapsed() < Duration::from_secs(3) {
        parsed += u32::from(check(&mutate(&mut random, &texts), &mut before));
        tried += 1;
    }
    // Mutations that only ever gave errors, or never, would test half of what they should.
    assert!(parsed > 0 && parsed < tried, "{parsed} of {tried} texts were valid");
}
