//! What a latency-critical program loses to its neighbours, from its bursts alone.
//!
//! What harm does to them the differences between them tell ([`super::slopes`]). Now and then a burst is left in peace, so
//! that there is something to compare, and to say what a request takes alone.
//!
//! A request may be several bursts, if the program waits for the device in between. Bursts of a size that one of
//! another size nearly always follows at once are the beginnings of requests and are joined with what follows.
//!
//! Requests that queue for the program are not seen here, but their wait grows with its bursts: so a queue is played
//! through ([`super::play`]), with the lengths measured and with those alone. A burst out of the queue follows the one
//! before it so closely that nobody else came between: those lengths are kept apart from the ones after a pause. Work that
//! was let go beside the one before may still run beside it: that is the delay of the one before, and it was not in peace.

use super::colocate::{QUEUED_NS, harm_per_work};
use super::play::{LEAST, play};
use super::policy::Burst;
use super::slopes::{Delay, Met, Slopes};
use std::collections::VecDeque;

/// Requests that count.
const RECENT: usize = 192;
const RECENT_NS: u64 = 8_000_000_000;
/// Those in peace that count.
const PEACEFUL_ONES: usize = 64;
/// As many of either count however long ago they were: what a program's requests are, and what they take alone, is not
/// learned anew after every pause, while they are disturbed.
const KEPT: usize = 24;
/// Those that tell what is done now.
const LAST: usize = 16;
/// After so many of which none was in peace one is left in peace; and how many times as many at most, where it does not
/// matter what harm does.
const PEACE_EVERY: f64 = 24.0;
const PEACE_SELDOM: f64 = 4.0;
/// Sizes are powers of two of launches.
const SIZES: usize = 16;
/// Bursts of a size belong to what follows if so many of the last 32 were followed at once by one of another size; and
/// the most parts of one.
const PARTS: u32 = 30;
const MOST_PARTS: usize = 8;
/// Requests that are so many times further apart than usual have a rest between them.
const RESTS: u64 = 16;
/// A program that launches less often than this does not launch its kernels one by one.
const PACED_NS: f64 = 150_000.0;
/// By so much requests may be longer than in peace for reasons that nobody saw; by more, and up to so much, it is their
/// processor.
const UNSEEN: f64 = 1.1;
const MOST_SLOWER: f64 = 2.0;
/// The least delay per nanosecond of work that is believed.
const LEAST_PRICE: f64 = 0.05;
/// Predicted harm of this part of a request's length is none.
const PEACEFUL: f64 = 0.03;

/// The bursts of one program.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    recent: VecDeque<Request>,
    /// The last one, which what follows may belong to.
    open: Option<Request>,
    /// Whether a burst of another size followed at once, for the last 32 of every size.
    followed: [u32; SIZES],
    /// Those in peace, also from before that.
    peaceful: VecDeque<Request>,
    /// Requests since one was in peace.
    disturbed: usize,
    /// The last one, until it is known what it left to the next; the one before it of every size, and what they say of harm.
    last: Option<(usize, Met)>,
    before: [Option<Met>; SIZES],
    slopes: Slopes,
}

/// A burst, or several that belong together.
#[derive(Clone, Copy, Debug)]
struct Request {
    burst: Burst,
    /// It came out of a queue.
    queued: bool,
    /// Of its last part.
    size: usize,
    parts: usize,
    /// Harm that may have been done to it.
    allowed_ns: u64,
    /// It came out of a queue behind one that was harmed.
    follows_harm: bool,
}

impl Request {
    fn new(burst: &Burst, queued: bool, allowed_ns: u64) -> Request {
        let follows_harm = false;
        Request { burst: *burst, queued, size: size(burst), parts: 1, allowed_ns, follows_harm }
    }

    fn join(&mut self, burst: &Burst) {
        self.burst.end_ns = burst.end_ns;
        self.burst.launches += burst.launches;
        self.burst.work_ns += burst.work_ns;
        self.burst.harm_ns += burst.harm_ns;
        self.burst.left_ns = burst.left_ns;
        (self.size, self.parts) = (size(burst), self.parts + 1);
    }

    fn length_ns(&self) -> f64 {
        self.burst.length_ns() as f64
    }

    /// The harm predicted for it, by what ran beside it.
    fn harm_ns(&self) -> f64 {
        self.burst.harm_ns as f64 - self.left_ns()
    }

