//! The driver's functions, one file for each subject, as they are handed out.
//!
//! Each function reads its C arguments, asks for the current context and calls what lies below.
//! The files do not know each other, but for `node_work`, which reads C's descriptions for `node` and
//! `executable`; `twins`, which makes the functions for a thread's own stream out of the others; and
//! `table`, which finds all by name with the help of `names`.

pub(crate) mod array;
pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod executable;
pub(crate) mod facts;
pub(crate) mod fill;
pub(crate) mod graph;
pub(crate) mod ipc;
pub(crate) mod kernel;
pub(crate) mod launch;
pub(crate) mod library;
pub(crate) mod link;
pub(crate) mod managed;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod names;
pub(crate) mod node;
pub(crate) mod node_work;
pub(crate) mod occupancy;
pub(crate) mod pointer;
pub(crate) mod pool;
pub(crate) mod private_tables;
pub(crate) mod profiler;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod tensor_map;
pub(crate) mod texture;
pub(crate) mod texture_reference;
pub(crate) mod twins;
pub(crate) mod user_object;
pub(crate) mod virtual_memory;
