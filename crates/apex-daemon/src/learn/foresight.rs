//! Foretells launches by the forests for programs: with what was read of their kernels so far.
//!
//! The code of a kernel is asked for when it is first seen ([`crate::reading`]); until it is there, its launches are
//! foretold by their shape. What its launches took is kept as it was measured and seen anew when more is known.

use crate::code::KernelCode;
use crate::known::{Known, KnownProcess};
use crate::reading::{CodeReader, Name, Shaped, Told};
use apex_core::event::{LaunchShape, TimeBasis};
use apex_core::facts;
use apex_policy::predict::programs::names::NameFacts;
use apex_policy::predict::programs::sight::Looped;
use apex_policy::predict::programs::{EVENTS_OVER_CUPTI, Past, Programs, Said, Sight};
use apex_policy::predict::question::{Arguments, Device, Kernel, Mix, Question, Walked};
use apex_ptx::totals;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Kernels that are foretold by more than their shape, and launches of each that are remembered.
const MOST_KERNELS: usize = 4096;
const MOST_LAUNCHES: usize = 48;

/// Foretells the launches of one session.
#[derive(Debug)]
pub(super) struct Foresight {
    programs: Arc<Programs>,
    reader: Option<CodeReader>,
    codes: HashMap<Name, Arc<KernelCode>>,
    walks: HashMap<Shaped, Walked>,
    kernels: HashMap<u64, Seen>,
}

/// No launch takes less, in nanoseconds.
const SHORTEST: f32 = 300.0;

/// What a time tells beyond CUPTI's, by which the forests were grown.
fn over_cupti(basis: TimeBasis) -> f32 {
    if basis == TimeBasis::EventPair { EVENTS_OVER_CUPTI } else { 0.0 }
}

/// One kernel.
#[derive(Debug)]
struct Seen {
    name: NameFacts,
    code: Option<Arc<KernelCode>>,
    /// Shapes with their times in nanoseconds, as they were measured.
    launches: Vec<(LaunchShape, f32)>,
    past: Past,
}

/// One launch to be foretold.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) known: &'a Known,
    pub(super) process: u32,
    pub(super) facts: &'a facts::Kernel,
    pub(super) kernel: &'a Kernel,
    pub(super) device: &'a Device,
    pub(super) device_facts: &'a facts::Device,
    pub(super) basis: TimeBasis,
}

impl Foresight {
    /// With code read beside the rings, if a thread can be had.
    pub(super) fn new(programs: Arc<Programs>, rings: Option<&Path>) -> Foresight {
        Foresight {
            programs,
            reader: rings.and_then(CodeReader::start),
            codes: HashMap::new(),
            walks: HashMap::new(),
            kernels: HashMap::new(),
        }
    }

    /// What a launch in this shape will take; nothing for a kernel beyond those that are kept.
    pub(super) fn foretell(&mut self, asked: &Asked<'_>, shape: &LaunchShape) -> Option<Said> {
        self.look(asked, shape);
        let seen = self.kernels.get(&asked.kernel.identity)?;
        let sight = sight(asked, seen, shape, self.walked(asked, shape).as_ref());
        Some(self.programs.answer(&sight, &seen.past).longer_by(over_cupti(asked.basis)))
    }

    /// Takes in what a launch took.
    pub(super) fn learn(&mut self, asked: &Asked<'_>, shape: &LaunchShape, nanos: f32) {
        self.look(asked, shape);
        let nanos = (nanos - over_cupti(asked.basis)).max(SHORTEST);
        let walked = self.walked(asked, shape);
        let Some(seen) = self.kernels.get_mut(&asked.kernel.identity) else { return };
        let known = seen.launches.iter().position(|(known, _)| known == shape);
        match known {
            Some(place) => seen.launches[place].1 = nanos,
            None if seen.launches.len() < MOST_LAUNCHES => seen.launches.push((*shape, nanos)),
            None => {}
        }
        let sight = sight(asked, seen, shape, walked.as_ref());
        seen.past.observe(&sight, nanos);
    }

