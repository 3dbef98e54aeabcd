//! `EFI_FIRMWARE_VOLUME_HEADER`: the start of the flash. PI 3.2.1; edk2, `Pi/PiFirmwareVolume.h`.

use diskfs_block::{Error, Result};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::Guid;

/// The GUID of volumes with variables. edk2, `Guid/SystemNvDataGuid.h`.
pub(crate) const EFI_SYSTEM_NV_DATA_FV_GUID: Guid = Guid::new(
    0xfff1_2b8d,
    0x7696,
    0x4c8b,
    [0xa9, 0x85, 0x27, 0x47, 0x07, 0x5b, 0x4f, 0x50],
);

/// The attribute of flash whose erased bits are ones.
const EFI_FVB2_ERASE_POLARITY: u32 = 0x800;

/// The maximum length of the header. Its block map has one entry for flash with one block size, and
/// never more than a few.
const MAX_HEADER_BYTES: u16 = 4096;

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    zero_vector: [u8; 16],
    file_system_guid: Guid,
    fv_length: U64,
    signature: [u8; 4],
    attributes: U32,
    header_length: U16,
    checksum: U16,
    ext_header_offset: U16,
    reserved: u8,
    revision: u8,
}

const HEADER_BYTES: usize = 56;
const _: () = assert!(size_of::<Raw>() == HEADER_BYTES);

#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct BlockMapEntry {
    num_blocks: U32,
    length: U32,
}

/// A firmware volume with variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirmwareVolume {
    /// The offset of its contents in bytes.
    pub(crate) header_len: usize,
    /// The length of the volume in bytes.
    pub(crate) len: usize,
    /// The block size of the flash in bytes.
    pub(crate) block_bytes: usize,
}

impl FirmwareVolume {
    /// Parses the volume at the start of a file.
    ///
    /// # Errors
    /// `Unsupported` if there is no volume or one of another type; `Corrupt` if it is
    /// invalid.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let raw = match Raw::ref_from_prefix(bytes) {
            Ok((raw, _)) if raw.signature == *b"_FVH" => raw,
            _ => return Err(no_volume(bytes)),
        };
        if raw.file_system_guid != EFI_SYSTEM_NV_DATA_FV_GUID {
            let guid = raw.file_system_guid;
            return Err(
                Error::unsupported(format!("unsupported firmware volume type {guid}")).at(16),
            );
        }
        if raw.attributes.get() & EFI_FVB2_ERASE_POLARITY == 0 {
            return Err(
                Error::unsupported("unsupported firmware volume: erased bytes are zeroes").at(44),
            );
        }
        let header = header(bytes, raw.header_length.get())?;
        let block_map = header.get(HEADER_BYTES..).unwrap_or_default();
        let (len_bytes, block_bytes) = blocks(block_map)?;
        // On AAVMF, the block map is that of the whole flash, of which the volume is a part.
        if raw.fv_length.get() > len_bytes {
            return Err(
                Error::corrupt("invalid firmware volume: it is longer than its blocks").at(32),
            );
        }
        match usize::try_from(raw.fv_length.get()) {
            Ok(len) if len <= bytes.len() => Ok(Self {
                header_len: header.len(),
                len,
                block_bytes,
            }),
            _ => Err(Error::corrupt("invalid firmware volume: it is longer than the file").at(32)),
        }
    }
}

fn no_volume(bytes: &[u8]) -> Error {
    let error = Error::unsupported("missing firmware volume");
    if bytes.iter().all(|&byte| matches!(byte, 0 | 0xff)) {
        return error.with_hint("the file is empty: the firmware makes one when it first runs");
    }
    error
}

/// Returns the header after checking that the sum of its words is 0.
fn header(bytes: &[u8], len: u16) -> Result<&[u8]> {
    let fits = len.is_multiple_of(4) && len <= MAX_HEADER_BYTES;
    let header = fits.then(|| bytes.get(..usize::from(len))).flatten();
    let header = header
        .ok_or_else(|| Error::corrupt("invalid firmware volume: wrong header length").at(48))?;
    if sum16(header) != 0 {
        return Err(Error::corrupt("invalid firmware volume: wrong header checksum").at(50));
    }
    Ok(header)
}

/// Returns the sum of all words.
pub(crate) fn sum16(bytes: &[u8]) -> u16 {
    let words = bytes.as_chunks::<2>().0.iter();
    words.fold(0, |sum, word| sum.wrapping_add(u16::from_le_bytes(*word)))
}

/// Returns the total length of all blocks, and the size of the first ones.
fn blocks(block_map: &[u8]) -> Result<(u64, usize)> {
    let wrong = || Error::corrupt("invalid firmware volume: invalid block map").at(56);
    let (mut len, mut block_bytes) = (0_u64, None);
    let mut rest = block_map;
    loop {
        let (entry, after) = BlockMapEntry::read_from_prefix(rest).map_err(|_| wrong())?;
        let (num_blocks, length) = (entry.num_blocks.get(), entry.length.get());
        if (num_blocks, length) == (0, 0) {
            break;
        }
        let of_entry = u64::from(num_blocks).checked_mul(length.into());
        len = of_entry
            .and_then(|of_entry| len.checked_add(of_entry))
            .ok_or_else(wrong)?;
        block_bytes.get_or_insert(length);
        rest = after;
    }
    let block_bytes = block_bytes.and_then(|length| usize::try_from(length).ok());
    match block_bytes {
        Some(block_bytes) if block_bytes > 0 => Ok((len, block_bytes)),
        _ => Err(wrong()),
    }
}
