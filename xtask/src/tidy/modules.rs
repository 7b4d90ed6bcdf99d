//! No modules that need each other in a circle, at any depth.
//!
//! The rule: a module may use its own children and the items of the modules that it lies in. Any other use counts
//! between two children of one module: the last that user and used have in common. Among the children of one module
//! the uses may not form a circle. A name that a module gives on counts as a use of where it comes from too, so no
//! circle hides behind a `pub use`. Tests may use anything.

use super::paths::{Module, ROOT_FILES, read};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Circles inside folders that are still to be parted: the crate, the module whose children they are, and the
/// children. The list may only become shorter.
const LEFT: &[(&str, &str, &[&str])] = &[
    (
        "crates/apex-engine",
        "interpret",
        &[
            "atomic",
            "blame",
            "block",
            "checked",
            "context",
            "copy",
            "exchange",
            "execute",
            "matrix",
            "matrix_memory",
            "memory",
            "reach",
            "sample",
            "special",
            "system",
            "video",
            "warp",
        ],
    ),
    ("crates/apex-engine", "jit", &["emit", "parted", "settle", "value"]),
    ("crates/apex-engine", "jit", &["flow", "region", "shape"]),
    ("crates/apex-exec", "zoo", &["check", "ground", "prepared", "timing"]),
    ("crates/apex-exec", "zoo", &["estimate", "kernel", "point"]),
];

/// One source file: where it lies, and its text.
pub(super) struct Source {
    /// Below `src`, such as `a/b.rs`.
    pub(super) path: String,
    pub(super) text: String,
}

/// Names every circle of a crate, with the uses that close it.
pub(super) fn check(name: &str, folder: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let mut sources = Vec::new();
    let source = folder.join("src");
    for path in super::files(&source, &|path| path.extension().is_some_and(|end| end == "rs"))? {
        let below = path.strip_prefix(&source).unwrap_or(&path);
        let text = std::fs::read_to_string(&path)?;
        sources.push(Source { path: below.display().to_string(), text });
    }
    let circles = circles(&sources);
    for circle in &circles {
        if !LEFT.iter().any(|left| circle.is_within(name, left)) {
            breaches.push(format!("{name}: {circle}"));
        }
    }
    for left in LEFT.iter().filter(|left| left.0 == name) {
        if !circles.iter().any(|circle| circle.is_within(name, left)) {
            breaches
                .push(format!("{name}: the circle in {:?} is gone: take it out of LEFT", left.1));
        }
    }
    Ok(())
}

/// Modules of one parent that need each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Circle {
    /// The parent, empty for the crate's root.
    parent: String,
    children: BTreeSet<String>,
    /// The uses between them.
    uses: Vec<String>,
}

impl Circle {
    fn is_within(&self, name: &str, left: &(&str, &str, &[&str])) -> bool {
        let all = |child: &String| left.2.contains(&child.as_str());
        left.0 == name && left.1 == self.parent && self.children.iter().all(all)
    }
}

impl std::fmt::Display for Circle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.children.iter().map(String::as_str).collect();
        let parent = if self.parent.is_empty() { "the root" } else { &self.parent };
        write!(
            out,
            "{} modules of {parent} need each other in a circle: {}",
            names.len(),
            names.join(" ")
        )?;
        self.uses.iter().try_for_each(|line| write!(out, "\n        {line}"))
    }
}

/// The circles of a crate's sources.
pub(super) fn circles(sources: &[Source]) -> Vec<Circle> {
    let modules = modules(sources);
    let mut levels: BTreeMap<Vec<String>, Graph> = BTreeMap::new();
    for (user, module) in &modules {
        for used in &module.uses {
            for target in targets(&modules, &used.path) {
                let common = user.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if common == user.len() || common == target.len() {
                    continue;
                }
                let line = format!(
                    "{} → {}: src/{}:{} uses {}",
                    user[common],
                    target[common],
                    module.file,
                    used.line,
                    used.path.join("::")
                );
                let graph = levels.entry(user[..common].to_vec()).or_default();
                let known = graph.entry(user[common].clone()).or_default();
                known.entry(target[common].clone()).or_default().push(line);
            }
        }
    }
    let of_level = |(parent, graph): (&Vec<String>, &Graph)| {
        let parts = parts_in_circles(graph);
        parts.into_iter().map(|children| circle(parent, children, graph)).collect::<Vec<_>>()
    };
    levels.iter().flat_map(of_level).collect()
}

