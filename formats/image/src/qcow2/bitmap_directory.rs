//! The bitmap directory: specification, sections "Bitmaps extension" and "Bitmap directory".

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::description::{Bitmap, BitmapState};
use crate::numbers::{has_bit, power_of_two, to_u64};
use crate::qcow2::header::Header;
use crate::qcow2::table_reader::TableReader;
use crate::qcow2::units::HostOffset;

/// The largest number of bitmaps: QEMU's limit (specification, "Bitmaps extension").
pub(crate) const BITMAPS_MAX: u32 = 65535;
/// The largest directory in bytes: QEMU's limit, 1 KiB for each bitmap.
pub(crate) const DIRECTORY_MAX_BYTES: u64 = 65535 << 10;
/// The longest name in bytes: QEMU's limit (specification, "Bitmap directory").
pub(crate) const NAME_MAX_BYTES: u16 = 1023;
/// The granularities that QEMU supports, 512 bytes to 2 GiB, as powers of two.
pub(crate) const GRANULARITY_BITS: std::ops::RangeInclusive<u32> = 9..=31;
/// The flag of a bitmap that was not saved properly.
pub(crate) const IN_USE: u32 = 1;
/// The flag of a bitmap in which writes are recorded.
pub(crate) const AUTO: u32 = 1 << 1;
/// The type of a dirty bitmap.
const KIND_DIRTY: u8 = 1;

#[derive(Debug, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBitmap {
    bitmap_table_offset: U64,
    bitmap_table_size: U32,
    flags: U32,
    kind: u8,
    granularity_bits: u8,
    name_size: U16,
    extra_data_size: U32,
}

/// A bitmap and the location of its table.
#[derive(Debug, Clone)]
pub(crate) struct BitmapEntry {
    pub(crate) bitmap: Bitmap,
    pub(crate) table_at: HostOffset,
    pub(crate) table_entries: u32,
    /// The offset of the entry in the file.
    pub(crate) at: HostOffset,
    /// The length of the entry with its padding, in bytes.
    pub(crate) len_bytes: u64,
    /// The flags as stored.
    pub(crate) flags: u32,
    /// True if the bitmap is of a known type and has no extra data that prevents us from changing
    /// it.
    pub(crate) is_understood: bool,
}

impl BitmapEntry {
    /// Returns an entry that is not stored yet.
    pub(crate) const fn new(bitmap: Bitmap, table_at: HostOffset, table_entries: u32) -> Self {
        Self {
            flags: if bitmap.recording { AUTO } else { 0 },
            bitmap,
            table_at,
            table_entries,
            at: HostOffset(0),
            len_bytes: 0,
            is_understood: true,
        }
    }

    /// Returns the offset of the entry's flags in the file.
    pub(crate) const fn flags_at(&self) -> HostOffset {
        self.at.plus(12)
    }
}

/// Lists the bitmaps of an image. A broken directory does not prevent reading the disk: it becomes
/// a warning.
pub(crate) fn list(
    file: &dyn BlockRead,
    header: &Header,
    warnings: &mut Vec<String>,
) -> Vec<Bitmap> {
    if header.extensions.bitmaps.is_some() && !header.autoclear.bitmaps() {
        warnings.push(
            "was written by a program without support for bitmaps; its bitmaps are void".to_owned(),
        );
        return Vec::new();
    }
    match read(file, header) {
        Ok(entries) => entries.into_iter().map(|entry| entry.bitmap).collect(),
        Err(e) => {
            warnings.push(format!("cannot list bitmaps: {e}"));
            Vec::new()
        }
    }
}

/// Reads the directory.
pub(crate) fn read(file: &dyn BlockRead, header: &Header) -> Result<Vec<BitmapEntry>> {
    let Some(directory) = header.extensions.bitmaps else {
        return Ok(Vec::new());
    };
    if directory.count > BITMAPS_MAX {
        let reason = format!(
            "too many bitmaps: {}, QEMU's limit is {BITMAPS_MAX}",
            directory.count
        );
        return Err(Error::corrupt(reason).at(directory.at.0));
    }
    let max_bytes = directory.size_bytes.min(DIRECTORY_MAX_BYTES);
    let mut table = TableReader::new(file, directory.at, max_bytes, "bitmap directory");
    (0..directory.count)
        .map(|_| read_entry(&mut table))
        .collect()
}

