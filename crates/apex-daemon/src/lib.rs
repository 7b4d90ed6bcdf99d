//! Collects what the shim recorded, keeps it as a session on disk, and shows it.
//!
//! The way of the data: [`collect`] drains the rings of every process, [`resolve`] makes rows of
//! their events, [`summarise`] counts them as they come, [`store`] keeps them as Parquet, [`show`]
//! and [`export`] bring them out again. [`recording`] ties these together while a program runs;
//! [`session`] and [`recover`] look after what lies on disk. The program never waits for any of it:
//! what cannot be kept in time is counted and said.
#![forbid(unsafe_code)]

pub mod advice;
pub mod check;
pub mod code;
pub mod code_document;
pub mod collect;
mod columns;
mod contain;
mod described;
pub mod diff;
pub mod doctor;
pub mod document;
mod error;
pub mod evidence;
pub mod export;
mod fast;
pub mod find;
pub mod graph;
pub mod history;
mod interpolate;
pub mod known;
pub mod learn;
pub mod lease;
pub mod live;
mod memory;
pub mod names;
mod object;
pub mod palette;
pub mod progress;
pub mod read;
mod reading;
pub mod recent;
pub mod recording;
pub mod recover;
pub mod resolve;
pub mod rings_place;
pub mod row;
pub mod schedule;
pub mod scratch;
pub mod session;
pub mod show;
pub mod simulate;
pub mod speech;
pub mod store;
pub mod summarise;
pub mod summary;
pub mod user_setup;
pub mod watch;
mod whole_file;
mod work;

pub use error::Error;
