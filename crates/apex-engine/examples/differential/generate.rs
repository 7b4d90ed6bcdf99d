//! Random kernels whose result both tiers must agree on to the bit.
//!
//! A kernel has a few registers of every class, fills them from its parameters and from memory,
//! does random things to them (arithmetic, branches, loops, memory, shuffles, barriers) and
//! writes them all out. What has no defined result is not generated: lanes read other
//! lanes' shared memory only after a barrier, shuffles and barriers stand where all lanes
//! are, atomics whose old value is kept touch only the thread's own word.

use std::fmt::Write;

/// A small generator of numbers, the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Registers of each class a kernel plays with.
pub(crate) const INTS: u64 = 8;
pub(crate) const FLOATS: u64 = 6;
pub(crate) const WIDES: u64 = 4;
pub(crate) const DOUBLES: u64 = 3;
pub(crate) const HALVES: u64 = 3;
pub(crate) const PREDICATES: u64 = 4;
/// 32-bit words a thread writes.
pub(crate) const WORDS: u64 = INTS + FLOATS + 2 * WIDES + 2 * DOUBLES + HALVES + PREDICATES;
/// Words of input.
pub(crate) const INPUT: u64 = 1024;

/// A kernel and how it is launched.
pub(crate) struct Generated {
    pub(crate) text: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
}

struct Kernel {
    random: Random,
    text: String,
    labels: u32,
    /// How many more statements may come.
    budget: i64,
    /// Where lanes may have parted.
    divergent: bool,
    depth: u32,
    warps: bool,
}

/// Makes the kernel of a seed.
pub(crate) fn kernel(seed: u64) -> Generated {
    let mut random = Random::new(seed);
    let block = match random.below(12) {
        0 => [32, 1, 1],
        1 => [64, 1, 1],
        2 => [16, 4, 1],
        3 => [8, 8, 1],
        4 => [16, 2, 2],
        5 => [33, 1, 1],
        6 => [32, 2, 1],
        7 => [1, 1, 1],
        8 => [7, 1, 1],
        9 => [100, 1, 1],
        10 => [16, 3, 1],
        _ => [10, 7, 1],
    };
    let grid = [1 + random.below(3) as u32, 1 + random.below(2) as u32, 1];
    // Lanes that do not exist must not be asked.
    let whole = block.iter().product::<u32>() % 32 == 0;
    let warps = random.chance(50) && whole;
    let budget = 8 + random.below(40) as i64;
    let mut kernel = Kernel {
        random,
        text: String::new(),
        labels: 0,
        budget,
        divergent: false,
        depth: 0,
        warps,
    };
    kernel.begin();
    while kernel.budget > 0 {
        kernel.statement();
    }
    kernel.end();
    Generated { text: kernel.text, grid, block }
}

