//! A disk of which unreadable parts read as zeroes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::{BlockRead, Error, ErrorKind, Extent, ExtentKind, Result, with_reasons};

use super::pieces::PIECE_BYTES;
use crate::numbers::{power_of_two, to_u64, to_usize};

/// The smallest part that is given up.
const SECTOR_BYTES: u64 = 512;
/// The largest number of ranges that are listed, which bounds their memory. A damaged image can have
/// any number of them.
const RANGES_MAX: usize = 1 << 14;

/// A disk of which those parts read as zeroes that cannot be read, because the host or the image is
/// damaged. It keeps a list of them.
///
/// Only errors of the kinds [`Io`](ErrorKind::Io) and [`Corrupt`](ErrorKind::Corrupt) are salvaged:
/// without a key, or without support for a feature, all data would be lost.
#[derive(Debug)]
pub struct Salvaged {
    device: Arc<dyn BlockRead>,
    lost: Mutex<Lost>,
}

/// A range that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRange {
    /// The offset in the disk in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub len_bytes: u64,
    /// The first reason.
    pub reason: String,
}

#[derive(Debug, Default)]
struct Lost {
    /// The ends and reasons of the ranges by their offsets. No two of them touch.
    ranges: BTreeMap<u64, (u64, String)>,
    is_incomplete: bool,
}

impl Salvaged {
    /// Wraps a disk.
    pub fn new(device: Arc<dyn BlockRead>) -> Self {
        Self {
            device,
            lost: Mutex::default(),
        }
    }

    /// Returns the ranges that could not be read so far, in order.
    pub fn lost(&self) -> Vec<LostRange> {
        let lost = self.lock();
        let ranges = lost.ranges.iter();
        ranges
            .map(|(start, (end, reason))| LostRange {
                offset: *start,
                len_bytes: end.saturating_sub(*start),
                reason: reason.clone(),
            })
            .collect()
    }

    /// Returns true if there were more ranges than are listed: 16384.
    pub fn is_list_incomplete(&self) -> bool {
        self.lock().is_incomplete
    }

    fn lock(&self) -> MutexGuard<'_, Lost> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what can be read of a range of which something cannot.
    fn salvage(&self, offset: u64, buf: &mut [u8], error: &Error) -> Result<()> {
        let len_bytes = to_u64(buf.len());
        let middle = middle(offset, len_bytes);
        let is_sector = !middle.is_multiple_of(SECTOR_BYTES) || middle <= offset;
        if is_sector || self.is_lost_as_one(offset, len_bytes, error)? {
            buf.fill(0);
            self.lock().add(offset, len_bytes, error);
            return Ok(());
        }
        let (left, right) =
            buf.split_at_mut(to_usize(middle.saturating_sub(offset)).min(buf.len()));
        self.read_part(offset, left)?;
        self.read_part(middle, right)
    }

    fn read_part(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        match self.device.read_at(offset, buf) {
            Err(error) if is_damage(&error) => self.salvage(offset, buf, &error),
            done => done,
        }
    }

