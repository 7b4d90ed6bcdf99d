//! Watches a model's file and puts a new one into use when it is good, without a pause for those who ask.
//!
//! The file is looked at when asked to; its size and the moment of its last change say whether it is new. A new
//! file must pass every check of [`apex_models::consider`]; one that does not is refused with the
//! reason, once, and the model in use stays. Writers rename a whole file into place, but nothing here relies on
//! that: half a file is refused like any other broken one, and looked at again when it has grown.

use crate::Error;
use apex_core::small_file::{MADE, read};
use apex_models::{CheckSet, Model, Reader, Shared, consider};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// A model that follows its file.
#[derive(Debug)]
pub struct FollowedModel<M> {
    path: PathBuf,
    seen: Option<(u64, SystemTime)>,
    shared: Arc<Shared<M>>,
    check: CheckSet,
}

/// What came of looking at the file.
#[derive(Debug)]
pub enum Looked {
    /// It is the one that was seen before.
    Same,
    /// It is in use now.
    Replaced,
    /// It is not used, for this reason.
    Refused(Error),
}

impl<M: Model> FollowedModel<M> {
    /// Reads the first model, which must be good.
    pub fn open(path: &Path, check: CheckSet) -> Result<FollowedModel<M>, Error> {
        let seen = stamp(path)?;
        let bytes = read(path, MADE).map_err(Error::read(path))?;
        let model = consider(&bytes, None, &check)
            .map_err(|refusal| Error::Refused(path.to_owned(), refusal))?;
        let shared = Arc::new(Shared::new(model));
        Ok(FollowedModel { path: path.to_owned(), seen: Some(seen), shared, check })
    }

    /// A reader for one thread.
    #[must_use]
    pub fn reader(&self) -> Reader<M> {
        self.shared.reader()
    }

    /// Looks whether there is a new file, and uses it if it is good.
    pub fn look(&mut self) -> Looked {
        let found = match stamp(&self.path) {
            Ok(found) => found,
            // The file may be away for the moment in which it is replaced.
            Err(_) => return Looked::Same,
        };
        if self.seen == Some(found) {
            return Looked::Same;
        }
        self.seen = Some(found);
        let bytes = match read(&self.path, MADE) {
            Ok(bytes) => bytes,
            Err(error) => return Looked::Refused(Error::Read(self.path.clone(), error)),
        };
        match consider(&bytes, Some(&*self.shared.get()), &self.check) {
            Ok(model) => {
                self.shared.replace(model);
                Looked::Replaced
            }
            Err(refusal) => Looked::Refused(Error::Refused(self.path.clone(), refusal)),
        }
    }
}

