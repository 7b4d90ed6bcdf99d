//! Matrix products as Triton compiles them for an H200, against sums taken by hand.

mod support;

use support::Run;

const ROWS: usize = 128;
const COLUMNS: usize = 192;
const INNER: usize = 256;
/// Elements of a tile's side.
const TILE: usize = 64;
const THREADS: u32 = 128;

fn left(row: usize, k: usize) -> i32 {
    (row * 5 + k * 3 + row * k / 7) as i32 % 5 - 2
}

fn right(k: usize, column: usize) -> i32 {
    (k * 11 + column * 2 + k * column / 3) as i32 % 7 - 3
}

fn product(row: usize, column: usize) -> i32 {
    (0..INNER).map(|k| left(row, k) * right(k, column)).sum()
}

/// A whole number of at most 11 bits as f16.
fn half(value: i32) -> u16 {
    let sign = if value < 0 { 0x8000 } else { 0 };
    let magnitude = value.unsigned_abs();
    let Some(top) = magnitude.checked_ilog2() else { return 0 };
    assert!(top <= 10, "{value} is exact");
    sign | ((15 + top) << 10) as u16 | ((magnitude << (10 - top)) & 0x3ff) as u16
}

fn matrix(rows: usize, columns: usize, value: impl Fn(usize, usize) -> i32) -> Vec<u16> {
    (0..rows * columns).map(|at| half(value(at / columns, at % columns))).collect()
}

#[test]
fn a_product_over_pointers_is_right() {
    let (a, b) = (matrix(ROWS, INNER, left), matrix(INNER, COLUMNS, right));
    for compiled in [false, true] {
        let out = vec![0f32; ROWS * COLUMNS];
        let mut run =
            Run::new(include_str!("triton/matmul.ptx")).buffer(&a).buffer(&b).buffer(&out);
        for size in [ROWS, COLUMNS, INNER, INNER, COLUMNS, COLUMNS] {
            run = run.value(size as u32);
        }
        run.value64(0)
            .value64(0)
            .plane([(ROWS / TILE) as u32, (COLUMNS / TILE) as u32])
            .block(THREADS)
            .shared(49_152)
            .compiled(compiled)
            .launch()
            .unwrap_or_else(|fault| panic!("{fault}"));
        let out = std::hint::black_box(out);
        for (at, got) in out.iter().enumerate() {
            let (row, column) = (at / COLUMNS, at % COLUMNS);
            assert_eq!(*got, product(row, column) as f32, "({row}, {column}), {compiled}");
        }
    }
}

#[test]
fn a_product_over_tensor_descriptors_is_right() {
    let (a, b) = (matrix(ROWS, INNER, left), matrix(INNER, COLUMNS, right));
    for compiled in [false, true] {
        let out = vec![0u16; ROWS * COLUMNS];
        // The maps that the blocks make, three each, at a multiple of 128 bytes.
        let scratch = vec![0u8; 3 * 128 * 6 + 128];
        let maps = (scratch.as_ptr() as u64).next_multiple_of(128);
        let mut run =
            Run::new(include_str!("triton/matmul_tma.ptx")).buffer(&a).buffer(&b).buffer(&out);
        for size in [ROWS, COLUMNS, INNER] {
            run = run.value(size as u32);
        }
        run.value64(maps)
            .value64(0)
            .plane([(ROWS / TILE) as u32, (COLUMNS / TILE) as u32])
            .block(THREADS)
            .shared(49_176)
            .compiled(compiled)
            .launch()
            .unwrap_or_else(|fault| panic!("{fault}"));
        let out = std::hint::black_box(out);
        for (at, got) in out.iter().enumerate() {
            let (row, column) = (at / COLUMNS, at % COLUMNS);
            assert_eq!(*got, half(product(row, column)), "({row}, {column}), {compiled}");
        }
    }
}