    /// Asks for what is not known of the kernel, and takes in what was found.
    fn look(&mut self, asked: &Asked<'_>, shape: &LaunchShape) {
        if self.kernels.len() < MOST_KERNELS || self.kernels.contains_key(&asked.kernel.identity) {
            self.kernels.entry(asked.kernel.identity).or_insert_with(|| Seen {
                name: NameFacts::of(&asked.facts.name),
                code: None,
                launches: Vec::new(),
                past: Past::default(),
            });
        }
        let Some(reader) = &mut self.reader else { return };
        for told in reader.told() {
            match told {
                Told::Code(name, code) => drop(self.codes.insert(name, code)),
                Told::Walk(shaped, numbers) => {
                    if let Ok(numbers) = <&[f32; Walked::NAMES.len()]>::try_from(&numbers[..]) {
                        self.walks.insert(shaped, Walked::from_numbers(numbers));
                    }
                }
            }
        }
        let Some(process) = asked.known.process(asked.process) else { return };
        let Some(seen) = self.kernels.get_mut(&asked.kernel.identity) else { return };
        if seen.code.is_none() {
            let name = (asked.facts.image_hash, asked.facts.name.clone());
            match self.codes.get(&name) {
                Some(code) => {
                    seen.code = Some(Arc::clone(code));
                    seen_anew(asked, seen);
                }
                None => ask(reader, process, asked.facts),
            }
        }
        if let Some(code) = seen.code.as_ref().filter(|code| code.program.is_some())
            && let Some(passed) = process.passed.get(&(asked.facts.id as u32, sides(shape)))
        {
            reader.walk(code, asked.facts, passed, asked.device_facts);
        }
    }

    /// What the warps of a launch do, where it was walked.
    fn walked(&self, asked: &Asked<'_>, shape: &LaunchShape) -> Option<Walked> {
        if self.walks.is_empty() {
            return None;
        }
        let name = (asked.facts.image_hash, asked.facts.name.clone());
        self.walks.get(&(name, sides(shape))).copied()
    }
}

/// Asks for the code of a kernel whose image was told.
fn ask(reader: &mut CodeReader, process: &KnownProcess, kernel: &facts::Kernel) {
    let number = u32::try_from(kernel.image).unwrap_or(0);
    if let Some(image) = process.images.get(&number).filter(|image| image.hash == kernel.image_hash)
    {
        reader.read(image, kernel);
    }
}

/// What was measured, seen with what is known now.
fn seen_anew(asked: &Asked<'_>, seen: &mut Seen) {
    let mut past = Past::default();
    for (shape, nanos) in &seen.launches {
        past.observe(&sight(asked, seen, shape, None), *nanos);
    }
    seen.past = past;
}

fn sight(asked: &Asked<'_>, seen: &Seen, shape: &LaunchShape, walked: Option<&Walked>) -> Sight {
    let machine = seen.code.as_ref().and_then(|code| code.machine.as_ref());
    let of_text = seen.code.as_ref().and_then(|code| code.totals);
    let (mix, mut looped) = match machine {
        Some(machine) => {
            let looped = Looped::of_machine(totals::looped(machine));
            (Mix::from_counts(&totals::of_machine(machine)), looped)
        }
        None => (
            of_text.map_or_else(Mix::default, |totals| Mix::from_counts(&totals)),
            Looped::default(),
        ),
    };
    looped.has_text = seen.code.as_ref().is_some_and(|code| code.program.is_some());
    let kernel = Kernel { mix, ..*asked.kernel };
    let passed = asked
        .known
        .process(asked.process)
        .filter(|process| !process.passed.is_empty())
        .and_then(|process| process.passed.get(&(asked.facts.id as u32, sides(shape))));
    let arguments = passed.map(|passed| arguments(asked.facts, passed));
    let plain = apex_policy::LaunchShape { grid: shape.grid, block: shape.block.map(u32::from) };
    let question = Question::by_shape(asked.device, &kernel, plain, shape.dynamic_shared);
    let question = Question {
        arguments: arguments.as_ref().unwrap_or(Arguments::NONE),
        walked: walked.unwrap_or(Walked::NONE),
        ..question
    };
    Sight::of(&question, looped, seen.name, asked.basis != TimeBasis::EventPairIdle)
}

/// Eight bytes that lie in an allocation are a pointer, everything else of eight bytes or fewer an integer.
fn arguments(kernel: &facts::Kernel, passed: &facts::Passed) -> Arguments {
    let sizes = kernel.parameters.chunks_exact(2).map(|pair| pair[1]);
    let small = || {
        passed.values.iter().zip(&passed.bytes).zip(sizes.clone()).filter(|(_, size)| *size <= 8)
    };
    let integers: Vec<u64> =
        small().filter(|((_, bytes), _)| **bytes == 0).map(|((value, _), _)| *value).collect();
    let allocations: Vec<u64> =
        small().map(|((_, bytes), _)| *bytes).filter(|bytes| *bytes > 0).collect();
    Arguments::of(&integers, &allocations)
}

/// A shape as facts name it.
fn sides(shape: &LaunchShape) -> Vec<u64> {
    let LaunchShape { grid, block, cluster, dynamic_shared } = *shape;
    let sides = grid.into_iter().chain(block.map(u32::from)).chain(cluster.map(u32::from));
    sides.chain([dynamic_shared]).map(u64::from).collect()
}
