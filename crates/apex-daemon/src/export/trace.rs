//! A session as a trace: tracks with slices and counters, whatever the format.
//!
//! Each thread has a track with its driver calls, each stream of each device one with GPU times, each
//! process one that counts its live device memory. Only CUPTI knows when a kernel began; a time by
//! event pairs is drawn from its launch on, or from the end of the one before it on the stream, and says
//! its basis.

use super::outcome::Outcome;
use crate::known::Known;
use crate::names::{Demangled, shorten};
use crate::progress::Progress;
use crate::read::Stored;
use crate::row::Row;
use crate::summarise::is_device_memory;
use apex_core::event::{ObjectKind, What};
use std::collections::HashMap;
use std::io;

/// Number of a track; never zero.
pub(super) type TrackId = u64;

/// What a track belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Track {
    Process { pid: u32, name: String, command: Vec<String> },
    Thread { pid: u32, tid: u32 },
    Stream { process: TrackId, pid: u32, device: Option<u8>, stream: u64 },
    Memory { process: TrackId, pid: u32 },
}

/// Something that took time.
#[derive(Debug)]
pub(super) struct Slice<'a> {
    pub(super) track: TrackId,
    pub(super) start_ns: u64,
    pub(super) length_ns: u64,
    pub(super) name: &'a str,
    pub(super) category: &'static str,
    pub(super) notes: Vec<(&'static str, Note<'a>)>,
}

/// One particular of a slice.
#[derive(Clone, Debug)]
pub(super) enum Note<'a> {
    Whole(u64),
    Text(&'a str),
    Shape(String),
}

/// A format of traces.
pub(super) trait TraceFormat {
    fn begin(&mut self, stored: &Stored) -> io::Result<()>;
    fn track(&mut self, id: TrackId, track: &Track) -> io::Result<()>;
    fn slice(&mut self, slice: &Slice<'_>) -> io::Result<()>;
    fn counter(&mut self, track: TrackId, time_ns: u64, value: u64) -> io::Result<()>;
    fn end(&mut self) -> io::Result<()>;
}

pub(super) fn write(
    stored: &mut Stored,
    format: &mut impl TraceFormat,
    progress: &mut Progress,
) -> io::Result<()> {
    let known = stored.known();
    format.begin(stored)?;
    let mut painter = Painter {
        known: &known,
        format: &mut *format,
        names: Demangled::default(),
        processes: HashMap::new(),
        threads: HashMap::new(),
        streams: HashMap::new(),
        memory: HashMap::new(),
        next: 1,
    };
    let mut outcome = Outcome::default();
    stored.rows(progress, |row, _| outcome.run(|| painter.paint(&row)));
    outcome.result()?;
    format.end()
}

struct Painter<'a, F> {
    known: &'a Known,
    format: &'a mut F,
    names: Demangled,
    processes: HashMap<u32, TrackId>,
    threads: HashMap<(u32, u32), TrackId>,
    streams: HashMap<(u32, Option<u8>, u64), (TrackId, u64)>,
    memory: HashMap<u32, (TrackId, u64)>,
    next: TrackId,
}

