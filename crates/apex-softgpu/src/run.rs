//! Contexts and streams, and how the work that they are given is done.
//!
//! | storey | files, the lowest first |
//! |---|---|
//! | tasks | `services`, `mark`, `domain` (queues and their tasks), `scheduler` (does them) |
//! | who works | `capture`, `context`, `stream`, `event`, `capture_rules` (what a capture forbids) |
//! | what is done | `launch`, `launch_attributes`, `work` |
//!
//! `work` becomes tasks of the `scheduler`, which knows no stream, no event and no driver function.

pub(crate) mod capture;
pub(crate) mod capture_rules;
pub(crate) mod context;
pub(crate) mod domain;
pub(crate) mod event;
pub(crate) mod launch;
pub(crate) mod launch_attributes;
pub(crate) mod mark;
pub(crate) mod scheduler;
pub(crate) mod services;
pub(crate) mod stream;
pub(crate) mod work;