/// The children of one module: who uses whom, and where.
type Graph = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn circle(parent: &[String], children: BTreeSet<String>, graph: &Graph) -> Circle {
    let mut uses = Vec::new();
    for user in &children {
        for (_, lines) in graph[user].iter().filter(|(used, _)| children.contains(*used)) {
            let more = lines.len() - 1;
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            uses.push(format!("{}{more}", lines[0]));
        }
    }
    Circle { parent: parent.join("::"), children, uses }
}

/// Every module of the crate by its path; those for tests alone are left out.
fn modules(sources: &[Source]) -> BTreeMap<Vec<String>, Module> {
    let mut modules = BTreeMap::<Vec<String>, Module>::new();
    let mut for_tests = Vec::new();
    for Source { path, text } in sources {
        let at = module_path(path);
        let mut module = read(&at, path, text);
        let test_modules = module.test_modules.drain(..);
        for_tests.extend(test_modules.map(|name| [at.as_slice(), &[name]].concat()));
        // A crate that is a library and a command has two roots.
        match modules.get_mut(&at) {
            Some(known) => known.join(module),
            None => {
                modules.insert(at, module);
            }
        }
    }
    modules.retain(|at, _| !for_tests.iter().any(|test| at.starts_with(test)));
    modules
}

/// The path of the module that a file holds.
fn module_path(file: &str) -> Vec<String> {
    if ROOT_FILES.contains(&file) {
        return Vec::new();
    }
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_owned).collect()
}

/// The modules that a path leads to: the one that it names, and those that this one has the name from.
fn targets(modules: &BTreeMap<Vec<String>, Module>, path: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut path = path.to_vec();
    loop {
        let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length]));
        let Some(length) = length else { return found };
        let (at, rest) = path.split_at(length);
        if found.iter().any(|known| known == at) {
            return found;
        }
        found.push(at.to_vec());
        let module = &modules[at];
        let Some(name) = rest.first().filter(|name| !module.defines.contains(*name)) else {
            return found;
        };
        let defines = |from: &&Vec<String>| {
            modules.get(*from).is_some_and(|module| module.defines.contains(name))
        };
        let from = module.imports.get(name).cloned();
        let from = from.or_else(|| {
            let from = module.globs.iter().find(defines)?;
            Some([from.as_slice(), std::slice::from_ref(name)].concat())
        });
        match from {
            Some(from) => path = [from.as_slice(), &rest[1..]].concat(),
            None => return found,
        }
    }
}