fn read_entry(table: &mut TableReader<'_>) -> Result<BitmapEntry> {
    let at = table.at();
    let bytes = table.take(to_u64(size_of::<RawBitmap>()))?;
    let raw = RawBitmap::read_from_bytes(bytes)
        .map_err(|_| Error::corrupt("bitmap directory entry is truncated").at(at.0))?;
    raw.check().map_err(|e| e.at(at.0))?;
    table.take(u64::from(raw.extra_data_size.get()))?;
    let name = table.take(u64::from(raw.name_size.get()))?;
    let name = String::from_utf8_lossy(name).into_owned();
    table.align()?;
    let flags = u64::from(raw.flags.get());
    let (in_use, auto) = (has_bit(flags, 0), has_bit(flags, 1));
    Ok(BitmapEntry {
        bitmap: Bitmap {
            name,
            granularity_bytes: power_of_two(u32::from(raw.granularity_bits)),
            state: if in_use {
                BitmapState::Inconsistent
            } else {
                BitmapState::Consistent
            },
            recording: auto,
        },
        table_at: HostOffset(raw.bitmap_table_offset.get()),
        table_entries: raw.bitmap_table_size.get(),
        at,
        len_bytes: table.at().0.saturating_sub(at.0),
        flags: raw.flags.get(),
        is_understood: raw.is_understood(),
    })
}

/// Encodes the entry of a new dirty bitmap, whose table is at `table_at`.
pub(crate) fn encode(bitmap: &Bitmap, table_at: HostOffset, table_entries: u32) -> Vec<u8> {
    let name = bitmap.name.as_bytes();
    let raw = RawBitmap {
        bitmap_table_offset: table_at.0.into(),
        bitmap_table_size: table_entries.into(),
        flags: if bitmap.recording { AUTO } else { 0 }.into(),
        kind: KIND_DIRTY,
        granularity_bits: u8::try_from(bitmap.granularity_bytes.trailing_zeros()).unwrap_or(0),
        name_size: U16::new(u16::try_from(name.len()).unwrap_or(u16::MAX)),
        extra_data_size: 0.into(),
    };
    let mut bytes = [raw.as_bytes(), name].concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Sets the flags of an encoded entry.
pub(crate) fn set_flags(entry: &mut [u8], flags: u32) {
    if let Ok((raw, _)) = RawBitmap::mut_from_prefix(entry) {
        raw.flags = flags.into();
    }
}

/// Sets the place of the table in an encoded entry.
pub(crate) fn set_table(entry: &mut [u8], table_at: HostOffset) {
    if let Ok((raw, _)) = RawBitmap::mut_from_prefix(entry) {
        raw.bitmap_table_offset = table_at.0.into();
    }
}

impl RawBitmap {
    /// Returns true for a dirty bitmap with only known flags, and without extra data that must be
    /// understood.
    const fn is_understood(&self) -> bool {
        const KNOWN_FLAGS: u32 = 0b111;
        const EXTRA_DATA_COMPATIBLE: u32 = 0b100;
        let flags = self.flags.get();
        self.kind == KIND_DIRTY
            && flags & !KNOWN_FLAGS == 0
            && (self.extra_data_size.get() == 0 || flags & EXTRA_DATA_COMPATIBLE != 0)
    }

    fn check(&self) -> Result<()> {
        let name_size = self.name_size.get();
        if name_size == 0 || name_size > NAME_MAX_BYTES {
            let reason = format!(
                "invalid bitmap: its name has {name_size} bytes, expected 1 to {NAME_MAX_BYTES}"
            );
            return Err(Error::corrupt(reason));
        }
        if self.granularity_bits > 63 {
            let reason = format!(
                "invalid bitmap: granularity is 2^{}, expected at most 2^63",
                self.granularity_bits
            );
            return Err(Error::corrupt(reason));
        }
        Ok(())
    }
}
