//! Kept sessions: their list, and what the commands say of one or of two.
//!
//! A session is named by its whole id and looked for in the list, never opened by a path that a request brings.
//! Reports are read from disk and advice is worked out from every event, so this happens beside the loop that answers,
//! two at a time; what was worked out of a finished session is remembered.

use crate::Shared;
use crate::answer::{self, FAILED, NOT_FOUND, WRONG};
use apex_daemon::advice::{Advice, of_session};
use apex_daemon::diff::{Difference, compare, headline};
use apex_daemon::export::timeline::timeline as timeline_of;
use apex_daemon::export::{Format, export as export_to};
use apex_daemon::progress::Progress;
use apex_daemon::read::Stored;
use apex_daemon::session::KeptSessions;
use apex_daemon::summary::Summary;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, mpsc};

/// Advice that is remembered, of so many sessions.
const REMEMBERED: usize = 16;
/// Pieces of an export that wait for a slow reader.
const PIECES: usize = 8;
/// Bytes of a piece.
const PIECE: usize = 64 << 10;

/// The kept sessions of a user.
#[derive(Debug)]
pub(crate) struct Kept {
    sessions: KeptSessions,
    turns: Arc<Semaphore>,
    advice: Mutex<VecDeque<(String, Arc<Advice>)>>,
}

/// Why a session is not shown.
enum Refusal {
    NoSuchSession,
    Unreadable(String),
}

impl Kept {
    pub(crate) fn of(sessions: KeptSessions) -> Kept {
        Kept { sessions, turns: Arc::new(Semaphore::new(2)), advice: Mutex::default() }
    }

    fn open(&self, id: &str) -> Result<Stored, Refusal> {
        let entry = self.sessions.list().into_iter().find(|entry| entry.id == id);
        let entry = entry.ok_or(Refusal::NoSuchSession)?;
        Stored::open(&entry.directory).map_err(|error| Refusal::Unreadable(error.to_string()))
    }

    fn summary(&self, id: &str) -> Result<Summary, Refusal> {
        Ok(self.open(id)?.summary(&mut Progress::silent()))
    }

    fn advice(&self, id: &str) -> Result<Arc<Advice>, Refusal> {
        let remembered = || self.advice.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, advice)) = remembered().iter().find(|(known, _)| known == id) {
            return Ok(Arc::clone(advice));
        }
        let mut stored = self.open(id)?;
        let advice = Arc::new(of_session(&mut stored, &mut Progress::silent()));
        if stored.record.ended_unix_ns.is_some() {
            let mut remembered = remembered();
            remembered.push_back((id.to_owned(), Arc::clone(&advice)));
            let more = remembered.len().saturating_sub(REMEMBERED);
            remembered.drain(..more);
        }
        Ok(advice)
    }
}

/// Works beside the loop that answers, when it is its turn.
async fn beside(
    shared: &Shared,
    work: impl FnOnce(&Kept) -> Result<Response, Refusal> + Send + 'static,
) -> Response {
    let kept = Arc::clone(&shared.kept);
    let Ok(turn) = Arc::clone(&kept.turns).acquire_owned().await else {
        return answer::refuse(FAILED, "the dashboard ends");
    };
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work(&kept)
    });
    match done.await {
        Ok(Ok(response)) => response,
        Ok(Err(Refusal::NoSuchSession)) => {
            answer::refuse(NOT_FOUND, "no kept session has this id; the list is at #/sessions")
        }
        Ok(Err(Refusal::Unreadable(why))) => answer::refuse(FAILED, &why),
        Err(_) => answer::refuse(FAILED, "the answer could not be made"),
    }
}

/// What `apex sessions --json` prints.
pub(crate) async fn list(State(shared): State<Shared>) -> Response {
    beside(&shared, |kept| Ok(answer::document(&kept.sessions.listed()))).await
}

/// What `apex report --json` prints.
pub(crate) async fn report(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    beside(&shared, move |kept| Ok(answer::document(&kept.summary(&id)?))).await
}

/// What `apex report --advice --json` prints.
pub(crate) async fn advice(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    beside(&shared, move |kept| Ok(answer::document(&*kept.advice(&id)?))).await
}

