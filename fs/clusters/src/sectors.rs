//! The cache of directory sectors: read once, changed in memory, written together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::{BlockRead, BlockWrite};

use diskfs_block::bytes::{array, index, len_u64, put};
use diskfs_vfs::{Error, ErrorKind, Result};

use crate::device_failed;
use crate::place::{ENTRY_LEN, EntryPlace};

/// The number of unchanged sectors to keep: 4 MiB of the smallest size.
const MAX_SECTORS: usize = 8192;

/// The cache of directory sectors.
#[derive(Debug)]
pub struct Sectors {
    device: Arc<dyn BlockRead>,
    sector_bytes: u64,
    cached: Mutex<Cached>,
}

#[derive(Debug, Default)]
struct Cached {
    by_offset: BTreeMap<u64, Vec<u8>>,
    dirty: BTreeSet<u64>,
}

impl Sectors {
    /// Returns an empty cache.
    pub fn new(device: Arc<dyn BlockRead>, sector_bytes: u32) -> Self {
        Self {
            device,
            sector_bytes: sector_bytes.into(),
            cached: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Cached> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the offset of the sector that contains an entry, and the entry's position in it.
    fn split(&self, place: EntryPlace) -> (u64, usize) {
        let within = place.offset().checked_rem(self.sector_bytes).unwrap_or(0);
        (place.offset().saturating_sub(within), index(within))
    }

    /// Reads the entry at a place.
    pub fn entry(&self, place: EntryPlace) -> Result<[u8; ENTRY_LEN]> {
        let (offset, within) = self.split(place);
        let mut cached = self.lock();
        let sector = self.sector(&mut cached, offset)?;
        Ok(array(sector, within).unwrap_or_default())
    }

    /// Changes the entry at a place, in memory.
    pub fn put(&self, place: EntryPlace, bytes: &[u8; ENTRY_LEN]) -> Result<()> {
        let (offset, within) = self.split(place);
        let mut cached = self.lock();
        put(self.sector(&mut cached, offset)?, within, bytes);
        cached.dirty.insert(offset);
        Ok(())
    }

    fn sector<'a>(&self, cached: &'a mut Cached, offset: u64) -> Result<&'a mut Vec<u8>> {
        if !cached.by_offset.contains_key(&offset) {
            let end = offset.checked_add(self.sector_bytes);
            if end.is_none_or(|end| end > self.device.size_bytes()) {
                return Err(Error::new(ErrorKind::NotFound, "no such file"));
            }
            let mut bytes = vec![0; index(self.sector_bytes)];
            self.device
                .read_at(offset, &mut bytes)
                .map_err(device_failed)?;
            cached.make_room();
            cached.by_offset.insert(offset, bytes);
        }
        Ok(cached.by_offset.entry(offset).or_default())
    }

    /// Reads a run up to the end of its last sector, and keeps the sectors in the cache.
    pub fn read_run(&self, offset: u64, len_bytes: u64) -> Result<Vec<u8>> {
        let whole = len_bytes.checked_next_multiple_of(self.sector_bytes);
        let mut bytes = vec![0; index(whole.unwrap_or(len_bytes))];
        let mut cached = self.lock();
        self.device
            .read_at(offset, &mut bytes)
            .map_err(device_failed)?;
        let mut at = offset;
        for piece in bytes.chunks_mut(index(self.sector_bytes)) {
            if let Some(sector) = cached.by_offset.get(&at) {
                piece.copy_from_slice(sector);
            } else {
                cached.make_room();
                cached.by_offset.insert(at, piece.to_vec());
            }
            at = at.saturating_add(len_u64(piece.len()));
        }
        Ok(bytes)
    }

    /// Returns true if two entries are in one sector, so that they are written, or lost, together.
    pub fn are_in_one_sector(&self, a: EntryPlace, b: EntryPlace) -> bool {
        self.split(a).0 == self.split(b).0
    }

    /// Returns the number of changed sectors.
    pub fn dirty_sectors(&self) -> usize {
        self.lock().dirty.len()
    }

    /// Writes the changed sectors.
    pub fn write_dirty(&self, device: &dyn BlockWrite) -> Result<()> {
        let mut cached = self.lock();
        for offset in std::mem::take(&mut cached.dirty) {
            if let Some(bytes) = cached.by_offset.get(&offset) {
                device.write_at(offset, bytes).map_err(device_failed)?;
            }
        }
        Ok(())
    }

    /// Removes a range from the cache, because it no longer belongs to a directory.
    pub fn forget(&self, offset: u64, len_bytes: u64) {
        let mut cached = self.lock();
        let range = offset..offset.saturating_add(len_bytes);
        let known: Vec<u64> = cached.by_offset.range(range).map(|(&at, _)| at).collect();
        for at in known {
            cached.by_offset.remove(&at);
            cached.dirty.remove(&at);
        }
    }
}

impl Cached {
    fn make_room(&mut self) {
        if self.by_offset.len().saturating_sub(self.dirty.len()) >= MAX_SECTORS {
            let dirty = &self.dirty;
            self.by_offset.retain(|offset, _| dirty.contains(offset));
        }
    }
}
