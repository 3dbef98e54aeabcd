//! The log's ring buffer.

use diskfs_block::{BlockRead, Error, Result, bytes, read_within};
use uuid::Uuid;

use crate::header::LogPlace;
use crate::log::SECTOR_BYTES;

/// The largest log that is replayed. Windows and QEMU make logs of 1 MiB; the whole log is read
/// into memory.
const LOG_MAX_BYTES: u64 = 32 << 20;

/// The bytes of the log, read once.
#[derive(Debug)]
pub(crate) struct Ring {
    bytes: Vec<u8>,
    /// The GUID of valid entries.
    pub(crate) guid: Uuid,
    /// The offset of the log in the file, for errors.
    at: u64,
}

impl Ring {
    pub(crate) fn read(file: &dyn BlockRead, place: LogPlace) -> Result<Self> {
        let LogPlace {
            at,
            len_bytes,
            guid,
        } = place;
        if len_bytes > LOG_MAX_BYTES {
            let reason = format!("unsupported log of {len_bytes} bytes, at most {LOG_MAX_BYTES}");
            return Err(Error::unsupported(reason).at(at));
        }
        let is_whole = len_bytes.is_multiple_of(bytes::len_u64(SECTOR_BYTES));
        let log = read_within(file, at, bytes::index(len_bytes))?;
        match log {
            Some(bytes) if is_whole && len_bytes > 0 => Ok(Self { bytes, guid, at }),
            _ => Err(Error::corrupt(format!("invalid log of {len_bytes} bytes")).at(at)),
        }
    }

    /// Returns the number of sectors.
    pub(crate) const fn sectors(&self) -> usize {
        self.bytes.len() / SECTOR_BYTES
    }

    /// Returns the sector `n` places after `start`, around the end of the ring.
    pub(crate) fn sector(&self, start: usize, n: usize) -> &[u8] {
        let sector = start.saturating_add(n).checked_rem(self.sectors());
        let at = sector.unwrap_or(0).saturating_mul(SECTOR_BYTES);
        bytes::part(&self.bytes, at, SECTOR_BYTES).unwrap_or_default()
    }

    /// Returns the offset of a sector in the file.
    pub(crate) fn place(&self, sector: usize) -> u64 {
        let offset = sector.saturating_mul(SECTOR_BYTES);
        self.at.saturating_add(bytes::len_u64(offset))
    }
}
