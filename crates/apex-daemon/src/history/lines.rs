//! A history as lines of JSON, one kernel each: to take from one machine to another, or to read.

use super::Past;
use std::io::{self, BufRead, Write};

/// Writes every past as a line.
pub fn write_lines(pasts: impl Iterator<Item = Past>, to: &mut impl Write) -> io::Result<usize> {
    let mut count = 0;
    for past in pasts {
        serde_json::to_writer(&mut *to, &past)?;
        to.write_all(b"\n")?;
        count += 1;
    }
    Ok(count)
}

/// Reads lines; says which cannot be read, and why.
pub fn read_lines(from: impl BufRead) -> (Vec<Past>, Vec<String>) {
    let (mut pasts, mut complaints) = (Vec::new(), Vec::new());
    for (nth, line) in from.lines().enumerate() {
        let read = line.map_err(|error| error.to_string());
        let read = read.and_then(|line| match line.trim().is_empty() {
            true => Ok(None),
            false => checked(&line).map(Some),
        });
        match read {
            Ok(past) => pasts.extend(past),
            Err(why) => complaints.push(format!("line {}: {why}", nth + 1)),
        }
    }
    (pasts, complaints)
}

fn checked(line: &str) -> Result<Past, String> {
    let past: Past = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let is_time = |number: f32| number.is_finite() && number > 0.0;
    if past.shapes.iter().any(|one| !is_time(one.nanos) || !is_time(one.half_width)) {
        return Err("a time must be above 0".into());
    }
    Ok(past)
}
