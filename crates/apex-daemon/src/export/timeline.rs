//! A stretch of a session as a picture has room for it: tracks with slices, no finer than a column.
//!
//! Slices that are shorter than a column are put together with their neighbours in it; such a slice says how many it
//! stands for, how much of it was covered and by what most. So the size follows the picture and not the session.

use super::trace::{self, Slice, TraceFormat, Track, TrackId, stream_name};
use crate::progress::Progress;
use crate::read::Stored;
use serde::Serialize;
use std::collections::HashMap;
use std::io;

/// Tracks in a picture; more are counted.
const TRACKS: usize = 64;
/// Different names in a picture; what comes after is one of them.
const NAMES: usize = 4_096;
/// Columns at most.
pub const MOST_COLUMNS: u64 = 4_000;

/// A stretch of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Its beginning, in nanoseconds since the session's start.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// Threads first, then streams, each process by itself.
    pub tracks: Vec<TrackPicture>,
    /// Tracks that are left out.
    pub more_tracks: u64,
    /// Names of slices, by their place.
    pub names: Vec<String>,
}

/// One track.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrackPicture {
    /// `thread`, `stream` or `memory`.
    pub kind: &'static str,
    /// Such as a thread's number, or a device and a stream.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// What took time, in order of its beginning.
    pub slices: Vec<SlicePicture>,
    /// Bytes held from a moment on, of memory.
    pub held: Vec<(u64, u64)>,
}

/// Something that took time, or several things in one column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlicePicture {
    /// Its beginning, in nanoseconds since the session's start.
    pub start_ns: u64,
    /// From its beginning to its end.
    pub length_ns: u64,
    /// Time in it that was covered; less than its length only where it stands for several.
    pub covered_ns: u64,
    /// How many it stands for.
    pub count: u64,
    /// Place of its name, of the longest where there are several.
    pub name: usize,
    /// What sort it is.
    pub category: &'static str,
    /// Length of the longest.
    #[serde(skip)]
    longest_ns: u64,
}

/// The stretch between two moments, in so many columns.
///
/// # Errors
///
/// None of its own: what cannot be read is among the session's complaints.
pub fn timeline(
    stored: &mut Stored,
    (from_ns, to_ns): (u64, u64),
    columns: u64,
    progress: &mut Progress,
) -> io::Result<Timeline> {
    let to_ns = to_ns.max(from_ns.saturating_add(1));
    let column_ns = ((to_ns - from_ns) / columns.clamp(1, MOST_COLUMNS)).max(1);
    let picture = Timeline { from_ns, to_ns, ..Timeline::default() };
    let mut painter = Window { picture, column_ns, places: HashMap::new(), names: HashMap::new() };
    trace::write(stored, &mut painter, progress)?;
    let mut picture = painter.picture;
    picture.tracks.retain(|track| !track.slices.is_empty() || !track.held.is_empty());
    picture.tracks.sort_by_key(|track| track.pid);
    Ok(picture)
}

struct Window {
    picture: Timeline,
    column_ns: u64,
    places: HashMap<TrackId, usize>,
    names: HashMap<String, usize>,
}

impl Window {
    fn track_of(&mut self, id: TrackId) -> Option<&mut TrackPicture> {
        let place = *self.places.get(&id)?;
        self.picture.tracks.get_mut(place)
    }

    fn name(&mut self, name: &str) -> usize {
        if let Some(&place) = self.names.get(name) {
            return place;
        }
        if self.picture.names.len() + 1 >= NAMES {
            return self.name_again("others");
        }
        self.name_again(name)
    }

    fn name_again(&mut self, name: &str) -> usize {
        let next = self.picture.names.len();
        let place = *self.names.entry(name.to_owned()).or_insert(next);
        if place == next {
            self.picture.names.push(name.to_owned());
        }
        place
    }
}

impl TraceFormat for Window {
    fn begin(&mut self, _: &Stored) -> io::Result<()> {
        Ok(())
    }

    fn track(&mut self, id: TrackId, track: &Track) -> io::Result<()> {
        let (kind, name, pid) = match track {
            Track::Process { .. } => return Ok(()),
            Track::Thread { pid, tid } => ("thread", format!("thread {tid}"), *pid),
            Track::Stream { pid, device, stream, .. } => {
                ("stream", stream_name(*device, *stream), *pid)
            }
            Track::Memory { pid, .. } => ("memory", "device memory held".into(), *pid),
        };
        if self.picture.tracks.len() >= TRACKS {
            self.picture.more_tracks += 1;
            return Ok(());
        }
        self.places.insert(id, self.picture.tracks.len());
        self.picture.tracks.push(TrackPicture { kind, name, pid, ..TrackPicture::default() });
        Ok(())
    }

