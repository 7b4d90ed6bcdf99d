//! What was measured: a folder for each bench, and a page in it that says what each file is.
//!
//! A figure is worth what is known of its making: so every file says of which commit, on which device, with which driver
//! and by which command it was made. A file that no document and no code cites proves nothing and is not kept.

#[cfg(test)]
mod figures;

use crate::run::root;
use crate::sources::{files, shown};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What each file says of itself.
const FIELDS: [&str; 4] = ["commit", "device", "driver", "command"];

/// The folders, and what is measured there.
const FOLDERS: [(&str, &str); 16] = [
    ("advice", "Advice and suggested block sizes, followed on measured launches"),
    ("collect", "What the collector spends on a launch"),
    ("compatibility", "Code for newer chips, brought down to an H200"),
    ("dashboard", "What the live page costs"),
    ("exec", "The executor's operations beside cuBLASLt and PyTorch"),
    ("foresight", "Ways to foresee what a program allocates"),
    ("launch", "Launches through the queue of `--fast`, beside the driver alone"),
    ("memory", "Memory handed out again by `--fast`, beside the driver's own"),
    ("overlap", "Launches of one stream at once, beside graphs made by hand"),
    ("predict", "Predicted against measured times of launches"),
    ("programs", "Real programs under apex: what is counted, what it costs, what stays the same"),
    ("random-input", "Broken input for every reader of what apex did not write"),
    ("sched", "Programs that share a GPU, under every way of sharing"),
    ("shim", "What the shim adds to a call"),
    ("softgpu", "The software GPU: its speed, and that it computes what it should"),
    ("specialise", "Kernels compiled again for what they are called with"),
];

/// A file of results.
struct Measured {
    /// From the project's root.
    path: String,
    content: Value,
    /// The files that name it.
    cited_by: Vec<String>,
}

/// The page of each folder: its path and content.
pub(crate) fn pages() -> Result<Vec<(String, String)>> {
    let all = all()?;
    let page = |(name, title): (&str, &str)| {
        let folder = format!("results/{name}/");
        let mut page = format!(
            "# {title}\n\nMade by `cargo xtask docs`. The commit is the measured one where the file says so; elsewhere \
             the one that the file came with.\n\n| file | commit | device | driver | command | cited by |\n\
             |---|---|---|---|---|---|\n"
        );
        for measured in all.iter().filter(|measured| measured.path.starts_with(&folder)) {
            page.push_str(&row(measured, &folder));
        }
        (format!("{folder}README.md"), page)
    };
    Ok(FOLDERS.into_iter().map(page).collect())
}

fn row(measured: &Measured, folder: &str) -> String {
    let file = measured.path.trim_start_matches(folder);
    let field = |name: &str| {
        measured.content[name].as_str().unwrap_or_default().replace('|', "\\|").replace('`', "'")
    };
    let [commit, device, driver, command] = FIELDS.map(field);
    let link = |path: &String| format!("[{path}](../../{path})");
    let cited: Vec<String> = measured.cited_by.iter().map(link).collect();
    format!(
        "| [{file}]({file}) | {commit} | {device} | {driver} | `{command}` | {} |\n",
        cited.join(", ")
    )
}

/// Names what is not as it should be.
pub(crate) fn check(breaches: &mut Vec<String>) -> Result<()> {
    for measured in all()? {
        breaches.extend(breaches_of(&measured));
    }
    for citing in citing()? {
        let text = std::fs::read_to_string(&citing)?;
        let missing = cited(&text).filter(|path| !root().join(path).exists());
        breaches.extend(
            missing.map(|path| format!("{} cites {path}, which is not there", shown(&citing))),
        );
    }
    Ok(())
}

fn breaches_of(measured: &Measured) -> Vec<String> {
    let path = &measured.path;
    let is_said =
        |name: &&str| measured.content[*name].as_str().is_some_and(|word| !word.is_empty());
    let unsaid = FIELDS.into_iter().filter(|name| !is_said(name));
    let mut breaches: Vec<String> =
        unsaid.map(|name| format!("{path} does not say its {name}")).collect();
    if measured.cited_by.is_empty() {
        breaches.push(format!("nothing cites {path}"));
    }
    let folder = path.split('/').nth(1).unwrap_or_default();
    if path.split('/').count() != 3 || FOLDERS.iter().all(|(known, _)| *known != folder) {
        breaches.push(format!("{path} lies in no folder of the list in xtask/src/results.rs"));
    }
    breaches
}

/// Every file of results.
fn all() -> Result<Vec<Measured>> {
    let texts: Vec<(String, String)> = citing()?
        .into_iter()
        .map(|path| Ok((shown(&path), std::fs::read_to_string(path)?)))
        .collect::<Result<_>>()?;
    let is_page = |path: &Path| path.file_name().is_some_and(|name| name == "README.md");
    let found = files(&root().join("results"), &|path| !is_page(path))?;
    let read = |file: PathBuf| {
        let path = shown(&file);
        let content = serde_json::from_str(&std::fs::read_to_string(&file)?)
            .with_context(|| format!("{path} is no JSON"))?;
        let cites = |(_, text): &&(String, String)| cited(text).any(|cited| cited == path);
        let cited_by = texts.iter().filter(cites).map(|(name, _)| name.clone()).collect();
        Ok(Measured { path, content, cited_by })
    };
    found.into_iter().map(read).collect()
}

/// What may cite results: documents, code, scripts; not the pages that are made here, nor this code.
fn citing() -> Result<Vec<PathBuf>> {
    const ENDS: [&str; 6] = ["md", "rs", "py", "sh", "c", "cu"];
    let not_here = ["results", "xtask"].map(|folder| root().join(folder));
    files(&root(), &|path| {
        path.extension().is_some_and(|end| ENDS.iter().any(|known| end == *known))
            && !not_here.iter().any(|folder| path.starts_with(folder))
    })
}

/// Every `results/FOLDER/FILE` in a text.
fn cited(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("results/").filter_map(|(at, _)| {
        let rest = &text[at..];
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        let name = &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())];
        let name = name.trim_end_matches('.');
        (name.ends_with(".json") && name.matches('/').count() == 2).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::{Measured, breaches_of, cited};
    use serde_json::json;

    #[test]
    fn citations_are_found_in_sentences_and_links() {
        let text = "as in `results/sched/a.json`, [b](../results/exec/b-2.json). Not results/sched or results/x.json.";
        assert_eq!(
            cited(text).collect::<Vec<_>>(),
            ["results/sched/a.json", "results/exec/b-2.json"]
        );
    }

    #[test]
    fn what_a_file_lacks_is_named() {
        let whole = json!({"commit": "1", "device": "d", "driver": "d", "command": "c"});
        let check = |path: &str, content, cited_by: &[&str], expected: &[&str]| {
            let cited_by = cited_by.iter().map(ToString::to_string).collect();
            let found = breaches_of(&Measured { path: path.into(), content, cited_by });
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.contains(expected), "{found}");
            }
        };
        check("results/sched/a.json", whole.clone(), &["README.md"], &[]);
        check("results/sched/a.json", whole.clone(), &[], &["nothing cites"]);
        check("results/a.json", whole.clone(), &["README.md"], &["no folder"]);
        check("results/other/a.json", whole, &["README.md"], &["no folder"]);
        let bare = json!({"commit": "1", "device": "", "driver": "d"});
        check("results/sched/a.json", bare, &["README.md"], &["its device", "its command"]);
    }
}