    /// The harm of what was let go beside it and was left when it ended: nobody's, unless one out of a queue followed.
    fn left_ns(&self) -> f64 {
        let busy = busy(self.length_ns(), self.burst.launches as f64, self.burst.work_ns as f64);
        (self.burst.left_ns as f64 * harm_per_work(busy)).min(self.burst.harm_ns as f64)
    }

    fn met(&self) -> Met {
        Met {
            length_ns: self.length_ns(),
            harm_ns: self.harm_ns(),
            left_ns: self.left_ns(),
            allowed_ns: self.allowed_ns as f64,
            ahead_ns: self.ahead_ns(),
        }
    }

    /// The work it came upon.
    fn ahead_ns(&self) -> f64 {
        self.burst.ahead_ns as f64
    }

    /// Whether next to nothing was done to it, or left to the next, as far as is known.
    fn is_unharmed(&self) -> bool {
        self.burst.harm_ns as f64 + self.ahead_ns() / 2.0 <= PEACEFUL * self.length_ns()
    }

    /// Whether next to nothing disturbed it.
    fn is_peaceful(&self) -> bool {
        self.is_unharmed() && !self.follows_harm
    }

    /// Its length without what ran beside it.
    fn without_beside_ns(&self, delay: Delay) -> f64 {
        self.shorter_ns(delay.per_harm * self.harm_ns())
    }

    /// Its length without all that disturbed it.
    fn alone_ns(&self, delay: Delay) -> f64 {
        self.shorter_ns(delay.per_harm * self.harm_ns() + delay.per_ahead * self.ahead_ns())
    }

    fn shorter_ns(&self, by_ns: f64) -> f64 {
        (self.length_ns() - by_ns).max(self.length_ns() / 4.0)
    }
}

/// Where a program stands to its goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Standing {
    /// The goal.
    pub(super) goal_ns: f64,
    /// The delay by work beside every request after a pause with which the quantile of the responses would be at the
    /// goal, in nanoseconds; 0 if it is above without any.
    pub(super) room_ns: f64,
    /// The same if every request were delayed, those out of a queue too.
    pub(super) room_each_ns: f64,
    /// What a nanosecond of predicted harm adds to such a request, and how sure that is, as a standard deviation.
    pub(super) per_harm: f64,
    pub(super) doubt: f64,
    /// By which part the longest of twenty requests are longer than the usual one, alone.
    pub(super) spread: f64,
    /// Of those requests, in the mean: the length alone, their launches, and the time of their own work.
    pub(super) length_ns: f64,
    pub(super) launches: f64,
    pub(super) work_ns: f64,
    /// The harm of work beside the last of them.
    pub(super) last_harm_ns: f64,
}

impl Standing {
    /// What a nanosecond of predicted harm adds at least.
    pub(super) fn surely_per_harm(&self) -> f64 {
        (self.per_harm - 2.0 * self.doubt).max(0.0)
    }

    /// What others gain per nanosecond by which they delay a request: the work of that time less the time itself, which
    /// the request takes from the pause after it.
    pub(super) fn gain(&self) -> f64 {
        let per_harm = self.per_harm + self.doubt / 2.0;
        1.0 / (per_harm * harm_per_work(self.busy())).max(LEAST_PRICE) - 1.0
    }

    /// The part of a request in which the device works for it.
    pub(super) fn busy(&self) -> f64 {
        busy(self.length_ns, self.launches, self.work_ns)
    }
}

