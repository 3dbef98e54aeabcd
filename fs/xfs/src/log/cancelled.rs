//! The table of cancelled buffers.
//!
//! A buffer that was freed may have been reused for a file's contents, which are not logged. Its
//! changes before the cancellation must not be replayed. Changes after the last cancellation are
//! those of a new owner.

use std::collections::HashMap;

use crate::error::{Result, unsupported};

use super::buffer_format::BufferPlace;

/// The largest number of cancelled buffers: some 160 MiB of memory. In a log of 2 GiB, there would
/// be one for each 512 bytes.
const BUFFERS_MAX: usize = 4 << 20;

/// The buffers with cancellations that are still ahead in the log, and the number of these.
#[derive(Debug, Default)]
pub(super) struct Cancelled(HashMap<BufferPlace, u32>);

impl Cancelled {
    /// Counts a cancellation that the first pass has found.
    ///
    /// # Errors
    /// `Unsupported` for too many cancelled buffers.
    pub(super) fn add(&mut self, place: BufferPlace) -> Result<()> {
        if self.0.len() >= BUFFERS_MAX {
            let reason = format!("unsupported log: it cancels more than {BUFFERS_MAX} buffers");
            return Err(unsupported(reason));
        }
        let count = self.0.entry(place).or_default();
        *count = count.saturating_add(1);
        Ok(())
    }

    /// Returns true if the buffer is cancelled by a later transaction.
    pub(super) fn contains(&self, place: BufferPlace) -> bool {
        self.0.contains_key(&place)
    }

    /// Removes a cancellation that the second pass has reached.
    pub(super) fn remove(&mut self, place: BufferPlace) {
        if let Some(count) = self.0.get_mut(&place) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(&place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_cancellation_ends_it() {
        let place = BufferPlace {
            basic_block: 8,
            len_basic_blocks: 8,
        };
        let mut table = Cancelled::default();
        table.add(place).unwrap();
        table.add(place).unwrap();
        table.remove(place);
        assert!(table.contains(place));
        table.remove(place);
        table.remove(place);
        assert!(!table.contains(place));
    }
}
