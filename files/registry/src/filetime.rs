//! FILETIME, the timestamps of Windows.

use std::fmt;

/// The seconds from the epoch of FILETIME, 1601-01-01, to that of Unix.
const UNIX_EPOCH_SECONDS: i64 = 11_644_473_600;

const TICKS_PER_SECOND: u64 = 10_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// A point in time in units of 100 ns since 1601-01-01 UTC.
///
/// Displayed in the format of RFC 3339, in whole seconds.
///
/// ```
/// # use diskfs_registry::Filetime;
/// assert_eq!(Filetime(133_539_840_000_000_000).to_string(), "2024-03-04T00:00:00Z");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filetime(pub u64);

impl Filetime {
    /// Returns whole seconds since 1970-01-01 UTC; negative before.
    pub fn unix_seconds(self) -> i64 {
        let seconds = self.0.checked_div(TICKS_PER_SECOND).unwrap_or(0);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        seconds.saturating_sub(UNIX_EPOCH_SECONDS)
    }
}

impl fmt::Display for Filetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.unix_seconds();
        let (year, month, day) = date(seconds.div_euclid(SECONDS_PER_DAY));
        let rest = seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (
            rest.div_euclid(3600),
            rest.div_euclid(60).rem_euclid(60),
            rest.rem_euclid(60),
        );
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// Returns year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
/// Computes with years that start in March, so that the leap day is the last day of a year.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "days of a FILETIME are below 2^32 and divisors are constants"
)]
fn date(days: i64) -> (i64, i64, i64) {
    const DAYS_TO_1970: i64 = 719_468;
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let days = days + DAYS_TO_1970;
    let cycle = days.div_euclid(DAYS_OF_400_YEARS);
    let day = days.rem_euclid(DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (cycle * 400 + year + next, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (ticks, text) in [
            (0, "1601-01-01T00:00:00Z"),
            (116_444_736_000_000_000, "1970-01-01T00:00:00Z"),
            (126_256_467_060_000_000, "2001-02-03T04:05:06Z"),
            (133_535_520_000_000_000, "2024-02-28T00:00:00Z"),
            (133_536_384_000_000_000, "2024-02-29T00:00:00Z"),
            (133_537_247_999_999_999, "2024-02-29T23:59:59Z"),
            (133_537_248_000_000_000, "2024-03-01T00:00:00Z"),
        ] {
            assert_eq!(Filetime(ticks).to_string(), text);
        }
        assert_eq!(Filetime(116_444_736_010_000_000).unix_seconds(), 1);
        assert!(Filetime(u64::MAX).to_string().starts_with("60056-05-28T"));
    }
}
