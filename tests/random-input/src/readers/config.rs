//! The settings' file that `APEX_CONFIG` names, the configuration of the daemon, and what launches cost here.

use super::{Examples, Read, Reader, no_variables};
use anyhow::Result;
use apex_core::knobs::Knobs;
use apex_core::launch_costs;
use apex_daemon::schedule::grants::{self, Grants};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub(crate) const READER: Reader = Reader {
    name: "config",
    gather,
    variables: no_variables,
    open,
    words: &[
        "APEX_",
        "=",
        "\n",
        "#",
        "{",
        "}",
        "[",
        "\"",
        "-1",
        "1e308",
        "18446744073709551616",
        "\0",
        "G",
        "KiB",
    ],
    cases: u64::MAX,
};

fn gather(folder: &Path) -> Result<()> {
    let mut settings = String::from("# every setting\n");
    for knob in apex_core::knobs::list() {
        let _ = writeln!(settings, "{}={}", knob.variable, knob.default);
    }
    fs::write(folder.join("settings"), settings)?;
    let costs = "costs device=NVIDIA%20H200 driver=13000 launch_ns=3600 graph_ns=1900 node_ns=730 changed_ns=370 \
                 build_ns=4700\n";
    fs::write(folder.join(launch_costs::FILE), costs)?;
    let daemon = r#"{"policy": "priority", "group": "gpu", "gpus": ["GPU-0a"],
        "allow": [{"user": "root", "class": "latency", "share": 2.0}]}"#;
    Ok(fs::write(folder.join("daemon.json"), daemon)?)
}

fn open(_: &Examples, place: &Path) -> Result<Read> {
    let path = place.join("file");
    Ok(Box::new(move |name, bytes| {
        if fs::write(&path, bytes).is_err() {
            return false;
        }
        if name == "daemon.json" {
            return grants::read(&path).is_ok_and(|config| Grants::listed(&config.allow).is_ok());
        }
        if name == launch_costs::FILE {
            return launch_costs::find(&path, "NVIDIA H200", 13_000).is_some();
        }
        let lookup = |name: &str| (name == "APEX_CONFIG").then(|| path.display().to_string());
        let mut complaints = 0;
        Knobs::read_with_file(lookup, |_| complaints += 1);
        complaints == 0
    }))
}
