//! The check of the grain tables.

use std::fmt::Arguments;

use diskfs_block::{Error, ErrorKind, ImageMap, Result};

use crate::extent::{Extent, Storage};
use crate::vmdk::Vmdk;

/// The number of runs of an image that has only a few tables and no grains.
const RUNS_MIN: u64 = 1 << 20;

impl Vmdk {
    /// Checks that the tables of all extents can be read, and refer to grains within their files.
    /// Calls `found` with the byte and the description of the first error, and stops there, as
    /// `qemu-img check` does.
    ///
    /// # Errors
    /// `Corrupt` if tables are shared so often that checking all of them would take too long; the
    /// errors of reading.
    pub fn check(&self, found: &mut dyn FnMut(u64, Arguments<'_>)) -> Result<()> {
        let mut at = 0;
        let mut runs_left = self.runs_max();
        while at < self.size_bytes() {
            runs_left = runs_left.checked_sub(1).ok_or_else(shared)?;
            match self.run_at(at, self.size_bytes().saturating_sub(at)) {
                Ok(run) => at = at.saturating_add(run.len_bytes),
                Err(e) if e.kind() == ErrorKind::Corrupt => {
                    let place = e.offset().unwrap_or(0);
                    match e.path() {
                        Some(file) => {
                            let file = file.to_string_lossy();
                            let file = file.escape_debug();
                            found(place, format_args!("{} (file {file})", e.reason()));
                        }
                        None => found(place, format_args!("{}", e.reason())),
                    }
                    return Ok(());
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Returns the largest number of runs of a disk whose grains and tables all have their own
    /// sectors: each of them can end one run and begin another.
    fn runs_max(&self) -> u64 {
        let sectors = |extent: &Extent| match &extent.storage {
            Storage::Zero => 0,
            Storage::Flat { .. } => 1,
            Storage::Sparse(map) => map.device.size_bytes() / 512,
        };
        let sectors = self.extents.iter().map(sectors);
        let all = sectors.fold(0, u64::saturating_add);
        all.saturating_mul(4).saturating_add(RUNS_MIN)
    }
}

fn shared() -> Error {
    Error::corrupt("grain tables are shared, so that checking all of them would take too long")
}
