//! What was measured, as a small text file that a person can read and a program can merge.
//!
//! ```text
//! # element, transposes of A and B, m n k, batch, then microseconds by kernel
//! device NVIDIA H200
//! bf16 nn 4096 4096 4096 1 wgmma=231.5 cublaslt=229.0
//! ```
//!
//! A line that is not understood is left out: a table can only be less helpful, never wrong. The table of this
//! machine lies in the kernels' cache, by device and driver; before one was measured, the one kept here from an
//! H200 serves devices of the same compute capability.

use super::matmul_kernel::MatmulKernel;
use super::request::Question;
use crate::device::DeviceFacts;
use apex_core::small_file::{MADE, read_text};
use core::fmt::Write as _;
use std::path::PathBuf;

/// Measured on an H200.
const KEPT: &str = include_str!("h200.txt");

/// Times of the kernels at some shapes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) device: String,
    pub(crate) rows: Vec<Row>,
}

/// Times of the kernels at one shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) element: String,
    pub(crate) layout: String,
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) batch: u32,
    pub(crate) micros: Vec<(MatmulKernel, f64)>,
}

/// What another layout of the same shape is away: its times are near, not equal.
const OTHER_LAYOUT: f64 = 0.5;

impl Table {
    /// The table of a device: this machine's where there is one, else the kept one where it fits.
    pub(crate) fn of(facts: &DeviceFacts) -> Table {
        let own = path(facts).and_then(|path| read_text(&path, MADE).ok());
        match own {
            Some(text) => Table::parse(&text),
            None if facts.compute_capability == (9, 0) && !facts.is_software => Table::parse(KEPT),
            None => Table::default(),
        }
    }

    pub(crate) fn parse(text: &str) -> Table {
        let mut table = Table::default();
        for line in text.lines().map(str::trim) {
            if let Some(device) = line.strip_prefix("device ") {
                table.device = device.into();
            } else if let Some(row) = Row::parse(line) {
                table.rows.push(row);
            }
        }
        table
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::from(
            "# element, transposes of A and B, m n k, batch, then microseconds by kernel\n",
        );
        let _ = writeln!(text, "device {}", self.device);
        for row in &self.rows {
            let Row { element, layout, m, n, k, batch, micros } = row;
            let _ = write!(text, "{element} {layout} {m} {n} {k} {batch}");
            for (kernel, micros) in micros {
                let _ = write!(text, " {}={micros:.3}", kernel.name());
            }
            text.push('\n');
        }
        text
    }

    /// Puts a row in, for an older one of the same shape.
    pub(crate) fn put(&mut self, row: Row) {
        let shape =
            |row: &Row| (row.element.clone(), row.layout.clone(), row.m, row.n, row.k, row.batch);
        self.rows.retain(|other| shape(other) != shape(&row));
        self.rows.push(row);
    }

    /// Writes the table of this machine; whole, by renaming.
    pub(crate) fn save(&self, facts: &DeviceFacts) -> Option<PathBuf> {
        let path = path(facts)?;
        std::fs::create_dir_all(path.parent()?).ok()?;
        let part = path.with_extension(format!("{}.part", std::process::id()));
        std::fs::write(&part, self.text()).ok()?;
        std::fs::rename(&part, &path).ok()?;
        Some(path)
    }

    /// The row nearest to a product that has a time of a possible kernel, and how far it is.
    pub(crate) fn nearest(
        &self,
        question: &Question,
        possible: &dyn Fn(MatmulKernel) -> bool,
    ) -> Option<(&Row, f64)> {
        self.rows
            .iter()
            .filter(|row| row.element == question.element)
            .filter(|row| row.micros.iter().any(|(kernel, _)| possible(*kernel)))
            .map(|row| (row, row.distance(question)))
            .min_by(|left, right| left.1.total_cmp(&right.1))
    }
}

impl Row {
    fn parse(line: &str) -> Option<Row> {
        let mut words = line.split_whitespace();
        let element = words.next().filter(|word| matches!(*word, "f32" | "f16" | "bf16"))?;
        let layout = words.next().filter(|word| matches!(*word, "nn" | "nt" | "tn" | "tt"))?;
        let mut side = || words.next()?.parse::<u32>().ok().filter(|side| *side > 0);
        let (m, n, k, batch) = (side()?, side()?, side()?, side()?);
        let time = |word: &str| {
            let (name, micros) = word.split_once('=')?;
            let micros = micros.parse::<f64>().ok().filter(|micros| *micros > 0.0)?;
            Some((MatmulKernel::from_name(name)?, micros))
        };
        let micros: Vec<(MatmulKernel, f64)> = words.filter_map(time).collect();
        (!micros.is_empty()).then(|| Row {
            element: element.into(),
            layout: layout.into(),
            m,
            n,
            k,
            batch,
            micros,
        })
    }

    fn distance(&self, question: &Question) -> f64 {
        let apart = |here: u32, there: u32| {
            (f64::from(here.max(1)).ln() - f64::from(there.max(1)).ln()).powi(2)
        };
        let sides = apart(self.m, question.m)
            + apart(self.n, question.n)
            + apart(self.k, question.k)
            + apart(self.batch, question.batch);
        sides.sqrt() + if self.layout == question.layout() { 0.0 } else { OTHER_LAYOUT }
    }
}

/// Where the table of a device lies.
fn path(facts: &DeviceFacts) -> Option<PathBuf> {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let device: String = facts.name.to_lowercase().chars().map(letter).collect();
    let name = format!("matmul-{device}-{}.txt", facts.driver_version);
    Some(crate::cache::folder()?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_what_it_wrote() {
        let text = "device X 1\nbf16 nn 64 32 16 2 wgmma=1.500 cublaslt=2.000\n\
                    f32 tt 1 2 3 1 small_f32=4.000\n";
        let table = Table::parse(text);
        assert_eq!(table.rows.len(), 2);
        assert_eq!(Table::parse(&table.text()), table);
    }

    #[test]
    fn lines_that_are_not_understood_are_left_out() {
        let table = Table::parse(
            "nonsense\nbf16 nn 64 32\nbf16 xx 1 1 1 1 mma=1\nbf16 nn 1 1 1 1 mma=-1\n\
             bf16 nn 0 1 1 1 mma=1\nbf16 nn 1 1 1 1 unknown=1\nbf16 nn 1 1 1 1 mma=1 unknown=3\n\u{1F980}",
        );
        assert_eq!(table.rows.len(), 1);
    }

    #[test]
    fn the_kept_table_is_understood() {
        let rows =
            KEPT.lines().filter(|line| !line.starts_with('#') && !line.starts_with("device "));
        assert_eq!(Table::parse(KEPT).rows.len(), rows.filter(|line| !line.is_empty()).count());
    }

    #[test]
    fn a_new_row_replaces_the_old_one() {
        let mut table = Table::parse("bf16 nn 1 1 1 1 mma=1\nbf16 nn 2 1 1 1 mma=1\n");
        table.put(Row::parse("bf16 nn 1 1 1 1 mma=7").unwrap());
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[1].micros, [(MatmulKernel::Mma, 7.0)]);
    }
}
