//! Reads the code of kernels while a program runs, on a thread that takes a twentieth of a core.
//!
//! Whoever sees a kernel asks for its code, and for walks through it where it is known what launches passed; answers are
//! fetched when they are there, and nobody waits for any. The thread counts its own time: beyond a short first piece it
//! rests nineteen times as long as it worked. It ends with its asker, whatever is still to be read.

use crate::code::{KernelCode, of_image};
use crate::code_document::walked_of;
use crate::contain::contained;
use apex_core::facts::{Device, Image, Kernel, Passed};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What may be worked before the thread rests: a program's first kernels are read at once.
const FIRST: Duration = Duration::from_millis(250);
/// The share of a core that is taken beyond that.
const SHARE: f64 = 0.05;
/// No rest is longer, so that what was asked meanwhile is seen.
const LONGEST_REST: Duration = Duration::from_millis(500);
/// Kernels and walks that are asked for at most.
const MOST_ASKED: usize = 20_000;

/// A kernel by the hash of its image and its name.
pub(crate) type Name = (u64, String);

/// A kernel in one shape.
pub(crate) type Shaped = (Name, Vec<u64>);

enum Asked {
    Code(Box<Image>, Box<Kernel>),
    Walk(Arc<KernelCode>, Box<(Kernel, Passed, Device)>),
}

/// What was found.
pub(crate) enum Told {
    /// What the code of a kernel says.
    Code(Name, Arc<KernelCode>),
    /// What the warps of a launch do.
    Walk(Shaped, Vec<f32>),
}

/// Asks the thread.
#[derive(Debug)]
pub(crate) struct CodeReader {
    asked: Sender<Asked>,
    told: Receiver<Told>,
    codes: HashSet<Name>,
    walks: HashSet<Shaped>,
}

impl CodeReader {
    /// Starts the thread; `rings` has images that lie in no file. None where no thread can be had.
    pub(crate) fn start(rings: &Path) -> Option<CodeReader> {
        let (asked, questions) = channel();
        let (answers, told) = channel();
        let rings = rings.to_owned();
        let work = move || Worker { rings, answers, account: Account::start() }.run(&questions);
        thread::Builder::new().name("apex-code".into()).spawn(work).ok()?;
        Some(CodeReader { asked, told, codes: HashSet::new(), walks: HashSet::new() })
    }

    /// Asks for a kernel's code, once.
    pub(crate) fn read(&mut self, image: &Image, kernel: &Kernel) {
        let name = (kernel.image_hash, kernel.name.clone());
        if self.codes.len() < MOST_ASKED && self.codes.insert(name) {
            let question = Asked::Code(Box::new(image.clone()), Box::new(kernel.clone()));
            let _ = self.asked.send(question);
        }
    }

    /// Asks for a walk through code that was read, once.
    pub(crate) fn walk(
        &mut self,
        code: &Arc<KernelCode>,
        kernel: &Kernel,
        passed: &Passed,
        device: &Device,
    ) {
        let shaped = ((kernel.image_hash, kernel.name.clone()), passed.shape.clone());
        if self.walks.len() < MOST_ASKED && self.walks.insert(shaped) {
            let facts = Box::new((kernel.clone(), passed.clone(), device.clone()));
            let _ = self.asked.send(Asked::Walk(Arc::clone(code), facts));
        }
    }

    /// What was found since the last time.
    pub(crate) fn told(&self) -> impl Iterator<Item = Told> + '_ {
        self.told.try_iter()
    }
}

/// The time that the thread has worked.
struct Account {
    begun: Instant,
    worked: Duration,
}

impl Account {
    fn start() -> Account {
        Account { begun: Instant::now(), worked: Duration::ZERO }
    }

    /// How long to rest, by what was worked in this time.
    fn rest(worked: Duration, elapsed: Duration) -> Duration {
        let due = worked.saturating_sub(FIRST).as_secs_f64() / SHARE;
        Duration::from_secs_f64((due - elapsed.as_secs_f64()).max(0.0)).min(LONGEST_REST)
    }

    /// Does one piece of work, once its turn has come.
    fn piece<T>(&mut self, work: impl FnOnce() -> T) -> T {
        loop {
            let rest = Account::rest(self.worked, self.begun.elapsed());
            if rest.is_zero() {
                break;
            }
            thread::sleep(rest);
        }
        let start = Instant::now();
        let done = work();
        self.worked += start.elapsed();
        done
    }
}