/// A stretch of a session, in nanoseconds since its start, and how many columns a picture of it has.
#[derive(Debug, Deserialize)]
pub(crate) struct Stretch {
    from: u64,
    to: u64,
    columns: u64,
}

/// What threads, streams and memory did in a stretch of a session, no finer than a picture has room for.
pub(crate) async fn timeline(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    stretch: Result<Query<Stretch>, QueryRejection>,
) -> Response {
    let Ok(Query(Stretch { from, to, columns })) = stretch else {
        return answer::refuse(WRONG, "name a stretch: ?from=NS&to=NS&columns=N");
    };
    let drawn = move |kept: &Kept| {
        let mut stored = kept.open(&id)?;
        let drawn = timeline_of(&mut stored, (from, to), columns, &mut Progress::silent());
        let drawn = drawn.map_err(|error| Refusal::Unreadable(error.to_string()))?;
        Ok(answer::compact(&drawn))
    };
    beside(&shared, drawn).await
}

/// The two sessions of a comparison.
#[derive(Debug, Deserialize)]
pub(crate) struct Pair {
    before: String,
    after: String,
}

/// What `apex diff --json` prints, with the answer in one line.
#[derive(Serialize)]
struct Compared {
    headline: String,
    #[serde(flatten)]
    difference: Difference,
}

pub(crate) async fn diff(
    State(shared): State<Shared>,
    pair: Result<Query<Pair>, QueryRejection>,
) -> Response {
    let Ok(Query(pair)) = pair else {
        return answer::refuse(WRONG, "name two sessions: ?before=ID&after=ID");
    };
    let compared = move |kept: &Kept| {
        let difference = compare(&kept.summary(&pair.before)?, &kept.summary(&pair.after)?);
        Ok(answer::document(&Compared { headline: headline(&difference), difference }))
    };
    beside(&shared, compared).await
}

/// The format of an export.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    format: String,
}

/// What `apex export` writes, as a file to keep.
pub(crate) async fn export(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let wanted = wanted.as_ref().map_or("", |Query(wanted)| &wanted.format);
    let Some(&(word, format, kind, end)) = FORMATS.iter().find(|known| known.0 == wanted) else {
        let words: Vec<&str> = FORMATS.iter().map(|known| known.0).collect();
        return answer::refuse(WRONG, &format!("name a format: ?format={}", words.join("|")));
    };
    beside(&shared, move |kept| {
        let mut stored = kept.open(&id)?;
        let (out, pieces) = mpsc::channel(PIECES);
        // The id is one of the list, but whoever wrote it there may have been another program.
        let plain =
            id.replace(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-', "_");
        let name = format!("attachment; filename=\"apex-{plain}-{word}.{end}\"");
        let writes = move || {
            let mut out = Pieces { out, piece: Vec::with_capacity(PIECE) };
            let done = export_to(&mut stored, format, &mut out, &mut Progress::silent());
            // Whoever reads may have seen enough; an export cut short is told by its missing end.
            let failed = done.and_then(|()| out.flush()).err();
            if let Some(error) = failed.filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
                let _ = out.out.blocking_send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("apex-export".into()).spawn(writes);
        thread.map_err(|error| Refusal::Unreadable(error.to_string()))?;
        let body = Body::from_stream(unfold(pieces, |mut pieces| async move {
            Some((pieces.recv().await?, pieces))
        }));
        let headers = [(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name)];
        Ok((headers, body).into_response())
    })
    .await
}

/// The formats of `apex export`: word, format, media type, ending of the file.
const FORMATS: [(&str, Format, &str, &str); 6] = [
    ("json", Format::Json, "application/json", "json"),
    ("ndjson", Format::Ndjson, "application/x-ndjson", "ndjson"),
    ("csv", Format::Csv, "text/csv", "csv"),
    ("parquet", Format::Parquet, "application/octet-stream", "parquet"),
    ("perfetto", Format::Perfetto, "application/octet-stream", "pftrace"),
    ("chrome", Format::Chrome, "application/json", "json"),
];

/// Hands what is written on to a reader, in pieces; waits while the reader is slow.
struct Pieces {
    out: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        self.out.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
