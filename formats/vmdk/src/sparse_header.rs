//! The header of a sparse extent: `SparseExtentHeader`, the first 512 bytes, and its copy in the
//! footer of a stream.
//!
//! Specification: VMware, "Virtual Disk Format 5.0", "Hosted Sparse Extents" and "Stream-Optimized
//! Compressed Sparse Extents".

use std::ops::Range;

use diskfs_block::{BlockRead, Error, Result, read_within};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The size of the header.
pub(crate) const HEADER_BYTES: usize = 512;

/// The magic number, `KDMV`.
pub(crate) const MAGIC: u32 = 0x564d_444b;

/// The place of the grain directory that says that the footer has it.
pub(crate) const GD_AT_END: u64 = u64::MAX;

/// The newest version. Version 2 added zeroed grains; version 3 the tracking of changed blocks,
/// which a reader ignores.
const MAX_VERSION: u32 = 3;

/// The largest grain: 1 GiB, QEMU's limit.
const MAX_GRAIN_SECTORS: u64 = 1 << 21;

/// The most entries of a grain table: the only number that VMware and QEMU use.
const MAX_TABLE_ENTRIES: u32 = 512;

/// The characters that show whether a transfer changed the ends of lines.
pub(crate) const LINE_ENDS: [u8; 4] = *b"\n \r\n";

/// The bits of `flags`.
pub(crate) mod flags {
    /// The characters for the detection of line ends are valid.
    pub(crate) const NEW_LINE_TEST: u32 = 1;
    /// The extent has a redundant grain directory.
    pub(crate) const REDUNDANT: u32 = 1 << 1;
    /// A grain table entry of 1 means a grain of zeroes.
    pub(crate) const ZEROED_GRAINS: u32 = 1 << 2;
    /// Grains are compressed.
    pub(crate) const COMPRESSED: u32 = 1 << 16;
    /// Each grain begins with a marker.
    pub(crate) const MARKERS: u32 = 1 << 17;
    /// The bits that a reader must know.
    pub(super) const INCOMPATIBLE: u32 = 0xffff_0000;
}

#[derive(Debug, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawSparseExtentHeader {
    pub(crate) magic_number: U32,
    pub(crate) version: U32,
    pub(crate) flags: U32,
    pub(crate) capacity: U64,
    pub(crate) grain_size: U64,
    pub(crate) descriptor_offset: U64,
    pub(crate) descriptor_size: U64,
    pub(crate) num_gtes_per_gt: U32,
    pub(crate) rgd_offset: U64,
    pub(crate) gd_offset: U64,
    pub(crate) over_head: U64,
    pub(crate) unclean_shutdown: u8,
    pub(crate) line_ends: [u8; 4],
    pub(crate) compress_algorithm: U16,
    pub(crate) pad: [u8; 433],
}

const _: () = assert!(size_of::<RawSparseExtentHeader>() == HEADER_BYTES);

/// The checked header.
#[derive(Debug, Clone)]
pub(crate) struct SparseHeader {
    /// The size of the extent in sectors.
    pub(crate) capacity_sectors: u64,
    /// The size of a grain in sectors: 1 to [`MAX_GRAIN_SECTORS`].
    pub(crate) grain_sectors: u64,
    /// The entries of a grain table: 1 to [`MAX_TABLE_ENTRIES`].
    pub(crate) table_entries: u64,
    /// The sectors with the descriptor.
    pub(crate) descriptor_sectors: Option<Range<u64>>,
    /// The first sector of the grain directory; `None` if the footer has it.
    pub(crate) directory_sector: Option<u64>,
    /// The first sector of the redundant grain directory.
    pub(crate) redundant_sector: Option<u64>,
    /// The sectors before the first grain.
    pub(crate) overhead_sectors: u64,
    /// True if a table entry of 1 means zeroes.
    pub(crate) has_zeroed_grains: bool,
    /// The compression of grains.
    pub(crate) compression: Option<Compression>,
}

/// The compression of the grains of an extent: zlib (RFC 1950).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Each grain begins with a marker, which has its length.
    WithMarkers,
    /// A grain's data end where zlib's stream ends.
    WithoutMarkers,
}

