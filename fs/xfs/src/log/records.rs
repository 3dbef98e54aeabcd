//! Reading records from the tail to the head.

use crate::bytes::{array, index};
use crate::error::{Error, ErrorKind, Result};

use super::head::check_uuid;
use super::log_reader::{BLOCK_LEN, CYCLES_BYTES, LogReader};
use super::record_header::{RECORD_BYTES_MAX, RecordHeader, unpack};

/// The only `h_fmt` that is read, `XLOG_FMT_LINUX_LE`: the log items are little-endian.
const FORMAT_LITTLE_ENDIAN: u32 = 1;

/// A record with its payload.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) header: RecordHeader,
    /// The payload, with the first word of each block put back.
    pub(super) payload: Vec<u8>,
}

/// The error of a record, and the block of its header.
#[derive(Debug)]
pub(super) struct RecordError {
    pub(super) block: u32,
    pub(super) error: Error,
}

impl RecordError {
    /// Returns true if the record may be incomplete because of a crash.
    pub(super) fn is_torn(&self) -> bool {
        self.error.kind() == ErrorKind::Corrupt
    }
}

/// The records between the tail and the head of the log.
#[derive(Debug)]
pub(super) struct Records<'a> {
    log: &'a LogReader,
    /// The distance of the next record, and of the head, from the start of the ring. The ring is
    /// passed at most once.
    next: u64,
    end: u64,
    header_blocks: u32,
    len_max: u32,
}

impl<'a> Records<'a> {
    /// Starts at the record whose header is in the block `tail`. All records have headers of the
    /// same length: the one that fits the log buffers of the mount that wrote them.
    ///
    /// # Errors
    /// `Corrupt` for an invalid first header, `Io`.
    pub(super) fn between(
        log: &'a LogReader,
        tail: u32,
        head: u32,
    ) -> std::result::Result<Self, RecordError> {
        let end = if tail > head { log.blocks } else { 0 };
        let mut records = Self {
            log,
            next: u64::from(tail),
            end: u64::from(head).saturating_add(u64::from(end)),
            header_blocks: 1,
            len_max: CYCLES_BYTES,
        };
        if log.is_version_2 && records.next < records.end {
            records
                .take_lens(tail)
                .map_err(|error| RecordError { block: tail, error })?;
        }
        Ok(records)
    }

    /// Takes the length of headers and payloads from the header in the block `tail`.
    fn take_lens(&mut self, tail: u32) -> Result<()> {
        let header = self.header(tail, &self.log.read(tail, 1)?)?;
        let mut size = header.size;
        // mkfs.xfs wrote records as long as the stripe unit, but did not adapt the size.
        if header.len > size && header.len <= self.log.buffer_bytes && header.operations == 1 {
            size = self.log.buffer_bytes;
        }
        header.check_len(self.log, size)?;
        if size > RECORD_BYTES_MAX {
            let reason = format!("a record is for log buffers of {size} bytes");
            return Err(self.log.corrupt(reason, tail));
        }
        self.header_blocks = header.header_blocks_for(size);
        self.len_max = size;
        Ok(())
    }

    fn header(&self, block: u32, bytes: &[u8]) -> Result<RecordHeader> {
        let bytes: Option<[u8; BLOCK_LEN]> = array(bytes, 0);
        let bytes = bytes.ok_or_else(|| self.log.corrupt("a block is missing", block))?;
        Ok(RecordHeader::parse(&bytes, block))
    }

    /// Returns the next record, if its checksum is right or missing.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(super) fn checked(&mut self) -> std::result::Result<Option<Record>, RecordError> {
        if self.next >= self.end {
            return Ok(None);
        }
        let block = self.log.wrap(self.next);
        let record = self
            .read(block)
            .map_err(|error| RecordError { block, error })?;
        Ok(Some(record))
    }

    /// Returns the next record of those that are replayed: besides the checksum, its UUID and its
    /// format are verified.
    ///
    /// # Errors
    /// `Corrupt`, `Unsupported` for a log of another architecture, `Io`.
    pub(super) fn next_for_replay(&mut self) -> Result<Option<Record>> {
        let Some(record) = self.checked().map_err(|error| error.error)? else {
            return Ok(None);
        };
        let header = &record.header;
        if header.is_unchecked() && self.log.has_checksums {
            return Err(self.log.corrupt("a record has no checksum", header.block));
        }
        check_uuid(self.log, header)?;
        if header.format != FORMAT_LITTLE_ENDIAN {
            let reason = format!(
                "unsupported log: it is dirty and was written by a big-endian system (format {})",
                header.format
            );
            let error = crate::error::unsupported(reason);
            return Err(error.with_hint("mount it once with the system that wrote it"));
        }
        Ok(Some(record))
    }

    fn read(&mut self, block: u32) -> Result<Record> {
        let headers = self.log.read(block, self.header_blocks)?;
        let header = self.header(block, &headers)?;
        header.check_len(self.log, self.len_max)?;
        let blocks = self.header_blocks.saturating_add(header.payload_blocks());
        if blocks > self.log.blocks {
            return Err(self.log.corrupt("a record is longer than the log", block));
        }
        let start = self.next.saturating_add(u64::from(self.header_blocks));
        let start = self.log.wrap(start);
        let mut payload = self.log.read(start, header.payload_blocks())?;
        if !header.is_unchecked() && header.is_torn(self.log, &headers, &payload) {
            return Err(self.log.corrupt("the checksum of a record is wrong", block));
        }
        unpack(&headers, &mut payload);
        payload.truncate(index(header.len));
        self.next = self.next.saturating_add(u64::from(blocks));
        Ok(Record { header, payload })
    }
}
