//! The program as its callers start it.

use std::fs;
use std::process::{Command, Output};

const KERNEL: &str =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

fn ptxas(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_apex-ptxas")).args(words).output().expect("it starts")
}

#[test]
fn a_text_is_handed_on_with_its_end() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (input, output) = (file("k.ptx"), file("k.cubin"));
    fs::write(&input, KERNEL).unwrap();
    let done = ptxas(&["-lineinfo", "-v", "--gpu-name=sm_90a", &input, "-o", &output]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{said}");
    assert!(said.contains("Used 8 registers"), "{said}");
    assert_eq!(fs::read_to_string(&output).unwrap(), format!("{KERNEL}\0"));
    // What it made is what it takes.
    assert!(ptxas(&[&output, "-o", &output]).status.success());
    assert_eq!(fs::read_to_string(&output).unwrap(), format!("{KERNEL}\0"));
}

#[test]
fn what_is_refused_ends_with_255_and_makes_no_file() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (input, output) = (file("k.ptx"), file("k.cubin"));
    fs::write(&input, "nonsense").unwrap();
    for words in [&[input.as_str(), "-o", &output][..], &["/nowhere/k.ptx", "-o", &output], &[]] {
        let done = ptxas(words);
        assert_eq!(done.status.code(), Some(255));
        assert!(done.stderr.starts_with(b"ptxas "));
    }
    assert!(!fs::exists(&output).unwrap());
}

#[test]
fn its_version_is_no_refusal() {
    let done = ptxas(&["--version"]);
    assert!(done.status.success());
    assert_eq!(String::from_utf8(done.stdout).unwrap(), apex_ptxas::version_text());
}
