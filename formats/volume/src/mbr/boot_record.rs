//! The sector with four partition entries: the master boot record, and the extended boot records of
//! the same form. UEFI specification 2.10, section 5.2.1, tables 5.1 and 5.2.

use diskfs_block::{BlockRead, Result, read_within};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::chs;

/// The on-disk structure of the sector. In sectors of 4096 bytes the rest is unused.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBootRecord {
    boot_code: [u8; 440],
    unique_mbr_signature: U32,
    unknown: [u8; 2],
    partition_record: [RawEntry; 4],
    signature: [u8; 2],
}

/// The on-disk structure of an entry.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
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
pub(crate) const LEN_BYTES: usize = 512;

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

/// Puts the boot record's signature at the end of `sector`.
pub(crate) fn sign(sector: &mut [u8; LEN_BYTES]) {
    if let Ok((raw, _)) = RawBootRecord::mut_from_prefix(sector) {
        raw.signature = [0x55, 0xaa];
    }
}

/// Sets the disk id in `sector`.
pub(crate) fn set_signature(sector: &mut [u8; LEN_BYTES], disk_signature: u32) {
    if let Ok((raw, _)) = RawBootRecord::mut_from_prefix(sector) {
        raw.unique_mbr_signature = U32::new(disk_signature);
    }
}

/// Writes entry `index` of the record in `sector`, whose numbers count from `base`. An entry that
/// did not change keeps its CHS fields, too; otherwise these are computed. An unused entry is
/// zeroes.
pub(crate) fn set_entry(sector: &mut [u8; LEN_BYTES], index: usize, entry: &Entry, base: u32) {
    if BootRecord::from_sector(sector).is_some_and(|r| r.entries.get(index) == Some(entry)) {
        return;
    }
    let Ok((raw, _)) = RawBootRecord::mut_from_prefix(sector) else {
        return;
    };
    let Some(raw) = raw.partition_record.get_mut(index) else {
        return;
    };
    let used = entry.is_used();
    let start = u64::from(base).saturating_add(entry.start_sectors.into());
    let last = start.saturating_add(u64::from(entry.len_sectors).saturating_sub(1));
    *raw = RawEntry {
        boot_indicator: entry.boot_indicator,
        starting_chs: if used { chs::of(start) } else { [0; 3] },
        os_type: entry.type_byte,
        ending_chs: if used { chs::of(last) } else { [0; 3] },
        starting_lba: U32::new(entry.start_sectors),
        size_in_lba: U32::new(entry.len_sectors),
    };
    if entry.is_protective() {
        // UEFI specification 2.10, table 5.4: the protective entry's fixed values.
        raw.starting_chs = [0, 2, 0];
        raw.ending_chs = [0xff; 3];
    }
}

impl Entry {
    /// An entry that is not in use.
    pub(crate) const UNUSED: Self = Self {
        boot_indicator: 0,
        type_byte: 0,
        start_sectors: 0,
        len_sectors: 0,
    };

    /// Returns true if the entry describes a partition. The type does not matter: bootable ISO
    /// images have partitions of type 0, and the kernel accepts them, too.
    pub(crate) fn is_used(&self) -> bool {
        self.len_sectors != 0
    }

    /// Returns true if the entry protects a GPT from tools that do not know GPT. Its length does not
    /// matter: Linux and sfdisk read a GPT whose entry has none, too.
    pub(crate) fn is_protective(&self) -> bool {
        self.type_byte == 0xee
    }

    /// Returns true if the boot flag has one of its two valid values.
    pub(crate) fn has_valid_flag(&self) -> bool {
        matches!(self.boot_indicator, 0 | 0x80)
    }
}
