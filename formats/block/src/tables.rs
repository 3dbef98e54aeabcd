//! Tables of an image, read in pieces on demand.

use std::sync::Arc;

use crate::bytes::{index, len_u64};
use crate::image_map::{BlockOffset, MappedRun, RunStorage};
use crate::{BlockRead, Cache, CacheOptions, Error, Result, check_bounds};

/// The size of a cached piece of a table: 1024 entries of 32 bits, so that one read serves the
/// entries around it, too.
const PIECE_BYTES: u32 = 4096;
/// The number of bytes of a bitmap to examine at once.
const BITMAP_STEP_BYTES: u64 = 64;

/// A reader of the tables of an image, with a cache of bounded size. Nothing is read before it is
/// needed, so an image with huge tables opens as fast as a small one.
#[derive(Debug)]
pub struct Tables {
    cache: Cache,
}

/// The order of the bits in a byte of a bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitOrder {
    /// The first bit is the least significant one.
    LowFirst,
    /// The first bit is the most significant one.
    HighFirst,
}

/// A bitmap with one bit for each sector of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectorBitmap {
    /// The offset of the bitmap in the file, in bytes.
    pub at: u64,
    /// The size of a sector in bytes; never zero.
    pub sector_bytes: u64,
    /// The order of the bits.
    pub order: BitOrder,
}

/// A run of equal bits of a bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BitRun {
    /// The value of the bits.
    is_set: bool,
    /// The number of bits; never zero.
    count: u64,
}

impl Tables {
    /// Creates a reader of the tables in `file` that caches about `budget_bytes` of them.
    ///
    /// # Errors
    /// As for [`Cache::new`].
    pub fn new(file: Arc<dyn BlockRead>, budget_bytes: u64) -> Result<Self> {
        let options = CacheOptions {
            budget_bytes,
            block_bytes: PIECE_BYTES,
            ..CacheOptions::default()
        };
        Ok(Self {
            cache: Cache::new(file, options)?,
        })
    }

    /// Returns the size of the file in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.cache.size_bytes()
    }

    /// Fails unless a table of `entries` entries of `entry_bytes` lies within the file.
    ///
    /// # Errors
    /// `Corrupt` with the byte of the table; the reason begins with `name`.
    pub fn check(&self, name: &str, table: u64, entries: u64, entry_bytes: u64) -> Result<()> {
        let size_bytes = self.cache.size_bytes();
        let lies_within = entries
            .checked_mul(entry_bytes)
            .is_some_and(|len| check_bounds(table, len, size_bytes).is_ok());
        if lies_within {
            return Ok(());
        }
        let reason = format!(
            "{name} of {entries} entries does not lie within the file of {size_bytes} bytes; the \
             file may be truncated"
        );
        Err(Error::corrupt(reason).at(table))
    }

    /// Returns the entry of `N` bytes with number `entry` in the table at `table`.
    ///
    /// # Errors
    /// `Corrupt` with the byte if the entry does not lie within the file; the errors of reading.
    pub fn entry<const N: usize>(&self, table: u64, entry: u64) -> Result<[u8; N]> {
        let at = place(table, entry, len_u64(N));
        let mut bytes = [0; N];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the run of equal bits from bit `first` of the bitmap at `bitmap` on: at most `max`
    /// bits, which need not be all of the run.
    ///
    /// # Errors
    /// As for [`entry`](Self::entry).
    fn bit_run(&self, bitmap: u64, first: u64, max: u64, order: BitOrder) -> Result<BitRun> {
        let skipped = first % 8;
        let wanted = skipped.saturating_add(max).div_ceil(8);
        let mut piece = [0; 64];
        let len = index(wanted.clamp(1, BITMAP_STEP_BYTES));
        let piece = piece.get_mut(..len).unwrap_or_default();
        self.read(bitmap.saturating_add(first / 8), piece)?;
        Ok(first_run(piece, skipped, max.max(1), order))
    }

    /// Returns the first part of a stored run that a bitmap of sectors marks as stored, or the part
    /// that it does not mark, which is absent. The run begins at the byte `within` of the range that
    /// the bitmap covers.
    ///
    /// # Errors
    /// As for [`entry`](Self::entry).
    pub fn marked_run(
        &self,
        bitmap: SectorBitmap,
        within: u64,
        stored: MappedRun,
    ) -> Result<MappedRun> {
        let first = BlockOffset::of(within, bitmap.sector_bytes);
        let end = first.within.saturating_add(stored.len_bytes);
        let sectors = end.div_ceil(bitmap.sector_bytes.max(1));
        let run = self.bit_run(bitmap.at, first.number, sectors, bitmap.order)?;
        let marked = first.run(stored.storage, run.count, stored.len_bytes);
        Ok(MappedRun {
            len_bytes: marked.len_bytes,
            storage: if run.is_set {
                stored.storage
            } else {
                RunStorage::Absent
            },
        })
    }

    fn read(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        let size_bytes = self.cache.size_bytes();
        if check_bounds(at, len_u64(buf.len()), size_bytes).is_err() {
            let reason = format!(
                "table is past the end of the file ({size_bytes:#x}); the file may be truncated"
            );
            return Err(Error::corrupt(reason).at(at));
        }
        self.cache.read_at(at, buf)
    }
}

