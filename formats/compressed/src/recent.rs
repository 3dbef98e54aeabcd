//! The units that were used last.

use std::sync::{Arc, Mutex, PoisonError};

use diskfs_block::{Result, bytes};

/// The number of units that are kept: as many as readers of one disk usually use at a time.
const KEPT: u64 = 4;
/// The number of units that are kept however large they are: a copy by several threads reads at the
/// end of one and at the beginning of the next.
const KEPT_MIN: u64 = 2;
/// The memory for units that are kept.
const KEPT_BYTES: u64 = 64 << 20;

/// The place of one unit: empty until the first reader has decompressed it.
type Slot = Arc<Mutex<Option<Arc<[u8]>>>>;

/// The decompressed units that were used last. General caches have no place for units of this size.
#[derive(Debug)]
pub(crate) struct Recent {
    slots: Mutex<Vec<(u64, Slot)>>,
    /// The number of units that are kept.
    kept: usize,
}

impl Recent {
    /// Creates an empty list for units of at most this length.
    pub(crate) fn new(unit_bytes: u64) -> Self {
        let kept = KEPT_BYTES.checked_div(unit_bytes).unwrap_or(KEPT);
        Self {
            slots: Mutex::default(),
            kept: bytes::index(kept.clamp(KEPT_MIN, KEPT)),
        }
    }

    /// Returns the unit at this offset of the file, by `make` if it is not kept. Readers that want
    /// the same unit wait for the one that decompresses it. `make` gets the unit that is dropped for
    /// the new one, to use its memory: an allocator would keep such large pieces after they are freed.
    pub(crate) fn get_or_make(
        &self,
        offset: u64,
        make: impl FnOnce(Option<Arc<[u8]>>) -> Result<Arc<[u8]>>,
    ) -> Result<Arc<[u8]>> {
        let (slot, dropped) = self.slot(offset);
        let mut unit = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unit) = &*unit {
            return Ok(Arc::clone(unit));
        }
        let dropped = dropped.and_then(Arc::into_inner);
        let dropped =
            dropped.and_then(|it| it.into_inner().unwrap_or_else(PoisonError::into_inner));
        let made = make(dropped)?;
        *unit = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Returns the slot of a unit, which becomes the last one to be dropped, and the slot that is
    /// dropped for it.
    fn slot(&self, offset: u64) -> (Slot, Option<Slot>) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = slots.iter().position(|(of, _)| *of == offset);
        let slot = match kept {
            Some(index) => slots.remove(index),
            None => (offset, Slot::default()),
        };
        let found = Arc::clone(&slot.1);
        slots.insert(0, slot);
        let dropped = (slots.len() > self.kept).then(|| slots.pop());
        (found, dropped.flatten().map(|(_, slot)| slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the units among these that have to be decompressed.
    fn made(recent: &Recent, offsets: &[u8]) -> Vec<u8> {
        let mut made = Vec::new();
        for &offset in offsets {
            let unit = recent.get_or_make(offset.into(), |_| {
                made.push(offset);
                Ok([offset].into())
            });
            assert_eq!(*unit.unwrap(), [offset]);
        }
        made
    }

    #[test]
    fn the_last_ones_are_kept() {
        let small = Recent::new(16 << 20);
        assert_eq!(made(&small, &[0, 1, 2, 3]), [0, 1, 2, 3]);
        assert_eq!(made(&small, &[0, 4, 0, 1]), [4, 1]);
    }

    #[test]
    fn large_ones_are_fewer() {
        for unit_bytes in [24 << 20, 32 << 20, u64::MAX] {
            let large = Recent::new(unit_bytes);
            assert_eq!(made(&large, &[0, 1, 0, 1, 2, 1, 0]), [0, 1, 2, 0]);
        }
        assert_eq!(made(&Recent::new(0), &[0, 1, 2, 0]), [0, 1, 2]);
    }
}
