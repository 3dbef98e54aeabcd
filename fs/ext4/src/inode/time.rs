//! Timestamps: 32 bits of seconds, and in large inodes 2 bits of epoch and 30 bits of nanoseconds.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Inode Timestamps".

use diskfs_vfs::Timestamp;

use super::raw::extra;
use crate::bytes::{le32, split64};

/// Decodes a timestamp whose second half, if it exists, is at `extra_offset` of the inode's
/// `fields`.
pub(super) fn decode(seconds: u32, fields: &[u8], extra_offset: usize) -> Timestamp {
    let extra = le32(fields, extra_offset).unwrap_or(0);
    // The epoch bits count spans of 2^32 seconds on top of the signed 32 bits: 0 is 1901 to 2038.
    let epoch = i64::from(extra & 3).wrapping_shl(32);
    Timestamp {
        seconds: i64::from(seconds.cast_signed()).wrapping_add(epoch),
        nanoseconds: extra.wrapping_shr(2).min(999_999_999),
    }
}

/// Returns the time of creation if the inode is large enough to have it.
pub(super) fn created(fields: &[u8]) -> Option<Timestamp> {
    let seconds = le32(fields, extra::I_CRTIME)?;
    Some(decode(seconds, fields, extra::I_CRTIME_EXTRA))
}

/// Encodes the seconds and the second half of a timestamp. If the inode has no room for the second
/// half, a time outside of the range of 32 signed bits becomes the nearest one in the range, as in
/// Linux.
pub(super) fn encode(time: Timestamp, has_extra: bool) -> (u32, u32) {
    let last = if has_extra {
        LAST_SECOND
    } else {
        i64::from(i32::MAX)
    };
    let seconds = time.seconds.clamp(i64::from(i32::MIN), last);
    let (high, low) = split64(seconds.cast_unsigned());
    // The number of spans of 2^32 seconds that the signed 32 bits are away.
    let epoch = high.wrapping_add(low.wrapping_shr(31)) & 3;
    (
        low,
        time.nanoseconds.min(999_999_999).wrapping_shl(2) | epoch,
    )
}

/// Returns a timestamp as it will be read again.
pub(super) fn stored(time: Timestamp, has_extra: bool) -> Timestamp {
    let (seconds, extra) = encode(time, has_extra);
    let extra = extra.to_le_bytes();
    decode(seconds, if has_extra { &extra } else { &[] }, 0)
}

/// 2446-05-10, the last time that 34 bits reach from 1901 on (`EXT4_EXTRA_TIMESTAMP_MAX`).
const LAST_SECOND: i64 = 0x3_7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u32, extra: u32) -> (i64, u32) {
        let time = decode(seconds, &extra.to_le_bytes(), 0);
        (time.seconds, time.nanoseconds)
    }

    #[test]
    fn epochs_of_the_specification() {
        // The table in the kernel's documentation, one line of each epoch.
        assert_eq!(at(u32::MAX, 0), (-1, 0));
        assert_eq!(at(0x7fff_ffff, 0), (0x7fff_ffff, 0));
        assert_eq!(at(0x8000_0000, 1), (0x8000_0000, 0));
        assert_eq!(at(0, 1), (0x1_0000_0000, 0));
        assert_eq!(at(0x7fff_ffff, 3), (0x3_7fff_ffff, 0));
    }

    #[test]
    fn times_come_back() {
        let all = [
            -1,
            0,
            i64::from(i32::MIN),
            i64::from(i32::MAX),
            1 << 31,
            1 << 32,
            LAST_SECOND,
        ];
        for seconds in all {
            let time = Timestamp {
                seconds,
                nanoseconds: 999_999_999,
            };
            let (low, extra) = encode(time, true);
            assert_eq!(at(low, extra), (seconds, 999_999_999));
        }
        let late = Timestamp {
            seconds: 1 << 33,
            nanoseconds: 0,
        };
        assert_eq!(encode(late, false).0, i32::MAX.cast_unsigned());
        let time = Timestamp {
            nanoseconds: 7,
            ..late
        };
        assert_eq!(stored(time, true), time);
        let last = Timestamp {
            seconds: i64::from(i32::MAX),
            nanoseconds: 0,
        };
        assert_eq!(stored(time, false), last);
    }

    #[test]
    fn nanoseconds_only_where_the_inode_has_them() {
        assert_eq!(at(5, 123 << 2), (5, 123));
        assert_eq!(at(5, u32::MAX).1, 999_999_999);
        assert_eq!(decode(5, &[], 0x84).nanoseconds, 0);
        assert_eq!(created(&[0; 128]), None);
    }
}