fn stamp(path: &Path) -> Result<(u64, SystemTime), Error> {
    let metadata = fs::metadata(path).map_err(Error::read(path))?;
    Ok((metadata.len(), metadata.modified().map_err(Error::read(path))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_policy::predict::features::{COUNT, SMALL};
    use apex_policy::predict::network::{INPUTS, Layer, SmallNetwork};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A network whose every answer is the same number, whatever it is asked: a torn one would give another.
    fn constant(number: f32) -> SmallNetwork {
        SmallNetwork {
            mean: [0.0; INPUTS],
            scale: [1.0; INPUTS],
            first: Layer { weights: [[0.0; 16]; 8], bias: [number; 16] },
            second: Layer { weights: [[1.0 / 16.0; 8]; 16], bias: [0.0; 8] },
            third: Layer { weights: [[1.0 / 8.0; 4]; 8], bias: [0.0; 4] },
            widening: 1.0,
            knows_shares: false,
        }
    }

    fn file(model: &SmallNetwork) -> Vec<u8> {
        model.write(&[[1.0; INPUTS]], &[])
    }

    fn check(truth: f32) -> CheckSet {
        CheckSet { features: vec![[1.0; COUNT]; 4], over_expected: vec![truth; 4] }
    }

    fn place(path: &Path, bytes: &[u8], nth: u64) {
        let part = path.with_extension("part");
        fs::write(&part, bytes).unwrap();
        // Two files of one size within the clock's resolution would look the same.
        let moment = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000 + nth);
        fs::File::options().write(true).open(&part).unwrap().set_modified(moment).unwrap();
        fs::rename(&part, path).unwrap();
    }

    #[test]
    fn good_files_come_into_use_under_load_and_none_is_torn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        place(&path, &file(&constant(1.0)), 0);
        // Every model errs on this set by the same: none is refused as worse.
        let none = CheckSet::default();
        let mut followed = FollowedModel::<SmallNetwork>::open(&path, none).unwrap();
        let done = AtomicBool::new(false);
        let reads: u64 = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let mut reader = followed.reader();
                    let done = &done;
                    scope.spawn(move || {
                        let mut reads = 0_u64;
                        while !done.load(Ordering::Relaxed) {
                            let [first, second, third, fourth] =
                                reader.get().outputs(&[3.0; INPUTS]);
                            assert!(first == second && third == fourth && first == third);
                            assert!(first == 1.0 || first == 2.0, "{first}");
                            reads += 1;
                        }
                        reads
                    })
                })
                .collect();
            for nth in 1..=50 {
                let number = if nth % 2 == 0 { 1.0 } else { 2.0 };
                place(&path, &file(&constant(number)), nth);
                assert!(matches!(followed.look(), Looked::Replaced));
                assert!(matches!(followed.look(), Looked::Same));
            }
            done.store(true, Ordering::Relaxed);
            readers.into_iter().map(|reader| reader.join().unwrap()).sum()
        });
        assert!(reads > 1_000, "{reads}");
    }

    #[test]
    fn ten_kinds_of_broken_file_are_refused_with_a_reason_and_the_old_model_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let good = file(&constant(1.0));
        place(&path, &good, 0);
        let mut followed = FollowedModel::<SmallNetwork>::open(&path, check(1.0)).unwrap();
        let mut reader = followed.reader();
        let replaced = |from: &str, to: &str| {
            let mut bytes = good.clone();
            let at =
                bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
            bytes
        };
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 0x40;
        let mut endless = good.clone();
        endless[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        let mut infinite = constant(1.0);
        infinite.first.bias[3] = f32::INFINITY;
        let hash = format!("{:016x}", apex_policy::predict::features::list_hash());
        let broken: [(&str, Vec<u8>, &str); 12] = [
            ("empty", Vec::new(), "cut off"),
            ("half", good[..good.len() / 2].to_vec(), "out of place"),
            ("no length", endless, "header"),
            ("no JSON", replaced("{\"__metadata__\"", "{!__metadata__\""), "header"),
            ("other kind", replaced("small-network", "smell-network"), "smell-network"),
            ("other features", replaced(&hash, "0000000000000000"), "another list of features"),
            ("a flipped bit", flipped, "digest"),
            ("a tensor missing", replaced("layer1.bias", "layer9.bias"), "layer1.bias is missing"),
            ("another shape", replaced("[16, 8]", "[8, 16]"), "wrong shape"),
            ("another type", replaced("F32", "I32"), "wrong type"),
            ("not finite", file(&infinite), "not finite"),
            ("worse", file(&constant(5.0)), "on the check set"),
        ];
        for (nth, (what, bytes, reason)) in broken.into_iter().enumerate() {
            place(&path, &bytes, 10 + nth as u64);
            match followed.look() {
                Looked::Refused(error) => {
                    assert!(error.to_string().contains(reason), "{what}: {error}");
                }
                other => panic!("{what}: {other:?}"),
            }
            assert_eq!(reader.get().outputs(&SMALL.map(|_| 0.0))[0], 1.0, "{what}");
        }
        place(&path, &file(&constant(1.01)), 100);
        assert!(
            matches!(followed.look(), Looked::Refused(_)),
            "one per cent worse is worse than none"
        );
        fs::remove_file(&path).unwrap();
        assert!(matches!(followed.look(), Looked::Same));
    }
}
