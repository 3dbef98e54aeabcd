//! The header of a metadata area, `mda_header`, with the location of the text. LVM2,
//! `lib/format_text/layout.h`.

use diskfs_block::{BlockRead, Result, read_within};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::crc::crc;
use super::pv_header::DiskLocn;
use super::raw_locn::{RAW_LOCN_BYTES, RawLocn};

/// The size of the header in its area (`MDA_HEADER_SIZE`). Texts follow it, in a ring buffer that
/// wraps around at the end of the area.
pub(super) const HEADER_BYTES: usize = 512;

/// The magic number, `FMTT_MAGIC`.
const MAGIC: [u8; 16] = *b" LVM2 x[5A%r0N*>";

/// The supported version, `FMTT_VERSION`.
const VERSION: u32 = 1;

/// The largest text in bytes. A logical volume needs about 400 bytes, and LVM itself is slow long
/// before ten thousand volumes, which fit in this size.
const MAX_TEXT_BYTES: u64 = 4 << 20;

/// The on-disk structure of the header. `raw_locn`s follow: that of the committed text, and that of
/// one that is being written (precommitted).
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMdaHeader {
    checksum: U32,
    magic: [u8; 16],
    version: U32,
    start: U64,
    size: U64,
}

const _: () = assert!(size_of::<RawMdaHeader>() == 40);

/// Returns the header of an area without texts and without a checksum.
pub(super) fn new_header(start: u64, size_bytes: u64) -> Vec<u8> {
    let raw = RawMdaHeader {
        checksum: 0.into(),
        magic: MAGIC,
        version: VERSION.into(),
        start: start.into(),
        size: size_bytes.into(),
    };
    let mut header = raw.as_bytes().to_vec();
    header.resize(HEADER_BYTES, 0);
    header
}

/// The header of a metadata area with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MdaHeader {
    pub(super) start: u64,
    pub(super) size_bytes: u64,
    pub(super) text: RawLocn,
}

/// The contents of a metadata area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Area {
    /// A text, whose checksum is not yet checked.
    Text(MdaHeader),
    /// No text: the area is marked as ignored, or the volume is not in a group yet.
    Empty,
    /// An invalid area, with the reason.
    Broken(String),
}

impl Area {
    /// Reads the header of an area. The outer error is the device's.
    pub(super) fn read(device: &dyn BlockRead, area: DiskLocn) -> Result<Self> {
        let at = area.offset;
        let Some(bytes) = read_within(device, at, HEADER_BYTES)? else {
            return Ok(Self::broken(at, "is past the end of the device"));
        };
        Ok(Self::from_bytes(&bytes, area).unwrap_or_else(|why| Self::broken(at, &why)))
    }

    fn broken(at: u64, why: &str) -> Self {
        Self::Broken(format!("the LVM metadata area at byte {at} {why}"))
    }

    fn from_bytes(bytes: &[u8], area: DiskLocn) -> std::result::Result<Self, String> {
        let (raw, locns) = RawMdaHeader::ref_from_prefix(bytes).map_err(|_| "is truncated")?;
        if raw.magic != MAGIC {
            return Err("has no header".to_owned());
        }
        let (stored, actual) = (
            raw.checksum.get(),
            crc(&[bytes.get(4..).unwrap_or_default()]),
        );
        if stored != actual {
            return Err(format!(
                "has a wrong checksum ({actual:#010x}, stored {stored:#010x})"
            ));
        }
        let (version, start, size_bytes) = (raw.version.get(), raw.start.get(), raw.size.get());
        if version != VERSION {
            return Err(format!("is of version {version}, which is not supported"));
        }
        if start != area.offset {
            return Err(format!("says that it is at byte {start}"));
        }
        let first = locns
            .get(..RAW_LOCN_BYTES)
            .and_then(RawLocn::from_bytes)
            .filter(|locn| !locn.ignored);
        let Some(text) = first else {
            return Ok(Self::Empty);
        };
        let header = u64::try_from(HEADER_BYTES).unwrap_or(u64::MAX);
        let inside = (header..size_bytes).contains(&text.offset)
            && (1..=size_bytes.saturating_sub(header)).contains(&text.size_bytes);
        if !inside {
            return Err(format!(
                "has its text at byte {} of the area, {} bytes long, but the area has \
                 {size_bytes} bytes",
                text.offset, text.size_bytes
            ));
        }
        if text.size_bytes > MAX_TEXT_BYTES {
            return Err(format!(
                "has a text that is too large: {} bytes, at most {MAX_TEXT_BYTES}",
                text.size_bytes
            ));
        }
        Ok(Self::Text(MdaHeader {
            start,
            size_bytes,
            text,
        }))
    }
}

impl MdaHeader {
    /// Reads the text, which continues after the header if it wraps around. The outer error is the
    /// device's; the inner one says why there is no valid text.
    pub(super) fn read_text(
        &self,
        device: &dyn BlockRead,
    ) -> Result<std::result::Result<String, String>> {
        let header = u64::try_from(HEADER_BYTES).unwrap_or(u64::MAX);
        let to_end = self.size_bytes.saturating_sub(self.text.offset);
        let first_bytes = self.text.size_bytes.min(to_end);
        let second_bytes = self.text.size_bytes.saturating_sub(first_bytes);
        let mut text = Vec::new();
        for (offset, len_bytes) in [(self.text.offset, first_bytes), (header, second_bytes)] {
            let len_bytes = usize::try_from(len_bytes).unwrap_or(usize::MAX);
            let part = match self.start.checked_add(offset) {
                Some(at) => read_within(device, at, len_bytes)?,
                None => None,
            };
            match part {
                Some(part) if text.is_empty() => text = part,
                Some(part) => text.extend_from_slice(&part),
                None => return Ok(Err(self.broken("is past the end of the device"))),
            }
        }
        Ok(self.checked(text))
    }

    fn checked(&self, mut text: Vec<u8>) -> std::result::Result<String, String> {
        let (stored, actual) = (self.text.checksum, crc(&[&text]));
        if stored != actual {
            return Err(self.broken(&format!(
                "has a wrong checksum ({actual:#010x}, stored {stored:#010x})"
            )));
        }
        // A NUL ends the text, and is included in the checksum.
        if text.last() == Some(&0) {
            text.pop();
        }
        String::from_utf8(text).map_err(|_| self.broken("is not valid UTF-8"))
    }

    fn broken(&self, why: &str) -> String {
        let at = self.start.saturating_add(self.text.offset);
        format!("the LVM metadata at byte {at} {why}")
    }
}
