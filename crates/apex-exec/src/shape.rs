//! What fits: lengths and shapes are checked here, before anything is launched, in one sentence each.
//!
//! Kernels count in 32 bits, which is faster; so nothing has more than 2^31 elements, and the sentence says so.

use crate::error::{Error, Result};

/// The most elements that one operation takes.
pub(crate) const MOST_ELEMENTS: usize = 1 << 31;

/// A matrix in rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) rows: u32,
    pub(crate) columns: u32,
}

pub(crate) fn refuse(operation: &'static str, reason: impl Into<String>) -> Error {
    Error::BadShape { operation, reason: reason.into() }
}

/// A length that kernels can count to.
pub(crate) fn count(operation: &'static str, len: usize) -> Result<u32> {
    if len > MOST_ELEMENTS {
        return Err(refuse(
            operation,
            format!(
                "{len} elements are more than 2^31, the most that one call takes: call it for \
                 parts of the buffer (slice)"
            ),
        ));
    }
    Ok(len as u32)
}

/// Two lengths that must be the same.
pub(crate) fn same(
    operation: &'static str,
    (what, len): (&str, usize),
    (other, expected): (&str, usize),
) -> Result<()> {
    if len == expected {
        return Ok(());
    }
    Err(refuse(
        operation,
        format!("{what} has {len} elements, {other} has {expected}: they must be equal"),
    ))
}

/// A length that a shape asks for.
pub(crate) fn exact(
    operation: &'static str,
    what: &str,
    len: usize,
    expected: usize,
) -> Result<()> {
    if len == expected {
        return Ok(());
    }
    Err(refuse(operation, format!("{what} has {len} elements, the shape asks for {expected}")))
}

/// Rows of `columns` elements in `len`.
pub(crate) fn rows(operation: &'static str, len: usize, columns: usize) -> Result<Rows> {
    let elements = count(operation, len)?;
    if elements == 0 {
        return Ok(Rows { rows: 0, columns: u32::try_from(columns).unwrap_or(u32::MAX) });
    }
    if columns == 0 || !len.is_multiple_of(columns) {
        return Err(refuse(
            operation,
            format!("{len} elements are not a whole number of rows of {columns} columns"),
        ));
    }
    Ok(Rows { rows: (len / columns) as u32, columns: columns as u32 })
}

/// A product of sides that kernels can count to.
pub(crate) fn product(operation: &'static str, sides: &[usize]) -> Result<usize> {
    let product = sides.iter().try_fold(1_usize, |product, &side| product.checked_mul(side));
    match product {
        Some(product) if product <= MOST_ELEMENTS => Ok(product),
        _ => {
            let sides: Vec<String> = sides.iter().map(usize::to_string).collect();
            Err(refuse(
                operation,
                format!(
                    "{} elements are more than 2^31, the most that one call takes",
                    sides.join(" x ")
                ),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_two_to_the_31_is_refused_with_the_remedy() {
        assert_eq!(count("relu", MOST_ELEMENTS), Ok(1 << 31));
        let error = count("relu", MOST_ELEMENTS + 1).unwrap_err().to_string();
        assert!(error.starts_with("relu: 2147483649 elements are more than 2^31"), "{error}");
        assert!(error.contains("slice"), "{error}");
        assert!(product("matmul", &[1 << 20, 1 << 20]).is_err());
        assert!(product("matmul", &[usize::MAX, 2]).is_err());
        assert_eq!(product("matmul", &[1 << 20, 0]), Ok(0));
    }

    #[test]
    fn rows_must_be_whole() {
        assert_eq!(rows("softmax", 12, 4), Ok(Rows { rows: 3, columns: 4 }));
        assert_eq!(rows("softmax", 0, 0), Ok(Rows { rows: 0, columns: 0 }));
        for (len, columns) in [(12, 5), (12, 0), (3, 4)] {
            let error = rows("softmax", len, columns).unwrap_err().to_string();
            assert!(error.contains("not a whole number of rows"), "{error}");
        }
    }
}