impl Kernel {
    fn line(&mut self, line: &str) {
        self.text.push('\t');
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn begin(&mut self) {
        self.text.push_str(
            ".version 8.0\n.target sm_90\n.address_size 64\n\
             .visible .entry k(.param .u64 in, .param .u64 out, .param .u32 number)\n{\n\
             .shared .align 16 .b8 tile[8192];\n",
        );
        let _ = writeln!(self.text, ".reg .b32 %r<{INTS}>;\n.reg .b32 %s<16>;\n.reg .b32 %i<32>;");
        let _ = writeln!(self.text, ".reg .f32 %f<{FLOATS}>;\n.reg .b64 %w<{WIDES}>;");
        let _ = writeln!(self.text, ".reg .f64 %d<{DOUBLES}>;\n.reg .b16 %h<{HALVES}>;");
        let _ = writeln!(
            self.text,
            ".reg .pred %p<{PREDICATES}>;\n.reg .pred %q<16>;\n.reg .b64 %a<8>;"
        );
        for line in [
            "ld.param.u64 %a0, [in];",
            "ld.param.u64 %a1, [out];",
            "ld.param.u32 %s0, [number];",
            "mov.u32 %s1, %tid.x;",
            "mov.u32 %s2, %tid.y;",
            "mov.u32 %s3, %tid.z;",
            "mov.u32 %s4, %ntid.x;",
            "mov.u32 %s5, %ntid.y;",
            "mad.lo.u32 %s6, %s3, %s5, %s2;",
            "mad.lo.u32 %s6, %s6, %s4, %s1;",
            "mov.u32 %s7, %ctaid.x;",
            "mov.u32 %s8, %ctaid.y;",
            "mov.u32 %s9, %nctaid.x;",
            "mad.lo.u32 %s7, %s8, %s9, %s7;",
            "mov.u32 %s8, %ntid.z;",
            "mul.lo.u32 %s8, %s8, %s5;",
            "mul.lo.u32 %s8, %s8, %s4;",
            "mad.lo.u32 %s9, %s7, %s8, %s6;",
            "shl.b32 %s10, %s6, 2;",
            "mov.u32 %s11, tile;",
            "add.u32 %s11, %s11, %s10;",
        ] {
            self.line(line);
        }
        for index in 0..INTS {
            let source = ["%s0", "%s1", "%s2", "%s6", "%s7", "%s9", "%s4", "%s8"][index as usize];
            self.line(&format!("mov.u32 %r{index}, {source};"));
        }
        for index in 0..FLOATS {
            let at = self.random.below(INPUT - 200);
            self.line("mul.wide.u32 %a2, %s6, 4;");
            self.line("add.s64 %a2, %a0, %a2;");
            self.line(&format!("ld.global.f32 %f{index}, [%a2+{}];", at * 4));
        }
        for index in 0..WIDES {
            self.line(&format!("cvt.u64.u32 %w{index}, %r{};", index * 2));
        }
        for index in 0..DOUBLES {
            self.line(&format!("cvt.f64.f32 %d{index}, %f{index};"));
        }
        for index in 0..HALVES {
            self.line(&format!("cvt.u16.u32 %h{index}, %r{index};"));
        }
        for index in 0..PREDICATES {
            self.line(&format!("setp.lt.u32 %p{index}, %r{index}, {};", index * 5));
        }
    }

    fn end(&mut self) {
        self.line(&format!("mul.wide.u32 %a3, %s9, {};", WORDS * 4));
        self.line("add.s64 %a3, %a1, %a3;");
        let mut at = 0;
        let mut put = |kernel: &mut Self, ty: &str, register: String, words: u64| {
            kernel.line(&format!("st.global.{ty} [%a3+{}], {register};", at * 4));
            at += words;
        };
        for index in 0..INTS {
            put(self, "u32", format!("%r{index}"), 1);
        }
        for index in 0..FLOATS {
            put(self, "f32", format!("%f{index}"), 1);
        }
        for index in 0..HALVES {
            self.line(&format!("cvt.u32.u16 %i0, %h{index};"));
            put(self, "u32", "%i0".to_owned(), 1);
        }
        for index in 0..PREDICATES {
            self.line(&format!("selp.u32 %i0, 1, 0, %p{index};"));
            put(self, "u32", "%i0".to_owned(), 1);
        }
        // 64-bit stores in halves: the words need not be aligned to eight.
        for index in 0..WIDES {
            self.line(&format!("mov.b64 {{%i0, %i1}}, %w{index};"));
            put(self, "u32", "%i0".to_owned(), 1);
            put(self, "u32", "%i1".to_owned(), 1);
        }
        for index in 0..DOUBLES {
            self.line(&format!("mov.b64 {{%i0, %i1}}, %d{index};"));
            put(self, "u32", "%i0".to_owned(), 1);
            put(self, "u32", "%i1".to_owned(), 1);
        }
        self.text.push_str("\tret;\n}\n");
    }

    fn int(&mut self) -> String {
        format!("%r{}", self.random.below(INTS))
    }

    fn int_or_constant(&mut self) -> String {
        match self.random.below(6) {
            0 => format!("{}", self.random.below(100)),
            1 => format!("{}", self.random.next() as i32),
            2 => self.random.one_of(&["%s0", "%s1", "%s2", "%s6", "%s9"]).to_owned(),
            _ => self.int(),
        }
    }

    fn float(&mut self) -> String {
        format!("%f{}", self.random.below(FLOATS))
    }

    fn float_or_constant(&mut self) -> String {
        if self.random.chance(15) {
            let bits = [
                0x3f80_0000u32,
                0,
                0x8000_0000,
                0x7f80_0000,
                0x7fc0_0001,
                0x0000_0001,
                0x4049_0fdb,
            ];
            format!("0f{:08X}", bits[self.random.below(bits.len() as u64) as usize])
        } else {
            self.float()
        }
    }

    fn wide(&mut self) -> String {
        format!("%w{}", self.random.below(WIDES))
    }

    fn double(&mut self) -> String {
        format!("%d{}", self.random.below(DOUBLES))
    }

    fn half(&mut self) -> String {
        format!("%h{}", self.random.below(HALVES))
    }

    fn predicate(&mut self) -> String {
        format!("%p{}", self.random.below(PREDICATES))
    }

    fn guard(&mut self) -> String {
        if self.random.chance(15) {
            let not = if self.random.chance(40) { "!" } else { "" };
            format!("@{not}{} ", self.predicate())
        } else {
            String::new()
        }
    }

    fn statement(&mut self) {
        self.budget -= 1;
        match self.random.below(100) {
            0..26 => self.integer(),
            26..42 => self.floating(),
            42..50 => self.wide_integer(),
            50..55 => self.doubles(),
            55..60 => self.halves(),
            60..70 => self.compare(),
            70..76 => self.convert(),
            76..84 => self.memory(),
            84..88 => self.exchange(),
            88..94 => self.branch(),
            94..98 => self.repeat(),
            _ => self.barrier(),
        }
    }

    fn integer(&mut self) {
        let guard = self.guard();
        let (d, a) = (self.int(), self.int());
        let (b, c) = (self.int_or_constant(), self.int_or_constant());
        let count = self.random.below(40);
        let line = match self.random.below(33) {
            0 | 1 => format!("add.s32 {d}, {a}, {b};"),
            2 => format!("sub.s32 {d}, {a}, {b};"),
            3 => format!("mul.lo.s32 {d}, {a}, {b};"),
            4 => format!("mad.lo.s32 {d}, {a}, {b}, {c};"),
            5 => format!("mul.hi.{} {d}, {a}, {b};", self.random.one_of(&["u32", "s32"])),
            6 => format!("and.b32 {d}, {a}, {b};"),
            7 => format!("or.b32 {d}, {a}, {b};"),
            8 => format!("xor.b32 {d}, {a}, {b};"),
            9 => format!("not.b32 {d}, {a};"),
            10 => format!("neg.s32 {d}, {a};"),
            11 => format!("abs.s32 {d}, {a};"),
            12 => format!("shl.b32 {d}, {a}, {count};"),
            13 => format!("shr.u32 {d}, {a}, {count};"),
            14 => format!("shr.s32 {d}, {a}, {count};"),
            15 => format!("shl.b32 {d}, {a}, {b};"),
            16 => format!("shr.{} {d}, {a}, {b};", self.random.one_of(&["u32", "s32"])),
            17 => format!("min.{} {d}, {a}, {b};", self.random.one_of(&["u32", "s32"])),
            18 => format!("max.{} {d}, {a}, {b};", self.random.one_of(&["u32", "s32"])),
            19 => format!("div.{} {d}, {a}, {b};", self.random.one_of(&["u32", "s32"])),
            20 => format!("rem.{} {d}, {a}, {b};", self.random.one_of(&["u32", "s32"])),
            21 => format!("popc.b32 {d}, {a};"),
            22 => format!("clz.b32 {d}, {a};"),
            23 => format!("brev.b32 {d}, {a};"),
            24 => format!("lop3.b32 {d}, {a}, {b}, {c}, {};", self.random.below(256)),
            25 => format!("prmt.b32 {d}, {a}, {b}, {c};"),
            26 => format!("bfe.u32 {d}, {a}, {}, {};", count, self.random.below(33)),
            27 => format!("shf.l.wrap.b32 {d}, {a}, {b}, {c};"),
            28 => format!("add.sat.s32 {d}, {a}, {b};"),
            // Parts that stand on both sides, often.
            29 | 30 => {
                let (first, other) = (self.random.below(INTS), self.int());
                let second = (first + 1) % INTS;
                let (x, y) = if self.random.chance(50) {
                    (format!("%r{second}"), format!("%r{first}"))
                } else {
                    (a, other)
                };
                format!("mov.v2.u32 {{%r{first}, %r{second}}}, {{{x}, {y}}};")
            }
            // The flag is set for all lanes: what a lane without one reads may be anything.
            31 => {
                let set = self.random.one_of(&["add", "sub"]);
                self.line(&format!("{set}.cc.u32 {d}, {a}, {b};"));
                let used = self.random.one_of(&["addc", "subc"]);
                format!("{used}.u32 {}, {c}, {};", self.int(), self.int())
            }
            _ => format!("mov.u32 {d}, {b};"),
        };
        self.line(&format!("{guard}{line}"));
    }

    fn floating(&mut self) {
        let guard = self.guard();
        let d = self.float();
        let (a, b, c) =
            (self.float_or_constant(), self.float_or_constant(), self.float_or_constant());
        let mode = self.random.one_of(&["", "", "", ".ftz", ".ftz.sat", ".sat"]);
        let ftz = self.random.one_of(&["", "", ".ftz"]);
        let line = match self.random.below(18) {
            0..3 => format!("add.rn{mode}.f32 {d}, {a}, {b};"),
            3 => format!("sub.rn{mode}.f32 {d}, {a}, {b};"),
            4..6 => format!("mul.rn{mode}.f32 {d}, {a}, {b};"),
            6..9 => format!("fma.rn{mode}.f32 {d}, {a}, {b}, {c};"),
            9 => format!("div.rn{ftz}.f32 {d}, {a}, {b};"),
            10 => format!("min{ftz}.f32 {d}, {a}, {b};"),
            11 => format!("max{ftz}.f32 {d}, {a}, {b};"),
            12 => format!("neg{ftz}.f32 {d}, {a};"),
            13 => format!("abs{ftz}.f32 {d}, {a};"),
            14 => format!("sqrt.rn{ftz}.f32 {d}, {a};"),
            15 => format!(
                "{}.approx{ftz}.f32 {d}, {a};",
                self.random.one_of(&["rcp", "sqrt", "rsqrt", "ex2"])
            ),
            16 => format!("add.rz.f32 {d}, {a}, {b};"),
            _ => format!("mov.f32 {d}, {a};"),
        };
        self.line(&format!("{guard}{line}"));
    }

    fn wide_integer(&mut self) {
        let guard = self.guard();
        let (d, a, b) = (self.wide(), self.wide(), self.wide());
        let (x, y) = (self.int(), self.int_or_constant());
        let count = self.random.below(70);
        let sign = self.random.one_of(&["u", "s"]);
        let line = match self.random.below(16) {
            0 => format!("add.s64 {d}, {a}, {b};"),
            1 => format!("sub.s64 {d}, {a}, {b};"),
            2 => format!("mul.lo.s64 {d}, {a}, {b};"),
            3 => format!("mul.wide.{sign}32 {d}, {x}, {y};"),
            4 => format!("mad.wide.{sign}32 {d}, {x}, {y}, {b};"),
            5 => format!("cvt.{}64.{sign}32 {d}, {x};", self.random.one_of(&["u", "s"])),
            6 => format!("shl.b64 {d}, {a}, {count};"),
            7 => format!("shr.{sign}64 {d}, {a}, {count};"),
            8 => format!("and.b64 {d}, {a}, {b};"),
            9 => format!("xor.b64 {d}, {a}, {b};"),
            10 => format!("min.{sign}64 {d}, {a}, {b};"),
            11 => format!("max.{sign}64 {d}, {a}, {b};"),
            12 => format!("mov.b64 {d}, {{{x}, {}}};", self.int()),
            13 => format!("mul.wide.{sign}32 {d}, {x}, {count};"),
            14 => format!("mul.hi.{sign}64 {d}, {a}, {b};"),
            _ => format!("mov.u64 {d}, {a};"),
        };
        self.line(&format!("{guard}{line}"));
    }

    fn doubles(&mut self) {
        let guard = self.guard();
        let (d, a, b, c) = (self.double(), self.double(), self.double(), self.double());
        let line = match self.random.below(9) {
            0 => format!("add.f64 {d}, {a}, {b};"),
            1 => format!("mul.f64 {d}, {a}, {b};"),
            2 => format!("fma.rn.f64 {d}, {a}, {b}, {c};"),
            3 => format!("div.rn.f64 {d}, {a}, {b};"),
            4 => format!("min.f64 {d}, {a}, {b};"),
            5 => format!("max.f64 {d}, {a}, {b};"),
            6 => format!("sqrt.rn.f64 {d}, {a};"),
            7 => format!("sub.f64 {d}, {a}, {b};"),
            _ => format!("mov.f64 {d}, {a};"),
        };
        self.line(&format!("{guard}{line}"));
    }

    fn halves(&mut self) {
        let guard = self.guard();
        let (d, a, b) = (self.half(), self.half(), self.half());
        let sign = self.random.one_of(&["u", "s"]);
        let line = match self.random.below(10) {
            0 => format!("add.s16 {d}, {a}, {b};"),
            1 => format!("sub.s16 {d}, {a}, {b};"),
            2 => format!("mul.lo.s16 {d}, {a}, {b};"),
            3 => format!("min.{sign}16 {d}, {a}, {b};"),
            4 => format!("max.{sign}16 {d}, {a}, {b};"),
            5 => format!("shl.b16 {d}, {a}, {};", self.random.below(20)),
            6 => format!("shr.{sign}16 {d}, {a}, {};", self.random.below(20)),
            7 => format!("xor.b16 {d}, {a}, {b};"),
            8 => {
                let x = self.int();
                format!("mul.wide.{sign}16 {x}, {a}, {b};")
            }
            _ => format!("mul.hi.{sign}16 {d}, {a}, {b};"),
        };
        self.line(&format!("{guard}{line}"));
    }

    fn compare(&mut self) {
        let guard = self.guard();
        let p = self.predicate();
        let q = self.predicate();
        let compare = self.random.one_of(&["eq", "ne", "lt", "le", "gt", "ge"]);
        let floating = self.random.one_of(&[
            "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num",
            "nan",
        ]);
        let line = match self.random.below(12) {
            0..3 => format!(
                "setp.{compare}.{} {p}, {}, {};",
                self.random.one_of(&["s32", "u32"]),
                self.int(),
                self.int_or_constant()
            ),
            3 => {
                format!("setp.{floating}.f32 {p}, {}, {};", self.float(), self.float_or_constant())
            }
            4 => format!("setp.{floating}.f64 {p}, {}, {};", self.double(), self.double()),
            5 => format!(
                "setp.{compare}.{} {p}, {}, {};",
                self.random.one_of(&["s64", "u64"]),
                self.wide(),
                self.wide()
            ),
            6 => format!("setp.{compare}.s16 {p}, {}, {};", self.half(), self.half()),
            7 => {
                let first = self.random.below(PREDICATES);
                let both = match self.random.below(2) {
                    0 => p,
                    _ => format!("%p{first}|%p{}", (first + 1) % PREDICATES),
                };
                format!(
                    "setp.{compare}.{}.s32 {both}, {}, {}, {q};",
                    self.random.one_of(&["and", "or", "xor"]),
                    self.int(),
                    self.int_or_constant()
                )
            }
            8 => format!(
                "{}.pred {p}, {q}, {};",
                self.random.one_of(&["and", "or", "xor"]),
                self.predicate()
            ),
            9 => format!("not.pred {p}, {q};"),
            10 => format!(
                "selp.f32 {}, {}, {}, {p};",
                self.float(),
                self.float(),
                self.float_or_constant()
            ),
            _ => match self.random.below(3) {
                0 => format!("selp.b64 {}, {}, {}, {p};", self.wide(), self.wide(), self.wide()),
                1 => format!(
                    "selp.b32 {}, {}, {}, {p};",
                    self.int(),
                    self.int(),
                    self.int_or_constant()
                ),
                _ => format!("selp.b16 {}, {}, {}, {p};", self.half(), self.half(), self.half()),
            },
        };
        self.line(&format!("{guard}{line}"));
    }

    fn convert(&mut self) {
        let guard = self.guard();
        let sign = self.random.one_of(&["u", "s"]);
        let line = match self.random.below(14) {
            0 => format!("cvt.rn.f32.{sign}32 {}, {};", self.float(), self.int()),
            1 => format!("cvt.rzi.{sign}32.f32 {}, {};", self.int(), self.float()),
            2 => format!("cvt.rn.f64.{sign}32 {}, {};", self.double(), self.int()),
            3 => format!("cvt.f64.f32 {}, {};", self.double(), self.float()),
            4 => format!("cvt.rn.f32.f64 {}, {};", self.float(), self.double()),
            5 => format!("cvt.u32.u64 {}, {};", self.int(), self.wide()),
            6 => format!("cvt.{sign}32.{sign}16 {}, {};", self.int(), self.half()),
            7 => format!("cvt.{sign}16.u32 {}, {};", self.half(), self.int()),
            8 => format!(
                "cvt.{}.f32.f32 {}, {};",
                self.random.one_of(&["rni", "rzi", "rmi", "rpi"]),
                self.float(),
                self.float()
            ),
            9 => format!("cvt.{sign}8.s32 {}, {};", self.int(), self.int()),
            10 => format!("mov.b32 {}, {};", self.int(), self.float()),
            11 => format!("mov.b32 {}, {};", self.float(), self.int()),
            12 => format!("cvt.rn.f32.{sign}64 {}, {};", self.float(), self.wide()),
            _ => format!("cvt.sat.u8.s32 {}, {};", self.int(), self.int()),
        };
        self.line(&format!("{guard}{line}"));
    }

    fn memory(&mut self) {
        let guard = self.guard();
        match self.random.below(9) {
            // Any word of the input.
            0 | 1 => {
                let index = self.int();
                self.line(&format!("and.b32 %i2, {index}, {};", INPUT - 16));
                self.line("mul.wide.u32 %a4, %i2, 4;");
                self.line("add.s64 %a4, %a0, %a4;");
                let line = match self.random.below(6) {
                    0 => format!("ld.global.u32 {}, [%a4];", self.int()),
                    1 => format!("ld.global.f32 {}, [%a4+4];", self.float()),
                    2 => format!("ld.global.u8 {}, [%a4+3];", self.int()),
                    3 => format!("ld.global.s16 {}, [%a4+2];", self.int()),
                    4 => format!("ld.global.u64 {}, [%a4+8];", self.wide()),
                    _ => format!("ld.global.v2.u32 {{%i3, {}}}, [%a4];", self.int()),
                };
                // 64-bit and paired loads need even words.
                if line.contains("64") || line.contains(".v2") {
                    self.line("and.b64 %a4, %a4, -8;");
                }
                self.line(&format!("{guard}{line}"));
            }
            // Words side by side.
            2 | 3 => {
                let size = [4u64, 4, 8, 16, 1, 2][self.random.below(6) as usize];
                let at = self.random.below(32) * 16;
                self.line(&format!("mul.wide.u32 %a4, %s6, {size};"));
                self.line("add.s64 %a4, %a0, %a4;");
                let line = match size {
                    4 => format!("ld.global.f32 {}, [%a4+{at}];", self.float()),
                    8 => format!("ld.global.u64 {}, [%a4+{at}];", self.wide()),
                    16 => format!("ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%a4+{at}];"),
                    1 => format!(
                        "ld.global.{}8 {}, [%a4+{at}];",
                        self.random.one_of(&["u", "s"]),
                        self.int()
                    ),
                    _ => format!(
                        "ld.global.{}16 {}, [%a4+{at}];",
                        self.random.one_of(&["u", "s"]),
                        self.half()
                    ),
                };
                self.line(&format!("{guard}{line}"));
            }
            // The thread's own words of shared memory.
            4 | 5 => {
                let at = self.random.below(4) * 1024;
                let (x, y) = (self.int(), self.float());
                self.line(&format!("st.shared.u32 [%s11+{at}], {x};"));
                self.line(&format!("{guard}st.shared.f32 [%s11+{at}], {y};"));
                let d = self.int();
                self.line(&format!("{guard}ld.shared.u32 {d}, [%s11+{at}];"));
            }
            6 => {
                // Own word by an atomic whose old value is kept.
                let at = self.random.below(4) * 1024;
                let (x, y, d) = (self.int(), self.int(), self.int());
                self.line(&format!("st.shared.u32 [%s11+{at}], {x};"));
                let op = self
                    .random
                    .one_of(&["add.u32", "min.s32", "max.u32", "exch.b32", "and.b32", "inc.u32"]);
                self.line(&format!("{guard}atom.shared.{op} {d}, [%s11+{at}], {y};"));
                let d = self.int();
                self.line(&format!("ld.shared.u32 {d}, [%s11+{at}];"));
            }
            7 => {
                // A counter of all threads, before the results. One word for each operation:
                // two of them on one word would depend on which warp comes first.
                let x = self.int();
                let which = self.random.below(3) as usize;
                let op = ["add.u32", "xor.b32", "max.s32"][which];
                let back = 4 * (1 + which);
                self.line(&format!("{guard}red.global.{op} [%a1+-{back}], {x};"));
            }
            _ => {
                let x = self.random.below(INPUT - 4);
                let d = self.int();
                self.line(&format!("{guard}ld.global.u32 {d}, [%a0+{}];", x * 4));
            }
        }
    }

    fn exchange(&mut self) {
        if self.divergent || !self.warps {
            return self.integer();
        }
        let (d, a) = (self.int(), self.int());
        let p = self.predicate();
        let b = self.random.below(32);
        let line = match self.random.below(9) {
            0 => format!("shfl.sync.down.b32 {d}, {a}, {b}, 31, -1;"),
            1 => format!("shfl.sync.up.b32 {d}, {a}, {b}, 0, -1;"),
            2 => format!("shfl.sync.bfly.b32 {d}|{p}, {a}, {b}, 31, -1;"),
            3 => format!("shfl.sync.idx.b32 {d}, {a}, {b}, 31, -1;"),
            4 => format!("shfl.sync.idx.b32 {d}, {a}, {}, 31, -1;", self.int()),
            5 => format!("shfl.sync.bfly.b32 {d}, {a}, {b}, 0x181f, -1;"),
            6 => format!(
                "vote.sync.{}.pred {p}, {}, -1;",
                self.random.one_of(&["all", "any", "uni"]),
                self.predicate()
            ),
            7 => format!("vote.sync.ballot.b32 {d}, {p}, -1;"),
            _ => format!(
                "redux.sync.{} {d}, {a}, -1;",
                self.random.one_of(&["add.s32", "min.u32", "max.s32", "or.b32"])
            ),
        };
        self.line(&line);
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L{}", self.labels)
    }

    fn branch(&mut self) {
        if self.depth > 3 {
            return self.integer();
        }
        let p = self.predicate();
        let (other, end) = (self.label(), self.label());
        let parted = std::mem::replace(&mut self.divergent, true);
        self.depth += 1;
        self.line(&format!("@{p} bra {other};"));
        for _ in 0..1 + self.random.below(4) {
            self.statement();
        }
        let both = self.random.chance(50);
        if both {
            self.line(&format!("bra {end};"));
        }
        self.text.push_str(&format!("{other}:\n"));
        if both {
            for _ in 0..1 + self.random.below(4) {
                self.statement();
            }
            self.text.push_str(&format!("{end}:\n"));
        }
        self.depth -= 1;
        self.divergent = parted;
    }

    fn repeat(&mut self) {
        if self.depth > 2 {
            return self.integer();
        }
        self.depth += 1;
        let counter = format!("%i{}", 8 + self.depth * 2);
        let limit = format!("%i{}", 9 + self.depth * 2);
        let condition = format!("%q{}", self.depth);
        let head = self.label();
        // The same number of rounds for all, or each lane its own.
        let own = self.random.chance(50);
        if own {
            let from = self.int();
            self.line(&format!("and.b32 {limit}, {from}, 7;"));
        } else {
            let rounds = 1 + self.random.below(6);
            self.line(&format!("mov.u32 {limit}, {rounds};"));
        }
        let parted = self.divergent;
        self.divergent |= own;
        self.line(&format!("mov.u32 {counter}, 0;"));
        self.text.push_str(&format!("{head}:\n"));
        let body = self.text.len();
        for _ in 0..1 + self.random.below(5) {
            self.statement();
        }
        let exits = self.random.chance(25);
        let out = self.label();
        if exits {
            // A way out of the middle, unless all lanes must come back to a shuffle or a barrier before it.
            let p = self.predicate();
            self.divergent = true;
            if !self.text[body..].contains(".sync") {
                self.line(&format!("@{p} bra {out};"));
            }
            for _ in 0..1 + self.random.below(3) {
                self.statement();
            }
        }
        self.line(&format!("add.u32 {counter}, {counter}, 1;"));
        self.line(&format!("setp.lt.u32 {condition}, {counter}, {limit};"));
        self.line(&format!("@{condition} bra {head};"));
        self.text.push_str(&format!("{out}:\n"));
        self.divergent = parted;
        self.depth -= 1;
    }

    fn barrier(&mut self) {
        if self.divergent {
            return self.integer();
        }
        // Others' words: written before one barrier, read before the next.
        let (x, index, d) = (self.int(), self.int(), self.int());
        self.line("bar.sync 0;");
        self.line(&format!("st.shared.u32 [%s11+4096], {x};"));
        self.line("bar.sync 0;");
        self.line(&format!("and.b32 %i4, {index}, 28;"));
        self.line("mov.u32 %i5, tile;");
        self.line("add.u32 %i5, %i5, %i4;");
        self.line(&format!("ld.shared.u32 {d}, [%i5+4096];"));
        self.line("bar.sync 0;");
    }
}
