//! Makes programs for the simulator: of a recorded session, or of a few numbers in a JSON file.
//!
//! Of a session its busiest process is taken, and of that the second half of its launches: the first holds
//! loading and warming up. The steps are its calls in the order of their times, with the time that it spent
//! elsewhere between them. A program far ahead of the GPU waits inside a launch until there is room again, and where
//! the end of that call was not recorded it looks like its own time: so no more counts than twice what it usually
//! took from that kernel to the next. A launch takes as long as launches of its kernel and shape took in the middle, and
//! where none was timed as long as the others of the session. A program whose waits are followed by pauses of its
//! own is taken for one that answers requests, each from a wait to the next; the others start over at their end.

use crate::Error;
use crate::progress::Progress;
use crate::read::{Stored, document};
use crate::row::Row;
use crate::summarise::fit::fit;
use apex_core::event::{Direction, LaunchShape, What};
use apex_policy::schedule::simulate::{Kernel, Program, Random, Step, Synthetic};
use apex_policy::schedule::{Bottleneck, Class};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;

/// A pause after a wait that is longer than this ends a request.
const PAUSE_NS: u64 = 50_000;
/// Requests that a program must have had to count as one that answers them.
const LEAST_REQUESTS: usize = 8;
/// Time of a launch where nothing at all was timed.
const UNKNOWN_NS: u64 = 20_000;

/// The programs described in a JSON file: one object or a list.
pub fn described(path: &Path, length_ns: u64, seed: u64) -> Result<Vec<Program>, Error> {
    let descriptions = match document::<Descriptions>(path)? {
        Descriptions::One(one) => vec![*one],
        Descriptions::Many(many) => many,
    };
    let mut random = Random::new(seed);
    let wrong = |sentence: String| Error::Damaged(path.to_owned(), sentence);
    descriptions
        .into_iter()
        .map(|description| description.program(length_ns, &mut random).map_err(wrong))
        .collect()
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Descriptions {
    One(Box<Description>),
    Many(Vec<Description>),
}

/// A program in a few numbers, as it is written down.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    class: String,
    /// Kernels of one request or round.
    kernels: u32,
    kernel_us: f64,
    #[serde(default)]
    block_us: Option<f64>,
    #[serde(default = "all_sms")]
    sms: u32,
    #[serde(default)]
    bottleneck: Option<String>,
    #[serde(default)]
    host_us: f64,
    #[serde(default)]
    host_spread: f64,
    #[serde(default)]
    graph: bool,
    #[serde(default)]
    waits: Option<bool>,
    #[serde(default)]
    requests_per_second: f64,
    #[serde(default = "one")]
    share: f32,
    #[serde(default)]
    sla: Option<String>,
}

fn all_sms() -> u32 {
    132
}

fn one() -> f32 {
    1.0
}

impl Description {
    fn program(self, length_ns: u64, random: &mut Random) -> Result<Program, String> {
        let nanos = |micros: f64, what: &str| match micros {
            _ if (0.0..=1e9).contains(&micros) => Ok((micros * 1e3) as u64),
            _ => Err(format!("{what} of {} is no time in microseconds", self.name)),
        };
        let bottleneck = match self.bottleneck.as_deref() {
            None | Some("unknown") => Bottleneck::Unknown,
            Some("compute") => Bottleneck::Compute,
            Some("memory") => Bottleneck::Memory,
            Some(other) => return Err(format!("`{other}` is neither compute nor memory")),
        };
        if !(0.0..=1e6).contains(&self.requests_per_second) || self.kernels > 1 << 20 {
            return Err(format!("{} has too many requests or kernels", self.name));
        }
        let kernel_ns = nanos(self.kernel_us, "kernel_us")?.max(100);
        let numbers = Synthetic {
            class: self.class.parse()?,
            kernels: self.kernels,
            kernel_ns,
            block_ns: self.block_us.map_or(Ok(kernel_ns), |micros| nanos(micros, "block_us"))?,
            sms: self.sms,
            bottleneck,
            host_ns: nanos(self.host_us, "host_us")?,
            host_spread: self.host_spread.clamp(0.0, 1.0),
            graph: self.graph,
            waits: self.waits.unwrap_or(self.requests_per_second > 0.0),
            requests_per_second: self.requests_per_second,
            name: self.name,
        };
        let sla = self.sla.map(|text| text.parse()).transpose()?;
        Ok(Program { share: self.share, sla, ..numbers.program(length_ns, random) })
    }
}

