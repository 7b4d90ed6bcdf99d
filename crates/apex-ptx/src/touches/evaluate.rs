//! Expressions as ranges, once a launch is known.

use super::Shape;
use super::interval::{Interval, View};
use super::node::{Bound, Comparison, Id, Node, Operation};

/// Where variables of a module are thought to lie: nowhere that a device has memory, and far from each other.
const SYMBOLS: i64 = 1 << 61;
/// Bytes between two of them.
const BETWEEN: i64 = 1 << 40;

/// Where a variable of the module is thought to begin.
pub(super) fn symbol_base(number: u32) -> i64 {
    SYMBOLS + i64::from(number) * BETWEEN
}

/// The ranges of all expressions; a node's parts stand before it.
pub(super) fn evaluate(nodes: &[Node], shape: &Shape<'_>, values: &mut Vec<Interval>) {
    values.clear();
    for node in nodes {
        let value = of(node, shape, values);
        values.push(value);
    }
}

fn of(node: &Node, shape: &Shape<'_>, values: &[Interval]) -> Interval {
    let at = |id: Id| values[id.0 as usize];
    let places = |count: u32| Interval::of(0, i64::from(count) - 1);
    match *node {
        Node::Constant(value) => Interval::exact(value),
        Node::Parameter { offset, bytes, signed } => {
            parameter(shape.parameters, offset as usize, bytes as usize, signed)
        }
        Node::Symbol(number) => Interval::exact(symbol_base(number)),
        Node::Thread(side) => places(shape.block[usize::from(side)]),
        Node::Block(side) => places(shape.grid[usize::from(side)]),
        Node::Threads(side) => Interval::exact(shape.block[usize::from(side)].into()),
        Node::Blocks(side) => Interval::exact(shape.grid[usize::from(side)].into()),
        Node::Lane => Interval::of(0, 31),
        Node::Unknown(_, view) | Node::Wandering(_, view) => Interval::all(view),
        Node::Private | Node::Phi(_) => Interval::NOTHING_KNOWN,
        Node::Binary(operation, a, b, view) => binary(operation, at(a), at(b), view),
        Node::Seen(a, view) => at(a).seen(view).unwrap_or(Interval::all(view)),
        Node::Either(_, a, b) => at(a).hull(at(b)),
        Node::Known(a, by, than, view) => known(at(a), by, at(than), view),
        Node::Counted { first, step, turns, bound, view } => {
            let turns = turns.map(at);
            counted(at(first), at(step), turns, view)
                .map(|range| match bound {
                    Some(bound) => bounded(range, at(first), (step, at(step)), bound, values),
                    None => range,
                })
                .unwrap_or(Interval::all(view))
        }
        Node::Turns { first, step, ahead, by, limit, view } => {
            let most = turns([at(first), at(step), at(ahead), at(limit)], by, view);
            most.map_or(Interval::NOTHING_KNOWN, |most| Interval::of(0, most))
        }
    }
}

fn parameter(parameters: &[u8], offset: usize, bytes: usize, signed: bool) -> Interval {
    let Some(value) = parameters.get(offset..offset + bytes) else {
        return Interval::NOTHING_KNOWN;
    };
    let mut whole = [0; 8];
    whole[..bytes].copy_from_slice(value);
    let value = i64::from_le_bytes(whole);
    let above = 64 - 8 * bytes as u32;
    Interval::exact(if signed { value << above >> above } else { value })
}

fn binary(operation: Operation, a: Interval, b: Interval, view: View) -> Interval {
    let range = match operation {
        Operation::Add => Some(a.plus(b)),
        Operation::Subtract => Some(a.minus(b)),
        Operation::Multiply => a.times(b),
        Operation::ShiftLeft => a.shifted_left(b, view.bits),
        Operation::And if view.bits >= 64 => masked(a, b),
        _ => a.seen(view).zip(b.seen(view)).and_then(|(a, b)| match operation {
            Operation::UpperHalf => a.upper_half(b, view.bits),
            Operation::And => a.and(b),
            Operation::Or => a.joined(b, true),
            Operation::Xor => a.joined(b, false),
            Operation::Least => Some(a.least(b)),
            Operation::Most => Some(a.most(b)),
            Operation::Divide => a.over(b),
            Operation::Rest => a.rest(b),
            _ => None,
        }),
    };
    let range = match operation {
        Operation::ShiftRight => shifted_right(a, b, view),
        _ => range,
    };
    range.unwrap_or(Interval::all(view))
}

/// A mask that only clears low bits leaves an address where it is.
fn masked(a: Interval, b: Interval) -> Option<Interval> {
    let clears_low = |mask: Interval| {
        mask.is_exact() && mask.low < 0 && mask.low.wrapping_neg().count_ones() == 1
    };
    match (clears_low(a), clears_low(b)) {
        (_, true) => Some(a.aligned(b.low)),
        (true, _) => Some(b.aligned(a.low)),
        _ => a.and(b),
    }
}

fn shifted_right(a: Interval, b: Interval, view: View) -> Option<Interval> {
    if let Some(seen) = a.seen(view) {
        return seen.shifted_right(b);
    }
    // Unsigned 64 bits with the upper one perhaps set.
    let by = u32::try_from(b.low).ok().filter(|by| (1..64).contains(by))?;
    Some(Interval { low: 0, high: (u64::MAX >> by) as i64, is_wild: true })
}

