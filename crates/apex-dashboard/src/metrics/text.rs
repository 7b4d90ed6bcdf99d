//! Metrics in Prometheus' text form. A name of a program or a kernel is a label's value, escaped as the form wants it.

use super::{Family, Kind, Series};
use std::fmt::Write as _;

pub(super) fn of(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families {
        let (name, kind) = (name(family), kind(family));
        let _ = write!(text, "# HELP {name} {}\n# TYPE {name} {kind}\n", family.help);
        for series in &family.series {
            let _ = writeln!(text, "{name}{} {}", labels(series), series.value);
        }
    }
    text
}

/// The name as Prometheus writes OpenTelemetry's: with its unit, and with `total` for what only rises.
fn name(Family { name, unit, kind, .. }: &Family) -> String {
    let total = if *kind == Kind::Sum { "_total" } else { "" };
    format!("{}{}{total}", name.replace('.', "_"), unit.ending)
}

fn kind(family: &Family) -> &'static str {
    match family.kind {
        Kind::Level => "gauge",
        Kind::Sum => "counter",
    }
}

fn labels(series: &Series) -> String {
    if series.labels.is_empty() {
        return String::new();
    }
    let label = |(label, value): &(&super::Label, String)| {
        format!("{}=\"{}\"", label.label, escaped(value))
    };
    format!("{{{}}}", series.labels.iter().map(label).collect::<Vec<_>>().join(","))
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::families;
    use super::super::tests::snapshot;

    #[test]
    fn a_name_cannot_write_a_line() {
        let text = super::of(&families(&[snapshot(3)]));
        for line in text.lines() {
            assert!(line.starts_with('#') || line.starts_with("apex_") || line.starts_with("hw_"));
        }
        assert!(text.contains(r#"kernel="k2\"} 1\nowned\\""#), "{text}");
        assert!(text.contains("# TYPE apex_gpu_seconds_total counter"), "{text}");
    }
}
