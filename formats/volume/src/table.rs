//! A disk's partition table, of whichever kind.

use crate::Partition;

/// What a partition table says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionTable {
    /// Which kind it is.
    pub kind: TableKind,
    /// Bytes in a sector, which its numbers count.
    pub sector_size: u32,
    /// The disk's identity as `blkid` prints it (PTUUID): a GUID in lower case, or eight
    /// hexadecimal digits; empty where an MBR has none.
    pub disk_id: String,
    /// The partitions in the order of their numbers, which may have gaps. May be empty; then there
    /// may be a filesystem beside the table, on the whole disk.
    pub partitions: Vec<Partition>,
    /// What is wrong with it, as sentences for the user.
    pub warnings: Vec<String>,
}

/// The kinds of partition tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TableKind {
    /// A GUID partition table behind a protective MBR.
    Gpt,
    /// A master boot record.
    Mbr,
    /// A GUID partition table behind an MBR that repeats some of its partitions. The GPT counts.
    HybridMbr,
    /// A disklabel of the BSDs, on the whole disk. One in a slice of an MBR is a part of that.
    Bsd,
    /// A label of Sun's.
    Sun,
    /// A volume header of SGI's.
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
