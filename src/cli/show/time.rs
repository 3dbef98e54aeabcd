//! Times, in UTC: the guest's local time zone is a matter of its configuration, and what is shown of
//! an image should not depend on where one looks at it.

use diskfs::vfs::Timestamp;

const DAY_SECONDS: i64 = 86_400;

/// A point in time, taken apart by the Gregorian calendar.
struct Calendar {
    year: i64,
    month: u32,
    day: u32,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Calendar {
    /// Days to year, month and day: the era of 400 years is the calendar's period, and a year that
    /// begins in March has its leap day at its end.
    fn new(seconds: i64) -> Self {
        let days = seconds.div_euclid(DAY_SECONDS) + 719_468; // since 0000-03-01
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12 + 1;
        let of_day = seconds.rem_euclid(DAY_SECONDS);
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: u32::try_from(month).unwrap_or(0),
            day: u32::try_from(day).unwrap_or(0),
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }
}

/// `2026-11-21 02:12`, as `ls --time-style=long-iso`.
pub(crate) fn minutes(time: Timestamp) -> String {
    let c = Calendar::new(time.seconds);
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}",
        c.year, c.month, c.day, c.hour, c.minute
    )
}

/// `2026-11-21 02:12:27.000000000 +0000`, as `stat` prints it.
pub(crate) fn full(time: Timestamp) -> String {
    let c = Calendar::new(time.seconds);
    format!(
        "{}:{:02}.{:09} +0000",
        minutes(time),
        c.second,
        time.nanoseconds
    )
}

/// `2026-11-21T02:12:27.000000000Z` (RFC 3339), for JSON.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    let c = Calendar::new(time.seconds);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z",
        c.year, c.month, c.day, c.hour, c.minute, c.second, time.nanoseconds
    )
}

/// `1763690000.123456789`, as `find -printf %T@` and pax have it; before 1970 the sign holds for
/// the whole number.
pub(crate) fn decimal(time: Timestamp) -> String {
    match (time.seconds, time.nanoseconds) {
        (seconds, nanoseconds) if seconds >= 0 || nanoseconds == 0 => {
            format!("{seconds}.{nanoseconds:09}")
        }
        (seconds, nanoseconds) => {
            let whole = (seconds + 1).unsigned_abs();
            format!(
                "-{whole}.{:09}",
                1_000_000_000_u32.saturating_sub(nanoseconds)
            )
        }
    }
}

/// The same in seconds since 1970, for arithmetic.
pub(crate) fn now_seconds() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
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
    fn calendar_days_are_those_of_date() {
        // Each from `date -u -d @SECONDS`.
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (-1, "1969-12-31 23:59"),
            (951_782_399, "2000-02-28 23:59"),
            (951_868_799, "2000-02-29 23:59"),
            (1_795_227_147, "2026-11-21 02:12"),
            (4_102_444_800, "2100-01-01 00:00"),
            (4_107_542_400, "2100-03-01 00:00"),
            (-2_147_483_648, "1901-12-13 20:45"),
            (15_032_385_535, "2446-05-10 22:38"),
        ] {
            assert_eq!(minutes(at(seconds, 0)), text, "{seconds}");
        }
    }

    #[test]
    fn nanoseconds_and_times_before_1970() {
        assert_eq!(full(at(1, 5)), "1970-01-01 00:00:01.000000005 +0000");
        assert_eq!(rfc3339(at(1, 5)), "1970-01-01T00:00:01.000000005Z");
        assert_eq!(decimal(at(1, 5)), "1.000000005");
        assert_eq!(decimal(at(-1, 0)), "-1.000000000");
        // Half a second before 1970.
        assert_eq!(decimal(at(-1, 500_000_000)), "-0.500000000");
        assert_eq!(decimal(at(-2, 750_000_000)), "-1.250000000");
    }

    #[test]
    fn any_number_is_a_time() {
        for seconds in [i64::MIN, i64::MAX] {
            assert!(std::panic::catch_unwind(|| minutes(at(seconds, 0))).is_ok());
        }
    }
}
