//! Internal snapshots of qcow2 images: taken, gone back to, deleted.
//!
//! Each of these is there as a whole or not at all, whatever interrupts it: the new tables are
//! written where nothing was, and one sector of the header says that they count. That sector also
//! says that the reference counts are to be made anew (the dirty bit), which is done at once, or
//! by whoever opens the image for writing next.

use std::path::Path;

use diskfs_block::Result;

use crate::description::Snapshot;
use crate::open::Opener;
use crate::qcow2::snapshots as tables;
use crate::{Image, OpenOptions};

/// The snapshots of the image at `path`, in its order.
///
/// # Errors
/// As [`Image::open`].
pub fn list(path: &Path, options: &OpenOptions) -> Result<Vec<Snapshot>> {
    let image = Image::open(path, options)?;
    let details = image.description().qcow2.as_ref();
    Ok(details.map_or_else(Vec::new, |details| details.snapshots.clone()))
}

/// Takes a snapshot of the disk's current state.
///
/// # Errors
/// As [`WritableImage::open`](crate::WritableImage::open);
/// [`Exists`](diskfs_block::ErrorKind::Exists) when one has that name;
/// [`Unsupported`](diskfs_block::ErrorKind::Unsupported) for an image of version 2, one with an
/// external data file, and one whose refcounts are too narrow.
pub fn create(path: &Path, name: &str, options: &OpenOptions) -> Result<Snapshot> {
    edit(path, options, |file| tables::create(file, name))
}

/// Makes the disk what it was at the snapshot with this id or name. What it is now is lost unless a
/// snapshot has it; the snapshot itself stays.
///
/// # Errors
/// As [`create`]; [`NotFound`](diskfs_block::ErrorKind::NotFound).
pub fn apply(path: &Path, snapshot: &str, options: &OpenOptions) -> Result<()> {
    edit(path, options, |file| tables::apply(file, snapshot))
}

/// Deletes the snapshot with this id or name, and frees what only it used.
///
/// # Errors
/// As [`apply`].
pub fn delete(path: &Path, snapshot: &str, options: &OpenOptions) -> Result<()> {
    edit(path, options, |file| tables::delete(file, snapshot))
}

fn edit<T>(
    path: &Path,
    options: &OpenOptions,
    change: impl FnOnce(&dyn diskfs_block::BlockWrite) -> Result<T>,
) -> Result<T> {
    Opener::for_writing(options)
        .and_then(|opener| opener.edit_tables(path, change))
        .map_err(|e| e.in_file(path))
}
