//! The header of a sparse extent of ESXi before 6.5: `COWDisk_Header`, `COWD`.
//!
//! Specification: VMware, "Virtual Disk Format 5.0", "ESX Server Sparse Extents". Only the fields
//! that a reader needs are parsed; the rest of the 2048 bytes has names and geometry.

use diskfs_block::{BlockRead, Error, Result, read_within};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The entries of each grain table.
pub(crate) const TABLE_ENTRIES: u64 = 4096;

/// The largest grain: 1 GiB, QEMU's limit.
const MAX_GRAIN_SECTORS: u32 = 1 << 21;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawCowDiskHeader {
    magic_number: U32,
    version: U32,
    flags: U32,
    num_sectors: U32,
    grain_size: U32,
    gd_offset: U32,
    num_gd_entries: U32,
    free_sector: U32,
}

/// The checked header.
#[derive(Debug, Clone)]
pub(crate) struct CowdHeader {
    /// The size of the extent in sectors.
    pub(crate) capacity_sectors: u64,
    /// The size of a grain in sectors.
    pub(crate) grain_sectors: u64,
    /// The first sector of the grain directory.
    pub(crate) directory_sector: u64,
    /// The number of entries of the grain directory.
    pub(crate) directory_entries: u64,
}

impl CowdHeader {
    /// Reads the header at the start of a file.
    ///
    /// # Errors
    /// `Unsupported` for another version; `Corrupt` for invalid fields.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        let bytes = read_within(file, 0, size_of::<RawCowDiskHeader>())?;
        let raw = bytes.and_then(|it| RawCowDiskHeader::read_from_bytes(&it).ok());
        let raw = raw.ok_or_else(|| invalid("the file is too small"))?;
        if raw.version.get() != 1 {
            let reason = format!("unsupported version {} of a COWD extent", raw.version);
            return Err(Error::unsupported(reason).at(0));
        }
        if !(1..=MAX_GRAIN_SECTORS).contains(&raw.grain_size.get()) {
            return Err(invalid(&format!("grains of {} sectors", raw.grain_size)));
        }
        Ok(Self {
            capacity_sectors: raw.num_sectors.get().into(),
            grain_sectors: raw.grain_size.get().into(),
            directory_sector: raw.gd_offset.get().into(),
            directory_entries: raw.num_gd_entries.get().into(),
        })
    }
}

fn invalid(what: &str) -> Error {
    Error::corrupt(format!("invalid header of a COWD extent: {what}")).at(0)
}
