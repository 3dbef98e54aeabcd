//! Dates and times of directory entries (fatgen103, "Date and Time Formats"; exFAT specification,
//! 7.4.8). They are taken as UTC: FAT does not record a time zone, and exFAT records it in a
//! separate field.

use diskfs_vfs::Timestamp;

const DAY_SECONDS: i64 = 86_400;
/// 1980-01-01 00:00:00, the earliest time that an entry can have.
const FIRST_SECOND: i64 = 315_532_800;
/// 2107-12-31 23:59:58, the latest time that an entry can have.
const LAST_SECOND: i64 = 4_354_819_198;

/// A timestamp in the format of a directory entry: date, time in steps of 2 s, and steps of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DosTime {
    /// The date: years since 1980, month and day.
    pub date: u16,
    /// The time: hours, minutes and steps of 2 s.
    pub time: u16,
    /// The steps of 10 ms to add to the time: 0 to 199.
    pub hundredths: u8,
}

impl DosTime {
    /// Converts a timestamp, rounded down to the steps of 10 ms that an entry can hold.
    pub fn of(at: Timestamp) -> Self {
        let seconds = at.seconds.clamp(FIRST_SECOND, LAST_SECOND);
        let (year, month, day) = civil(seconds.div_euclid(DAY_SECONDS));
        let second = seconds.rem_euclid(DAY_SECONDS);
        let date = (year.saturating_sub(1980) << 9) | (month << 5) | day;
        let time = ((second / 3600) << 11) | ((second / 60 % 60) << 5) | (second % 60 / 2);
        let nanoseconds = if seconds == at.seconds {
            at.nanoseconds
        } else {
            0
        };
        let odd = if second % 2 == 1 { 100 } else { 0_u32 };
        let hundredths = (nanoseconds / 10_000_000).saturating_add(odd);
        Self {
            date: u16::try_from(date).unwrap_or(0),
            time: u16::try_from(time).unwrap_or(0),
            hundredths: u8::try_from(hundredths).unwrap_or(0),
        }
    }

    /// Returns the point in time. An invalid date is taken as 1980-01-01, as the kernel does.
    pub fn timestamp(self) -> Timestamp {
        let field = |value: u16, shift: u32, mask: u16| i64::from((value >> shift) & mask);
        let (year, month) = (
            field(self.date, 9, 0x7f),
            field(self.date, 5, 0x0f).clamp(1, 12),
        );
        let day = field(self.date, 0, 0x1f).max(1);
        let days = days_since_1970(year.saturating_add(1980), month, day);
        let (hours, minutes) = (field(self.time, 11, 0x1f), field(self.time, 5, 0x3f));
        let seconds = field(self.time, 0, 0x1f).saturating_mul(2);
        let of_day = hours
            .saturating_mul(3600)
            .saturating_add(minutes.saturating_mul(60))
            .saturating_add(seconds)
            .saturating_add(i64::from(self.hundredths / 100));
        Timestamp {
            seconds: days.saturating_mul(DAY_SECONDS).saturating_add(of_day),
            nanoseconds: u32::from(self.hundredths % 100).saturating_mul(10_000_000),
        }
    }
}

/// Returns the days since 1970-01-01 of a day of the Gregorian calendar (Howard Hinnant,
/// "chrono-compatible low-level date algorithms"), for the years 1980 to 2107.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 {
        year.saturating_sub(1)
    } else {
        year
    };
    let from_march = month.saturating_add(9) % 12;
    let of_year = (from_march.saturating_mul(153).saturating_add(2) / 5)
        .saturating_add(day.saturating_sub(1));
    let leaps = (year / 4)
        .saturating_sub(year / 100)
        .saturating_add(year / 400);
    year.saturating_mul(365)
        .saturating_add(leaps)
        .saturating_add(of_year)
        .saturating_sub(719_468)
}

/// Returns year, month and day for a number of days since 1970-01-01, for days from 1980 on.
fn civil(days: i64) -> (i64, i64, i64) {
    let mut year = 1970;
    let mut left = days;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        left = left.saturating_sub(length);
        year = year.saturating_add(1);
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month: i64 = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left = left.saturating_sub(length);
        month = month.saturating_add(1);
    }
    (year, month, left.saturating_add(1))
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp {
            seconds,
            nanoseconds,
        }
    }

    #[test]
    fn known_times() {
        // 2026-01-02 03:04:05
        let time = DosTime::of(at(1_767_323_045, 126_000_000));
        assert_eq!(time.date, (46 << 9) | (1 << 5) | 2);
        assert_eq!(time.time, (3 << 11) | (4 << 5) | 2);
        assert_eq!(time.hundredths, 112);
        assert_eq!(time.timestamp(), at(1_767_323_045, 120_000_000));
        assert_eq!(DosTime::of(at(0, 5)).timestamp(), at(FIRST_SECOND, 0));
        assert_eq!(
            DosTime::of(at(i64::MAX, 0)).timestamp().seconds,
            LAST_SECOND
        );
    }

    #[test]
    fn every_day_comes_back() {
        let days = FIRST_SECOND / DAY_SECONDS..=LAST_SECOND / DAY_SECONDS;
        for day in days {
            let noon = at(day * DAY_SECONDS + 43_200, 0);
            assert_eq!(DosTime::of(noon).timestamp(), noon);
        }
    }

    #[test]
    fn no_field_does_harm() {
        for bits in 0..=u16::MAX {
            let time = DosTime {
                date: bits,
                time: !bits,
                hundredths: 255,
            };
            assert!(time.timestamp().seconds >= FIRST_SECOND);
        }
    }
}
