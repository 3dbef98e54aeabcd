//! The units that were used last.

use std::sync::{Arc, Mutex, PoisonError};

use diskfs_block::Result;

/// The number of units that are kept: as many as readers of one disk usually use at a time.
const KEPT: usize = 4;

/// The place of one unit: empty until the first reader has decompressed it.
type Slot = Arc<Mutex<Option<Arc<[u8]>>>>;

/// The decompressed units that were used last. General caches have no place for units of this size.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Vec<(u64, Slot)>>);

impl Recent {
    /// Returns the unit at this offset of the file, by `make` if it is not kept. Readers that want
    /// the same unit wait for the one that decompresses it.
    pub(crate) fn get_or_make(
        &self,
        offset: u64,
        make: impl FnOnce() -> Result<Arc<[u8]>>,
    ) -> Result<Arc<[u8]>> {
        let slot = self.slot(offset);
        let mut unit = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unit) = &*unit {
            return Ok(Arc::clone(unit));
        }
        let made = make()?;
        *unit = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Returns the slot of a unit, which becomes the last one to be dropped.
    fn slot(&self, offset: u64) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = slots.iter().position(|(of, _)| *of == offset);
        let slot = match kept {
            Some(index) => slots.remove(index),
            None => (offset, Slot::default()),
        };
        let found = Arc::clone(&slot.1);
        slots.insert(0, slot);
        slots.truncate(KEPT);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let recent = Recent::default();
        let get = |offset: u8| {
            let mut made = false;
            let unit = recent.get_or_make(offset.into(), || {
                made = true;
                Ok([offset].into())
            });
            assert_eq!(*unit.unwrap(), [offset]);
            made
        };
        assert!([0, 1, 2, 3].map(get) == [true; 4]);
        assert!(!get(0));
        assert!(get(4));
        assert!(!get(0));
        assert!(get(1));
    }
}
