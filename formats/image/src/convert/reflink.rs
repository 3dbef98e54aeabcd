//! Copying of a raw image by sharing its blocks.

use diskfs_block::{BlockRead, File, Result};
use rustix::fs::ioctl_ficlone;

use super::ConvertOptions;
use crate::create::{NewImage, Preallocation, UnfinishedImage, whole_sectors};

/// Makes a new raw image a copy of the source's file that shares its blocks, if both are on a
/// filesystem of the host that can share them (btrfs, XFS). Returns false if the disk must be copied.
///
/// Nothing else is offloaded to the host: on filesystems without shared blocks, `copy_file_range(2)`
/// saves time, but the copy would store the zeroes that the source stores.
pub(super) fn share_blocks(
    from: &dyn BlockRead,
    new: &UnfinishedImage,
    options: &ConvertOptions,
) -> Result<bool> {
    let Some(file) = shareable(from, options) else {
        return Ok(false);
    };
    // Whatever the reason is: what an incomplete attempt shares, the copy overwrites with the same
    // bytes.
    if ioctl_ficlone(new.file(), file).is_err() {
        return Ok(false);
    }
    new.file().set_len(whole_sectors(from.size_bytes())?)?;
    Ok(true)
}

/// Returns the source's file, if its blocks can be those of the new image.
fn shareable<'a>(from: &dyn BlockRead, options: &'a ConvertOptions) -> Option<&'a File> {
    let can_share = matches!(options.image, NewImage::Raw)
        && options.preallocation == Preallocation::Off
        && options.sparse_bytes.is_some();
    let file = options.shared.as_deref().filter(|_| can_share)?;
    let is_same = !file.is_block_device() && file.size_bytes() == from.size_bytes();
    is_same.then_some(file)
}