    fn slice(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let end_ns = slice.start_ns.saturating_add(slice.length_ns);
        let Timeline { from_ns, to_ns, .. } = self.picture;
        if slice.start_ns >= to_ns || end_ns < from_ns || !self.places.contains_key(&slice.track) {
            return Ok(());
        }
        let name = self.name(slice.name);
        let column_ns = self.column_ns;
        let Some(track) = self.track_of(slice.track) else { return Ok(()) };
        let drawn = SlicePicture {
            start_ns: slice.start_ns,
            length_ns: slice.length_ns,
            covered_ns: slice.length_ns,
            count: 1,
            name,
            category: slice.category,
            longest_ns: slice.length_ns,
        };
        match track.slices.last_mut() {
            Some(last) if last.shares_column(&drawn, column_ns) => last.take_in(&drawn),
            _ => track.slices.push(drawn),
        }
        Ok(())
    }

    fn counter(&mut self, track: TrackId, time_ns: u64, value: u64) -> io::Result<()> {
        let Timeline { from_ns, to_ns, .. } = self.picture;
        let column_ns = self.column_ns;
        let Some(track) = self.track_of(track) else { return Ok(()) };
        match track.held.last_mut() {
            // What was held when the stretch began is its first value.
            Some(last) if last.0 <= from_ns && time_ns <= from_ns => *last = (time_ns, value),
            // Of several in one column the most is seen.
            Some(last) if last.0 / column_ns == time_ns / column_ns => last.1 = last.1.max(value),
            _ if time_ns < to_ns => track.held.push((time_ns, value)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SlicePicture {
    /// Whether both are too short to be told apart.
    fn shares_column(&self, next: &SlicePicture, column_ns: u64) -> bool {
        let end_ns = next.start_ns.saturating_add(next.length_ns);
        next.start_ns >= self.start_ns && end_ns.saturating_sub(self.start_ns) < column_ns
    }

    fn take_in(&mut self, next: &SlicePicture) {
        let end_ns = next.start_ns.saturating_add(next.length_ns);
        self.length_ns = self.length_ns.max(end_ns.saturating_sub(self.start_ns));
        self.covered_ns = self.covered_ns.saturating_add(next.covered_ns).min(self.length_ns);
        self.count += 1;
        if next.longest_ns > self.longest_ns {
            (self.longest_ns, self.name, self.category) =
                (next.longest_ns, next.name, next.category);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(column_ns: u64) -> Window {
        let picture = Timeline { from_ns: 1_000, to_ns: 2_000, ..Timeline::default() };
        let mut window =
            Window { picture, column_ns, places: HashMap::new(), names: HashMap::new() };
        window.track(1, &Track::Thread { pid: 7, tid: 8 }).unwrap();
        window.track(2, &Track::Memory { process: 3, pid: 7 }).unwrap();
        window
    }

    fn slice(start_ns: u64, length_ns: u64, name: &str) -> Slice<'_> {
        Slice { track: 1, start_ns, length_ns, name, category: "gpu", notes: Vec::new() }
    }

    #[test]
    fn short_neighbours_are_one_slice_and_long_ones_stay() {
        let mut window = window(100);
        for (start, length, name) in [
            (500, 100, "before"),
            (900, 200, "reaches in"),
            (1_200, 10, "a"),
            (1_215, 20, "b"),
            (1_240, 10, "a"),
            (1_300, 500, "long"),
            (2_000, 5, "after"),
        ] {
            window.slice(&slice(start, length, name)).unwrap();
        }
        let Timeline { tracks, names, .. } = window.picture;
        let seen: Vec<_> = tracks[0]
            .slices
            .iter()
            .map(|it| (names[it.name].as_str(), it.start_ns, it.length_ns, it.covered_ns, it.count))
            .collect();
        let expected = [
            ("reaches in", 900, 200, 200, 1),
            ("b", 1_200, 50, 40, 3),
            ("long", 1_300, 500, 500, 1),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_held_at_the_beginning_is_known() {
        let mut window = window(100);
        for (time, bytes) in [(100, 5), (700, 9), (1_210, 4), (1_220, 8), (1_230, 3), (1_900, 0)] {
            window.counter(2, time, bytes).unwrap();
        }
        window.counter(2, 2_500, 77).unwrap();
        assert_eq!(window.picture.tracks[1].held, [(700, 9), (1_210, 8), (1_900, 0)]);
    }

    #[test]
    fn tracks_and_names_are_bounded() {
        let mut window = window(1);
        for id in 3..100 {
            window.track(id, &Track::Thread { pid: 7, tid: 9 }).unwrap();
        }
        assert_eq!((window.picture.tracks.len(), window.picture.more_tracks), (TRACKS, 35));
        for nth in 0..10_000 {
            window.slice(&slice(1_000 + nth / 20, 1, &format!("name {nth}"))).unwrap();
        }
        assert_eq!(window.picture.names.len(), NAMES);
        assert_eq!(window.picture.names.last().unwrap(), "others");
    }
}
