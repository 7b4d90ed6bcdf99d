//! A short run of random calls; `examples/fuzz_driver.rs` makes long ones.

mod support;

#[path = "support/fuzz.rs"]
mod fuzz;

use support::KERNELS;

#[test]
fn random_calls_neither_crash_nor_hang() {
    let calls = fuzz::run(std::time::Duration::from_secs(2), 1, 3);
    assert!(calls > 1000, "{calls}");
}