    /// Returns true if one damaged structure makes the whole range unreadable: the range is in one
    /// block, such as a compressed cluster, and reading either end of it fails at the same byte.
    fn is_lost_as_one(&self, offset: u64, len_bytes: u64, error: &Error) -> Result<bool> {
        let block = u64::from(self.device.block_size()).max(1);
        let end = offset.saturating_add(len_bytes);
        let last = end.saturating_sub(1) & !SECTOR_BYTES.saturating_sub(1);
        if error.kind() != ErrorKind::Corrupt
            || error.offset().is_none()
            || last <= offset
            || offset.div_euclid(block) != last.div_euclid(block)
        {
            return Ok(false);
        }
        let second = offset.saturating_add(1).next_multiple_of(SECTOR_BYTES);
        for sector in [offset..second, last..end] {
            let mut bytes = vec![0; to_usize(sector.end.saturating_sub(sector.start))];
            match self.device.read_at(sector.start, &mut bytes) {
                Err(other) if other.offset() == error.offset() => {}
                Err(other) if !is_damage(&other) => return Err(other),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns the extent of a place whose extent cannot be determined: data, which is then read.
    fn salvaged_extent(&self, offset: u64, extent: Result<Extent>) -> Result<Extent> {
        match extent {
            Err(error) if is_damage(&error) => {
                let left = self.size_bytes().saturating_sub(offset);
                let in_piece = PIECE_BYTES.saturating_sub(offset.rem_euclid(PIECE_BYTES));
                Ok(Extent {
                    len_bytes: left.min(in_piece),
                    kind: ExtentKind::Data,
                })
            }
            extent => extent,
        }
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Corrupt)
}

/// Returns the offset within a range, but not at its start, that is a multiple of the largest power
/// of two: parts of a range that is divided there are whole clusters early.
fn middle(offset: u64, len_bytes: u64) -> u64 {
    let last = offset.saturating_add(len_bytes).saturating_sub(1);
    match (offset ^ last).checked_ilog2() {
        Some(bit) => last & !power_of_two(bit).saturating_sub(1),
        None => offset,
    }
}

impl Lost {
    /// Adds a range, and joins it with those that it touches.
    fn add(&mut self, offset: u64, len_bytes: u64, error: &Error) {
        let (mut start, mut end) = (offset, offset.saturating_add(len_bytes));
        let mut reason = with_reasons(error);
        let touching = |ranges: &BTreeMap<u64, (u64, String)>, start: u64, end: u64| {
            let (at, (until, _)) = ranges.range(..=end).next_back()?;
            (*until >= start).then_some(*at)
        };
        while let Some(at) = touching(&self.ranges, start, end) {
            let Some((until, older)) = self.ranges.remove(&at) else {
                break;
            };
            start = start.min(at);
            end = end.max(until);
            reason = older;
        }
        if self.ranges.len() < RANGES_MAX {
            self.ranges.insert(start, (end, reason));
        } else {
            self.is_incomplete = true;
        }
    }
}

impl BlockRead for Salvaged {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read_part(offset, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        self.salvaged_extent(offset, self.device.extent_at(offset))
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        self.salvaged_extent(offset, self.device.stored_at(offset))
    }

    fn block_size(&self) -> u32 {
        self.device.block_size()
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.device.will_need(offset, len_bytes);
    }
}

#[cfg(test)]
mod tests {
    use diskfs_block::Memory;
    use proptest::prelude::*;

    use super::*;

    /// A disk with bad sectors, which fail with this kind.
    #[derive(Debug)]
    struct Damaged(Memory, Vec<u64>, ErrorKind);

    impl BlockRead for Damaged {
        fn size_bytes(&self) -> u64 {
            self.0.size_bytes()
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            let sectors = offset / 512..(offset + buf.len() as u64).div_ceil(512);
            match self.1.iter().find(|bad| sectors.contains(bad)) {
                Some(bad) => Err(Error::new(self.2, "bad sector").at(bad * 512)),
                None => self.0.read_at(offset, buf),
            }
        }

        fn block_size(&self) -> u32 {
            4096
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn only_bad_sectors_are_lost(
            bad in proptest::collection::vec(0_u64..100, 0..30),
            offset in 0_u64..40_000,
            len in 1_usize..10_000,
            is_corrupt in any::<bool>(),
        ) {
            let kind = if is_corrupt { ErrorKind::Corrupt } else { ErrorKind::Io };
            let damaged = Damaged(Memory::new(vec![7; 51_200]), bad.clone(), kind);
            let salvaged = Salvaged::new(Arc::new(damaged));
            let mut bytes = vec![1; len];
            salvaged.read_at(offset, &mut bytes).unwrap();
            let is_bad = |at: u64| bad.contains(&(at / 512));
            for (at, byte) in (offset..).zip(&bytes) {
                prop_assert_eq!(*byte, if is_bad(at) { 0 } else { 7 }, "byte {}", at);
            }
            let lost = salvaged.lost();
            let listed = |at: u64| lost.iter().any(|it| (it.offset..it.offset + it.len_bytes).contains(&at));
            for at in offset..offset + bytes.len() as u64 {
                prop_assert_eq!(listed(at), is_bad(at), "byte {}", at);
            }
            prop_assert!(lost.windows(2).all(|two| two[0].offset + two[0].len_bytes < two[1].offset));
            // Again, as for a verification.
            salvaged.read_at(offset, &mut bytes).unwrap();
            prop_assert_eq!(salvaged.lost(), lost);
        }
    }

    #[test]
    fn other_errors_are_not_salvaged() {
        let denied = Damaged(Memory::new(vec![7; 51_200]), vec![3], ErrorKind::Denied);
        let salvaged = Salvaged::new(Arc::new(denied));
        let error = salvaged.read_at(0, &mut [0; 4096]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(salvaged.lost().is_empty());
    }
}
