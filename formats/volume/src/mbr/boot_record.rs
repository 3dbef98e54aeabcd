//! The sector with four partition entries: the master boot record, and the extended boot records of
//! the same form. UEFI specification 2.10, section 5.2.1, tables 5.1 and 5.2.

use diskfs_block::{BlockRead, Result, read_within};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The on-disk structure of the sector. In sectors of 4096 bytes the rest is unused.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBootRecord {
    boot_code: [u8; 440],
    unique_mbr_signature: U32,
    unknown: [u8; 2],
    partition_record: [RawEntry; 4],
    signature: [u8; 2],
}

/// The on-disk structure of an entry.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    boot_indicator: u8,
    starting_chs: [u8; 3],
    os_type: u8,
    ending_chs: [u8; 3],
    starting_lba: U32,
    size_in_lba: U32,
}

/// The length of the record in bytes, for any sector size.
pub(super) const LEN_BYTES: usize = 512;

const _: () = assert!(size_of::<RawBootRecord>() == LEN_BYTES);

/// A sector that ends in 55 AA. That alone does not make its entries a partition table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BootRecord {
    /// The disk id; zero for none.
    pub(crate) disk_signature: u32,
    /// The entries in their order, including unused ones.
    pub(crate) entries: [Entry; 4],
}

/// An entry with its numbers as stored; the caller knows the LBA from which they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) boot_indicator: u8,
    pub(crate) type_byte: u8,
    pub(crate) start_sectors: u32,
    pub(crate) len_sectors: u32,
}

impl BootRecord {
    /// Reads the record at byte `offset`; returns `None` if there is none, or the device ends
    /// before it.
    pub(crate) fn read(device: &dyn BlockRead, offset: u64) -> Result<Option<Self>> {
        let sector = read_within(device, offset, LEN_BYTES)?;
        Ok(sector.as_deref().and_then(Self::from_sector))
    }

    /// Parses the record in the first bytes of a sector; returns `None` without the signature.
    pub(crate) fn from_sector(sector: &[u8]) -> Option<Self> {
        let (raw, _) = RawBootRecord::ref_from_prefix(sector).ok()?;
        if raw.signature != [0x55, 0xaa] {
            return None;
        }
        Some(Self {
            disk_signature: raw.unique_mbr_signature.get(),
            entries: raw.partition_record.each_ref().map(|entry| Entry {
                boot_indicator: entry.boot_indicator,
                type_byte: entry.os_type,
                start_sectors: entry.starting_lba.get(),
                len_sectors: entry.size_in_lba.get(),
            }),
        })
    }
}

impl Entry {
    /// Returns true if the entry describes a partition. The type does not matter: bootable ISO
    /// images have partitions of type 0, and the kernel accepts them, too.
    pub(crate) fn is_used(&self) -> bool {
        self.len_sectors != 0
    }

    /// Returns true if the entry protects a GPT from tools that do not know GPT.
    pub(crate) fn is_protective(&self) -> bool {
        self.is_used() && self.type_byte == 0xee
    }

    /// Returns true if the boot flag has one of its two valid values.
    pub(crate) fn has_valid_flag(&self) -> bool {
        matches!(self.boot_indicator, 0 | 0x80)
    }
}
