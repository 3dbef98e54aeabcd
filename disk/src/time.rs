//! Times in UTC. The guest's local time zone is part of its configuration, and the output for an
//! image should not depend on the host's.

use diskfs_vfs::Timestamp;

const DAY_SECONDS: i64 = 86_400;

/// A point in time, split into the fields of the Gregorian calendar.
struct CalendarTime {
    year: i64,
    month: u32,
    day: u32,
    hour: i64,
    minute: i64,
    second: i64,
}

impl CalendarTime {
    /// Converts days to year, month and day. The period of the calendar is an era of 400 years, and
    /// in a year that starts in March the leap day is the last one.
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

/// Formats a time as `2026-11-21 02:12`, like `ls --time-style=long-iso`.
pub fn minutes(time: Timestamp) -> String {
    let c = CalendarTime::new(time.seconds);
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}",
        c.year, c.month, c.day, c.hour, c.minute
    )
}

/// Formats a time as `2026-11-21 02:12:27.000000000 +0000`, like `stat`.
pub fn full(time: Timestamp) -> String {
    let c = CalendarTime::new(time.seconds);
    format!(
        "{}:{:02}.{:09} +0000",
        minutes(time),
        c.second,
        time.nanoseconds
    )
}

/// Formats a time as `2026-11-21T02:12:27.000000000Z` (RFC 3339), for JSON.
pub fn rfc3339(time: Timestamp) -> String {
    let c = CalendarTime::new(time.seconds);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z",
        c.year, c.month, c.day, c.hour, c.minute, c.second, time.nanoseconds
    )
}

/// Formats a time as `2026-11-21T02:12:27Z`, without a fraction.
pub fn rfc3339_seconds(time: Timestamp) -> String {
    let c = CalendarTime::new(time.seconds);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        c.year, c.month, c.day, c.hour, c.minute, c.second
    )
}

/// Formats a time as `Nov 21 02:12:27` (RFC 3164, except that the day is padded with a zero as in
/// journalctl).
pub fn syslog(time: Timestamp) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let c = CalendarTime::new(time.seconds);
    let month = usize::try_from(c.month).ok();
    let month = month.and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    let month = month.unwrap_or(&"???");
    format!(
        "{month} {:02} {:02}:{:02}:{:02}",
        c.day, c.hour, c.minute, c.second
    )
}

/// Formats a time as `2026-11-21T02:12:27+00:00` (RFC 3339), like `journalctl -o short-iso`.
pub fn iso(time: Timestamp) -> String {
    let c = CalendarTime::new(time.seconds);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}+00:00",
        c.year, c.month, c.day, c.hour, c.minute, c.second
    )
}

/// Formats a time as `Sat 2026-11-21 02:12:27`, like systemd.
pub fn with_weekday(time: Timestamp) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let day = usize::try_from(time.seconds.div_euclid(DAY_SECONDS).rem_euclid(7));
    let day = day.ok().and_then(|day| DAYS.get(day)).unwrap_or(&"???");
    let c = CalendarTime::new(time.seconds);
    format!("{day} {}:{:02}", minutes(time), c.second)
}

/// Returns the year of a time.
pub fn year_of(seconds: i64) -> i64 {
    CalendarTime::new(seconds).year
}

/// Formats a time as `1763690000.123456789`, like `find -printf %T@` and pax. Before 1970 the sign
/// applies to the whole number.
pub fn decimal(time: Timestamp) -> String {
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

/// Returns the present time in seconds since 1970.
pub fn now_seconds() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// Parses a point in time as users write it: `now`, `@SECONDS[.FRACTION]`, or a date. The time of
/// day can follow the date after a space or a `T`, and an offset (`Z`, `+02:00`) can follow that;
/// the default is UTC, as in all output.
pub fn parse(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("invalid time `{text}`; write 2026-11-21 12:30, @1763728200 or now");
    if text == "now" {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since = since.unwrap_or_default();
        return Ok(Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        });
    }
    match text.strip_prefix('@') {
        Some(seconds) => parse_decimal(seconds),
        None => parse_date(text),
    }
    .ok_or_else(wrong)
}

/// Parses a decimal number such as `-1.25`, whose sign applies to the whole number.
pub fn parse_decimal(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let nanoseconds = parse_fraction(fraction)?;
    let seconds: i64 = whole.parse().ok()?;
    if whole.starts_with('-') && nanoseconds > 0 {
        return Some(Timestamp {
            seconds: seconds.checked_sub(1)?,
            nanoseconds: 1_000_000_000 - nanoseconds,
        });
    }
    Some(Timestamp {
        seconds,
        nanoseconds,
    })
}

