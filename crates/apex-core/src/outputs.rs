//! What came out of a program's kernels, as one number, and what was changed on the way: a small file for
//! each process, written by the shim and read by `apex tune`.
//!
//! Every copy from the device is hashed with its length and the hashes are added up, so that threads may come in
//! any order. Two runs of a program whose copies are the same have the same sum; one flipped bit makes another.

use std::fs;
use std::io;
use std::path::Path;

macro_rules! outputs {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The numbers of one process, or of all of a run.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Outputs { $($(#[$doc])* pub $name: u64),+ }

        impl Outputs {
            /// Bytes of the file.
            pub const BYTES: usize = 8 * (1 + [$(stringify!($name)),+].len());

            /// The file's bytes.
            #[must_use]
            pub fn encode(&self) -> Vec<u8> {
                let words = [MAGIC, $(self.$name),+];
                words.iter().flat_map(|word| word.to_le_bytes()).collect()
            }

            /// Reads a file's bytes.
            #[must_use]
            pub fn decode(bytes: &[u8]) -> Option<Outputs> {
                let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
                if words.next()? != MAGIC {
                    return None;
                }
                Some(Outputs { $($name: words.next()?),+ })
            }

            /// Both together.
            #[must_use]
            pub fn plus(&self, other: &Outputs) -> Outputs {
                Outputs { $($name: self.$name.wrapping_add(other.$name)),+ }
            }
        }
    };
}

outputs! {
    /// Copies to the host that were looked at.
    copies,
    /// Bytes of them.
    bytes,
    /// Their hashes, added up.
    sum,
    /// Copies to the host that could not be looked at.
    unseen,
    /// Launches with another block.
    reshaped,
    /// Kernels that were given a hint.
    hinted,
    /// Images that were compiled otherwise.
    compiled,
    /// Changes that the driver refused; the call went through unchanged.
    refused,
}

const MAGIC: u64 = u64::from_le_bytes(*b"APEXOUT1");
/// How the files end.
pub const EXTENSION: &str = "outputs";

/// The numbers of all processes that left a file in a directory.
pub fn read_all(directory: &Path) -> io::Result<Outputs> {
    let mut all = Outputs::default();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION)
            && let Some(outputs) = Outputs::decode(&fs::read(&path)?)
        {
            all = all.plus(&outputs);
        }
    }
    Ok(all)
}

/// The hash of one copy; its length is part of it.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    let mix = |state: u64, word: u64| {
        let product =
            u128::from(state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        (product >> 64) as u64 ^ product as u64
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let state = words.iter().fold(!(bytes.len() as u64), |state, word| {
        mix(state, u64::from_le_bytes(*word)).rotate_left(23)
    });
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(state, u64::from_le_bytes(last) ^ 0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_their_file() {
        let outputs = Outputs { copies: 3, sum: u64::MAX, refused: 9, ..Outputs::default() };
        assert_eq!(Outputs::decode(&outputs.encode()), Some(outputs));
        assert_eq!(outputs.encode().len(), Outputs::BYTES);
        assert_eq!(Outputs::decode(b"something else entirely, and long"), None);
        assert_eq!(outputs.plus(&Outputs { sum: 1, ..Outputs::default() }).sum, 0);
    }

    #[test]
    fn every_byte_and_the_length_count() {
        let bytes: Vec<u8> = (0..61).collect();
        let own = hash(&bytes);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(hash(&other), own, "{at}");
        }
        assert_ne!(hash(&bytes[..60]), own);
        assert_ne!(hash(&[0; 8]), hash(&[0; 16]));
    }
}
