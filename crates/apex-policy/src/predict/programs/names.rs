//! What the name of a library's kernel says: the sides of its tiles, its number formats, what it is for. One table.
//!
//! Libraries write into a name which variant it is. Words are looked for anywhere in it, in small letters; mangled names
//! hold them whole.

/// What a name says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NameFacts {
    /// log2 of the sides of a tile: rows, columns, depth; 0 where the name has none.
    pub tile: [f32; 3],
    /// Whether it has the words of each row of [`WORDS`].
    pub words: [bool; WORDS.len()],
}

/// What kernels are for and what they work on, with words that say so.
pub const WORDS: [(&str, &[&str]); 16] = [
    ("gemm", &["gemm", "matmul", "cutlass", "s16816", "xmma", "nvjet", "dot_kernel"]),
    ("convolution", &["conv", "fprop", "dgrad", "wgrad", "winograd", "implicit"]),
    ("attention", &["flash", "fmha", "attention", "sdpa"]),
    ("elementwise", &["elementwise", "pointwise", "fused_add", "saxpy", "axpy"]),
    ("reduction", &["reduce", "_sum", "mean", "norm_kernel", "argmax", "cub"]),
    ("normalisation", &["norm", "softmax"]),
    ("order", &["sort", "scan", "radix", "topk", "bitonic", "select"]),
    (
        "place",
        &["copy", "cat", "transpose", "nchw", "nhwc", "gather", "scatter", "index", "embedding"],
    ),
    ("vectorised", &["vectorized", "vec4", "align8", "align4"]),
    ("backward", &["backward", "_bwd", "dgrad", "wgrad", "grad"]),
    ("split", &["splitk", "split_k", "stream_k", "streamk"]),
    ("half", &["f16", "half", "h884", "h1688", "s16816", "hgemm"]),
    ("bfloat", &["bf16", "bfloat16"]),
    ("single", &["sgemm", "f32", "tf32", "simt_s"]),
    ("double", &["f64", "dgemm", "double"]),
    ("tensor", &["tensorop", "wmma", "hmma", "s1688", "s16816", "xmma", "gmma", "nvjet"]),
];

/// Sides of tiles lie between these.
const TILES: std::ops::RangeInclusive<u32> = 8..=512;

impl NameFacts {
    /// Reads a name.
    #[must_use]
    pub fn of(name: &str) -> NameFacts {
        let name = name.to_ascii_lowercase();
        let words = WORDS.map(|(_, words)| words.iter().any(|word| name.contains(word)));
        NameFacts { tile: tile(&name), words }
    }
}

/// The first sides that are written as `128x64` or `128x64x32`, and a depth that follows as `_32x`.
fn tile(name: &str) -> [f32; 3] {
    let mut tile = [0.0; 3];
    let bytes = name.as_bytes();
    let number = |from: usize| -> Option<(u32, usize)> {
        let digits = bytes.get(from..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let value = name.get(from..from + digits)?.parse().ok()?;
        Some((value, from + digits))
    };
    let mut at = 0;
    while at < bytes.len() {
        let begins = bytes[at].is_ascii_digit() && (at == 0 || !bytes[at - 1].is_ascii_digit());
        let Some((first, end)) = begins.then(|| number(at)).flatten() else {
            at += 1;
            continue;
        };
        at = end;
        let is_side = |side: u32| TILES.contains(&side);
        if bytes.get(end) != Some(&b'x') || !is_side(first) {
            continue;
        }
        let Some((second, end)) = number(end + 1).filter(|(side, _)| is_side(*side)) else {
            continue;
        };
        let log = |side: u32| (side as f32).log2();
        if tile[0] == 0.0 {
            (tile[0], tile[1]) = (log(first), log(second));
            if bytes.get(end) == Some(&b'x')
                && let Some((third, _)) = number(end + 1).filter(|(side, _)| is_side(*side))
            {
                tile[2] = log(third);
            }
        } else if tile[2] == 0.0 {
            tile[2] = log(first);
        }
        at = end;
    }
    tile
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(name: &str, word: &str) -> bool {
        let place = WORDS.iter().position(|(known, _)| *known == word).unwrap();
        NameFacts::of(name).words[place]
    }

    #[test]
    fn tiles_and_words_of_library_kernels_are_read() {
        let tile = |name: &str| NameFacts::of(name).tile.map(|log| log.exp2() as u32);
        assert_eq!(tile("ampere_sgemm_128x64_tn"), [128, 64, 1]);
        let name = "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nn_align8";
        // The number of stages is no side of a tile: 32 stands alone.
        assert_eq!(tile(name), [256, 128, 1]);
        assert_eq!(tile("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT"), [128, 256, 1]);
        assert_eq!(tile("sm90_xmma_gemm_bf16_128x128x64_warpgroup"), [128, 128, 64]);
        assert_eq!(tile("_Z5saxpyifPKfPf"), [1, 1, 1]);
        assert!(has(name, "gemm") && has(name, "tensor") && has(name, "bfloat"));
        assert!(!has(name, "attention") && has("_ZN5flash16flash_fwd_kernelI", "attention"));
        assert!(has("_ZN2at6native29vectorized_elementwise_kernelILi4E", "elementwise"));
    }

    #[test]
    fn odd_names_say_nothing() {
        for name in ["", "x", "9x", "99999999999999x9", "ümläut_8xü"] {
            assert_eq!(NameFacts::of(name).tile, [0.0; 3], "{name}");
        }
    }
}
