//! The swizzle of shared memory that copies of tensors write and warpgroups' products read.

/// The offset of a byte in shared memory whose place without a swizzle is known; `span` is the width of the
/// pattern: 16 for none, else 32, 64 or 128. The number of the 16 bytes within the span is changed by the number
/// of the 128 bytes, so that what stands in one column of eight rows lies in different banks.
pub(crate) fn swizzled(offset: u32, span: u32) -> u32 {
    offset ^ (offset >> 7 & (span / 16 - 1)) << 4
}

#[cfg(test)]
mod tests {
    use super::swizzled;

    #[test]
    fn rows_are_permuted_within_their_pattern() {
        // The second row of 128 bytes: its 16 bytes 0, 1, 2 go to 1, 0, 3.
        assert_eq!([0, 16, 32].map(|at| swizzled(128 + at, 128)), [128 + 16, 128, 128 + 48]);
        assert_eq!(swizzled(7 * 128, 128), 7 * 128 + 7 * 16);
        assert_eq!(swizzled(7 * 128, 64), 7 * 128 + 3 * 16);
        assert_eq!(swizzled(7 * 128, 32), 7 * 128 + 16);
        for span in [16, 32, 64, 128] {
            let mut places: Vec<u32> = (0..64).map(|row| swizzled(row * 16, span)).collect();
            places.sort_unstable();
            assert!((0..64).map(|row| row * 16).eq(places), "{span}");
        }
    }
}
