//! The plane of what the requests lose and what the training keeps, as SVG by hand.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
const COLOURS: [&str; 6] = ["#1f6feb", "#d29922", "#2da44e", "#cf222e", "#8250df", "#57606a"];

/// One system of one pair.
pub(super) struct Point {
    pub(super) pair: String,
    pub(super) system: String,
    /// Training over that alone.
    pub(super) training: f64,
    /// P95 over that alone.
    pub(super) p95: f64,
}

/// Draws the points; P95 upwards on a logarithmic axis, so the good corner is the lower right one.
pub(super) fn plane(title: &str, points: &[Point]) -> String {
    let points: Vec<&Point> = points
        .iter()
        .filter(|it| it.p95.is_finite() && it.p95 > 0.0 && it.training.is_finite())
        .collect();
    let most = points.iter().map(|it| it.p95).fold(2.0, f64::max) * 1.3;
    let across = |training: f64| LEFT + training.clamp(0.0, 1.1) / 1.1 * (WIDTH - LEFT - RIGHT);
    let up = |p95: f64| {
        let part = (p95 / 0.9).ln() / (most / 0.9).ln();
        HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    };
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    for tick in 0..=5 {
        let part = f64::from(tick) / 5.0;
        let x = across(part);
        let _ = writeln!(
            picture,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{part:.1}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 18.0
        );
    }
    for factor in [1.0, 1.25, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0] {
        if factor <= most {
            let y = up(factor);
            let _ = writeln!(
                picture,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{factor}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0
            );
        }
    }
    let _ = writeln!(
        picture,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">training / alone</text>\
         <text transform=\"translate(24 {:.1}) rotate(-90)\" text-anchor=\"middle\">P95 of responses / alone</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 18.0,
        (TOP + HEIGHT - BOTTOM) / 2.0
    );
    let mut pairs: Vec<&str> = Vec::new();
    for point in &points {
        if !pairs.contains(&point.pair.as_str()) {
            pairs.push(&point.pair);
        }
        let nth = pairs.iter().position(|pair| *pair == point.pair).unwrap_or(0);
        let (x, y) = (across(point.training), up(point.p95));
        let colour = COLOURS[nth % COLOURS.len()];
        let _ = writeln!(
            picture,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 8.0,
            y + 4.0,
            escaped(&point.system)
        );
    }
    for (nth, pair) in pairs.iter().enumerate() {
        let y = TOP + 16.0 * nth as f64;
        let _ = writeln!(
            picture,
            "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\" fill=\"{}\">{}</text>",
            WIDTH - RIGHT,
            COLOURS[nth % COLOURS.len()],
            escaped(pair)
        );
    }
    picture + "</svg>\n"
}

const COLUMNS: usize = 66;
const LINES: usize = 14;

/// The same plane in letters: a letter for each point, named below.
pub(super) fn letters(points: &[Point]) -> String {
    let points: Vec<&Point> = points
        .iter()
        .filter(|it| it.p95.is_finite() && it.p95 > 0.0 && it.training.is_finite())
        .collect();
    let most = points.iter().map(|it| it.p95).fold(2.0, f64::max);
    let mut lines = vec![vec![' '; COLUMNS + 1]; LINES + 1];
    let mut names = String::new();
    for (nth, point) in points.iter().enumerate() {
        let letter = char::from(b'a' + (nth % 26) as u8);
        let across = point.training.clamp(0.0, 1.1) / 1.1 * COLUMNS as f64;
        let up = ((point.p95 / 0.9).ln() / (most / 0.9).ln()).clamp(0.0, 1.0) * LINES as f64;
        lines[LINES - up as usize][across as usize] = letter;
        let _ = writeln!(names, "  {letter} {} {}", point.pair, point.system);
    }
    let mut text = format!("P95 / alone, 0.9 to {most:.1} upwards (logarithmic)\n");
    for line in lines {
        let _ = writeln!(text, "|{}", line.into_iter().collect::<String>().trim_end());
    }
    let _ = writeln!(text, "+{}\n training / alone, 0 to 1.1", "-".repeat(COLUMNS));
    text + &names
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_point_is_drawn() {
        let point = |system: &str, training, p95| Point {
            pair: "a & b".into(),
            system: system.into(),
            training,
            p95,
        };
        let picture =
            plane("t", &[point("x", 0.5, 1.2), point("y", 0.9, 170.0), point("z", 0.1, f64::NAN)]);
        assert_eq!(picture.matches("<circle").count(), 2);
        let text = letters(&[point("x", 0.5, 1.2), point("z", 0.1, f64::NAN)]);
        assert!(text.contains("a a & b x") && !text.contains(" z\n"));
        assert!(picture.contains("a &amp; b") && picture.ends_with("</svg>\n"));
    }
}
