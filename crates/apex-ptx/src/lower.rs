//! Brings PTX that was made for one chip down to an older one: parsed, rewritten, printed.
//!
//! PTX runs on its own target and on later ones only. Most text for a newer chip says nothing that an older one could
//! not do: there its two header lines are all that changes. What is newer stands in one table ([`FEATURES`]): each row
//! has a rewriting with the same result, or says why there is none. Always holds:
//!
//! 1. Nothing is dropped silently. What cannot be brought down is an error that names its line and the reason, and what
//!    was rewritten is counted by its row.
//! 2. What the table does not know stays as it is. The driver's own compiler then refuses it, in its own words.
//! 3. A rewriting is looked at again: it may use what the next older chip lacks.
//! 4. Registers of a rewriting live in a block of their own, under names that nothing around it has.

mod arithmetic;
mod asynchronous;
mod byte_matrix;
mod convert;
mod features;
mod matrix;
mod memory;
mod scaled_convert;
mod scaled_product;
mod scope;
mod stochastic;
mod target;
mod warp;
mod write;

use crate::error::SyntaxError;
use crate::tree::{Function, Instruction, Item, Module, Name, Statement};
use core::fmt;
pub use features::{Exact, FEATURES, Feature, Since, page};
use scope::Scopes;
pub use target::{Goal, Target, newest_ptx};
use write::Around;

/// A text that was brought down.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered {
    /// The new text.
    pub text: String,
    /// The target and the version that the text had.
    pub was: (Name, (u32, u32)),
    /// What was rewritten, in the order of the table.
    pub changes: Vec<Change>,
}

/// How often a feature was rewritten.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The row of the table.
    pub feature: &'static Feature,
    /// How many instructions.
    pub count: u32,
    /// The line of the first.
    pub line: u32,
}

/// An instruction that has no equal on the older chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Where it stands.
    pub line: u32,
    /// The instruction.
    pub instruction: String,
    /// Why it cannot be brought down.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: `{}`: {}", self.line, self.instruction, self.reason)
    }
}

/// Why a text was not brought down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LowerError {
    /// It is no PTX.
    Syntax(SyntaxError),
    /// Its target is none that is known here.
    Target(Name),
    /// It says what the older chip cannot do; in the order of the text.
    Refused(Vec<Refused>),
}

impl fmt::Display for LowerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LowerError::Syntax(error) => write!(out, "{error}"),
            LowerError::Target(name) => write!(out, "the target {name} is not known here"),
            LowerError::Refused(all) => {
                let lines: Vec<String> = all.iter().map(Refused::to_string).collect();
                out.write_str(&lines.join("\n"))
            }
        }
    }
}

impl core::error::Error for LowerError {}

/// Rewritings of rewritings: a feature is at most this many chips away from what it becomes.
const DEEPEST: u32 = 8;

/// Brings a text down to a chip. A text that the chip takes as it is comes back as it was.
pub fn lower(text: &str, goal: Goal) -> Result<Lowered, LowerError> {
    let mut module = crate::parse(text).map_err(LowerError::Syntax)?;
    let name = module.target.first().cloned().unwrap_or_default();
    let own = Target::named(&name).ok_or_else(|| LowerError::Target(name.clone()))?;
    let was = (name, module.version);
    if goal.target.runs(own) && module.version <= goal.version {
        return Ok(Lowered { text: text.to_owned(), was, changes: Vec::new() });
    }
    let mut lowering = Lowering {
        goal,
        prefix: free_prefix(text),
        counts: vec![(0, 0); FEATURES.len()],
        refused: Vec::new(),
        needs_own: false,
    };
    for item in &mut module.items {
        if let Item::Function(function) = item {
            lowering.function(function);
        }
    }
    if !lowering.refused.is_empty() {
        return Err(LowerError::Refused(lowering.refused));
    }
    lowering.header(&mut module, own);
    let changes = FEATURES.iter().zip(&lowering.counts);
    let changes = changes.filter(|(_, (count, _))| *count > 0);
    let changes =
        changes.map(|(feature, &(count, line))| Change { feature, count, line }).collect();
    Ok(Lowered { text: module.to_string(), was, changes })
}

