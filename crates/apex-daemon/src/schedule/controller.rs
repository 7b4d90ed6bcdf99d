//! The controller of one page: looks at every program, asks the policy, writes what is allowed.
//!
//! It reads and writes the two files by position and maps neither. One step costs some ten microseconds; with
//! fewer than two programs there is nothing to decide, every gate is open and the steps are far apart.

use super::grants::{Grants, Who};
use apex_core::gate_page::{
    self, BURSTS_KEPT, Files, Grant, Granted, Own, SLOTS, Setting, Settings, Shared, SharedByAll,
    Words, claimed_by,
};
use apex_policy::gate::believed_ns;
use apex_policy::schedule::{Burst, Class, Device, Limits, Logged, Observed, Policy, Sla, policy};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Between two steps while programs share the GPU.
pub const STEP: Duration = Duration::from_millis(2);
/// Between two steps while there is nothing to share.
pub const IDLE_STEP: Duration = Duration::from_millis(20);
/// Words of the settings' head, to the end of the policy's name.
const HEAD: usize = Setting::Policy as usize + 4;
/// A program that others wait for is looked at so often, any other program so often.
const LOOK_NS: u64 = 6_000_000;
const LOOK_SELDOM_NS: u64 = 50_000_000;
/// A dead program's words stay so long, for its own apex to count.
const REMAINS_NS: u64 = 2_000_000_000;

/// The controller of one GPU's page.
pub struct Controller {
    files: Files,
    /// Held while it leads.
    _lock: File,
    settings: Words,
    programs: Words,
    policy: Box<dyn Policy>,
    grants: Grants,
    mps: bool,
    seen: Vec<Seen>,
    epoch: u64,
    /// Why its log ended.
    log_ended: Arc<OnceLock<String>>,
}

/// What is known of the program in a slot.
#[derive(Clone, Debug, Default)]
struct Seen {
    claim: u64,
    class: Option<Class>,
    looked_ns: u64,
    alive_ns: u64,
    dead_since_ns: Option<u64>,
    bursts: u64,
}

impl Controller {
    /// Leads the page, unless somebody else does. The policy was checked by whoever names it.
    pub fn lead(
        files: &Files,
        policy_name: &str,
        grants: &Grants,
        mps: bool,
    ) -> io::Result<Option<Controller>> {
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(files.lock())?;
        if lock.try_lock().is_err() {
            return Ok(None);
        }
        let settings = Words::open(&files.settings(), true)?;
        let epoch = settings.read()?[gate_page::setting(Setting::Epoch)];
        Ok(Some(Controller {
            files: files.clone(),
            _lock: lock,
            settings,
            programs: Words::open(&files.programs(), true)?,
            policy: policy(policy_name).map_err(io::Error::other)?,
            grants: grants.clone(),
            mps,
            seen: vec![Seen::default(); SLOTS],
            epoch,
            log_ended: Arc::default(),
        }))
    }

    /// The same, and what the policy sees and believes is added to that file, as long as it can be.
    #[must_use]
    pub fn logged(mut self, path: &Path) -> Controller {
        let ended = self.log_ended.clone();
        let name = path.display().to_string();
        let end = move |error: &io::Error| {
            let _ = ended.set(format!("{name} gets no more lines: {error}"));
        };
        let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let mut file = opened.inspect_err(&end).ok();
        let write = move |line: &str| {
            let Some(open) = &mut file else { return };
            if let Err(error) = open.write_all(format!("{line}\n").as_bytes()) {
                end(&error);
                file = None;
            }
        };
        self.policy = Box::new(Logged::new(self.policy, Box::new(write)));
        self
    }

    /// Why its log ended before it did.
    #[must_use]
    pub fn log_ended(&self) -> Option<&str> {
        self.log_ended.get().map(String::as_str)
    }

    /// The GPU whose page this is.
    #[must_use]
    pub fn gpu(&self) -> &str {
        self.files.gpu()
    }

