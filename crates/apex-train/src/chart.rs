//! Draws curves and clouds as SVG, by hand: a picture that any browser shows and any diff can read.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 50.0;
const TOP: f64 = 36.0;
const RIGHT: f64 = 20.0;
const COLOURS: [&str; 5] = ["#1f6feb", "#d29922", "#2da44e", "#cf222e", "#8250df"];

/// A named curve or cloud.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Curves over a plain horizontal axis, with a logarithmic vertical one.
#[must_use]
pub fn curves(title: &str, across: &str, up: &str, series: &[Series]) -> String {
    let frame = Frame::around(series, false);
    let mut picture = frame.open(title, across, up);
    for (nth, one) in series.iter().enumerate() {
        let points: Vec<String> = one
            .points
            .iter()
            .filter(|(_, y)| *y > 0.0)
            .map(|point| {
                let (x, y) = frame.place(*point);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let colour = COLOURS[nth % COLOURS.len()];
        let _ = writeln!(
            picture,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            points.join(" ")
        );
    }
    close(picture, series)
}

/// Predicted against measured: clouds on two logarithmic axes with the line where both are equal.
#[must_use]
pub fn cloud(title: &str, across: &str, up: &str, series: &[Series]) -> String {
    let frame = Frame::around(series, true);
    let mut picture = frame.open(title, across, up);
    let low = frame.low.0.max(frame.low.1);
    let high = frame.high.0.min(frame.high.1);
    for factor in [1.0, 1.1, 1.0 / 1.1] {
        let (x1, y1) = frame.place((low.exp2(), low.exp2() * factor));
        let (x2, y2) = frame.place((high.exp2(), high.exp2() * factor));
        let dash = if factor == 1.0 { "" } else { " stroke-dasharray=\"4 4\"" };
        let _ = writeln!(
            picture,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#888\"{dash}/>"
        );
    }
    for (nth, one) in series.iter().enumerate() {
        let colour = COLOURS[nth % COLOURS.len()];
        let _ = writeln!(picture, "<g fill=\"{colour}\" fill-opacity=\"0.5\">");
        for point in one.points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0) {
            let (x, y) = frame.place(*point);
            let _ = writeln!(picture, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\"/>");
        }
        picture.push_str("</g>\n");
    }
    close(picture, series)
}

struct Frame {
    log_across: bool,
    low: (f64, f64),
    high: (f64, f64),
}

impl Frame {
    fn around(series: &[Series], log_across: bool) -> Frame {
        let mut frame = Frame {
            log_across,
            low: (f64::INFINITY, f64::INFINITY),
            high: (f64::NEG_INFINITY, f64::NEG_INFINITY),
        };
        let usable = |(x, y): &&(f64, f64)| *y > 0.0 && (*x > 0.0 || !log_across);
        for point in series.iter().flat_map(|one| &one.points).filter(usable) {
            let (x, y) = frame.scaled(*point);
            frame.low = (frame.low.0.min(x), frame.low.1.min(y));
            frame.high = (frame.high.0.max(x), frame.high.1.max(y));
        }
        if !(frame.low.0.is_finite() && frame.low.1.is_finite()) {
            (frame.low, frame.high) = ((0.0, 0.0), (1.0, 1.0));
        }
        frame.high = (frame.high.0.max(frame.low.0 + 1e-6), frame.high.1.max(frame.low.1 + 1e-6));
        frame
    }

    fn scaled(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (if self.log_across { x.log2() } else { x }, y.log2())
    }

    fn place(&self, point: (f64, f64)) -> (f64, f64) {
        let (x, y) = self.scaled(point);
        let across = (x - self.low.0) / (self.high.0 - self.low.0);
        let up = (y - self.low.1) / (self.high.1 - self.low.1);
        (
            LEFT + across.clamp(-0.02, 1.02) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up.clamp(-0.02, 1.02) * (HEIGHT - BOTTOM - TOP),
        )
    }

    fn open(&self, title: &str, across: &str, up: &str) -> String {
        let mut picture = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
            escaped(title)
        );
        for step in 0..=4 {
            let share = f64::from(step) / 4.0;
            let x = LEFT + share * (WIDTH - LEFT - RIGHT);
            let y = HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP);
            let value_x = self.low.0 + share * (self.high.0 - self.low.0);
            let value_x = if self.log_across { value_x.exp2() } else { value_x };
            let value_y = (self.low.1 + share * (self.high.1 - self.low.1)).exp2();
            let _ = writeln!(
                picture,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                short(value_y),
                HEIGHT - BOTTOM + 16.0,
                short(value_x)
            );
        }
        let _ = writeln!(
            picture,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text x=\"14\" y=\"{:.1}\" transform=\"rotate(-90 14 {:.1})\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH) / 2.0,
            HEIGHT - 14.0,
            escaped(across),
            HEIGHT / 2.0,
            HEIGHT / 2.0,
            escaped(up)
        );
        picture
    }
}

fn close(mut picture: String, series: &[Series]) -> String {
    for (nth, one) in series.iter().enumerate() {
        let (y, colour) = (TOP + 14.0 * nth as f64, COLOURS[nth % COLOURS.len()]);
        let _ = writeln!(
            picture,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{colour}\">{}</text>",
            WIDTH - RIGHT - 6.0,
            y + 8.0,
            escaped(&one.name)
        );
    }
    picture.push_str("</svg>\n");
    picture
}

fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 1e6 => format!("{:.3}M", value / 1e6),
        large if large >= 1e4 => format!("{:.1}k", value / 1e3),
        large if large >= 10.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_hold_their_points_and_no_nonsense() {
        let series = [
            Series { name: "a <b>".into(), points: vec![(1.0, 10.0), (2.0, 5.0), (3.0, 0.0)] },
            Series { name: "none".into(), points: vec![] },
        ];
        for picture in [curves("t", "x", "y", &series), cloud("t", "x", "y", &series)] {
            assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
            assert!(picture.contains("a &lt;b&gt;") && !picture.contains("NaN"));
        }
        assert_eq!(cloud("t", "x", "y", &series).matches("<circle").count(), 2);
        assert!(!curves("t", "x", "y", &[]).contains("inf"));
    }
}
