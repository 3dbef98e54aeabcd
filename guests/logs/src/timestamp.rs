//! Parsing of the times at the start of lines.
//!
//! * RFC 3164: `Nov 22 17:52:58`, which lacks the year;
//! * RFC 3339 and ISO 8601: `2024-01-01T12:00:00.123456+01:00`, `2024-01-01T12:00:00+0000`;
//! * dpkg: `2024-01-01 12:00:00`.
//!
//! A time without a zone is interpreted in the guest's zone.

use super::zone::Zone;
use super::{DAY_SECONDS, DAY_US, SECOND_US};
use diskfs_disk::time::{days_since_1970, year_of};

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Parses the time at the start of a line. Returns it in microseconds since 1970, with the rest of
/// the line. A time without a year gets the latest year in which it is at most one day after
/// `written_us`, the modification time of the file. A time without an offset is interpreted in
/// `zone`.
pub(super) fn parse<'a>(line: &'a [u8], written_us: u64, zone: &Zone) -> Option<(u64, &'a [u8])> {
    let (time, rest) = match line.first()? {
        b'0'..=b'9' => iso(line, zone)?,
        b'A'..=b'Z' => without_year(line, written_us, zone)?,
        _ => return None,
    };
    let rest = match rest {
        [] => rest,
        [b' ' | b'\t', after @ ..] => after,
        _ => return None,
    };
    Some((u64::try_from(time).ok()?, rest))
}

/// Year, month and day; or hour, minute and second.
type Triple = (i64, i64, i64);

/// Returns the seconds since 1970 of a date and a time of day, if they are valid. A leap second
/// counts as the following second.
fn seconds((year, month, day): Triple, (hour, minute, second): Triple) -> Option<i64> {
    let in_range = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    let days = in_range.then(|| days_since_1970(year, month, day))?;
    Some(days * DAY_SECONDS + hour * 3600 + minute * 60 + second)
}

fn without_year<'a>(line: &'a [u8], written_us: u64, zone: &Zone) -> Option<(i64, &'a [u8])> {
    let name = line.get(..3)?;
    let month = (1..).zip(MONTHS).find(|(_, month)| *month == name)?.0;
    let rest = line.get(3..)?.strip_prefix(b" ")?;
    // `Nov  2`: the day is padded with a space.
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let (day, rest) = number(rest, 1, 2)?;
    let (time, rest) = time_of_day(rest.strip_prefix(b" ")?)?;
    let (fraction_us, rest) = fraction(rest);
    let latest = i64::try_from(written_us.saturating_add(DAY_US)).ok()?;
    let in_year = |year: i64| {
        let seconds = zone.utc(seconds((year, month, day), time)?);
        seconds.checked_mul(1_000_000)?.checked_add(fraction_us)
    };
    let this_year = year_of(latest / 1_000_000);
    let time = in_year(this_year).filter(|time| *time <= latest);
    Some((time.or_else(|| in_year(this_year - 1))?, rest))
}

fn iso<'a>(line: &'a [u8], zone: &Zone) -> Option<(i64, &'a [u8])> {
    let (year, rest) = number(line, 4, 4)?;
    let (month, rest) = number(rest.strip_prefix(b"-")?, 2, 2)?;
    let (day, rest) = number(rest.strip_prefix(b"-")?, 2, 2)?;
    let rest = rest
        .strip_prefix(b"T")
        .or_else(|| rest.strip_prefix(b" "))?;
    let (time, rest) = time_of_day(rest)?;
    let (fraction_us, rest) = fraction(rest);
    let (east_seconds, rest) = offset(rest)?;
    let local = seconds((year, month, day), time)?;
    let seconds = match east_seconds {
        Some(east) => local - east,
        None => zone.utc(local),
    };
    Some((
        seconds.checked_mul(1_000_000)?.checked_add(fraction_us)?,
        rest,
    ))
}

fn time_of_day(text: &[u8]) -> Option<(Triple, &[u8])> {
    let (hour, rest) = number(text, 2, 2)?;
    let (minute, rest) = number(rest.strip_prefix(b":")?, 2, 2)?;
    let (second, rest) = number(rest.strip_prefix(b":")?, 2, 2)?;
    Some(((hour, minute, second), rest))
}