struct Worker {
    rings: PathBuf,
    answers: Sender<Told>,
    account: Account,
}

impl Worker {
    /// Works until nobody asks or hears any more.
    fn run(mut self, questions: &Receiver<Asked>) {
        while let Ok(first) = questions.recv() {
            // Kernels of one image are read together.
            let mut images: BTreeMap<u64, (Image, Vec<Kernel>)> = BTreeMap::new();
            for question in std::iter::once(first).chain(questions.try_iter()) {
                match question {
                    Asked::Code(image, kernel) => {
                        let entry = images.entry(image.hash);
                        entry.or_insert_with(|| (*image, Vec::new())).1.push(*kernel);
                    }
                    Asked::Walk(code, facts) => {
                        if self.walk(&code, &facts).is_none() {
                            return;
                        }
                    }
                }
            }
            for (hash, (image, kernels)) in images {
                if self.read(hash, &image, &kernels).is_none() {
                    return;
                }
            }
        }
    }

    /// None when nobody hears.
    fn read(&mut self, hash: u64, image: &Image, kernels: &[Kernel]) -> Option<()> {
        let kernels: Vec<&Kernel> = kernels.iter().collect();
        let rings = &self.rings;
        let found = self.account.piece(|| contained(|| of_image(rings, image, &kernels)));
        for (name, code) in found.unwrap_or_default() {
            self.answers.send(Told::Code((hash, name), Arc::new(code))).ok()?;
        }
        Some(())
    }

    fn walk(&mut self, code: &KernelCode, facts: &(Kernel, Passed, Device)) -> Option<()> {
        let (kernel, passed, device) = facts;
        let Some(program) = &code.program else { return Some(()) };
        let found = self
            .account
            .piece(|| contained(|| Ok(walked_of(program, kernel, passed, device))).ok().flatten());
        let Some(walked) = found else { return Some(()) };
        let shaped = ((kernel.image_hash, kernel.name.clone()), passed.shape.clone());
        self.answers.send(Told::Walk(shaped, walked)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::facts::image_file;
    use apex_cuda::image::hash;

    #[test]
    fn a_twentieth_of_a_core_is_taken() {
        let rest = |worked: u64, elapsed: u64| {
            Account::rest(Duration::from_millis(worked), Duration::from_millis(elapsed)).as_millis()
        };
        assert_eq!(rest(250, 0), 0, "what comes first is read at once");
        assert_eq!(rest(260, 0), 200);
        assert_eq!(rest(260, 150), 50);
        assert_eq!(rest(260, 300), 0);
        assert_eq!(rest(5_000, 0), LONGEST_REST.as_millis());
    }

    #[test]
    fn what_is_asked_for_is_read_and_walked() {
        let code = include_bytes!("../../../tests/programs/demo.ptx");
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join(image_file(hash(code))), code).unwrap();
        let image = Image { id: 1, kind: "ptx".into(), hash: hash(code), ..Image::default() };
        let kernel = Kernel {
            name: "vector_add".into(),
            image_hash: hash(code),
            parameters: vec![0, 8, 8, 8, 16, 8, 24, 4],
            registers: 16,
            ..Kernel::default()
        };
        let mut reader = CodeReader::start(place.path()).unwrap();
        reader.read(&image, &kernel);
        let wait = Duration::from_secs(240);
        let Told::Code(name, read) = reader.told.recv_timeout(wait).unwrap() else {
            panic!("code was asked for")
        };
        assert_eq!(name, (hash(code), "vector_add".to_owned()));
        assert!(read.totals.is_some_and(|totals| totals[0] > 5));
        let passed = Passed {
            shape: vec![4, 1, 1, 256, 1, 1, 0, 0, 0, 0],
            values: vec![1 << 40, 1 << 41, 1 << 42, 1024],
            bytes: vec![4096, 4096, 4096, 0],
            ..Passed::default()
        };
        let device = Device { major: 9, sms: 132, clock_khz: 1_980_000, ..Device::default() };
        reader.walk(&read, &kernel, &passed, &device);
        let Told::Walk((_, shape), walked) = reader.told.recv_timeout(wait).unwrap() else {
            panic!("a walk was")
        };
        assert_eq!(shape, passed.shape);
        assert!(walked[0] > 5.0);
    }
}
