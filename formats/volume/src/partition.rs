//! Partitions and their properties.

use std::fmt;
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ErrorKind, Result, Slice};

use crate::{Attributes, Guid};

/// A partition as its table describes it, in bytes of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Partition {
    /// The number as in the kernel: the entry's position in the table, from 1 on; logical
    /// partitions of an MBR from 5 on.
    pub number: u32,
    /// The offset on the disk in bytes. `u64::MAX` if the table's number does not fit in 64 bits.
    pub start_bytes: u64,
    /// The length in bytes. `u64::MAX` if the table's number does not fit in 64 bits.
    pub len_bytes: u64,
    /// The properties that only this kind of table has.
    pub kind: PartitionKind,
    /// The reason why the partition cannot be opened, if any.
    pub problem: Option<Problem>,
    /// The part of [`uuid`](Self::uuid) that an MBR entry gets from its disk.
    pub(crate) disk_signature: u32,
    /// The role among the other partitions of its table.
    pub(crate) role: Role,
}

/// The role of a partition among the others of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A normal partition, or a container by its type.
    Own,
    /// A container of others, because it has a label.
    Slice,
    /// An entry for something that is not a partition: the whole disk, the table, free space.
    Whole,
}

/// The properties of a partition that only one kind of table has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionKind {
    /// An entry of a GPT.
    Gpt {
        /// The type of the partition, a GUID.
        type_guid: Guid,
        /// The unique GUID of the partition.
        guid: Guid,
        /// The name; invalid UTF-16 is replaced by U+FFFD.
        name: String,
        /// The attributes of the partition.
        attributes: Attributes,
    },
    /// An entry of an MBR or of an extended boot record.
    Mbr {
        /// The type of the partition, a byte.
        type_byte: u8,
        /// True if a BIOS boots from it.
        active: bool,
        /// True if it is in the extended partition.
        logical: bool,
    },
    /// An entry of a disklabel of the BSDs.
    Bsd {
        /// The type of the partition, by its number in the label.
        fstype: u8,
    },
    /// An entry of a label of Sun.
    Sun {
        /// The type of the partition: the tag in the label.
        tag: u16,
    },
    /// An entry of a volume header of SGI.
    Sgi {
        /// The type of the partition, by its number in the header.
        type_number: u32,
    },
    /// An entry of Apple's partition map.
    Apple {
        /// The type in the map's own words: `Apple_HFS`.
        kind: String,
        /// The name; invalid UTF-8 is replaced by U+FFFD.
        name: String,
    },
}

/// The reason why a partition is listed but cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// A part of the partition is past the end of the disk.
    OutOfRange,
    /// The partition shares sectors with another one.
    Overlaps {
        /// The number of the other partition.
        other: u32,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange => f.write_str("extends past the end of the disk"),
            Self::Overlaps { other } => write!(f, "overlaps partition {other}"),
        }
    }
}

impl Partition {
    /// Opens the partition as a device.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfBounds`] if it does not lie within `device`; [`ErrorKind::Corrupt`] if it
    /// shares sectors with another partition, because their owner is then ambiguous.
    pub fn open<D: BlockRead + ?Sized>(&self, device: Arc<D>) -> Result<Slice<D>> {
        if let Some(problem @ Problem::Overlaps { .. }) = self.problem {
            let reason = format!("partition {} {problem}", self.number);
            let hint = format!("use --offset {} to read it anyway", self.start_bytes);
            return Err(Error::corrupt(reason).at(self.start_bytes).with_hint(hint));
        }
        self.open_despite_overlap(device)
    }

    /// Opens the partition like [`open`](Self::open), even if another partition shares sectors with
    /// it. Some bootable ISO images are made that way.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfBounds`] if it does not lie within `device`.
    pub fn open_despite_overlap<D: BlockRead + ?Sized>(&self, device: Arc<D>) -> Result<Slice<D>> {
        let size_bytes = device.size_bytes();
        Slice::new(device, self.start_bytes, self.len_bytes).map_err(|_| {
            let reason = format!(
                "partition {} ({} bytes) extends past the end of the disk ({size_bytes} bytes)",
                self.number, self.len_bytes
            );
            Error::new(ErrorKind::OutOfBounds, reason)
                .at(self.start_bytes)
                .with_hint("the image was truncated, or is not the whole disk")
        })
    }

    /// Returns the PARTUUID as `blkid` prints it: the GUID in lower case, or the MBR's disk id and
    /// the number (`1234abcd-05`). It is `None` for an MBR without a disk id, and for all other
    /// kinds of table.
    pub fn uuid(&self) -> Option<String> {
        match &self.kind {
            PartitionKind::Gpt { guid, .. } => Some(guid.to_string()),
            PartitionKind::Mbr { .. } if self.disk_signature == 0 => None,
            PartitionKind::Mbr { .. } => {
                Some(format!("{:08x}-{:02x}", self.disk_signature, self.number))
            }
            PartitionKind::Bsd { .. }
            | PartitionKind::Sun { .. }
            | PartitionKind::Sgi { .. }
            | PartitionKind::Apple { .. } => None,
        }
    }

    /// Returns the name in a GPT or Apple's map (PARTLABEL); `None` if there is none.
    pub fn name(&self) -> Option<&str> {
        match &self.kind {
            PartitionKind::Gpt { name, .. } | PartitionKind::Apple { name, .. }
                if !name.is_empty() =>
            {
                Some(name)
            }
            _ => None,
        }
    }

    /// Returns true if it is only a container of other partitions: an extended partition, a slice
    /// with a BSD disklabel, or the entry for the whole disk.
    pub fn is_extended(&self) -> bool {
        match self.kind {
            _ if self.role != Role::Own => true,
            PartitionKind::Mbr {
                type_byte, logical, ..
            } => !logical && is_extended(type_byte),
            _ => false,
        }
    }

    /// Returns the first byte after it.
    pub(crate) fn end_bytes(&self) -> u64 {
        self.start_bytes.saturating_add(self.len_bytes)
    }
}

/// Returns true if the type is that of a container of logical partitions: DOS, Windows 95 (LBA),
/// Linux.
pub(crate) const fn is_extended(type_byte: u8) -> bool {
    matches!(type_byte, 0x05 | 0x0f | 0x85)
}
