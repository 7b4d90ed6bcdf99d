//! Metrics as OTLP has them in JSON: numbers of 64 bits are text, names are in camel case.

use crate::metrics::{Family, Kind, Series};
use serde_json::{Value, json};

/// Sums count from the start, whoever was told of them before.
const CUMULATIVE: u32 = 2;

/// The document of one push.
pub(super) fn of(families: &[Family], now_unix_ns: u64, host: &str) -> String {
    let metrics: Vec<Value> = families.iter().map(|family| metric(family, now_unix_ns)).collect();
    let resource = [attribute("service.name", "apex"), attribute("host.name", host)];
    let scope = json!({ "name": "apex", "version": env!("CARGO_PKG_VERSION") });
    let document = json!({
        "resourceMetrics": [{
            "resource": { "attributes": resource },
            "scopeMetrics": [{ "scope": scope, "metrics": metrics }],
        }],
    });
    document.to_string()
}

/// A family; levels are sums too, that may fall: those of two machines add up to what both have.
fn metric(family: &Family, now_unix_ns: u64) -> Value {
    let points: Vec<Value> = family.series.iter().map(|one| point(one, now_unix_ns)).collect();
    json!({
        "name": family.name,
        "description": family.help,
        "unit": family.unit.code,
        "sum": {
            "dataPoints": points,
            "aggregationTemporality": CUMULATIVE,
            "isMonotonic": family.kind == Kind::Sum,
        },
    })
}

fn point(series: &Series, now_unix_ns: u64) -> Value {
    let attributes = series.labels.iter().map(|(label, value)| match label.is_number {
        true => json!({ "key": label.attribute, "value": { "intValue": value } }),
        false => attribute(label.attribute, value),
    });
    json!({
        "attributes": attributes.collect::<Vec<_>>(),
        "startTimeUnixNano": series.since_unix_ns.to_string(),
        "timeUnixNano": now_unix_ns.to_string(),
        "asDouble": series.value,
    })
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}
