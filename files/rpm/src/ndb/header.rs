//! The header of the database: its first 32 bytes.

use diskfs_block::bytes::le32;
use diskfs_block::{BlockRead, Error, Result, read_within};

use super::BLOCK_BYTES;
use super::slot::Slot;

const HEADER_BYTES: usize = 32;

const MAGIC: &[u8; 4] = b"RpmP";

/// The size of a page of slots.
const PAGE_BYTES: u64 = 4096;

/// The maximum number of pages with slots: room for more than a million packages.
const MAX_SLOT_PAGES: u32 = 1 << 12;

/// Returns true if a file that starts with these bytes is an ndb database.
pub(crate) fn is_ndb(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// The fields of the database's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    slot_pages: u32,
}

impl Header {
    pub(super) fn read(device: &dyn BlockRead) -> Result<Self> {
        let bytes = read_within(device, 0, HEADER_BYTES)?;
        let bytes = bytes
            .ok_or_else(|| Error::corrupt("invalid database: the file ends within its header"))?;
        let field = |at| le32(&bytes, at).unwrap_or_default();
        let (version, slot_pages) = (field(4), field(12));
        if version != 0 {
            let reason = format!("unsupported ndb version {version}, expected 0");
            return Err(Error::unsupported(reason).at(4));
        }
        if slot_pages > MAX_SLOT_PAGES {
            let reason =
                format!("invalid database: {slot_pages} pages of slots, at most {MAX_SLOT_PAGES}");
            return Err(Error::corrupt(reason).at(12));
        }
        let header = Self { slot_pages };
        if header.slots_end_bytes() > device.size_bytes() {
            return Err(Error::corrupt("invalid database: the file ends within its slots").at(12));
        }
        Ok(header)
    }

    fn slots_end_bytes(self) -> u64 {
        u64::from(self.slot_pages).saturating_mul(PAGE_BYTES)
    }

    /// Returns the number of slots, including the first ones, which the database's header occupies.
    pub(super) fn slot_count(self) -> u64 {
        let slots = self.slots_end_bytes().checked_div(Slot::BYTES);
        slots.unwrap_or(0)
    }

    /// Fails unless the slot's header is after all slots.
    pub(super) fn check(self, slot: &Slot) -> Result<()> {
        let start = u64::from(slot.first_block).saturating_mul(BLOCK_BYTES);
        if start < self.slots_end_bytes() {
            return Err(slot.name_in(&Error::corrupt(
                "invalid location of the header: it is in the slots",
            )));
        }
        Ok(())
    }
}
