//! Runs kernels of newer instructions as they are and brought down to older chips: every bit must be the same.
//!
//! A kernel loads its registers from the thread's line of input, executes some forms, and stores all its registers.

use crate::forms::Form;
use crate::support::Run;
use apex_ptx::lower::{Goal, Lowered, Target, lower};
use std::fmt::Write as _;

/// A thread's line of input, and of output.
pub(crate) const INPUT_WORDS: usize = 8;
const OUTPUT_WORDS: usize = 32;
pub(crate) const THREADS: usize = 128;
/// Registers of each letter that a kernel has.
const REGISTERS: u64 = 8;
/// What every driver reads that knows the oldest of the chips.
const VERSION: (u32, u32) = (9, 0);
/// What texts may end up on.
pub(crate) const CHIPS: [u32; 5] = [100, 90, 89, 80, 75];

/// xorshift64*: small, and the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 33) % end
    }
}

/// A form with registers in its places. The lists of vectors that are written name each register once.
pub(crate) fn filled(form: &Form, random: &mut Random) -> String {
    let mut text = String::new();
    let mut next = random.below(REGISTERS);
    for (at, letter) in form.text.char_indices() {
        let alone = |at: Option<char>| {
            at.is_none_or(|letter| !letter.is_ascii_alphanumeric() && letter != '_')
        };
        let before = form.text[..at].chars().next_back();
        let after = form.text[at + 1..].chars().next();
        let is_place = alone(before) && before != Some('.') && before != Some(':') && alone(after);
        if !is_place {
            text.push(letter);
            continue;
        }
        next = (next + 1) % REGISTERS;
        let _ = match letter {
            'R' => write!(text, "%r{next}"),
            'D' => write!(text, "%d{}", next % 4),
            'H' => write!(text, "%h{next}"),
            'B' => write!(text, "%b{}", next % 4),
            'P' => write!(text, "%p{}", next % 4),
            'I' => write!(text, "%input"),
            'O' => write!(text, "%output"),
            'S' => write!(text, "%space"),
            other => write!(text, "{other}"),
        };
    }
    text
}

/// A kernel that executes some instructions.
pub(crate) fn kernel(instructions: &[String]) -> String {
    let mut text = String::from(
        ".version 9.1\n.target sm_120a\n.address_size 64\n\
         .visible .entry k(.param .u64 input, .param .u64 output) {\n\
         .reg .b32 %r<8>, %t, %space; .reg .b64 %d<4>, %input, %output; .reg .b16 %h<8>; .reg .b8 %b<4>; .reg .pred %p<4>;\n\
         .shared .align 16 .b8 lines[2048];\n\
         mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mad.lo.u32 %t, %r0, 128, %r1;\n\
         mov.u32 %space, lines; mad.lo.u32 %space, %r1, 16, %space;\n\
         ld.param.u64 %input, [input]; mad.wide.u32 %input, %t, 32, %input;\n\
         ld.param.u64 %output, [output]; mad.wide.u32 %output, %t, 128, %output;\n\
         ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%input]; ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%input+16];\n\
         ld.global.v2.b64 {%d0, %d1}, [%input]; ld.global.v2.b64 {%d2, %d3}, [%input+16];\n",
    );
    for at in 0..4 {
        let _ = writeln!(text, "mov.b32 {{%h{}, %h{}}}, %r{};", 2 * at, 2 * at + 1, 2 * at);
        let _ = writeln!(text, "cvt.u8.u32 %b{at}, %r{}; setp.lt.s32 %p{at}, %r{at}, 0;", at + 4);
    }
    for instruction in instructions {
        let _ = writeln!(text, "{instruction};");
    }
    text.push_str(
        "st.global.v4.b32 [%output+32], {%r0, %r1, %r2, %r3}; st.global.v4.b32 [%output+48], {%r4, %r5, %r6, %r7};\n\
         st.global.v2.b64 [%output+64], {%d0, %d1}; st.global.v2.b64 [%output+80], {%d2, %d3};\n",
    );
    for at in 0..8 {
        let _ = writeln!(text, "st.global.b16 [%output+{}], %h{at};", 96 + 2 * at);
    }
    for at in 0..4 {
        let _ = writeln!(text, "cvt.u32.u8 %t, %b{at}; st.global.u8 [%output+{}], %t;", 112 + at);
        let _ =
            writeln!(text, "selp.u32 %t, 1, 0, %p{at}; st.global.u8 [%output+{}], %t;", 116 + at);
    }
    text.push_str("ret;\n}\n");
    text
}