impl<F: TraceFormat> Painter<'_, F> {
    fn paint(&mut self, row: &Row) -> io::Result<()> {
        match row.what {
            What::GpuTime { .. } => self.gpu_time(row),
            // No calls of their own.
            What::Passed { .. } | What::Contents { .. } => Ok(()),
            What::Life(life) if life.object == ObjectKind::Thread => self.thread(row).map(drop),
            _ => {
                self.call(row)?;
                self.live_memory(row)
            }
        }
    }

    fn call(&mut self, row: &Row) -> io::Result<()> {
        let track = self.thread(row)?;
        let mut notes = vec![("result", Note::Whole(u64::from(row.result)))];
        match row.what {
            What::Launch(launch) => {
                notes.push(("stream", Note::Whole(row.stream)));
                notes.push(("shape", Note::Shape(shape_words(&launch.shape))));
                if let Some(kernel) = self.known.kernel(row.process, launch.kernel.0) {
                    notes.push(("kernel", Note::Text(&kernel.name)));
                }
            }
            What::GraphLaunch { graph, kernels, .. } => {
                notes.push(("graph", Note::Whole(u64::from(graph))));
                notes.push(("kernels", Note::Whole(kernels)));
            }
            What::Copy(copy) => {
                notes.push(("bytes", Note::Whole(copy.bytes)));
                notes.push(("direction", Note::Text(copy.direction.word())));
                if let Some(pageable) = row.pageable {
                    notes.push((
                        "host memory",
                        Note::Text(if pageable { "pageable" } else { "pinned" }),
                    ));
                }
            }
            What::Alloc { kind, bytes, .. } | What::Free { kind, bytes, .. } => {
                notes.push(("bytes", Note::Whole(bytes)));
                notes.push(("memory", Note::Text(kind.word())));
            }
            What::Set(set) => notes.push(("bytes", Note::Whole(set.bytes))),
            What::Load { bytes, .. } => notes.push(("bytes", Note::Whole(bytes))),
            _ => {}
        }
        self.format.slice(&Slice {
            track,
            start_ns: row.time_ns,
            length_ns: row.host_ns,
            name: row.function(),
            category: row.kind(),
            notes,
        })
    }

    fn gpu_time(&mut self, row: &Row) -> io::Result<()> {
        let What::GpuTime { kernel, shape, nanos, basis } = row.what else { return Ok(()) };
        let (track, free_from) = self.stream(row)?;
        let start_ns = row.time_ns.max(free_from);
        let end_ns = start_ns.saturating_add(nanos);
        self.streams.insert((row.process, row.device, row.stream), (track, end_ns));
        let facts = self.known.kernel(row.process, kernel.0);
        let name = match facts {
            Some(facts) => shorten(self.names.name(&facts.name), 80),
            None if kernel.0 == 0 => format!("graph {}", shape.grid[0]),
            None => format!("kernel {}", kernel.0),
        };
        let mut notes = vec![("basis", Note::Text(basis.word()))];
        if kernel.0 != 0 {
            notes.push(("shape", Note::Shape(shape_words(&shape))));
        }
        self.format.slice(&Slice {
            track,
            start_ns,
            length_ns: nanos,
            name: &name,
            category: "gpu",
            notes,
        })
    }

    fn live_memory(&mut self, row: &Row) -> io::Result<()> {
        let (kind, bytes, grows) = match row.what {
            What::Alloc { kind, bytes, .. } => (kind, bytes, true),
            What::Free { kind, bytes, .. } => (kind, bytes, false),
            _ => return Ok(()),
        };
        if !row.succeeded() || !is_device_memory(kind) {
            return Ok(());
        }
        let process = self.process(row)?;
        let (track, before) = match self.memory.get(&row.process) {
            Some(&found) => found,
            None => (self.track(&Track::Memory { process, pid: row.pid })?, 0),
        };
        let live = if grows { before.saturating_add(bytes) } else { before.saturating_sub(bytes) };
        self.memory.insert(row.process, (track, live));
        self.format.counter(track, row.end_ns(), live)
    }

    fn process(&mut self, row: &Row) -> io::Result<TrackId> {
        if let Some(&track) = self.processes.get(&row.process) {
            return Ok(track);
        }
        let process = self.known.process(row.process).and_then(|known| known.process.clone());
        let process = process.unwrap_or_default();
        let name = process.executable.rsplit('/').next().unwrap_or_default().to_owned();
        let track =
            self.track(&Track::Process { pid: row.pid, name, command: process.arguments })?;
        self.processes.insert(row.process, track);
        Ok(track)
    }

    fn thread(&mut self, row: &Row) -> io::Result<TrackId> {
        if let Some(&track) = self.threads.get(&(row.process, row.tid)) {
            return Ok(track);
        }
        self.process(row)?;
        let track = self.track(&Track::Thread { pid: row.pid, tid: row.tid })?;
        self.threads.insert((row.process, row.tid), track);
        Ok(track)
    }

    fn stream(&mut self, row: &Row) -> io::Result<(TrackId, u64)> {
        let key = (row.process, row.device, row.stream);
        if let Some(&found) = self.streams.get(&key) {
            return Ok(found);
        }
        let process = self.process(row)?;
        let (device, stream) = (row.device, row.stream);
        let track = self.track(&Track::Stream { process, pid: row.pid, device, stream })?;
        self.streams.insert(key, (track, 0));
        Ok((track, 0))
    }

    fn track(&mut self, track: &Track) -> io::Result<TrackId> {
        let id = self.next;
        self.next += 1;
        self.format.track(id, track)?;
        Ok(id)
    }
}

/// What a stream's track is called.
pub(super) fn stream_name(device: Option<u8>, stream: u64) -> String {
    let device = device.map_or("?".into(), |ordinal| ordinal.to_string());
    match stream {
        0 | 1 => format!("GPU {device} default stream"),
        2 => format!("GPU {device} per-thread default stream"),
        handle => format!("GPU {device} stream {handle:#x}"),
    }
}

fn shape_words(shape: &apex_core::LaunchShape) -> String {
    let [x, y, z] = shape.grid;
    let [block_x, block_y, block_z] = shape.block;
    format!("{x}x{y}x{z} blocks of {block_x}x{block_y}x{block_z}, {} B", shape.dynamic_shared)
}
