//! The two headers of a sparse extent of ESXi since 6.5, seSparse: a constant and a volatile one.
//!
//! The format has no specification. The facts are those of QEMU's `block/vmdk.c`, which is as
//! strict: whatever differs from the images that were seen is refused.

use diskfs_block::{BlockRead, Error, Result, read_within};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::sectors::to_bytes;

/// The entries of each grain table: 64 sectors of 8 bytes each.
pub(crate) const TABLE_ENTRIES: u64 = 4096;

const HEADER_BYTES: usize = 512;
const CONST_MAGIC: u64 = 0xcafe_babe;
const VOLATILE_MAGIC: u64 = 0xcafe_cafe;
const VERSION: u64 = 0x0000_0002_0000_0001;
const GRAIN_SECTORS: u64 = 8;
const TABLE_SECTORS: u64 = 64;

/// The entries of the grain directory in a sector.
const DIRECTORY_ENTRIES_PER_SECTOR: u64 = 64;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawConstHeader {
    magic: U64,
    version: U64,
    capacity: U64,
    grain_size: U64,
    grain_table_size: U64,
    flags: U64,
    reserved: [U64; 4],
    volatile_header_offset: U64,
    volatile_header_size: U64,
    journal_header_offset: U64,
    journal_header_size: U64,
    journal_offset: U64,
    journal_size: U64,
    grain_dir_offset: U64,
    grain_dir_size: U64,
    grain_tables_offset: U64,
    grain_tables_size: U64,
    free_bitmap_offset: U64,
    free_bitmap_size: U64,
    backmap_offset: U64,
    backmap_size: U64,
    grains_offset: U64,
    grains_size: U64,
    pad: [u8; 304],
}

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawVolatileHeader {
    magic: U64,
    free_gt_number: U64,
    next_txn_seq_number: U64,
    replay_journal: U64,
    pad: [u8; 480],
}

const _: () = assert!(size_of::<RawConstHeader>() == HEADER_BYTES);
const _: () = assert!(size_of::<RawVolatileHeader>() == HEADER_BYTES);

/// The checked headers. All sizes and places are in sectors.
#[derive(Debug, Clone)]
pub(crate) struct SeSparseHeader {
    pub(crate) capacity_sectors: u64,
    pub(crate) grain_sectors: u64,
    pub(crate) directory_sector: u64,
    pub(crate) directory_entries: u64,
    pub(crate) tables_sector: u64,
    pub(crate) grains_sector: u64,
}

impl SeSparseHeader {
    /// Reads both headers.
    ///
    /// # Errors
    /// `Unsupported` for everything that differs from the known images, and for an image whose
    /// journal must be replayed; `Corrupt` for wrong magic numbers and places.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        let bytes = read_within(file, 0, HEADER_BYTES)?;
        let raw = bytes.and_then(|it| RawConstHeader::read_from_bytes(&it).ok());
        let raw = raw.ok_or_else(|| invalid("the file is too small", 0))?;
        check_const(&raw)?;
        let volatile = raw.volatile_header_offset.get();
        check_volatile(file, to_bytes(volatile, "volatile header offset", 0)?)?;
        Ok(Self {
            capacity_sectors: raw.capacity.get(),
            grain_sectors: GRAIN_SECTORS,
            directory_sector: raw.grain_dir_offset.get(),
            directory_entries: raw
                .grain_dir_size
                .get()
                .saturating_mul(DIRECTORY_ENTRIES_PER_SECTOR),
            tables_sector: raw.grain_tables_offset.get(),
            grains_sector: raw.grains_offset.get(),
        })
    }
}

fn check_const(raw: &RawConstHeader) -> Result<()> {
    if raw.magic.get() != CONST_MAGIC {
        return Err(invalid("wrong magic number", 0));
    }
    let known = [
        ("version", raw.version, VERSION),
        ("grain size", raw.grain_size, GRAIN_SECTORS),
        ("grain table size", raw.grain_table_size, TABLE_SECTORS),
        ("flags", raw.flags, 0),
    ];
    for (name, value, expected) in known {
        if value.get() != expected {
            return Err(unsupported(&format!("{name} {value:#x}"), 0));
        }
    }
    let is_reserved_used = raw.reserved.iter().any(|it| it.get() != 0);
    if is_reserved_used || raw.pad.iter().any(|it| *it != 0) {
        return Err(unsupported("reserved fields in use", 0));
    }
    Ok(())
}

fn check_volatile(file: &dyn BlockRead, at: u64) -> Result<()> {
    let bytes = read_within(file, at, HEADER_BYTES)?;
    let raw = bytes.and_then(|it| RawVolatileHeader::read_from_bytes(&it).ok());
    let raw = raw.ok_or_else(|| invalid("the volatile header is past the end of the file", at))?;
    if raw.magic.get() != VOLATILE_MAGIC {
        return Err(invalid("wrong magic number of the volatile header", at));
    }
    if raw.replay_journal.get() != 0 {
        return Err(unsupported("journal to replay", at)
            .with_hint("start and shut down the virtual machine on its ESXi host"));
    }
    if raw.pad.iter().any(|it| *it != 0) {
        return Err(unsupported("reserved fields in use", at));
    }
    Ok(())
}

fn unsupported(what: &str, at: u64) -> Error {
    Error::unsupported(format!("unsupported seSparse extent: {what}")).at(at)
}

fn invalid(what: &str, at: u64) -> Error {
    Error::corrupt(format!("invalid header of a seSparse extent: {what}")).at(at)
}