impl Watch {
    /// Bursts have ended, to which so much harm may have been done.
    pub(super) fn observe(&mut self, bursts: &[Burst], allowed_ns: u64) {
        // One that nobody waited for may have no length, and says nothing.
        for burst in bursts.iter().filter(|burst| burst.length_ns() > 0) {
            let mut queued = false;
            if let Some(mut open) = self.open.take() {
                queued = burst.start_ns.saturating_sub(open.burst.end_ns) < QUEUED_NS;
                let is_part = queued && size(burst) != open.size;
                let followed = &mut self.followed[open.size];
                *followed = *followed << 1 | u32::from(is_part);
                if is_part && followed.count_ones() >= PARTS && open.parts < MOST_PARTS {
                    open.join(burst);
                    self.open = Some(open);
                    continue;
                }
                let is_harmed = |seen: &Request| !seen.is_unharmed();
                open.follows_harm = open.queued && self.recent.back().is_some_and(is_harmed);
                if self.slopes.is_request(open.length_ns()) {
                    self.recent.push_back(open);
                    self.disturbed += 1;
                    if open.is_peaceful() {
                        self.disturbed = 0;
                        self.peaceful.push_back(open);
                    }
                }
                self.learn(&open);
            }
            self.open = Some(Request::new(burst, queued, allowed_ns));
        }
        let newest = self.recent.back().map_or(0, |seen| seen.burst.end_ns);
        let is_old = |seen: &Request| seen.burst.end_ns + RECENT_NS < newest;
        for (seen, most) in [(&mut self.recent, RECENT), (&mut self.peaceful, PEACEFUL_ONES)] {
            while seen.len() > most || seen.len() > KEPT && seen.front().is_some_and(is_old) {
                seen.pop_front();
            }
        }
    }

    /// What a request says of harm, with what the next one had to bear of it.
    fn learn(&mut self, seen: &Request) {
        let usual_ns = (seen.follows_harm && seen.is_unharmed())
            .then(|| self.peaceful_ns(seen.size))
            .flatten();
        let mut own = Some((seen.size, seen.met()));
        if let Some((size, mut met)) = self.last.take() {
            if let Some(usual_ns) = usual_ns {
                met.length_ns = (met.length_ns + seen.length_ns() - usual_ns).max(1.0);
                met.harm_ns += core::mem::take(&mut met.left_ns);
                own = None;
            }
            if let Some(before) = self.before[size].replace(met) {
                self.slopes.observe(&before, &met);
            }
        }
        self.last = own;
    }

    /// The usual length of those of this size that were in peace.
    fn peaceful_ns(&self, size: usize) -> Option<f64> {
        let of_size = self.peaceful.iter().filter(|seen| seen.size == size);
        let mut lengths: Vec<f64> = of_size.map(Request::length_ns).collect();
        lengths.sort_unstable_by(f64::total_cmp);
        (lengths.len() >= LEAST).then(|| lengths[lengths.len() / 2])
    }

    /// Whether the next one should not be disturbed, if so much more harm may be done than is. What is not used up need
    /// not be known well, and a request in peace costs others its whole time.
    pub(super) fn wants_peace(&self, unused: f64) -> bool {
        let every = (PEACE_EVERY * unused.clamp(1.0, PEACE_SELDOM)) as usize;
        self.disturbed % every == every - 1
    }

    /// Those that count.
    fn requests(&self) -> Vec<Request> {
        let is_request = |seen: &&Request| self.slopes.is_request(seen.length_ns());
        self.recent.iter().filter(is_request).copied().collect()
    }

    /// The usual length of a request alone.
    pub(super) fn alone_ns(&self) -> Option<u64> {
        let requests = self.requests();
        if requests.len() < LEAST {
            return None;
        }
        let mut lengths = self.alone_lengths(&requests, self.slopes.delay());
        lengths.sort_unstable_by(f64::total_cmp);
        Some(lengths[lengths.len() / 2] as u64)
    }

    /// What each request would have taken alone: as long as one of those of its size that were in peace, each in its turn,
    /// or, while there are too few of those, what is left without the delay.
    fn alone_lengths(&self, requests: &[Request], delay: Delay) -> Vec<f64> {
        let mut peaceful: [Vec<f64>; SIZES] = Default::default();
        for seen in &self.peaceful {
            peaceful[seen.size].push(seen.length_ns());
        }
        let alone = |(nth, seen): (usize, &Request)| match &peaceful[seen.size] {
            _ if seen.is_peaceful() => seen.length_ns(),
            some if some.len() >= LEAST => some[nth % some.len()],
            _ => seen.alone_ns(delay),
        };
        requests.iter().enumerate().map(alone).collect()
    }

    /// How much longer requests are now than those that were in peace, by nothing that is known to have disturbed them. A
    /// program that launches one by one is as fast as its processor, which may have become slower since; a little may be
    /// harm that nobody saw. One that launches a graph does not feel its processor.
    fn slower(requests: &[Request], alone: &[f64], delay: Delay) -> f64 {
        let sum = |of: &dyn Fn(&Request) -> f64| requests.iter().map(of).sum::<f64>();
        let [length_ns, launches] =
            [sum(&|seen| seen.alone_ns(delay)), sum(&|seen| seen.burst.launches as f64)];
        match is_paced(length_ns, launches) {
            true => (length_ns / alone.iter().sum::<f64>() / UNSEEN).clamp(1.0, MOST_SLOWER),
            false => 1.0,
        }
    }

