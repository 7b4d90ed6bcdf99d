//! What a launch can have beside its shape: cooperation, a cluster, events when it is through.

use apex_cuda::types::*;
use apex_policy::occupancy;

use crate::border::{Answer, list};
use crate::module::kernel::Entry;
use crate::run::launch::Launch;

/// What a launch can have beside its shape.
#[derive(Default)]
pub(crate) struct LaunchAttributes {
    cooperative: bool,
    cluster: Option<[u32; 3]>,
    /// Events recorded once the kernel is through.
    pub(crate) events: Vec<CUevent>,
}

const ATTRIBUTE_COOPERATIVE: u32 = 2;
const ATTRIBUTE_CLUSTER: u32 = 4;
const ATTRIBUTE_PROGRAMMATIC_EVENT: u32 = 7;
const ATTRIBUTE_COMPLETION_EVENT: u32 = 12;
const ATTRIBUTES: u32 = 18;
const _: () = assert!(size_of::<CUlaunchAttribute>() == size_of::<[u32; 18]>());

impl LaunchAttributes {
    pub(crate) fn cooperative() -> LaunchAttributes {
        LaunchAttributes { cooperative: true, ..LaunchAttributes::default() }
    }

    /// # Safety
    ///
    /// `attributes` begins as many attributes of a launch.
    pub(crate) unsafe fn read(
        attributes: *const CUlaunchAttribute,
        count: usize,
    ) -> Result<LaunchAttributes, CUresult> {
        let mut settings = LaunchAttributes::default();
        // An attribute is its number, padding, and 64 bytes of value. The others are
        // hints: order, priority, caches and domains change no result here.
        // SAFETY: the caller vouches for the attributes.
        for words in unsafe { list(attributes.cast::<[u32; 18]>(), count) }? {
            let pointer = u64::from(words[3]) << 32 | u64::from(words[2]);
            match words[0] {
                ATTRIBUTE_COOPERATIVE => settings.cooperative = words[2] != 0,
                ATTRIBUTE_CLUSTER => settings.cluster = Some([words[2], words[3], words[4]]),
                ATTRIBUTE_PROGRAMMATIC_EVENT | ATTRIBUTE_COMPLETION_EVENT => {
                    let event = core::ptr::with_exposed_provenance_mut(pointer as usize);
                    settings.events.push(event);
                }
                0..ATTRIBUTES => {}
                _ => return Err(CUDA_ERROR_INVALID_VALUE),
            }
        }
        Ok(settings)
    }

    pub(crate) fn apply(&self, launch: Launch, entry: &Entry) -> Result<Launch, CUresult> {
        let cluster = match (self.cluster, entry.kernel.cluster) {
            (Some(wanted), Some(fixed)) if wanted != fixed && fixed != [0; 3] => {
                return Err(CUDA_ERROR_INVALID_CLUSTER_SIZE);
            }
            (Some(wanted), _) => wanted,
            (None, _) => launch.cluster,
        };
        check_cluster(entry, launch.grid, cluster)?;
        let launch = Launch { cluster, cooperative: self.cooperative, ..launch };
        if self.cooperative {
            check_cooperative(entry, &launch)?;
        }
        Ok(launch)
    }
}

/// The cluster that a configuration asks for.
///
/// # Safety
///
/// The attributes of the configuration are there.
pub(crate) unsafe fn cluster_of(config: &CUlaunchConfig) -> Result<Option<[u32; 3]>, CUresult> {
    // SAFETY: the caller vouches for the attributes.
    Ok(unsafe { LaunchAttributes::read(config.attrs, config.numAttrs as usize) }?.cluster)
}

fn check_cluster(entry: &Entry, grid: [u32; 3], cluster: [u32; 3]) -> Answer {
    if cluster == [1; 3] {
        return Ok(());
    }
    let blocks = cluster.iter().fold(1_u32, |product, &side| product.saturating_mul(side));
    let divides = grid.iter().zip(cluster).all(|(grid, side)| side > 0 && grid % side == 0);
    let has_clusters = entry.device.identity.capability.0 >= 9;
    if has_clusters && divides && blocks <= entry.largest_cluster() {
        Ok(())
    } else {
        Err(CUDA_ERROR_INVALID_CLUSTER_SIZE)
    }
}

/// A grid whose blocks wait for each other must fit on the device at once.
fn check_cooperative(entry: &Entry, launch: &Launch) -> Answer {
    let threads = launch.block.iter().product();
    let (chip, needs) = (&entry.device.chip, entry.needs(launch.shared_bytes));
    let each = u64::from(occupancy(chip, &needs, threads).blocks_per_sm);
    let room = each * u64::from(entry.device.identity.multiprocessors);
    let blocks =
        launch.grid.iter().fold(1_u64, |product, &size| product.saturating_mul(size.into()));
    if blocks > room { Err(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE) } else { Ok(()) }
}
