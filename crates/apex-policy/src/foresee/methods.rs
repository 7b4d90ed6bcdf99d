//! Ways to foresee without training: the last period again, counts of what followed, and the longest match of the past.
//!
//! Each ranks different classes, the likeliest first. What it has no reason for it fills up with what came last.

use super::trace::Class;
use std::collections::HashMap;

/// Sees one allocation after the other and ranks what may come next.
pub trait Method {
    /// What it is called in the table.
    fn name(&self) -> &'static str;
    /// An allocation of this class was made.
    fn seen(&mut self, class: Class);
    /// At most `most` classes, all different, the likeliest first.
    fn ranked(&self, most: usize) -> Vec<Class>;
}

/// Foresees nothing: what the pool does by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Method for Nothing {
    fn name(&self) -> &'static str {
        "pool alone"
    }
    fn seen(&mut self, _: Class) {}
    fn ranked(&self, _: usize) -> Vec<Class> {
        Vec::new()
    }
}

/// Adds classes that are not there yet, until there are enough.
fn fill(ranked: &mut Vec<Class>, more: impl Iterator<Item = Class>, most: usize) {
    for class in more {
        if ranked.len() == most {
            return;
        }
        if !ranked.contains(&class) {
            ranked.push(class);
        }
    }
}

/// What came last, the newest first.
fn newest(past: &[Class]) -> impl Iterator<Item = Class> + '_ {
    past.iter().rev().take(64).copied()
}

/// The last period again: as long ago as the last three were there before.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    past: Vec<Class>,
    /// Where each three came last, by their end.
    ends: HashMap<[Class; 3], usize>,
    /// How long ago the last three were there before.
    period: Option<usize>,
}

impl Method for Replay {
    fn name(&self) -> &'static str {
        "last period"
    }

    fn seen(&mut self, class: Class) {
        self.past.push(class);
        if let &[.., first, second, third] = &self.past[..] {
            let before = self.ends.insert([first, second, third], self.past.len());
            self.period = before.map(|before| self.past.len() - before);
        }
    }

    fn ranked(&self, most: usize) -> Vec<Class> {
        let mut ranked = Vec::new();
        if let Some(period) = self.period {
            let next = self.past.len() - period;
            fill(&mut ranked, self.past[next..].iter().copied(), most);
        }
        fill(&mut ranked, newest(&self.past), most);
        ranked
    }
}

/// The longest context that it counts.
const ORDER: usize = 3;

/// Counts of what followed the last three, the last two, the last one.
#[derive(Clone, Debug, Default)]
pub struct Markov {
    past: Vec<Class>,
    followers: HashMap<Vec<Class>, HashMap<Class, u64>>,
}

impl Markov {
    fn contexts(&self) -> impl Iterator<Item = &[Class]> {
        let length = self.past.len();
        (0..=ORDER.min(length)).rev().map(move |order| &self.past[length - order..])
    }
}

impl Method for Markov {
    fn name(&self) -> &'static str {
        "Markov, order 3"
    }

    fn seen(&mut self, class: Class) {
        let contexts: Vec<Vec<Class>> = self.contexts().map(<[Class]>::to_vec).collect();
        for context in contexts {
            *self.followers.entry(context).or_default().entry(class).or_default() += 1;
        }
        self.past.push(class);
    }

    fn ranked(&self, most: usize) -> Vec<Class> {
        let mut ranked = Vec::new();
        for followers in self.contexts().filter_map(|context| self.followers.get(context)) {
            let mut counted: Vec<(u64, Class)> =
                followers.iter().map(|(&class, &count)| (count, class)).collect();
            counted.sort_unstable_by(|a, b| b.cmp(a));
            fill(&mut ranked, counted.into_iter().map(|(_, class)| class), most);
        }
        ranked
    }
}

/// Places of the past that are looked at, and how far back a match is followed.
const PLACES: usize = 64;
const LONGEST: usize = 64;

/// What followed where the past was the same for longest.
#[derive(Clone, Debug, Default)]
pub struct Suffix {
    past: Vec<Class>,
    /// Where each class came, by what follows it.
    places: HashMap<Class, Vec<usize>>,
}

impl Suffix {
    fn matched(&self, before: usize) -> usize {
        let pairs = self.past[..before].iter().rev().zip(self.past.iter().rev());
        pairs.take(LONGEST).take_while(|(a, b)| a == b).count()
    }
}

impl Method for Suffix {
    fn name(&self) -> &'static str {
        "longest match"
    }

    fn seen(&mut self, class: Class) {
        self.past.push(class);
        self.places.entry(class).or_default().push(self.past.len());
    }

    fn ranked(&self, most: usize) -> Vec<Class> {
        let places = self.past.last().and_then(|last| self.places.get(last));
        let places = places.into_iter().flatten().rev().filter(|&&place| place < self.past.len());
        let mut found: Vec<(usize, usize)> =
            places.take(PLACES).map(|&place| (self.matched(place), place)).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        let mut ranked = Vec::new();
        fill(&mut ranked, found.into_iter().map(|(_, place)| self.past[place]), most);
        fill(&mut ranked, newest(&self.past), most);
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_after(method: &mut dyn Method, past: &[Class]) -> Option<Class> {
        past.iter().for_each(|&class| method.seen(class));
        method.ranked(8).first().copied()
    }

    #[test]
    fn a_period_is_foreseen_by_each() {
        let turns: Vec<Class> = [1, 2, 1, 3, 1, 4].repeat(3);
        let all: [&mut dyn Method; 3] =
            [&mut Replay::default(), &mut Markov::default(), &mut Suffix::default()];
        for method in all {
            let name = method.name();
            assert_eq!(first_after(method, &turns), Some(1), "{name}");
            assert_eq!(first_after(method, &[1, 2]), Some(1), "{name}");
            let ranked = method.ranked(8);
            let mut different = ranked.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!((ranked.len(), different), (4, vec![1, 2, 3, 4]), "{name}");
            assert_eq!(method.ranked(2).len(), 2, "{name}");
        }
    }

    #[test]
    fn nothing_is_foreseen_of_nothing() {
        for method in
            [&Replay::default() as &dyn Method, &Markov::default(), &Suffix::default(), &Nothing]
        {
            assert!(method.ranked(8).is_empty());
        }
    }
}