/// A line of memory, as wide as the widest access.
#[derive(Clone)]
#[repr(align(32))]
pub(crate) struct Line(pub(crate) [u32; INPUT_WORDS]);

/// What the kernel's threads wrote.
pub(crate) fn run(text: &str, input: &[Line]) -> Result<Vec<u32>, String> {
    let output = vec![Line([0x5555_5555; INPUT_WORDS]); input.len() * OUTPUT_WORDS / INPUT_WORDS];
    let blocks = u32::try_from(input.len() / THREADS).map_err(|_| "too many lines")?;
    let run = Run::new(text).grid(blocks).block(THREADS as u32).buffer(input).buffer(&output);
    run.launch().map_err(|fault| fault.to_string())?;
    // The kernel wrote behind the compiler's back.
    let output = std::hint::black_box(output);
    Ok(output.iter().flat_map(|line| line.0).collect())
}

/// Brings a text down to a chip.
pub(crate) fn to_chip(text: &str, chip: u32) -> Result<Lowered, String> {
    let goal = Goal { target: Target { number: chip, is_own: false }, version: VERSION };
    let lowered = lower(text, goal).map_err(|error| error.to_string())?;
    // Whether something newer is left is asked of the same table, by calling the text newer.
    let (older, newer) = (format!(".target sm_{chip}\n"), ".target sm_120\n");
    let again =
        lower(&lowered.text.replace(&older, newer), goal).map_err(|error| error.to_string())?;
    if again.changes.is_empty() {
        Ok(lowered)
    } else {
        Err(format!("something newer is left:\n{}", lowered.text))
    }
}

/// Compares what a text does with what it does when it is brought down; the difference in words.
pub(crate) fn same(
    text: &str,
    chip: u32,
    input: &[Line],
    direct: &[u32],
) -> Result<Lowered, String> {
    let lowered = to_chip(text, chip)?;
    let got = run(&lowered.text, input)?;
    let Some(at) = (0..direct.len()).find(|&at| direct[at] != got[at]) else { return Ok(lowered) };
    let line = &input[at / OUTPUT_WORDS].0;
    Err(format!(
        "sm_{chip}: thread {} of input {line:08x?} gives {:08x} at byte {}, expected {:08x}\n{}",
        at / OUTPUT_WORDS,
        got[at],
        4 * (at % OUTPUT_WORDS),
        direct[at],
        lowered.text
    ))
}

/// Lines that hold special values in many combinations, then numbers near those where small formats round, then bits.
pub(crate) fn lines(blocks: usize, random: &mut Random) -> Vec<Line> {
    let count = blocks * THREADS;
    let word = |at: usize, random: &mut Random| match random.below(4) {
        0 => SPECIALS[random.below(SPECIALS.len() as u64) as usize],
        // Few bits behind the point, and an exponent near zero: ties.
        1 => (random.next() as u32 & 0x81FC_0000) + 0x3B00_0000,
        2 => (random.next() as u32 & 0x83FF_FFFF) + 0x3C00_0000,
        _ if at < SPECIALS.len() => SPECIALS[at],
        _ => random.next() as u32,
    };
    (0..count).map(|at| Line(std::array::from_fn(|_| word(at, random)))).collect()
}

/// Numbers that go wrong first, of 32 and of twice 16 bits.
#[rustfmt::skip]
const SPECIALS: [u32; 44] = [
    0, 0x8000_0000, 1, 0x8000_0001, 0x007F_FFFF, 0x0080_0000, 0x3F80_0000, 0xBF80_0000, 0x7F7F_FFFF, 0xFF7F_FFFF,
    0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0xFFC1_2345, 0x7F80_0001, 0x7FFF_FFFF, 0x0040_0000, 0x0040_0001,
    0x43E0_0000, 0x43E8_0000, 0x43E7_FFFF, 0x4760_0000, 0x4768_0000, 0x40F0_0000, 0x40F8_0000, 0x41E0_0000, 0x41F0_0000,
    0x40C0_0000, 0x40E0_0000, 0x40A0_0000, 0x3E80_0000, 0x3E80_0001, 0x3D80_0000, 0x3B00_0000, 0x3A80_0000, 0x3A80_0001,
    0x7C00_FC00, 0x7E00_0001, 0x7C01_8000, 0x7FC0_FF80, 0x7F81_0080, 0x3C00_BC00, 0x7F7F_FF7F, 0xFFFF_0000,
];
