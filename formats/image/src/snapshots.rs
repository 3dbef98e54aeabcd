//! Internal snapshots of qcow2 images: create, apply, delete.
//!
//! Each operation is atomic, whatever interrupts it: the new tables are written to unused clusters,
//! and one sector of the header activates them. That sector also sets the dirty bit, which marks
//! that the reference counts must be recomputed. That is done at once, or when the image is next
//! opened for writing.

use std::path::Path;

use diskfs_block::Result;

use crate::description::Snapshot;
use crate::open::Opener;
use crate::qcow2::snapshots as tables;
use crate::{Image, OpenOptions};

/// Lists the snapshots of the image at `path`, in their order.
///
/// # Errors
/// As for [`Image::open`].
pub fn list(path: &Path, options: &OpenOptions) -> Result<Vec<Snapshot>> {
    let image = Image::open(path, options)?;
    let details = image.description().qcow2.as_ref();
    Ok(details.map_or_else(Vec::new, |details| details.snapshots.clone()))
}

/// Takes a snapshot of the disk's current state.
///
/// # Errors
/// * As for [`WritableImage::open`](crate::WritableImage::open).
/// * [`Exists`](diskfs_block::ErrorKind::Exists) if a snapshot has that name.
/// * [`Unsupported`](diskfs_block::ErrorKind::Unsupported) for an image of version 2, one with an
///   external data file, and one whose refcounts are too narrow.
pub fn create(path: &Path, name: &str, options: &OpenOptions) -> Result<Snapshot> {
    edit(path, options, |file| tables::create(file, name))
}

/// Reverts the disk to the snapshot with this id or name. The current state is lost unless a
/// snapshot has it; the snapshot itself is kept.
///
/// # Errors
/// As for [`create`]; [`NotFound`](diskfs_block::ErrorKind::NotFound).
pub fn apply(path: &Path, snapshot: &str, options: &OpenOptions) -> Result<()> {
    edit(path, options, |file| tables::apply(file, snapshot))
}

/// Deletes the snapshot with this id or name, and frees the clusters that only it used.
///
/// # Errors
/// As for [`apply`].
pub fn delete(path: &Path, snapshot: &str, options: &OpenOptions) -> Result<()> {
    edit(path, options, |file| tables::delete(file, snapshot))
}

fn edit<T>(
    path: &Path,
    options: &OpenOptions,
    change: impl FnOnce(&dyn diskfs_block::BlockWrite) -> Result<T>,
) -> Result<T> {
    Opener::for_writing(options)
        .and_then(|opener| opener.edit_tables(path, "snapshots are", change))
        .map_err(|e| e.in_file(path))
}
