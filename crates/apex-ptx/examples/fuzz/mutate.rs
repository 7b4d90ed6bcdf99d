//! Broken PTX in endless supply, and what must hold for all of it.
//!
//! Used by the test that runs for seconds and by the example that runs as long as it is told.
//! Everything follows from the seed, so a failure can be repeated.

use apex_ptx::cfg::Graph;
use apex_ptx::classes::Classes;
use apex_ptx::code::Code;
use apex_ptx::liveness::Liveness;
use apex_ptx::mix::Mix;
use apex_ptx::tree::Module;

/// A small generator of numbers that look random (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`; 0 where there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// What parsers stumble over.
const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    ",",
    ";",
    ":",
    "::",
    "|",
    "@",
    "@!",
    "@@DWARF x\n",
    "!",
    "-",
    "+",
    "~",
    "?",
    "_",
    "%",
    "$",
    ".",
    "..",
    "\"",
    "\\",
    "/*",
    "*/",
    "//",
    "\n",
    "\0",
    "\u{e9}",
    "\u{1f600}",
    "0x",
    "0f",
    "0f3F800000",
    "0d",
    "0b",
    "1e",
    "1e-",
    "9223372036854775808",
    "-1",
    "1U",
    "99999999999999999999999",
    "1/0",
    "(-9223372036854775807-1)/-1",
    "1<<64",
    "-9223372036854775807-1",
    "WARP_SZ",
    "generic(",
    ".reg .b32 %r<4294967295>;",
    ".reg .b32 %r<5>;",
    ".param",
    ".align 3",
    ".v4",
    ".entry",
    ".func",
    ".callprototype",
    ".branchtargets",
    ".calltargets",
    ".section x {",
    ".loc 1 2 3",
    ".file 1 \"a\"",
    ".pragma \"x\";",
    ".alias a, b;",
    ".weak",
    ".visible",
    ".extern",
    ".common",
    ".global .u32 x = {",
    "L: bra L;",
    "bra nowhere;",
    "brx.idx %r1, L;",
    "call (a), f, (b);",
    "ret;",
    "exit;",
    "trap;",
    "[18446744073709551615]",
    "a[-9223372036854775807-1]",
    "{{{{{{{{",
    "((((((((",
    "[[[[",
    "mov.b64 {}, {};",
    ".attribute(.managed",
    ".maxntid 1,2,3,4",
    "name+",
    ".unified",
];

/// Breaks a text in one to eight places.
pub(crate) fn mutate(random: &mut Random, texts: &[String]) -> String {
    let mut text = texts[random.below(texts.len())].clone();
    // Whole lines first: what comes out is often still PTX, and reaches beyond the parser.
    for _ in 0..random.below(6) {
        text = move_lines(random, &text);
    }
    if random.below(3) == 0 {
        return text;
    }
    let mut bytes = text.into_bytes();
    for _ in 0..=random.below(8) {
        let place = random.below(bytes.len() + 1);
        match random.below(8) {
            0 => bytes.truncate(place),
            1 => {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= 1 << random.below(8);
                }
            }
            2 | 3 => {
                let piece = PIECES[random.below(PIECES.len())];
                bytes.splice(place..place, piece.bytes());
            }
            4 => {
                let end = (place + random.below(40)).min(bytes.len());
                bytes.drain(place..end);
            }
            5 => {
                let other = texts[random.below(texts.len())].as_bytes();
                let start = random.below(other.len());
                let end = (start + random.below(400)).min(other.len());
                bytes.splice(place..place, other[start..end].iter().copied());
            }
            6 => {
                let end = (place + random.below(200)).min(bytes.len());
                let again = bytes[place..end].repeat(1 + random.below(4));
                bytes.splice(place..place, again);
            }
            _ => {
                let piece = PIECES[random.below(PIECES.len())].repeat(1 + random.below(300));
                bytes.splice(place..place, piece.into_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Swaps, repeats or drops some lines.
fn move_lines(random: &mut Random, text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let (one, other) = (random.below(lines.len()), random.below(lines.len()));
    if lines.is_empty() {
        return String::new();
    }
    match random.below(4) {
        0 => lines.swap(one, other),
        1 => lines.insert(one, lines[other]),
        2 => {
            lines.remove(one);
        }
        _ => {
            let end = (other + random.below(20)).min(lines.len());
            let again: Vec<&str> = lines[other..end].to_vec();
            lines.splice(one..one, again);
        }
    }
    lines.join("\n")
}

/// Sends a text through everything, and links it with the one that `before` holds. Whether it
/// parsed; panics where a promise is broken.
pub(crate) fn check(text: &str, before: &mut Option<Module>) -> bool {
    let Ok(module) = apex_ptx::parse(text) else {
        return false;
    };
    let printed = module.to_string();
    match apex_ptx::parse(&printed) {
        Ok(again) => {
            assert!(
                again.without_lines() == module.clone().without_lines(),
                "the printed text has another meaning"
            );
        }
        Err(error) => panic!("the printed text does not parse: {error}"),
    }
    for function in module.functions() {
        let mix = Mix::of(function);
        let Ok(code) = Code::new(function) else {
            continue;
        };
        assert_eq!(mix.total(), code.instructions.len() as u64);
        let graph = Graph::new(&code);
        let covered: usize = graph.blocks.iter().map(|block| block.instructions.len()).sum();
        assert_eq!(covered, code.instructions.len());
        graph.dominators();
        graph.post_dominators();
        let classes = Classes::new(&code);
        assert!(Liveness::new(&code, &graph, &classes).is_some());
    }
    let other = before.replace(module.clone()).unwrap_or_else(|| module.clone());
    if let Ok(linked) = apex_ptx::link(&[other, module]) {
        let printed = linked.module.to_string();
        let again = apex_ptx::parse(&printed).map(Module::without_lines);
        assert!(again == Ok(linked.module.without_lines()), "the linked text has another meaning");
    }
    true
}
