//! The checks before anything is written.

use std::ops::ControlFlow;
use std::sync::Arc;

use diskfs_block::BlockWrite;
use diskfs_vfs::Error as VfsError;

use crate::allocator::GROUPS_MAX;
use crate::check::{CheckOptions, check};
use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Incompatible};
use crate::group_descriptor::GroupDescriptor;
use crate::superblock::{Superblock, check_writable};
use crate::volume::Volume;

use super::geometry::shrunk;
use super::{inodes_in_use, zones};

/// Refuses filesystems that cannot be shrunk.
///
/// # Errors
/// `Unsupported`, `Corrupt`.
pub(super) fn features(superblock: &Superblock) -> Result<()> {
    check_writable(superblock)?;
    if superblock.groups_count > GROUPS_MAX {
        let count = superblock.groups_count;
        let reason =
            format!("cannot shrink a filesystem with {count} block groups, more than {GROUPS_MAX}");
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    if superblock.features.has(Incompatible::META_BG) && superblock.reserved_gdt_blocks > 0 {
        let reason = "cannot shrink a filesystem with `meta_bg` and blocks in reserve for the \
                      descriptor table";
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    Ok(())
}

/// Returns the filesystem within `blocks` blocks. If the metadata of its last group would not be in
/// it, that group is left out.
///
/// # Errors
/// `Invalid` if nothing remains; `Unsupported` if the metadata of another group would have to move.
pub(super) fn target(
    old: &Superblock,
    descriptors: &[GroupDescriptor],
    blocks: u64,
) -> Result<Superblock> {
    let new = shrunk(old, blocks)?;
    if zones::check_kept(&new, descriptors).is_ok() || new.groups_count == 1 {
        zones::check_kept(&new, descriptors)?;
        return Ok(new);
    }
    let last = new.groups_count.saturating_sub(1);
    let new = shrunk(old, new.first_block_of_group(last).0)?;
    zones::check_kept(&new, descriptors)?;
    Ok(new)
}

/// Checks the whole filesystem, and refuses a damaged one.
///
/// # Errors
/// `Corrupt`, `Io`, `Cancelled`.
pub(super) fn whole(
    device: &Arc<dyn BlockWrite>,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut stopped: Option<VfsError> = None;
    let report = check(
        device.clone(),
        &CheckOptions::default(),
        &mut |_| match progress(0) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                stopped = Some(e);
                ControlFlow::Break(())
            }
        },
    );
    if let Some(e) = stopped {
        return Err(e);
    }
    let report = report?;
    let Some(first) = report.findings.first() else {
        return Ok(());
    };
    let reason = format!(
        "cannot shrink a damaged filesystem: {} findings, first: {}",
        report.total_findings, first.detail
    );
    let hint = "on a copy, repair it with e2fsck";
    Err(Error::new(ErrorKind::Corrupt, reason).with_hint(hint))
}

/// Refuses inodes from group `first_group` on that cannot get another number.
///
/// # Errors
/// `Unsupported`; `Corrupt`, `Io`.
pub(super) fn removed_inodes(volume: &Volume, first_group: u32) -> Result<()> {
    let superblock = &volume.superblock;
    let groups = first_group..superblock.groups_count;
    inodes_in_use::for_each(volume, groups, |number| {
        let what = if superblock.features.has(Compatible::STABLE_INODES) {
            "`stable_inodes` forbids new inode numbers"
        } else if number == superblock.journal_inode {
            "it is the journal's inode"
        } else if number == superblock.orphan_file_inode {
            "it is the orphan file's inode"
        } else {
            return Ok(());
        };
        let reason = format!("cannot move inode {number}, which would be cut off: {what}");
        let hint = "choose a larger size, or use resize2fs on a copy";
        Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint))
    })
}

/// Returns the error for blocks that no file owns, after all files were moved.
pub(super) fn unmovable() -> Error {
    let reason = "blocks at the end of the filesystem are in use, but no file that can be moved \
                  owns them, for example the list of defective blocks";
    let hint = "choose a larger size, or use resize2fs on a copy";
    Error::new(ErrorKind::Unsupported, reason).with_hint(hint)
}