/// Parses `.123456` or `,123` to microseconds.
fn fraction(text: &[u8]) -> (i64, &[u8]) {
    let [b'.' | b',', digits @ ..] = text else {
        return (0, text);
    };
    let len = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (digits, rest) = digits.split_at(len);
    let six = digits.iter().chain(b"000000").take(6);
    let microseconds = six.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    (microseconds, rest)
}

/// Parses an offset to seconds east of Greenwich: `Z`, `+01:00`, `+0100`, or nothing.
fn offset(text: &[u8]) -> Option<(Option<i64>, &[u8])> {
    let (sign, rest) = match text {
        [b'Z', rest @ ..] => return Some((Some(0), rest)),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return Some((None, text)),
    };
    let (hours, rest) = number(rest, 2, 2)?;
    let rest = rest.strip_prefix(b":").unwrap_or(rest);
    let (minutes, rest) = number(rest, 2, 2)?;
    Some((Some(sign * (hours * 3600 + minutes * 60)), rest))
}

/// Parses a number with a number of digits in the given range.
fn number(text: &[u8], least: usize, most: usize) -> Option<(i64, &[u8])> {
    let digits = text
        .iter()
        .take(most)
        .take_while(|byte| byte.is_ascii_digit());
    let len = digits.count();
    let (digits, rest) = text.split_at(len);
    let value = digits
        .iter()
        .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    (len >= least).then_some((value, rest))
}

/// Converts a file time to microseconds since 1970.
pub(super) fn microseconds(time: diskfs_vfs::Timestamp) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let fraction = u64::from(time.nanoseconds / 1000);
    seconds.saturating_mul(SECOND_US).saturating_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-02-10 00:00:00.
    const WRITTEN: u64 = 1_707_523_200 * SECOND_US;

    #[test]
    fn each_way_to_write_a_time_is_read() {
        // The expected values come from `date -u -d TEXT +%s`.
        for (line, seconds, rest) in [
            (
                "Feb  9 17:52:58 host prog[1]: x",
                1_707_501_178,
                "host prog[1]: x",
            ),
            ("Feb 10 23:59:59 x", 1_707_609_599, "x"),
            // The day after tomorrow means that day of the previous year.
            ("Feb 12 00:00:00 x", 1_676_160_000, "x"),
            ("Dec 31 23:59:59 x", 1_704_067_199, "x"),
            ("Jan  1 00:00:00 x", 1_704_067_200, "x"),
            ("2024-01-01T12:00:00+01:00 h p: x", 1_704_106_800, "h p: x"),
            ("2024-01-01T12:00:00+0100 x", 1_704_106_800, "x"),
            ("2024-01-01T12:00:00Z DEBUG", 1_704_110_400, "DEBUG"),
            ("2024-01-01 12:00:00 status", 1_704_110_400, "status"),
            ("2024-01-01 12:00:00", 1_704_110_400, ""),
        ] {
            let expected = Some((seconds * SECOND_US, rest.as_bytes()));
            let utc = Zone::default();
            assert_eq!(parse(line.as_bytes(), WRITTEN, &utc), expected, "{line}");
        }
        let (time, _) =
            parse(b"2024-01-01T12:00:00.25-00:30 x", WRITTEN, &Zone::default()).unwrap();
        assert_eq!(time, 1_704_112_200_250_000);
    }

    #[test]
    fn what_is_no_time_is_none() {
        for line in [
            "",
            "x",
            "Feb",
            "Feb 9",
            "Feb 99 00:00:00 x",
            "Feb  9 17:52:58host",
            "Xyz  9 17:52:58 h",
            "2024-01-01",
            "2024-13-01 12:00:00 x",
            "2024-01-01 25:00:00 x",
            "2024-01-01T12:00:00+1 x",
            "1960-01-01 00:00:00 x",
            "99999",
            "Feb \u{e9} 00:00:00",
        ] {
            let utc = Zone::default();
            assert_eq!(parse(line.as_bytes(), WRITTEN, &utc), None, "{line}");
        }
        for written in [0, u64::MAX] {
            let _ = parse(b"Feb  9 17:52:58 x", written, &Zone::default());
        }
    }
}
