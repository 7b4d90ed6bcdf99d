//! What runs now, as a stream of frames for every page that is open.
//!
//! One thread looks, ten times a second, and only while somebody listens: nobody who is absent costs anything, and ten
//! pages cost the programs no more than one. A listener who is slow misses frames and gets the newest; frames never
//! queue. The first thing a listener gets is the last minute, so a page that is loaded again shows no gap.

use crate::frame::{Frame, Past};
use crate::{Places, Shared};
use apex_daemon::schedule::view::ScheduleWatch;
use apex_daemon::watch::Watch;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// The thread that looks, and those who listen.
#[derive(Debug)]
pub(crate) struct Live {
    frames: watch::Sender<Arc<str>>,
    sight: Mutex<Sight>,
    somebody_listens: Condvar,
}

/// What was seen.
#[derive(Debug)]
struct Sight {
    watch: Watch,
    schedule: ScheduleWatch,
}

impl Live {
    pub(crate) fn start(places: &Places) -> io::Result<Arc<Live>> {
        let sight =
            Sight { watch: Watch::of(&places.rings), schedule: ScheduleWatch::of(&places.gate) };
        let live = Arc::new(Live {
            frames: watch::Sender::new(Arc::from("")),
            sight: Mutex::new(sight),
            somebody_listens: Condvar::new(),
        });
        let looks = Arc::clone(&live);
        std::thread::Builder::new().name("apex-live".into()).spawn(move || looks.look_on())?;
        Ok(live)
    }

    fn lock(&self) -> MutexGuard<'_, Sight> {
        self.sight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_on(&self) {
        loop {
            let mut sight = self.lock();
            while self.frames.is_closed() {
                let waited = self.somebody_listens.wait(sight);
                sight = waited.unwrap_or_else(PoisonError::into_inner);
            }
            let next = Instant::now() + FRAME;
            sight.watch.look(FRAME);
            let gpus = sight.schedule.look();
            let frame = serde_json::to_string(&Frame::of(&sight.watch, gpus));
            drop(sight);
            self.frames.send_replace(Arc::from(frame.unwrap_or_default()));
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    /// The last minute, and the frames from here on.
    fn listen(&self) -> (String, watch::Receiver<Arc<str>>) {
        let mut sight = self.lock();
        let frames = self.frames.subscribe();
        if self.frames.receiver_count() == 1 {
            // After a time in which nobody looked, what was seen before it is old.
            sight.watch.look(FRAME);
        }
        let past = serde_json::to_string(&Past::of(&sight.watch)).unwrap_or_default();
        drop(sight);
        self.somebody_listens.notify_all();
        (past, frames)
    }
}

/// Frames as server-sent events: `past` once, then `frame` again and again.
pub(crate) async fn stream(State(shared): State<Shared>) -> Response {
    let (past, mut frames) = shared.live.listen();
    frames.mark_unchanged();
    let events = unfold((Some(past), frames), |(past, mut frames)| async move {
        if let Some(past) = past {
            return Some((event("past", &past), (None, frames)));
        }
        frames.changed().await.ok()?;
        let frame = Arc::clone(&frames.borrow_and_update());
        Some((event("frame", &frame), (None, frames)))
    });
    Sse::new(events).keep_alive(KeepAlive::new()).into_response()
}

fn event(name: &str, data: &str) -> Result<Event, Infallible> {
    Ok(Event::default().event(name).data(data))
}
