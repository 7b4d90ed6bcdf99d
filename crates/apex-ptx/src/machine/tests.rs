//! What the counts of machine code must be, by the text that it was made of.

use super::*;

/// Made by `ptxas -arch=sm_90a` of `tests/machine/known.ptx`.
const KNOWN: &[u8] = include_bytes!("../../tests/machine/known.cubin");

fn count(machine: &Machine, kind: Kind) -> Count {
    let of = machine.counts.iter().filter(|((operation, _), _)| kind_of(*operation) == kind);
    of.fold(Count::default(), |sum, (_, more)| Count {
        all: sum.all + more.all,
        looped: sum.looped + more.looped,
        nested: sum.nested + more.nested,
    })
}

fn known(kernel: &str) -> Machine {
    Machine::of(section(KNOWN, kernel).unwrap(), 90).unwrap()
}

#[test]
fn what_a_text_says_is_found_in_its_machine_code() {
    let machine = known("straight");
    let all = |kind| count(&machine, kind).all;
    assert_eq!((all(Kind::LoadGlobal), all(Kind::StoreGlobal)), (1, 1));
    assert_eq!((all(Kind::LoadShared), all(Kind::StoreShared)), (1, 1));
    // A root and an exponential; a barrier, an exchange, an atomic.
    assert_eq!((all(Kind::Special), all(Kind::Barrier)), (2, 1));
    assert_eq!((all(Kind::Exchange), all(Kind::AtomicGlobal)), (1, 1));
    // Sixteen bytes are loaded and eight stored.
    assert_eq!(machine.counts[&(0x181, 4)].all, 1);
    assert_eq!(machine.counts[&(0x186, 3)].all, 1);
    assert_eq!((machine.loops, count(&machine, Kind::Float32).looped), (0, 0));
}

#[test]
fn a_loop_in_a_loop_is_seen_whatever_the_compiler_unrolls() {
    let machine = known("looped");
    // Each turn of the inner loop loads, multiplies and adds; the compiler has three forms of it.
    assert!(machine.loops >= 2);
    let loads = machine.counts[&(0x181, 2)];
    assert_eq!(loads.all, loads.looped, "nothing is loaded outside of loops");
    assert!(loads.nested > 0 && loads.nested < loads.looped, "{loads:?}");
    let fused = machine.counts[&(0x023, 0)];
    assert_eq!(fused.looped, fused.all);
    assert_eq!(machine.counts[&(0x186, 2)], Count { all: 1, looped: 0, nested: 0 });
}

#[test]
fn both_kinds_of_matrix_instructions_are_told_apart() {
    let machine = known("matrices");
    assert_eq!((count(&machine, Kind::Tensor).all, count(&machine, Kind::WideTensor).all), (1, 1));
    assert!(
        machine.total() < 20 && machine.counts.values().map(|count| count.all).sum::<u32>() == 24
    );
}

#[test]
fn an_older_device_has_its_distances_in_one_piece() {
    // BRA to itself at the end, and one that leads from the third instruction to the first.
    let word = |low: u64, high: u64| (u128::from(low) | u128::from(high) << 64).to_le_bytes();
    let back = word(0xffff_ffd0_0000_7947, 0x0383_ffff);
    let itself = word(0xffff_fff0_0000_7947, 0x0383_ffff);
    let add = word(0x7221, 0);
    let machine = Machine::of(&[add, add, back, add, itself].concat(), 80).unwrap();
    assert_eq!(machine.loops, 1);
    assert_eq!(machine.counts[&(0x021, 0)], Count { all: 3, looped: 2, nested: 0 });
    assert_eq!(Machine::of(&add, 120), None);
}

#[test]
fn counts_survive_as_text_and_noise_is_none() {
    for kernel in ["straight", "looped", "matrices"] {
        let machine = known(kernel);
        assert_eq!(Machine::read(&machine.text()), Some(machine));
    }
    for noise in ["", "x", "1 2", "1 2/3:4", "1 181/2:1:1"] {
        assert_eq!(Machine::read(noise), None, "{noise}");
    }
}

#[test]
fn a_cubin_that_lies_has_no_section() {
    assert_eq!(section(KNOWN, "straigh"), None);
    assert_eq!(section(&KNOWN[..200], "straight"), None);
    assert_eq!(section(b"\x7fELF", "straight"), None);
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize
    };
    for _ in 0..2_000 {
        let mut broken = KNOWN.to_vec();
        for _ in 0..8 {
            let place = if random() % 2 == 0 { random() % 64 } else { random() % broken.len() };
            broken[place] = random() as u8;
        }
        if let Some(code) = section(&broken, "looped") {
            let _ = Machine::of(code, 90);
        }
    }
}