    /// Where the program stands to a goal that is worked out from the quantile alone and how much requests differ by
    /// themselves; none before enough is known, or while no request comes after a pause.
    pub(super) fn standing(
        &self,
        quantile: f64,
        goal: impl Fn(f64, f64) -> f64,
    ) -> Option<Standing> {
        let requests = self.requests();
        let of = |queued: bool| requests.iter().filter(move |seen| seen.queued == queued);
        if requests.len() < LEAST * 2 || of(false).count() < LEAST {
            return None;
        }
        let rate = rate(&requests);
        let delay = self.slopes.delay();
        let alone = self.alone_lengths(&requests, delay);
        let spread = spread(&requests, &alone);
        let slower = Watch::slower(&requests, &alone, delay);
        let alone = |queued: bool| -> Vec<f64> {
            let both = requests.iter().zip(&alone);
            both.filter(|(seen, _)| seen.queued == queued).map(|(_, alone)| *alone).collect()
        };
        let now = |queued| -> Vec<f64> { alone(queued).iter().map(|it| it * slower).collect() };
        let goal_ns = goal(play(&now(false), &now(true), 0.0, quantile, rate), spread);
        let fresh: Vec<f64> = of(false).map(|seen| seen.without_beside_ns(delay)).collect();
        let queued: Vec<f64> = of(true).map(Request::length_ns).collect();
        let mean = |of_request: &dyn Fn(&Request) -> f64, requests: usize| {
            let values = of(false).rev().take(requests).map(of_request);
            values.sum::<f64>() / requests.min(fresh.len()) as f64
        };
        let length_ns = alone(false).iter().sum::<f64>() / fresh.len() as f64;
        // Finer where it is small.
        let most = MOST_ROOM * length_ns;
        let room = |fits: &dyn Fn(f64) -> bool| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(low, high);
                match fits(most * middle * middle) {
                    true => low = middle,
                    false => high = middle,
                }
            }
            most * low * low
        };
        let bare: Vec<f64> = of(true).map(|seen| seen.without_beside_ns(delay)).collect();
        let room_each_ns = room(&|delay_ns| {
            let longer =
                |lengths: &[f64]| lengths.iter().map(|it| it + delay_ns).collect::<Vec<_>>();
            play(&longer(&fresh), &longer(&bare), 0.0, quantile, rate) <= goal_ns
        });
        let room_ns = room(&|delay_ns| play(&fresh, &queued, delay_ns, quantile, rate) <= goal_ns);
        Some(Standing {
            goal_ns,
            room_ns,
            room_each_ns,
            per_harm: delay.per_harm,
            doubt: delay.doubt,
            spread,
            length_ns,
            launches: mean(&|seen| seen.burst.launches as f64, RECENT),
            work_ns: mean(&|seen| seen.burst.work_ns as f64, RECENT),
            last_harm_ns: mean(&Request::harm_ns, LAST),
        })
    }
}

/// By which part the longest of twenty requests of a size are longer than the usual one, alone.
fn spread(requests: &[Request], alone: &[f64]) -> f64 {
    let mut of_size: [Vec<f64>; SIZES] = Default::default();
    for (seen, alone) in requests.iter().zip(alone) {
        of_size[seen.size].push(*alone);
    }
    let spread = |lengths: &mut Vec<f64>| {
        lengths.sort_unstable_by(f64::total_cmp);
        let at = |part: f64| lengths[(part * (lengths.len() - 1) as f64) as usize];
        (at(0.95) / at(0.5).max(1.0) - 1.0) * lengths.len() as f64
    };
    let some = of_size.iter_mut().filter(|lengths| !lengths.is_empty());
    (some.map(spread).sum::<f64>() / alone.len().max(1) as f64).min(1.0)
}

