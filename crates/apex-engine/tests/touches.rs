//! What a launch is said to touch is compared with every address that it really touches.
//!
//! Kernels are made at random: arithmetic, branches, loops and pointers that wander, on registers that come from the
//! thread's place, from parameters and from memory. A launch runs in the interpreter, which asks before each access
//! outside its window; there each address is looked up. Memory counts as one allocation of everything, so that nothing
//! is taken for granted of a kernel that leaves it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use apex_engine::{Device, Grid, Identity, Launch, Module, Services, Window};
use apex_ptx::touches::{Scratch, Shape, Touch, Touches};
use std::fmt::Write;
use std::sync::{Arc, Mutex};

/// Words of memory; kernels begin in its middle.
const WORDS: usize = 1 << 16;

/// Notes each access; those outside of memory end the kernel.
struct Noted {
    memory: std::ops::Range<u64>,
    accesses: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Services for Noted {
    fn print(&self, _: &[u8]) {}
    fn assert_failed(&self, _: &str) {}
    fn heap_alloc(&self, _: u64) -> u64 {
        0
    }
    fn heap_free(&self, _: u64) {}
    fn find(&self, _: u64) -> Option<(u64, u64)> {
        None
    }
    fn reaches(&self, address: u64, bytes: u64) -> bool {
        self.accesses.lock().unwrap().push((address, bytes));
        address >= self.memory.start && address.saturating_add(bytes) <= self.memory.end
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, count: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Registers that statements read and write.
const VARIABLES: u64 = 10;

struct Writer<'a> {
    random: &'a mut Random,
    text: String,
    fresh: u64,
}

impl Writer<'_> {
    fn number(&mut self) -> u64 {
        self.fresh += 1;
        self.fresh
    }

    fn operand(&mut self) -> String {
        match self.random.below(4) {
            0 => self.random.one(&["1", "3", "-1", "16", "255", "-4", "1000", "2147483647"]).into(),
            _ => format!("%r{}", self.random.below(VARIABLES)),
        }
    }

    fn statements(&mut self, depth: u64) {
        for _ in 0..2 + self.random.below(4) {
            match self.random.below(12) {
                0..=4 => self.arithmetic(),
                5 | 6 if depth < 3 => self.branch(depth),
                7 | 8 if depth < 2 => self.turns(depth),
                _ => self.access(),
            }
        }
    }

    fn arithmetic(&mut self) {
        let (to, a, b) = (self.random.below(VARIABLES), self.operand(), self.operand());
        let guard = match self.random.below(8) {
            0 => {
                let p = self.compare();
                format!("@{}%p{p} ", self.random.one(&["", "!"]))
            }
            _ => String::new(),
        };
        let line = match self.random.below(16) {
            0..=3 => {
                format!("{} %r{to}, {a}, {b};", self.random.one(&["add.s32", "sub.s32", "add.u32"]))
            }
            4 | 5 => format!("mul.lo.s32 %r{to}, {a}, {b};"),
            6 => format!("mad.lo.s32 %r{to}, {a}, {b}, %r3;"),
            7 => {
                format!("{} %r{to}, {a}, {b};", self.random.one(&["and.b32", "or.b32", "xor.b32"]))
            }
            8 => {
                let operation = self.random.one(&["shl.b32", "shr.u32", "shr.s32"]);
                format!(
                    "{operation} %r{to}, {a}, {};",
                    self.random.one(&["1", "2", "5", "31", "33"])
                )
            }
            9 => {
                let operation = self.random.one(&["min.s32", "max.s32", "min.u32", "max.u32"]);
                format!("{operation} %r{to}, {a}, {b};")
            }
            10 => {
                let operation = self.random.one(&["rem.u32", "rem.s32", "div.u32", "div.s32"]);
                format!("{operation} %r{to}, {a}, {};", self.random.one(&["3", "7", "64", "-5"]))
            }
            11 => format!("{} %r{to}, {a};", self.random.one(&["neg.s32", "not.b32", "mov.u32"])),
            12 => {
                let p = self.compare();
                format!("selp.b32 %r{to}, {a}, {b}, %p{p};")
            }
            13 => format!("{} %r{to}, {a}, {b};", self.random.one(&["mul.hi.u32", "mul.hi.s32"])),
            14 => format!("bfe.u32 %r{to}, {a}, 2, 7;"),
            _ => format!("cvt.u16.u32 %h1, %r{to}; cvt.s32.s16 %r{to}, %h1;"),
        };
        let _ = writeln!(
            self.text,
            "{}",
            line.split_inclusive(';').map(|one| format!("{guard}{one}")).collect::<String>()
        );
    }

    /// A predicate of two registers.
    fn compare(&mut self) -> u64 {
        let (p, a, b) = (self.number(), self.random.below(VARIABLES), self.operand());
        let by = self.random.one(&["lt", "le", "gt", "ge", "eq", "ne"]);
        let ty = self.random.one(&["s32", "u32"]);
        match self.random.below(4) {
            0 => {
                let q = self.number();
                let (c, join) = (self.operand(), self.random.one(&["and", "or"]));
                let _ = writeln!(
                    self.text,
                    "setp.gt.s32 %p{q}, %r{a}, {c}; setp.{by}.{join}.{ty} %p{p}, %r{a}, {b}, %p{q};"
                );
            }
            1 => {
                let (q, c) = (self.number(), self.operand());
                let other = self.number();
                let join = self.random.one(&["and", "or"]);
                let _ = writeln!(
                    self.text,
                    "setp.{by}.{ty} %p{q}, %r{a}, {b}; setp.lt.s32 %p{other}, %r{a}, {c}; {join}.pred %p{p}, %p{q}, %p{other};"
                );
            }
            _ => _ = writeln!(self.text, "setp.{by}.{ty} %p{p}, %r{a}, {b};"),
        }
        p
    }

    fn branch(&mut self, depth: u64) {
        let (p, label) = (self.compare(), self.number());
        let negated = self.random.one(&["", "!"]);
        let _ = writeln!(self.text, "@{negated}%p{p} bra L{label};");
        self.statements(depth + 1);
        if self.random.below(2) == 0 {
            let end = self.number();
            let _ = writeln!(self.text, "bra L{end};\nL{label}:");
            self.statements(depth + 1);
            let _ = writeln!(self.text, "L{end}:");
        } else {
            let _ = writeln!(self.text, "L{label}:");
        }
    }

    /// A loop of 40 turns at most, with a register that counts and a pointer that wanders.
    fn turns(&mut self, depth: u64) {
        let (head, end, safe, p) = (self.number(), self.number(), self.number(), self.number());
        let counter = self.random.below(VARIABLES);
        let (first, limit) = (self.operand(), self.operand());
        let step = self.random.one(&["1", "2", "-1", "-3", "7", "%r2"]);
        let by = self.random.one(&["lt", "le", "gt", "ge", "ne"]);
        let ty = self.random.one(&["s32", "u32"]);
        let pointer = self.number();
        let stride = self.random.one(&["4", "-4", "64", "%d2"]);
        let _ = writeln!(self.text, "mov.u32 %c{safe}, 0; mov.u32 %r{counter}, {first};");
        let _ = writeln!(
            self.text,
            "mul.wide.s32 %d{pointer}, %r0, 4; add.s64 %d{pointer}, %d1, %d{pointer};"
        );
        let _ = writeln!(self.text, "L{head}:");
        let is_tested_first = self.random.below(2) == 0;
        let test = format!("setp.{by}.{ty} %p{p}, %r{counter}, {limit};");
        if is_tested_first {
            let _ = writeln!(self.text, "{test} @!%p{p} bra L{end};");
        }
        self.statements(depth + 1);
        let kind =
            self.random.one(&["ld.global.u32 %r9, [", "st.global.u32 [", "ld.global.u8 %r8, ["]);
        let tail = if kind.starts_with("st") { "], %r1;" } else { "];" };
        let _ = writeln!(
            self.text,
            "{kind}%d{pointer}{tail} add.s64 %d{pointer}, %d{pointer}, {stride};"
        );
        let guard = self.number();
        let _ = writeln!(
            self.text,
            "add.u32 %c{safe}, %c{safe}, 1; setp.ge.u32 %p{guard}, %c{safe}, 40; @%p{guard} bra L{end};"
        );
        let _ = writeln!(self.text, "add.s32 %r{counter}, %r{counter}, {step};");
        if is_tested_first {
            let _ = writeln!(self.text, "bra L{head};");
        } else {
            let _ = writeln!(self.text, "{test} @%p{p} bra L{head};");
        }
        let _ = writeln!(self.text, "L{end}:");
    }

    fn access(&mut self) {
        let (v, d, p) = (self.random.below(VARIABLES), self.number(), self.number());
        let mut guard = String::new();
        let limit = self.random.one(&["%r4", "1000", "64"]);
        let _ = match self.random.below(6) {
            0 | 1 => {
                guard = format!("@%p{p} ");
                writeln!(self.text, "mov.u32 %r10, %r{v}; setp.lt.u32 %p{p}, %r10, {limit};")
            }
            2 => writeln!(self.text, "rem.u32 %r10, %r{v}, 500;"),
            3 => writeln!(self.text, "and.b32 %r10, %r{v}, 1023;"),
            4 => writeln!(self.text, "min.s32 %r10, %r{v}, 300; max.s32 %r10, %r10, -20;"),
            _ => writeln!(self.text, "mov.u32 %r10, %r{v};"),
        };
        let wide = self.random.one(&["mul.wide.s32", "mul.wide.u32"]);
        let _ = writeln!(self.text, "{wide} %d{d}, %r10, 4; add.s64 %d{d}, %d1, %d{d};");
        let offset = self.random.one(&["", "+4", "-8"]);
        let _ = match self.random.below(4) {
            0 => writeln!(self.text, "{guard}st.global.u32 [%d{d}{offset}], %r0;"),
            1 => writeln!(self.text, "{guard}red.global.add.u32 [%d{d}{offset}], 1;"),
            _ => writeln!(self.text, "{guard}ld.global.s32 %r7, [%d{d}{offset}];"),
        };
    }
}

fn kernel(random: &mut Random) -> String {
    let mut writer = Writer { random, text: String::new(), fresh: 10 };
    writer.statements(0);
    let Writer { text, fresh, .. } = writer;
    let count = fresh + 1;
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 base, .param .u32 n, .param .u32 m, .param .u64 stride)\n{{\n\
         .reg .b64 %d<{count}>; .reg .b32 %r<11>, %c<{count}>; .reg .pred %p<{count}>; .reg .b16 %h<2>;\n\
         ld.param.u64 %d1, [base]; ld.param.u64 %d2, [stride]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;\n\
         mov.u32 %r2, %ntid.x; mad.lo.s32 %r3, %r1, %r2, %r0; ld.param.u32 %r4, [n]; ld.param.u32 %r5, [m];\n\
         mov.u32 %r6, %nctaid.x; mov.u32 %r7, 5; mov.u32 %r8, %tid.y; mov.u32 %r9, 40;\n\
         {text}\nret;\n}}\n"
    )
}

