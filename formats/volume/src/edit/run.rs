//! Runs of sectors: the places of partitions, and the gaps between them.

use std::fmt;

use crate::SectorSize;

/// The alignment of new partitions in bytes: a multiple of every physical block, stripe and erase
/// block in use. All tools use it.
const ALIGNMENT_BYTES: u64 = 1 << 20;

/// A disk of at most this many bytes has partitions that are aligned to sectors, as in `sfdisk`:
/// otherwise too much of it would be lost.
const SMALL_DISK_BYTES: u64 = 4 << 20;

/// A run of sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    /// The first LBA.
    pub(super) start: u64,
    /// The LBA after the last one.
    pub(super) end: u64,
}

impl Run {
    /// Creates the run of `len_sectors` sectors from `start` on.
    pub(super) fn new(start: u64, len_sectors: u64) -> Self {
        Self {
            start,
            end: start.saturating_add(len_sectors),
        }
    }

    pub(super) fn len_sectors(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    pub(super) fn is_empty(self) -> bool {
        self.end <= self.start
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Returns true if all of `other` is in this run.
    pub(super) fn holds(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    pub(super) fn contains(self, lba: u64) -> bool {
        self.start <= lba && lba < self.end
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LBA {} to {}", self.start, self.end.saturating_sub(1))
    }
}

/// Returns the parts of `within` that none of `used` occupies, in their order.
pub(super) fn gaps(within: Run, used: impl IntoIterator<Item = Run>) -> Vec<Run> {
    let mut used: Vec<Run> = used.into_iter().filter(|run| !run.is_empty()).collect();
    used.sort_unstable();
    let mut gaps = Vec::new();
    let mut start = within.start;
    for run in used {
        let gap = Run {
            start,
            end: run.start.min(within.end),
        };
        if !gap.is_empty() {
            gaps.push(gap);
        }
        start = start.max(run.end);
    }
    let last = Run {
        start,
        end: within.end,
    };
    if !last.is_empty() {
        gaps.push(last);
    }
    gaps
}

/// Returns the alignment of new partitions in sectors.
pub(super) fn alignment_sectors(disk_sectors: u64, sector_size: SectorSize) -> u64 {
    let disk_bytes = sector_size.to_bytes(disk_sectors).unwrap_or(u64::MAX);
    if disk_bytes <= SMALL_DISK_BYTES {
        return 1;
    }
    ALIGNMENT_BYTES
        .checked_div(sector_size.len_bytes())
        .unwrap_or(1)
}

/// Rounds up to a multiple of `alignment`; `u64::MAX` if there is none.
pub(super) fn align_up(lba: u64, alignment: u64) -> u64 {
    lba.checked_next_multiple_of(alignment).unwrap_or(u64::MAX)
}

/// Rounds down to a multiple of `alignment`.
pub(super) fn align_down(lba: u64, alignment: u64) -> u64 {
    lba.saturating_sub(lba.checked_rem(alignment).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn disks_of_up_to_4_mib_are_aligned_to_sectors() {
        assert_eq!(alignment_sectors(8192, SectorSize::B512), 1);
        assert_eq!(alignment_sectors(8193, SectorSize::B512), 2048);
        assert_eq!(alignment_sectors(1025, SectorSize::B4096), 256);
        assert_eq!((align_up(1, 256), align_up(256, 256)), (256, 256));
        assert_eq!((align_down(255, 256), align_down(257, 256)), (0, 256));
        assert_eq!(align_up(u64::MAX, 256), u64::MAX);
    }

    proptest! {
        /// Each sector is in a gap exactly if no run occupies it.
        #[test]
        fn gaps_are_what_no_run_occupies(
            runs in prop::collection::vec((0_u64..60, 0_u64..20), 0..8),
            start in 0_u64..30,
            len in 0_u64..60,
        ) {
            let within = Run::new(start, len);
            let used: Vec<Run> = runs.iter().map(|&(start, len)| Run::new(start, len)).collect();
            let gaps = gaps(within, used.iter().copied());
            for lba in 0..100 {
                let free = within.contains(lba) && !used.iter().any(|run| run.contains(lba));
                prop_assert_eq!(gaps.iter().any(|gap| gap.contains(lba)), free, "{}", lba);
            }
            prop_assert!(gaps.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
