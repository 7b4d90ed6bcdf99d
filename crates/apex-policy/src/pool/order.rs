//! Which streams may have work under way, and who must wait for whom.
//!
//! Work is known by its stream alone: any of it may use any block. A wait of the program for all of it ends it. A block
//! that is handed out while work is under way leaves a debt: until then whoever works on another stream waits for those
//! streams first. A stream waits for itself by its own order, so a program with one stream never has to. The driver must
//! not be given the name of a stream that has ended: while somebody waits for one, it may not end, and then it is forgotten.

/// Streams with work under way that are told apart. Beyond these nothing is handed out before the program waits.
const MOST: usize = 8;

/// What was known when a block was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(Option<u64>);

/// A wait of the program that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// Streams that are being waited for before work is given to another. None of them may end meanwhile.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Settling {
    of: Option<u64>,
    others: Vec<u64>,
    /// Debts that had been made so far.
    owed: u64,
}

impl Settling {
    /// Those that are waited for.
    #[must_use]
    pub fn others(&self) -> &[u64] {
        &self.others
    }
}

/// Whether a stream may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nobody knows it any more.
    MayEnd,
    /// Somebody would have to wait for it later: the caller does now, and asks again.
    MustBeWaitedFor,
    /// Another thread has the driver wait for it at this moment.
    IsInUse,
}

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
    /// Streams that are being waited for, as often as they are.
    in_use: Vec<u64>,
    /// Debts that were made so far.
    owed: u64,
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
            in_use: Vec::new(),
            owed: 0,
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
    pub fn before_work(&mut self, stream: Option<u64>) -> Option<Settling> {
        if self.debts.is_empty() || stream.is_some_and(|stream| self.settled.contains(&stream)) {
            return None;
        }
        let others = self.debts.iter().copied().filter(|&debt| Some(debt) != stream);
        let settling = Settling { of: stream, others: others.collect(), owed: self.owed };
        self.in_use.extend(&settling.others);
        Some(settling)
    }

    /// They are waited for by whatever comes next on that stream.
    pub fn settled(&mut self, settling: Settling) {
        for other in settling.others {
            if let Some(nth) = self.in_use.iter().position(|&stream| stream == other) {
                self.in_use.swap_remove(nth);
            }
        }
        if settling.owed == self.owed {
            self.settled.extend(settling.of);
        }
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
        self.owed += 1;
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

    /// A stream is to end, and its name may come again. Whoever asks says whether all its work was waited for.
    pub fn stream_ends(&mut self, stream: u64, was_waited_for: bool) -> Ending {
        if self.debts.contains(&stream) && !was_waited_for {
            return Ending::MustBeWaitedFor;
        }
        if self.in_use.contains(&stream) {
            return Ending::IsInUse;
        }
        let is_active = match self.under_way() {
            Streams::Few(streams) => streams.contains(&stream),
            Streams::Many => false,
        };
        if is_active {
            self.active = Streams::Many;
        }
        self.debts.retain(|&debt| debt != stream);
        self.settled.retain(|&settled| settled != stream);
        Ending::MayEnd
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

    /// Whom the stream waits for before its work, and does.
    fn before_work(order: &mut Order, stream: Option<u64>) -> Vec<u64> {
        let Some(settling) = order.before_work(stream) else { return Vec::new() };
        let others = settling.others().to_vec();
        order.settled(settling);
        others
    }

    #[test]
    fn with_one_stream_nobody_waits() {
        let mut order = Order::default();
        assert!(order.is_over(order.mark()));
        order.worked(Some(0));
        let mark = order.mark();
        assert!(!order.is_over(mark));
        assert!(order.owe());
        assert_eq!(before_work(&mut order, Some(0)), []);
        assert_eq!(order.only(), Some(0));
    }

    #[test]
    fn another_stream_waits_once_for_those_that_may_use_the_block() {
        let mut order = Order::default();
        order.worked(Some(5));
        order.worked(Some(6));
        assert!(order.owe());
        assert_eq!(order.only(), None);
        assert_eq!(before_work(&mut order, Some(7)), [5, 6]);
        assert_eq!(before_work(&mut order, Some(7)), []);
        assert_eq!(before_work(&mut order, Some(5)), [6]);
        assert_eq!(before_work(&mut order, None), [5, 6]);
        assert_eq!(before_work(&mut order, None), [5, 6]);
        // The next block may be used by what stream 7 has begun since.
        order.worked(Some(7));
        assert!(order.owe());
        assert_eq!(before_work(&mut order, Some(5)), [6, 7]);
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
        assert_eq!(before_work(&mut order, Some(6)), []);
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
        assert_eq!(before_work(&mut order, Some(6)), [5]);
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
        assert_eq!(order.stream_ends(6, false), Ending::MayEnd);
        assert!(order.owe());
        assert_eq!(order.stream_ends(5, false), Ending::MustBeWaitedFor);
        let settling = order.before_work(Some(7)).unwrap();
        assert_eq!(settling.others(), [5]);
        assert_eq!(order.stream_ends(5, true), Ending::IsInUse);
        order.settled(settling);
        assert_eq!(order.stream_ends(5, true), Ending::MayEnd);
        // It is nobody's name any more.
        assert_eq!(before_work(&mut order, Some(6)), []);
        assert!(!order.owe());
    }

    #[test]
    fn who_waits_while_more_is_owed_waits_again() {
        let mut order = Order::default();
        order.worked(Some(5));
        assert!(order.owe());
        let settling = order.before_work(Some(6)).unwrap();
        // Another thread that works on the same stream does not take it for settled.
        assert_eq!(before_work(&mut order, Some(6)), [5]);
        order.worked(Some(7));
        assert!(order.owe());
        order.settled(settling);
        assert_eq!(before_work(&mut order, Some(6)), [5, 7]);
        assert_eq!(before_work(&mut order, Some(6)), []);
    }
}
