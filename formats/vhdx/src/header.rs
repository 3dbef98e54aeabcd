//! The headers: MS-VHDX 2.2.2.

use diskfs_block::{BlockRead, Error, Result, WriteAt, bytes, read_within};
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{checksum, put_checksum};

const HEADER_BYTES: usize = 4096;
/// The offsets of the two copies.
const COPIES_AT: [u64; 2] = [64 << 10, 128 << 10];
const SIGNATURE: [u8; 4] = *b"head";
const VERSION: u16 = 1;

/// The fields of the header, with the names of the specification.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    signature: [u8; 4],
    checksum: U32,
    sequence_number: U64,
    file_write_guid: [u8; 16],
    data_write_guid: [u8; 16],
    log_guid: [u8; 16],
    log_version: U16,
    version: U16,
    log_length: U32,
    log_offset: U64,
}

/// A header to write, of an image with an empty log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewHeader {
    pub(crate) file_write_guid: Uuid,
    pub(crate) data_write_guid: Uuid,
    pub(crate) log_at: u64,
    pub(crate) log_bytes: u32,
}

impl NewHeader {
    /// Writes both copies, of which the second is the current one.
    pub(crate) fn write(&self, write: &mut WriteAt<'_>) -> Result<()> {
        for (sequence_number, at) in (1..).zip(COPIES_AT) {
            let raw = RawHeader {
                signature: SIGNATURE,
                checksum: U32::ZERO,
                sequence_number: U64::new(sequence_number),
                file_write_guid: self.file_write_guid.to_bytes_le(),
                data_write_guid: self.data_write_guid.to_bytes_le(),
                log_guid: Uuid::nil().to_bytes_le(),
                log_version: U16::ZERO,
                version: U16::new(VERSION),
                log_length: U32::new(self.log_bytes),
                log_offset: U64::new(self.log_at),
            };
            let mut stored = [0; HEADER_BYTES];
            bytes::put(&mut stored, 0, raw.as_bytes());
            put_checksum(&mut stored);
            write(at, &stored)?;
        }
        Ok(())
    }
}

/// The current header.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) data_write_guid: Uuid,
    /// The log, if it must be replayed.
    pub(crate) log: Option<LogPlace>,
    /// The space of the log in the file, used or not: its offset and length in bytes.
    pub(crate) log_space: (u64, u64),
}

/// A log that must be replayed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogPlace {
    pub(crate) at: u64,
    pub(crate) len_bytes: u64,
    /// The GUID of its valid entries.
    pub(crate) guid: Uuid,
}

impl Header {
    /// Reads both copies and returns the current one: the valid one with the higher sequence
    /// number.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        let mut current: Option<(RawHeader, u64)> = None;
        for at in COPIES_AT {
            let Some(raw) = read_copy(file, at)? else {
                continue;
            };
            let is_newer = current
                .as_ref()
                .is_none_or(|(other, _)| raw.sequence_number.get() > other.sequence_number.get());
            if is_newer {
                current = Some((raw, at));
            }
        }
        match current {
            Some((raw, at)) => raw.header(at),
            None => Err(Error::corrupt("both headers of the VHDX are damaged").at(COPIES_AT[0])),
        }
    }
}

/// Returns the copy at `at` if it is valid.
fn read_copy(file: &dyn BlockRead, at: u64) -> Result<Option<RawHeader>> {
    let Some(bytes) = read_within(file, at, HEADER_BYTES)? else {
        return Ok(None);
    };
    let raw = RawHeader::read_from_prefix(&bytes).ok();
    Ok(raw
        .map(|(raw, _)| raw)
        .filter(|raw| raw.signature == SIGNATURE && raw.checksum.get() == checksum(&bytes)))
}

impl RawHeader {
    fn header(&self, at: u64) -> Result<Header> {
        let version = self.version.get();
        if version != VERSION {
            let reason = format!("unsupported version {version} of VHDX");
            return Err(Error::unsupported(reason).at(at.saturating_add(66)));
        }
        let guid = Uuid::from_bytes_le(self.log_guid);
        let (log_at, len_bytes) = (self.log_offset.get(), u64::from(self.log_length.get()));
        let log_version = self.log_version.get();
        if !guid.is_nil() && log_version != 0 {
            let reason = format!("unsupported version {log_version} of a VHDX log");
            return Err(Error::unsupported(reason).at(at.saturating_add(64)));
        }
        Ok(Header {
            data_write_guid: Uuid::from_bytes_le(self.data_write_guid),
            log: (!guid.is_nil()).then_some(LogPlace {
                at: log_at,
                len_bytes,
                guid,
            }),
            log_space: (log_at, len_bytes),
        })
    }
}
