//! Growing a filesystem that nobody has mounted, as `resize2fs` does.
//!
//! A filesystem grows in one or a few stages ([`geometry`]). Each stage ([`stage`]) writes the new
//! groups completely, in blocks after the end of the old filesystem, and flushes. Then all blocks
//! of the old filesystem that change are committed together ([`commit`]): the superblock, blocks of
//! the descriptor table, the bitmap of the last group, and the resize inode. The backups follow.

pub(crate) mod backups;
pub(crate) mod commit;
pub(crate) mod edits;
mod geometry;
mod new_groups;
mod old_groups;
mod placement;
pub(crate) mod redo;
pub(crate) mod resize_inode;
pub(crate) mod stage;

use std::ops::ControlFlow;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{Timestamp, check_cancelled};

use crate::device_writer::DeviceWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Incompatible, ReadOnlyCompatible};
use crate::options::WriteOptions;
use crate::superblock::{Superblock, check_writable};
use crate::volume::Volume;
use crate::writable::WritableExt4;

use commit::Commit;
use stage::Stage;

/// The budget of the caches. Most blocks are read once.
const CACHE_BYTES: u64 = 1 << 20;

/// The options for [`resize`].
#[derive(Debug, Clone)]
pub struct ResizeOptions {
    /// The size of the filesystem in bytes; `None` means the size of the device.
    pub size_bytes: Option<u64>,
    /// The contents of the device after the end of the filesystem.
    pub new_space: NewSpace,
    /// The time that the superblock records as its last change.
    pub time: Timestamp,
}

/// The contents of the device after the end of the filesystem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NewSpace {
    /// Any bytes. With `metadata_csum` or `uninit_bg`, the guest zeroes new inode tables after its
    /// next mount; without them, they are zeroed at once.
    #[default]
    Unknown,
    /// Zeroes, for example because the image file was made longer.
    Zeroes,
}

impl Default for ResizeOptions {
    /// Returns the device's size, unknown contents, and the present time.
    fn default() -> Self {
        Self {
            size_bytes: None,
            new_space: NewSpace::default(),
            time: Timestamp::now(),
        }
    }
}

/// The sizes of a filesystem before and after [`resize`]. They are equal if it cannot grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resized {
    /// The old size in bytes.
    pub old_bytes: u64,
    /// The new size in bytes. It can be less than the requested one: a last block group without
    /// room for data is left out.
    pub new_bytes: u64,
}

/// Grows the ext2, ext3 or ext4 filesystem on a device.
///
/// A journal is replayed first. `progress` gets the number of bytes of the filesystem that are
/// prepared; [`ControlFlow::Break`] stops before the filesystem changes. After a crash or an error,
/// the filesystem has its old size, the new one, or one between them, and the same call completes
/// the work. A filesystem without a journal may be marked as unclean until then.
///
/// # Errors
/// * `Invalid` for a size below the present one, or beyond the end of the device;
/// * `Unsupported` if the format cannot express the size, or the filesystem cannot be written;
/// * `Corrupt` if it is damaged, or not clean and without a journal;
/// * `NoSpace` if the journal is too small; `Cancelled`; `Io`.
pub fn resize(
    device: &Arc<dyn BlockWrite>,
    options: &ResizeOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Resized> {
    let superblock = Superblock::read(&**device)?;
    let old_bytes = size_bytes(&superblock);
    let target = target_blocks(&**device, &superblock, options)?;
    redo::resume(device, &superblock, target)?;
    recover(device)?;
    let mut grown = false;
    let mut progress = |bytes| check_cancelled(progress(bytes));
    while grow(device, target, options, &mut progress)? {
        grown = true;
    }
    let superblock = Superblock::read(&**device)?;
    if !grown && !backups::are_current(&**device, &superblock)? {
        let writer = DeviceWriter::new(Arc::clone(device), superblock.block_size);
        let volume = volume(device, superblock.clone());
        stage::write_old_backups(&writer, &volume, &superblock, 0)?;
    }
    Ok(Resized {
        old_bytes,
        new_bytes: size_bytes(&superblock),
    })
}

/// Runs one stage. Returns false if the filesystem is as large as it can be.
fn grow(
    device: &Arc<dyn BlockWrite>,
    target_blocks: u64,
    options: &ResizeOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<bool> {
    /// The number of table blocks with which any growth is possible.
    const ANY: u32 = 2;
    let superblock = Superblock::read(&**device)?;
    if geometry::next(&superblock, target_blocks, ANY)?.is_none() {
        return Ok(false);
    }
    let commit = Commit::open(device, &superblock)?;
    let room = commit.table_blocks_max(&superblock)?;
    let Some(new) = geometry::next(&superblock, target_blocks, room)? else {
        return Ok(false);
    };
    let stage = Stage {
        device,
        volume: &volume(device, superblock),
        new: &new,
        space: options.new_space,
        time: options.time,
    };
    stage.run(commit, progress)?;
    Ok(true)
}

fn target_blocks(
    device: &dyn BlockRead,
    superblock: &Superblock,
    options: &ResizeOptions,
) -> Result<u64> {
    let size_bytes = options.size_bytes.unwrap_or(device.size_bytes());
    if size_bytes > device.size_bytes() {
        let reason = format!(
            "cannot grow the filesystem to {size_bytes} bytes: its device has {} bytes",
            device.size_bytes()
        );
        let hint = "make the image, partition or volume larger first";
        return Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint));
    }
    let target = geometry::target_blocks(superblock, size_bytes)?;
    if options.size_bytes.is_some() && target < superblock.blocks_count {
        let reason = format!(
            "cannot shrink the filesystem to {size_bytes} bytes: it has {} bytes",
            self::size_bytes(superblock)
        );
        let hint = "shrinking is an operation of its own";
        return Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint));
    }
    Ok(target)
}

/// Replays the journal, and deletes or truncates orphans, if there are any.
pub(crate) fn recover(device: &Arc<dyn BlockWrite>) -> Result<()> {
    let superblock = Superblock::read(&**device)?;
    check_writable(&superblock)?;
    let features = superblock.features;
    let needed = features.has(Incompatible::NEEDS_RECOVERY)
        || features.has(ReadOnlyCompatible::ORPHAN_PRESENT)
        || superblock.state.orphans;
    if !needed {
        return Ok(());
    }
    let options = WriteOptions {
        commit_interval: None,
        ..WriteOptions::default()
    };
    WritableExt4::open(Arc::clone(device), &options)?.finish()
}

pub(crate) fn volume(device: &Arc<dyn BlockWrite>, superblock: Superblock) -> Volume {
    Volume::new(device.clone(), superblock, CACHE_BYTES)
}

pub(crate) fn size_bytes(superblock: &Superblock) -> u64 {
    superblock.block_size.bytes_of(superblock.blocks_count)
}

/// Returns true if the groups with backups are not the same.
fn backups_differ(old: &Superblock, new: &Superblock) -> bool {
    use crate::group_descriptor::has_superblock;
    old.features.has(Compatible::RESIZE_INODE)
        && (0..new.groups_count).any(|group| {
            let had = group < old.groups_count && has_superblock(old, group);
            had != has_superblock(new, group)
        })
}

/// The totals of what a stage adds to the filesystem, in clusters.
#[derive(Debug, Default)]
pub(crate) struct Added {
    /// The clusters that are free in addition.
    pub(crate) free: u64,
    /// The clusters of new metadata.
    pub(crate) overhead: u32,
    /// The clusters of backups that moved to another group.
    pub(crate) released: u32,
}
