//! The common part of resizing: which clusters move, and the record that makes the change safe.
//!
//! The contents of clusters that move are copied to clusters that are free in the old filesystem.
//! All metadata that changes is written to a [`Record`], also in free space. One write to the first
//! sector, the [mark](Mark), commits it. Then [`resume`] writes the metadata to its place and the
//! new boot sector last. Between the two, the mark makes every driver refuse the filesystem, and
//! the next call of [`resume`] repeats the work.

mod directory;
mod mark;
mod record;
mod redo;
mod renumbering;
mod space;

use std::ops::ControlFlow;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{Error, ErrorKind, Result, check_cancelled};

use crate::device_failed;
use crate::geometry::Geometry;

pub use directory::{move_chain, read_directory, record_directory};
pub use mark::{MARK_OFFSET, Mark, check_unmarked};
pub use record::{Copies, Phase, Record};
pub use redo::resume;
pub use renumbering::{Move, Renumbering};
pub use space::Space;

/// The number of bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// The options for resizing a filesystem.
#[derive(Debug, Clone, Default)]
pub struct ResizeOptions {
    /// The size of the filesystem in bytes; `None` means the size of the device.
    pub size_bytes: Option<u64>,
    /// True if the filesystem may become smaller.
    pub may_shrink: bool,
}

/// The sizes of a filesystem before and after it was resized. They are equal if nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resized {
    /// The old size in bytes.
    pub old_bytes: u64,
    /// The new size in bytes. It can be less than the requested one: the type limits the number of
    /// clusters, and a last part that is smaller than a cluster can be left out.
    pub new_bytes: u64,
}

impl ResizeOptions {
    /// Returns the requested size in bytes.
    ///
    /// # Errors
    /// `Invalid` for a size beyond the end of the device.
    pub fn target_bytes(&self, device: &dyn BlockRead) -> Result<u64> {
        let device_bytes = device.size_bytes();
        let size_bytes = self.size_bytes.unwrap_or(device_bytes);
        if size_bytes > device_bytes {
            let reason = format!(
                "cannot resize the filesystem to {size_bytes} bytes: its device has {device_bytes} \
                 bytes"
            );
            let hint = "make the image, partition or volume larger first";
            return Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint));
        }
        Ok(size_bytes)
    }

    /// Fails if the target is smaller than the filesystem, unless it may shrink.
    ///
    /// # Errors
    /// `Invalid` for a target that needs the permission to shrink.
    pub fn check_shrink(&self, old_bytes: u64, target_bytes: u64) -> Result<()> {
        if self.may_shrink || target_bytes >= old_bytes {
            return Ok(());
        }
        let reason = format!(
            "cannot shrink the filesystem to {target_bytes} bytes: it has {old_bytes} bytes"
        );
        Err(Error::new(ErrorKind::Invalid, reason)
            .with_hint("allow the filesystem to shrink, or choose a larger size"))
    }
}

/// Returns the error for a filesystem without enough free clusters for a change of its size.
#[must_use]
pub fn no_room() -> Error {
    let reason = "cannot resize the filesystem: too few free clusters to move contents and to \
                  record the change";
    let hint = "choose a larger size, or delete files first";
    Error::new(ErrorKind::NoSpace, reason).with_hint(hint)
}

/// Returns the error for a filesystem that was not cleanly unmounted.
#[must_use]
pub fn not_clean(checker: &str) -> Error {
    let reason = "cannot resize the filesystem: it was not cleanly unmounted";
    let hint = format!("mount and unmount it, or run {checker} first");
    Error::new(ErrorKind::Corrupt, reason).with_hint(hint)
}

/// Copies the clusters that move to their new places. `progress` gets the number of bytes of each
/// step.
///
/// # Errors
/// `Cancelled`, or errors of the device.
pub fn copy_moved(
    device: &dyn BlockWrite,
    renumbering: &Renumbering,
    (old, new): (&Geometry, &Geometry),
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    let mut bytes = Vec::new();
    for part in renumbering.moves() {
        let (from, to) = (old.offset_of(part.from), new.offset_of(part.to));
        let len_bytes = old.bytes_of(part.count);
        let mut done: u64 = 0;
        while done < len_bytes {
            let step = len_bytes.saturating_sub(done).min(COPY_BYTES);
            bytes.resize(diskfs_block::bytes::index(step), 0);
            let read = BlockRead::read_at(device, from.saturating_add(done), &mut bytes);
            read.map_err(device_failed)?;
            let written = device.write_at(to.saturating_add(done), &bytes);
            written.map_err(device_failed)?;
            check_cancelled(progress(step))?;
            done = done.saturating_add(step);
        }
    }
    Ok(())
}

/// Writes the first sector with its mark, which commits the record, and completes the change.
///
/// # Errors
/// Errors of the device.
pub fn commit(device: &dyn BlockWrite, marked: &[u8]) -> Result<()> {
    device.write_at(0, marked).map_err(device_failed)?;
    device.flush().map_err(device_failed)?;
    redo::resume(device).map(|_| ())
}

/// Returns the smallest number in `range` for which `fits` returns true; the end of the range if
/// it returns false for all others. It returns true for all numbers above the result.
pub fn smallest(range: std::ops::RangeInclusive<u32>, fits: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = range.into_inner();
    while low < high {
        let middle = low.midpoint(high);
        if fits(middle) {
            high = middle;
        } else {
            low = middle.saturating_add(1);
        }
    }
    high
}
