//! The writer of sparse images.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::bytes::{index, is_zero, len_u64};
use diskfs_block::{BlockWrite, Error, Result, check_bounds};

use super::options::{GRAIN_BYTES, WriteOptions};
use super::sparse_layout::SparseLayout;

/// The steps in which the file grows.
const GROWTH_BYTES: u64 = 16 << 20;

/// A writer of a sparse image (`monolithicSparse`). Any number of threads can write; grains of
/// zeroes are left out. There is no image before [`finish`](Self::finish): the header is written
/// last.
///
/// The tables are kept in memory: 2 KiB for each 32 MiB of the disk with data.
#[derive(Debug)]
pub struct SparseWriter {
    file: Arc<dyn BlockWrite>,
    capacity_bytes: u64,
    layout: Mutex<SparseLayout>,
}

/// A run of grains with data that belong together in the file, too.
struct Run<'a> {
    place: u64,
    data: &'a [u8],
}

impl SparseWriter {
    /// Begins an image in an empty file.
    ///
    /// # Errors
    /// `Invalid` for invalid options and for a file that is not empty.
    pub fn new(file: Arc<dyn BlockWrite>, options: WriteOptions) -> Result<Self> {
        let layout = SparseLayout::new(options)?;
        if file.size_bytes() != 0 {
            return Err(Error::invalid("a VMDK is written to an empty file only"));
        }
        Ok(Self {
            file,
            capacity_bytes: layout.capacity_bytes(),
            layout: Mutex::new(layout),
        })
    }

    /// Writes bytes of the disk: whole grains, except at the end of the disk. A grain can be
    /// written again, but not by two threads at once.
    ///
    /// # Errors
    /// `Invalid` for parts of grains, `OutOfBounds`, the errors of writing.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let len_bytes = len_u64(data.len());
        check_bounds(offset, len_bytes, self.capacity_bytes)?;
        let end = offset.saturating_add(len_bytes);
        let is_whole = end.is_multiple_of(GRAIN_BYTES) || end == self.capacity_bytes;
        if !offset.is_multiple_of(GRAIN_BYTES) || !is_whole {
            return Err(Error::invalid("a VMDK is written in whole grains of 64 KiB").at(offset));
        }
        for run in self.allocate(offset.div_euclid(GRAIN_BYTES), data)? {
            self.file.write_at(run.place, run.data)?;
        }
        Ok(())
    }

    /// Ends the image: writes the tables, makes everything durable, and then writes the header.
    ///
    /// # Errors
    /// The errors of writing.
    pub fn finish(self) -> Result<()> {
        let layout = self
            .layout
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let file = &*self.file;
        // Grains behind the last one were prepared, or there are none at all.
        file.set_size(layout.end())?;
        layout.write_tables(&mut |at, bytes| file.write_at(at, bytes))?;
        file.flush()?;
        file.write_at(0, &layout.header())?;
        file.flush()
    }

    fn layout(&self) -> MutexGuard<'_, SparseLayout> {
        self.layout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the places of the grains of `data`, of which the first is `first`, and allocates
    /// those that are new and not zero.
    fn allocate<'a>(&self, first: u64, data: &'a [u8]) -> Result<Vec<Run<'a>>> {
        let mut runs: Vec<Run<'a>> = Vec::new();
        let mut layout = self.layout();
        let mut at = 0_usize;
        for (grain, part) in (first..).zip(data.chunks(index(GRAIN_BYTES))) {
            let start = at;
            at = at.saturating_add(part.len());
            let place = match layout.place_of(grain) {
                Some(place) => place,
                None if is_zero(part) => continue,
                None => layout.allocate(grain)?,
            };
            match runs.last_mut() {
                Some(run) if run.reaches(place, part) => {
                    let from = start.saturating_sub(run.data.len());
                    run.data = data.get(from..at).unwrap_or(part);
                }
                _ => runs.push(Run { place, data: part }),
            }
        }
        if layout.end() > self.file.size_bytes() {
            self.file
                .set_size(layout.end().saturating_add(GROWTH_BYTES))?;
        }
        Ok(runs)
    }
}

impl Run<'_> {
    /// Returns true if `part` at `place` of the file follows the run, in the file and in memory.
    fn reaches(&self, place: u64, part: &[u8]) -> bool {
        let end = self.place.saturating_add(len_u64(self.data.len()));
        end == place && self.data.as_ptr_range().end == part.as_ptr()
    }
}
