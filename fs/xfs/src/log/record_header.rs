//! The header of a record, `struct xlog_rec_header`, and its extensions,
//! `struct xlog_rec_ext_header`.
//!
//! A record is what the kernel writes at once: the header of one or more blocks, and a payload. The
//! first word of each block of the payload is replaced by the cycle number; the header keeps the
//! words.

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::{index, part};
use crate::error::Result;

use super::log_reader::{BLOCK_BYTES, BLOCK_LEN, CYCLES_BYTES, LogReader, RECORD_MAGIC};
use super::lsn::Lsn;

/// The largest size of a record's payload, `XLOG_MAX_RECORD_BSIZE`.
pub(super) const RECORD_BYTES_MAX: u32 = 256 << 10;

/// The versions of a record, as bits.
const VERSION_1: u32 = 1;
const VERSION_2: u32 = 2;
/// The number of first words that one header block keeps.
const CYCLE_WORDS: usize = 64;
/// The offset of the checksum.
const CRC_OFFSET: usize = 32;
/// The offset of the first words in the first header block, and in the others.
const CYCLE_DATA_OFFSET: usize = 44;
const EXTENDED_CYCLE_DATA_OFFSET: usize = 4;
/// The part of the first header that its checksum covers: 328 bytes; a 32-bit x86 kernel leaves out
/// the padding at the end.
const CHECKED_LENS: [usize; 2] = [328, 324];
/// The part of the other headers that the checksum covers.
const CHECKED_EXTENDED_LEN: usize = 260;

/// The bytes of `struct xlog_rec_header`.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawRecordHeader {
    h_magicno: U32,
    h_cycle: U32,
    h_version: U32,
    h_len: U32,
    h_lsn: U64,
    h_tail_lsn: U64,
    h_crc: zerocopy::little_endian::U32,
    h_prev_block: U32,
    h_num_logops: U32,
    h_cycle_data: [U32; CYCLE_WORDS],
    h_fmt: U32,
    h_fs_uuid: [u8; 16],
    h_size: U32,
}

/// The header of a record. Its lengths are not valid before
/// [`check_len`](RecordHeader::check_len).
#[derive(Debug, Clone)]
pub(super) struct RecordHeader {
    /// The block of the log that contains the header.
    pub(super) block: u32,
    is_magic: bool,
    version: u32,
    /// The length of the payload in bytes.
    pub(super) len: u32,
    pub(super) lsn: Lsn,
    /// The place of the oldest change that was not yet in its final location.
    pub(super) tail_lsn: Lsn,
    /// The checksum; 0 if the record has none.
    crc: u32,
    /// The number of operations in the payload.
    pub(super) operations: u32,
    /// The number of the byte order and of the alignment in which the payload is written.
    pub(super) format: u32,
    pub(super) uuid: [u8; 16],
    /// The largest length of a payload at the time of writing.
    pub(super) size: u32,
}

impl RecordHeader {
    /// Reads a header, of any contents, from the block `block` of the log.
    pub(super) fn parse(bytes: &[u8; BLOCK_LEN], block: u32) -> Self {
        let raw = RawRecordHeader::read_from_prefix(bytes)
            .ok()
            .map(|(raw, _)| raw);
        let raw = raw.unwrap_or(RawRecordHeader::EMPTY);
        Self {
            block,
            is_magic: raw.h_magicno.get() == RECORD_MAGIC,
            version: raw.h_version.get(),
            len: raw.h_len.get(),
            lsn: Lsn(raw.h_lsn.get()),
            tail_lsn: Lsn(raw.h_tail_lsn.get()),
            crc: raw.h_crc.get(),
            operations: raw.h_num_logops.get(),
            format: raw.h_fmt.get(),
            uuid: raw.h_fs_uuid,
            size: raw.h_size.get(),
        }
    }

