//! An image of a format that only maps: reading for every [`ImageMap`].

pub(crate) mod check;
mod compressed;
mod map_image;
mod package;
mod runs;
mod windows_path;

use std::path::PathBuf;
use std::sync::Arc;

use diskfs_block::{BlockRead, ByteCache, CompressedUnit, Error, ImageMap, Result, RunStorage};

use crate::layer::{Layer, Status};
use crate::mapped::runs::{Run, Runs};
use crate::numbers::{to_u64, to_usize};

pub(crate) use compressed::{open as open_compressed, refuse_other_formats};
pub(crate) use map_image::{MapImage, ParentFormat, ParentLink};

/// The largest number of runs to prefetch in one call. Looking up more would be wasted if the
/// caller stops earlier.
const AHEAD_RUNS_MAX: usize = 1024;
/// The largest distance to look ahead in one call. Tables can map a huge disk to the same few
/// blocks, so a limit on the number of runs alone is not enough.
const AHEAD_MAX_BYTES: u64 = 256 << 20;
/// The smallest run that is worth a system call to prefetch: a page.
const ADVISE_MIN_BYTES: u64 = 4096;
/// The smallest budget for decompressed units: eight of the usual 256 KiB to 1 MiB.
const UNITS_MIN_BYTES: u64 = 8 << 20;
/// The usual size of a unit, from which the cache computes its number of entries.
const UNIT_BYTES: u64 = 256 << 10;

/// The decompressed units of all images of a chain, by the number of the image.
#[derive(Debug)]
pub(crate) struct UnitCache(ByteCache<(u32, CompressedUnit), [u8]>);

impl UnitCache {
    /// Creates a cache of half of the whole budget, as for clusters of qcow2.
    pub(crate) fn new(budget_bytes: u64) -> Self {
        let budget_bytes = (budget_bytes / 2).max(UNITS_MIN_BYTES);
        Self(ByteCache::new(budget_bytes, UNIT_BYTES))
    }
}

/// The properties of a format's files besides the map.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StorageRules {
    /// The number of bytes that may be missing at the end of a file, and read as zeroes: less than
    /// a cluster in formats whose last cluster may be truncated, else none.
    pub(crate) missing_max_bytes: u64,
    /// True if `map` asks the file below for holes, because the format stores all blocks.
    pub(crate) asks_for_holes: bool,
    /// True if `map` says that what no image stores is present, as zeroes: QEMU's answer for formats
    /// of which it knows no backing files.
    pub(crate) absent_is_zero: bool,
    /// The offset of file 0 in the image file, which `map` adds.
    pub(crate) start_bytes: u64,
}

/// The surroundings of an image: files, parent and caches.
#[derive(Debug)]
pub(crate) struct MappedParts {
    pub(crate) path: PathBuf,
    pub(crate) map: Arc<dyn ImageMap>,
    /// The files in which runs are stored: the image, then the files that it names.
    pub(crate) files: Vec<Arc<dyn BlockRead>>,
    pub(crate) rules: StorageRules,
    /// The tables to check, if the format has a check.
    pub(crate) tables: Option<check::CheckedTables>,
    /// The parent or backing file.
    pub(crate) parent: Option<Arc<dyn Layer>>,
    pub(crate) units: Arc<UnitCache>,
    /// The number of the image in its chain.
    pub(crate) layer: u32,
}

/// An opened image of a format that only maps.
#[derive(Debug)]
pub(crate) struct Mapped(MappedParts);

impl Mapped {
    pub(crate) const fn new(parts: MappedParts) -> Self {
        Self(parts)
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.0.map.size_bytes()
    }

    pub(crate) fn block_size(&self) -> u32 {
        let image = self.0.files.first();
        image.map_or(512, |image| image.block_size())
    }

