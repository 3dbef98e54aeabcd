//! The requests of an editor's caller.

use crate::Guid;

use super::flag::Flag;
use super::partition_type::PartitionType;

/// A new, empty partition table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTable {
    /// A GPT of 128 entries after a protective MBR.
    Gpt {
        /// The GUID of the disk.
        guid: Guid,
    },
    /// An empty MBR.
    Mbr {
        /// The disk id (signature); 0 for none.
        signature: u32,
    },
}

/// The id of a disk, by the kind of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableId {
    /// The GUID of a disk with a GPT.
    Guid(Guid),
    /// The disk id (signature) of an MBR.
    Signature(u32),
}

/// The kinds of entries of an MBR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MbrRole {
    /// A partition in one of the four entries of the MBR.
    Primary,
    /// The primary partition that contains the logical ones.
    Extended,
    /// A partition in the extended partition.
    Logical,
}

/// A new partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPartition {
    /// The number; `None` for the lowest free one.
    pub number: Option<u32>,
    /// The offset on the disk in bytes, a multiple of the sector size; `None` for an aligned place
    /// in the first free space that is large enough.
    pub start_bytes: Option<u64>,
    /// The size in bytes, rounded up to whole sectors; `None` for all of the largest free space, or
    /// all free space after `start_bytes`.
    pub size_bytes: Option<u64>,
    /// The type of its contents.
    pub partition_type: PartitionType,
    /// The name in a GPT, at most 36 UTF-16 units. An MBR has no names.
    pub name: String,
    /// The unique GUID in a GPT; random by convention. An MBR has none.
    pub guid: Guid,
    /// The flags that are set.
    pub flags: Vec<Flag>,
    /// The kind of entry in an MBR; `None` to decide: extended by its type, logical if the start is
    /// in the extended partition or all four entries are in use, otherwise primary.
    pub role: Option<MbrRole>,
}

/// The new size of a partition or a logical volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewSize {
    /// All free space: after the partition, or in the volume group.
    Largest,
    /// A size in bytes, rounded up to whole sectors or extents.
    Bytes(u64),
    /// This number of bytes more, rounded up to whole sectors or extents.
    More(u64),
}

/// A free part of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// The offset on the disk in bytes.
    pub start_bytes: u64,
    /// The length in bytes.
    pub len_bytes: u64,
    /// True if it is in the extended partition, for logical partitions.
    pub logical: bool,
}