/// A beginning of names that the text does not have.
fn free_prefix(text: &str) -> String {
    let mut prefix = String::from("lower_");
    while text.contains(&prefix) {
        prefix.push('_');
    }
    prefix
}

/// One text on its way down.
struct Lowering {
    goal: Goal,
    prefix: String,
    /// For each row of the table how often it was rewritten, and the first line.
    counts: Vec<(u32, u32)>,
    refused: Vec<Refused>,
    /// Something was kept that only this very chip has.
    needs_own: bool,
}

impl Lowering {
    fn header(&self, module: &mut Module, own: Target) {
        module.version = module.version.min(self.goal.version);
        if !self.goal.target.runs(own) || self.needs_own {
            let target = Target { is_own: self.needs_own, ..self.goal.target };
            module.target[0] = target.to_string().into();
        }
    }

    fn function(&mut self, function: &mut Function) {
        if let Err(reason) = self.directives(function) {
            let instruction = function.name.to_string();
            self.refused.push(Refused { line: function.line, instruction, reason });
        }
        if let Some(body) = &mut function.body {
            let mut scopes = Scopes::default();
            let parameters = function.returns.iter().chain(&function.params);
            scopes.open_with(parameters);
            self.statements(body, &mut scopes, 0);
        }
    }

    /// Clusters are the one thing before a body that chips before sm_90 lack.
    fn directives(&self, function: &mut Function) -> Result<(), String> {
        use crate::tree::Directive::{
            BlocksAreClusters, ExplicitCluster, MaxClusterRank, ReqNctaPerCluster,
        };
        if self.goal.target.number >= 90 {
            return Ok(());
        }
        let mut clusters = false;
        function.directives.retain(|directive| match directive {
            // A cluster of one block is a block.
            ReqNctaPerCluster(shape) => {
                clusters |= *shape != [1; 3];
                false
            }
            MaxClusterRank(_) => false,
            ExplicitCluster | BlocksAreClusters => {
                clusters = true;
                false
            }
            _ => true,
        });
        let reason = "the kernel is launched in clusters, which came with sm_90";
        if clusters { Err(reason.into()) } else { Ok(()) }
    }

    fn statements(&mut self, statements: &mut Vec<Statement>, scopes: &mut Scopes, depth: u32) {
        scopes.open(statements);
        let mut written = Vec::with_capacity(statements.len());
        for mut statement in core::mem::take(statements) {
            match &mut statement {
                Statement::Block(inner) => self.statements(inner, scopes, depth),
                Statement::Instruction(instruction) => {
                    if let Some(mut instead) = self.instruction(instruction, scopes, depth) {
                        if depth < DEEPEST {
                            self.statements(&mut instead, scopes, depth + 1);
                        }
                        written.append(&mut instead);
                        continue;
                    }
                }
                _ => {}
            }
            written.push(statement);
        }
        *statements = written;
        scopes.close();
    }

    /// What stands in the instruction's place; nothing where it may stay.
    fn instruction(
        &mut self,
        it: &Instruction,
        scopes: &Scopes,
        depth: u32,
    ) -> Option<Vec<Statement>> {
        let place = FEATURES.iter().position(|feature| {
            (feature.is)(it) && !feature.since.is_there(self.goal) && {
                let own = feature.since.is_own(self.goal);
                self.needs_own |= own;
                !own
            }
        })?;
        let feature = &FEATURES[place];
        // A rewriting of a rewriting stands within it, and must not hide its names.
        let prefix = format!("{}{depth}_", self.prefix);
        let around = Around { prefix: &prefix, scopes };
        match (feature.rewrite)(it, &around) {
            Ok(instead) => {
                let (count, line) = &mut self.counts[place];
                *count += 1;
                if *count == 1 {
                    *line = it.line;
                }
                Some(instead)
            }
            Err(reason) => {
                let instruction = it.to_string().trim_end_matches(';').to_owned();
                self.refused.push(Refused { line: it.line, instruction, reason });
                None
            }
        }
    }
}