    /// Fills `buf` with the guest's bytes at `offset`; the caller has checked the range.
    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read(offset, buf).map_err(|e| e.in_file(&self.0.path))
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len_bytes = to_u64(buf.len());
        let mut runs = Runs::new(self.0.map.as_ref(), offset, len_bytes);
        match runs.next_run()? {
            None => Ok(()),
            Some(run) if run.len_bytes >= len_bytes => self.read_run(&run, buf),
            Some(first) => {
                let runs = runs.collect_after(first)?;
                self.advise(&runs);
                self.read_runs(&runs, buf)
            }
        }
    }

    /// Has the files below prefetch all runs but the first, so that a disk works on them in
    /// parallel while the first is read.
    fn advise(&self, runs: &[Run]) {
        let later = runs.iter().skip(1);
        for run in later.filter(|run| run.len_bytes >= ADVISE_MIN_BYTES) {
            self.run_will_need(run);
        }
    }

    fn read_runs(&self, runs: &[Run], buf: &mut [u8]) -> Result<()> {
        let mut rest = buf;
        for run in runs {
            let (piece, after) = split(rest, run.len_bytes);
            self.read_run(run, piece)?;
            rest = after;
        }
        Ok(())
    }

    fn read_run(&self, run: &Run, buf: &mut [u8]) -> Result<()> {
        match run.storage {
            RunStorage::Stored { file, offset } => self.read_stored(file, offset, buf),
            RunStorage::Absent => self.read_parent(run.at, buf),
            RunStorage::Compressed { unit, skip_bytes } => self.read_unit(unit, skip_bytes, buf),
            RunStorage::Zero => {
                buf.fill(0);
                Ok(())
            }
        }
    }

    fn file(&self, number: usize) -> Result<&dyn BlockRead> {
        let file = self.0.files.get(number);
        let missing = || Error::corrupt(format!("image refers to its missing file {number}"));
        file.map(AsRef::as_ref).ok_or_else(missing)
    }

    fn read_stored(&self, number: usize, offset: u64, buf: &mut [u8]) -> Result<()> {
        let file = self.file(number)?;
        let there = self.stored_len(file, offset, to_u64(buf.len()))?;
        let (stored, missing) = split(buf, there);
        missing.fill(0);
        if stored.is_empty() {
            return Ok(());
        }
        file.read_at(offset, stored)
    }

    /// Returns how many of `len_bytes` at `offset` the file has. A file may be a little shorter in
    /// some formats; in the others, and beyond that, it was truncated.
    fn stored_len(&self, file: &dyn BlockRead, offset: u64, len_bytes: u64) -> Result<u64> {
        let size_bytes = file.size_bytes();
        let end = offset.saturating_add(len_bytes);
        if end <= size_bytes {
            return Ok(len_bytes);
        }
        if end.saturating_sub(size_bytes) > self.0.rules.missing_max_bytes {
            let reason = format!(
                "data is past the end of the file ({size_bytes:#x}); the file may be truncated"
            );
            return Err(Error::corrupt(reason).at(offset.max(size_bytes)));
        }
        Ok(size_bytes.saturating_sub(offset))
    }

    fn read_parent(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        let Some(parent) = &self.0.parent else {
            buf.fill(0);
            return Ok(());
        };
        // Bytes past the end of a shorter parent read as zeroes.
        let there = parent.size_bytes().saturating_sub(at);
        let (stored, missing) = split(buf, there);
        missing.fill(0);
        if stored.is_empty() {
            return Ok(());
        }
        parent.read_at(at, stored)
    }

    /// Reads a part of a unit, from the cache if it is there. A unit that is wanted whole is not
    /// cached.
    fn read_unit(&self, unit: CompressedUnit, skip_bytes: u64, buf: &mut [u8]) -> Result<()> {
        let key = (self.0.layer, unit);
        let units = &self.0.units.0;
        let is_whole = to_u64(buf.len()) == unit.unpacked_bytes;
        let unpack = || self.0.map.decompress(unit);
        let unpacked = match units.get(&key) {
            Some(unpacked) => unpacked,
            None if is_whole => unpack()?,
            None => units.get_or_make(&key, unpack)?,
        };
        let start = to_usize(skip_bytes);
        let part = unpacked.get(start..start.saturating_add(buf.len()));
        let short = || Error::corrupt("compressed data is too short").at(unit.offset);
        buf.copy_from_slice(part.ok_or_else(short)?);
        Ok(())
    }

    pub(crate) fn will_need(&self, offset: u64, len_bytes: u64) {
        let len_bytes = len_bytes.min(AHEAD_MAX_BYTES);
        let mut runs = Runs::new(self.0.map.as_ref(), offset, len_bytes);
        for _ in 0..AHEAD_RUNS_MAX {
            // The read that follows will report the error, with its place.
            let Ok(Some(run)) = runs.next_run() else {
                break;
            };
            self.run_will_need(&run);
        }
    }

    fn run_will_need(&self, run: &Run) {
        match run.storage {
            RunStorage::Stored { file, offset } => {
                if let Ok(file) = self.file(file) {
                    file.will_need(offset, run.len_bytes);
                }
            }
            RunStorage::Compressed { unit, .. } => {
                if let Ok(file) = self.file(unit.file) {
                    file.will_need(unit.offset, unit.stored_bytes);
                }
            }
            RunStorage::Absent => {
                if let Some(parent) = &self.0.parent {
                    parent.will_need(run.at, run.len_bytes);
                }
            }
            RunStorage::Zero => {}
        }
    }

    pub(crate) fn status_at(&self, offset: u64, max_len: u64) -> Result<Status> {
        self.status(offset, max_len)
            .map_err(|e| e.in_file(&self.0.path))
    }

    fn status(&self, offset: u64, max_len: u64) -> Result<Status> {
        let Some(run) = Runs::new(self.0.map.as_ref(), offset, max_len).next_run()? else {
            return Ok(nothing(0));
        };
        let here = Status {
            present: true,
            ..nothing(run.len_bytes)
        };
        match run.storage {
            RunStorage::Stored { file, offset } => self.stored_status(file, offset, here),
            RunStorage::Compressed { .. } => Ok(Status {
                data: true,
                compressed: true,
                ..here
            }),
            RunStorage::Zero => Ok(Status { zero: true, ..here }),
            RunStorage::Absent => self.parent_status(&run),
        }
    }

    fn stored_status(&self, number: usize, offset: u64, here: Status) -> Result<Status> {
        let data = Status {
            data: true,
            host_offset: Some(match number {
                0 => offset.saturating_add(self.0.rules.start_bytes),
                _ => offset,
            }),
            ..here
        };
        if !self.0.rules.asks_for_holes {
            return Ok(data);
        }
        let file = self.file(number)?;
        let there = self.stored_len(file, offset, here.len_bytes)?;
        if there == 0 {
            return Ok(Status { zero: true, ..data });
        }
        let below = file.extent_at(offset)?;
        Ok(Status {
            len_bytes: below.len_bytes.min(there),
            zero: below.kind.reads_as_zeroes(),
            ..data
        })
    }

    /// Returns the status of a run that is not stored here: the parent's, or unallocated beyond the
    /// parent's end.
    fn parent_status(&self, run: &Run) -> Result<Status> {
        let parent = self.0.parent.as_deref();
        let there = parent.map_or(0, |parent| parent.size_bytes().saturating_sub(run.at));
        match parent {
            Some(parent) if there > 0 => {
                let below = parent.status_at(run.at, run.len_bytes.min(there))?;
                Ok(Status {
                    depth: below.depth.saturating_add(1),
                    ..below
                })
            }
            _ => Ok(Status {
                zero: true,
                present: self.0.rules.absent_is_zero,
                ..nothing(run.len_bytes)
            }),
        }
    }
}

/// Returns the status of a run that is neither stored nor zero.
const fn nothing(len_bytes: u64) -> Status {
    Status {
        len_bytes,
        depth: 0,
        present: false,
        zero: false,
        data: false,
        compressed: false,
        host_offset: None,
    }
}

/// Splits `buf` after `len_bytes`, or at its end.
fn split(buf: &mut [u8], len_bytes: u64) -> (&mut [u8], &mut [u8]) {
    let at = to_usize(len_bytes).min(buf.len());
    buf.split_at_mut(at)
}

#[cfg(test)]
mod tests;
