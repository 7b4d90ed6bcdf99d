//! Which streams may have work under way, and who must wait for whom.
//!
//! Work is known by its stream alone: any of it may use any block. A wait of the program for all of it ends it. A block
//! that is handed out while work is under way leaves a debt: until then whoever works on another stream waits for those
//! streams first. A stream waits for itself by its own order, so a program with one stream never has to.

/// Streams with work under way that are told apart. Beyond these nothing is handed out before the program waits.
const MOST: usize = 8;

/// What was known when a block was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(Option<u64>);

/// A wait of the program that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// Streams, as far as they are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Streams {
    Few(Vec<u64>),
    Many,
}

/// The work of one context.
#[derive(Clone, Debug)]
pub struct Order {
    /// Streams with work that no wait covers yet.
    active: Streams,
    /// Waits that have begun and not ended, with the streams that each will have emptied.
    waits: Vec<(u64, Streams)>,
    /// Waits that have begun so far.
    begun: u64,
    /// The newest wait that has ended.
    done: u64,
    /// Streams that others must wait for.
    debts: Vec<u64>,
    /// Streams that have done so.
    settled: Vec<u64>,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            active: Streams::Few(Vec::new()),
            waits: Vec::new(),
            begun: 0,
            done: 0,
            debts: Vec::new(),
            settled: Vec::new(),
        }
    }
}

impl Streams {
    fn add(&mut self, stream: u64) {
        match self {
            Streams::Few(streams) if streams.contains(&stream) => {}
            Streams::Few(streams) if streams.len() < MOST => streams.push(stream),
            _ => *self = Streams::Many,
        }
    }

    fn add_all(&mut self, others: &Streams) {
        match others {
            Streams::Few(streams) => streams.iter().for_each(|&stream| self.add(stream)),
            Streams::Many => *self = Streams::Many,
        }
    }

    fn is_within(&self, stream: Option<u64>) -> bool {
        match self {
            Streams::Few(streams) => streams.iter().all(|&one| Some(one) == stream),
            Streams::Many => false,
        }
    }
}

impl Order {
    /// Work was given to a stream; `None` is one that cannot be told from others.
    pub fn worked(&mut self, stream: Option<u64>) {
        match stream {
            Some(stream) => self.active.add(stream),
            None => self.active = Streams::Many,
        }
    }

    /// The streams that must be waited for before work is given to this one.
    pub fn before_work(&mut self, stream: Option<u64>) -> Vec<u64> {
        if self.debts.is_empty() || stream.is_some_and(|stream| self.settled.contains(&stream)) {
            return Vec::new();
        }
        self.settled.extend(stream);
        self.debts.iter().copied().filter(|&debt| Some(debt) != stream).collect()
    }

    /// The stream, if there is one, on which more work changes nothing and has nobody to wait for.
    #[must_use]
    pub fn only(&self) -> Option<u64> {
        match &self.active {
            Streams::Few(streams) if streams.len() == 1 => {
                let only = streams[0];
                self.debts.iter().all(|&debt| debt == only).then_some(only)
            }
            _ => None,
        }
    }