/// The program of a recorded session, with the class it is given or the one it looks like.
pub fn recorded(
    stored: &mut Stored,
    class: Option<Class>,
    progress: &mut Progress,
) -> Result<Program, Error> {
    let mut rows: Vec<Row> = Vec::new();
    stored.rows(progress, |row, _| {
        if row.succeeded() && is_step(&row.what) {
            rows.push(row);
        }
    });
    rows.sort_by_key(|row| row.time_ns);
    let kernels = Kernels::of(stored, &rows);
    let process = busiest(&rows);
    rows.retain(|row| Some(row.process) == process && !matches!(row.what, What::GpuTime { .. }));
    let launches = rows.iter().filter(|row| is_launch(&row.what)).count();
    if launches == 0 {
        let why = "no kernel was launched in it".to_owned();
        return Err(Error::Damaged(stored.directory.clone(), why));
    }
    let mut seen = 0;
    let steady: Vec<Row> = rows
        .into_iter()
        .skip_while(|row| {
            seen += usize::from(is_launch(&row.what));
            seen <= launches / 2
        })
        .collect();
    let paces = Paces::of(&steady);
    let requests = requests(&steady, &kernels, &paces);
    let answers = requests.len() >= LEAST_REQUESTS;
    let class = class.unwrap_or(if answers { Class::Latency } else { Class::Batch });
    let start_ns = requests.first().map_or(0, |request| request.0);
    let answers = answers && class != Class::Batch;
    let arrivals = requests.iter().map(|request| request.0 - start_ns).collect();
    Ok(Program {
        name: stored.record.command.first().map_or_else(|| "program".into(), short),
        class,
        share: 1.0,
        sla: None,
        arrivals: answers.then_some(arrivals),
        passes: if answers {
            requests.into_iter().map(|request| request.1).collect()
        } else {
            vec![steps(&steady, &kernels, &paces)]
        },
    })
}

/// Times and shapes of a session's kernels.
struct Kernels {
    middle_ns: HashMap<(u32, u32, LaunchShape), u64>,
    fits: HashMap<(u32, u32, LaunchShape), Kernel>,
    usual_ns: u64,
    sms: u32,
}

impl Kernels {
    fn of(stored: &mut Stored, rows: &[Row]) -> Kernels {
        let known = stored.known();
        let mut times: HashMap<(u32, u32, LaunchShape), Vec<u64>> = HashMap::new();
        for row in rows {
            if let What::GpuTime { kernel, shape, nanos, .. } = row.what {
                times.entry((row.process, kernel.0, shape)).or_default().push(nanos);
            }
        }
        let middle = |mut values: Vec<u64>| {
            values.sort_unstable();
            values.get(values.len() / 2).copied()
        };
        let usual_ns = middle(times.values().flatten().copied().collect()).unwrap_or(UNKNOWN_NS);
        let middle_ns: HashMap<_, _> =
            times.into_iter().filter_map(|(key, values)| Some((key, middle(values)?))).collect();
        let mut kernels = Kernels { middle_ns, fits: HashMap::new(), usual_ns, sms: 132 };
        for row in rows {
            let What::Launch(launch) = row.what else { continue };
            let key = (row.process, launch.kernel.0, launch.shape);
            if kernels.fits.contains_key(&key) {
                continue;
            }
            let device = known.device(row.process, row.device);
            kernels.sms = device.and_then(|it| u32::try_from(it.sms).ok()).unwrap_or(kernels.sms);
            let kernel = known.kernel(row.process, launch.kernel.0);
            let nanos = kernels.middle_ns.get(&key).copied().unwrap_or(kernels.usual_ns);
            let fit = device.zip(kernel).and_then(|(device, it)| fit(device, it, &launch.shape));
            let waves = fit.map_or(1.0, |fit| fit.waves);
            kernels.fits.insert(key, shaped(nanos, waves, kernels.sms));
        }
        kernels
    }

