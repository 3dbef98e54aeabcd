//! The GPT header. UEFI specification 2.10, section 5.3.2, table 5.5.

use std::fmt;

use diskfs_block::{BlockRead, Result, read_within};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Guid;
use crate::sector::{Lba, SectorSize};

/// The signature `EFI PART`.
const SIGNATURE: [u8; 8] = *b"EFI PART";

/// The length of the fields that the specification defines; a header may be longer, padded with
/// zeroes.
const MIN_HEADER_BYTES: usize = 92;

/// The number 92 as a header records it.
const HEADER_BYTES: u32 = 92;

/// The largest entry array in bytes. A usual one has 16 KiB (128 entries of 128 bytes), the largest
/// seen in use 1 MiB. Linux refuses arrays that `kmalloc` cannot allocate, above 4 MiB
/// (`block/partitions/efi.c`), so a larger one works nowhere.
const MAX_ARRAY_BYTES: u64 = 4 << 20;

/// The largest entry: 128 * 2^5. The specification sets no bound, but all tools write 128. An entry
/// larger than the largest sector would leave less than a page of any array for partitions.
const MAX_ENTRY_BYTES: u32 = 4096;

/// The smallest entry that the specification allows.
const MIN_ENTRY_BYTES: u32 = 128;

/// The on-disk structure of the header.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    signature: [u8; 8],
    revision: U32,
    header_size: U32,
    header_crc32: U32,
    reserved: U32,
    my_lba: U64,
    alternate_lba: U64,
    first_usable_lba: U64,
    last_usable_lba: U64,
    disk_guid: [u8; 16],
    partition_entry_lba: U64,
    number_of_partition_entries: U32,
    size_of_partition_entry: U32,
    partition_entry_array_crc32: U32,
}

const _: () = assert!(size_of::<RawHeader>() == MIN_HEADER_BYTES);

/// A header with a correct checksum and consistent fields. It is not yet checked against the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) revision: u32,
    pub(crate) my_lba: Lba,
    pub(crate) alternate_lba: Lba,
    pub(crate) first_usable_lba: Lba,
    pub(crate) last_usable_lba: Lba,
    pub(crate) disk_guid: Guid,
    pub(crate) partition_entry_lba: Lba,
    pub(crate) array: ArraySize,
    pub(crate) array_crc32: u32,
}

/// The size of an entry array, within the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArraySize {
    pub(crate) entries: u32,
    pub(crate) entry_bytes: usize,
    pub(crate) len_bytes: usize,
}

/// The reason why there is no usable header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The device ends before the header's LBA.
    PastEnd,
    /// The sector has no GPT signature.
    NoSignature,
    Size(u32),
    Checksum {
        expected: u32,
        actual: u32,
    },
    Misplaced {
        says: Lba,
    },
    UsableRange {
        first: Lba,
        last: Lba,
    },
    EntrySize(u32),
    ArraySize {
        entries: u32,
        entry_bytes: u32,
    },
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PastEnd => write!(f, "is past the end of the disk"),
            Self::NoSignature => write!(f, "has no signature `EFI PART`"),
            Self::Size(n) => write!(f, "gives its own size as {n} bytes"),
            Self::Checksum { expected, actual } => write!(
                f,
                "has a wrong checksum ({actual:#010x}, stored {expected:#010x})"
            ),
            Self::Misplaced { says } => write!(f, "says that it is at LBA {says}"),
            Self::UsableRange { first, last } => {
                write!(f, "gives LBA {first} to {last} as usable")
            }
            Self::EntrySize(n) => write!(f, "gives the entry size as {n} bytes"),
            Self::ArraySize {
                entries,
                entry_bytes,
            } => write!(
                f,
                "gives {entries} entries of {entry_bytes} bytes (expected 1 to {MAX_ARRAY_BYTES} \
                 bytes in all)"
            ),
        }
    }
}

impl Header {
    /// Reads the header at `lba`. The outer error is the device's.
    pub(crate) fn read(
        device: &dyn BlockRead,
        lba: Lba,
        sector_size: SectorSize,
    ) -> Result<std::result::Result<Self, HeaderError>> {
        let Some(offset) = sector_size.to_bytes(lba.0) else {
            return Ok(Err(HeaderError::PastEnd));
        };
        let len_bytes = usize::try_from(sector_size.bytes()).unwrap_or(MIN_HEADER_BYTES);
        Ok(match read_within(device, offset, len_bytes)? {
            Some(sector) => Self::from_sector(&sector, lba),
            None => Err(HeaderError::PastEnd),
        })
    }