/// The sets of more than one child that reach each other.
fn parts_in_circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached = |from: &str| {
        let mut known = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for next in graph.get(at).into_iter().flat_map(BTreeMap::keys) {
                if known.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        known
    };
    let reach: BTreeMap<&String, BTreeSet<String>> =
        graph.keys().map(|child| (child, reached(child))).collect();
    let mut parts = BTreeSet::new();
    for (child, seen) in &reach {
        let back = |other: &&String| reach.get(other).is_some_and(|seen| seen.contains(*child));
        let part: BTreeSet<String> = seen.iter().filter(back).cloned().collect();
        if part.len() > 1 {
            parts.insert(part);
        }
    }
    parts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in files that are given as path and text.
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let source = |&(path, text): &(&str, &str)| Source { path: path.into(), text: text.into() };
        let sources: Vec<Source> = files.iter().map(source).collect();
        let found = circles(&sources);
        let shown = |circle: &Circle| {
            let names: Vec<&str> = circle.children.iter().map(String::as_str).collect();
            format!("{}: {}", circle.parent, names.join(" "))
        };
        assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected, "{found:?}");
    }

    #[test]
    fn siblings_that_need_each_other_are_found() {
        check(&[("a.rs", "use crate::b::X;"), ("b.rs", "fn f() { crate::a::g() }")], &[": a b"]);
        check(
            &[
                ("a.rs", "use super::b;"),
                ("b.rs", "use crate::{c::X, d};"),
                ("c.rs", "use super::{a::{Y, Z}};"),
            ],
            &[": a b c"],
        );
        check(&[("a.rs", "use crate::b::X;"), ("b.rs", "use std::fmt;")], &[]);
    }

    #[test]
    fn a_circle_inside_a_folder_is_found() {
        let inside = [("f.rs", ""), ("f/a.rs", "use super::b::X;"), ("f/b.rs", "use crate::f::a;")];
        check(&inside, &["f: a b"]);
        // Two folders by way of their parts.
        let across =
            [("f/a.rs", "use crate::g::b::X;"), ("g/b.rs", "use crate::f::c::Y;"), ("f/c.rs", "")];
        check(&across, &[": f g"]);
    }

    #[test]
    fn no_circle_is_left_between_top_modules() {
        assert!(LEFT.iter().all(|(_, parent, _)| !parent.is_empty()));
    }

    #[test]
    fn a_circle_that_is_left_may_only_become_smaller() {
        let circle = |children: &[&str]| Circle {
            parent: "f".into(),
            children: children.iter().map(|child| (*child).to_owned()).collect(),
            uses: Vec::new(),
        };
        let left: (&str, &str, &[&str]) = ("crates/x", "f", &["a", "b", "c"]);
        assert!(circle(&["a", "b"]).is_within("crates/x", &left));
        assert!(!circle(&["a", "d"]).is_within("crates/x", &left));
        assert!(!circle(&["a", "b"]).is_within("crates/y", &left));
    }

    #[test]
    fn a_child_may_use_what_it_lies_in() {
        check(
            &[("f.rs", "mod a; use a::Y; struct X;"), ("f/a.rs", "use super::X; use crate::Z;")],
            &[],
        );
        check(&[("lib.rs", "mod a; struct Z;"), ("a.rs", "use crate::Z;")], &[]);
    }

    #[test]
    fn no_circle_hides_behind_what_is_given_on() {
        let by_root =
            [("lib.rs", "pub use b::X;"), ("a.rs", "use crate::X;"), ("b.rs", "use crate::a::Y;")];
        check(&by_root, &[": a b"]);
        let by_star = [
            ("f.rs", "mod a; mod b; use b::X;"),
            ("f/a.rs", "use super::*; fn f() -> X {}"),
            ("f/b.rs", "use super::a::Y;"),
        ];
        check(&by_star, &["f: a b"]);
        let given_on = [
            ("lib.rs", "pub use b::*;"),
            ("a.rs", "use crate::X;"),
            ("b.rs", "pub struct X; use crate::a::Y;"),
        ];
        check(&given_on, &[": a b"]);
    }

    #[test]
    fn a_module_that_gives_on_is_used_too() {
        let files = [
            ("a.rs", "pub use crate::c::X; use crate::b::Y;"),
            ("b.rs", "use crate::a::X;"),
            ("c.rs", "pub struct X;"),
        ];
        check(&files, &[": a b"]);
    }

    #[test]
    fn tests_may_use_anything() {
        check(
            &[
                ("a.rs", "use crate::b::X;"),
                ("b.rs", "#[cfg(test)] mod tests { use crate::a::Y; }"),
            ],
            &[],
        );
        let files = [
            ("a.rs", "use crate::b::X;"),
            ("b.rs", "#[cfg(test)] mod tests;"),
            ("b/tests.rs", "use crate::a::Y;"),
        ];
        check(&files, &[]);
    }

    #[test]
    fn a_module_within_a_file_counts_as_the_file() {
        check(
            &[("a.rs", "mod inner { use super::super::b::X; }"), ("b.rs", "use crate::a;")],
            &[": a b"],
        );
        check(&[("a.rs", "struct Y; mod inner { use super::Y; }"), ("b.rs", "use crate::a;")], &[]);
    }

    #[test]
    fn a_circle_says_which_uses_close_it() {
        let sources =
            [("a.rs", "\nuse crate::b::X;\nuse crate::b::Z;"), ("b.rs", "use crate::a::Y;")]
                .map(|(path, text)| Source { path: path.into(), text: text.into() });
        let shown = circles(&sources)[0].to_string();
        assert_eq!(
            shown,
            "2 modules of the root need each other in a circle: a b\
             \n        a → b: src/a.rs:2 uses b::X (and 1 more)\
             \n        b → a: src/b.rs:1 uses a::Y"
        );
    }
}
