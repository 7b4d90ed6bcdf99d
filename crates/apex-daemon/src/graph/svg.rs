//! The lanes before and after as a picture, with the dependences between the lanes after.

use super::{Drawn, Placed, colour, kinds, short};
use std::fmt::Write as _;

const LEFT: f64 = 20.0;
const TOP: f64 = 84.0;
const LANE: f64 = 30.0;
const BOX: f64 = 22.0;
const BETWEEN: f64 = 44.0;
/// Points that the shortest launch has.
const SHORTEST: f64 = 6.0;
const NARROWEST: f64 = 900.0;
const WIDEST: f64 = 8_000.0;
/// Points of a letter.
const LETTER: f64 = 6.5;

pub(super) fn picture(drawn: &Drawn<'_>) -> String {
    let end = drawn.chain.iter().map(|at| at.end).fold(1.0, f64::max);
    let least = drawn.chain.iter().map(|at| at.end - at.begin).fold(end, f64::min).max(1e-9);
    let width = (end / least * SHORTEST).clamp(NARROWEST, WIDEST);
    let scale = width / end;
    let lanes = drawn.branches.iter().map(|at| at.lane + 1).max().unwrap_or(0);
    let after = TOP + LANE + BETWEEN;
    let height = after + lanes as f64 * LANE + 20.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
        width + 2.0 * LEFT,
        escaped(&drawn.title)
    );
    legend(&mut text);
    let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"{:.0}\">one stream</text>", TOP - 8.0);
    boxes(&mut text, drawn, &drawn.chain, scale, TOP);
    let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"{:.0}\">with branches</text>", after - 8.0);
    boxes(&mut text, drawn, &drawn.branches, scale, after);
    for (later, earlier, sum) in drawn.edges() {
        let (from, to) = (drawn.branches[earlier], drawn.branches[later]);
        let (x, y) = (LEFT + from.end * scale, middle(after, from));
        let (to_x, to_y) = (LEFT + to.begin * scale, middle(after, to));
        let _ = writeln!(
            text,
            "<path d=\"M{x:.1} {y:.1} C{:.1} {y:.1} {:.1} {to_y:.1} {to_x:.1} {to_y:.1}\" fill=\"none\" stroke=\"{}\" \
             stroke-width=\"1.5\"><title>{} after {}: {}</title></path>",
            x + 12.0,
            to_x - 12.0,
            colour(sum),
            later + 1,
            earlier + 1,
            kinds(sum)
        );
    }
    text.push_str("</svg>\n");
    text
}

fn legend(text: &mut String) {
    for (nth, sum) in [1, 2, 4, 0].into_iter().enumerate() {
        let x = LEFT + nth as f64 * 110.0;
        let _ = writeln!(
            text,
            "<line x1=\"{x:.0}\" y1=\"42\" x2=\"{:.0}\" y2=\"42\" stroke=\"{}\" stroke-width=\"2\"/>\
             <text x=\"{:.0}\" y=\"46\">{}</text>",
            x + 20.0,
            colour(sum),
            x + 26.0,
            kinds(sum)
        );
    }
}

fn boxes(text: &mut String, drawn: &Drawn<'_>, lanes: &[Placed], scale: f64, top: f64) {
    for (nth, at) in lanes.iter().enumerate() {
        let (x, y) = (LEFT + at.begin * scale, top + at.lane as f64 * LANE);
        let width = ((at.end - at.begin) * scale - 1.0).max(1.0);
        let name = short(drawn.names[nth]);
        let reason = drawn.reason(nth);
        let fill = if reason.is_some() { "#f6f8fa" } else { "#ddf4ff" };
        let why = reason.map_or_else(String::new, |reason| format!(", not proven: {reason}"));
        let _ = writeln!(
            text,
            "<rect class=\"launch\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BOX}\" fill=\"{fill}\" \
             stroke=\"#57606a\"><title>{} {}{}</title></rect>",
            nth + 1,
            escaped(drawn.names[nth]),
            escaped(&why)
        );
        let room = ((width - 4.0) / LETTER) as usize;
        if room >= 2 {
            let label: String = format!("{} {name}", nth + 1).chars().take(room).collect();
            let _ = writeln!(
                text,
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\">{}</text>",
                x + 3.0,
                y + 15.0,
                escaped(&label)
            );
        }
    }
}

/// The height of a launch's middle.
fn middle(top: f64, at: Placed) -> f64 {
    top + at.lane as f64 * LANE + BOX / 2.0
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
