//! Header extensions: specification, section "Header extensions".

use diskfs_block::{Error, Result};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::numbers::to_u64;
use crate::qcow2::base_record::BaseRecord;
use crate::qcow2::encryption_header::EncryptionHeader;
use crate::qcow2::feature_names::FeatureNames;
use crate::qcow2::units::HostOffset;

const END: u32 = 0;
const BACKING_FORMAT: u32 = 0xe279_2aca;
const FEATURE_NAMES: u32 = 0x6803_f857;
const BITMAPS: u32 = 0x2385_2875;
const DATA_FILE: u32 = 0x4441_5441;
const ENCRYPTION_HEADER: u32 = 0x0537_be77;
/// The type of our own extension, `dfsb`: see [`base_record`](crate::qcow2::base_record).
const BASE_RECORD: u32 = 0x6466_7362;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawExtension {
    kind: U32,
    length: U32,
}

/// The bitmaps extension: specification, section "Bitmaps extension".
#[derive(Debug, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBitmapsExtension {
    nb_bitmaps: U32,
    reserved: U32,
    bitmap_directory_size: U64,
    bitmap_directory_offset: U64,
}

/// The location of the bitmap directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BitmapDirectory {
    pub(crate) count: u32,
    pub(crate) at: HostOffset,
    pub(crate) size_bytes: u64,
}

impl BitmapDirectory {
    /// Appends the bitmaps extension to the header's bytes.
    pub(crate) fn push_extension(self, bytes: &mut Vec<u8>) {
        let raw = RawBitmapsExtension {
            nb_bitmaps: self.count.into(),
            reserved: 0.into(),
            bitmap_directory_size: self.size_bytes.into(),
            bitmap_directory_offset: self.at.0.into(),
        };
        push_extension(bytes, ExtensionKind::Bitmaps, raw.as_bytes());
    }
}

/// The extensions that we use; others may be ignored.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeaderExtensions {
    pub(crate) backing_format: Option<String>,
    pub(crate) data_file: Option<Vec<u8>>,
    pub(crate) feature_names: FeatureNames,
    pub(crate) bitmaps: Option<BitmapDirectory>,
    pub(crate) encryption: Option<EncryptionHeader>,
    /// The recorded state of the backing file.
    pub(crate) base: Option<BaseRecord>,
}

impl HeaderExtensions {
    /// Parses the extensions between `start` and `end` of the first cluster, of which `bytes` is
    /// the part that was read. Fails if they continue past `bytes`.
    pub(crate) fn parse(bytes: &[u8], start: usize, end: usize) -> Result<Self> {
        let mut found = Self::default();
        let mut at = start;
        while at < end {
            let rest = bytes.get(at..).unwrap_or_default();
            let Ok((raw, rest)) = RawExtension::read_from_prefix(rest) else {
                // In a version 2 image the extensions may end with the area, without an end marker.
                return if end.saturating_sub(at) < size_of::<RawExtension>() {
                    Ok(found)
                } else {
                    Err(cut_short(at))
                };
            };
            if raw.kind.get() == END {
                return Ok(found);
            }
            let data_at = at.saturating_add(size_of::<RawExtension>());
            let len = usize::try_from(raw.length.get()).unwrap_or(usize::MAX);
            if len > end.saturating_sub(data_at) {
                let reason = format!(
                    "header extension {:#010x} of {len} bytes extends past the extension area",
                    raw.kind.get()
                );
                return Err(Error::corrupt(reason).at(to_u64(at)));
            }
            let data = rest.get(..len).ok_or_else(|| cut_short(at))?;
            found.take(raw.kind.get(), data, data_at)?;
            at = data_at.saturating_add(len.next_multiple_of(8));
        }
        Ok(found)
    }

    fn take(&mut self, kind: u32, data: &[u8], at: usize) -> Result<()> {
        match kind {
            BACKING_FORMAT => {
                self.backing_format = Some(String::from_utf8_lossy(data).into_owned());
            }
            DATA_FILE => self.data_file = Some(data.to_vec()),
            FEATURE_NAMES => self.feature_names = FeatureNames::parse(data),
            BITMAPS => {
                let (raw, _) = RawBitmapsExtension::read_from_prefix(data).map_err(|_| {
                    Error::corrupt("bitmaps extension is too short: expected at least 24 bytes")
                        .at(to_u64(at))
                })?;
                self.bitmaps = Some(BitmapDirectory {
                    count: raw.nb_bitmaps.get(),
                    at: HostOffset(raw.bitmap_directory_offset.get()),
                    size_bytes: raw.bitmap_directory_size.get(),
                });
            }
            ENCRYPTION_HEADER => self.encryption = Some(EncryptionHeader::parse(data, at)?),
            BASE_RECORD => self.base = BaseRecord::parse(data, at),
            // Unknown extensions can be ignored.
            _ => {}
        }
        Ok(())
    }
}

/// The extensions of new images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtensionKind {
    End,
    BackingFormat,
    FeatureNames,
    DataFile,
    BaseRecord,
    Bitmaps,
    EncryptionHeader,
}

/// Returns the extensions from `start` up to the end marker, or the end of `bytes`, each with its kind, if we use it, and
/// its bytes as stored.
pub(crate) fn raw_extensions(
    bytes: &[u8],
    start: usize,
) -> Result<Vec<(Option<ExtensionKind>, &[u8])>> {
    let mut found = Vec::new();
    let mut at = start;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Ok((raw, _)) = RawExtension::read_from_prefix(rest) else {
            return Ok(found);
        };
        let kind = match raw.kind.get() {
            END => return Ok(found),
            BACKING_FORMAT => Some(ExtensionKind::BackingFormat),
            FEATURE_NAMES => Some(ExtensionKind::FeatureNames),
            DATA_FILE => Some(ExtensionKind::DataFile),
            BASE_RECORD => Some(ExtensionKind::BaseRecord),
            BITMAPS => Some(ExtensionKind::Bitmaps),
            ENCRYPTION_HEADER => Some(ExtensionKind::EncryptionHeader),
            _ => None,
        };
        let len = usize::try_from(raw.length.get()).unwrap_or(usize::MAX);
        let len = size_of::<RawExtension>().saturating_add(len.next_multiple_of(8));
        let stored = rest.get(..len).ok_or_else(|| cut_short(at))?;
        found.push((kind, stored));
        at = at.saturating_add(len);
    }
}

/// Appends an extension to the header's bytes, padded to a multiple of 8.
pub(crate) fn push_extension(bytes: &mut Vec<u8>, kind: ExtensionKind, data: &[u8]) {
    let kind = match kind {
        ExtensionKind::End => END,
        ExtensionKind::BackingFormat => BACKING_FORMAT,
        ExtensionKind::FeatureNames => FEATURE_NAMES,
        ExtensionKind::DataFile => DATA_FILE,
        ExtensionKind::BaseRecord => BASE_RECORD,
        ExtensionKind::Bitmaps => BITMAPS,
        ExtensionKind::EncryptionHeader => ENCRYPTION_HEADER,
    };
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

fn cut_short(at: usize) -> Error {
    Error::corrupt("header extension is truncated").at(to_u64(at))
}
