//! How busy the multiprocessors are while a turn runs, as `nvidia-smi` reads it from NVML's GPM once a second.

use std::io::Read;
use std::process::{Child, Command, Stdio};

/// NVML's number for the share of time in which a multiprocessor has work.
const SM_UTILISATION: &str = "2";

/// A reader of the device's counters, stopped when dropped.
pub(super) struct Utilisation {
    reader: Child,
}

impl Utilisation {
    /// Begins to read, for a turn of so many seconds; none where there is no `nvidia-smi`.
    pub(super) fn watch(seconds: f64) -> Option<Utilisation> {
        // It ends by itself, within the turn: what it has not yet written when it is killed would be lost.
        let readings = (seconds as u64).max(2).to_string();
        let reader = Command::new("nvidia-smi")
            .args(["dmon", "-i", "0", "-d", "1", "-c", &readings, "--gpm-metrics", SM_UTILISATION])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(Utilisation { reader })
    }

    /// The mean of what was read; none where the device or its driver counts nothing.
    pub(super) fn mean_percent(mut self) -> Option<f64> {
        let mut text = String::new();
        self.reader.stdout.take()?.read_to_string(&mut text).ok()?;
        let _ = self.reader.wait();
        mean(&text)
    }
}

impl Drop for Utilisation {
    fn drop(&mut self) {
        let _ = self.reader.kill();
        let _ = self.reader.wait();
    }
}

/// The mean of the last column, which the metric that was asked for stands in. The first reading spans the time
/// before the turn, and what is no share of anything was misread: counters of a device that was just handed over have
/// been seen to say millions of percent.
fn mean(text: &str) -> Option<f64> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let values = lines.filter_map(|line| line.split_whitespace().last()?.parse::<f64>().ok());
    let values: Vec<f64> = values.skip(1).filter(|value| (0.0..=100.0).contains(value)).collect();
    super::mean_of(&values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_is_read_without_its_first_line() {
        let text = "# gpu   pwr  smutl\n# Idx     W  GPM:%\n    0   110    5\n    0   500   80\n    0   510   90\n";
        assert_eq!(mean(text), Some(85.0));
        assert_eq!(mean("    0   5\n    0   80\n    0   453080940\n"), Some(80.0));
        assert_eq!(mean("# gpu\n    0   -\n    0   -\n"), None);
    }
}
