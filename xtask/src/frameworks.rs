//! What runs without a GPU: each framework as PyPI has it, a fixed set of cases, `apex run --device soft`.
//!
//! A framework is one row of [`FRAMEWORKS`] and one program in `tests/frameworks`. The program names its cases first
//! and says of each how it ended, so that what a crash cuts off counts as not passed. A row lists what is known not to
//! work; in the tests any other failure is one, and so is a known one that passes.

mod outcome;

use crate::demo;
use crate::packages::install;
use crate::run::{command, root, target};
use anyhow::{Context, Result, bail};
use outcome::Outcome;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

/// How a framework is installed and run.
struct Framework {
    name: &'static str,
    /// What pip is asked for; the first is the framework itself.
    packages: &'static [&'static str],
    /// In `tests/frameworks`, without its ending.
    program: &'static str,
    /// What a user must set.
    variables: &'static [(&'static str, &'static str)],
    /// Cases that do not pass, and why.
    known: &'static [(&'static str, &'static str)],
    /// Small and quick enough for every run of the tests.
    is_light: bool,
}

const TORCH: &[&str] = &["torch==2.15.0", "numpy"];
const STRIPPED: &str = "its static CUDA runtime is stripped";

const FRAMEWORKS: &[Framework] = &[
    Framework {
        name: "cuda-python",
        packages: &[
            "cuda-bindings==13.4.1",
            "cuda-core==1.2.2",
            "nvidia-cuda-nvrtc==13.0.88",
            "numpy",
        ],
        program: "with_cuda_python",
        variables: &[],
        known: &[("runtime_bindings", STRIPPED)],
        is_light: true,
    },
    Framework {
        name: "tinygrad",
        packages: &["tinygrad==0.14.0", "numpy"],
        program: "with_tinygrad",
        variables: &[("DEV", "CUDA")],
        known: &[],
        is_light: true,
    },
    Framework {
        name: "numba-cuda",
        packages: &["numba-cuda[cu13]==0.30.4"],
        program: "with_numba_cuda",
        variables: &[],
        known: &[],
        is_light: true,
    },
    Framework {
        name: "taichi",
        packages: &["taichi==1.7.4"],
        program: "with_taichi",
        variables: &[],
        known: &[],
        is_light: false,
    },
    Framework {
        name: "cupy",
        packages: &[
            "cupy-cuda13x==14.2.0",
            "nvidia-cuda-nvrtc==13.0.88",
            "nvidia-cuda-runtime==13.0.96",
        ],
        program: "with_cupy",
        variables: &[("CUPY_COMPILE_WITH_PTX", "1")],
        known: &[],
        is_light: false,
    },
    Framework {
        name: "warp",
        packages: &["warp-lang==1.19.0"],
        program: "with_warp",
        variables: &[],
        known: &[("elementwise", STRIPPED), ("gradient", STRIPPED)],
        is_light: false,
    },
    Framework {
        name: "triton-a100",
        packages: TORCH,
        program: "with_triton",
        variables: &[("APEX_SOFTGPU_DEVICE", "a100")],
        known: &[],
        is_light: false,
    },
    Framework {
        name: "triton-h200",
        packages: TORCH,
        program: "with_triton",
        variables: &[("APEX_SOFTGPU_DEVICE", "h200")],
        known: &[],
        is_light: false,
    },
    Framework {
        name: "torch.compile",
        packages: TORCH,
        program: "with_torch_compile",
        variables: &[],
        known: &[],
        is_light: false,
    },
    Framework {
        name: "jax",
        packages: &["jax[cuda13]==0.10.2"],
        program: "with_jax",
        variables: &[],
        known: &[],
        is_light: false,
    },
];

/// One line of the table.
struct Row {
    framework: &'static Framework,
    version: String,
    outcome: Outcome,
    seconds: f64,
}

/// Runs the frameworks of these names, all of them without any; prints the table and keeps it.
pub(crate) fn frameworks(names: &[String]) -> Result<()> {
    let known: Vec<&str> = FRAMEWORKS.iter().map(|framework| framework.name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no framework {name:?}; there are {}", known.join(", "));
    }
    let is_wanted = |framework: &&Framework| {
        names.is_empty() || names.iter().any(|name| name == framework.name)
    };
    let apex = demo::build(&["--workspace"])?.join("apex");
    let mut rows = Vec::new();
    for framework in FRAMEWORKS.iter().filter(is_wanted) {
        rows.push(tried(framework, &apex)?);
    }
    print_table(&rows);
    keep(&rows)
}

/// Runs the light ones, for the tests: what fails must be known, and what is known must fail.
pub(crate) fn light() -> Result<()> {
    let apex = target().join("debug/apex");
    let mut rows = Vec::new();
    for framework in FRAMEWORKS.iter().filter(|framework| framework.is_light) {
        rows.push(tried(framework, &apex)?);
    }
    print_table(&rows);
    for Row { framework, outcome, .. } in &rows {
        let failed: Vec<&str> = outcome.failed.iter().map(|(case, _)| case.as_str()).collect();
        let known: Vec<&str> = framework.known.iter().map(|(case, _)| *case).collect();
        if failed != known {
            bail!(
                "{}: not passed are {failed:?}, known is {known:?}; see {}",
                framework.name,
                log(framework).display()
            );
        }
    }
    Ok(())
}

