//! The lanes before and after as a trace for Perfetto, in Chrome's JSON form: dependences are flows.

use super::{Drawn, Placed, kinds};
use serde_json::{Value, json};

const BEFORE: u32 = 1;
const AFTER: u32 = 2;

pub(super) fn picture(drawn: &Drawn<'_>) -> String {
    let mut events = Vec::new();
    for (process, name, lanes) in
        [(BEFORE, "one stream", &drawn.chain), (AFTER, "branches of one graph", &drawn.branches)]
    {
        events.push(
            json!({"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}),
        );
        events.extend(lanes.iter().enumerate().map(|(nth, at)| slice(drawn, process, nth, *at)));
    }
    for (number, (later, earlier, sum)) in drawn.edges().enumerate() {
        let flow = |phase: &str, at: f64, lane: usize| {
            json!({"ph": phase, "bp": "e", "id": number, "cat": "dependence", "name": kinds(sum),
                   "pid": AFTER, "tid": lane, "ts": at / 1e3})
        };
        let (from, to) = (drawn.branches[earlier], drawn.branches[later]);
        // A flow is bound to the slice that it lies in, so both ends lie within theirs.
        events.push(flow("s", (from.begin + from.end) / 2.0, from.lane));
        events.push(flow("f", (to.begin + to.end) / 2.0, to.lane));
    }
    json!({"traceEvents": events, "otherData": {"title": drawn.title}}).to_string() + "\n"
}

fn slice(drawn: &Drawn<'_>, process: u32, nth: usize, at: Placed) -> Value {
    json!({"ph": "X", "pid": process, "tid": at.lane, "ts": at.begin / 1e3, "dur": (at.end - at.begin) / 1e3,
           "name": drawn.names[nth],
           "args": {"launch": nth + 1, "touches": drawn.reason(nth).unwrap_or("proven")}})
}