    /// Checks the magic, the version and the length, which must not exceed `max_bytes`.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn check_len(&self, log: &LogReader, max_bytes: u32) -> Result<()> {
        let reason = if !self.is_magic {
            "a record header has a wrong magic".to_owned()
        } else if self.version == 0 || self.version & !(VERSION_1 | VERSION_2) != 0 {
            format!("a record has the version {}", self.version)
        } else if self.len == 0 || self.len > max_bytes.min(RECORD_BYTES_MAX) {
            format!("a record has {} bytes, expected 1 to {max_bytes}", self.len)
        } else {
            return Ok(());
        };
        Err(log.corrupt(reason, self.block))
    }

    /// Returns the number of blocks of the header.
    pub(super) fn header_blocks(&self, log: &LogReader) -> u32 {
        if log.is_version_2 {
            header_blocks(self.version, self.size)
        } else {
            1
        }
    }

    /// Returns the number of blocks of a header for payloads of `size` bytes.
    pub(super) fn header_blocks_for(&self, size: u32) -> u32 {
        header_blocks(self.version, size)
    }

    /// Returns the number of blocks of the payload.
    pub(super) fn payload_blocks(&self) -> u32 {
        self.len.div_ceil(BLOCK_BYTES)
    }

    /// Returns true if the record has a checksum and `headers` and `payload` don't match it.
    pub(super) fn is_torn(&self, log: &LogReader, headers: &[u8], payload: &[u8]) -> bool {
        if self.crc == 0 && !log.has_checksums {
            return false;
        }
        let matches = |len| self.checksum(log, headers, payload, len) == self.crc;
        !CHECKED_LENS.into_iter().any(matches)
    }

    /// Returns true if the record has no checksum.
    pub(super) fn is_unchecked(&self) -> bool {
        self.crc == 0
    }

    fn checksum(&self, log: &LogReader, headers: &[u8], payload: &[u8], checked: usize) -> u32 {
        let first = part(headers, 0, checked).unwrap_or_default();
        let before = part(first, 0, CRC_OFFSET).unwrap_or_default();
        let after = first
            .get(CRC_OFFSET.saturating_add(4)..)
            .unwrap_or_default();
        let mut crc = crc32c::crc32c(before);
        crc = crc32c::crc32c_append(crc, &[0; 4]);
        crc = crc32c::crc32c_append(crc, after);
        if log.is_version_2 {
            for block in 1..index(self.len.div_ceil(CYCLES_BYTES)) {
                let offset = block.saturating_mul(BLOCK_LEN);
                let extended = part(headers, offset, CHECKED_EXTENDED_LEN).unwrap_or_default();
                crc = crc32c::crc32c_append(crc, extended);
            }
        }
        let payload = payload.get(..index(self.len)).unwrap_or_default();
        crc32c::crc32c_append(crc, payload)
    }
}

impl RawRecordHeader {
    /// A header of zeroes.
    const EMPTY: Self = Self {
        h_magicno: U32::ZERO,
        h_cycle: U32::ZERO,
        h_version: U32::ZERO,
        h_len: U32::ZERO,
        h_lsn: U64::ZERO,
        h_tail_lsn: U64::ZERO,
        h_crc: zerocopy::little_endian::U32::ZERO,
        h_prev_block: U32::ZERO,
        h_num_logops: U32::ZERO,
        h_cycle_data: [U32::ZERO; CYCLE_WORDS],
        h_fmt: U32::ZERO,
        h_fs_uuid: [0; 16],
        h_size: U32::ZERO,
    };
}

fn header_blocks(version: u32, size: u32) -> u32 {
    if version & VERSION_2 == 0 || size <= CYCLES_BYTES {
        return 1;
    }
    size.div_ceil(CYCLES_BYTES)
}

/// Puts the first word of each block of a payload back, from the header blocks.
pub(super) fn unpack(headers: &[u8], payload: &mut [u8]) {
    for (number, block) in payload.chunks_mut(BLOCK_LEN).enumerate() {
        let header = number.wrapping_div(CYCLE_WORDS);
        let word = number.wrapping_rem(CYCLE_WORDS).saturating_mul(4);
        let start = match header {
            0 => CYCLE_DATA_OFFSET,
            _ => EXTENDED_CYCLE_DATA_OFFSET,
        };
        let offset = header.saturating_mul(BLOCK_LEN).saturating_add(start);
        let source = part(headers, offset.saturating_add(word), 4);
        if let (Some(source), Some(target)) = (source, block.get_mut(..4)) {
            target.copy_from_slice(source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_specified_size() {
        assert_eq!(size_of::<RawRecordHeader>(), 324);
        assert_eq!(std::mem::offset_of!(RawRecordHeader, h_crc), CRC_OFFSET);
        assert_eq!(
            std::mem::offset_of!(RawRecordHeader, h_cycle_data),
            CYCLE_DATA_OFFSET
        );
    }

    #[test]
    fn first_words_come_from_all_headers() {
        let mut headers = vec![0; 1024];
        headers[44..48].copy_from_slice(b"1st ");
        headers[44 + 63 * 4..300].copy_from_slice(b"64th");
        headers[512 + 4..512 + 8].copy_from_slice(b"65th");
        let mut payload = vec![7; 65 * 512];
        unpack(&headers, &mut payload);
        assert_eq!(&payload[..5], b"1st \x07");
        assert_eq!(&payload[63 * 512..63 * 512 + 4], b"64th");
        assert_eq!(&payload[64 * 512..64 * 512 + 4], b"65th");
    }

    #[test]
    fn large_buffers_have_more_header_blocks() {
        assert_eq!(header_blocks(1, 256 << 10), 1);
        assert_eq!(header_blocks(2, 32 << 10), 1);
        assert_eq!(header_blocks(2, 256 << 10), 8);
    }
}
