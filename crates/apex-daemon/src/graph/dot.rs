//! The graph in the language of Graphviz.

use super::{Drawn, colour, kinds, short};
use std::fmt::Write as _;

pub(super) fn picture(drawn: &Drawn<'_>) -> String {
    let mut text = format!(
        "digraph launches {{\n  rankdir=LR;\n  label=\"{}\";\n  node [shape=box, fontname=\"sans-serif\"];\n",
        escaped(&drawn.title)
    );
    for (nth, name) in drawn.names.iter().enumerate() {
        let number = nth + 1;
        let (why, style) = match drawn.reason(nth) {
            Some(reason) => (format!("\\nnot proven: {}", escaped(reason)), ", style=dashed"),
            None => (String::new(), ""),
        };
        let name = escaped(short(name));
        let _ = writeln!(text, "  launch{number} [label=\"{number} {name}{why}\"{style}];");
    }
    for (later, earlier, sum) in drawn.edges() {
        let (later, earlier) = (later + 1, earlier + 1);
        let (kinds, colour) = (kinds(sum), colour(sum));
        let _ = writeln!(
            text,
            "  launch{earlier} -> launch{later} [label=\"{kinds}\", color=\"{colour}\"];"
        );
    }
    text.push_str("}\n");
    text
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ")
}
