//! Which bytes of memory a launch may touch.
//!
//! A kernel is followed once: the address of each load, store and atomic becomes an expression over what a launch is
//! told, which is its shape and its parameters. [`Touches::of`] then works the expressions out as ranges of numbers. They hold
//! for every thread and every turn of every loop: comparisons that lead to an instruction bound what was computed from
//! them, and loops bound their registers by their turns. Where an index is read from memory or a turn has no known end,
//! the address lies somewhere in the allocation that its pointer points into.
//!
//! What cannot be shown makes the kernel a [`Barrier`], for example an address that was itself read from memory. It is taken for
//! granted that a kernel does not leave the allocation that its pointer points into, and that a register which nothing
//! wrote is not used.

mod decode;
mod evaluate;
mod follow;
mod interval;
mod loops;
mod node;

use crate::code::Code;
use crate::tree::{Function, Module, Name};
use core::ops::Range;
use evaluate::{evaluate, symbol_base};
use follow::Follower;
use interval::Interval;
use node::{Id, Node, Nodes, Operation};
use std::collections::HashMap;

macro_rules! barriers {
    ($($(#[doc = $about:literal])+ $name:ident $word:literal;)+) => {
        /// Why nothing is known of what a launch touches.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Barrier {
            $($(#[doc = $about])+ $name,)+
        }

        impl Barrier {
            /// Every reason.
            pub const ALL: &'static [Barrier] = &[$(Barrier::$name),+];

            /// In one word, for documents.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Barrier::$name => $word,)+
                }
            }
        }
    };
}

barriers! {
    /// There is no PTX of the kernel, or it cannot be read.
    Text "text";
    /// The kernel is too large to be followed.
    Large "large";
    /// It calls a function that may reach memory.
    Call "call";
    /// It reads or writes through a texture or a surface.
    Texture "texture";
    /// An address was read from memory, or has two roots.
    Pointer "pointer";
    /// A loop may wait for what other blocks write, or a store may be what others wait for.
    Spin "spin";
    /// It waits for other launches, or steers them.
    Launch "launch";
    /// A copy that runs by itself takes its address from a descriptor or its length from a register.
    Copy "copy";
    /// An instruction is not known here.
    Unknown "unknown";
    /// A loop has more than one beginning.
    Loop "loop";
    /// A pointer leads to memory of which nothing is known: managed, mapped, or not the device's.
    Memory "memory";
}

/// What is done with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// They are read.
    Read,
    /// They are written.
    Write,
    /// Both, as by atomics.
    Both,
}

/// Where a range of bytes lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// At these addresses.
    Memory,
    /// In a variable of the module, by its place in [`Touches::variables`]; bytes count from its beginning.
    Variable(u32),
}

/// Bytes that a launch may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// Where.
    pub place: Place,
    /// Which.
    pub bytes: Range<u64>,
    /// What it does with them.
    pub kind: Kind,
}

/// Addresses that an access of a launch may have, counted from one pointer or variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// What it does there.
    pub kind: Kind,
    /// The pointer among the parameters, by its first byte; none where it counts from a variable of the module.
    pub pointer: Option<u32>,
    /// The first address, and the one behind the last. An access may have fewer.
    pub low: i128,
    /// As above.
    pub high: i128,
    /// Any address of the pointer's allocation is possible; `low` and `high` say nothing.
    pub is_wild: bool,
}

/// A launch, as far as addresses depend on it.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// The parameters, laid out as in the kernel.
    pub parameters: &'a [u8],
}

/// Room to work in, kept from launch to launch.
#[derive(Debug, Default)]
pub struct Scratch(Vec<Interval>);

/// From which pointer an address counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Root {
    /// Offsets of parameters of 8 bytes that are added; at most one of them can be a pointer.
    parameters: Vec<u32>,
    variable: Option<u32>,
    is_private: bool,
    is_mixed: bool,
}

#[derive(Debug, Clone)]
struct Access {
    address: Id,
    offsets: Range<i64>,
    kind: Kind,
    root: Root,
}

/// What each launch of a kernel touches, as expressions.
#[derive(Debug, Clone)]
pub struct Touches {
    nodes: Vec<Node>,
    accesses: Vec<Access>,
    variables: Vec<(Name, Option<u64>)>,
    parameters: Vec<(u32, u32)>,
}

