//! Dates in the two formats of the standard (ECMA-119, 8.4.26.1 and 9.1.5).

use diskfs_vfs::Timestamp;

/// The number of bytes of the short format.
pub(crate) const SHORT_BYTES: usize = 7;
/// The number of bytes of the long format.
pub(crate) const LONG_BYTES: usize = 17;

/// Parses the short format (9.1.5): years since 1900, month, day, hour, minute, second, and the
/// time zone in quarters of an hour. Returns the start of 1970 for an invalid date, such as all
/// zeroes.
pub(crate) fn short(bytes: [u8; SHORT_BYTES]) -> Timestamp {
    let [year, month, day, hour, minute, second, zone] = bytes;
    let numbers = [month, day, hour, minute, second].map(i64::from);
    seconds(i64::from(year).saturating_add(1900), numbers, zone).map_or_else(
        Timestamp::default,
        |seconds| Timestamp {
            seconds,
            nanoseconds: 0,
        },
    )
}

/// Parses the long format (8.4.26.1): decimal digits, with hundredths of a second. Returns `None`
/// for a date that is not specified.
pub(crate) fn long(bytes: &[u8; LONG_BYTES]) -> Option<Timestamp> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        let text = std::str::from_utf8(digits).ok()?;
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| text.parse().ok())?
    };
    let numbers = [
        number(4, 6)?,
        number(6, 8)?,
        number(8, 10)?,
        number(10, 12)?,
        number(12, 14)?,
    ];
    let zone = *bytes.last()?;
    let hundredths = u32::try_from(number(14, 16)?).ok()?;
    Some(Timestamp {
        seconds: seconds(number(0, 4)?, numbers, zone)?,
        nanoseconds: hundredths.saturating_mul(10_000_000),
    })
}

/// Converts a date of the proleptic Gregorian calendar to seconds since 1970. `numbers` is month,
/// day, hour, minute and second.
fn seconds(year: i64, numbers: [i64; 5], zone: u8) -> Option<i64> {
    let [month, day, hour, minute, second] = numbers;
    let known = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    if !known {
        return None;
    }
    let days = days_since_1970(year, month, day)?;
    let minutes = days.checked_mul(24)?.checked_add(hour)?.checked_mul(60)?;
    let local = minutes
        .checked_add(minute)?
        .checked_mul(60)?
        .checked_add(second)?;
    // The valid range is -48 to 52. Linux ignores other values, too.
    let zone = i64::from(zone.cast_signed());
    if (-52..=52).contains(&zone) {
        local.checked_sub(zone.checked_mul(15 * 60)?)
    } else {
        Some(local)
    }
}

/// Returns the days since 1970-01-01. Counts in years that start in March, so that the leap day is
/// the last day of a year.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    /// The days from 0000-03-01 to 1970-01-01.
    const TO_1970: i64 = 719_468;
    let (year, month) = if month > 2 {
        (year, month.checked_sub(3)?)
    } else {
        (year.checked_sub(1)?, month.checked_add(9)?)
    };
    let leap_days = year
        .div_euclid(4)
        .checked_sub(year.div_euclid(100))?
        .checked_add(year.div_euclid(400))?;
    let in_year = month.checked_mul(153)?.checked_add(2)?.div_euclid(5);
    year.checked_mul(365)?
        .checked_add(leap_days)?
        .checked_add(in_year)?
        .checked_add(day)?
        .checked_sub(1)?
        .checked_sub(TO_1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        let at = |bytes| short(bytes).seconds;
        assert_eq!(at([70, 1, 1, 0, 0, 0, 0]), 0);
        assert_eq!(at([100, 2, 29, 12, 0, 0, 0]), 951_825_600);
        assert_eq!(at([126, 1, 2, 3, 4, 5, 0]), 1_767_323_045);
        // East of Greenwich, local time is ahead: 04:04:05 there is 03:04:05 UTC.
        assert_eq!(at([126, 1, 2, 4, 4, 5, 4]), 1_767_323_045);
        assert_eq!(at([126, 1, 1, 22, 4, 5, 0xec]), 1_767_323_045);
        assert_eq!(at([0; 7]), 0);
        assert_eq!(at([255; 7]), 0);
    }

    #[test]
    fn long_dates_have_hundredths() {
        let date = long(b"2026010203040550\0").unwrap();
        assert_eq!(
            (date.seconds, date.nanoseconds),
            (1_767_323_045, 500_000_000)
        );
        assert_eq!(long(b"0000000000000000\0"), None);
        assert_eq!(long(&[0; 17]), None);
        assert_eq!(long(b"+026010203040550\0"), None);
    }
}
