//! Transposes move every element and change none.

use crate::given::{Random, executor};
use apex_exec::Element;

fn check<T: Element + PartialEq + core::fmt::Debug>(seed: u64, number: impl Fn(u64) -> T) {
    let mut random = Random::new(seed + 100);
    for shape in 0..200 {
        let batch = if shape % 3 == 0 { random.between(0, 4) } else { 1 };
        let even = shape % 2 == 0;
        let mut side = || {
            let side = random.between(0, 150);
            if even { side / 2 * 2 } else { side }
        };
        let (rows, columns) = (side(), side());
        let len = batch * rows * columns;
        let offset = random.offset();
        let x: Vec<T> = (0..offset + len).map(|_| number(random.next())).collect();
        let buffer = executor().upload(&x).unwrap();
        let mut out = executor().poisoned::<T>(offset + len).unwrap();
        let view = buffer.slice(offset..);
        executor()
            .ops()
            .transpose_batch(view, batch, rows, columns, out.slice_mut(offset..))
            .unwrap();
        let got = executor().download(&out).unwrap();
        for matrix in 0..batch {
            for row in 0..rows {
                for column in 0..columns {
                    let from = offset + (matrix * rows + row) * columns + column;
                    let to = offset + (matrix * columns + column) * rows + row;
                    assert_eq!(x[from], got[to], "{batch} x {rows} x {columns} at {row}, {column}");
                }
            }
        }
    }
}

#[test]
fn bytes() {
    check(1, |bits| bits as u8);
}

#[test]
fn sixteen_bits() {
    check(2, |bits| bits as u16);
}

#[test]
fn floats() {
    check(3, |bits| (bits % 100_000) as f32);
}

#[test]
fn eight_bytes() {
    check(4, |bits| bits);
}

#[test]
fn wrong_shapes_are_told() {
    let x = executor().zeros::<f32>(12).unwrap();
    let mut y = executor().zeros::<f32>(12).unwrap();
    let error = executor().ops().transpose(&x, 3, 5, &mut y).unwrap_err().to_string();
    assert_eq!(error, "transpose: the input has 12 elements, the shape asks for 15");
    let error = executor().ops().transpose(&x, 1 << 20, 1 << 20, &mut y).unwrap_err().to_string();
    assert!(error.contains("more than 2^31"), "{error}");
}
