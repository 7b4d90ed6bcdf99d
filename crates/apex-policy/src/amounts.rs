//! Numbers as people read them, each with its unit.

/// A count, its thousands set apart.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with the word for one of them, or for several.
#[must_use]
pub fn counted(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { several })
}

/// A length of time.
#[must_use]
pub fn nanos(nanos: f64) -> String {
    match nanos {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{} µs", three(n / 1e3)),
        n if n < 1e9 => format!("{} ms", three(n / 1e6)),
        n => format!("{} s", three(n / 1e9)),
    }
}

/// A number of bytes, in powers of 1024.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut amount = bytes as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < units.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{} {}", three(amount), units[unit]) }
}

/// A share as per cent: whole ones, and one more digit where it is small.
#[must_use]
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        p if p < 0.1 => "<0.1 %".into(),
        p if p < 9.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// About three digits.
fn three(number: f64) -> String {
    match number {
        n if n < 9.995 => format!("{n:.2}"),
        n if n < 99.95 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits_and_a_unit() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "copy", "copies"), "1 copy");
        assert_eq!(counted(0, "copy", "copies"), "0 copies");
        assert_eq!(counted(1_200, "copy", "copies"), "1,200 copies");
        assert_eq!(nanos(999.0), "999 ns");
        assert_eq!(nanos(4_100.0), "4.10 µs");
        assert_eq!(nanos(12_345_678.0), "12.3 ms");
        assert_eq!(nanos(3.2e11), "320 s");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(3 << 30), "3.00 GiB");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.000_2), "<0.1 %");
        assert_eq!(percent(0.083), "8.3 %");
        assert_eq!(percent(0.414), "41 %");
    }
}
