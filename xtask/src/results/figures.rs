//! Every figure among the README's measurements is the one in the file that its row links to.

use crate::run::root;
use serde_json::Value;

/// How a row of the table begins, and where its figures lie in its file, in order.
///
/// A step of a path is a field or the number of an element; `key=value;key=value` is the first element that has these;
/// `#key=value` is how many have it, `#` how many there are. `A over B` is a ratio.
const FIGURES: &[(&str, &[&str])] = &[
    ("kernels counted", &["rows/#equal=true", "rows/#"]),
    ("output and exit code", &["rows/#equal=true", "rows/#"]),
    ("occupancy", &["rows/0/equal"]),
    ("ResNet-50 training step", &["rows/0/ratio", "rows/0/ratio_95/0", "rows/0/ratio_95/1"]),
    ("empty launches in a loop", &["rows/0/ratio", "rows/0/low", "rows/0/high"]),
    (
        "a loop of dependent launches",
        &[
            "bars/name=dependent launches in a plain loop/value",
            "bars/name=bursts of 20 launches and a wait/value",
        ],
    ),
    (
        "eager PyTorch by",
        &[
            "rows/workload=eager_resnet50/ratio",
            "rows/workload=eager_bert/ratio",
            "rows/workload=eager_gpt2/ratio",
        ],
    ),
    (
        "six programs of independent",
        &[
            "rows/program=options;size=small/us/stream over rows/program=options;size=small/us/fast",
            "rows/program=hubs;size=small/us/stream over rows/program=hubs;size=small/us/fast",
            "rows/program=network;size=small/us/stream over rows/program=network;size=small/us/fast",
        ],
    ),
    (
        "what the shim adds",
        &[
            "rows/threads=1;timing=off/trampoline_added_ns",
            "rows/threads=1;timing=sampled/added_p50_ns",
        ],
    ),
    (
        "predicted time",
        &[
            "runs/0/bars/name=known kernel, mean error/value",
            "runs/0/bars/name=unseen kernel after ten, mean error/value",
        ],
    ),
    (
        "requests of BERT-base",
        &[
            "rows/system=time-slicing/p95_over_alone/value",
            "rows/system=time-slicing/training_over_alone/value",
            "rows/system=mps-priority/p95_over_alone/value",
            "rows/system=mps-priority/training_over_alone/value",
            "rows/system=apex/p95_over_alone/value",
            "rows/system=apex/training_over_alone/value",
        ],
    ),
    (
        "a language model",
        &[
            "rows/system=time-slicing/p95_over_alone/value",
            "rows/system=time-slicing/training_over_alone/value",
            "rows/system=apex-slicing/p95_over_alone/value",
            "rows/system=apex-slicing/training_over_alone/value",
        ],
    ),
    (
        "bf16 product",
        &[
            "rows/case=matmul;shape=4096 x 4096 x 4096/ours over rows/case=matmul;shape=4096 x 4096 x 4096/cublaslt",
        ],
    ),
    (
        "software GPU, matrix product",
        &[
            "rows/kernel=matmul;loop=matmul_ikj;cores=1/soft",
            "rows/kernel=matmul;loop=matmul_ikj;cores=1/gcc_o3",
            "rows/kernel=matmul;loop=matmul_ikj;cores=1/gcc_o3_native",
        ],
    ),
];

#[test]
fn every_figure_of_the_readme_is_in_its_file() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let table = readme
        .split("| what | measured | file |\n")
        .nth(1)
        .expect("the README has its measurements");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let known = FIGURES.iter().find(|(begin, _)| cells[0].starts_with(begin));
        let (_, paths) =
            known.unwrap_or_else(|| panic!("where are the figures of this row? {row}"));
        let file = cells[2].split_once("](").and_then(|(_, rest)| rest.strip_suffix(')'));
        let text =
            std::fs::read_to_string(root().join(file.expect("a row links to its file"))).unwrap();
        let content: Value = serde_json::from_str(&text).unwrap();
        let expected: Vec<String> = numbers(cells[1]);
        let found: Vec<String> = paths
            .iter()
            .zip(&expected)
            .map(|(path, like)| shown(ratio(&content, path), like))
            .collect();
        assert_eq!((paths.len(), expected), (found.len(), found), "{row}");
        count += 1;
    }
    assert_eq!(count, FIGURES.len(), "a row is missing");
}

/// The numbers in a text, without the commas in them.
fn numbers(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','));
    let words = words.map(|word| word.trim_matches(['.', ',']).replace(',', ""));
    words.filter(|word| !word.is_empty()).collect()
}

/// With as many decimals as the other has.
fn shown(value: f64, like: &str) -> String {
    let decimals = like.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{value:.decimals$}")
}

fn ratio(content: &Value, path: &str) -> f64 {
    match path.split_once(" over ") {
        Some((above, below)) => number(content, above) / number(content, below),
        None => number(content, path),
    }
}

fn number(content: &Value, path: &str) -> f64 {
    let mut at = content;
    for step in path.split('/') {
        let elements = at.as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(wanted) = step.strip_prefix('#') {
            return elements.iter().filter(|it| wanted.is_empty() || has(it, wanted)).count()
                as f64;
        }
        let next = match step.parse::<usize>() {
            Ok(nth) => elements.get(nth),
            Err(_) if step.contains('=') => elements.iter().find(|it| has(it, step)),
            Err(_) => at.get(step),
        };
        at = next.unwrap_or_else(|| panic!("there is no {step} of {path}"));
    }
    at.as_f64().unwrap_or_else(|| panic!("{path} is no number"))
}

fn has(element: &Value, wanted: &str) -> bool {
    wanted.split(';').all(|pair| {
        let (key, value) = pair.split_once('=').expect("a key and a value");
        match &element[key] {
            Value::String(text) => text == value,
            Value::Bool(is) => is.to_string() == value,
            Value::Number(number) => number.to_string() == value,
            _ => false,
        }
    })
}

#[test]
fn a_path_leads_to_its_number() {
    let content =
        serde_json::json!({"rows": [{"a": "x", "b": 1.5}, {"a": "y", "b": 3, "c": true}]});
    assert_eq!(ratio(&content, "rows/a=y;c=true/b over rows/0/b"), 2.0);
    assert_eq!((number(&content, "rows/#"), number(&content, "rows/#c=true")), (2.0, 1.0));
    assert_eq!(numbers("20,000 of 3.5 (1.2 to 4), p."), ["20000", "3.5", "1.2", "4"]);
    assert_eq!(shown(0.9987, "1.00"), "1.00");
}
