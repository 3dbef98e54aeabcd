//! Parsing of points in time in the syntax of systemd.time(7).

use diskfs::vfs::Timestamp;

use crate::cli::show::time;

const SECOND_US: i64 = 1_000_000;
const DAY_SECONDS: i64 = 86_400;

/// The names of units, with their microseconds. Months and years have their mean length.
const UNITS: [(&[&str], i64); 9] = [
    (&["us", "usec"], 1),
    (&["ms", "msec"], 1000),
    (&["", "s", "sec", "second", "seconds"], SECOND_US),
    (&["m", "min", "minute", "minutes"], 60 * SECOND_US),
    (&["h", "hr", "hour", "hours"], 3600 * SECOND_US),
    (&["d", "day", "days"], DAY_SECONDS * SECOND_US),
    (&["w", "week", "weeks"], 7 * DAY_SECONDS * SECOND_US),
    (&["M", "month", "months"], 2_629_800 * SECOND_US),
    (&["y", "year", "years"], 31_557_600 * SECOND_US),
];

/// Parses a point in time into microseconds since 1970.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    parse_at(text, time::now_seconds())
}

fn parse_at(text: &str, now_seconds: i64) -> Result<u64, String> {
    let text = text.trim();
    let today = now_seconds.div_euclid(DAY_SECONDS) * DAY_SECONDS;
    let day = |days: i64| Some((today + days * DAY_SECONDS) * SECOND_US);
    let found = match text {
        "now" => Some(now_seconds * SECOND_US),
        "today" => day(0),
        "yesterday" => day(-1),
        "tomorrow" => day(1),
        _ => relative(text, now_seconds * SECOND_US),
    };
    let found = match found {
        Some(found) => Ok(found),
        None => absolute(text, today),
    };
    u64::try_from(found?).map_err(|_| format!("invalid time `{text}`: before 1970"))
}

fn absolute(text: &str, today: i64) -> Result<i64, String> {
    let is_time_of_day = text.find(':').is_some_and(|at| at <= 2);
    let text = if is_time_of_day {
        let today = Timestamp {
            seconds: today,
            nanoseconds: 0,
        };
        let date = time::minutes(today);
        format!("{} {text}", date.split(' ').next().unwrap_or_default())
    } else {
        text.to_owned()
    };
    let time = time::parse(&text)?;
    let seconds = time.seconds.checked_mul(SECOND_US);
    let whole = seconds.and_then(|us| us.checked_add(i64::from(time.nanoseconds / 1000)));
    whole.ok_or_else(|| format!("invalid time `{text}`: out of range"))
}

/// Parses a relative time: `-1h`, `+5min`, `2 days ago`.
fn relative(text: &str, now_us: i64) -> Option<i64> {
    if let Some(span) = text.strip_suffix("ago") {
        return now_us.checked_sub(span_us(span)?);
    }
    match text.split_at_checked(1)? {
        ("-", span) => now_us.checked_sub(span_us(span)?),
        ("+", span) => now_us.checked_add(span_us(span)?),
        _ => None,
    }
}

/// Parses a duration: `1h30min`, `2 days`.
fn span_us(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    let mut sum = 0_i64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (name, after) = after.split_at(letters);
        let (_, unit) = UNITS.iter().find(|(names, _)| names.contains(&name))?;
        sum = sum.checked_add(number.parse::<i64>().ok()?.checked_mul(*unit)?)?;
        rest = after.trim_start();
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The current time of the test, 2023-11-14 22:13:20.
    const NOW: i64 = 1_700_000_000;

    #[test]
    fn times_are_those_of_systemd() {
        // The expected values are those of `systemd-analyze timestamp` at that time.
        for (text, seconds) in [
            ("now", NOW),
            ("today", 1_699_920_000),
            ("yesterday", 1_699_833_600),
            ("tomorrow", 1_700_006_400),
            ("-1h", NOW - 3600),
            ("-1h30min", NOW - 5400),
            ("+5min", NOW + 300),
            ("2 days ago", NOW - 172_800),
            ("1d 2h ago", NOW - 93_600),
            ("-90", NOW - 90),
            ("2023-11-14", 1_699_920_000),
            ("2023-11-14 12:30", 1_699_965_000),
            ("2023-11-14 12:30:05", 1_699_965_005),
            ("12:30", 1_699_965_000),
            ("@1700000000", NOW),
        ] {
            let expected = u64::try_from(seconds * SECOND_US).unwrap();
            assert_eq!(parse_at(text, NOW), Ok(expected), "{text}");
        }
        assert_eq!(parse_at("@1.5", NOW), Ok(1_500_000));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "-",
            "ago",
            "-1x",
            "1h",
            "-99999999999999999999",
            "2023-13-01",
            "@-1",
            "-100y",
            "-300000y",
            "\u{e9}",
        ] {
            assert!(parse_at(text, NOW).is_err(), "{text}");
        }
    }
}
