//! One partition.

use std::fmt;
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ErrorKind, Result, Slice};

use crate::{Attributes, Guid};

/// A partition as its table describes it, in bytes of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Partition {
    /// Its number as the kernel gives it: the entry's position in the table from 1 on; logical
    /// partitions of an MBR from 5 on.
    pub number: u32,
    /// Where it begins on the disk. `u64::MAX` when the table's number does not fit in 64 bits.
    pub start_bytes: u64,
    /// Its length. `u64::MAX` when the table's number does not fit in 64 bits.
    pub len_bytes: u64,
    /// What the kind of table has to say about it.
    pub kind: PartitionKind,
    /// Why it does not open, if so.
    pub problem: Option<Problem>,
    /// The part of [`uuid`](Self::uuid) that an MBR entry takes from its disk.
    pub(crate) disk_signature: u32,
    /// What it is beside the others of its table.
    pub(crate) role: Role,
}

/// What a partition is beside the others of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// One among others, or a container by its type.
    Own,
    /// A container of others, for it holds a label.
    Slice,
    /// It names what others are on: the disk, the table, what is free.
    Whole,
}

/// What is told of a partition by one kind of table only.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionKind {
    /// An entry of a GPT.
    Gpt {
        /// What it is for.
        type_guid: Guid,
        /// Its own identity.
        guid: Guid,
        /// Its name; what is no UTF-16 in it is replaced by U+FFFD.
        name: String,
        /// Flags.
        attributes: Attributes,
    },
    /// An entry of an MBR or of an extended boot record.
    Mbr {
        /// What it is for.
        type_byte: u8,
        /// Whether a BIOS boots from it.
        active: bool,
        /// Whether it lives within the extended partition.
        logical: bool,
    },
    /// An entry of a disklabel of the BSDs.
    Bsd {
        /// What it is for.
        fstype: u8,
    },
    /// An entry of a label of Sun's.
    Sun {
        /// What it is for.
        tag: u16,
    },
    /// An entry of a volume header of SGI's.
    Sgi {
        /// What it is for.
        type_number: u32,
    },
    /// An entry of Apple's partition map.
    Apple {
        /// What it is for, in the map's own words: `Apple_HFS`.
        kind: String,
        /// Its name; what is no UTF-8 in it is replaced by U+FFFD.
        name: String,
    },
}

/// Why a partition is listed but does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// Some of it lies past the end of the disk.
    OutOfRange,
    /// It shares sectors with another partition.
    Overlaps {
        /// The other one's number.
        other: u32,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange => f.write_str("reaches past the end of the disk"),
            Self::Overlaps { other } => write!(f, "overlaps partition {other}"),
        }
    }
}

impl Partition {
    /// The partition as a device.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfBounds`] when it does not lie within `device`; [`ErrorKind::Corrupt`]
    /// when it shares sectors with another partition, so that nobody can tell whose they are.
    pub fn open<D: BlockRead + ?Sized>(&self, device: Arc<D>) -> Result<Slice<D>> {
        if let Some(problem @ Problem::Overlaps { .. }) = self.problem {
            let reason = format!("partition {} {problem}", self.number);
            let hint = format!("give --offset {} to read it anyway", self.start_bytes);
            return Err(Error::corrupt(reason).at(self.start_bytes).with_hint(hint));
        }
        self.open_despite_overlap(device)
    }

    /// As [`open`](Self::open), also when another partition claims some of the same sectors. Some
    /// bootable ISO images are made that way.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfBounds`] when it does not lie within `device`.
    pub fn open_despite_overlap<D: BlockRead + ?Sized>(&self, device: Arc<D>) -> Result<Slice<D>> {
        let size_bytes = device.size_bytes();
        Slice::new(device, self.start_bytes, self.len_bytes).map_err(|_| {
            let reason = format!(
                "partition {} ({} bytes) reaches past the end of the disk ({size_bytes} bytes)",
                self.number, self.len_bytes
            );
            Error::new(ErrorKind::OutOfBounds, reason)
                .at(self.start_bytes)
                .with_hint("the image was cut, or is not the whole disk")
        })
    }

    /// The PARTUUID as `blkid` prints it: the GUID in lower case, or the MBR's disk id and the
    /// number (`1234abcd-05`). An MBR without a disk id gives none, and no other kind of table does.
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

    /// The name that a GPT or Apple's map gives it (PARTLABEL); `None` without one.
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

    /// Whether it holds other partitions and is nothing by itself: an extended partition, a slice with
    /// a BSD disklabel, the partition that stands for the whole disk.
    pub fn is_extended(&self) -> bool {
        match self.kind {
            _ if self.role != Role::Own => true,
            PartitionKind::Mbr {
                type_byte, logical, ..
            } => !logical && is_extended(type_byte),
            _ => false,
        }
    }

    /// The first byte after it.
    pub(crate) fn end_bytes(&self) -> u64 {
        self.start_bytes.saturating_add(self.len_bytes)
    }
}

/// Returns true if the type is that of a container of logical partitions: DOS, Windows 95 (LBA), Linux.
pub(crate) const fn is_extended(type_byte: u8) -> bool {
    matches!(type_byte, 0x05 | 0x0f | 0x85)
}
