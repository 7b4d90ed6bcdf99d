//! A trace in Perfetto's protobuf form.
//!
//! Only the messages that are used are described, with the field numbers of Perfetto's own
//! `perfetto_trace.proto`; a test decodes the output with the official descriptors. Packets are written
//! one by one. Time zero of the trace is the session's start; a clock snapshot ties it to the wall
//! clock. Names are sent once and then by number.

use super::trace::{Note, Slice, TraceFormat, Track, TrackId, stream_name};
use crate::read::Stored;
use prost::Message;
use std::collections::HashMap;
use std::io::{self, Write};

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
    #[prost(int32, optional, tag = "2")]
    primary_trace_clock: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Clock {
    #[prost(uint32, optional, tag = "1")]
    clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, repeated, tag = "2")]
    cmdline: Vec<String>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    tid: Option<i64>,
    #[prost(string, optional, tag = "5")]
    thread_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    unit: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(uint64, repeated, tag = "3")]
    category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "1")]
    event_categories: Vec<Interned>,
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<Interned>,
    #[prost(message, repeated, tag = "3")]
    debug_annotation_names: Vec<Interned>,
}

/// `EventCategory`, `EventName` and `DebugAnnotationName` have the same form.
#[derive(Clone, PartialEq, Message)]
struct Interned {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

const CLOCK_REALTIME: u32 = 1;
const CLOCK_BOOTTIME: u32 = 6;
const UNIT_SIZE_BYTES: i32 = 3;
const TYPE_SLICE_BEGIN: i32 = 1;
const TYPE_SLICE_END: i32 = 2;
const TYPE_COUNTER: i32 = 4;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
const SEQUENCE: u32 = 1;

/// Names that were sent, by kind.
#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    /// The number of a name; the name is added to `fresh` if it was not sent before.
    fn number(&mut self, name: &str, fresh: &mut Vec<Interned>) -> u64 {
        if let Some(&number) = self.0.get(name) {
            return number;
        }
        let number = self.0.len() as u64 + 1;
        self.0.insert(name.to_owned(), number);
        fresh.push(Interned { iid: Some(number), name: Some(name.to_owned()) });
        number
    }
}

pub(super) struct Perfetto<'a> {
    out: &'a mut (dyn Write + Send),
    categories: Names,
    events: Names,
    notes: Names,
}

impl<'a> Perfetto<'a> {
    pub(super) fn on(out: &'a mut (dyn Write + Send)) -> Perfetto<'a> {
        Perfetto {
            out,
            categories: Names::default(),
            events: Names::default(),
            notes: Names::default(),
        }
    }

    /// A trace is its packets one after another, so each may be written as a trace of its own.
    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        self.out.write_all(&Trace { packet: vec![packet] }.encode_to_vec())
    }
}

impl TraceFormat for Perfetto<'_> {
    fn begin(&mut self, stored: &Stored) -> io::Result<()> {
        let clock =
            |clock_id, timestamp| Clock { clock_id: Some(clock_id), timestamp: Some(timestamp) };
        self.packet(TracePacket {
            timestamp: Some(0),
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![
                    clock(CLOCK_BOOTTIME, 0),
                    clock(CLOCK_REALTIME, stored.record.started_unix_ns),
                ],
                primary_trace_clock: Some(CLOCK_BOOTTIME as i32),
            }),
            sequence_flags: Some(STATE_CLEARED),
            ..TracePacket::default()
        })
    }

    fn track(&mut self, id: TrackId, track: &Track) -> io::Result<()> {
        let mut descriptor = TrackDescriptor { uuid: Some(id), ..TrackDescriptor::default() };
        match track {
            Track::Process { pid, name, command } => {
                descriptor.process = Some(ProcessDescriptor {
                    pid: i32::try_from(*pid).ok(),
                    cmdline: command.clone(),
                    process_name: Some(name.clone()),
                });
            }
            Track::Thread { pid, tid } => {
                descriptor.thread = Some(ThreadDescriptor {
                    pid: i32::try_from(*pid).ok(),
                    tid: Some(i64::from(*tid)),
                    thread_name: Some(format!("thread {tid}")),
                });
            }
            Track::Stream { process, device, stream, .. } => {
                descriptor.parent_uuid = Some(*process);
                descriptor.name = Some(stream_name(*device, *stream));
            }
            Track::Memory { process, .. } => {
                descriptor.parent_uuid = Some(*process);
                descriptor.name = Some("live device memory".into());
                descriptor.counter = Some(CounterDescriptor { unit: Some(UNIT_SIZE_BYTES) });
            }
        }
        self.packet(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })
    }

    fn slice(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let mut fresh = InternedData::default();
        let name = self.events.number(slice.name, &mut fresh.event_names);
        let category = self.categories.number(slice.category, &mut fresh.event_categories);
        let debug_annotations = slice
            .notes
            .iter()
            .map(|(name, note)| {
                let name_iid = self.notes.number(name, &mut fresh.debug_annotation_names);
                let mut annotation =
                    DebugAnnotation { name_iid: Some(name_iid), ..DebugAnnotation::default() };
                match note {
                    Note::Whole(number) => annotation.uint_value = Some(*number),
                    Note::Text(text) => annotation.string_value = Some((*text).to_owned()),
                    Note::Shape(text) => annotation.string_value = Some(text.clone()),
                }
                annotation
            })
            .collect();
        self.packet(TracePacket {
            timestamp: Some(slice.start_ns),
            track_event: Some(TrackEvent {
                category_iids: vec![category],
                debug_annotations,
                r#type: Some(TYPE_SLICE_BEGIN),
                name_iid: Some(name),
                track_uuid: Some(slice.track),
                counter_value: None,
            }),
            interned_data: (fresh != InternedData::default()).then_some(fresh),
            sequence_flags: Some(NEEDS_STATE),
            ..TracePacket::default()
        })?;
        self.packet(TracePacket {
            timestamp: Some(slice.start_ns.saturating_add(slice.length_ns)),
            track_event: Some(TrackEvent {
                r#type: Some(TYPE_SLICE_END),
                track_uuid: Some(slice.track),
                ..TrackEvent::default()
            }),
            sequence_flags: Some(NEEDS_STATE),
            ..TracePacket::default()
        })
    }

    fn counter(&mut self, track: TrackId, time_ns: u64, value: u64) -> io::Result<()> {
        self.packet(TracePacket {
            timestamp: Some(time_ns),
            track_event: Some(TrackEvent {
                r#type: Some(TYPE_COUNTER),
                track_uuid: Some(track),
                counter_value: Some(i64::try_from(value).unwrap_or(i64::MAX)),
                ..TrackEvent::default()
            }),
            sequence_flags: Some(NEEDS_STATE),
            ..TracePacket::default()
        })
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}
