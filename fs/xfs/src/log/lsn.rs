//! The number that orders transactions.

use std::fmt;

/// A log sequence number, `xfs_lsn_t`: the cycle in the upper half and a block of the log in the
/// lower half. A larger number is a later place of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lsn(pub(super) u64);

impl Lsn {
    /// Returns the 512-byte block of the log.
    pub(super) fn block(self) -> u32 {
        u32::try_from(self.0 & u64::from(u32::MAX)).unwrap_or(u32::MAX)
    }

    /// Returns the cycle: how often the log has been written round.
    pub(super) fn cycle(self) -> u32 {
        u32::try_from(self.0.wrapping_shr(32)).unwrap_or(u32::MAX)
    }

    /// Returns true if metadata with this number has been written by a transaction. Zero and all
    /// ones (`NULLCOMMITLSN`) mean that it has not.
    pub(super) fn is_known(self) -> bool {
        self.0 != 0 && self.0 != u64::MAX
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cycle(), self.block())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_counts_more_than_the_block() {
        let lsn = Lsn(0x0000_0002_0000_0010);
        assert_eq!((lsn.cycle(), lsn.block()), (2, 16));
        assert!(lsn > Lsn(0x0000_0001_ffff_ffff));
        assert!(lsn.is_known() && !Lsn(0).is_known() && !Lsn(u64::MAX).is_known());
        assert_eq!(lsn.to_string(), "2:16");
    }
}
