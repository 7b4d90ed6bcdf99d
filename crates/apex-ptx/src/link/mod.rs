//! Several modules become one.
//!
//! What nvlink does for machine code happens here on the tree. A symbol seen by all modules has
//! one definition: a strong one beats weak and common ones, of weak ones the first is taken, of
//! common ones the largest. Symbols that only their own module sees keep their names while
//! nobody else uses them, and else get the module's number behind the name. Dynamic shared
//! memory (`.extern .shared x[]`) is no reference to anything and becomes one declaration.
//!
//! What stays unresolved is named and left declared, since only the caller knows which
//! functions (`vprintf`, `malloc`) it provides itself. Debug information of several modules is
//! left out: its labels and file numbers speak of one text only. Instructions keep the line
//! they have in their own text.
//!
//! The result is in the order ptxas wants: functions declared, then variables, each after those
//! its initial value refers to, then bodies.

mod order;

use core::fmt;
use std::collections::{HashMap, HashSet};

use self::order::Parts;
use crate::rename::{Renaming, rename_item};
use crate::tree::{Item, Linkage, Module, Name, Space, Variable};

/// The outcome of linking.
#[derive(Debug, Clone, PartialEq)]
pub struct Linked {
    /// All modules in one.
    pub module: Module,
    /// What is used and defined nowhere, in the order of first declaration.
    pub unresolved: Vec<Unresolved>,
}

/// A symbol that no module defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// Its name.
    pub name: Name,
    /// Whether it is a function; else it is a variable.
    pub is_function: bool,
    /// The module that declares it, counted from 0.
    pub module: usize,
    /// The line of the declaration.
    pub line: u32,
}

/// Modules that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkError {
    /// There is nothing to link.
    Nothing,
    /// Two modules define the same symbol.
    Duplicate {
        /// The symbol.
        name: Name,
        /// The two modules, counted from 0.
        modules: (usize, usize),
    },
    /// A variable in one module and a function in another.
    Mixed {
        /// The symbol.
        name: Name,
    },
    /// Modules for 32-bit and for 64-bit addresses.
    AddressSize,
}

impl fmt::Display for LinkError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Nothing => write!(out, "there is no module to link"),
            LinkError::Duplicate { name, modules: (first, second) } => write!(
                out,
                "{name} is defined twice: in module {} and in module {}; rename one, or make it \
                 static or weak",
                first + 1,
                second + 1
            ),
            LinkError::Mixed { name } => {
                write!(out, "{name} is a variable in one module and a function in another")
            }
            LinkError::AddressSize => {
                write!(out, "modules of 32-bit and 64-bit addresses cannot be linked")
            }
        }
    }
}

impl core::error::Error for LinkError {}

/// Links the modules. One module alone comes back as it is.
pub fn link(modules: &[Module]) -> Result<Linked, LinkError> {
    let [first, rest @ ..] = modules else {
        return Err(LinkError::Nothing);
    };
    if rest.iter().any(|module| module.address_size != first.address_size) {
        return Err(LinkError::AddressSize);
    }
    let mut symbols = Symbols::default();
    for (number, module) in modules.iter().enumerate() {
        symbols.collect(number, module)?;
    }
    let unresolved = symbols.unresolved(modules);
    if rest.is_empty() {
        return Ok(Linked { module: first.clone(), unresolved });
    }
    let items = symbols.merge(modules);
    let module = Module {
        version: modules.iter().map(|module| module.version).max().unwrap_or(first.version),
        target: target(modules),
        address_size: first.address_size,
        items,
    };
    Ok(Linked { module, unresolved })
}

/// The highest architecture, and every option but `debug`, whose sections are left out.
fn target(modules: &[Module]) -> Vec<Name> {
    let number = |name: &Name| -> u32 {
        name.trim_start_matches("sm_").trim_end_matches(char::is_alphabetic).parse().unwrap_or(0)
    };
    let architectures = modules.iter().filter_map(|module| module.target.first());
    let mut target: Vec<Name> =
        architectures.max_by_key(|name| number(name)).cloned().into_iter().collect();
    for option in modules.iter().flat_map(|module| module.target.iter().skip(1)) {
        if &**option != "debug" && !target.contains(option) {
            target.push(option.clone());
        }
    }
    target
}

/// Where a symbol's definition stands and how strong it is.
#[derive(Clone, Copy)]
struct Definition {
    module: usize,
    item: usize,
    linkage: Linkage,
    bytes: u64,
}

#[derive(Default)]
struct Symbols {
    /// Symbols all modules see: the definition taken.
    shared: HashMap<Name, Definition>,
    /// Symbols one module sees, by module.
    own: HashMap<(usize, Name), Definition>,
    /// Whether a name is a function, for all modules but those that own the name.
    is_function: HashMap<Name, bool>,
    /// How many modules use each name at the top level.
    users: HashMap<Name, HashSet<usize>>,
}

/// A symbol's name, linkage, whether it is a function, and its size if it is defined here.
struct Facts<'module> {
    name: &'module Name,
    linkage: Linkage,
    is_function: bool,
    defined: Option<u64>,
    line: u32,
}

