//! Changing the size of a filesystem that nobody has mounted.
//!
//! A larger filesystem can need larger tables, and the clusters follow directly after the tables.
//! The first clusters then make room: their contents move, and the numbers of all others become
//! smaller by a constant ([`layout`]). A smaller filesystem keeps its tables, and the contents of
//! the clusters after its end move.
//!
//! [`scan`] checks the whole filesystem before anything is written. [`tables`] and [`directories`]
//! write the new metadata to the record of `diskfs_clusters::resize`, which replaces the old
//! metadata after a commit by one sector.

mod boot;
mod directories;
mod layout;
mod scan;
mod tables;

use std::ops::ControlFlow;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::Cluster;
use diskfs_clusters::resize::{
    Record, Renumbering, ResizeOptions, Resized, Space, commit, copy_moved, not_clean, resume,
    smallest,
};

use crate::boot_sector::BootSector;
use crate::error::{Error, ErrorKind, Result};
use crate::fat::{FatEntry, FatTable};
use crate::structures::is_dirty;

use layout::NewLayout;
use scan::Scan;

/// Changes the size of a FAT filesystem. Nothing to change is a success.
///
/// The type stays: a FAT12 or FAT16 grows to the maximum of its type, and `new_bytes` is then less
/// than the requested size. `progress` gets the number of bytes that each step wrote;
/// [`ControlFlow::Break`] stops before the filesystem changes. After a crash the filesystem has the
/// old or the new size, or the same call completes the work. Until then every driver refuses it.
///
/// # Errors
/// * `Invalid` for a size that is too small for the type, beyond the end of the device, or below
///   the present one without [`ResizeOptions::may_shrink`];
/// * `Unsupported` if the copies of the table are not kept in sync;
/// * `Corrupt` if the filesystem is damaged or was not cleanly unmounted;
/// * `NoSpace` if too few clusters are free; `Cancelled`; `Io`.
pub fn resize(
    device: &Arc<dyn BlockWrite>,
    options: &ResizeOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Resized> {
    let resumed = resume(&**device)?;
    let old = OldVolume::open(device)?;
    let old_bytes = resumed.unwrap_or(old.boot.size_bytes);
    let target_bytes = options.target_bytes(&**device)?;
    options.check_shrink(old.boot.size_bytes, target_bytes)?;
    let Some(layout) = NewLayout::choose(&old.boot, target_bytes)? else {
        return Ok(Resized {
            old_bytes,
            new_bytes: old.boot.size_bytes,
        });
    };
    let scan = Scan::of(&old)?;
    old.change(&scan, &layout, progress)?;
    Ok(Resized {
        old_bytes,
        new_bytes: layout.size_bytes,
    })
}

/// Returns the smallest size in bytes to which [`resize`] can shrink the filesystem. Its files
/// limit it, its type, and the space for the record of the change.
///
/// A change that was interrupted is completed first, as by [`resize`].
///
/// # Errors
/// Those of [`resize`] for a filesystem that cannot be changed.
pub fn minimum_size(device: &Arc<dyn BlockWrite>) -> Result<u64> {
    resume(&**device)?;
    let old = OldVolume::open(device)?;
    let scan = Scan::of(&old)?;
    let room = scan
        .record_bytes
        .div_ceil(old.boot.geometry.cluster_bytes.into());
    let fits = |clusters| {
        let layout = NewLayout::with_clusters(&old.boot, clusters);
        let space = old.plan(&scan, &layout).map(|plan| plan.space.free());
        space.is_ok_and(|free| u64::from(free) >= room)
    };
    let clusters = old.boot.geometry.clusters;
    let least = smallest(layout::least_clusters(&old.boot)..=clusters, fits);
    if least == clusters {
        return Ok(old.boot.size_bytes);
    }
    Ok(NewLayout::with_clusters(&old.boot, least).size_bytes)
}

/// The filesystem before its size changes.
#[derive(Debug)]
struct OldVolume {
    device: Arc<dyn BlockWrite>,
    boot: BootSector,
    fat: FatTable,
}

/// The places to which clusters move, and the space that is left.
struct Plan {
    renumbering: Renumbering,
    space: Space,
}

impl OldVolume {
    fn open(device: &Arc<dyn BlockWrite>) -> Result<Self> {
        let boot = BootSector::read(&**device)?;
        if boot.active_fat.is_some() {
            let reason = "cannot resize the filesystem: its tables are not copies of each other";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let below: Arc<dyn BlockRead> = device.clone();
        let fat = FatTable::new(below, &boot);
        if is_dirty(&boot, &fat)? {
            return Err(not_clean("fsck.fat"));
        }
        Ok(Self {
            device: Arc::clone(device),
            fat,
            boot,
        })
    }

    /// Chooses the places of clusters that move.
    fn plan(&self, scan: &Scan, layout: &NewLayout) -> Result<Plan> {
        let clusters = self.boot.geometry.clusters;
        let mut renumbering = Renumbering::new(layout.shift, clusters, layout.clusters);
        let mut space = Space::new(&scan.used, &renumbering);
        // A bad cluster has no contents.
        let is_bad = |cluster| matches!(self.fat.entry(cluster), Ok(FatEntry::Other(_)));
        space.evacuate(&scan.used, &mut renumbering, is_bad)?;
        Ok(Plan { renumbering, space })
    }

    fn change(
        &self,
        scan: &Scan,
        layout: &NewLayout,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        self.check_bad_clusters(layout)?;
        let Plan { renumbering, space } = self.plan(scan, layout)?;
        let (old, new) = (
            &self.boot.geometry,
            layout.geometry(&self.boot, &renumbering)?,
        );
        copy_moved(&*self.device, &renumbering, (old, &new), progress)?;
        let size_bytes = self.boot.size_bytes;
        let mut record = Record::new(&*self.device, &new, space, size_bytes, progress);
        directories::record(self, &renumbering, &new, &mut record)?;
        let free = tables::record(self, &renumbering, layout, &mut record)?;
        boot::record(self, layout, &new, free, &mut record)?;
        let marked = boot::marked(self, &record.finish()?)?;
        commit(&*self.device, &marked)
    }

    /// Fails if the tables would grow over a bad cluster.
    fn check_bad_clusters(&self, layout: &NewLayout) -> Result<()> {
        let mut first = (0..layout.shift).map(|nth| Cluster(2).plus(nth));
        let is_bad = |cluster| matches!(self.fat.entry(cluster), Ok(FatEntry::Other(_)));
        match first.find(|cluster| self.boot.geometry.contains(*cluster) && is_bad(*cluster)) {
            None => Ok(()),
            Some(cluster) => {
                let reason = format!("cannot make the tables larger: cluster {cluster} is bad");
                Err(Error::new(ErrorKind::Unsupported, reason))
            }
        }
    }
}
