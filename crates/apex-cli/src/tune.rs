//! `apex tune`: tries what can be changed without touching a program, and writes down what wins.
//!
//! Every run is also a check: what the program copies from the device, what it prints and how it ends must be what
//! they are without changes, or the changes of that run are tried one by one and the guilty ones dropped. What is
//! tried, in which order, and what wins is decided in `apex-policy`; here programs are run and times read.

mod file;
mod subjects;
mod trial;

pub(crate) use file::TuningFile;

use crate::arguments::Tune;
use crate::pages::{print_page, print_text};
use anyhow::{Context, Result, bail};
use apex_core::tuning::Tuning;
use apex_daemon::scratch::Scratch;
use apex_daemon::show::{counted, nanos, percent};
use apex_daemon::speech::say;
use apex_daemon::user_setup::UserSetup;
use apex_policy::tune::{Change, Outcome, Search, Subjected, Tier, Verdict, verdict};
use file::{TriedChange, TunedKernel, Verified};
use std::fmt::Write;
use std::process::ExitCode;
use subjects::Kernel;
use trial::{Ran, Trials};

/// What a win must be larger than, whatever the runs say.
const MARGIN: f64 = 0.01;

pub(crate) fn tune(arguments: &Tune) -> Result<ExitCode> {
    let setup = UserSetup::read();
    if !setup.knobs.enabled {
        bail!("apex is switched off by APEX=0");
    }
    setup.recover();
    let folder = Scratch::new().context("there is no place for temporary files")?;
    let trials = Trials::new(&setup, &arguments.command, arguments.device, folder)?;
    let mut tuner = Tuner::begin(trials, arguments)?;
    tuner.search(arguments.rounds)?;
    let file = tuner.finish(&arguments.command)?;
    file.write(&arguments.output)?;
    say(&match file.kernels.is_empty() {
        true => {
            format!("nothing is worth changing; {} says what was tried", arguments.output.display())
        }
        false => format!(
            "{} is for apex run --tuning {} -- ...",
            arguments.output.display(),
            arguments.output.display()
        ),
    });
    if arguments.json {
        return print_page((serde_json::to_string_pretty(&file)? + "\n").as_bytes());
    }
    print_text(&tuner.table(&file))
}

/// A program being tuned.
struct Tuner<'a> {
    trials: Trials<'a>,
    truth: Ran,
    compares_stdout: bool,
    kernels: Vec<Kernel>,
    search: Search,
    file: TuningFile,
    verified: u64,
}

