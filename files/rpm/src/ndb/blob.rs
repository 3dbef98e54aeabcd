//! A package's header between its head (magic, number, time, length) and its tail (checksum,
//! length, magic).
//!
//! The checksum is not verified, as in rpm's own queries: it covers the whole header, of which only
//! a small part is read.

use diskfs_block::bytes::{le32, len_u64};
use diskfs_block::{Error, Result};

use super::BLOCK_BYTES;
use super::slot::Slot;
use crate::blob::{Blob, check_within};
use crate::window::Window;

const HEAD_MAGIC: &[u8; 4] = b"BlbS";
const TAIL_MAGIC: &[u8; 4] = b"BlbE";

const HEAD_BYTES: u64 = 16;
const TAIL_BYTES: u64 = 12;

/// A package's header in the file.
pub(super) struct HeaderBlob<'a, 'd> {
    window: &'a mut Window<'d>,
    start: u64,
    len_bytes: u64,
}

impl<'a, 'd> HeaderBlob<'a, 'd> {
    pub(super) fn open(window: &'a mut Window<'d>, slot: &Slot) -> Result<Self> {
        let first = u64::from(slot.first_block).saturating_mul(BLOCK_BYTES);
        let head = window.get(first, 16)?;
        let field = |at| le32(head, at).unwrap_or_default();
        let is_head = head.starts_with(HEAD_MAGIC) && field(4) == slot.package;
        let len = field(12);
        if !is_head {
            return Err(Error::corrupt("invalid head of the header").at(first));
        }
        let len_bytes = u64::from(len);
        let all_bytes = len_bytes.saturating_add(HEAD_BYTES + TAIL_BYTES);
        if all_bytes.div_ceil(BLOCK_BYTES) != u64::from(slot.blocks) {
            let reason = format!(
                "invalid header length: {len} bytes do not fill {} blocks",
                slot.blocks
            );
            return Err(Error::corrupt(reason).at(first));
        }
        let end = u64::from(slot.blocks).saturating_mul(BLOCK_BYTES);
        let tail_start = first.saturating_add(end).saturating_sub(TAIL_BYTES);
        Self::check_tail(window, tail_start, len)?;
        Ok(Self {
            window,
            start: first.saturating_add(HEAD_BYTES),
            len_bytes,
        })
    }

    fn check_tail(window: &mut Window<'_>, start: u64, len: u32) -> Result<()> {
        let tail = window.get(start, 12)?;
        if le32(tail, 4) != Some(len) || !tail.ends_with(TAIL_MAGIC) {
            return Err(Error::corrupt("invalid tail of the header").at(start));
        }
        Ok(())
    }
}

impl Blob for HeaderBlob<'_, '_> {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_within(offset, len_u64(buf.len()), self.len_bytes)?;
        let at = self.start.saturating_add(offset);
        buf.copy_from_slice(self.window.get(at, buf.len())?);
        Ok(())
    }
}
