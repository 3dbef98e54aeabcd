//! Where a volume is: on the disk itself, or put together of other volumes.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Slice};
use diskfs_volume::Partition;

use super::guest_disk::GuestDisk;
use super::luks::Plain;
use super::lvm::Logical;
use super::md::MdArray;

/// Where a volume is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// A partition.
    Partition(GuestDisk, Partition),
    /// From a byte of the disk to its end.
    Rest(GuestDisk, u64),
    /// A logical volume.
    Logical(Logical),
    /// An array of md.
    Array(Arc<MdArray>),
    /// Inside of an encrypted volume.
    Plain(Arc<Plain>),
}

impl Place {
    /// The device; errors do not name the image yet.
    pub(super) fn read(&self) -> diskfs_block::Result<Arc<dyn BlockRead>> {
        match self {
            Self::Partition(disk, partition) => Ok(Arc::new(partition.open(disk.read())?)),
            Self::Rest(disk, 0) => Ok(disk.read()),
            Self::Rest(disk, start) => rest(disk.read(), *start).map(|slice| Arc::new(slice) as _),
            Self::Logical(logical) => logical.read(),
            Self::Array(array) => array.read(),
            Self::Plain(plain) => plain.read(),
        }
    }

    /// The device to write; `None` when the disk is open for reading only.
    pub(super) fn write(&self) -> diskfs_block::Result<Option<Arc<dyn BlockWrite>>> {
        match self {
            Self::Logical(logical) => logical.write(),
            Self::Array(array) => array.write(),
            Self::Plain(plain) => plain.write(),
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

    /// Why it does not open, if that is known before.
    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Self::Partition(_, partition) => partition.problem.map(|problem| problem.to_string()),
            Self::Rest(..) | Self::Plain(_) => None,
            Self::Logical(logical) => logical.problem(),
            Self::Array(array) => array.problem(),
        }
    }
}

fn rest<D: BlockRead + ?Sized>(disk: Arc<D>, start_bytes: u64) -> diskfs_block::Result<Slice<D>> {
    let len_bytes = disk.size_bytes().saturating_sub(start_bytes);
    Slice::new(disk, start_bytes, len_bytes)
}
