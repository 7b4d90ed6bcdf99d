//! Says what a launch will do before it runs: how full it makes the device, how long it takes, and how
//! sure that is.
//!
//! What is arithmetic is computed and never learned: occupancy and block efficiency are [`exact`]. What was
//! measured before is repeated ([`repeats`]); a kernel that was measured in other shapes has a line of its own
//! ([`online`]), costs of its own ([`own_costs`], [`cost_factors`]) and like launches beside it ([`neighbours`]); only
//! what is left goes to models, and each answer says which of these it came from ([`answer`]). Models come as bytes and are refused
//! with a reason where they are broken ([`tensor_file`], [`swap`]); all of them see the launch through one list of
//! [`features`].

mod account;
pub mod adam;
pub mod anatomy;
pub mod answer;
pub mod cost_factors;
pub mod dense;
pub mod exact;
pub mod features;
pub mod float16;
mod json;
pub mod likelihood;
pub mod likeness;
pub mod neighbours;
pub mod network;
pub mod online;
pub mod onnx;
pub mod own_costs;
mod products;
mod protobuf;
pub mod question;
pub mod repeats;
pub mod scale;
pub mod swap;
pub mod tensor_file;
pub mod trees;
pub mod turns;
