//! The check of the block allocation table.

use std::fmt::Arguments;

use diskfs_block::{ErrorKind, Result};

use crate::bat_entry::PayloadBlock;
use crate::vhdx::Vhdx;

impl Vhdx {
    /// Checks the block allocation table, as `qemu-img check` does: every stored block lies within
    /// the file, and outside of the image's own structures. Calls `found` with the byte and the
    /// description of each error.
    ///
    /// A table has at most 2^26 entries: one for each MiB of the largest disk.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn check(&self, found: &mut dyn FnMut(u64, Arguments<'_>)) -> Result<()> {
        let (size_bytes, block_bytes) = (self.metadata.size_bytes, self.metadata.block_bytes);
        let ratio = self.chunk_ratio();
        // QEMU counts whole sectors.
        let file_bytes = self.file().size_bytes();
        let file_bytes = file_bytes
            .checked_next_multiple_of(512)
            .unwrap_or(file_bytes);
        for block in 0..size_bytes.div_ceil(block_bytes) {
            let chunk = block.checked_div(ratio).unwrap_or(0);
            let (entry, entry_at) = self.entry(block.saturating_add(chunk))?;
            // QEMU accepts unknown states here, too.
            let Ok(PayloadBlock::FullyPresent(at)) = PayloadBlock::decode(entry, entry_at) else {
                continue;
            };
            // QEMU has created images whose last block is incomplete.
            let left = size_bytes.saturating_sub(block.saturating_mul(block_bytes));
            let end = at.saturating_add(block_bytes.min(left));
            if at >= file_bytes {
                let reason = format_args!("block {block} begins past the end of the file");
                found(entry_at, reason);
            } else if end > file_bytes {
                let reason = format_args!("block {block} ends past the end of the file");
                found(entry_at, reason);
            }
            match self.check_place(at, block_bytes, entry_at) {
                Err(e) if e.kind() == ErrorKind::Corrupt => {
                    found(entry_at, format_args!("{}", e.reason()));
                }
                other => other?,
            }
        }
        Ok(())
    }
}
