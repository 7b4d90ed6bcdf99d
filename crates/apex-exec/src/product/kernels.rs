//! Our matmul kernels: how each is compiled for a product, and its grid.
//!
//! The sources are compiled at run time for the transposes, types and tiles of the product, and kept by the
//! compiler's cache. What each needs of its launch stands in its own first lines.

use super::matmul_kernel::MatmulKernel;
use super::request::Question;
use crate::compile::CompileOptions;
use crate::grid::Grid;

const SOURCES: [(&str, &str); 3] = [
    ("wgmma_instructions.cuh", include_str!("../../kernels/matmul/wgmma_instructions.cuh")),
    ("elements.cuh", include_str!("../../kernels/matmul/elements.cuh")),
    ("f32_chunks.cuh", include_str!("../../kernels/matmul/f32_chunks.cuh")),
];

/// A kernel compiled for a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Its name in its module.
    pub(crate) entry: &'static str,
    source: &'static str,
    architecture: Option<&'static str>,
    defines: Vec<(&'static str, u32)>,
    pub(crate) grid: Grid,
    /// Tiles of the copy engine's kernel.
    pub(crate) tiles: Tiles,
}

/// What the tensor maps of the wgmma kernel need to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tiles {
    pub(crate) columns: u32,
    /// Rows of tiles that go before the next columns, so that L2 keeps what neighbours read.
    pub(crate) group: u32,
}

impl Form {
    /// The form of a kernel for a product; none for those that are not ours to compile.
    pub(crate) fn new(
        kernel: MatmulKernel,
        question: &Question,
        multiprocessors: u32,
    ) -> Option<Form> {
        let form = match kernel {
            MatmulKernel::SmallF32 => small_f32(question, multiprocessors),
            MatmulKernel::TiledF32 => tiled_f32(question, multiprocessors),
            MatmulKernel::Mma => mma(question, multiprocessors),
            MatmulKernel::Wgmma => wgmma(question, multiprocessors),
            MatmulKernel::CublasLt | MatmulKernel::Plain => return None,
        };
        let transposes = [
            ("TRANSPOSE_A", u32::from(question.transpose_a)),
            ("TRANSPOSE_B", u32::from(question.transpose_b)),
        ];
        Some(Form { defines: form.defines.into_iter().chain(transposes).collect(), ..form })
    }

    /// What it is compiled as: forms with equal keys are one kernel.
    pub(crate) fn key(&self) -> String {
        format!("{} {:?}", self.entry, self.defines)
    }

    /// The source with what it includes in it: the compiler gets one text.
    pub(crate) fn source(&self) -> String {
        let mut text = self.source.to_owned();
        for (name, part) in SOURCES {
            text = text.replace(&format!("#include \"{name}\""), &part.replace("#pragma once", ""));
        }
        text
    }

    pub(crate) fn options(&self) -> CompileOptions {
        let options =
            self.defines.iter().fold(CompileOptions::default(), |options, (name, value)| {
                options.define(name, &value.to_string())
            });
        match self.architecture {
            Some(name) => options.architecture(name),
            None => options,
        }
    }
}

/// Tiles of `rows` by `columns` that a product has, without its batch.
fn tiles(question: &Question, rows: u32, columns: u32) -> u32 {
    let tiles = u64::from(question.m.div_ceil(rows)) * u64::from(question.n.div_ceil(columns));
    u32::try_from(tiles).unwrap_or(u32::MAX)
}

fn batched(question: &Question, blocks: u32, threads: u32) -> Grid {
    Grid::new([blocks, question.batch.min(65_535), 1], [threads, 1, 1])
}

fn small_f32(question: &Question, multiprocessors: u32) -> Form {
    let few =
        u64::from(tiles(question, 64, 32)) * u64::from(question.batch) < u64::from(multiprocessors);
    let (rows, columns) = if few { (32, 16) } else { (64, 32) };
    let (chunk, slots) = (64, 4);
    let size_a = if question.transpose_a { chunk * rows } else { rows * (chunk + 4) };
    let size_b = if question.transpose_b { columns * (chunk + 4) } else { chunk * columns };
    let shared = 4 * (slots * (size_a + size_b)).max(8 * rows * (columns + 4));
    Form {
        entry: "matmul_f32_small",
        source: include_str!("../../kernels/matmul/f32_small.cu"),
        architecture: None,
        defines: vec![("TILE_M", rows), ("TILE_N", columns), ("CHUNK_K", chunk), ("SLOTS", slots)],
        grid: batched(question, tiles(question, rows, columns), 256).with_shared(shared),
        tiles: Tiles::default(),
    }
}