    /// Whether anybody would have to wait for anybody.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        !self.debts.is_empty()
    }

    /// Whether no work is under way.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.active.is_within(None) && self.waits.is_empty()
    }

    /// The streams that would have to be asked whether all work is done; nothing where they cannot be told.
    #[must_use]
    pub fn all(&self) -> Option<Vec<u64>> {
        match self.under_way() {
            Streams::Few(streams) => Some(streams),
            Streams::Many => None,
        }
    }

    /// A block is freed.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark((!self.is_quiet()).then_some(self.begun))
    }

    /// Whether all work is done that was under way at a mark.
    #[must_use]
    pub fn is_over(&self, mark: Mark) -> bool {
        mark.0.is_none_or(|begun| begun < self.done)
    }

    /// A block is to be handed out though work is under way that may use it. False where that cannot be made safe.
    pub fn owe(&mut self) -> bool {
        let waited = self.waits.iter().map(|(_, streams)| streams);
        let all = || waited.clone().chain([&self.active]);
        if all().any(|streams| matches!(streams, Streams::Many)) {
            return false;
        }
        for streams in all() {
            let Streams::Few(streams) = streams else { continue };
            for &stream in streams {
                if !self.debts.contains(&stream) {
                    self.debts.push(stream);
                }
            }
        }
        self.settled.clear();
        true
    }

    /// The program begins to wait for a stream, or for all of them. Nothing is returned where that leaves some.
    pub fn wait_begins(&mut self, stream: Option<u64>) -> Option<Ticket> {
        if stream.is_some() && !self.under_way().is_within(stream) {
            return None;
        }
        self.begun += 1;
        let streams = core::mem::replace(&mut self.active, Streams::Few(Vec::new()));
        self.waits.push((self.begun, streams));
        Some(Ticket(self.begun))
    }

    /// That wait has ended, well or not.
    pub fn wait_ended(&mut self, ticket: Ticket, is_well: bool) {
        let Some(nth) = self.waits.iter().position(|(number, _)| *number == ticket.0) else {
            return;
        };
        let (number, streams) = self.waits.swap_remove(nth);
        if is_well {
            self.done = self.done.max(number);
        } else {
            self.active.add_all(&streams);
        }
        if let Streams::Few(streams) = self.under_way() {
            self.debts.retain(|debt| streams.contains(debt));
        }
        if self.debts.is_empty() {
            self.settled.clear();
        }
    }

    /// A stream is to end, and its name may come again. True if it must be waited for first.
    pub fn stream_ends(&mut self, stream: u64) -> bool {
        let is_owed = self.debts.contains(&stream);
        let is_active = match self.under_way() {
            Streams::Few(streams) => streams.contains(&stream),
            Streams::Many => false,
        };
        if is_active {
            self.active = Streams::Many;
        }
        self.settled.retain(|&settled| settled != stream);
        is_owed
    }

    fn under_way(&self) -> Streams {
        let mut all = self.active.clone();
        self.waits.iter().for_each(|(_, streams)| all.add_all(streams));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_one_stream_nobody_waits() {
        let mut order = Order::default();
        assert!(order.is_over(order.mark()));
        order.worked(Some(0));
        let mark = order.mark();
        assert!(!order.is_over(mark));
        assert!(order.owe());
        assert_eq!(order.before_work(Some(0)), []);
        assert_eq!(order.only(), Some(0));
    }

    #[test]
    fn another_stream_waits_once_for_those_that_may_use_the_block() {
        let mut order = Order::default();
        order.worked(Some(5));
        order.worked(Some(6));
        assert!(order.owe());
        assert_eq!(order.only(), None);
        assert_eq!(order.before_work(Some(7)), [5, 6]);
        assert_eq!(order.before_work(Some(7)), []);
        assert_eq!(order.before_work(Some(5)), [6]);
        assert_eq!(order.before_work(None), [5, 6]);
        assert_eq!(order.before_work(None), [5, 6]);
        // The next block may be used by what stream 7 has begun since.
        order.worked(Some(7));
        assert!(order.owe());
        assert_eq!(order.before_work(Some(5)), [6, 7]);
    }

    #[test]
    fn a_wait_ends_what_began_before_it() {
        let mut order = Order::default();
        order.worked(Some(5));
        let before = order.mark();
        assert!(order.owe());
        let ticket = order.wait_begins(None).unwrap();
        order.worked(Some(6));
        let meanwhile = order.mark();
        order.wait_ended(ticket, true);
        assert_eq!(order.all(), Some(vec![6]));
        assert!(order.is_over(before));
        assert!(!order.is_over(meanwhile));
        assert_eq!(order.before_work(Some(6)), []);
    }

    #[test]
    fn a_wait_that_fails_ends_nothing() {
        let mut order = Order::default();
        order.worked(Some(5));
        let mark = order.mark();
        let ticket = order.wait_begins(None).unwrap();
        order.wait_ended(ticket, false);
        assert!(!order.is_over(mark));
        assert!(order.owe());
        assert_eq!(order.before_work(Some(6)), [5]);
    }

    #[test]
    fn a_wait_for_one_stream_counts_where_it_is_the_only_one() {
        let mut order = Order::default();
        order.worked(Some(5));
        assert!(order.wait_begins(Some(6)).is_none());
        let ticket = order.wait_begins(Some(5)).unwrap();
        // Stream 5 is still being waited for.
        order.worked(Some(6));
        assert!(order.wait_begins(Some(6)).is_none());
        order.wait_ended(ticket, true);
        assert!(order.wait_begins(Some(6)).is_some());
    }

    #[test]
    fn many_streams_hold_a_block_until_the_program_waits() {
        let mut order = Order::default();
        (0..=MOST as u64).for_each(|stream| order.worked(Some(stream)));
        let mark = order.mark();
        assert_eq!(order.all(), None);
        assert!(!order.owe());
        assert!(order.wait_begins(Some(3)).is_none());
        let ticket = order.wait_begins(None).unwrap();
        order.wait_ended(ticket, true);
        assert!(order.is_over(mark));
        order.worked(None);
        assert!(!order.owe());
    }

    #[test]
    fn a_stream_that_ends_is_waited_for_if_somebody_would_have_to() {
        let mut order = Order::default();
        order.worked(Some(5));
        assert!(!order.stream_ends(6));
        assert!(order.owe());
        assert!(order.stream_ends(5));
        assert!(!order.owe());
    }
}
