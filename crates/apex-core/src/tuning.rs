//! What a program's kernels are to be run with instead: the lines that `apex run` gives a process to apply.
//!
//! Written like facts (`kernel name=saxpy image_hash=17 to=128,1,1`), so that the shim reads them without a
//! parser of its own. An empty list means that nothing is changed. Users see the same as JSON, which
//! `apex tune` writes and `apex run --tuning` reads.

use crate::facts::{Field, facts};

facts! {
    /// The device that all of it holds for.
    "device" Device {
        /// Its name.
        name: String,
    }
    /// One kernel, known by its name and the code that it stands in.
    "kernel" Kernel {
        /// Its mangled name.
        name: String,
        /// Hash of its image.
        image_hash: u64,
        /// Preferred carve-out of shared memory in per cent.
        carveout: Vec<u64>,
        /// Cache preference, as `CUfunc_cache` has it: 1 shared memory, 2 first-level cache, 3 both alike.
        cache: Vec<u64>,
        /// The block that is replaced.
        from: Vec<u64>,
        /// The block that takes its place.
        to: Vec<u64>,
    }
    /// One image that is compiled by the driver.
    "image" Image {
        /// Its hash.
        hash: u64,
        /// The most registers of a thread.
        max_registers: Vec<u64>,
        /// The compiler's level of optimisation.
        optimisation: Vec<u64>,
    }
}

/// A whole tuning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    /// The device's name.
    pub device: String,
    /// Kernels.
    pub kernels: Vec<Kernel>,
    /// Images.
    pub images: Vec<Image>,
}

impl Tuning {
    /// The lines.
    #[must_use]
    pub fn text(&self) -> String {
        let device = Fact::Device(Device { name: self.device.clone() });
        let kernels = self.kernels.iter().cloned().map(Fact::Kernel);
        let images = self.images.iter().cloned().map(Fact::Image);
        [device].into_iter().chain(kernels).chain(images).map(|fact| fact.line()).collect()
    }

    /// Reads lines; nothing if one of them is not understood, because half a tuning was never measured.
    #[must_use]
    pub fn read(text: &str) -> Option<Tuning> {
        let mut tuning = Tuning::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match Fact::parse(line)? {
                Fact::Device(device) => tuning.device = device.name,
                Fact::Kernel(kernel) => tuning.kernels.push(kernel),
                Fact::Image(image) => tuning.images.push(image),
            }
        }
        Some(tuning)
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty() && self.images.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuning_survives_its_lines() {
        let tuning = Tuning {
            device: "NVIDIA H200".into(),
            kernels: vec![Kernel {
                name: "a b".into(),
                image_hash: 7,
                carveout: vec![0],
                from: vec![256, 1, 1],
                to: vec![128, 1, 1],
                ..Kernel::default()
            }],
            images: vec![Image { hash: 9, max_registers: vec![64], ..Image::default() }],
        };
        assert_eq!(Tuning::read(&tuning.text()), Some(tuning));
        assert_eq!(Tuning::read("kernel name=k\nnews x=1\n"), None);
        assert!(Tuning::read("").unwrap().is_empty());
    }
}
