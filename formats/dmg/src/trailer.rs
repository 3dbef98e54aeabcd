//! The trailer: the last 512 bytes of the file.

use diskfs_block::{BlockRead, Error, Result, bytes};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"koly";
const VERSION: u32 = 4;
const TRAILER_BYTES: usize = 512;
/// The largest property list: about 600000 chunks, a disk of 300 GiB in chunks of 512 KiB.
const LIST_MAX_BYTES: u64 = 32 << 20;

/// The trailer, with the names of other readers: the format has no specification.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTrailer {
    signature: [u8; 4],
    version: U32,
    header_size: U32,
    flags: U32,
    running_data_fork_offset: U64,
    data_fork_offset: U64,
    data_fork_length: U64,
    rsrc_fork_offset: U64,
    rsrc_fork_length: U64,
    segment_number: U32,
    segment_count: U32,
    segment_id: [u8; 16],
    data_checksum: [u8; 136],
    xml_offset: U64,
    xml_length: U64,
    reserved_1: [u8; 120],
    master_checksum: [u8; 136],
    image_variant: U32,
    sector_count: U64,
    reserved_2: [u8; 12],
}

const _: () = assert!(size_of::<RawTrailer>() == TRAILER_BYTES);

/// A trailer whose fields are in range.
#[derive(Debug)]
pub(crate) struct Trailer {
    /// The offset of the data of all chunks in bytes.
    pub(crate) data_at: u64,
    pub(crate) list_at: u64,
    pub(crate) list_bytes: u64,
    pub(crate) sectors: u64,
}

/// Returns true if `file` ends with the trailer of a DMG. A guest that writes to a raw disk can
/// write one, so it must not decide a format alone.
///
/// # Errors
/// The errors of reading.
pub fn ends_with_trailer(file: &dyn BlockRead) -> Result<bool> {
    Ok(read_raw(file)?.is_some_and(|(_, raw)| raw.signature == MAGIC))
}

/// Returns the last 512 bytes of the file, and their offset.
fn read_raw(file: &dyn BlockRead) -> Result<Option<(u64, RawTrailer)>> {
    let mut bytes = [0; TRAILER_BYTES];
    let Some(at) = file.size_bytes().checked_sub(bytes::len_u64(TRAILER_BYTES)) else {
        return Ok(None);
    };
    file.read_at(at, &mut bytes)?;
    let raw = RawTrailer::read_from_bytes(&bytes).ok();
    Ok(raw.map(|raw| (at, raw)))
}

impl Trailer {
    /// Reads and checks the trailer of the image in `file`.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        match read_raw(file)? {
            Some((at, raw)) if raw.signature == MAGIC => raw.trailer(at),
            _ => Err(Error::corrupt("not a DMG: its trailer is missing").at(file.size_bytes())),
        }
    }
}

impl RawTrailer {
    fn trailer(&self, at: u64) -> Result<Trailer> {
        let unsupported = |reason: String, field: u64| {
            Err(Error::unsupported(reason).at(at.saturating_add(field)))
        };
        let (version, segments) = (self.version.get(), self.segment_count.get());
        if version != VERSION {
            return unsupported(format!("unsupported version {version} of DMG"), 4);
        }
        if segments > 1 {
            return unsupported(format!("unsupported DMG in {segments} segments"), 60);
        }
        let list_bytes = self.xml_length.get();
        if list_bytes == 0 {
            let reason = "unsupported DMG with block tables in a resource fork";
            return unsupported(reason.to_owned(), 224);
        }
        if list_bytes > LIST_MAX_BYTES {
            let reason = format!("property list of {list_bytes} bytes, at most {LIST_MAX_BYTES}");
            return unsupported(reason, 224);
        }
        Ok(Trailer {
            data_at: self.data_fork_offset.get(),
            list_at: self.xml_offset.get(),
            list_bytes,
            sectors: self.sector_count.get(),
        })
    }
}