/// Requests per nanosecond, while there are any: a rest says nothing of how they come when they come.
fn rate(requests: &[Request]) -> f64 {
    let starts = || requests.iter().map(|seen| seen.burst.start_ns);
    let apart = starts().zip(starts().skip(1)).map(|(one, next)| next.saturating_sub(one));
    let mut apart: Vec<u64> = apart.collect();
    apart.sort_unstable();
    let most = RESTS * apart.get(apart.len() / 2).copied().unwrap_or(0).max(1);
    let span: u64 = apart.iter().map(|&it| it.min(most)).sum();
    apart.len() as f64 / span.max(1) as f64
}

/// The part of a request in which the device works for it. A graph leaves it no time to catch up, however much of the
/// request is spent on launching it.
fn busy(length_ns: f64, launches: f64, work_ns: f64) -> f64 {
    if is_paced(length_ns, launches) { (work_ns / length_ns.max(1.0)).clamp(0.0, 1.0) } else { 1.0 }
}

/// Whether the launches of so much time are many, and not a graph or two.
fn is_paced(length_ns: f64, launches: f64) -> bool {
    length_ns <= PACED_NS * launches
}

/// The longest delay that is looked for, in bursts, and how finely.
const MOST_ROOM: f64 = 4.0;
const HALVINGS: u32 = 8;

