//! The location of a text in its metadata area, `raw_locn`. LVM2, `lib/format_text/layout.h`.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::crc::crc;

/// The flag `RAW_LOCN_IGNORED`: the area is kept empty (`pvchange --metadataignore`).
const IGNORED: u32 = 1;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    offset: U64,
    size: U64,
    checksum: U32,
    flags: U32,
}

/// The size of the structure on disk.
pub(super) const RAW_LOCN_BYTES: usize = 24;

const _: () = assert!(size_of::<Raw>() == RAW_LOCN_BYTES);

/// The location and checksum of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawLocn {
    /// The offset from the start of the area.
    pub(super) offset: u64,
    pub(super) size_bytes: u64,
    pub(super) checksum: u32,
    pub(super) ignored: bool,
}

impl RawLocn {
    /// Parses a location; returns `None` for an offset of zero, which means no text.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = Raw::ref_from_prefix(bytes).ok()?;
        (raw.offset.get() != 0).then(|| Self {
            offset: raw.offset.get(),
            size_bytes: raw.size.get(),
            checksum: raw.checksum.get(),
            ignored: raw.flags.get() & IGNORED != 0,
        })
    }

    /// Returns the location of a text at an offset.
    pub(super) fn of(text: &[u8], offset: u64) -> Self {
        Self {
            offset,
            size_bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
            checksum: crc(&[text]),
            ignored: false,
        }
    }

    /// Returns true if another location has the same text.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.size_bytes, self.checksum) == (other.size_bytes, other.checksum)
    }

    /// Returns the on-disk bytes.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let raw = Raw {
            offset: self.offset.into(),
            size: self.size_bytes.into(),
            checksum: self.checksum.into(),
            flags: if self.ignored { IGNORED } else { 0 }.into(),
        };
        raw.as_bytes().to_vec()
    }
}