    fn kernels(&self, row: &Row) -> Vec<Kernel> {
        match row.what {
            What::Launch(launch) => {
                let key = (row.process, launch.kernel.0, launch.shape);
                self.fits.get(&key).copied().into_iter().collect()
            }
            // A graph is timed as one, under no kernel's number.
            What::GraphLaunch { kernels, .. } => {
                let graphs = self.middle_ns.iter().filter(|(key, _)| key.0 == row.process);
                let whole = graphs.filter(|(key, _)| key.1 == 0).map(|(_, nanos)| *nanos).max();
                let count = kernels.clamp(1, 10_000);
                let each = whole.map_or(self.usual_ns, |whole| (whole / count).max(500));
                let kernel = shaped(each, 1.0, self.sms);
                vec![kernel; usize::try_from(count).unwrap_or(1)]
            }
            _ => Vec::new(),
        }
    }
}

fn shaped(nanos: u64, waves: f64, sms: u32) -> Kernel {
    let part = waves.clamp(1.0 / f64::from(sms.max(1)), 1.0);
    Kernel {
        nanos: nanos.max(1),
        block_ns: (nanos as f64 / waves.ceil().max(1.0)) as u64,
        sms: ((f64::from(sms) * part) as u32).max(1),
        // Its name would be a guess.
        bottleneck: Bottleneck::Unknown,
    }
}

/// The requests: when each began, and its steps.
fn requests(rows: &[Row], kernels: &Kernels, paces: &Paces) -> Vec<(u64, Vec<Step>)> {
    let mut requests = Vec::new();
    let mut from = 0;
    for at in 0..rows.len() {
        let waited = matches!(rows[at].what, What::Sync { .. });
        let pause = rows.get(at + 1).map(|next| next.time_ns.saturating_sub(rows[at].end_ns()));
        if waited && pause.is_none_or(|pause| pause > PAUSE_NS) {
            let request = &rows[from..=at];
            if request.iter().any(|row| is_launch(&row.what)) {
                requests.push((request[0].time_ns, steps(request, kernels, paces)));
            }
            from = at + 1;
        }
    }
    requests
}

/// How long the program takes from one kernel's launch to another's: the lower quartile.
struct Paces(HashMap<(u32, u32), u64>);

impl Paces {
    fn of(rows: &[Row]) -> Paces {
        let mut times: HashMap<(u32, u32), Vec<u64>> = HashMap::new();
        for pair in rows.windows(2) {
            if let Some(key) = Paces::key(&pair[0], &pair[1]) {
                times.entry(key).or_default().push(between(&pair[0], &pair[1]));
            }
        }
        let quartile = |mut times: Vec<u64>| {
            times.sort_unstable();
            times[times.len() / 4]
        };
        Paces(times.into_iter().map(|(key, times)| (key, quartile(times))).collect())
    }

    fn key(before: &Row, after: &Row) -> Option<(u32, u32)> {
        let kernel = |row: &Row| match row.what {
            What::Launch(launch) => Some(launch.kernel.0),
            _ => None,
        };
        Some((kernel(before)?, kernel(after)?))
    }

    /// The time that the program itself took between the two.
    fn own_ns(&self, before: &Row, after: &Row) -> u64 {
        let usual = Paces::key(before, after).and_then(|key| self.0.get(&key));
        between(before, after).min(usual.map_or(u64::MAX, |usual| 2 * usual))
    }
}

fn between(before: &Row, after: &Row) -> u64 {
    after.time_ns.saturating_sub(before.end_ns())
}

