//! Places for new partitions, and the room that a partition can grow into.

use diskfs_block::{Error, ErrorKind, Result};

use crate::SectorSize;

use super::request::NewSize;
use super::run::{Run, align_down, align_up};

/// The free space of a disk, and the rules of its table.
#[derive(Debug)]
pub(super) struct Placement {
    /// The free runs, in their order.
    pub(super) gaps: Vec<Run>,
    pub(super) alignment: u64,
    pub(super) sector_size: SectorSize,
}

impl Placement {
    /// Returns the place of a new partition: at `start_bytes`, or aligned in the first gap that is
    /// large enough; without a size, in the largest gap and up to its end.
    ///
    /// # Errors
    /// `Invalid` for a start that is not free, or not a multiple of the sector size; `NoSpace`.
    pub(super) fn place(&self, start_bytes: Option<u64>, size_bytes: Option<u64>) -> Result<Run> {
        let len = size_bytes.map(|bytes| self.sectors(bytes)).transpose()?;
        let room = match start_bytes {
            Some(bytes) => self.room_at(bytes)?,
            None => self.room_for(len)?,
        };
        let run = match len {
            Some(len) => Run::new(room.start, len),
            None => self.with_aligned_end(room),
        };
        if room.holds(run) {
            return Ok(run);
        }
        Err(no_space(format!(
            "cannot place {} sectors from LBA {} on: only {} sectors are free there",
            run.len_sectors(),
            room.start,
            room.len_sectors()
        )))
    }

    /// Returns the free run from this byte on.
    fn room_at(&self, start_bytes: u64) -> Result<Run> {
        let sector_bytes = self.sector_size.len_bytes();
        if start_bytes.checked_rem(sector_bytes) != Some(0) {
            return Err(Error::invalid(format!(
                "invalid start {start_bytes}: not a multiple of the sector size ({sector_bytes} \
                 bytes)"
            )));
        }
        let start = start_bytes.checked_div(sector_bytes).unwrap_or(0);
        let gap = self.gaps.iter().find(|gap| gap.contains(start));
        let Some(gap) = gap else {
            return Err(
                Error::invalid(format!("LBA {start} (byte {start_bytes}) is not free"))
                    .with_hint("`diskfs partition list --free` shows the free space"),
            );
        };
        Ok(Run { start, ..*gap })
    }

    /// Returns the aligned free run for `len` sectors: the first that is large enough, or the
    /// largest.
    fn room_for(&self, len: Option<u64>) -> Result<Run> {
        let aligned = || {
            let start = |gap: &Run| Run {
                start: align_up(gap.start, self.alignment),
                ..*gap
            };
            self.gaps.iter().map(start).filter(|room| !room.is_empty())
        };
        let largest = aligned().rev().max_by_key(|room| room.len_sectors());
        let Some(largest) = largest else {
            return Err(no_space("the disk has no free space".to_owned()));
        };
        let Some(len) = len else {
            return Ok(largest);
        };
        aligned()
            .find(|room| room.len_sectors() >= len)
            .ok_or_else(|| {
                no_space(format!(
                    "no free space of {len} sectors: the largest one ({largest}) has {}",
                    largest.len_sectors()
                ))
            })
    }

    /// Shortens a run so that it ends at an aligned LBA, as `sfdisk` does, unless nothing would be
    /// left.
    fn with_aligned_end(&self, room: Run) -> Run {
        let end = align_down(room.end, self.alignment);
        Run {
            end: if end > room.start { end } else { room.end },
            ..room
        }
    }

    /// Converts a size to sectors, rounded up.
    pub(super) fn sectors(&self, size_bytes: u64) -> Result<u64> {
        let sectors = size_bytes.div_ceil(self.sector_size.len_bytes());
        if sectors == 0 {
            return Err(Error::invalid("invalid size 0 of a partition"));
        }
        Ok(sectors)
    }

    /// Returns the end of a partition at `run` that gets `size`, of which `limit` is the largest.
    ///
    /// # Errors
    /// `NoSpace` past the limit; `Invalid` for a size of zero.
    pub(super) fn resized(&self, run: Run, size: NewSize, limit: u64) -> Result<Run> {
        let len = match size {
            NewSize::Largest => limit.saturating_sub(run.start).max(run.len_sectors()),
            NewSize::Bytes(bytes) => self.sectors(bytes)?,
            NewSize::More(bytes) => run.len_sectors().saturating_add(self.sectors(bytes)?),
        };
        let resized = Run::new(run.start, len);
        if resized.end > limit.max(run.end) {
            return Err(no_space(format!(
                "cannot grow the partition from {} to {len} sectors: only {} sectors after LBA {} \
                 are free",
                run.len_sectors(),
                limit.saturating_sub(run.end),
                run.end.saturating_sub(1)
            )));
        }
        Ok(resized)
    }
}

/// Returns the first LBA after `run` that is not free: the start of another run, or the end of the
/// space. It is `run.end` if another run overlaps it.
pub(super) fn limit_of(run: Run, space_end: u64, others: impl IntoIterator<Item = Run>) -> u64 {
    let mut limit = space_end;
    for other in others.into_iter().filter(|other| !other.is_empty()) {
        if other.overlaps(run) {
            return run.end;
        }
        if other.start >= run.end {
            limit = limit.min(other.start);
        }
    }
    limit
}

fn no_space(reason: String) -> Error {
    Error::new(ErrorKind::NoSpace, reason)
        .with_hint("`diskfs partition list --free` shows the free space")
}
