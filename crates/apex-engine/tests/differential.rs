//! Both tiers agree to the bit on random kernels, and so do kernels with what they are rewritten to for one call;
//! `APEX_DIFFERENTIAL` says how many.

#[path = "../examples/differential/compare.rs"]
mod compare;
#[path = "../examples/differential/generate.rs"]
mod generate;
#[path = "../examples/differential/specialised.rs"]
mod specialised;

use compare::Verdict;

#[test]
fn tiers_agree() {
    let kernels =
        std::env::var("APEX_DIFFERENTIAL").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let mut compiled = 0;
    for seed in 1..=kernels {
        match compare::check(seed) {
            Verdict::Same => compiled += 1,
            Verdict::NotCompiled => {}
            Verdict::Different(report) => panic!("{report}"),
        }
    }
    if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        assert_eq!(compiled, kernels, "every kernel can be compiled");
    }
}

#[test]
fn rewritten_kernels_do_the_same() {
    let kernels =
        std::env::var("APEX_DIFFERENTIAL").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    for seed in 1..=kernels {
        if let Verdict::Different(report) = specialised::check(seed) {
            panic!("{report}");
        }
    }
}
