//! A file that a log makes longer.

use std::sync::Arc;

use diskfs_block::{BlockRead, Result, bytes, check_bounds};

/// A file followed by zeroes.
#[derive(Debug)]
pub(crate) struct Extended {
    pub(crate) file: Arc<dyn BlockRead>,
    /// The size with the zeroes, in bytes.
    pub(crate) size_bytes: u64,
}

impl BlockRead for Extended {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, bytes::len_u64(buf.len()), self.size_bytes)?;
        let there = self.file.size_bytes().saturating_sub(offset);
        let (stored, missing) = buf.split_at_mut(bytes::index(there).min(buf.len()));
        missing.fill(0);
        if stored.is_empty() {
            return Ok(());
        }
        self.file.read_at(offset, stored)
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.file.will_need(offset, len_bytes);
    }
}