/// Accesses that differ, at most: more are no kernel that is worth it.
const MOST_ACCESSES: usize = 256;
/// A pointer this near the end of an allocation may mean the next one.
const NEAR_END: u64 = 4096;

impl Touches {
    /// Follows a kernel of a module.
    ///
    /// # Errors
    ///
    /// Why nothing can be said of any launch of it.
    pub fn new(module: &Module, kernel: &Function) -> Result<Touches, Barrier> {
        let code = Code::new(kernel).map_err(|_| Barrier::Text)?;
        if module.address_size != 64 || kernel.body.is_none() {
            return Err(Barrier::Text);
        }
        let mut follower = Follower::new(&code, module, kernel)?;
        follower.follow()?;
        let bound = loops::bind(&mut follower);
        let parameters = follower.layout.clone();
        let Follower { mut nodes, reaches, symbols, .. } = follower;
        let mut roots = HashMap::new();
        let mut accesses: Vec<Access> = Vec::new();
        let mut done = HashMap::new();
        for reach in reaches {
            let address = loops::resolved(&mut nodes, reach.address, &bound, &mut done);
            let (address, offset) = without_constant(&nodes, address);
            let begin = offset.checked_add(reach.offset).ok_or(Barrier::Unknown)?;
            let end = begin.checked_add(reach.bytes).ok_or(Barrier::Unknown)?;
            let root = root_of(&nodes, address, &mut roots);
            if nodes.is_too_much() {
                return Err(Barrier::Large);
            }
            if root.is_private && root.parameters.is_empty() && root.variable.is_none() {
                continue;
            }
            let is_rootless = root.parameters.is_empty() && root.variable.is_none();
            if is_rootless || root.is_private || root.is_mixed {
                return Err(Barrier::Pointer);
            }
            let same = accesses
                .iter_mut()
                .find(|access| access.address == address && access.kind == reach.kind);
            match same {
                Some(access) => {
                    let offsets = &mut access.offsets;
                    *offsets = offsets.start.min(begin)..offsets.end.max(end);
                }
                None => {
                    accesses.push(Access { address, offsets: begin..end, kind: reach.kind, root });
                }
            }
            if accesses.len() > MOST_ACCESSES {
                return Err(Barrier::Large);
            }
        }
        Ok(Touches { parameters, ..Touches::of_needed(&nodes, accesses, symbols) })
    }

    /// Keeps the nodes that some access needs.
    fn of_needed(
        nodes: &Nodes,
        mut accesses: Vec<Access>,
        variables: Vec<(Name, Option<u64>)>,
    ) -> Touches {
        let mut is_needed = vec![false; nodes.all.len()];
        let mut waiting: Vec<Id> = accesses.iter().map(|access| access.address).collect();
        while let Some(id) = waiting.pop() {
            if !std::mem::replace(&mut is_needed[id.0 as usize], true) {
                nodes.get(id).parts(&mut |part| waiting.push(part));
            }
        }
        let (mut kept, mut place) = (Vec::new(), vec![0; nodes.all.len()]);
        for (nth, node) in nodes.all.iter().enumerate().filter(|(nth, _)| is_needed[*nth]) {
            place[nth] = kept.len() as u32;
            kept.push(node.with(|part| Id(place[part.0 as usize])));
        }
        for access in &mut accesses {
            access.address = Id(place[access.address.0 as usize]);
        }
        Touches { nodes: kept, accesses, variables, parameters: Vec::new() }
    }

    /// Variables of the module that may be touched.
    pub fn variables(&self) -> impl Iterator<Item = &Name> {
        self.variables.iter().map(|(name, _)| name)
    }

    /// Offset and size of each parameter of the kernel.
    #[must_use]
    pub fn parameters(&self) -> &[(u32, u32)] {
        &self.parameters
    }

