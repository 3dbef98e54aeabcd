//! A disk's partition table of any kind.

use crate::Partition;

/// The contents of a partition table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionTable {
    /// The kind of the table.
    pub kind: TableKind,
    /// The sector size in bytes, the unit of the table's numbers.
    pub sector_size: u32,
    /// The disk's id as `blkid` prints it (PTUUID): a GUID in lower case, or eight hexadecimal
    /// digits; empty for an MBR without one.
    pub disk_id: String,
    /// The partitions in the order of their numbers, which may have gaps. It may be empty; then
    /// there may be a filesystem on the whole disk besides the table.
    pub partitions: Vec<Partition>,
    /// The problems of the table, as sentences for the user.
    pub warnings: Vec<String>,
}

/// The kinds of partition tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TableKind {
    /// A GUID partition table after a protective MBR.
    Gpt,
    /// A master boot record.
    Mbr,
    /// A GUID partition table after an MBR that repeats some of its partitions. The GPT is used.
    HybridMbr,
    /// A disklabel of the BSDs on the whole disk. A label in a slice of an MBR is part of the MBR's
    /// table.
    Bsd,
    /// A label of Sun.
    Sun,
    /// A volume header of SGI.
    Sgi,
    /// Apple's partition map.
    Apple,
}

impl std::fmt::Display for TableKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gpt => "gpt",
            Self::Mbr => "mbr",
            Self::HybridMbr => "hybrid mbr",
            Self::Bsd => "bsd",
            Self::Sun => "sun",
            Self::Sgi => "sgi",
            Self::Apple => "mac",
        })
    }
}
