//! Times a prepared point by events, so that neither the host nor the events' own resolution shows.
//!
//! A run is an event, some launches back to back, an event; its time is that between the events by the number
//! of launches. There are as many launches in a run as fill [`RUN_NANOS`], one where a launch is longer. Before
//! each run the device is held back until all of it is queued, so the host's pace is not measured. What is
//! between two launches of one stream (about a microsecond on an H200) belongs to the time: nothing is
//! subtracted. Cold runs have one launch each, after the second-level cache was filled with something else.

use super::clocks::Clocks;
use super::ground::Ground;
use super::prepared::Prepared;
use crate::Result;

/// How long a run should be: the events' resolution of half a microsecond is then below one per cent.
const RUN_NANOS: f64 = 60_000.0;
/// The most launches of a run.
const MOST_LAUNCHES: u32 = 32;
/// How long the host takes to queue a launch, and what surrounds the launches, generously.
const QUEUE_NANOS: u64 = 5_000;
const AROUND_NANOS: u64 = 25_000;
/// Runs that are not counted.
const WARM_UP: u32 = 2;

/// How long launches of one point take.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// # let ground = apex_exec::zoo::Ground::new(&executor)?;
/// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "tiny").collect();
/// # let scale = apex_exec::zoo::Scale::Small;
/// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
/// let timing = ground.prepare(&point)?.time(20)?;
/// assert!(timing.lower_quartile_ns <= timing.median_ns);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Half of the runs were shorter.
    pub median_ns: f64,
    /// A quarter of the runs were shorter.
    pub lower_quartile_ns: f64,
    /// A quarter of the runs were longer.
    pub upper_quartile_ns: f64,
    /// Runs counted.
    pub runs: u32,
    /// Launches of each run.
    pub launches_per_run: u32,
    /// Whether each run found its data outside of the caches.
    pub cold: bool,
    /// The device's clocks after the last run, where they can be read.
    pub clocks: Option<Clocks>,
}

impl Timing {
    /// The distance between the quartiles as a share of the median.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "tiny").collect();
    /// # let scale = apex_exec::zoo::Scale::Small;
    /// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
    /// assert!(ground.prepare(&point)?.time(20)?.spread() >= 0.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn spread(&self) -> f64 {
        (self.upper_quartile_ns - self.lower_quartile_ns) / self.median_ns
    }
}

pub(crate) fn measure(
    ground: &Ground,
    prepared: &mut Prepared<'_>,
    runs: u32,
    cold: bool,
) -> Result<Timing> {
    let mut run = |launches: u32| -> Result<f64> {
        if cold {
            ground.empty_cache()?;
        }
        ground.hold(AROUND_NANOS + QUEUE_NANOS * u64::from(launches))?;
        let stream = ground.executor().stream();
        let before = stream.record()?;
        for _ in 0..launches {
            prepared.launch()?;
        }
        let after = stream.record()?;
        Ok(after.seconds_since(&before)? * 1e9 / f64::from(launches))
    };
    // The first launch may compile and is not looked at.
    run(1)?;
    let once = run(1)?;
    let alone = cold || ground.executor().facts().is_software;
    let launches = match once {
        _ if alone => 1,
        nanos => ((RUN_NANOS / nanos.max(1.0)).ceil() as u32).clamp(1, MOST_LAUNCHES),
    };
    for _ in 0..WARM_UP {
        run(launches)?;
    }
    let mut times = Vec::with_capacity(runs as usize);
    for _ in 0..runs.max(1) {
        times.push(run(launches)?);
    }
    let clocks = ground.clocks().and_then(|reader| reader.read());
    times.sort_by(f64::total_cmp);
    Ok(Timing {
        median_ns: quantile(&times, 0.5),
        lower_quartile_ns: quantile(&times, 0.25),
        upper_quartile_ns: quantile(&times, 0.75),
        runs: times.len() as u32,
        launches_per_run: launches,
        cold,
        clocks,
    })
}

/// A quantile of sorted numbers, between the two nearest.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_lie_between_their_neighbours() {
        let sorted = [1.0, 2.0, 3.0, 10.0];
        assert_eq!(quantile(&sorted, 0.5), 2.5);
        assert_eq!(quantile(&sorted, 0.25), 1.75);
        assert_eq!(quantile(&sorted, 1.0), 10.0);
        assert_eq!(quantile(&[7.0], 0.75), 7.0);
    }
}