fn size(burst: &Burst) -> usize {
    (burst.launches.max(1).ilog2() as usize).min(SIZES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(start_ns: u64, length_ns: u64, harm_ns: u64) -> Burst {
        let end_ns = start_ns + length_ns;
        Burst {
            start_ns,
            end_ns,
            launches: 100,
            ahead_ns: 0,
            harm_ns,
            left_ns: 0,
            work_ns: length_ns,
        }
    }

    /// Shows it bursts of this length and harm, one every 10 ms.
    fn watch(bursts_seen: impl IntoIterator<Item = (u64, u64)>) -> Watch {
        let mut watch = Watch::default();
        for (nth, (length_ns, harm_ns)) in bursts_seen.into_iter().enumerate() {
            watch.observe(&[burst(nth as u64 * 10_000_000, length_ns, harm_ns)], 0);
        }
        watch
    }

    #[test]
    fn without_what_disturbs_they_are_the_same() {
        let standing = |effect: u64| {
            let seen = watch((0..190).map(|nth| {
                let harm_ns = nth * nth % 7 * 100_000;
                (5_000_000 + nth % 100 * 20_000 + effect * harm_ns, harm_ns)
            }));
            seen.standing(0.5, |alone, _| alone * 1.2).unwrap()
        };
        assert!((standing(2).length_ns / standing(0).length_ns - 1.0).abs() < 0.06);
    }

    #[test]
    fn what_was_let_go_and_not_done_is_no_harm() {
        // A graph, every second one disturbed: 0.8 of what was done beside it, and three times as much is left.
        let mut seen = Watch::default();
        for nth in 0..100 {
            let done_ns = nth % 2 * (1 + nth % 5) * 200_000;
            let graph = Burst { launches: 1, ..burst(nth * 10_000_000, 0, 4 * done_ns) };
            let end_ns = graph.start_ns + 5_000_000 + done_ns * 8 / 10;
            let left_ns = (3.0 * done_ns as f64 / harm_per_work(1.0)) as u64;
            seen.observe(&[Burst { end_ns, left_ns, ..graph }], 0);
        }
        let per_harm = seen.slopes.delay().per_harm;
        assert!((per_harm - 0.8).abs() < 0.05, "{per_harm}");
    }

    #[test]
    fn a_slower_processor_takes_no_room_from_those_that_feel_it() {
        let room = |launches| {
            let mut watch = Watch::default();
            for nth in 0..300 {
                // In peace at first; then half as long again, whatever ran beside them.
                let (length_ns, harm_ns) = if nth < 60 {
                    (5_000_000, 0)
                } else {
                    (7_500_000, 200_000 + nth % 7 * 100_000)
                };
                let burst = Burst { launches, ..burst(nth * 20_000_000, length_ns, harm_ns) };
                watch.observe(&[burst], 0);
            }
            watch.standing(0.95, |alone, _| alone * 1.2).unwrap().room_ns
        };
        assert!(room(100) > 300_000.0, "{}", room(100));
        assert_eq!(room(1), 0.0, "a graph does not feel it");
    }

    #[test]
    fn a_few_say_nothing() {
        assert_eq!(watch((0..5).map(|_| (5_000_000, 0))).alone_ns(), None);
        assert_eq!(watch((0..5).map(|_| (5_000_000, 0))).standing(0.95, |alone, _| alone), None);
    }

    #[test]
    fn what_is_left_to_the_next_of_a_queue_counts_for_the_one_before() {
        let mut watch = Watch::default();
        for nth in 0..600_u64 {
            let (start_ns, harm_ns) = (nth * 40_000_000, nth * nth % 7 * 200_000);
            // Nearly all of the delay falls on the one behind it.
            let (own_ns, left_ns) = (harm_ns / 10, harm_ns - harm_ns / 10);
            watch.observe(
                &[
                    burst(start_ns, 5_000_000 + own_ns, harm_ns),
                    burst(start_ns + 5_100_000 + own_ns, 5_000_000 + left_ns, 0),
                ],
                0,
            );
        }
        let delay = watch.slopes.delay();
        assert!((delay.per_harm - 1.0).abs() < 0.15, "{delay:?}");
        let requests = watch.requests();
        assert!(spread(&requests, &watch.alone_lengths(&requests, delay)) < 0.01);
    }

    #[test]
    fn requests_that_differ_by_themselves_hide_more() {
        let differ = |step: u64| {
            let watch = watch((0..100).map(|nth| (5_000_000 + nth * 37 % 100 * step, 0)));
            let requests = watch.requests();
            spread(&requests, &watch.alone_lengths(&requests, watch.slopes.delay()))
        };
        assert!(differ(0).abs() < 1e-9);
        assert!((differ(50_000) - 0.3).abs() < 0.03, "{}", differ(50_000));
    }

    #[test]
    fn one_of_many_is_left_in_peace_if_none_was() {
        // Of the first 241, so many; it may be in vain.
        let left = |harm_ns: u64, is_vain: bool, unused: f64| {
            let mut watch = Watch::default();
            let left = (0..241).filter(|nth| {
                let left = watch.wants_peace(unused);
                let harm_ns = if left && !is_vain { 0 } else { harm_ns };
                watch.observe(&[burst(nth * 10_000_000, 5_000_000, harm_ns)], 0);
                left
            });
            left.count()
        };
        assert_eq!(left(0, false, 1.0), 0);
        assert_eq!(left(1_000_000, true, 1.0), 10);
        assert!((9..=18).contains(&left(1_000_000, false, 1.0)));
        assert_eq!(left(1_000_000, true, 9.0), 2, "where it does not matter fewer are");
    }

    #[test]
    fn what_is_far_shorter_than_requests_is_none() {
        // A program answers, rests, and launches single kernels before it answers again.
        let mut watch = watch((0..100).map(|_| (5_000_000, 0)));
        let before = watch.standing(0.95, |alone, _| alone).unwrap();
        let probe =
            |nth: u64| Burst { launches: 1, ..burst(20_000_000_000 + nth * 17_000, 11_000, 0) };
        (0..70).for_each(|nth| watch.observe(&[probe(nth), burst(30_000_000_000, 0, 0)], 0));
        assert_eq!(watch.alone_ns(), Some(5_000_000));
        let after = watch.standing(0.95, |alone, _| alone).unwrap();
        assert_eq!((after.length_ns, after.launches), (before.length_ns, before.launches));
        assert!(watch.peaceful.iter().all(|seen| seen.burst.launches == 100));
    }

    #[test]
    fn a_short_burst_that_is_always_followed_belongs_to_what_follows() {
        let mut watch = Watch::default();
        for nth in 0..100 {
            let start_ns = nth * 20_000_000;
            let short = Burst { launches: 4, ..burst(start_ns, 1_000_000, 10_000) };
            watch.observe(&[short, burst(start_ns + 1_100_000, 8_000_000, 20_000)], 0);
            if nth % 3 == 0 {
                watch.observe(
                    &[
                        Burst { launches: 4, ..burst(start_ns + 9_200_000, 1_000_000, 10_000) },
                        burst(start_ns + 10_300_000, 8_000_000, 20_000),
                    ],
                    0,
                );
            }
        }
        let last: Vec<&Request> = watch.recent.iter().rev().take(60).collect();
        assert!(last.iter().all(|it| it.parts == 2 && it.burst.length_ns() == 9_100_000));
        assert!(last.iter().all(|it| it.burst.harm_ns == 30_000 && it.burst.launches == 104));
        assert_eq!(last.iter().filter(|it| it.queued).count(), 15);
    }
}