impl<'a> Tuner<'a> {
    /// Runs the program twice as it is: it must say the same both times.
    fn begin(mut trials: Trials<'a>, arguments: &Tune) -> Result<Tuner<'a>> {
        say("runs the program as it is, twice");
        trials.begin("as it is".into());
        let truth = trials.run(&Tuning::default())?;
        if truth.summary.launches == 0 {
            bail!("no kernel launch was seen; {}", truth.complaint());
        }
        let again = trials.run(&Tuning::default())?;
        let compares_stdout = truth.stdout == again.stdout;
        let steady = same_outputs(&truth, &again);
        let blocks = if truth.outputs.copies == 0 {
            Err("the program copies nothing from the device that could be compared")
        } else {
            Ok(())
        };
        let (mut kernels, refused) = subjects::subjects(&truth, arguments.kernels, blocks);
        let wanted: Vec<Tier> = arguments.only.iter().map(|word| (*word).into()).collect();
        if !wanted.is_empty() {
            for kernel in &mut kernels {
                kernel.candidates.retain(|change| wanted.contains(&change.tier()));
            }
        }
        if !steady {
            say(
                "the program computes something else each time: only hints are tried, which change no result",
            );
            for kernel in &mut kernels {
                kernel.candidates.retain(|change| change.tier() == Tier::Hint);
            }
        }
        let subjected = kernels.iter().map(|kernel| Subjected {
            image: kernels.iter().position(|other| other.image == kernel.image).unwrap_or(0),
            candidates: kernel.candidates.clone(),
        });
        let search = Search::new(subjected.collect());
        let device = truth.summary.devices.first().map_or(String::new(), |one| one.name.clone());
        let driver = truth.summary.driver.clone().unwrap_or_default();
        let mut file = TuningFile::new(device, driver, Vec::new());
        file.refused = refused;
        let mut tuner =
            Tuner { trials, truth, compares_stdout, kernels, search, file, verified: 0 };
        if !steady {
            // Nothing can be compared: a hint is believed.
            tuner.truth.outputs.copies = 0;
        }
        Ok(tuner)
    }

    /// Tries round after round, so many at most.
    fn search(&mut self, rounds: usize) -> Result<()> {
        for nth in 0..rounds {
            let round = self.search.round();
            if round.is_empty() {
                break;
            }
            let names: Vec<String> = round
                .iter()
                .map(|(subject, change)| format!("{}: {change}", self.kernels[*subject].name))
                .collect();
            say(&format!("round {}: {}", nth + 1, names.join(", ")));
            self.trials.begin(format!("round {} of {rounds} at most", nth + 1));
            self.try_round(round)?;
        }
        Ok(())
    }

    fn try_round(&mut self, round: Vec<(usize, Change)>) -> Result<()> {
        if round.is_empty() {
            return Ok(());
        }
        let (without, with) = (self.plan(&[]), self.plan(&round));
        let runs = [
            self.trials.run(&without)?,
            self.trials.run(&with)?,
            self.trials.run(&with)?,
            self.trials.run(&without)?,
        ];
        if self.agrees(&runs[1]) && self.agrees(&runs[2]) {
            for (subject, change) in round {
                let times = self.times(subject, change, &runs);
                self.search.judge(subject, change, Outcome::Measured(verdict(times, MARGIN)));
            }
            return Ok(());
        }
        // One of them changes what the program computes: which? The others are measured again.
        let mut harmless = Vec::new();
        for &(subject, change) in &round {
            if round.len() > 1 && self.is_right(&self.plan(&[(subject, change)]))? {
                harmless.push((subject, change));
            } else {
                self.search.judge(subject, change, Outcome::Differs);
            }
        }
        if harmless.len() == round.len() {
            // Each alone is right and all together are not: none is trusted.
            for (subject, change) in harmless {
                self.search.judge(subject, change, Outcome::Differs);
            }
            return Ok(());
        }
        self.try_round(harmless)
    }

    /// Times of a kernel in four runs; of all kernels of its image where the change holds for all.
    fn times(&self, subject: usize, change: Change, runs: &[Ran; 4]) -> [f64; 4] {
        let own = &self.kernels[subject];
        let concerned = self.kernels.iter().filter(|kernel| {
            kernel.mangled == own.mangled
                || (change.tier() == Tier::Compile && kernel.image == own.image)
        });
        let mut sums = [0.0; 4];
        for kernel in concerned {
            let found = [0, 1, 2, 3].map(|nth| runs[nth].time(&kernel.mangled));
            let basis = found[0].map(|(_, basis)| basis);
            for (sum, time) in sums.iter_mut().zip(found) {
                // Times that were taken in different ways cannot be compared.
                *sum += match time {
                    Some((nanos, how)) if Some(how) == basis => nanos,
                    _ => f64::NAN,
                };
            }
        }
        sums
    }

    fn is_right(&mut self, tuning: &Tuning) -> Result<bool> {
        let ran = self.trials.run(tuning)?;
        Ok(self.agrees(&ran))
    }

    /// Whether a run came out as the program does by itself.
    fn agrees(&mut self, ran: &Ran) -> bool {
        let outputs = self.truth.outputs.copies == 0 || same_outputs(&self.truth, ran);
        let stdout = !self.compares_stdout || self.truth.stdout == ran.stdout;
        let agrees = outputs && stdout && self.truth.exit == ran.exit;
        self.verified += u64::from(agrees);
        agrees
    }

    fn plan(&self, trial: &[(usize, Change)]) -> Tuning {
        let mut file = TuningFile::new(self.file.device.clone(), String::new(), Vec::new());
        for (kernel, changes) in self.kernels.iter().zip(self.search.plan(trial)) {
            if !changes.is_empty() {
                file.kernels.push(TunedKernel::of(&kernel.mangled, kernel.image, &changes));
            }
        }
        file.tuning().unwrap_or_default()
    }

    /// Compares what won with the untouched program once more; what does not hold is not written.
    fn finish(&mut self, command: &[std::ffi::OsString]) -> Result<TuningFile> {
        let mut file = std::mem::take(&mut self.file);
        self.file.device.clone_from(&file.device);
        let tuning = self.plan(&[]);
        if !tuning.is_empty() {
            say("compares what won with the untouched program");
            self.trials.begin("comparing".into());
            let none = Tuning::default();
            let runs = [
                self.trials.run(&none)?,
                self.trials.run(&tuning)?,
                self.trials.run(&tuning)?,
                self.trials.run(&none)?,
            ];
            let right = self.agrees(&runs[1]) && self.agrees(&runs[2]);
            let totals = [0, 1, 2, 3].map(|nth| {
                let calls = |mangled: &str| {
                    let list = &self.truth.summary.kernels;
                    let found = list.iter().find(|kernel| kernel.mangled == mangled);
                    found.map_or(0.0, |kernel| kernel.calls as f64)
                };
                let times = tuning.kernels.iter().map(|kernel| {
                    let time = runs[nth].time(&kernel.name).map_or(f64::NAN, |(nanos, _)| nanos);
                    time * calls(&kernel.name)
                });
                times.sum::<f64>()
            });
            match verdict(totals, MARGIN) {
                Verdict::Wins { gain, .. } if right => file.gain = Some(gain),
                _ => {
                    say("together the changes do not hold: none is kept");
                    self.search.give_up();
                }
            }
        }
        for (kernel, changes) in self.kernels.iter().zip(self.search.plan(&[])) {
            if !changes.is_empty() {
                file.kernels.push(TunedKernel::of(&kernel.mangled, kernel.image, &changes));
            }
        }
        file.tried = self.search.tried().iter().map(|tried| self.tried_change(tried)).collect();
        file.command = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        file.verified = Verified {
            runs: self.verified,
            copies: self.truth.outputs.copies,
            bytes: self.truth.outputs.bytes,
            standard_output: self.compares_stdout,
        };
        Ok(file)
    }

    /// What the file says of one change that was tried.
    fn tried_change(&self, tried: &apex_policy::tune::Tried) -> TriedChange {
        let (outcome, gain) = match tried.outcome {
            Outcome::Differs => ("the program computes something else", None),
            Outcome::Measured(Verdict::Wins { gain, .. }) => ("faster", Some(gain)),
            Outcome::Measured(Verdict::Loses(gain)) => ("slower", Some(gain)),
            Outcome::Measured(Verdict::Even(gain)) => ("no difference beyond noise", Some(gain)),
            Outcome::Measured(Verdict::Unknown) => ("not timed", None),
        };
        TriedChange {
            kernel: self.kernels[tried.subject].name.clone(),
            change: tried.change.to_string(),
            outcome: outcome.into(),
            gain,
        }
    }

    fn table(&self, file: &TuningFile) -> String {
        let mut page = format!("{:<28} {:>6} {:>10}\n", "kernel", "share", "time");
        for kernel in &self.kernels {
            let time = self.truth.time(&kernel.mangled).map_or(0.0, |(nanos, _)| nanos);
            let share = percent(kernel.share);
            let _ = writeln!(page, "{:<28} {share:>6} {:>10}", kernel.name, nanos(time));
        }
        for TriedChange { kernel, change, outcome, gain } in &file.tried {
            let gain = gain.map_or(String::new(), |gain| format!(", {gain:.2} times as fast"));
            let _ = writeln!(page, "  {kernel}: {change}: {outcome}{gain}");
        }
        for refused in &file.refused {
            let _ = writeln!(page, "  {}: {}", refused.kernel, refused.reason);
        }
        let verified = &file.verified;
        let stdout = if verified.standard_output { ", standard output" } else { "" };
        let _ = writeln!(
            page,
            "{}; results equal in all {} of them with changes that were kept or measured: {} of {}{stdout}, exit",
            counted(self.trials.count().into(), "run", "runs"),
            verified.runs,
            counted(verified.copies, "copy", "copies"),
            counted(verified.bytes, "byte", "bytes")
        );
        let said = match file.gain {
            Some(gain) => format!(
                "kept: {} changed, together {gain:.2} times as fast\n",
                counted(file.kernels.len() as u64, "kernel", "kernels")
            ),
            None => "kept: nothing\n".into(),
        };
        page + &said
    }
}

fn same_outputs(a: &Ran, b: &Ran) -> bool {
    let compared = |ran: &Ran| {
        let outputs = &ran.outputs;
        (outputs.copies, outputs.bytes, outputs.sum, outputs.unseen)
    };
    compared(a) == compared(b) && a.exit == b.exit
}
