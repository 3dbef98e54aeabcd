//! The time of a new volume in the two formats of the standard (ECMA-119, 8.4.26.1 and 9.1.5).

use crate::date_time::{LONG_BYTES, SHORT_BYTES};
use crate::error::Result;

use super::invalid;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The last year that the short format can store.
const MAX_YEAR: u64 = 2155;

/// A time in UTC, in both formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) short: [u8; SHORT_BYTES],
    pub(super) long: [u8; LONG_BYTES],
}

impl Date {
    /// Converts a time in seconds since 1970.
    pub(super) fn of(seconds: u64) -> Result<Self> {
        let too_late = || invalid(format!("time {seconds} is after the year {MAX_YEAR}"));
        let of_day = seconds % DAY_SECONDS;
        let [hour, minute, second] = [of_day / 3600, of_day / 60 % 60, of_day % 60];
        let [year, month, day] = calendar(seconds / DAY_SECONDS).ok_or_else(too_late)?;
        let digits = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}00\0");
        let years = year.checked_sub(1900).ok_or_else(too_late)?;
        let mut short = [0; SHORT_BYTES];
        let numbers = [years, month, day, hour, minute, second];
        for (byte, number) in short.iter_mut().zip(numbers) {
            *byte = u8::try_from(number).map_err(|_| too_late())?;
        }
        let long = digits.as_bytes().try_into().map_err(|_| too_late())?;
        Ok(Self { short, long })
    }
}

/// Returns year, month and day of a day since 1970-01-01; `None` after [`MAX_YEAR`].
fn calendar(mut days: u64) -> Option<[u64; 3]> {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let year =
        (1970..=MAX_YEAR).find(|year| take(&mut days, if is_leap(*year) { 366 } else { 365 }))?;
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month = (1..)
        .zip(lengths)
        .find(|(_, length)| take(&mut days, *length))?;
    Some([year, month.0, days.saturating_add(1)])
}

/// Subtracts the length of a year or a month, unless the day is in it.
fn take(days: &mut u64, length: u64) -> bool {
    match days.checked_sub(length) {
        None => true,
        Some(rest) => {
            *days = rest;
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date_time;

    #[test]
    fn times_round_trip() {
        for seconds in [
            0,
            86_399,
            951_825_600,
            1_767_323_045,
            4_102_444_799,
            5_869_583_999,
        ] {
            let date = Date::of(seconds).unwrap();
            assert_eq!(date_time::short(date.short).seconds, seconds.cast_signed());
            let long = date_time::long(&date.long).unwrap();
            assert_eq!(long.seconds, seconds.cast_signed());
        }
        assert_eq!(&Date::of(951_825_600).unwrap().long, b"2000022912000000\0");
        assert!(Date::of(5_869_584_000).is_err());
        assert!(Date::of(u64::MAX).is_err());
    }
}