impl SparseHeader {
    /// Reads the header at the start of a file.
    ///
    /// # Errors
    /// `Unsupported` for unknown versions, flags and compression; `Corrupt` for invalid fields.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        let bytes = read_within(file, 0, HEADER_BYTES)?;
        let bytes = bytes.ok_or_else(|| invalid("the file is too small", 0))?;
        Self::parse(&bytes, 0)
    }

    /// Parses a header at byte `at` of its file.
    pub(crate) fn parse(bytes: &[u8], at: u64) -> Result<Self> {
        let raw = RawSparseExtentHeader::read_from_bytes(bytes)
            .map_err(|_| invalid("it has not 512 bytes", at))?;
        if raw.magic_number.get() != MAGIC {
            return Err(invalid("wrong magic number", at));
        }
        check_features(&raw, at)?;
        check_line_ends(&raw, at)?;
        let flags = raw.flags.get();
        Ok(Self {
            capacity_sectors: raw.capacity.get(),
            grain_sectors: grain_sectors(raw.grain_size.get(), at)?,
            table_entries: table_entries(raw.num_gtes_per_gt.get(), at)?,
            descriptor_sectors: descriptor_sectors(&raw),
            directory_sector: Some(raw.gd_offset.get()).filter(|it| *it != GD_AT_END),
            redundant_sector: Some(raw.rgd_offset.get())
                .filter(|it| flags & flags::REDUNDANT != 0 && *it != 0 && *it != GD_AT_END),
            overhead_sectors: raw.over_head.get(),
            has_zeroed_grains: flags & flags::ZEROED_GRAINS != 0,
            compression: compression(&raw, at)?,
        })
    }
}

fn check_features(raw: &RawSparseExtentHeader, at: u64) -> Result<()> {
    let version = raw.version.get();
    if !(1..=MAX_VERSION).contains(&version) {
        let reason = format!("unsupported version {version} of a sparse VMDK extent");
        return Err(Error::unsupported(reason).at(at));
    }
    let known = flags::COMPRESSED | flags::MARKERS;
    let unknown = raw.flags.get() & flags::INCOMPATIBLE & !known;
    if unknown != 0 {
        let reason = format!("unsupported flags {unknown:#x} of a sparse VMDK extent");
        return Err(Error::unsupported(reason).at(at));
    }
    Ok(())
}

fn check_line_ends(raw: &RawSparseExtentHeader, at: u64) -> Result<()> {
    if raw.flags.get() & flags::NEW_LINE_TEST != 0 && raw.line_ends != LINE_ENDS {
        return Err(invalid(
            "a transfer in text mode changed the ends of lines",
            at,
        ));
    }
    Ok(())
}

fn grain_sectors(sectors: u64, at: u64) -> Result<u64> {
    if (1..=MAX_GRAIN_SECTORS).contains(&sectors) {
        return Ok(sectors);
    }
    Err(invalid(&format!("grains of {sectors} sectors"), at))
}

fn table_entries(entries: u32, at: u64) -> Result<u64> {
    match entries {
        0 => Err(invalid("grain tables without entries", at)),
        1..=MAX_TABLE_ENTRIES => Ok(u64::from(entries)),
        _ => {
            let reason = format!("unsupported grain tables of {entries} entries");
            Err(Error::unsupported(reason).at(at))
        }
    }
}

fn descriptor_sectors(raw: &RawSparseExtentHeader) -> Option<Range<u64>> {
    let start = raw.descriptor_offset.get();
    let end = start.checked_add(raw.descriptor_size.get())?;
    (start != 0 && end != start).then_some(start..end)
}

fn compression(raw: &RawSparseExtentHeader, at: u64) -> Result<Option<Compression>> {
    let has_markers = raw.flags.get() & flags::MARKERS != 0;
    match raw.compress_algorithm.get() {
        0 => Ok(None),
        1 if has_markers => Ok(Some(Compression::WithMarkers)),
        1 => Ok(Some(Compression::WithoutMarkers)),
        other => {
            let reason = format!("unsupported compression {other} of a sparse VMDK extent");
            Err(Error::unsupported(reason).at(at))
        }
    }
}

fn invalid(what: &str, at: u64) -> Error {
    Error::corrupt(format!("invalid header of a sparse VMDK extent: {what}")).at(at)
}