    /// Expressions that are worked out for each launch.
    #[must_use]
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// What a launch touches. `allocation` says in which allocation an address lies; it knows only memory of the device
    /// that has one address.
    ///
    /// # Errors
    ///
    /// Why nothing can be said of this launch.
    pub fn of(
        &self,
        shape: &Shape<'_>,
        allocation: &mut dyn FnMut(u64) -> Option<Range<u64>>,
        scratch: &mut Scratch,
        touched: &mut Vec<Touch>,
    ) -> Result<(), Barrier> {
        touched.clear();
        let values = &mut scratch.0;
        evaluate(&self.nodes, shape, values);
        for access in &self.accesses {
            let value = values[access.address.0 as usize];
            // No thread comes there.
            if value.low > value.high {
                continue;
            }
            // Nothing lies at a null pointer: no thread that gets there lives to tell.
            if access.root.is_null(shape) {
                continue;
            }
            let (place, bytes) = self.range(access, value, shape, allocation)?;
            if bytes.is_empty() {
                continue;
            }
            let same =
                touched.iter_mut().find(|touch| touch.place == place && touch.bytes == bytes);
            match same {
                Some(touch) if touch.kind != access.kind => touch.kind = Kind::Both,
                Some(_) => {}
                None => touched.push(Touch { place, bytes, kind: access.kind }),
            }
        }
        Ok(())
    }

    /// The addresses of each access by itself, each with the pointer that it counts from.
    ///
    /// # Errors
    ///
    /// Why nothing can be said of this launch.
    pub fn spans(
        &self,
        shape: &Shape<'_>,
        allocation: &mut dyn FnMut(u64) -> Option<Range<u64>>,
    ) -> Result<Vec<Span>, Barrier> {
        let mut values = Vec::new();
        evaluate(&self.nodes, shape, &mut values);
        let mut spans = Vec::new();
        for access in &self.accesses {
            let value = values[access.address.0 as usize];
            if value.low > value.high || access.root.is_null(shape) {
                continue;
            }
            let mut pointer = None;
            for &offset in &access.root.parameters {
                let address = parameter(shape.parameters, offset).ok_or(Barrier::Text)?;
                if allocation(address).is_some() && pointer.replace(offset).is_some() {
                    return Err(Barrier::Pointer);
                }
            }
            match (access.root.variable, pointer) {
                (None, None) => return Err(Barrier::Memory),
                (Some(_), Some(_)) => return Err(Barrier::Pointer),
                _ => {}
            }
            spans.push(Span {
                kind: access.kind,
                pointer,
                low: i128::from(value.low) + i128::from(access.offsets.start),
                high: i128::from(value.high) + i128::from(access.offsets.end),
                is_wild: value.is_wild,
            });
        }
        Ok(spans)
    }

    fn range(
        &self,
        access: &Access,
        value: Interval,
        shape: &Shape<'_>,
        allocation: &mut dyn FnMut(u64) -> Option<Range<u64>>,
    ) -> Result<(Place, Range<u64>), Barrier> {
        let low = i128::from(value.low) + i128::from(access.offsets.start);
        let high = i128::from(value.high) + i128::from(access.offsets.end);
        let mut root = None;
        for &offset in &access.root.parameters {
            let pointer = parameter(shape.parameters, offset).ok_or(Barrier::Text)?;
            if let Some(found) = allocation(pointer)
                && root.replace((pointer, found)).is_some()
            {
                return Err(Barrier::Pointer);
            }
        }
        match (access.root.variable, root) {
            (Some(number), None) => {
                let bytes = self.variables[number as usize].1.ok_or(Barrier::Memory)?;
                let base = i128::from(symbol_base(number));
                let within = |address: i128| (address - base).clamp(0, i128::from(bytes)) as u64;
                Ok((Place::Variable(number), within(low)..within(high)))
            }
            (None, Some((pointer, found))) => {
                Ok((Place::Memory, in_memory(value, low, high, pointer, found, allocation)?))
            }
            (None, None) => Err(Barrier::Memory),
            (Some(_), Some(_)) => Err(Barrier::Pointer),
        }
    }
}

