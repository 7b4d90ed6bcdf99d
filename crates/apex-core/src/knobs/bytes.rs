//! Sizes as people write them: `4294967296`, `4G`, `4GiB`, `500MB`.
//!
//! K, M, G and T count in powers of 1,024, as in `ulimit`, `docker` and `dd`; only a B behind them without an i makes
//! them powers of 1,000.

use super::Value;
use std::fmt;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const UNITS: [&str; 4] = ["k", "m", "g", "t"];

impl Value for Bytes {
    fn parse(text: &str) -> Result<Bytes, &'static str> {
        const WANTED: &str = "a number of bytes, such as 4G, 512M or 65536";
        let text = text.trim();
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| WANTED)?;
        let unit = unit.trim().to_ascii_lowercase();
        let (word, base) = match unit.strip_suffix("ib").or(unit.strip_suffix('b')) {
            None => (unit.as_str(), 1024_u64),
            Some(word) if unit.ends_with("ib") => (word, 1024),
            Some(word) => (word, 1000),
        };
        let power = match word {
            "" if !unit.ends_with("ib") => 0,
            _ => 1 + (0..).zip(UNITS).find(|(_, known)| *known == word).ok_or(WANTED)?.0,
        };
        base.checked_pow(power).and_then(|unit| number.checked_mul(unit)).map(Bytes).ok_or(WANTED)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |power: &u32| self.0 > 0 && self.0.is_multiple_of(1 << (10 * power));
        match (1..=4_u32).rev().find(whole) {
            Some(power) => {
                let unit = UNITS[power as usize - 1].to_ascii_uppercase();
                write!(out, "{}{unit}iB", self.0 >> (10 * power))
            }
            None => write!(out, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65_536),
            ("64KiB", 65_536),
            ("64 k", 65_536),
            ("512M", 512 << 20),
            ("4G", 4 << 30),
            ("4gib", 4 << 30),
            ("2T", 2 << 40),
            ("500MB", 500_000_000),
            ("7b", 7),
        ] {
            assert_eq!(Bytes::parse(text), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "G", "4X", "-1", "1.5G", "4GiBs", "4iB", "99999999999T"] {
            assert!(Bytes::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_is_shown_so_that_it_can_be_read_again() {
        for (bytes, shown) in [(0, "0"), (1000, "1000"), (65_536, "64KiB"), (4 << 30, "4GiB")] {
            assert_eq!(Bytes(bytes).to_string(), shown);
            assert_eq!(Bytes::parse(shown), Ok(Bytes(bytes)));
        }
    }
}