/// Parses up to nine digits of a fraction; more are ignored.
fn parse_fraction(digits: &str) -> Option<u32> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nine: String = digits.chars().chain("000000000".chars()).take(9).collect();
    nine.parse().ok()
}

fn parse_date(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_once([' ', 'T']).unwrap_or((text, "00:00"));
    let mut parts = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    let (time, offset_seconds) = split_offset(rest.trim())?;
    let time = time.trim_end();
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = time.splitn(3, ':').map(str::parse::<i64>);
    let (hour, minute) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let second = parts.next().unwrap_or(Ok(0)).ok()?;
    let is_valid = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    let seconds = days_since_1970(year, month, day) * DAY_SECONDS;
    let seconds = seconds + hour * 3600 + minute * 60 + second - offset_seconds;
    is_valid.then_some(Timestamp {
        seconds,
        nanoseconds: parse_fraction(fraction)?,
    })
}

/// Splits off the offset after the time of day, and returns it in seconds.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(time) = text.strip_suffix('Z') {
        return Some((time, 0));
    }
    let Some(at) = text.find(['+', '-']) else {
        return Some((text, 0));
    };
    let (time, offset) = text.split_at(at);
    let (sign, offset) = offset.split_at(1);
    let digits: String = offset.chars().filter(|c| *c != ':').collect();
    let number: i64 = digits.parse().ok()?;
    let seconds = match digits.len() {
        2 => number * 3600,
        4 => number / 100 * 3600 + number % 100 * 60,
        _ => return None,
    };
    Some((time, if sign == "-" { -seconds } else { seconds }))
}

fn days_in(year: i64, month: i64) -> i64 {
    let next = if month == 12 {
        (year + 1, 1)
    } else {
        (year, month + 1)
    };
    days_since_1970(next.0, next.1, 1) - days_since_1970(year, month, 1)
}

/// Returns the number of days since 1970 of a date, the reverse of [`CalendarTime::new`]. Years can
/// have more than four digits.
pub fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = year.clamp(-100_000, 100_000) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9).rem_euclid(12);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
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
    fn times_are_read_as_they_are_shown() {
        // The expected values come from `date -u -d TEXT +%s.%N`.
        for (text, seconds, nanoseconds) in [
            ("2026-11-21 02:12:27.5", 1_795_227_147, 500_000_000),
            ("2026-11-21T02:12:27Z", 1_795_227_147, 0),
            ("2026-11-21 04:12:27 +0200", 1_795_227_147, 0),
            ("2026-11-20T21:42:27-04:30", 1_795_227_147, 0),
            ("2026-11-21", 1_795_219_200, 0),
            ("1969-12-31 23:59", -60, 0),
            ("2000-02-29", 951_782_400, 0),
            ("2106-02-07 06:28:16", 4_294_967_296, 0),
            ("@-1.25", -2, 750_000_000),
            ("@1763728200", 1_763_728_200, 0),
        ] {
            assert_eq!(parse(text), Ok(at(seconds, nanoseconds)), "{text}");
        }
        for text in [
            "",
            "tomorrow",
            "2026-02-29",
            "2026-13-01",
            "2026-01-01 25:00",
            "@",
            "@1.x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for seconds in [-62_135_596_800, -1, 0, 951_868_799, 253_402_300_799] {
            let time = at(seconds, 1);
            assert_eq!(parse(&rfc3339(time)), Ok(time));
            assert_eq!(parse(&full(time)), Ok(time));
            assert_eq!(parse_decimal(&decimal(time)), Some(time));
        }
    }

    #[test]
    fn calendar_days_are_those_of_date() {
        // The expected values come from `date -u -d @SECONDS`.
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
    fn log_times_are_those_of_journalctl() {
        let time = at(1_795_227_147, 0);
        assert_eq!(syslog(time), "Nov 21 02:12:27");
        assert_eq!(iso(time), "2026-11-21T02:12:27+00:00");
        assert_eq!(with_weekday(time), "Sat 2026-11-21 02:12:27");
        assert_eq!(with_weekday(at(-1, 0)), "Wed 1969-12-31 23:59:59");
        assert_eq!(
            (year_of(1_704_067_199), year_of(1_704_067_200)),
            (2023, 2024)
        );
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
