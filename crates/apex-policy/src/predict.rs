//! Says what a launch will do before it runs: how full it makes the device, how long it takes, and how
//! sure that is.
//!
//! What is arithmetic is computed and never learned: occupancy and block efficiency are [`exact`]. What was
//! measured before is repeated ([`repeats`]); a kernel that was measured in other shapes has a line of its own
//! ([`online`]), costs of its own ([`own_costs`], [`cost_factors`]) and like launches beside it ([`neighbours`]); only
//! what is left goes to models ([`network`], [`trees`]), and each answer says which of these it came from ([`answer`]).
//! All models see the launch through one list of [`features`]; their files are read in `apex-models`.

mod account;
pub mod acquaintance;
pub mod adam;
pub mod anatomy;
pub mod answer;
pub mod bound;
pub mod compared;
pub mod cost_factors;
pub mod exact;
pub mod features;
pub mod likelihood;
pub mod likeness;
pub mod neighbours;
pub mod network;
pub mod online;
pub mod own_costs;
pub mod parts;
pub mod programs;
pub mod question;
pub mod repeats;
pub mod scale;
pub mod text;
pub mod trees;
pub mod turns;