fn steps(rows: &[Row], kernels: &Kernels, paces: &Paces) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut before: Option<&Row> = None;
    for row in rows {
        let host_ns = before.replace(row).map_or(0, |before| paces.own_ns(before, row));
        if host_ns > 0 {
            steps.push(Step::Host(host_ns));
        }
        match row.what {
            What::Launch(_) | What::GraphLaunch { .. } => {
                steps.push(Step::Launch(kernels.kernels(row)));
            }
            What::Copy(copy) if copy.direction == Direction::HostToDevice => {
                steps.push(Step::Input);
            }
            What::Copy(copy) if !copy.asynchronous => steps.push(Step::Wait),
            What::Sync { .. } => steps.push(Step::Wait),
            _ => {}
        }
    }
    steps
}

fn is_launch(what: &What) -> bool {
    match what {
        What::Launch(launch) => !launch.captured,
        What::GraphLaunch { captured, .. } => !captured,
        _ => false,
    }
}

fn is_step(what: &What) -> bool {
    is_launch(what) || matches!(what, What::Copy(_) | What::Sync { .. } | What::GpuTime { .. })
}

fn busiest(rows: &[Row]) -> Option<u32> {
    let mut launches: HashMap<u32, usize> = HashMap::new();
    for row in rows.iter().filter(|row| is_launch(&row.what)) {
        *launches.entry(row.process).or_default() += 1;
    }
    launches.into_iter().max_by_key(|&(process, count)| (count, process)).map(|(it, _)| it)
}

fn short(command: &String) -> String {
    Path::new(command).file_name().map_or_else(|| command.clone(), |it| it.to_string_lossy().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::KernelId;
    use apex_core::event::Launch;

    fn describe(text: &str) -> Result<Vec<Program>, Error> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program.json");
        std::fs::write(&path, text).unwrap();
        described(&path, 1_000_000_000, 1)
    }

    #[test]
    fn a_few_numbers_make_a_program() {
        let text = r#"[{"name": "web", "class": "latency", "kernels": 3, "kernel_us": 10,
            "requests_per_second": 50, "sla": "p95=10ms"},
            {"name": "job", "class": "batch", "kernels": 5, "kernel_us": 100, "bottleneck": "memory"}]"#;
        let programs = describe(text).unwrap();
        assert_eq!(programs[0].work_ns(), 30_000);
        assert!((30..75).contains(&programs[0].arrivals.as_ref().unwrap().len()));
        assert!(programs[0].sla.is_some() && programs[1].arrivals.is_none());
        assert_eq!(programs[1].launches().count(), 5);
    }

    fn launch(time_ns: u64, kernel: u32) -> Row {
        let shape = LaunchShape::default();
        let launch =
            Launch { kernel: KernelId(kernel), shape, cooperative: false, captured: false };
        Row { process: 1, device: Some(0), ..crate::row::tests::row(time_ns, What::Launch(launch)) }
    }

    #[test]
    fn a_wait_inside_a_launch_is_not_the_programs_own_time() {
        let mut rows = Vec::new();
        let mut now = 0;
        for round in 0..8 {
            for kernel in [1, 2, 3] {
                rows.push(launch(now, kernel));
                // In two rounds of eight the queue was full.
                now += if round % 4 == 3 { 8_000_000 } else { 10_000 * u64::from(kernel) };
            }
        }
        let paces = Paces::of(&rows);
        let own = |before: usize| paces.own_ns(&rows[before], &rows[before + 1]);
        assert_eq!([own(0), own(1), own(2)], [10_000, 20_000, 30_000]);
        assert_eq!([own(9), own(10), own(11)], [20_000, 40_000, 60_000]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in [
            r#"{"name": "a", "class": "urgent", "kernels": 3, "kernel_us": 10}"#,
            r#"{"name": "a", "class": "batch", "kernels": 3, "kernel_us": -1}"#,
            r#"{"name": "a", "class": "batch", "kernels": 3, "kernel_us": 1, "bottleneck": "disk"}"#,
            r#"{"name": "a", "class": "batch", "kernels": 3, "kernel_us": 1, "requests_per_second": -1}"#,
            r#"{"kernels": 3}"#,
            "",
        ] {
            assert!(describe(text).is_err(), "{text}");
        }
    }
}