fn tried(framework: &'static Framework, apex: &Path) -> Result<Row> {
    let base = folder(framework);
    let site = site_packages(&base)?;
    install(&site, framework.packages)?;
    let since = Instant::now();
    let stderr = std::fs::File::create(log(framework)).context("a log cannot be made")?;
    let output = command("timeout", &["--kill-after=10", "1800"])
        .arg(apex)
        .args(["run", "--device", "soft", "--", "python3"])
        .arg(root().join("tests/frameworks").join(framework.program).with_extension("py"))
        .envs(framework.variables.iter().copied())
        .env("PYTHONUSERBASE", &base)
        .env_remove("PYTHONPATH")
        .stderr(Stdio::from(stderr))
        .output()
        .with_context(|| format!("{} cannot be started", framework.name))?;
    let seconds = since.elapsed().as_secs_f64();
    let outcome = Outcome::read(&String::from_utf8_lossy(&output.stdout));
    Ok(Row { framework, version: version(&site, framework)?, outcome, seconds })
}

/// Frameworks with the same packages share a folder.
fn folder(framework: &Framework) -> PathBuf {
    let first = FRAMEWORKS.iter().find(|other| other.packages == framework.packages);
    target().join("frameworks").join(first.map_or(framework.name, |first| first.name))
}

fn log(framework: &Framework) -> PathBuf {
    target().join("frameworks").join(framework.name).with_extension("log")
}

/// Where Python looks for a user's own packages below this folder. What packages look for beside themselves they find
/// there, but not in a folder of `PYTHONPATH`.
fn site_packages(base: &Path) -> Result<PathBuf> {
    let output = command("python3", &["-m", "site", "--user-site"])
        .env("PYTHONUSERBASE", base)
        .output()
        .context("python3 cannot be started")?;
    Ok(String::from_utf8(output.stdout).context("a path that is no text")?.trim_end().into())
}

/// The version that was installed, from the folder that pip leaves beside a package.
fn version(site: &Path, framework: &Framework) -> Result<String> {
    let first = framework.packages.first().copied().unwrap_or_default();
    let name = first.split(['=', '[']).next().unwrap_or_default().replace('-', "_");
    for entry in std::fs::read_dir(site).context("no packages")? {
        let entry = entry?.file_name().to_string_lossy().into_owned();
        let version = entry.strip_suffix(".dist-info").and_then(|entry| entry.split_once('-'));
        if let Some((_, version)) = version.filter(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            return Ok(version.to_owned());
        }
    }
    bail!("{name} is not in {}", site.display())
}

fn print_table(rows: &[Row]) {
    println!("| framework | version | passed | seconds | not passed |");
    println!("|---|---|---|---|---|");
    for Row { framework, version, outcome, seconds } in rows {
        let failed: Vec<String> = outcome
            .failed
            .iter()
            .map(|(case, why)| format!("{case}: {}", reason(framework, case, why)))
            .collect();
        println!(
            "| {} | {version} | {} of {} | {seconds:.0} | {} |",
            framework.name,
            outcome.passed,
            outcome.all(),
            failed.join("; ")
        );
    }
}

/// What is known of a case says more than its error.
fn reason<'a>(framework: &Framework, case: &str, error: &'a str) -> &'a str
where
    'static: 'a,
{
    let known = framework.known.iter().find(|(known, _)| *known == case);
    known.map_or(error, |(_, why)| why)
}

/// Rows of frameworks that were not run stay as they were kept on the same day.
fn keep(rows: &[Row]) -> Result<()> {
    let output = command("date", &["-u", "+%F"]).output().context("date cannot be started")?;
    let date = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let path = root().join(format!("results/softgpu/frameworks-{date}.json"));
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let kept: Value = serde_json::from_str(&kept).unwrap_or_default();
    let of_today = |framework: &Framework| {
        let row = rows.iter().find(|row| row.framework.name == framework.name).map(document);
        let mut kept = kept["rows"].as_array().into_iter().flatten();
        row.or_else(|| kept.find(|row| row["framework"] == framework.name).cloned())
    };
    let document = json!({
        "command": "cargo xtask frameworks",
        "device": "apex software GPU",
        "date": date,
        "rows": FRAMEWORKS.iter().filter_map(of_today).collect::<Vec<Value>>(),
    });
    std::fs::write(&path, format!("{document:#}\n"))
        .with_context(|| format!("{} is not written", path.display()))?;
    println!("kept in {}", path.display());
    Ok(())
}

fn document(row: &Row) -> Value {
    let failed = row.outcome.failed.iter().map(
        |(case, why)| json!({"case": case, "why": reason(row.framework, case, why), "error": why}),
    );
    json!({
        "framework": row.framework.name,
        "version": row.version,
        "packages": row.framework.packages,
        "variables": row.framework.variables,
        "passed": row.outcome.passed,
        "of": row.outcome.all(),
        "seconds": (row.seconds * 10.0).round() / 10.0,
        "not_passed": failed.collect::<Vec<Value>>(),
    })
}
