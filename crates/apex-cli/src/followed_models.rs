//! The predictor's models while a program runs: a new file of theirs is used from then on.
//!
//! Without a folder of models predictions are made from measured times alone.

use apex_bench::models::folder;
use apex_core::knobs::Knobs;
use apex_daemon::history::History;
use apex_daemon::learn::AtHand;
use apex_daemon::speech::say;
use apex_policy::predict::network::SmallNetwork;
use apex_policy::predict::programs::Programs;
use apex_policy::predict::question::Device;
use apex_policy::predict::trees::Trees;
use apex_train::models::{self, SMALL_FILE, TREES_FILE};
use apex_train::programs::PROGRAMS_FILE;
use apex_train::reload::{FollowedModel, Looked};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// Models that follow their files.
pub(crate) struct FollowedModels {
    folder: Option<PathBuf>,
    small: Option<FollowedModel<SmallNetwork>>,
    trees: Option<FollowedModel<Trees>>,
    programs: Option<Arc<Programs>>,
    devices: BTreeMap<String, Device>,
    looked: Instant,
}

impl FollowedModels {
    /// Opens what there is. A folder that the user named and that is broken is complained about, and not used.
    pub(crate) fn open(knobs: &Knobs, executable: &Path) -> FollowedModels {
        let mut followed = FollowedModels {
            folder: None,
            small: None,
            trees: None,
            programs: None,
            devices: BTreeMap::new(),
            looked: Instant::now(),
        };
        let Some(folder) = folder(knobs, executable) else { return followed };
        if let Err(error) = followed.read(&folder) {
            say(&format!("no trained models are used: {error}"));
        }
        followed
    }

    fn read(&mut self, folder: &Path) -> Result<(), apex_train::Error> {
        let models::Loaded { manifest, check, .. } = models::load(folder)?;
        let small = FollowedModel::open(&folder.join(SMALL_FILE), check.clone())?;
        let trees = FollowedModel::open(&folder.join(TREES_FILE), check)?;
        let known =
            |(name, peaks): (String, apex_train::peaks::Peaks)| Some((name, peaks.device()?));
        self.devices = manifest.devices.into_iter().filter_map(known).collect();
        (self.small, self.trees) = (Some(small), Some(trees));
        self.programs = programs(folder)?;
        self.folder = Some(folder.to_owned());
        Ok(())
    }

    /// Where they lie.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// What comes with the models of kernels that many programs have.
    pub(crate) fn histories(&self) -> Vec<History> {
        let shipped = self.folder.as_deref().map(History::open);
        shipped.and_then(|read| read.map_err(|why| say(&why)).ok()).into_iter().collect()
    }

    /// What a learner asks.
    pub(crate) fn at_hand(&self) -> AtHand {
        AtHand {
            small: self.small.as_ref().map(FollowedModel::reader),
            trees: self.trees.as_ref().map(FollowedModel::reader),
            programs: self.programs.clone(),
            devices: self.devices.clone(),
        }
    }

    /// Looks for new files now and then; says what became of them.
    pub(crate) fn look(&mut self) -> Vec<String> {
        if self.looked.elapsed() < INTERVAL {
            return Vec::new();
        }
        self.looked = Instant::now();
        let small = self.small.as_mut().map(|small| (SMALL_FILE, small.look()));
        let trees = self.trees.as_mut().map(|trees| (TREES_FILE, trees.look()));
        [small, trees].into_iter().flatten().filter_map(change_sentence).collect()
    }
}

/// The forests for launches of programs, where a folder has them.
pub(crate) fn programs(folder: &Path) -> Result<Option<Arc<Programs>>, apex_train::Error> {
    let path = folder.join(PROGRAMS_FILE);
    if !path.exists() {
        return Ok(None);
    }
    models::read(&path, apex_models::programs::read).map(|found| Some(Arc::new(found)))
}

/// What the user is told of a file that was looked at.
fn change_sentence((name, looked): (&str, Looked)) -> Option<String> {
    match looked {
        Looked::Same => None,
        Looked::Replaced => Some(format!("a new {name} is used from here on")),
        Looked::Refused(error) => Some(format!("the model in use stays: {error}")),
    }
}
