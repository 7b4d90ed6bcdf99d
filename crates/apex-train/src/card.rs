//! The data card of a file of rows: what was measured, on what, when and how, so that nobody must guess later.

use crate::Error;
use crate::rows::{COLUMNS, Row};
use apex_policy::predict::features::{FNV_START, fnv};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes the card beside the rows and gives its place.
pub fn write(path: &Path, rows: &[Row]) -> Result<PathBuf, Error> {
    let bytes = fs::read(path).map_err(Error::read(path))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let card = path.with_extension("md");
    fs::write(&card, text(&name, &bytes, rows)).map_err(Error::write(&card))?;
    Ok(card)
}

fn text(name: &str, bytes: &[u8], rows: &[Row]) -> String {
    let mut card = format!("# {name}\n\n");
    let hash = fnv(FNV_START, bytes);
    let _ = writeln!(card, "{} rows, {} bytes, FNV-1a {hash:016x}.\n", rows.len(), bytes.len());
    let mut devices: BTreeMap<(&str, u32), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        devices.entry((&row.device, row.driver)).or_default().push(row);
    }
    for ((device, driver), rows) in devices {
        let days = range(rows.iter().map(|row| row.unix_seconds / 86_400 * 86_400));
        let day = |seconds: u64| date(seconds / 86_400);
        let _ = writeln!(
            card,
            "- {device}, driver {}.{}: {} rows of {} kernels, measured {} to {}; SM clock {} MHz, memory clock {} \
             MHz, {} °C; {} rows with counters.",
            driver / 1000,
            driver % 1000 / 10,
            rows.len(),
            distinct(rows.iter().map(|row| row.kernel.as_str())),
            day(days.0),
            day(days.1),
            words(range(rows.iter().map(|row| u64::from(row.sm_mhz)))),
            words(range(rows.iter().map(|row| u64::from(row.memory_mhz)))),
            words(range(rows.iter().map(|row| u64::from(row.celsius)))),
            rows.iter().filter(|row| row.sm_throughput.is_some()).count(),
        );
    }
    let runs = range(rows.iter().map(|row| u64::from(row.runs)));
    let _ = write!(
        card,
        "\n`apex train collect` measures kernels of apex's own zoo: each time is the median of {} runs between events, \
         launches back to back and the caches as the launch before left them, clocks not locked; `repeat_ns` is the \
         same launch measured again. Counters are ncu's with `--clock-control none --cache-control none`. Operations \
         and bytes are counted exactly from each configuration; `apex train collect --from` makes rows of sessions, \
         which have neither, and arguments and code where launches were looked at closely.\n\nColumns: {}.\n",
        words(runs),
        COLUMNS.join(", ")
    );
    card
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.collect::<std::collections::BTreeSet<_>>().len()
}

fn range(values: impl Iterator<Item = u64>) -> (u64, u64) {
    values.fold((u64::MAX, 0), |(low, high), value| (low.min(value), high.max(value)))
}

fn words((low, high): (u64, u64)) -> String {
    if low >= high { high.to_string() } else { format!("{low} to {high}") }
}

/// A day since 1970 as year, month and day.
fn date(days: u64) -> String {
    // Years begin in March here, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_says_device_driver_and_date() {
        let row = Row {
            device: "D".into(),
            driver: 13_000,
            unix_seconds: 1_794_711_845,
            runs: 20,
            sm_mhz: 1_980,
            ..Row::default()
        };
        let text = text("rows.parquet", b"x", &[row]);
        for wanted in ["D, driver 13.0", "2026-11-15", "1980", "median of 20 runs", "median_ns"] {
            assert!(text.contains(wanted), "{wanted} is not in {text}");
        }
    }
}