    /// Parses the header in a whole sector that was read at `lba`.
    fn from_sector(sector: &[u8], lba: Lba) -> std::result::Result<Self, HeaderError> {
        let Ok((raw, _)) = RawHeader::ref_from_prefix(sector) else {
            return Err(HeaderError::PastEnd);
        };
        if raw.signature != SIGNATURE {
            return Err(HeaderError::NoSignature);
        }
        check_crc(sector, raw)?;
        let my_lba = Lba(raw.my_lba.get());
        if my_lba != lba {
            return Err(HeaderError::Misplaced { says: my_lba });
        }
        let (first, last) = (
            Lba(raw.first_usable_lba.get()),
            Lba(raw.last_usable_lba.get()),
        );
        // A last LBA one below the first means no space for partitions: unusual, but consistent.
        if first.0 > last.0.saturating_add(1) {
            return Err(HeaderError::UsableRange { first, last });
        }
        Ok(Self {
            revision: raw.revision.get(),
            my_lba,
            alternate_lba: Lba(raw.alternate_lba.get()),
            first_usable_lba: first,
            last_usable_lba: last,
            disk_guid: Guid::from_disk(raw.disk_guid),
            partition_entry_lba: Lba(raw.partition_entry_lba.get()),
            array: ArraySize::new(
                raw.number_of_partition_entries.get(),
                raw.size_of_partition_entry.get(),
            )?,
            array_crc32: raw.partition_entry_array_crc32.get(),
        })
    }
}

impl Header {
    /// Returns the header as a sector, with its checksum. A header that was longer than the
    /// specification's 92 bytes is written with 92.
    pub(crate) fn to_sector(&self, sector_size: SectorSize) -> Vec<u8> {
        let entry_bytes = u32::try_from(self.array.entry_bytes).unwrap_or(u32::MAX);
        let mut raw = RawHeader {
            signature: SIGNATURE,
            revision: U32::new(self.revision),
            header_size: U32::new(HEADER_BYTES),
            header_crc32: U32::ZERO,
            reserved: U32::ZERO,
            my_lba: U64::new(self.my_lba.0),
            alternate_lba: U64::new(self.alternate_lba.0),
            first_usable_lba: U64::new(self.first_usable_lba.0),
            last_usable_lba: U64::new(self.last_usable_lba.0),
            disk_guid: self.disk_guid.to_disk(),
            partition_entry_lba: U64::new(self.partition_entry_lba.0),
            number_of_partition_entries: U32::new(self.array.entries),
            size_of_partition_entry: U32::new(entry_bytes),
            partition_entry_array_crc32: U32::new(self.array_crc32),
        };
        raw.header_crc32 = U32::new(crc32fast::hash(raw.as_bytes()));
        let mut sector = raw.as_bytes().to_vec();
        let len = usize::try_from(sector_size.bytes()).unwrap_or(MIN_HEADER_BYTES);
        sector.resize(len, 0);
        sector
    }
}

impl ArraySize {
    /// The size that UEFI requires at least, and that all tools write: 128 entries of 128 bytes.
    pub(crate) const USUAL: Self = Self {
        entries: 128,
        entry_bytes: 128,
        len_bytes: 128 * 128,
    };

    /// Returns the number of sectors that the array occupies.
    pub(crate) fn len_sectors(&self, sector_size: SectorSize) -> u64 {
        let len_bytes = u64::try_from(self.len_bytes).unwrap_or(u64::MAX);
        len_bytes.div_ceil(sector_size.len_bytes())
    }

    fn new(entries: u32, entry_bytes: u32) -> std::result::Result<Self, HeaderError> {
        let range = MIN_ENTRY_BYTES..=MAX_ENTRY_BYTES;
        if !range.contains(&entry_bytes) || !entry_bytes.is_power_of_two() {
            return Err(HeaderError::EntrySize(entry_bytes));
        }
        let wrong = HeaderError::ArraySize {
            entries,
            entry_bytes,
        };
        // Without entries the copy cannot be the one that is in use: Linux takes the other one, too.
        let len_bytes = u64::from(entries).saturating_mul(u64::from(entry_bytes));
        if !(1..=MAX_ARRAY_BYTES).contains(&len_bytes) {
            return Err(wrong);
        }
        match (usize::try_from(entry_bytes), usize::try_from(len_bytes)) {
            (Ok(entry_bytes), Ok(len_bytes)) => Ok(Self {
                entries,
                entry_bytes,
                len_bytes,
            }),
            _ => Err(wrong),
        }
    }
}

/// Checks the checksum of `HeaderSize` bytes, with its own field as zero.
fn check_crc(sector: &[u8], raw: &RawHeader) -> std::result::Result<(), HeaderError> {
    const CRC_OFFSET: usize = 16;
    let size = raw.header_size.get();
    let covered = usize::try_from(size)
        .ok()
        .filter(|&n| n >= MIN_HEADER_BYTES)
        .and_then(|n| sector.get(..n))
        .ok_or(HeaderError::Size(size))?;
    let (before, rest) = covered.split_at(CRC_OFFSET);
    let after = rest.get(4..).unwrap_or_default();
    let mut crc = crc32fast::Hasher::new();
    crc.update(before);
    crc.update(&[0; 4]);
    crc.update(after);
    let (expected, actual) = (raw.header_crc32.get(), crc.finalize());
    if expected == actual {
        Ok(())
    } else {
        Err(HeaderError::Checksum { expected, actual })
    }
}
