//! What is known of the process and its objects: known once, asked by all.

pub(crate) mod captures;
pub(crate) mod contexts;
pub(crate) mod costs;
pub(crate) mod extras;
pub(crate) mod graphs;
pub(crate) mod handles;
pub(crate) mod images;
pub(crate) mod inside;
pub(crate) mod kernels;
pub(crate) mod lock;
pub(crate) mod outputs;
pub(crate) mod process;
pub(crate) mod sequences;
pub(crate) mod shape;
pub(crate) mod streams;
pub(crate) mod thread;
pub(crate) mod times;
pub(crate) mod tuning;

/// In a forked child: what its parent knew of itself.
pub(crate) fn forget() {
    process::forget();
    crate::settings::forget();
    thread::forget();
    kernels::forget();
    extras::forget();
    outputs::forget();
    times::forget();
    contexts::forget_all();
}
