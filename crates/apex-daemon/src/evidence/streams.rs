//! Which streams launches went to, and whether the default stream came between them.

use crate::row::Row;
use crate::summarise::{ConfigKey, Means};
use apex_core::event::{ObjectKind, What};
use apex_policy::advise::Streams as Used;
use std::collections::{HashMap, HashSet};

/// The streams of a session.
#[derive(Default)]
pub(super) struct Streams {
    /// Streams that do not wait for the default stream.
    free: HashSet<(u32, u64)>,
    used: HashSet<(u32, u16, u64)>,
    classes: HashMap<(Class, ConfigKey), u64>,
    last: HashMap<u32, Class>,
    interleaved: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Class {
    /// The legacy default stream: everything blocking waits for it and it for them.
    Default,
    /// A stream that waits for the default stream.
    Blocking,
    Free,
}

const MOST: usize = 1 << 16;
const NON_BLOCKING: u32 = 1;

impl Streams {
    pub(super) fn add(&mut self, row: &Row, launch: Option<&ConfigKey>) {
        if let What::Life(life) = row.what
            && life.object == ObjectKind::Stream
        {
            let stream = (row.process, life.handle);
            if life.begins && life.flags & NON_BLOCKING != 0 {
                self.free.insert(stream);
            } else {
                self.free.remove(&stream);
            }
        }
        let Some(key) = launch else { return };
        let class = match row.stream {
            0 | 1 => Class::Default,
            stream if self.free.contains(&(row.process, stream)) => Class::Free,
            _ => Class::Blocking,
        };
        if self.used.len() < MOST {
            self.used.insert((row.process, row.context, row.stream));
        }
        if self.classes.len() < MOST || self.classes.contains_key(&(class, *key)) {
            *self.classes.entry((class, *key)).or_default() += 1;
        }
        let before = self.last.insert(row.process, class);
        self.interleaved += u64::from(class == Class::Default && before == Some(Class::Blocking));
    }

    pub(super) fn finish(self, means: &Means<'_>) -> Used {
        let mut used =
            Used { used: self.used.len() as u64, interleaved: self.interleaved, ..Used::default() };
        for ((class, key), count) in self.classes {
            let ns = means.of(&key).unwrap_or(0.0) * count as f64;
            match class {
                Class::Default => {
                    used.default_launches += count;
                    used.default_ns += ns;
                }
                Class::Blocking => {
                    used.blocking_launches += count;
                    used.blocking_ns += ns;
                }
                Class::Free => {}
            }
        }
        used
    }
}
