//! The check of the block map.

use std::fmt::Arguments;

use diskfs_block::{Result, bytes};

use crate::header::ALLOCATED_AT;
use crate::vdi::{DISCARDED, Vdi};

/// The number of bytes of the block map to read at once.
const PIECE_BYTES: u64 = 64 << 10;

impl Vdi {
    /// Checks the block map, as `qemu-img check` does: every entry refers to a block of the file, no
    /// two entries to the same one, and the header has their number. Calls `found` with the byte
    /// and the description of each error.
    ///
    /// Memory holds one bit for each block, 64 MiB at most.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn check(&self, found: &mut dyn FnMut(u64, Arguments<'_>)) -> Result<()> {
        let blocks = self.header.blocks;
        let mut used = vec![0_u64; bytes::index(blocks.div_ceil(64))];
        let mut allocated = 0_u64;
        self.for_each_entry(&mut |number, entry| {
            let at = self.header.map_at.saturating_add(number.saturating_mul(4));
            if entry >= DISCARDED {
                return;
            }
            let entry = u64::from(entry);
            if entry >= blocks {
                let reason =
                    format_args!("block {number} refers to block {entry} of {blocks} in the file");
                found(at, reason);
                return;
            }
            allocated = allocated.saturating_add(1);
            if !mark(&mut used, entry) {
                let reason =
                    format_args!("block {number} refers to block {entry}, as another block does");
                found(at, reason);
            }
        })?;
        let stated = self.header.allocated;
        if stated != allocated {
            let reason =
                format_args!("the header states {stated} allocated blocks, not {allocated}");
            found(ALLOCATED_AT, reason);
        }
        Ok(())
    }

    /// Calls `visit` with the number and the entry of each block.
    fn for_each_entry(&self, visit: &mut dyn FnMut(u64, u32)) -> Result<()> {
        let len_bytes = self.header.blocks.saturating_mul(4);
        let mut piece = vec![0; bytes::index(PIECE_BYTES.min(len_bytes))];
        let mut numbers = 0_u64..;
        let mut at = 0;
        while at < len_bytes {
            let len = bytes::index(len_bytes.saturating_sub(at)).min(piece.len());
            let part = piece.get_mut(..len).unwrap_or_default();
            self.file
                .read_at(self.header.map_at.saturating_add(at), part)?;
            let (entries, _) = part.as_chunks::<4>();
            for (number, entry) in numbers.by_ref().zip(entries) {
                visit(number, u32::from_le_bytes(*entry));
            }
            at = at.saturating_add(bytes::len_u64(len));
        }
        Ok(())
    }
}

/// Sets the bit of a block; returns false if it was set.
fn mark(used: &mut [u64], block: u64) -> bool {
    let bit = 1_u64.rotate_left(u32::try_from(block % 64).unwrap_or(0));
    let Some(word) = used.get_mut(bytes::index(block / 64)) else {
        return false;
    };
    let is_new = *word & bit == 0;
    *word |= bit;
    is_new
}