/// Returns the offset of an entry. A sum that does not fit is past the end of every file.
const fn place(table: u64, entry: u64, entry_bytes: u64) -> u64 {
    table.saturating_add(entry.saturating_mul(entry_bytes))
}

/// Returns the run of equal bits after the `skipped` first ones.
fn first_run(bytes: &[u8], skipped: u64, max: u64, order: BitOrder) -> BitRun {
    let bits = bytes.iter().flat_map(|byte| {
        (0..8_u32).map(move |bit| match order {
            BitOrder::LowFirst => byte.wrapping_shr(bit) & 1 == 1,
            BitOrder::HighFirst => byte.wrapping_shl(bit) & 0x80 != 0,
        })
    });
    let mut bits = bits.skip(index(skipped)).take(index(max));
    let is_set = bits.next().unwrap_or(false);
    let more = bits.take_while(|bit| *bit == is_set).count();
    BitRun {
        is_set,
        count: len_u64(more).saturating_add(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Memory};

    fn tables(bytes: Vec<u8>) -> Tables {
        Tables::new(Arc::new(Memory::new(bytes)), 64 << 10).unwrap()
    }

    #[test]
    fn entries_lie_within_the_file() {
        let tables = tables((0..=255).collect());
        assert_eq!(tables.entry::<4>(8, 2).unwrap(), [16, 17, 18, 19]);
        assert_eq!(tables.entry::<8>(0, 31).unwrap()[7], 255);
        for (table, entry) in [(0, 32), (249, 0), (u64::MAX, 1), (0, u64::MAX)] {
            let e = tables.entry::<8>(table, entry).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corrupt);
        }
        assert!(tables.check("table", 128, 32, 4).is_ok());
        assert!(tables.check("table", 128, 33, 4).is_err());
        assert!(tables.check("table", 0, u64::MAX, 4).is_err());
    }

    #[test]
    fn runs_of_bits_in_both_orders() {
        let tables = tables(vec![0b1110_0000, 0xff, 0]);
        let run = |first, max, order| {
            let run = tables.bit_run(0, first, max, order).unwrap();
            (run.is_set, run.count)
        };
        assert_eq!(run(0, 20, BitOrder::LowFirst), (false, 5));
        assert_eq!(run(5, 19, BitOrder::LowFirst), (true, 11));
        assert_eq!(run(0, 20, BitOrder::HighFirst), (true, 3));
        assert_eq!(run(3, 19, BitOrder::HighFirst), (false, 5));
        assert_eq!(run(16, 8, BitOrder::HighFirst), (false, 8));
        assert_eq!(run(9, 2, BitOrder::LowFirst), (true, 2));
        assert!(tables.bit_run(0, 24, 1, BitOrder::LowFirst).is_err());
    }
}