/// Addresses with their bytes.
type Accesses = Vec<(u64, u64)>;

/// What is said, and what was really touched.
fn run(text: &str, random: &mut Random) -> Option<(Vec<Touch>, Accesses)> {
    let tree = apex_ptx::parse(text).unwrap();
    let touches = Touches::new(&tree, tree.functions().next()?).ok()?;
    let mut memory = vec![0_u32; WORDS];
    memory.iter_mut().for_each(|word| *word = random.below(600) as u32);
    let begin = memory.as_mut_ptr() as u64;
    let all = begin..begin + 4 * WORDS as u64;
    let mut params = (begin + 2 * WORDS as u64).to_le_bytes().to_vec();
    for _ in 0..2 {
        let value = match random.below(6) {
            0 => random.below(1 << 32) as u32,
            1 => (random.below(10) as u32).wrapping_neg(),
            _ => random.below(200) as u32,
        };
        params.extend(value.to_le_bytes());
    }
    params.extend(random.one(&[0_u64, 4, 12, 256]).to_le_bytes());
    let grid = [1 + random.below(3) as u32, 1, 1];
    let block = [1 + random.below(8) as u32, 1 + random.below(2) as u32, 1];
    let shape = Shape { grid, block, parameters: &params };
    let mut touched = Vec::new();
    let mut everything = |address: u64| (address > u64::from(u32::MAX)).then_some(0..1 << 57);
    touches.of(&shape, &mut everything, &mut Scratch::default(), &mut touched).ok()?;
    let module = Module::load(&[text], &mut |_| None).unwrap();
    let kernel = module.kernel("k").unwrap().clone();
    assert_eq!(kernel.unsupported, None, "{text}");
    let accesses = Arc::default();
    let device = Arc::new(Device {
        identity: Identity::default(),
        checked: false,
        jit: false,
        window: Some(Window::new(1 << 46, 38)),
        services: Box::new(Noted { memory: all, accesses: Arc::clone(&accesses) }),
    });
    let cluster = [1; 3];
    let launch =
        Launch { kernel, grid, block, dynamic_shared: 0, params, cooperative: false, cluster };
    let grid = Grid::with_fast_tier(launch, device, None).unwrap();
    grid.work();
    let accesses = std::mem::take(&mut *accesses.lock().unwrap());
    drop(memory);
    Some((touched, accesses))
}

#[test]
fn no_kernel_touches_what_it_is_not_said_to() {
    let kernels = std::env::var("APEX_TOUCHES").ok().and_then(|count| count.parse().ok());
    let (mut proven, mut checked, mut narrow) = (0, 0_u64, 0);
    let kernels: u64 = kernels.unwrap_or(150);
    for seed in 0..kernels {
        let random = &mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234);
        let text = kernel(random);
        for _ in 0..3 {
            let Some((touched, accesses)) = run(&text, random) else { continue };
            proven += 1;
            narrow += u64::from(
                touched.iter().all(|touch| touch.bytes.end - touch.bytes.start < 1 << 20),
            );
            for (address, bytes) in accesses {
                checked += 1;
                let is_said = touched.iter().any(|touch| {
                    touch.bytes.start <= address && address + bytes <= touch.bytes.end
                });
                assert!(
                    is_said,
                    "seed {seed}: {bytes} bytes at {address:#x} are not in {touched:x?}\n{text}"
                );
            }
        }
    }
    println!("{proven} of {} launches, {narrow} narrow, {checked} accesses", 3 * kernels);
    assert!(proven > 2 * kernels && checked > 10 * kernels && narrow > kernels / 4);
}
