//! The document that `apex tune` writes and `apex run --tuning` reads.

use anyhow::{Context, Result, bail};
use apex_core::small_file::{self, read_text};
use apex_core::tuning::{Image, Kernel, Tuning};
use apex_policy::tune::{Cache, Change};
use serde::{Deserialize, Serialize};
use std::path::Path;

const SCHEMA: u32 = 1;

/// What was found for one program on one device.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TuningFile {
    pub(crate) schema: u32,
    /// Version of the apex that wrote it.
    pub(crate) apex: String,
    /// The device it holds for.
    pub(crate) device: String,
    /// The driver's CUDA version.
    pub(crate) driver: String,
    /// The program it was found with.
    pub(crate) command: Vec<String>,
    /// What is changed.
    pub(crate) kernels: Vec<TunedKernel>,
    /// How it was found that nothing else changes.
    pub(crate) verified: Verified,
    /// GPU time of the tuned kernels before over after, in the last comparison.
    pub(crate) gain: Option<f64>,
    /// Everything that was tried.
    #[serde(default)]
    pub(crate) tried: Vec<TriedChange>,
    /// Kernels of which something was not tried, and why.
    #[serde(default)]
    pub(crate) refused: Vec<Refused>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TunedKernel {
    /// Its mangled name.
    pub(crate) kernel: String,
    /// Hash of the code it stands in.
    pub(crate) image: String,
    /// Preferred carve-out in per cent.
    pub(crate) carveout: Option<u32>,
    /// `shared` or `l1`.
    pub(crate) cache: Option<String>,
    /// The most registers of a thread, for its whole image.
    pub(crate) max_registers: Option<u32>,
    /// Another block.
    pub(crate) block: Option<OtherBlock>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OtherBlock {
    pub(crate) from: [u32; 3],
    pub(crate) to: [u32; 3],
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verified {
    /// Runs whose results were compared.
    pub(crate) runs: u64,
    /// Copies from the device that were compared in each.
    pub(crate) copies: u64,
    /// Bytes of them.
    pub(crate) bytes: u64,
    /// Whether standard output was compared too: it is not where it differs from run to run by itself.
    pub(crate) standard_output: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TriedChange {
    pub(crate) kernel: String,
    pub(crate) change: String,
    pub(crate) outcome: String,
    /// Time before over time after, where it was measured.
    pub(crate) gain: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub(crate) kernel: String,
    pub(crate) reason: String,
}

impl TunedKernel {
    /// A kernel with changes.
    pub(crate) fn of(kernel: &str, image: u64, changes: &[Change]) -> TunedKernel {
        let image = format!("{image:016x}");
        let mut tuned = TunedKernel { kernel: kernel.into(), image, ..TunedKernel::default() };
        for change in changes {
            match *change {
                Change::Carveout(percent) => tuned.carveout = Some(percent),
                Change::Cache(Cache::Shared) => tuned.cache = Some("shared".into()),
                Change::Cache(Cache::L1) => tuned.cache = Some("l1".into()),
                Change::Registers(most) => tuned.max_registers = Some(most),
                Change::Block { from, to } => tuned.block = Some(OtherBlock { from, to }),
            }
        }
        tuned
    }
}

impl TuningFile {
    /// A file with what is known beforehand.
    pub(crate) fn new(device: String, driver: String, command: Vec<String>) -> TuningFile {
        let apex = env!("CARGO_PKG_VERSION").into();
        TuningFile { schema: SCHEMA, apex, device, driver, command, ..TuningFile::default() }
    }

    pub(crate) fn read(path: &Path) -> Result<TuningFile> {
        let text = read_text(path, small_file::WRITTEN)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        let file: TuningFile = serde_json::from_str(&text)
            .with_context(|| format!("{} is no tuning; apex tune writes one", path.display()))?;
        if file.schema != SCHEMA {
            bail!("{} is of another apex (schema {})", path.display(), file.schema);
        }
        Ok(file)
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let part = path.with_extension("part");
        std::fs::write(&part, serde_json::to_string_pretty(self)? + "\n")
            .and_then(|()| std::fs::rename(&part, path))
            .with_context(|| format!("{} cannot be written", path.display()))
    }

    /// What a process is told.
    pub(crate) fn tuning(&self) -> Result<Tuning> {
        let mut tuning = Tuning { device: self.device.clone(), ..Tuning::default() };
        let one = |value: Option<u32>| value.map(u64::from).into_iter().collect::<Vec<u64>>();
        for tuned in &self.kernels {
            let image_hash = u64::from_str_radix(&tuned.image, 16)
                .with_context(|| format!("{} is no hash of an image", tuned.image))?;
            let cache = match tuned.cache.as_deref() {
                None => None,
                Some("shared") => Some(1),
                Some("l1") => Some(2),
                Some(other) => bail!("a cache preference is shared or l1, not {other}"),
            };
            let sides = |block: [u32; 3]| block.map(u64::from).to_vec();
            let block = tuned.block.as_ref();
            tuning.kernels.push(Kernel {
                name: tuned.kernel.clone(),
                image_hash,
                carveout: one(tuned.carveout),
                cache: one(cache),
                from: block.map(|block| sides(block.from)).unwrap_or_default(),
                to: block.map(|block| sides(block.to)).unwrap_or_default(),
            });
            if let Some(most) = tuned.max_registers {
                let max_registers = vec![u64::from(most)];
                tuning.images.push(Image { hash: image_hash, max_registers, optimisation: vec![] });
            }
        }
        Ok(tuning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_and_the_lines_say_the_same() {
        let changes = [
            Change::Carveout(25),
            Change::Cache(Cache::L1),
            Change::Registers(64),
            Change::Block { from: [256, 1, 1], to: [128, 1, 1] },
        ];
        let mut file = TuningFile::new("d".into(), "13.0".into(), vec!["p".into()]);
        file.kernels.push(TunedKernel::of("k", 0xabc, &changes));
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("t.json");
        file.write(&path).unwrap();
        let read = TuningFile::read(&path).unwrap();
        assert_eq!(read, file);
        let tuning = read.tuning().unwrap();
        assert_eq!(Tuning::read(&tuning.text()), Some(tuning.clone()));
        assert_eq!((tuning.kernels[0].image_hash, &tuning.kernels[0].cache[..]), (0xabc, &[2][..]));
        assert_eq!(
            (tuning.images[0].hash, &tuning.images[0].max_registers[..]),
            (0xabc, &[64][..])
        );
        assert_eq!((&tuning.kernels[0].from[..], tuning.kernels[0].to[0]), (&[256, 1, 1][..], 128));
        std::fs::write(&path, "{}").unwrap();
        assert!(TuningFile::read(&path).unwrap_err().to_string().contains("no tuning"));
    }
}
