//! Sequences of launches that the driver keeps as graphs.
//!
//! A graph is a chain: each launch waits for the one before, as on a stream. Where it is proven that launches touch
//! nothing in common ([`crate::overlap`]), a second graph with branches takes turns with it until the faster one is known
//! ([`branches`]); before each launch with other parameters its branches are proven again. The driver takes a change of a
//! node while the graph still runs and applies it to later launches alone, so one graph of each form is enough.

mod branches;
mod executable;

use self::branches::{Branches, Pairs};
use self::executable::{Executable, launch_of, launched};
use super::known::mixed;
use super::ring::Entry;
use crate::counts::{COUNTERS, add};
use crate::overlap::{self, Placing};
use apex_cuda::Driver;
use apex_cuda::types::*;
use apex_policy::duel::{Form, Turn};
use apex_policy::submit::{Repeats, Step};

/// The graphs that are kept, and the sequences that have come.
pub(super) struct Graphs {
    repeats: Repeats,
    kept: Vec<Option<Graph>>,
    /// Events that nobody has.
    free: Pairs,
}

struct Graph {
    chain: Executable,
    beside: Beside,
}

/// What is known of the launches of a graph.
enum Beside {
    /// Some kernel is not known yet; the number says what was known when this was found.
    NotYet(u64),
    /// Each follows the one before, or that is faster.
    Nothing,
    /// Some of them may run at once.
    Branches(Box<Branches>),
}

/// Why the launches of a graph have not gone down.
pub(super) enum NotLaunched {
    /// A change of a node was refused, or the graph is not there: nothing was launched.
    Before,
    /// The driver's answer to the launch of the graph.
    Refused(CUresult),
}

impl Default for Graphs {
    fn default() -> Graphs {
        let repeats = Repeats::new(super::costs::known());
        Graphs { repeats, kept: Vec::new(), free: Pairs::default() }
    }
}

impl Graphs {
    /// What to do with a piece of these words.
    pub(super) fn came(&mut self, words: &[u64]) -> Step {
        self.repeats.came(mixed(words), words.len())
    }

    /// Launches a kept graph with the parameters of these launches.
    pub(super) fn launch(
        &mut self,
        number: u32,
        entries: &[&Entry],
        driver: &Driver,
    ) -> Result<(), NotLaunched> {
        let kept = self.kept.get_mut(number as usize).and_then(Option::as_mut);
        let graph = kept.ok_or(NotLaunched::Before)?;
        let launch = entries.first().and_then(|entry| launch_of(entry));
        let stream = launch.ok_or(NotLaunched::Before)?.stream;
        graph.look_again(entries, &mut self.free, driver);
        let turn = graph.turn(entries);
        let form = graph.form(turn.form);
        let changed = form.change(entries, driver).map_err(|_| {
            graph.doubt(turn.form);
            NotLaunched::Before
        })?;
        let pair = turn.is_timed.then(|| self.free.take(driver)).flatten();
        let is_timed = pair.is_some_and(|pair| pair.record(0, stream, driver));
        let result = graph.form(turn.form).launch(stream, driver);
        if let Some(pair) = pair {
            let is_timed = is_timed && result.is_ok() && pair.record(1, stream, driver);
            match &mut graph.beside {
                Beside::Branches(branches) if is_timed => branches.timed(turn.form, pair),
                _ => self.free.give(pair),
            }
        }
        result.map_err(NotLaunched::Refused)?;
        add(&COUNTERS.graphs, 1);
        add(&COUNTERS.in_graphs, entries.len() as u64);
        add(&COUNTERS.changed, changed);
        if let (Beside::Branches(branches), Form::Rewritten) = (&graph.beside, turn.form) {
            branches.count(entries.len());
        }
        Ok(())
    }

    /// Makes a graph of these launches and keeps it.
    pub(super) fn build(&mut self, words: &[u64], entries: &[&Entry], driver: &Driver) {
        let key = mixed(words);
        match Graph::new(entries, driver) {
            Ok(graph) => {
                let free = self.kept.iter().position(Option::is_none);
                let number = free.unwrap_or(self.kept.len());
                match self.kept.get_mut(number) {
                    Some(place) => *place = Some(graph),
                    None => self.kept.push(Some(graph)),
                }
                add(&COUNTERS.made, 1);
                add(&COUNTERS.built, words.len() as u64);
                // Branches are a second graph.
                let forms = if overlap::is_raised() { 2 } else { 1 };
                self.repeats.built(key, number as u32, forms * words.len());
            }
            Err(_) => self.repeats.refused(key),
        }
        while let Some(number) = self.repeats.give_up() {
            if let Some(graph) = self.kept.get_mut(number as usize).and_then(Option::take) {
                graph.destroy(&mut self.free, driver);
            }
        }
    }

    /// Gives all graphs back.
    pub(super) fn forget(&mut self, driver: &Driver) {
        for graph in self.kept.drain(..).flatten() {
            graph.destroy(&mut self.free, driver);
        }
        self.free.destroy(driver);
        self.repeats.forget();
    }
}

impl Graph {
    fn new(entries: &[&Entry], driver: &Driver) -> Result<Graph, CUresult> {
        let chain = Executable::new(entries, None, driver)?;
        Ok(Graph { chain, beside: Beside::of(entries, driver) })
    }

    /// Branches come where more is known of the kernels than before, and go where they do not pay.
    fn look_again(&mut self, entries: &[&Entry], free: &mut Pairs, driver: &Driver) {
        match &mut self.beside {
            Beside::NotYet(settled) if *settled != overlap::settled() => {
                self.beside = Beside::of(entries, driver);
            }
            Beside::Branches(branches) => {
                if branches.is_lost(free, driver) {
                    std::mem::replace(&mut self.beside, Beside::Nothing).destroy(free, driver);
                }
            }
            Beside::NotYet(_) | Beside::Nothing => {}
        }
    }

    /// How these launches go.
    fn turn(&mut self, entries: &[&Entry]) -> Turn {
        match &mut self.beside {
            Beside::Branches(branches) => branches.turn(entries),
            Beside::NotYet(_) | Beside::Nothing => Turn { form: Form::Original, is_timed: false },
        }
    }

    fn form(&mut self, form: Form) -> &mut Executable {
        match (&mut self.beside, form) {
            (Beside::Branches(branches), Form::Rewritten) => &mut branches.graph,
            _ => &mut self.chain,
        }
    }

    /// The nodes of a form have not got the parameters that were asked about.
    fn doubt(&mut self, form: Form) {
        if let (Beside::Branches(branches), Form::Rewritten) = (&mut self.beside, form) {
            branches.doubt();
        }
    }

    fn destroy(self, free: &mut Pairs, driver: &Driver) {
        self.beside.destroy(free, driver);
        self.chain.destroy(driver);
    }
}

impl Beside {
    /// Looks at the launches of a graph.
    fn of(entries: &[&Entry], driver: &Driver) -> Beside {
        match Placing::of(&launched(entries), driver) {
            Placing::NotYet(settled) => Beside::NotYet(settled),
            Placing::Chain => Beside::Nothing,
            Placing::Branches(piece) => match Branches::new(piece, entries, driver) {
                Ok(branches) => Beside::Branches(Box::new(branches)),
                Err(_) => Beside::Nothing,
            },
        }
    }

    fn destroy(self, free: &mut Pairs, driver: &Driver) {
        if let Beside::Branches(branches) = self {
            branches.destroy(free, driver);
        }
    }
}