    /// Whether its files are still where programs find them.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.files.programs().exists() && self.files.settings().exists()
    }

    /// Looks and decides once; says how long to wait until the next time.
    pub fn step(&mut self, now_ns: u64) -> io::Result<Duration> {
        let words = self.programs.read()?;
        self.look(&words, now_ns)?;
        let present: Vec<usize> = (0..SLOTS).filter(|&slot| self.is_present(slot)).collect();
        let bursts: Vec<Vec<Burst>> =
            present.iter().map(|&slot| self.new_bursts(&words, slot)).collect();
        let observed: Vec<Observed<'_>> = present
            .iter()
            .zip(&bursts)
            .map(|(&slot, bursts)| observe(&words, slot, &self.seen[slot], bursts, now_ns))
            .collect();
        let shared = present.len() >= 2;
        let limits = if shared {
            let sms = SharedByAll::unpack(|word| words[word as usize]).sms;
            let sms = u32::try_from(sms).unwrap_or(1);
            // A program is given its priority with MPS.
            let device = Device { sms, shared: self.mps, prioritised: self.mps };
            self.policy.step(now_ns, &device, &observed).programs
        } else {
            vec![Limits::OPEN; present.len()]
        };
        self.write(now_ns, &observed, &limits)?;
        Ok(if shared { STEP } else { IDLE_STEP })
    }

    fn is_present(&self, slot: usize) -> bool {
        let seen = &self.seen[slot];
        seen.class.is_some() && seen.dead_since_ns.is_none()
    }

    /// Sees who came, who is alive and who is gone.
    fn look(&mut self, words: &[u64], now_ns: u64) -> io::Result<()> {
        for slot in 0..SLOTS {
            let claim = words[gate_page::own(slot, Own::Claim)];
            let asked = words[gate_page::own(slot, Own::Class)];
            if self.seen[slot].claim != claim {
                self.seen[slot] = Seen { claim, ..Seen::default() };
            }
            if claim == 0 || asked == 0 {
                // Nobody is there, or nobody who takes part any more.
                self.seen[slot].class = None;
                continue;
            }
            if self.seen[slot].class.is_none() {
                self.seen[slot].class = Some(self.granted(slot, claim, asked));
                self.seen[slot].bursts = words[gate_page::own(slot, Own::Bursts)];
            }
            let seen = &mut self.seen[slot];
            let often = seen.class > Some(Class::Batch);
            let pause = if often { LOOK_NS } else { LOOK_SELDOM_NS };
            if now_ns.saturating_sub(seen.looked_ns) >= pause {
                seen.looked_ns = now_ns;
                let state = gate_page::process_state(claimed_by(claim))
                    .filter(|(_, start)| gate_page::claim_word(claimed_by(claim), *start) == claim);
                match state {
                    Some(('T' | 't', _)) => {}
                    Some((state, _)) if !matches!(state, 'Z' | 'X') => seen.alive_ns = now_ns,
                    _ => {
                        seen.dead_since_ns.get_or_insert(now_ns);
                    }
                }
            }
            let dead = seen.dead_since_ns;
            if dead.is_some_and(|since| now_ns.saturating_sub(since) > REMAINS_NS) {
                self.programs.write(gate_page::own(slot, Own::Claim), &[0])?;
                self.seen[slot] = Seen::default();
            }
        }
        Ok(())
    }

    /// The class that the program of a claim gets. A process has one slot: whoever names it again has none of
    /// its rights.
    fn granted(&self, slot: usize, claim: u64, asked: u64) -> Class {
        let asked = u8::try_from(asked - 1).ok().and_then(Class::from_code).unwrap_or_default();
        let again = self.seen[..slot].iter().any(|other| other.claim == claim);
        match Who::is(claimed_by(claim)) {
            Some(who) if !again => self.grants.class(&who, asked),
            _ => asked.min(Class::Normal),
        }
    }

    fn new_bursts(&mut self, words: &[u64], slot: usize) -> Vec<Burst> {
        let seen = &mut self.seen[slot];
        let count = words[gate_page::own(slot, Own::Bursts)];
        let first = seen.bursts.max(count.saturating_sub(BURSTS_KEPT as u64));
        let numbers = if count >= first { first..count } else { 0..0 };
        seen.bursts = count;
        let read = |number: u64| {
            let kept = gate_page::kept_burst(words, slot, number);
            Burst {
                start_ns: kept.start_ns,
                end_ns: kept.end_ns,
                launches: u32::try_from(kept.launches).unwrap_or(u32::MAX),
                ahead_ns: kept.ahead_ns,
                work_ns: kept.work_ns,
            }
        };
        numbers.map(read).filter(|burst| burst.end_ns >= burst.start_ns).collect()
    }

    fn write(
        &mut self,
        now_ns: u64,
        observed: &[Observed<'_>],
        limits: &[Limits],
    ) -> io::Result<()> {
        let mut gated = 0_u64;
        for (program, limits) in observed.iter().zip(limits) {
            if !limits.open {
                gated |= 1 << program.slot;
            }
            let slot = usize::from(program.slot);
            let words = granted(program, limits, self.seen[slot].alive_ns).pack();
            self.settings.write(gate_page::grant(slot, Grant::Claim), &words)?;
        }
        self.epoch += 1;
        let mut head = [0; HEAD];
        let settings = Settings {
            magic: gate_page::MAGIC,
            epoch: self.epoch,
            controller: std::process::id().into(),
            heartbeat_ns: now_ns,
            gated_slots: gated,
            programs: observed.len() as u64,
            mps: self.mps.into(),
        };
        head[..Setting::PACKED].copy_from_slice(&settings.pack());
        let mut name = [0; 32];
        let text = self.policy.name().as_bytes();
        name[..text.len().min(32)].copy_from_slice(&text[..text.len().min(32)]);
        let (chunks, _) = name.as_chunks();
        for (word, chunk) in head[Setting::Policy as usize..].iter_mut().zip(chunks) {
            *word = u64::from_le_bytes(*chunk);
        }
        self.settings.write(0, &head)
    }
}