fn tiled_f32(question: &Question, multiprocessors: u32) -> Form {
    let tall = u64::from(tiles(question, 128, 64)) * u64::from(question.batch);
    // Both do best on an H200; the larger one needs enough tiles.
    let (rows, columns) = if tall < 4 * u64::from(multiprocessors) { (64, 64) } else { (128, 64) };
    Form {
        entry: "matmul_f32",
        source: include_str!("../../kernels/matmul/f32.cu"),
        architecture: None,
        defines: vec![("TILE_M", rows), ("TILE_N", columns)],
        grid: batched(question, tiles(question, rows, columns), rows / 8 * columns / 8),
        tiles: Tiles::default(),
    }
}

fn element_number(question: &Question) -> u32 {
    if question.element == "f16" { 1 } else { 2 }
}

fn mma(question: &Question, multiprocessors: u32) -> Form {
    let few = u64::from(tiles(question, 128, 128)) * u64::from(question.batch)
        < u64::from(multiprocessors);
    let side = if few { 64 } else { 128 };
    let element = element_number(question);
    Form {
        entry: "matmul_mma",
        source: include_str!("../../kernels/matmul/mma.cu"),
        architecture: None,
        defines: vec![("MATMUL_INPUT", element), ("MATMUL_OUTPUT", element), ("TILE", side)],
        grid: batched(question, tiles(question, side, side), 128),
        tiles: Tiles::default(),
    }
}

fn wgmma(question: &Question, multiprocessors: u32) -> Form {
    let tiles = |columns: u32| u64::from(tiles(question, 128, columns)) * u64::from(question.batch);
    let full = u64::from(multiprocessors);
    // The largest tile that still gives nine of ten multiprocessors one; stages and slots as measured on an H200.
    let is_enough = |columns: u32| tiles(columns) * 10 >= full * 9;
    let (columns, stages, store_slots) = if is_enough(256) {
        (256, 4, 2)
    } else if is_enough(128) {
        (128, 6, 2)
    } else {
        (64, 8, 1)
    };
    let shared = stages * (16_384 + 128 * columns + 16) + 2 * store_slots * 8192 + 8 * columns;
    let element = element_number(question);
    Form {
        entry: "matmul_wgmma",
        source: include_str!("../../kernels/matmul/wgmma.cu"),
        architecture: Some("compute_90a"),
        defines: vec![
            ("MATMUL_INPUT", element),
            ("MATMUL_OUTPUT", element),
            ("TILE_N", columns),
            ("STAGES", stages),
            ("STORE_SLOTS", store_slots),
        ],
        grid: Grid::linear(full.min(tiles(columns)) as u32, 384).with_shared(shared),
        tiles: Tiles { columns, group: if question.m > 1024 { 16 } else { 4 } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::Activation;

    fn question(element: &'static str, side: u32) -> Question {
        Question {
            element,
            m: side,
            n: side,
            k: side,
            batch: 1,
            transpose_a: false,
            transpose_b: true,
            aligned: true,
            activation: Activation::None,
            adds: false,
        }
    }

    #[test]
    fn tiles_follow_the_size() {
        let columns = |side| wgmma(&question("bf16", side), 132).tiles.columns;
        assert_eq!([512, 1024, 2048, 8192].map(columns), [64, 64, 256, 256]);
        let form = Form::new(MatmulKernel::Wgmma, &question("f16", 4096), 132).unwrap();
        assert_eq!(form.grid, Grid::linear(132, 384).with_shared(231_488));
        assert!(form.key().contains("(\"TRANSPOSE_B\", 1)"), "{}", form.key());
    }

    #[test]
    fn a_source_has_what_it_includes() {
        for kernel in
            [MatmulKernel::SmallF32, MatmulKernel::TiledF32, MatmulKernel::Mma, MatmulKernel::Wgmma]
        {
            let form = Form::new(kernel, &question("bf16", 64), 132).unwrap();
            let source = form.source();
            assert!(
                !source.contains("#include \"") && !source.contains("#pragma once"),
                "{kernel:?}"
            );
            assert!(source.contains(form.entry), "{kernel:?}");
        }
        assert!(Form::new(MatmulKernel::Plain, &question("bf16", 64), 132).is_none());
    }
}
