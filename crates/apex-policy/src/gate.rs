//! The gate: who may use the GPU at this moment, as state machines without a clock, a thread or a driver.
//!
//! The shim runs them in every program that takes part, on atomic words; the simulator runs the same code on plain ones
//! ([`Word`]). What they are told is plain: a launch, a wait, a fence that was reached, the words of the page, the time.
//! What they answer is plain too: go or rest, open or close. Work is counted in predicted nanoseconds of GPU time, never
//! in launches: one launch may be a thousand times another, and what a burst waits for is the length of what is ahead.
//!
//! ```text
//!  a program that others make way for (Bursts)        a program that yields to it
//!
//!      ┌──────── idle ◄───────────────┐               with fences (Fences, Watch): the GPU waits
//!      │ launch or input copy         │
//!      │  · notes others' work ahead  │                 ┌─────► open ◄────────────────────────┐
//!      │  · sets its bit on the page  │                 │        │ a burst begins:            │
//!      │  · closes others' fences ──────────────────────┼──────► │ one store closes them      │
//!      ▼                              │                 │        ▼                            │
//!     open ── all is waited for ──────┤                 │     closed ── no burst, no guard ───┤
//!      │      (Streams knows what     │                 │        │ the GPU comes to a fence   │
//!      │       a wait covers)         │                 │        ▼                            │
//!      │                              │                 │     stands ── no burst: guard over ─┤
//!      │ neither waits nor launches:  │                 │        │      nobody leads ─────────┤
//!      │ others believe in it for     │                 │        │      it is owed its share ─┘
//!      │ 20 ms + 2 × its work         │                 │        │ patience is over
//!      ▼                              │                 │        ▼
//!     not believed ── next launch ────┘                 └── one piece of work goes through
//!              (ends it, opens the next)
//!                                                     without fences (Hold): the calling thread waits
//!  of a launch and an end at once one sees
//!  the other: whoever finds the burst ended             asks ─► go, if admit() says so
//!  opens the next one                                    ▲ │
//!                                                        │ ▼ no
//!                                                       spins 20 µs ─► sleeps, 1 ms at most, woken by
//!                                                                      the end of a burst
//! ```
//!
//! Flight ([`Flight`]) is the one estimate of where the GPU is: launches add to a stream, waits, fences and events take
//! away, and the clock drains in between. Who may go ([`admit()`], [`queue`], [`is_free`]), what others come upon and how
//! long a thread sleeps all follow from it.
//!
//! The order of the files: `word`, then `streams` (the list of streams), `flight`, `burst`, `admit` (go or wait), `fences`,
//! and on top `hold` and `watch`, which say when to go.

mod admit;
mod burst;
mod fences;
mod flight;
mod hold;
mod streams;
mod watch;
mod word;

pub use admit::{
    AHEAD_NS, Admission, LEAD_NS, Limits, Other, Reason, STALE_NS, View, admit, is_free, queue,
};
pub use burst::{Burst, Bursts};
pub use fences::{FENCES, FenceWords, Fences};
pub use flight::{Flight, believed_ns};
pub use hold::{Ask, Hold, LATE_NS, Rest, Step, Went, late_after};
pub use streams::{Stream, Streams};
pub use watch::{Act, Decision, Sight, Upon, Watch};
pub use word::{Plain, Word};
