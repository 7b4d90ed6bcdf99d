//! What the documents show is what apex prints: every `$ apex …` in a block of `console` that needs nothing but apex is
//! run, and its output compared with the page. Figures may differ.
//!
//! In a page, `…` alone on a line stands for any lines, and at the end of a line for any rest. Commands whose program is
//! not apex's own (python3, a path) need what is not here, and are left out.

use apex_e2e::{Place, tools};
use std::path::Path;

const PAGES: [(&str, &str); 2] = [
    ("README.md", include_str!("../../../README.md")),
    ("docs/guide.md", include_str!("../../../docs/guide.md")),
];

/// A command and the lines that the page shows for it.
struct Shown<'a> {
    command: &'a str,
    lines: Vec<&'a str>,
}

/// The commands in the blocks of a page, a list for each block.
fn blocks(page: &str) -> Vec<Vec<Shown<'_>>> {
    let begins = page.split("```console\n").skip(1);
    begins.map(|rest| commands(rest.split("\n```").next().unwrap_or_default())).collect()
}

fn commands(block: &str) -> Vec<Shown<'_>> {
    let mut found: Vec<Shown<'_>> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push(Shown { command, lines: Vec::new() }),
            (None, Some(shown)) => shown.lines.push(line),
            (None, None) => {}
        }
    }
    found
}

/// Whether a command needs nothing but apex.
fn can_run(command: &str) -> bool {
    let program = command.split_once(" -- ").map_or("apex", |(_, program)| program);
    command.starts_with("apex ") && program.starts_with("apex")
}

/// A line without what may differ: figures with their units, how sure they are, and how wide columns are.
fn masked(line: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        let bare = word.trim_matches(|c: char| "(),;:<".contains(c));
        let is_figure = bare.starts_with(|c: char| c.is_ascii_digit());
        let is_unit = ["%", "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB"].contains(&bare);
        match word {
            "about" | "most" | "at" => {}
            _ if is_figure => words.push("#"),
            _ if is_unit && words.last() == Some(&"#") => {}
            _ => words.push(word),
        }
    }
    words.join(" ")
}

/// Fails unless the output looks as the page shows it.
fn check(shown: &Shown<'_>, output: &str) {
    let mut rest = output.lines().filter(|line| !line.starts_with("apex: no GPU is found here"));
    let mut skips = false;
    for line in &shown.lines {
        if *line == "…" {
            skips = true;
            continue;
        }
        let (wanted, is_whole) = match line.strip_suffix('…') {
            Some(begin) => (masked(begin), false),
            None => (masked(line), true),
        };
        let fits = |found: &str| {
            let found = masked(found);
            if is_whole { found == wanted } else { found.starts_with(&wanted) }
        };
        let found = if skips { rest.find(|line| fits(line)) } else { rest.next() };
        let is_there = found.is_some_and(fits);
        assert!(is_there, "$ {}\nprints no such line here: {line}\n{output}", shown.command);
        skips = false;
    }
    let left = rest.next();
    assert!(skips || left.is_none(), "$ {}\nprints more: {left:?}\n{output}", shown.command);
}

#[test]
fn every_command_of_the_documents_prints_what_they_show() {
    let bin = tools().apex.parent().expect("apex lies in a folder");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut count = 0;
    for (page, text) in PAGES {
        for block in blocks(text) {
            // The commands of a block belong together: one reads what the other wrote.
            let place = Place::new()
                .without("LD_LIBRARY_PATH")
                .with("APEX_DEVICE", "soft")
                .with("PATH", &path);
            for shown in block.iter().filter(|shown| can_run(shown.command)) {
                let script = format!("cd {}; {} 2>&1", place.root().display(), shown.command);
                let ended = place.plain(Path::new("sh"), &["-c", &script]);
                assert_eq!(ended.code, Some(0), "{page}: $ {}\n{}", shown.command, ended.stdout);
                check(shown, &ended.stdout);
                count += 1;
            }
        }
    }
    assert!(count >= 4, "the documents show {count} commands that can be run");
}

#[test]
fn a_page_that_shows_something_else_is_found() {
    let shown = |lines: &[&'static str]| Shown { command: "apex x", lines: lines.to_vec() };
    check(
        &shown(&["took 3 ms", "…", "end, about 4.5 %"]),
        "took 40.1 µs\na\nb\nend, at most 5 %\n",
    );
    check(&shown(&["took 3 …"]), "took 3 ms, or more\n");
    for (lines, output) in [
        (["took 3 ms"].as_slice(), "needed 3 ms\n"),
        (&["took 3 ms"], "took 3 ms\nmore\n"),
        (&["…", "end"], "took 3 ms\n"),
    ] {
        let checked = std::panic::catch_unwind(|| check(&shown(lines), output));
        assert!(checked.is_err(), "{lines:?}");
    }
}
