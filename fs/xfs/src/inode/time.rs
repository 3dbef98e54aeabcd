//! Times of inodes, `xfs_timestamp_t`.
//!
//! Source: "XFS Algorithms & Data Structures", section "Timestamps".

use diskfs_vfs::Timestamp;

use crate::bytes::be32;

/// The second at which the times of `bigtime` begin: 1901-12-13, the earliest of the old form.
const BIGTIME_EPOCH: i64 = -0x8000_0000;
const NANOSECONDS: u64 = 1_000_000_000;

/// Returns the time in an inode's field: nanoseconds since 1901 with `bigtime`, otherwise signed
/// seconds since 1970 and nanoseconds, of 32 bits each.
pub(crate) fn timestamp(field: u64, bigtime: bool) -> Timestamp {
    if bigtime {
        let seconds = i64::try_from(field.wrapping_div(NANOSECONDS)).unwrap_or(i64::MAX);
        return Timestamp {
            seconds: seconds.saturating_add(BIGTIME_EPOCH),
            nanoseconds: u32::try_from(field.wrapping_rem(NANOSECONDS)).unwrap_or(0),
        };
    }
    let bytes = field.to_be_bytes();
    let [seconds, nanoseconds] = [0, 4].map(|offset| be32(&bytes, offset).unwrap_or(0));
    Timestamp {
        seconds: seconds.cast_signed().into(),
        nanoseconds: nanoseconds.min(999_999_999),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let of = |seconds, nanoseconds| Timestamp {
            seconds,
            nanoseconds,
        };
        assert_eq!(timestamp(0, true), of(-(1 << 31), 0));
        assert_eq!(timestamp(1 << 63, true), of(7_075_888_388, 854_775_808));
        assert_eq!(timestamp(u64::MAX << 32 | 5, false), of(-1, 5));
        assert_eq!(timestamp(0x7fff_ffff << 32, false), of(0x7fff_ffff, 0));
    }
}
