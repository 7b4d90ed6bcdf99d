//! Golden files: PTX, a marker line, and what the printer makes of it.
//!
//! `UPDATE_EXPECT=1` writes what is printed now; read the diff before it is kept. The printed
//! text must also parse to the same tree again, and print the same once more.

use std::fs;
use std::path::Path;

const MARKER: &str = "//---- printed\n";

#[test]
fn golden_files_print_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        check(&entry.unwrap().path());
        files += 1;
    }
    assert!(files >= 8, "only {files} golden files");
}

fn check(path: &Path) {
    let text = fs::read_to_string(path).expect("a golden file is text");
    let name = path.display();
    let (input, expected) =
        text.split_once(MARKER).unwrap_or_else(|| panic!("{name} has no marker line"));
    let module = apex_ptx::parse(input).unwrap_or_else(|error| panic!("{name}: {error}"));
    let printed = module.to_string();
    let again = apex_ptx::parse(&printed).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(again.clone().without_lines(), module.without_lines(), "{name}");
    assert_eq!(again.to_string(), printed, "{name}");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(path, format!("{input}{MARKER}{printed}")).expect("a golden file can be renewed");
    } else {
        assert_eq!(printed, expected, "{name}; renew with UPDATE_EXPECT=1");
    }
}
