//! The kernel by which `--fast=specialise` compares what two forms of a kernel wrote.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use support::Run;

const TEXT: &str = include_str!("../../apex-fast/src/specialise/differing.ptx");

/// The text with one of its kernels.
fn alone(kernel: &str) -> String {
    let module = apex_ptx::parse(TEXT).unwrap();
    apex_ptx::specialise::specialise(&module, kernel, &Default::default(), &[])
        .unwrap()
        .module
        .to_string()
}

/// That it is there, words that differ, and words that tell, as the host hears of them.
fn told(a: &[u32], b: &[u32], blocks: u32) -> [u32; 3] {
    let (found, to) = ([0_u32; 2], [7_u32; 3]);
    let run = Run::new(&alone("apex_differing")).grid(blocks).block(64);
    run.buffer(a).buffer(b).value64(a.len() as u64).buffer(&found).launch().unwrap();
    Run::new(&alone("apex_tell")).block(1).buffer(&found).buffer(&to).launch().unwrap();
    // SAFETY: the kernel wrote through the address; the compiler must not assume what stood there.
    unsafe { (&raw const to).read_volatile() }
}

#[test]
fn every_word_is_looked_at() {
    let words: Vec<u32> = (0..1000).map(|nth| nth * 128).collect();
    // Every second of these has none of its lowest eight bits set.
    for blocks in [1, 3, 16] {
        assert_eq!(told(&words, &words, blocks), [1, 0, 500]);
        for at in [0, 63, 64, 511, 999] {
            let mut other = words.clone();
            other[at] ^= 1 << (at % 32);
            assert_eq!(told(&words, &other, blocks), [1, 1, 500], "word {at}");
        }
        let other: Vec<u32> = words.iter().map(|word| !word).collect();
        assert_eq!(told(&words, &other, blocks)[1], 1000);
    }
}
