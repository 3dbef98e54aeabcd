//! An entry of the parent locators: specification, "Parent Locator Entry".

use diskfs_block::bytes::{self, le16, text_until_nul};
use diskfs_block::{BlockRead, Error, Result, read_within};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The longest name: 4096 UTF-16 units. Windows allows 32767, Linux 4096 bytes.
const NAME_MAX_BYTES: u32 = 8192;

/// The 24 bytes of a locator, with the names of the specification.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawParentLocator {
    platform_code: [u8; 4],
    platform_data_space: U32,
    platform_data_length: U32,
    reserved: U32,
    platform_data_offset: U64,
}

const _: () = assert!(size_of::<RawParentLocator>() == 24);

/// The encoding of a locator's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocatorKind {
    /// A Windows path relative to the image (`W2ru`).
    Relative,
    /// An absolute Windows path (`W2ku`).
    Absolute,
}

impl RawParentLocator {
    /// Returns the kind; `None` for an unused locator, and for platforms other than Windows.
    pub(crate) const fn kind(&self) -> Option<LocatorKind> {
        match &self.platform_code {
            b"W2ru" => Some(LocatorKind::Relative),
            b"W2ku" => Some(LocatorKind::Absolute),
            _ => None,
        }
    }

    /// Reads the name.
    pub(crate) fn name(&self, file: &dyn BlockRead) -> Result<String> {
        let (at, len) = (
            self.platform_data_offset.get(),
            self.platform_data_length.get(),
        );
        if len > NAME_MAX_BYTES {
            let reason = format!("name of the parent has {len} bytes, at most {NAME_MAX_BYTES}");
            return Err(Error::unsupported(reason).at(at));
        }
        let name = read_within(file, at, bytes::index(len))?;
        let past_end = || Error::corrupt("name of the parent is past the end of the file").at(at);
        let name = name.ok_or_else(past_end)?;
        let units = name.chunks_exact(2);
        Ok(text_until_nul(units.filter_map(|unit| le16(unit, 0))))
    }
}
