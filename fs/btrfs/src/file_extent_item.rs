//! The extents of a file (`struct btrfs_file_extent_item`).

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::compression::{Compression, MAX_EXTENT_BYTES};
use crate::cursor::Item;
use crate::error::{Result, unsupported};
use crate::logical::Logical;

#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawFileExtentItem {
    generation: U64,
    ram_bytes: U64,
    compression: u8,
    encryption: u8,
    other_encoding: U16,
    r#type: u8,
}

/// The fields of an extent that is not inline.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPlace {
    disk_bytenr: U64,
    disk_num_bytes: U64,
    offset: U64,
    num_bytes: U64,
}

/// The offset of the data of an inline extent.
const INLINE_AT: usize = size_of::<RawFileExtentItem>();

const _: () = assert!(INLINE_AT == 21 && size_of::<RawPlace>() == 32);

const TYPE_INLINE: u8 = 0;
const TYPE_REGULAR: u8 = 1;
const TYPE_PREALLOCATED: u8 = 2;

/// An extent of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileExtentItem {
    /// The start of the extent in the file.
    pub(crate) start: u64,
    pub(crate) len_bytes: u64,
    pub(crate) kind: ExtentKind,
}

/// The place of the bytes of an extent.
#[derive(Debug, Clone)]
pub(crate) enum ExtentKind {
    /// Zeroes: a hole, or a preallocated extent.
    Hole,
    /// Bytes in the item itself.
    Inline {
        item: Item,
        compression: Compression,
        /// The length after decompression.
        ram_bytes: u64,
    },
    Plain {
        logical: Logical,
    },
    /// A part of a compressed extent.
    Compressed {
        extent: CompressedExtent,
        /// The offset of the part in the decompressed bytes.
        offset: u64,
    },
}

/// A compressed extent on the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CompressedExtent {
    pub(crate) logical: Logical,
    pub(crate) disk_bytes: u64,
    pub(crate) ram_bytes: u64,
    pub(crate) compression: Compression,
}

impl FileExtentItem {
    /// Parses the item of an extent.
    pub(crate) fn parse(item: &Item, sector_bytes: u64) -> Result<Self> {
        let (raw, rest) = RawFileExtentItem::ref_from_prefix(item.bytes())
            .map_err(|_| item.invalid("it is too short"))?;
        if raw.encryption != 0 || raw.other_encoding.get() != 0 {
            return Err(unsupported("encrypted extents of btrfs are not supported"));
        }
        let compression = Compression::from_number(raw.compression)?;
        let extent = match raw.r#type {
            TYPE_INLINE => inline(item, raw, compression, sector_bytes)?,
            TYPE_REGULAR | TYPE_PREALLOCATED => {
                let place = RawPlace::ref_from_prefix(rest);
                let (place, _) = place.map_err(|_| item.invalid("it is too short"))?;
                on_devices(item, raw, place, compression)?
            }
            other => return Err(item.invalid(&format!("extent of type {other}"))),
        };
        extent.check(item, sector_bytes)?;
        Ok(extent)
    }

    /// Returns the end of the extent in the file.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.len_bytes)
    }

    fn check(&self, item: &Item, sector_bytes: u64) -> Result<()> {
        let is_aligned = |bytes: u64| bytes.checked_rem(sector_bytes) == Some(0);
        let ends = self.start.checked_add(self.len_bytes).is_some();
        if self.len_bytes == 0 || !ends || !is_aligned(self.start) || !is_aligned(self.len_bytes) {
            return Err(item.invalid(&format!("extent of {} bytes", self.len_bytes)));
        }
        Ok(())
    }
}

fn inline(
    item: &Item,
    raw: &RawFileExtentItem,
    compression: Compression,
    sector_bytes: u64,
) -> Result<FileExtentItem> {
    let ram_bytes = raw.ram_bytes.get();
    if item.key.offset != 0 || ram_bytes > MAX_EXTENT_BYTES {
        return Err(item.invalid(&format!("inline extent of {ram_bytes} bytes")));
    }
    let sectors = ram_bytes.div_ceil(sector_bytes.max(1)).max(1);
    Ok(FileExtentItem {
        start: 0,
        len_bytes: sectors.saturating_mul(sector_bytes),
        kind: ExtentKind::Inline {
            item: item.clone(),
            compression,
            ram_bytes,
        },
    })
}

/// Returns the data of an inline extent as it is stored.
pub(crate) fn inline_data(item: &Item) -> &[u8] {
    item.bytes().get(INLINE_AT..).unwrap_or_default()
}

fn on_devices(
    item: &Item,
    raw: &RawFileExtentItem,
    place: &RawPlace,
    compression: Compression,
) -> Result<FileExtentItem> {
    let (disk_bytes, offset) = (place.disk_num_bytes.get(), place.offset.get());
    let (ram_bytes, len_bytes) = (raw.ram_bytes.get(), place.num_bytes.get());
    let logical = Logical(place.disk_bytenr.get());
    let end = offset.checked_add(len_bytes);
    let ends_within = |limit: u64| end.is_some_and(|end| end <= limit);
    let kind = if logical == Logical(0) || raw.r#type == TYPE_PREALLOCATED {
        ExtentKind::Hole
    } else if compression == Compression::None {
        if !ends_within(disk_bytes) {
            return Err(item.invalid("it goes past the end of its extent"));
        }
        ExtentKind::Plain {
            logical: logical.plus(offset),
        }
    } else {
        if disk_bytes > MAX_EXTENT_BYTES || ram_bytes > MAX_EXTENT_BYTES || !ends_within(ram_bytes)
        {
            let reason = format!("compressed extent of {disk_bytes} and {ram_bytes} bytes");
            return Err(item.invalid(&reason));
        }
        let extent = CompressedExtent {
            logical,
            disk_bytes,
            ram_bytes,
            compression,
        };
        ExtentKind::Compressed { extent, offset }
    };
    Ok(FileExtentItem {
        start: item.key.offset,
        len_bytes,
        kind,
    })
}