/// What a register holds that is known to compare so with numbers that `than` has.
fn known(value: Interval, by: Comparison, than: Interval, view: View) -> Interval {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Unequal};
    if view.bits >= 64 && !view.signed && than.low < 0 {
        return value;
    }
    let seen = match value.seen(view) {
        Some(seen) => seen,
        // Below a number of 63 bits nothing has the upper bit set.
        None if matches!(by, Less | LessOrEqual | Equal) => {
            Interval { low: 0, high: i64::MAX, is_wild: true }
        }
        None => return value,
    };
    let (mut low, mut high) = (seen.low, seen.high);
    match by {
        Less => high = high.min(than.high.saturating_sub(1)),
        LessOrEqual => high = high.min(than.high),
        Greater => low = low.max(than.low.saturating_add(1)),
        GreaterOrEqual => low = low.max(than.low),
        Equal => (low, high) = (low.max(than.low), high.min(than.high)),
        Unequal if than.is_exact() => {
            low += i64::from(low == than.low && low < i64::MAX);
            high -= i64::from(high == than.low && high > i64::MIN);
        }
        Unequal => {}
    }
    Interval { low, high, ..seen }
}

/// `None` where nobody knows how many turns there are.
fn counted(
    first: Interval,
    step: Interval,
    turns: Option<Interval>,
    view: View,
) -> Option<Interval> {
    let most = turns?.high;
    if most == i64::MAX {
        return None;
    }
    let step = step.seen(View { signed: true, ..view })?;
    let down = step.low.min(0).checked_mul(most)?;
    let up = step.high.max(0).checked_mul(most)?;
    let is_wild = first.is_wild || step.is_wild || most > 0 && !first.is_exact();
    let (low, high) = (first.low.checked_add(down)?, first.high.checked_add(up)?);
    Some(Interval { low, high, is_wild })
}

/// The same register is what is compared: behind the first turn it is a step beyond what passed.
fn bounded(
    range: Interval,
    first: Interval,
    step: (Id, Interval),
    bound: Bound,
    values: &[Interval],
) -> Interval {
    let at = |id: Id| values[id.0 as usize];
    if at(bound.turns).high == i64::MAX {
        return range;
    }
    let (limit, ahead) = (at(bound.limit), at(bound.ahead));
    let beyond = if bound.ahead == step.0 { Interval::exact(0) } else { step.1.minus(ahead) };
    let last = limit.plus(beyond);
    match bound.by {
        Comparison::Less => {
            Interval { high: range.high.min(first.high.max(last.high.saturating_sub(1))), ..range }
        }
        Comparison::LessOrEqual => {
            Interval { high: range.high.min(first.high.max(last.high)), ..range }
        }
        Comparison::Greater => {
            Interval { low: range.low.max(first.low.min(last.low.saturating_add(1))), ..range }
        }
        Comparison::GreaterOrEqual => {
            Interval { low: range.low.max(first.low.min(last.low)), ..range }
        }
        Comparison::Equal | Comparison::Unequal => range,
    }
}

/// How often a loop is begun again at most. `None` where the register may run over its end before, or nobody knows.
fn turns(parts: [Interval; 4], by: Comparison, view: View) -> Option<i64> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Unequal};
    let [first, step, ahead, limit] = parts;
    let signed = View { signed: true, ..view };
    let (first, limit) = (first.seen(view)?, limit.seen(view)?);
    let (step, ahead) = (step.seen(signed)?, ahead.seen(signed)?);
    let wide = |value: i64| i128::from(value);
    let (least, greatest) = view.ends();
    let stays = |low: i128, high: i128| low >= wide(least) && high <= wide(greatest);
    let most = match by {
        Less | LessOrEqual if step.low >= 1 => {
            let last = wide(limit.high) - i128::from(by == Less);
            let beyond = last - wide(ahead.low) + wide(step.high) + wide(ahead.high);
            let begin = wide(first.high) + wide(ahead.high);
            if !stays(wide(first.low) + wide(ahead.low).min(0), beyond.max(begin)) {
                return None;
            }
            let room = last - wide(ahead.low) - wide(first.low);
            if room < 0 { 0 } else { room / wide(step.low) + 1 }
        }
        Greater | GreaterOrEqual if step.high <= -1 => {
            let last = wide(limit.low) + i128::from(by == Greater);
            let beyond = last - wide(ahead.high) + wide(step.low) + wide(ahead.low);
            let begin = wide(first.low) + wide(ahead.low);
            if !stays(beyond.min(begin), wide(first.high) + wide(ahead.high).max(0)) {
                return None;
            }
            let room = wide(first.high) + wide(ahead.high) - last;
            if room < 0 { 0 } else { room / -wide(step.high) + 1 }
        }
        Unequal if [first, step, ahead, limit].iter().all(|part| part.is_exact()) => {
            let way = wide(limit.low) - wide(ahead.low) - wide(first.low);
            let step = wide(step.low);
            if step == 0 || way % step != 0 || way / step < 0 {
                return None;
            }
            way / step
        }
        Equal | Unequal | Less | LessOrEqual | Greater | GreaterOrEqual => return None,
    };
    i64::try_from(most).ok()
}