/// What a slot's words say.
fn granted(program: &Observed<'_>, limits: &Limits, alive_ns: u64) -> Granted {
    Granted {
        claim: program.key,
        gated: u64::from(!limits.open),
        yields_to: limits.yields_to,
        budget_ns: limits.budget_ns,
        guard_ns: limits.guard_ns,
        allowed_ns: limits.allowed_ns,
        owed_ns: limits.owed_ns,
        patience_ns: limits.patience_ns,
        class: program.class as u64 + 1,
        alive_ns,
    }
}

/// What the policy is told of a program: its own words, within bounds.
fn observe<'a>(
    words: &[u64],
    slot: usize,
    seen: &Seen,
    bursts: &'a [Burst],
    now_ns: u64,
) -> Observed<'a> {
    let said = gate_page::said(words, slot);
    let open = words[Shared::BurstsOpen as usize] >> slot & 1 != 0;
    let share = if said.share_milli == 0 { 1.0 } else { said.share_milli as f32 / 1_000.0 };
    let sla = (said.sla_ns > 0)
        .then(|| Sla { quantile: said.sla_micro as f32 / 1e6, limit_ns: said.sla_ns.max(1_000) });
    let has_fences = words[gate_page::own(slot, Own::Fence)] != 0;
    // What waits behind fences it was not given.
    let not_given_ns = if has_fences { said.in_flight_ns } else { 0 };
    Observed {
        slot: u8::try_from(slot).unwrap_or(0),
        key: seen.claim,
        class: seen.class.unwrap_or_default(),
        share,
        sla,
        bursts,
        open_since_ns: open.then_some(said.burst_start_ns),
        exclusive: said.exclusive == 1,
        in_flight_ns: believed_ns(said.in_flight_ns, said.in_flight_at_ns, None, now_ns),
        admitted_ns: said.admitted_ns.saturating_sub(not_given_ns),
        waited_ns: said.waited_ns,
        waiting: (1..1 << 32).contains(&said.held_now),
    }
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("gpu", &self.files.gpu()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::grants::Rule;
    use super::*;
    use apex_core::gate_page::{KeptBurst, Page, claim_word, process_state};
    use std::sync::atomic::Ordering;

    struct Place {
        _directory: tempfile::TempDir,
        files: Files,
        page: Page,
    }

    fn place() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::of(directory.path(), "gpu");
        files.create(0o600, 0o600).unwrap();
        let page = Page::map(&files).unwrap();
        Place { _directory: directory, files, page }
    }

    impl Place {
        fn lead(&self, allow: &[Rule]) -> Controller {
            let grants = Grants::listed(allow).unwrap();
            Controller::lead(&self.files, "priority", &grants, false).unwrap().unwrap()
        }

        /// A program of this claim asks for a class.
        fn enter(&self, slot: usize, claim: u64, class: Class) {
            self.page.own(slot, Own::Claim).store(claim, Ordering::Relaxed);
            self.page.own(slot, Own::Class).store(class as u64 + 1, Ordering::Relaxed);
        }

        fn class(&self, slot: usize) -> Option<Class> {
            let code = self.page.grant(slot, Grant::Class);
            u8::try_from(code.wrapping_sub(1)).ok().and_then(Class::from_code)
        }
    }

    fn anybody(class: &str) -> Rule {
        Rule { class: class.into(), ..Rule::default() }
    }

    fn claim_of(pid: u32) -> u64 {
        claim_word(pid, process_state(pid).unwrap().1)
    }

    #[test]
    fn a_batch_program_is_gated_as_soon_as_a_latency_program_is_there() {
        let place = place();
        let mut controller = place.lead(&[anybody("latency")]);
        place.enter(0, claim_of(std::process::id()), Class::Batch);
        assert_eq!(controller.step(1_000_000_000).unwrap(), IDLE_STEP);
        assert_eq!(place.page.grant(0, Grant::Gated), 0, "alone it is left alone");
        place.enter(5, claim_of(1), Class::Latency);
        assert_eq!(controller.step(1_002_000_000).unwrap(), STEP);
        assert_eq!((place.class(0), place.class(5)), (Some(Class::Batch), Some(Class::Latency)));
        assert_eq!(place.page.grant(0, Grant::Gated), 1);
        assert_eq!(place.page.grant(0, Grant::YieldsTo), 1 << 5);
        assert!(
            (1..=gate_page::MOST_PATIENCE_NS).contains(&place.page.grant(0, Grant::PatienceNs))
        );
        assert_eq!(place.page.setting(Setting::GatedSlots), 1);
        assert_eq!(place.page.setting(Setting::Heartbeat), 1_002_000_000);
        // It stops taking part.
        place.page.own(5, Own::Class).store(0, Ordering::Relaxed);
        controller.step(1_004_000_000).unwrap();
        assert_eq!(place.page.grant(0, Grant::Gated), 0);
    }

    #[test]
    fn a_class_is_granted_and_a_process_has_it_once() {
        let place = place();
        let mut controller = place.lead(&[anybody("latency")]);
        place.enter(0, claim_of(1), Class::Latency);
        place.enter(1, claim_of(1), Class::Latency);
        place.enter(2, claim_of(std::process::id()), Class::Batch);
        controller.step(1_000_000_000).unwrap();
        assert_eq!((place.class(0), place.class(1)), (Some(Class::Latency), Some(Class::Normal)));
        drop(controller);
        let mut strict = place.lead(&[]);
        strict.step(2_000_000_000).unwrap();
        assert_eq!(place.class(0), Some(Class::Normal), "nobody allows more");
    }

    #[test]
    fn the_dead_count_for_nothing_and_leave_their_slot() {
        let place = place();
        let mut controller = place.lead(&[anybody("latency")]);
        let gone = claim_word(claimed_by(claim_of(1)), 1 << 30);
        place.enter(0, gone, Class::Latency);
        place.page.shared(Shared::BurstsOpen).store(1, Ordering::Relaxed);
        place.enter(1, claim_of(std::process::id()), Class::Batch);
        controller.step(10_000_000_000).unwrap();
        assert_eq!(place.page.grant(1, Grant::Gated), 0);
        controller.step(10_000_000_000 + REMAINS_NS + 1).unwrap();
        assert_eq!(place.page.own(0, Own::Claim).load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_log_that_cannot_be_written_stops_nothing_else() {
        let run = |log: &Path| {
            let place = place();
            let mut controller = place.lead(&[anybody("latency")]).logged(log);
            place.enter(0, claim_of(std::process::id()), Class::Batch);
            place.enter(5, claim_of(1), Class::Latency);
            controller.step(1_000_000_000).unwrap();
            let (start_ns, end_ns) = (1_001_000_000, 1_003_500_000);
            let kept = KeptBurst { start_ns, end_ns, launches: 7, ..KeptBurst::default() };
            place.page.keep_burst(5, &kept);
            controller.step(1_004_000_000).unwrap();
            assert_eq!(place.page.grant(0, Grant::Gated), 1);
            controller.log_ended().map(str::to_owned)
        };
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        assert_eq!(run(&log), None);
        let lines = std::fs::read_to_string(&log).unwrap();
        let mut lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        let is_burst = |line: &serde_json::Value| !line["burst_at_ms"].is_null();
        let burst: serde_json::Value = lines.find(is_burst).unwrap();
        assert_eq!((&burst["ms"], &burst["launches"]), (&2.5.into(), &7.into()));
        for path in [Path::new("/dev/full"), &directory.path().join("none/log")] {
            let said = run(path).unwrap();
            assert!(said.contains("gets no more lines: "), "{said}");
        }
    }

    #[test]
    fn one_leads() {
        let place = place();
        let first = place.lead(&[]);
        let grants = Grants::OfUser(0);
        assert!(Controller::lead(&place.files, "fair", &grants, false).unwrap().is_none());
        drop(first);
        assert!(Controller::lead(&place.files, "fair", &grants, false).unwrap().is_some());
    }

    #[test]
    fn nonsense_on_the_page_is_survived() {
        let place = place();
        let mut controller = place.lead(&[anybody("latency")]);
        let words = Words::open(&place.files.programs(), true).unwrap();
        for value in [u64::MAX, 1, u64::MAX / 2, 0x5555_5555_5555_5555] {
            let noise = vec![value; SLOTS * gate_page::SLOT_WORDS];
            words.write(gate_page::HEAD_WORDS, &noise).unwrap();
            words.write(1, &[value; 40]).unwrap();
            for millis in 0..20 {
                controller.step(1_000_000_000 + millis * 2_000_000).unwrap();
            }
        }
    }
}
