//! Shrinking a filesystem that nobody has mounted, as `resize2fs` does.
//!
//! First everything is checked: the whole filesystem, its features, and the space ([`space`]). Then
//! the journal moves ([`journal`]), then the blocks and inodes of files, in ordinary transactions
//! ([`migrate`]). At last one commit cuts off the end ([`cut`]).

mod bitmaps;
mod check;
mod cut;
mod free_space;
mod geometry;
mod inodes_in_use;
mod journal;
mod migrate;
mod record;
mod relocate_blocks;
mod relocate_inodes;
mod space;
mod zones;

use std::ops::ControlFlow;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{Timestamp, check_cancelled};

use crate::device_writer::DeviceWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::group_descriptor::GroupDescriptor;
use crate::recovery::recover as recover_in_memory;
use crate::resize::edits::Edits;
use crate::resize::stage::write_old_backups;
use crate::resize::{Resized, backups, recover, size_bytes, volume};
use crate::superblock::Superblock;
use crate::volume::Volume;

use cut::Cut;
use space::Space;

/// The budget of the caches for computing the minimum.
const CACHE_BYTES: u64 = 1 << 20;

/// The options for [`shrink`].
#[derive(Debug, Clone)]
pub struct ShrinkOptions {
    /// The size of the filesystem in bytes.
    pub size_bytes: u64,
    /// The time that the superblock records as its last change.
    pub time: Timestamp,
}

impl ShrinkOptions {
    /// Returns the options for a size, with the present time.
    pub fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            time: Timestamp::now(),
        }
    }
}

