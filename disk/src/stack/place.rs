//! The location of a volume: on the disk itself, or assembled from other volumes.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Slice};
use diskfs_volume::Partition;

use super::guest_disk::GuestDisk;
use super::luks::UnlockedVolume;
use super::lvm::LvmVolume;
use super::md::MdArray;

/// The location of a volume.
#[derive(Debug, Clone)]
pub(super) enum VolumePlace {
    /// A partition of a disk.
    Partition(GuestDisk, Partition),
    /// The range from a byte of the disk to its end.
    Rest(GuestDisk, u64),
    /// A logical volume.
    Logical(LvmVolume),
    /// An md array.
    Array(Arc<MdArray>),
    /// The decrypted inside of an encrypted volume.
    Unlocked(Arc<UnlockedVolume>),
}

impl VolumePlace {
    /// Returns the device. Its errors do not name the image yet.
    pub(super) fn read(&self) -> diskfs_block::Result<Arc<dyn BlockRead>> {
        match self {
            Self::Partition(disk, partition) => Ok(Arc::new(partition.open(disk.read())?)),
            Self::Rest(disk, 0) => Ok(disk.read()),
            Self::Rest(disk, start) => rest(disk.read(), *start).map(|slice| Arc::new(slice) as _),
            Self::Logical(logical) => logical.read(),
            Self::Array(array) => array.read(),
            Self::Unlocked(unlocked) => unlocked.read(),
        }
    }

    /// Returns the device for writing; `None` if the disk is open read-only.
    pub(super) fn write(&self) -> diskfs_block::Result<Option<Arc<dyn BlockWrite>>> {
        match self {
            Self::Logical(logical) => logical.write(),
            Self::Array(array) => array.write(),
            Self::Unlocked(unlocked) => unlocked.write(),
            Self::Partition(GuestDisk::Writable(disk), partition) => {
                Ok(Some(Arc::new(partition.open(Arc::clone(disk))?)))
            }
            Self::Rest(GuestDisk::Writable(disk), 0) => Ok(Some(Arc::clone(disk))),
            Self::Rest(GuestDisk::Writable(disk), start) => {
                Ok(Some(Arc::new(rest(Arc::clone(disk), *start)?)))
            }
            Self::Partition(GuestDisk::ReadOnly(_), _) | Self::Rest(GuestDisk::ReadOnly(_), _) => {
                Ok(None)
            }
        }
    }

    /// Returns the reason why it can't be opened, if that is known in advance.
    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Self::Partition(_, partition) => partition.problem.map(|problem| problem.to_string()),
            Self::Rest(..) | Self::Unlocked(_) => None,
            Self::Logical(logical) => logical.problem(),
            Self::Array(array) => array.problem(),
        }
    }
}

fn rest<D: BlockRead + ?Sized>(disk: Arc<D>, start_bytes: u64) -> diskfs_block::Result<Slice<D>> {
    let len_bytes = disk.size_bytes().saturating_sub(start_bytes);
    Slice::new(disk, start_bytes, len_bytes)
}
