//! `wgmma` against products taken by hand, with factors laid out as the documentation of PTX draws them.

mod support;

use std::fmt::Write;
use support::Run;

const ROWS: usize = 64;
const THREADS: usize = 128;

/// One form of the instruction.
#[derive(Clone, Copy)]
struct Form {
    /// Types of the sum and of the factors.
    types: [&'static str; 3],
    columns: usize,
    /// Bytes of the swizzle; 16 for none.
    span: usize,
    /// The left factor is held in registers.
    registers: bool,
    /// M and N lie side by side.
    transposed: [bool; 2],
    /// Which 32 bytes of the rows are multiplied, where K lies side by side in wider ones.
    slice: usize,
    signs: [i32; 2],
    accumulates: bool,
}

const PLAIN: Form = Form {
    types: ["f32", "bf16", "bf16"],
    columns: 16,
    span: 16,
    registers: false,
    transposed: [false; 2],
    slice: 0,
    signs: [1, 1],
    accumulates: true,
};

fn bytes_of(ty: &str) -> usize {
    match ty {
        "f32" | "tf32" | "s32" => 4,
        "f16" | "bf16" => 2,
        _ => 1,
    }
}

/// The bits of a small whole number.
fn bits(ty: &str, value: i32) -> u32 {
    let small = |table: [u32; 4], sign: u32| {
        table[value.unsigned_abs() as usize] | if value < 0 { sign } else { 0 }
    };
    match ty {
        "f16" => u32::from(half(value)),
        "bf16" => (value as f32).to_bits() >> 16,
        "tf32" | "f32" => (value as f32).to_bits(),
        "e4m3" => small([0, 0x38, 0x40, 0x44], 0x80),
        "e5m2" => small([0, 0x3c, 0x40, 0x42], 0x80),
        "s8" | "u8" => value as u8 as u32,
        _ => value as u32,
    }
}

/// A whole number of at most 11 bits as f16.
fn half(value: i32) -> u16 {
    let magnitude = value.unsigned_abs();
    let sign = if value < 0 { 0x8000 } else { 0 };
    let Some(top) = magnitude.checked_ilog2() else { return 0 };
    assert!(top <= 10, "{value} is exact");
    sign | ((15 + top) << 10) as u16 | ((magnitude << (10 - top)) & 0x3ff) as u16
}

/// Small whole numbers with no pattern that a wrong place could hide behind.
fn number(row: usize, column: usize, salt: usize, signed: bool) -> i32 {
    let mixed = (row * 7919 + column * 104_729 + salt * 1299) ^ (row * column * 31 + salt);
    let value = (mixed / 5 % 7) as i32 - 3;
    if signed { value } else { value.abs() }
}

/// How a factor lies in shared memory: the leading and the stride dimension byte offset, and the byte at which an
/// element begins, by its number along M or N and along K.
fn layout(
    form: &Form,
    ty: &str,
    transposed: bool,
    lines: usize,
) -> (usize, usize, impl Fn(usize, usize) -> usize) {
    let (size, span) = (bytes_of(ty), form.span);
    let (leading, stride) = match (transposed, span) {
        (_, 16) => (128, 256),
        (true, _) => (16 * span, 8 * span),
        // Not looked at.
        (false, _) => (16, 8 * span),
    };
    assert!(lines.is_multiple_of(8));
    let place = move |line: usize, k: usize| {
        if span == 16 {
            let (side, other) = if transposed { (line, k) } else { (k, line) };
            let (per, core) = (16 / size, other % 8 * 16 + side % (16 / size) * size);
            // A core matrix of 8 rows of 16 bytes; the next ones along K are at the leading offset.
            return if transposed {
                side / per * stride + other / 8 * leading + core
            } else {
                other / 8 * stride + side / per * leading + core
            };
        }
        let (side, other) = if transposed { (line, k) } else { (k, line) };
        let (per, row) = (span / size, other % 8);
        // Eight rows of `span` bytes; their 16 bytes are permuted by the number of the 128 bytes they lie in.
        let chunk = (side % per * size / 16) ^ (row * span / 128);
        let within = row * span + chunk * 16 + side * size % 16;
        let group = other / 8 * stride;
        group + within + if transposed { side / per * leading } else { 0 }
    };
    (leading, stride, place)
}

/// Puts a factor into the image of shared memory from `start` on; gives its descriptor.
fn lay(
    form: &Form,
    image: &mut Vec<u8>,
    which: usize,
    lines: usize,
    k: usize,
    value: impl Fn(usize, usize) -> i32,
) -> u64 {
    let (ty, transposed) = (form.types[1 + which], form.transposed[which]);
    let size = bytes_of(ty);
    let start = image.len().next_multiple_of(1024);
    let (leading, stride, place) = layout(form, ty, transposed, lines);
    image.resize(start + 1024 * 64, 0xa5);
    // Where K lies side by side, rows are as wide as the swizzle and hold several slices.
    let slices = if transposed || form.span == 16 { 1 } else { form.span / 32 };
    for line in 0..lines {
        for column in 0..k * slices {
            let wanted = column / k == form.slice;
            let bits = if wanted { bits(ty, value(line, column % k)) } else { u32::MAX };
            let at = start + place(line, column);
            image[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
        }
    }
    let mode = [(16, 0), (128, 1), (64, 2), (32, 3)].iter().find(|(span, _)| *span == form.span);
    let (_, mode) = mode.expect("a swizzle");
    let field = |bytes: usize| (bytes >> 4) as u64;
    let first = start + form.slice * 32;
    field(first) | field(leading) << 16 | field(stride) << 32 | mode << 62
}

fn text(form: &Form, k: usize, sums: usize) -> String {
    let list = |name: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("%{name}{n}")).collect();
        names.join(", ")
    };
    let mut text = format!(
        ".extern .shared .align 1024 .b8 memory[];
        .visible .entry k(.param .u64 image, .param .u32 words, .param .u64 left, .param .u64 sums,
            .param .u64 da, .param .u64 db, .param .u32 scale) {{
        .reg .b32 %t, %n, %x, %s, %a<4>, %d<{sums}>; .reg .b64 %g, %at, %da, %db; .reg .pred %p, %q;
        mov.u32 %t, %tid.x; mov.u32 %n, %t; ld.param.u32 %x, [words]; ld.param.u64 %g, [image];
        fill: setp.ge.u32 %p, %n, %x; @%p bra filled;
        mad.wide.u32 %at, %n, 4, %g; ld.global.u32 %s, [%at]; mov.u32 %a0, memory;
        mad.lo.u32 %a0, %n, 4, %a0; st.shared.u32 [%a0], %s; add.u32 %n, %n, {THREADS}; bra fill;
        filled: fence.proxy.async.shared::cta; bar.sync 0;
        ld.param.u64 %g, [left]; mad.wide.u32 %at, %t, 16, %g;
        ld.global.v4.u32 {{%a0, %a1, %a2, %a3}}, [%at];
        ld.param.u64 %g, [sums]; mad.wide.u32 %g, %t, {}, %g;\n",
        sums * 4
    );
    for n in 0..sums {
        let _ = writeln!(text, "ld.global.u32 %d{n}, [%g+{}];", n * 4);
    }
    let [to, left, right] = form.types;
    let factor = if form.registers { format!("{{{}}}", list("a", 4)) } else { "%da".into() };
    let mut flags = String::new();
    if to != "s32" {
        let _ = write!(flags, ", {}, {}", form.signs[0], form.signs[1]);
    }
    if bytes_of(left) == 2 {
        let orders = form.transposed.map(i32::from);
        let orders = if form.registers { &orders[1..] } else { &orders[..] };
        orders.iter().for_each(|order| {
            let _ = write!(flags, ", {order}");
        });
    }
    let n = form.columns;
    let _ = write!(
        text,
        "ld.param.u64 %da, [da]; ld.param.u64 %db, [db]; ld.param.u32 %x, [scale]; setp.ne.u32 %q, %x, 0;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n{n}k{k}.{to}.{left}.{right} {{{}}}, {factor}, %db, %q{flags};
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n",
        list("d", sums)
    );
    for n in 0..sums {
        let _ = writeln!(text, "st.global.u32 [%g+{}], %d{n};", n * 4);
    }
    text + "ret; }"
}

fn check(form: Form) {
    let [to, left, right] = form.types;
    let k = 32 / bytes_of(left);
    let n = form.columns;
    let a = |row: usize, column: usize| number(row, column, 1, left != "u8");
    let b = |row: usize, column: usize| number(row, column, 2, right != "u8");
    let before = |row: usize, column: usize| number(row, column, 3, true);
    let mut image = Vec::new();
    let da = lay(&form, &mut image, 0, ROWS, k, a);
    let db = lay(&form, &mut image, 1, n, k, |column, row| b(row, column));
    let packed = 4 / bytes_of(to);
    let sums = n / 2 / packed;
    // Where thread `t` has element `i` of the sum.
    let place = |t: usize, i: usize| {
        (t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, i / 4 * 8 + t % 4 * 2 + i % 2)
    };
    let words = |value: &dyn Fn(usize, usize) -> i32| -> Vec<u32> {
        (0..THREADS * sums)
            .map(|word| {
                let (t, register) = (word / sums, word % sums);
                (0..packed).fold(0, |all, element| {
                    let (row, column) = place(t, register * packed + element);
                    all | bits(to, value(row, column)) << (32 / packed * element)
                })
            })
            .collect()
    };
    let per = 4 / bytes_of(left);
    let fragment: Vec<u32> = (0..THREADS * 4)
        .map(|word| {
            let (t, register) = (word / 4, word % 4);
            let row = t / 32 * 16 + t % 32 / 4 + register % 2 * 8;
            (0..per).fold(0, |all, element| {
                let column = t % 4 * per + element + register / 2 * 4 * per;
                all | bits(left, a(row, column)) << (32 / per * element)
            })
        })
        .collect();
    let expected = words(&|row, column| {
        let product: i32 = (0..k).map(|index| a(row, index) * b(index, column)).sum();
        let product = product * form.signs[0] * form.signs[1];
        product + if form.accumulates { before(row, column) } else { 0 }
    });
    let image: Vec<u32> = image
        .chunks(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    for compiled in [false, true] {
        let got = words(&before);
        Run::new(&text(&form, k, sums))
            .block(THREADS as u32)
            .shared(image.len() as u32 * 4)
            .compiled(compiled)
            .buffer(&image)
            .value(image.len() as u32)
            .buffer(&fragment)
            .buffer(&got)
            .value64(da)
            .value64(db)
            .value(form.accumulates.into())
            .launch()
            .unwrap_or_else(|fault| panic!("{fault}"));
        // The kernel wrote through the address.
        let got = std::hint::black_box(got);
        let name = format!("{to}.{left}.{right} n {n}, {} bytes, {:?}", form.span, form.transposed);
        assert_eq!(got, expected, "{name}, compiled: {compiled}");
    }
}

#[test]
fn elements_of_each_type_are_multiplied() {
    for types in [
        ["f32", "f16", "f16"],
        ["f16", "f16", "f16"],
        ["f32", "bf16", "bf16"],
        ["f32", "tf32", "tf32"],
        ["f32", "e4m3", "e4m3"],
        ["f32", "e4m3", "e5m2"],
        ["f16", "e5m2", "e4m3"],
        ["s32", "s8", "s8"],
        ["s32", "u8", "s8"],
    ] {
        check(Form { types, ..PLAIN });
        check(Form { types, span: 128, slice: 2, columns: 24, ..PLAIN });
        check(Form { types, span: 64, slice: 1, registers: true, ..PLAIN });
    }
}

#[test]
fn each_swizzle_is_read_in_both_orders() {
    for span in [16, 32, 64, 128] {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            for columns in [64, 128] {
                check(Form { span, transposed, columns, ..PLAIN });
            }
        }
        check(Form { span, transposed: [false, true], registers: true, columns: 64, ..PLAIN });
    }
}

#[test]
fn the_widest_product_has_256_columns() {
    check(Form { columns: 256, span: 128, slice: 3, ..PLAIN });
    check(Form { columns: 8, ..PLAIN });
}

#[test]
fn signs_and_the_sum_before_count() {
    check(Form { signs: [-1, 1], ..PLAIN });
    check(Form { signs: [-1, -1], accumulates: false, ..PLAIN });
    check(Form { accumulates: false, ..PLAIN });
}
