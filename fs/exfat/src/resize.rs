//! Changing the size of a filesystem that nobody has mounted.
//!
//! If a larger filesystem needs a longer table than fits before the clusters, the first clusters
//! make room: their contents move, and the numbers of all others become smaller by a constant
//! ([`layout`]). In a smaller filesystem, the contents of the clusters after its end move. The
//! bitmap moves if it must become longer: it and the up-case table stay contiguous, as the kernel
//! expects them.
//!
//! [`scan`] checks the whole filesystem before anything is written. [`directories`] and [`tables`]
//! write the new metadata to the record of `diskfs_clusters::resize`, which replaces the old
//! metadata after a commit by one sector.

mod boot;
mod directories;
mod layout;
mod plan;
mod scan;
mod tables;

use std::ops::ControlFlow;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::Chain;
use diskfs_clusters::resize::{
    Record, ResizeOptions, Resized, commit, copy_moved, not_clean, resume, smallest,
};

use crate::boot_sector::BootSector;
use crate::error::{Error, ErrorKind, Result};
use crate::fat::FatTable;
use crate::root_entries::RootEntries;

use layout::NewLayout;
use plan::Plan;
use scan::Scan;

/// Changes the size of an exFAT filesystem. Nothing to change is a success.
///
/// `progress` gets the number of bytes that each step wrote; [`ControlFlow::Break`] stops before
/// the filesystem changes. After a crash the filesystem has the old or the new size, or the same
/// call completes the work. Until then every driver refuses it.
///
/// # Errors
/// * `Invalid` for a size below 1 MiB, beyond the end of the device, or below the present one
///   without [`ResizeOptions::may_shrink`];
/// * `Unsupported` for `TexFAT` (two tables), and for directory entries of an unknown kind;
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
/// limit it, and the space for the record of the change.
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
        let space = Plan::of(&old, &scan, &layout).map(|plan| plan.space.free());
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
    /// The clusters of the bitmap and its length in bytes.
    bitmap: (Chain, u64),
    upcase: Chain,
}

impl OldVolume {
    fn open(device: &Arc<dyn BlockWrite>) -> Result<Self> {
        let boot = BootSector::read(&**device)?;
        let below: Arc<dyn BlockRead> = device.clone();
        let fat = FatTable::new(Arc::clone(&below), &boot);
        if boot.fats > 1 {
            let reason = "resizing TexFAT (two tables) is not supported";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        if boot.is_backup {
            let reason = "the main boot region is damaged; only its backup is valid";
            let e = Error::new(ErrorKind::Corrupt, reason);
            return Err(e.with_hint("run fsck.exfat on a copy"));
        }
        if boot.is_dirty() {
            return Err(not_clean("fsck.exfat"));
        }
        let root = RootEntries::read(&below, &boot, &fat)?;
        let (bitmap, len_bytes) = root.bitmap(&boot)?;
        let bitmap = fat.chain(bitmap)?;
        if bitmap.runs().len() > 1 {
            // No implementation writes such a bitmap, and the kernel cannot read it.
            let reason = "resizing an exFAT whose bitmap is not contiguous is not supported";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        Ok(Self {
            device: Arc::clone(device),
            bitmap: (bitmap, len_bytes),
            upcase: fat.chain(root.upcase_first(&boot)?)?,
            fat,
            boot,
        })
    }

    fn change(
        &self,
        scan: &Scan,
        layout: &NewLayout,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let plan = Plan::of(self, scan, layout)?;
        let new = layout.geometry(&self.boot, &plan.renumbering)?;
        let geometries = (&self.boot.geometry, &new);
        copy_moved(&*self.device, &plan.renumbering, geometries, progress)?;
        let Plan {
            renumbering,
            bitmap,
            space,
        } = plan;
        let size_bytes = self.boot.size_bytes;
        let mut record = Record::new(&*self.device, &new, space, size_bytes, progress);
        let place = directories::NewPlace {
            renumbering: &renumbering,
            geometry: &new,
            bitmap,
        };
        let broken = directories::record(self, &place, &mut record)?;
        tables::record(self, &place, layout, &broken, &mut record)?;
        let used = tables::record_bitmap(self, scan, &place, &mut record)?;
        boot::record(self, layout, &new, &used, &mut record)?;
        let marked = boot::marked(self, &record.finish()?)?;
        commit(&*self.device, &marked)
    }
}
