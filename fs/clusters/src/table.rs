//! The page cache of the file allocation table: read once, changed in memory, written together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::bytes::{index, len_u64, put};
use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::Result;

use crate::device_failed;

/// The size of a page of the table in bytes. It is large enough for the whole table of FAT12, whose
/// entries cross byte boundaries.
pub const PAGE_BYTES: u64 = 64 * 1024;
/// The number of pages to keep: 4 MiB, which has the entries of a million clusters of 32 bits.
/// Changed pages are kept until they are written, whatever their number.
const MAX_PAGES: usize = 64;

/// The bytes of the file allocation table. The first copy is read, all copies are written.
#[derive(Debug)]
pub struct TablePages {
    device: Arc<dyn BlockRead>,
    /// The offsets of the copies in bytes; the first one is read.
    copies: Vec<u64>,
    len_bytes: u64,
    sector_bytes: u64,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    by_number: BTreeMap<u64, Vec<u8>>,
    /// The indices of the table's sectors that differ from the device.
    dirty: BTreeSet<u64>,
}

impl TablePages {
    /// Returns a table of which no page has been read yet.
    pub fn new(
        device: Arc<dyn BlockRead>,
        copies: Vec<u64>,
        len_bytes: u64,
        sector_bytes: u32,
    ) -> Self {
        Self {
            device,
            copies,
            len_bytes,
            sector_bytes: sector_bytes.into(),
            pages: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the entry at byte `at` of the table. `read` gets the page and the entry's position in
    /// it.
    pub fn read<T>(&self, at: u64, read: impl FnOnce(&[u8], usize) -> T) -> Result<T> {
        let mut pages = self.lock();
        let page = self.page(&mut pages, at / PAGE_BYTES)?;
        Ok(read(page, index(at % PAGE_BYTES)))
    }

    /// Changes the entry at byte `at` in memory. `change` gets the page and the entry's position in
    /// it, and returns the entry's new bytes.
    pub fn change<const N: usize>(
        &self,
        at: u64,
        change: impl FnOnce(&[u8], usize) -> [u8; N],
    ) -> Result<()> {
        let mut pages = self.lock();
        let page = self.page(&mut pages, at / PAGE_BYTES)?;
        let within = index(at % PAGE_BYTES);
        let bytes = change(page, within);
        put(page, within, &bytes);
        // An entry of FAT12 can cross a sector boundary.
        for byte in [at, at.saturating_add(len_u64(N)).saturating_sub(1)] {
            pages.dirty.extend(byte.checked_div(self.sector_bytes));
        }
        Ok(())
    }

    /// Reads page `number` without keeping it in the cache.
    pub fn peek<T>(&self, number: u64, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let pages = self.lock();
        match pages.by_number.get(&number) {
            Some(page) => Ok(read(page)),
            None => Ok(read(&self.read_page(number)?)),
        }
    }

    fn page<'a>(&self, pages: &'a mut Pages, number: u64) -> Result<&'a mut Vec<u8>> {
        if !pages.by_number.contains_key(&number) {
            if pages.by_number.len() >= MAX_PAGES && pages.dirty.is_empty() {
                pages.by_number.clear();
            }
            let bytes = self.read_page(number)?;
            pages.by_number.insert(number, bytes);
        }
        Ok(pages.by_number.entry(number).or_default())
    }

    fn read_page(&self, number: u64) -> Result<Vec<u8>> {
        let at = number.saturating_mul(PAGE_BYTES);
        let len_bytes = self.len_bytes.saturating_sub(at).min(PAGE_BYTES);
        let mut bytes = vec![0; index(len_bytes)];
        let start = self.copies.first().copied().unwrap_or(0);
        if !bytes.is_empty() {
            self.device
                .read_at(start.saturating_add(at), &mut bytes)
                .map_err(device_failed)?;
        }
        Ok(bytes)
    }

    /// Returns the number of changed sectors.
    pub fn dirty_sectors(&self) -> usize {
        self.lock().dirty.len()
    }

    /// Writes the changed sectors to all copies.
    pub fn write_dirty(&self, device: &dyn BlockWrite) -> Result<()> {
        let mut pages = self.lock();
        for sector in std::mem::take(&mut pages.dirty) {
            let at = sector.saturating_mul(self.sector_bytes);
            let within = index(at % PAGE_BYTES);
            let end = within.saturating_add(index(self.sector_bytes));
            let page = pages.by_number.get(&(at / PAGE_BYTES));
            let bytes = page.and_then(|page| page.get(within..end.min(page.len())));
            let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
                continue;
            };
            for copy in &self.copies {
                let offset = copy.saturating_add(at);
                device.write_at(offset, bytes).map_err(device_failed)?;
            }
        }
        Ok(())
    }

    /// Discards all changes that have not been written.
    pub fn forget_changes(&self) {
        *self.lock() = Pages::default();
    }
}