fn facts(item: &Item) -> Option<Facts<'_>> {
    match item {
        Item::Variable(variable) => Some(Facts {
            name: &variable.name,
            linkage: variable.linkage,
            is_function: false,
            defined: (variable.linkage != Linkage::Extern).then(|| variable.bytes().unwrap_or(0)),
            line: variable.line,
        }),
        Item::Function(function) => Some(Facts {
            name: &function.name,
            linkage: function.linkage,
            is_function: true,
            defined: function.body.as_ref().map(|_| 0),
            line: function.line,
        }),
        Item::Alias { alias, line, .. } => Some(Facts {
            name: alias,
            linkage: Linkage::Visible,
            is_function: true,
            defined: Some(0),
            line: *line,
        }),
        Item::Verbatim(_) => None,
    }
}

fn is_dynamic_shared(item: &Item) -> bool {
    matches!(item, Item::Variable(Variable { linkage: Linkage::Extern, space: Space::Shared, .. }))
}

impl Symbols {
    fn collect(&mut self, number: usize, module: &Module) -> Result<(), LinkError> {
        for (place, item) in module.items.iter().enumerate() {
            let Some(facts) = facts(item) else {
                continue;
            };
            self.users.entry(facts.name.clone()).or_default().insert(number);
            let Some(bytes) = facts.defined else {
                continue;
            };
            let new = Definition { module: number, item: place, linkage: facts.linkage, bytes };
            if facts.linkage == Linkage::Internal {
                match self.own.insert((number, facts.name.clone()), new) {
                    Some(_) => return Err(duplicate(facts.name, number, number)),
                    None => continue,
                }
            }
            let known = self.is_function.insert(facts.name.clone(), facts.is_function);
            if known.is_some_and(|known| known != facts.is_function) {
                return Err(LinkError::Mixed { name: facts.name.clone() });
            }
            match self.shared.get(facts.name) {
                None => {
                    self.shared.insert(facts.name.clone(), new);
                }
                Some(old) => {
                    if stronger(*old, new)
                        .ok_or_else(|| duplicate(facts.name, old.module, number))?
                    {
                        self.shared.insert(facts.name.clone(), new);
                    }
                }
            }
        }
        Ok(())
    }

    /// The definition a name means in a module.
    fn find(&self, module: usize, name: &Name) -> Option<Definition> {
        self.own.get(&(module, name.clone())).or_else(|| self.shared.get(name)).copied()
    }

    fn unresolved(&self, modules: &[Module]) -> Vec<Unresolved> {
        let mut seen = HashSet::new();
        let mut unresolved = Vec::new();
        for (number, module) in modules.iter().enumerate() {
            for item in &module.items {
                let Some(facts) = facts(item) else {
                    continue;
                };
                if facts.defined.is_some() || is_dynamic_shared(item) {
                    continue;
                }
                if self.find(number, facts.name).is_none() && seen.insert(facts.name.clone()) {
                    let Facts { name, is_function, line, .. } = facts;
                    unresolved.push(Unresolved {
                        name: name.clone(),
                        is_function,
                        module: number,
                        line,
                    });
                }
            }
        }
        unresolved
    }

    /// New names for the module's own symbols that somebody else's are called as well.
    fn renaming(&self, number: usize, module: &Module) -> Renaming {
        let mut renaming = Renaming::new();
        for facts in module.items.iter().filter_map(facts) {
            let own = self.own.contains_key(&(number, facts.name.clone()));
            let used_elsewhere = self.users.get(facts.name).is_some_and(|users| users.len() > 1);
            if !own || !used_elsewhere {
                continue;
            }
            let mut apart = Name::from(format!("{}$module{}", facts.name, number + 1));
            while self.users.contains_key(&apart) {
                apart = Name::from(format!("{apart}_"));
            }
            renaming.insert(facts.name.clone(), apart);
        }
        renaming
    }

    fn merge(&self, modules: &[Module]) -> Vec<Item> {
        let mut parts = Parts::default();
        for (number, module) in modules.iter().enumerate() {
            let renaming = self.renaming(number, module);
            for (place, item) in module.items.iter().enumerate() {
                let mut item = item.clone();
                let taken = facts(&item).is_none_or(|facts| {
                    self.find(number, facts.name).is_none_or(|definition| {
                        // An alias needs the declaration of its name beside it.
                        let aliased = matches!(
                            modules[definition.module].items[definition.item],
                            Item::Alias { .. }
                        );
                        definition.module == number && (definition.item == place || aliased)
                    })
                });
                if taken {
                    rename_item(&mut item, &renaming);
                    parts.take(item);
                }
            }
        }
        parts.in_order()
    }
}

fn duplicate(name: &Name, first: usize, second: usize) -> LinkError {
    LinkError::Duplicate { name: name.clone(), modules: (first, second) }
}

/// Whether the new definition is taken instead of the old; `None` if both insist.
fn stronger(old: Definition, new: Definition) -> Option<bool> {
    match (old.linkage, new.linkage) {
        (Linkage::Visible, Linkage::Visible) => None,
        (Linkage::Visible, _) => Some(false),
        (_, Linkage::Visible) => Some(true),
        (Linkage::Common, Linkage::Common) => Some(new.bytes > old.bytes),
        (Linkage::Common, _) => Some(true),
        _ => Some(false),
    }
}