/// The range of an address whose pointer lies in an allocation.
fn in_memory(
    value: Interval,
    low: i128,
    high: i128,
    pointer: u64,
    found: Range<u64>,
    allocation: &mut dyn FnMut(u64) -> Option<Range<u64>>,
) -> Result<Range<u64>, Barrier> {
    let (begin, end) = (i128::from(found.start), i128::from(found.end));
    if low >= begin && high <= end {
        return Ok(low as u64..high as u64);
    }
    // A pointer to before the first element may lie in what stands before.
    let is_near_end = found.end - pointer <= NEAR_END && found.end - found.start > 2 * NEAR_END;
    if is_near_end || high <= begin || low >= end {
        // It is what it is, wherever the pointer itself points to.
        let is_possible = (0..1 << 57).contains(&low) && (0..1 << 57).contains(&high);
        let is_device = is_possible && !value.is_wild && allocation(low as u64).is_some();
        return if is_device { Ok(low as u64..high as u64) } else { Err(Barrier::Memory) };
    }
    // Bounds may be wider than what is reached: those of a stencil's edge are not told apart from its middle's. Without
    // this, buffers that stand side by side would seem to overlap.
    Ok(low.clamp(begin, end) as u64..high.clamp(begin, end) as u64)
}

fn parameter(parameters: &[u8], offset: u32) -> Option<u64> {
    let bytes = parameters.get(offset as usize..offset as usize + 8)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

fn without_constant(nodes: &Nodes, id: Id) -> (Id, i64) {
    match nodes.get(id) {
        Node::Binary(Operation::Add, inner, last, _) => match nodes.as_constant(last) {
            Some(offset) => (inner, offset),
            None => (id, 0),
        },
        _ => (id, 0),
    }
}

/// The root of an expression. Parts stand before what is made of them, so one pass over what is needed is enough.
fn root_of(nodes: &Nodes, id: Id, known: &mut HashMap<Id, Root>) -> Root {
    let mut waiting = vec![(id, false)];
    while let Some((id, are_parts_done)) = waiting.pop() {
        if known.contains_key(&id) {
            continue;
        }
        let node = nodes.get(id);
        if are_parts_done {
            let root = root(nodes, &node, |part| known.get(&part).cloned().unwrap_or_default());
            known.insert(id, root);
        } else {
            waiting.push((id, true));
            node.parts(&mut |part| waiting.push((part, false)));
        }
    }
    known.get(&id).cloned().unwrap_or_default()
}

fn root(nodes: &Nodes, node: &Node, of: impl Fn(Id) -> Root) -> Root {
    let nothing = Root::default();
    match *node {
        Node::Parameter { offset, bytes: 8, .. } => Root { parameters: vec![offset], ..nothing },
        Node::Symbol(number) => Root { variable: Some(number), ..nothing },
        Node::Private => Root { is_private: true, ..nothing },
        Node::Binary(Operation::Add, a, b, _) => added(of(a), of(b)),
        Node::Binary(Operation::Subtract, a, b, _) => {
            // A distance between two pointers has no root, and may lead from one to the other.
            let (from, less) = (of(a), of(b));
            let is_distance = from != nothing && less.variable.is_some() || less.is_private;
            Root { is_mixed: from.is_mixed || less.is_mixed || is_distance, ..from }
        }
        Node::Binary(Operation::And, a, b, _) => {
            let is_mask = |id: Id| nodes.as_constant(id).is_some_and(|mask| mask < 0);
            match (is_mask(a), is_mask(b)) {
                (_, true) => of(a),
                (true, _) => of(b),
                _ => nothing,
            }
        }
        Node::Known(a, ..) | Node::Wandering(a, _) => of(a),
        Node::Counted { first, .. } => of(first),
        Node::Either(_, a, b) => {
            let (a, b) = (of(a), of(b));
            let is_mixed = a.is_mixed || b.is_mixed || a != b;
            Root { is_mixed, ..added(a, b) }
        }
        _ => nothing,
    }
}

fn added(mut a: Root, b: Root) -> Root {
    a.is_mixed |= b.is_mixed || a.variable.is_some() && b.variable.is_some();
    a.is_mixed |= a.is_private != b.is_private && (a.has_memory() || b.has_memory());
    a.is_private |= b.is_private;
    a.variable = a.variable.or(b.variable);
    for offset in b.parameters {
        if !a.parameters.contains(&offset) {
            a.parameters.push(offset);
        }
    }
    a.is_mixed |= a.parameters.len() > 4;
    a
}

impl Root {
    fn is_null(&self, shape: &Shape<'_>) -> bool {
        let is_zero = |&offset: &u32| parameter(shape.parameters, offset) == Some(0);
        self.variable.is_none() && self.parameters.iter().all(is_zero)
    }

    fn has_memory(&self) -> bool {
        !self.parameters.is_empty() || self.variable.is_some()
    }
}
