//! Changed slices of tables that are not yet written to the file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use diskfs_block::{BlockWrite, Result};

use crate::qcow2::cache::TableSlice;
use crate::qcow2::units::HostOffset;

/// The number of words to write together: 4 KiB. The host then does not read a page back to change
/// a part of it, and a table of 64 KiB is not written for one entry.
const UNIT_WORDS: usize = 512;
/// The largest number of units in a slice.
const UNITS_MAX: usize = 64;

/// A slice and its dirty units.
#[derive(Debug)]
struct Dirty {
    slice: Arc<TableSlice>,
    units: u64,
}

/// The slices to write, by their offset. They are referenced, so the store keeps them.
#[derive(Debug, Default)]
pub(super) struct DirtySlices {
    by_place: BTreeMap<HostOffset, Dirty>,
}

/// The part of a slice to write, as it was when it was taken.
#[derive(Debug)]
pub(super) struct TableWrite {
    dirty: Dirty,
    runs: Vec<(HostOffset, Vec<u8>)>,
}

impl DirtySlices {
    /// Marks these words as changed.
    pub(super) fn mark(&mut self, slice: &Arc<TableSlice>, words: Range<usize>) {
        let last = words.end.max(1).saturating_sub(1);
        let (first, last) = (words.start / UNIT_WORDS, last / UNIT_WORDS);
        let units = (first..=last.min(UNITS_MAX)).fold(0_u64, |units, unit| units | bit(unit));
        self.mark_units(Arc::clone(slice), units);
    }

    fn mark_units(&mut self, slice: Arc<TableSlice>, units: u64) {
        let dirty = self
            .by_place
            .entry(slice.at())
            .or_insert(Dirty { slice, units: 0 });
        dirty.units |= units;
    }

    pub(super) fn len(&self) -> usize {
        self.by_place.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// Takes out all dirty units with their current contents.
    pub(super) fn take(&mut self) -> Vec<TableWrite> {
        let all = std::mem::take(&mut self.by_place);
        all.into_values().map(TableWrite::new).collect()
    }

    /// Puts back what could not be written. The next attempt writes the contents of that time.
    pub(super) fn put_back(&mut self, writes: Vec<TableWrite>) {
        for write in writes {
            self.mark_units(write.dirty.slice, write.dirty.units);
        }
    }
}

fn bit(unit: usize) -> u64 {
    u32::try_from(unit)
        .ok()
        .and_then(|unit| 1_u64.checked_shl(unit))
        .unwrap_or(0)
}

impl TableWrite {
    fn new(dirty: Dirty) -> Self {
        let mut runs = Vec::new();
        let mut unit = 0;
        while unit < UNITS_MAX {
            let end = (unit..UNITS_MAX)
                .find(|&unit| dirty.units & bit(unit) == 0)
                .unwrap_or(UNITS_MAX);
            if end > unit {
                let first = unit.saturating_mul(UNIT_WORDS);
                let end_word = end.saturating_mul(UNIT_WORDS).min(dirty.slice.len());
                let bytes = dirty.slice.copy_of(first..end_word);
                runs.push((dirty.slice.place_of(first), bytes));
            }
            unit = end.saturating_add(1);
        }
        Self { dirty, runs }
    }
}

/// Writes all of it to the image.
pub(super) fn write_all(writes: &[TableWrite], image: &dyn BlockWrite) -> Result<()> {
    for (at, bytes) in writes.iter().flat_map(|write| &write.runs) {
        image.write_at(at.0, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_block::Memory;

    #[test]
    fn only_what_is_dirty_is_written() {
        let memory = Memory::new(vec![9; 3 << 16]);
        let slice = Arc::new(TableSlice::zeroed(HostOffset(1 << 16), 1 << 16));
        let mut dirty = DirtySlices::default();
        slice.set_word(511, 1);
        slice.set_word(512, 2);
        dirty.mark(&slice, 511..513);
        slice.set_word(8191, 3);
        dirty.mark(&slice, 8191..8192);
        let writes = dirty.take();
        assert!(dirty.is_empty());
        let places: Vec<_> = writes[0]
            .runs
            .iter()
            .map(|(at, b)| (at.0, b.len()))
            .collect();
        assert_eq!(places, [(1 << 16, 8192), ((2 << 16) - 4096, 4096)]);
        write_all(&writes, &memory).unwrap();
        let bytes = memory.to_vec();
        assert_eq!((bytes[(1 << 16) - 1], bytes[2 << 16]), (9, 9));
        assert_eq!(bytes[(1 << 16) + 511 * 8 + 7], 1);
        assert_eq!(bytes[(1 << 16) + 8192], 9);
        dirty.put_back(writes);
        assert_eq!(dirty.len(), 1);
        // A slice that is shorter than a unit.
        let short = Arc::new(TableSlice::zeroed(HostOffset(0), 24));
        let mut dirty = DirtySlices::default();
        dirty.mark(&short, 0..1);
        assert_eq!(dirty.take()[0].runs, [(HostOffset(0), vec![0; 24])]);
    }
}
