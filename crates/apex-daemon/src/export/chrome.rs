//! A trace in Chrome's JSON form (`chrome://tracing`, Perfetto, and most other viewers).
//!
//! Times are microseconds with the nanoseconds behind the point. A viewer knows only processes and
//! threads, so a stream is shown as a thread with a number of its own.

use super::trace::{Note, Slice, TraceFormat, Track, TrackId, stream_name};
use crate::read::Stored;
use crate::summary::SCHEMA;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::io::{self, Write};

/// Streams are numbered from here on; thread ids of Linux stay below.
const FIRST_STREAM: u64 = 1 << 32;

pub(super) struct Chrome<'a> {
    out: &'a mut (dyn Write + Send),
    places: HashMap<TrackId, (u32, u64)>,
    first: bool,
}

impl<'a> Chrome<'a> {
    pub(super) fn on(out: &'a mut (dyn Write + Send)) -> Chrome<'a> {
        Chrome { out, places: HashMap::new(), first: true }
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        serde_json::to_writer(&mut *self.out, event)?;
        Ok(())
    }

    fn name(&mut self, what: &str, pid: u32, tid: u64, name: &str) -> io::Result<()> {
        self.event(
            &json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}),
        )
    }
}

impl TraceFormat for Chrome<'_> {
    fn begin(&mut self, stored: &Stored) -> io::Result<()> {
        let about = json!({
            "schema": SCHEMA,
            "session": stored.record.id,
            "command": stored.record.command.join(" "),
            "started_unix_ns": stored.record.started_unix_ns.to_string(),
        });
        write!(self.out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[")
    }

    fn track(&mut self, id: TrackId, track: &Track) -> io::Result<()> {
        match track {
            Track::Process { pid, name, .. } => {
                self.places.insert(id, (*pid, 0));
                self.name("process_name", *pid, 0, name)
            }
            Track::Thread { pid, tid } => {
                self.places.insert(id, (*pid, u64::from(*tid)));
                self.name("thread_name", *pid, u64::from(*tid), &format!("thread {tid}"))
            }
            Track::Stream { pid, device, stream, .. } => {
                self.places.insert(id, (*pid, FIRST_STREAM + id));
                self.name("thread_name", *pid, FIRST_STREAM + id, &stream_name(*device, *stream))
            }
            Track::Memory { pid, .. } => {
                self.places.insert(id, (*pid, 0));
                Ok(())
            }
        }
    }

    fn slice(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let (pid, tid) = self.places.get(&slice.track).copied().unwrap_or_default();
        let notes: Map<String, Value> = slice
            .notes
            .iter()
            .map(|(name, note)| {
                let value = match note {
                    Note::Whole(number) => json!(number),
                    Note::Text(text) => json!(text),
                    Note::Shape(text) => json!(text),
                };
                ((*name).to_owned(), value)
            })
            .collect();
        self.event(&json!({
            "ph": "X",
            "name": slice.name,
            "cat": slice.category,
            "pid": pid,
            "tid": tid,
            "ts": microseconds(slice.start_ns),
            "dur": microseconds(slice.length_ns),
            "args": notes,
        }))
    }

    fn counter(&mut self, track: TrackId, time_ns: u64, value: u64) -> io::Result<()> {
        let (pid, tid) = self.places.get(&track).copied().unwrap_or_default();
        self.event(&json!({
            "ph": "C",
            "name": "live device memory",
            "pid": pid,
            "tid": tid,
            "ts": microseconds(time_ns),
            "args": {"bytes": value},
        }))
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")
    }
}

fn microseconds(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}
