//! Timestamps (exFAT specification, 7.4.8 to 7.4.10): a DOS time, hundredths of a second, and the
//! offset from UTC.

use diskfs_clusters::DosTime;
use diskfs_vfs::Timestamp;

/// `OffsetValid`, with an offset of zero (7.4.10).
pub(crate) const UTC: u8 = 0x80;
/// The unit of the offset from UTC in seconds.
const STEP_SECONDS: i64 = 15 * 60;

/// A timestamp in the format of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExfatTime {
    /// The date in the upper 16 bits, the time in the lower.
    pub(crate) timestamp: u32,
    /// The hundredths of a second to add: 0 to 199.
    pub(crate) increment: u8,
    pub(crate) utc_offset: u8,
}

impl ExfatTime {
    /// Converts a timestamp to UTC, rounded down to what an entry can hold.
    pub(crate) fn of(at: Timestamp) -> Self {
        let time = DosTime::of(at);
        Self {
            timestamp: (u32::from(time.date) << 16) | u32::from(time.time),
            increment: time.hundredths,
            utc_offset: UTC,
        }
    }

    /// Returns the point in time. An entry without an offset is taken as UTC.
    pub(crate) fn timestamp(self) -> Timestamp {
        let [t0, t1, d0, d1] = self.timestamp.to_le_bytes();
        let time = DosTime {
            date: u16::from_le_bytes([d0, d1]),
            time: u16::from_le_bytes([t0, t1]),
            hundredths: self.increment,
        };
        let local = time.timestamp();
        Timestamp {
            seconds: local.seconds.saturating_sub(self.offset_seconds()),
            ..local
        }
    }

    fn offset_seconds(self) -> i64 {
        if self.utc_offset & UTC == 0 {
            return 0;
        }
        // A signed number of seven bits.
        let steps = i64::from(self.utc_offset & 0x7f);
        let steps = if steps < 64 {
            steps
        } else {
            steps.saturating_sub(128)
        };
        steps.saturating_mul(STEP_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_goes_both_ways() {
        let at = Timestamp {
            seconds: 1_767_323_045,
            nanoseconds: 120_000_000,
        };
        let utc = ExfatTime::of(at);
        assert_eq!(utc.timestamp(), at);
        let seconds = |utc_offset| ExfatTime { utc_offset, ..utc }.timestamp().seconds;
        // Table 31 of 7.4.10.1: +01:00 and -08:00.
        assert_eq!(seconds(0x84), at.seconds - 3600);
        assert_eq!(seconds(0xe0), at.seconds + 8 * 3600);
        assert_eq!(seconds(0x04), at.seconds);
    }
}
