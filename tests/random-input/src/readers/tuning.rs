//! The file that `apex run --tuning` is given, and the lines that the shim makes its changes by.

use super::{Examples, JSON_WORDS, Read, Reader, no_variables};
use anyhow::{Context, Result};
use apex_core::tuning::{Image, Kernel, Tuning};
use apex_e2e::tools;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) const READER: Reader = Reader {
    name: "tuning",
    gather,
    variables: no_variables,
    open,
    words: JSON_WORDS,
    cases: u64::MAX,
};

fn gather(folder: &Path) -> Result<()> {
    let lines = Tuning {
        device: "NVIDIA H200".into(),
        kernels: vec![Kernel {
            name: "a kernel".into(),
            image_hash: 7,
            carveout: vec![50],
            cache: vec![1],
            from: vec![256, 1, 1],
            to: vec![128, 1, 1],
        }],
        images: vec![Image { hash: 9, max_registers: vec![64], optimisation: vec![4] }],
    };
    fs::write(folder.join("lines"), lines.text())?;
    let block = json!({"from": [256, 1, 1], "to": [128, 1, 1]});
    let kernel = json!({"kernel": "k", "image": "0000000000000007", "carveout": 50, "cache": "l1",
        "max_registers": 64, "block": block});
    let document = json!({"schema": 1, "apex": "0.1.0", "device": "NVIDIA H200", "driver": "13.0", "command": ["a"],
        "kernels": [kernel], "verified": {"runs": 4, "copies": 2, "bytes": 64, "standard_output": true},
        "gain": 1.1, "tried": [], "refused": []});
    Ok(fs::write(folder.join("tuning.json"), document.to_string())?)
}

/// The document is read by the command alone, so a process is started for each.
fn open(_: &Examples, place: &Path) -> Result<Read> {
    let (path, state) = (place.join("tuning.json"), place.join("state"));
    fs::create_dir_all(&state).context("no folder for sessions")?;
    Ok(Box::new(move |name, bytes| {
        if name == "lines" {
            return Tuning::read(&String::from_utf8_lossy(bytes)).is_some();
        }
        if fs::write(&path, bytes).is_err() {
            return false;
        }
        let status = Command::new(&tools().apex)
            .args(["run", "--device", "gpu", "--tuning"])
            .arg(&path)
            .args(["--", "true"])
            .env("APEX_STATE", &state)
            .env("APEX_SESSIONS_KEPT", "1")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("apex can be started");
        // Taken, the program runs; refused, apex says so and ends with its code for wrong use.
        assert!(matches!(status.code(), Some(0 | 2)), "apex run ended with {status}");
        status.success()
    }))
}