/// Shrinks the ext2, ext3 or ext4 filesystem on a device. The device keeps its size.
///
/// A journal is replayed first, and the whole filesystem is checked. `progress` gets the number of
/// bytes of the old filesystem that were searched for files to be moved; [`ControlFlow::Break`]
/// stops with the old size. The new size can be less than the requested one: a last block group
/// without room for data is left out.
///
/// After a crash or an error, the filesystem is consistent and has the old size, the new one, or
/// one between them, and the same call completes the work. A filesystem without a journal is marked
/// as unclean while files move, and must be repaired with e2fsck after a crash. After a crash, complete
/// the work, or run e2fsck, before a kernel mounts the filesystem: in rare moments it would go on to
/// use blocks that were cut off.
///
/// # Errors
/// * `Invalid` for a size above the present one, by a block group or more;
/// * `NoSpace` if the contents need more, or the journal is too small;
/// * `Unsupported` for features that cannot be shrunk;
/// * `Corrupt` if it is damaged, or not clean and without a journal;
/// * `Cancelled`; `Io`.
pub fn shrink(
    device: &Arc<dyn BlockWrite>,
    options: &ShrinkOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Resized> {
    let superblock = Superblock::read(&**device)?;
    let old_bytes = size_bytes(&superblock);
    record::resume(device, &superblock)?;
    let superblock = Superblock::read(&**device)?;
    check::features(&superblock)?;
    check_size(&superblock, options)?;
    recover(device)?;
    let mut progress = |bytes| check_cancelled(progress(bytes));
    for blocks in stages(device, options, &mut progress)? {
        run_stage(device, blocks, options.time, &mut progress)?;
    }
    let superblock = Superblock::read(&**device)?;
    if !backups::are_current(&**device, &superblock)? {
        write_backups(device, &superblock)?;
    }
    Ok(Resized {
        old_bytes,
        new_bytes: size_bytes(&superblock),
    })
}

/// Returns the size in bytes to which [`shrink`] can shrink a filesystem. It is an estimate from
/// above: a smaller size can be possible.
///
/// # Errors
/// `Unsupported` for features that cannot be shrunk; `Corrupt`, `Io`.
pub fn minimum_size(device: &Arc<dyn BlockRead>) -> Result<u64> {
    let superblock = Superblock::read(&**device)?;
    check::features(&superblock)?;
    let recovered = recover_in_memory(Arc::clone(device), superblock)?;
    let volume = Volume {
        journal_view: recovered.view,
        ..Volume::new(recovered.device, recovered.superblock, CACHE_BYTES)
    };
    let descriptors = descriptors(&volume)?;
    let minimum = Space::read(&volume, &descriptors)?.minimum()?;
    Ok(size_bytes(&minimum))
}

/// Refuses sizes above the present one. A last block group that is left out is not reason enough: a
/// call that is repeated after a crash may find its work completed.
fn check_size(superblock: &Superblock, options: &ShrinkOptions) -> Result<()> {
    let present = size_bytes(superblock);
    let group = u64::from(superblock.blocks_per_group);
    let group_bytes = superblock.block_size.bytes_of(group);
    if options.size_bytes < present.saturating_add(group_bytes) {
        return Ok(());
    }
    let reason = format!(
        "cannot shrink the filesystem to {} bytes: it has {present} bytes",
        options.size_bytes
    );
    Err(Error::new(ErrorKind::Invalid, reason).with_hint("grow it instead"))
}

/// Checks the filesystem, and returns the sizes of the stages in blocks; none if it has the
/// requested size.
fn stages(
    device: &Arc<dyn BlockWrite>,
    options: &ShrinkOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Vec<u64>> {
    let superblock = Superblock::read(&**device)?;
    let blocks = options
        .size_bytes
        .wrapping_shr(superblock.block_size.bits());
    if blocks >= superblock.blocks_count {
        return Ok(Vec::new());
    }
    let volume = volume(device, superblock);
    let descriptors = descriptors(&volume)?;
    let target = check::target(&volume.superblock, &descriptors, blocks)?;
    if target.blocks_count >= volume.superblock.blocks_count {
        return Ok(Vec::new());
    }
    check::whole(device, progress)?;
    check::removed_inodes(&volume, target.groups_count)?;
    let space = Space::read(&volume, &descriptors)?;
    match space.stages(&target)? {
        Some(stages) => Ok(stages),
        None => Err(too_full(options, size_bytes(&space.minimum()?))),
    }
}

fn too_full(options: &ShrinkOptions, minimum: u64) -> Error {
    let reason = format!(
        "cannot shrink the filesystem to {} bytes: its contents need more space",
        options.size_bytes
    );
    let hint = format!("the smallest size is {minimum} bytes; delete files for a smaller one");
    Error::new(ErrorKind::NoSpace, reason).with_hint(hint)
}

/// Shrinks the filesystem to `blocks`, which its contents fit into.
fn run_stage(
    device: &Arc<dyn BlockWrite>,
    blocks: u64,
    time: Timestamp,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let old = volume(device, Superblock::read(&**device)?);
    let before = descriptors(&old)?;
    let new = check::target(&old.superblock, &before, blocks)?;
    journal::relocate_journal(device, &old, &new)?;
    if !is_unused(device, &new)? {
        let bytes_per_inode = size_bytes(&old.superblock)
            .checked_div(u64::from(old.superblock.inodes_count))
            .unwrap_or(0);
        migrate::migrate(device, &new, time, &mut |inode| {
            progress(u64::from(inode).saturating_mul(bytes_per_inode))
        })?;
        if !is_unused(device, &new)? {
            return Err(check::unmovable());
        }
    }
    let old = volume(device, Superblock::read(&**device)?);
    let cut = Cut {
        device,
        volume: &old,
        descriptors: &descriptors(&old)?,
        new: &new,
        time,
    };
    cut.run()?;
    write_backups(device, &Superblock::read(&**device)?)
}

/// Returns true if no file uses blocks or inodes that are not in the new filesystem.
fn is_unused(device: &Arc<dyn BlockWrite>, new: &Superblock) -> Result<bool> {
    let volume = volume(device, Superblock::read(&**device)?);
    let descriptors = descriptors(&volume)?;
    let per_group = new.inodes_per_group;
    let first = crate::bytes::index(new.groups_count);
    if descriptors
        .iter()
        .skip(first)
        .any(|removed| removed.free_inodes != per_group)
    {
        return Ok(false);
    }
    let zone = zones::zone(&volume.superblock, &descriptors);
    let edits = Edits::new(&volume);
    Ok(!cut::is_in_use(&edits, new, &zone)?)
}

/// Returns the descriptors of all groups.
fn descriptors(volume: &Volume) -> Result<Vec<GroupDescriptor>> {
    (0..volume.superblock.groups_count)
        .map(|group| GroupDescriptor::read(volume, group))
        .collect()
}

/// Writes all backups.
fn write_backups(device: &Arc<dyn BlockWrite>, superblock: &Superblock) -> Result<()> {
    let writer = DeviceWriter::new(Arc::clone(device), superblock.block_size);
    let volume = volume(device, superblock.clone());
    write_old_backups(&writer, &volume, superblock, 0)
}
