//! The hive's file, with sectors of its logs in place of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result, check_bounds, len_of};

use super::SECTOR_BYTES;
use crate::base_block::BASE_BLOCK_BYTES;

/// The location of a sector: a log and an offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SectorLocation {
    log: usize,
    offset: u64,
}

/// The sectors of the hive bins data that are in a log, with their location.
#[derive(Debug, Default)]
pub(super) struct Sectors(BTreeMap<u64, SectorLocation>);

impl Sectors {
    /// Records that a log has `len_bytes` bytes at `offset`, which replace those from byte `to` of
    /// the hive bins data on. All of them are whole sectors.
    pub(super) fn put(&mut self, to: u64, len_bytes: u64, log: usize, offset: u64) {
        let first = to.checked_div(SECTOR_BYTES).unwrap_or(0);
        let count = len_bytes.checked_div(SECTOR_BYTES).unwrap_or(0);
        for number in 0..count {
            let into = number.saturating_mul(SECTOR_BYTES);
            let place = SectorLocation {
                log,
                offset: offset.saturating_add(into),
            };
            self.0.insert(first.saturating_add(number), place);
        }
    }
}

/// The primary file as it would be after its logs were written to it. Ranges that neither has read
/// as zeroes.
#[derive(Debug)]
pub(crate) struct WithLogs {
    primary: Arc<dyn BlockRead>,
    logs: Vec<Arc<dyn BlockRead>>,
    sectors: Sectors,
    size_bytes: u64,
}

impl WithLogs {
    pub(super) fn new(
        primary: Arc<dyn BlockRead>,
        logs: &[Arc<dyn BlockRead>],
        sectors: Sectors,
        bins_bytes: u64,
    ) -> Self {
        Self {
            primary,
            logs: logs.to_vec(),
            sectors,
            size_bytes: BASE_BLOCK_BYTES.saturating_add(bins_bytes),
        }
    }

    /// Returns the location of `offset`, and how many of `len` bytes are contiguous there. `None`
    /// is the primary file.
    fn piece(&self, offset: u64, len: usize) -> (Option<SectorLocation>, usize) {
        if self.sectors.0.is_empty() {
            return (None, len);
        }
        let into = offset.checked_rem(SECTOR_BYTES).unwrap_or(0);
        let rest = SECTOR_BYTES.saturating_sub(into);
        let sector = offset.checked_sub(BASE_BLOCK_BYTES);
        let sector = sector.and_then(|offset| offset.checked_div(SECTOR_BYTES));
        let place = sector.and_then(|sector| self.sectors.0.get(&sector));
        let place = place.map(|place| SectorLocation {
            offset: place.offset.saturating_add(into),
            ..*place
        });
        (place, len.min(usize::try_from(rest).unwrap_or(len)))
    }

    fn read_primary(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let there = self.primary.size_bytes().saturating_sub(offset);
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(buf.len());
        if let Some((read, missing)) = buf.split_at_mut_checked(there) {
            missing.fill(0);
            if !read.is_empty() {
                self.primary.read_at(offset, read)?;
            }
        }
        Ok(())
    }

    fn read_piece(&self, place: Option<SectorLocation>, offset: u64, buf: &mut [u8]) -> Result<()> {
        let Some(place) = place else {
            return self.read_primary(offset, buf);
        };
        let log = self.logs.get(place.log);
        let log = log.ok_or_else(|| Error::invalid("no such transaction log"))?;
        log.read_at(place.offset, buf)
    }
}

impl BlockRead for WithLogs {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes)?;
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let (place, len) = self.piece(at, rest.len());
            let Some((now, later)) = rest.split_at_mut_checked(len) else {
                break;
            };
            self.read_piece(place, at, now)?;
            at = at.saturating_add(len_of(now));
            rest = later;
        }
        Ok(())
    }
}
