//! The rule at the end of a file of the time zone database: `EST5EDT,M3.2.0,M11.1.0`, as the variable TZ has it
//! (POSIX.1-2017, section 8.3), with the hours of a week that RFC 9636 allows.

use super::{DAY_SECONDS, MAX_OFFSET_SECONDS};
use crate::time::{days_since_1970, year_of};

/// Times of rules lie within a week (RFC 9636, section 3.3.1).
const MAX_TIME_HOURS: i64 = 167;

/// When clocks are set back at two in the morning, where a rule says no time.
const DEFAULT_TIME_SECONDS: i64 = 2 * 3600;

/// The offset of a zone, which may be another one for a part of each year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    /// Seconds east of UTC.
    standard: i64,
    daylight: Option<Daylight>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Daylight {
    /// Seconds east of UTC.
    offset: i64,
    /// When it begins, in standard time.
    start: Moment,
    /// When it ends, in daylight saving time.
    end: Moment,
}

/// A moment of each year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment {
    day: Day,
    /// Seconds since midnight.
    seconds: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Day {
    /// `M3.2.0`: the month, the week (5 for the last one), the day from Sunday on.
    OfWeek(i64, i64, i64),
    /// `J60`: from 1 on; February 29 has no number.
    WithoutLeap(i64),
    /// `59`: from 0 on.
    OfYear(i64),
}

impl Rule {
    /// Parses a rule; `None` if it is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = name(text)?;
        let (standard, rest) = offset(rest)?;
        if rest.is_empty() {
            return Some(Self {
                standard,
                daylight: None,
            });
        }
        let rest = name(rest)?;
        let (offset, rest) = match rest.as_bytes().first()? {
            b',' => (standard + 3600, rest),
            _ => offset(rest)?,
        };
        let (start, end) = rest.strip_prefix(',')?.split_once(',')?;
        Some(Self {
            standard,
            daylight: Some(Daylight {
                offset,
                start: Moment::parse(start)?,
                end: Moment::parse(end)?,
            }),
        })
    }

    /// Seconds east of UTC at a time in UTC; `None` beyond the years that there will be clocks in.
    pub(super) fn offset_at(&self, seconds: i64) -> Option<i64> {
        let Some(daylight) = self.daylight else {
            return Some(self.standard);
        };
        let year = year_of(seconds.checked_add(self.standard)?);
        if !(0..=9999).contains(&year) {
            return None;
        }
        let start = daylight.start.in_year(year) - self.standard;
        let end = daylight.end.in_year(year) - daylight.offset;
        let is_daylight = if start < end {
            (start..end).contains(&seconds)
        } else {
            !(end..start).contains(&seconds)
        };
        Some(if is_daylight {
            daylight.offset
        } else {
            self.standard
        })
    }
}

impl Moment {
    fn parse(text: &str) -> Option<Self> {
        let (day, time) = match text.split_once('/') {
            Some((day, time)) => (day, Some(time)),
            None => (text, None),
        };
        let seconds = match time.map(|time| clock(time, MAX_TIME_HOURS)) {
            None => DEFAULT_TIME_SECONDS,
            Some(Some((seconds, ""))) => seconds,
            Some(_) => return None,
        };
        Some(Self {
            day: Day::parse(day)?,
            seconds,
        })
    }

    /// Seconds since 1970, by the clocks of that day.
    fn in_year(self, year: i64) -> i64 {
        self.day.in_year(year) * DAY_SECONDS + self.seconds
    }
}

impl Day {
    fn parse(text: &str) -> Option<Self> {
        let number = |text: &str, range: std::ops::RangeInclusive<i64>| {
            let is_number = text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|_| is_number);
            number.filter(|number| range.contains(number))
        };
        if let Some(day) = text.strip_prefix('J') {
            return Some(Self::WithoutLeap(number(day, 1..=365)?));
        }
        let Some(rest) = text.strip_prefix('M') else {
            return Some(Self::OfYear(number(text, 0..=365)?));
        };
        let mut parts = rest.splitn(3, '.');
        Some(Self::OfWeek(
            number(parts.next()?, 1..=12)?,
            number(parts.next()?, 1..=5)?,
            number(parts.next()?, 0..=6)?,
        ))
    }

    /// Days since 1970.
    fn in_year(self, year: i64) -> i64 {
        match self {
            Self::OfYear(day) => days_since_1970(year, 1, 1) + day,
            Self::WithoutLeap(day) if day < 60 => days_since_1970(year, 1, 1) + day - 1,
            Self::WithoutLeap(day) => days_since_1970(year, 3, 1) + day - 60,
            Self::OfWeek(month, week, weekday) => {
                let first = days_since_1970(year, month, 1);
                // 1970 began on a Thursday.
                let to_first = (weekday - (first + 4)).rem_euclid(7);
                let day = first + to_first + (week - 1) * 7;
                let (next_year, next_month) = (year + month / 12, month % 12 + 1);
                let is_within = day < days_since_1970(next_year, next_month, 1);
                if is_within { day } else { day - 7 }
            }
        }
    }
}

/// What follows the name of an offset: letters, or anything in angle brackets.
fn name(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('<') {
        return Some(rest.split_once('>')?.1);
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    (rest.len() + 3 <= text.len()).then_some(rest)
}

/// Seconds east of UTC, which are written as hours west of it.
fn offset(text: &str) -> Option<(i64, &str)> {
    let (west, rest) = clock(text, MAX_OFFSET_SECONDS / 3600)?;
    Some((-west, rest))
}

/// `[+-]hh[:mm[:ss]]` in seconds, and what follows.
fn clock(text: &str, max_hours: i64) -> Option<(i64, &str)> {
    let (sign, text) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let (hours, mut rest) = number(text, max_hours)?;
    let mut seconds = hours * 3600;
    for unit in [60, 1] {
        let Some(after) = rest.strip_prefix(':') else {
            break;
        };
        let (value, after) = number(after, 59)?;
        seconds += value * unit;
        rest = after;
    }
    Some((sign * seconds, rest))
}

/// A number of one to three digits, at most so large.
fn number(text: &str, max: i64) -> Option<(i64, &str)> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    let number = digits.parse().ok().filter(|_| digits.len() <= 3);
    Some((number.filter(|number| *number <= max)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        // 2023-01-01, 2023-07-01, each 00:00 UTC.
        for (text, january, july) in [
            ("CST-8", 8 * 3600, 8 * 3600),
            ("<+0545>-5:45", 20_700, 20_700),
            ("EST5EDT,M3.2.0,M11.1.0", -5 * 3600, -4 * 3600),
            ("NZST-12NZDT,M9.5.0,M4.1.0/3", 13 * 3600, 12 * 3600),
            ("IST-1GMT0,M10.5.0,M3.5.0/1", 0, 3600),
            ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", -7200, -3600),
            ("AAA3BBB,J60/0,J300", -10_800, -7200),
            ("AAA3BBB,59/0,299", -10_800, -7200),
            ("AAA3BBB,0/0,J365/25", -7200, -7200),
        ] {
            let rule = Rule::parse(text).unwrap();
            let offsets = [1_672_531_200, 1_688_169_600].map(|at| rule.offset_at(at).unwrap());
            assert_eq!(offsets, [january, july], "{text}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "x",
            "UTC",
            "ABC99",
            "ABC5DEF",
            "ABC5DEF,M3.2.0",
            "ABC5DEF,M13.2.0,M1.1.1",
            "ABC5DEF,M1.1.1/200,M2.1.1",
            "ABC5DEF,M1.1.1,M2.1.1x",
            "<ABC5",
            "ABC5:60",
            "ABC5DEF,J0,J1",
            "ABC5DEF,M1.1.+1,M2.1.1",
            "ABC\u{e9}5",
        ] {
            assert_eq!(Rule::parse(text), None, "{text}");
        }
        let rule = Rule::parse("EST5EDT,M3.2.0,M11.1.0").unwrap();
        for seconds in [i64::MIN, i64::MAX] {
            assert_eq!(rule.offset_at(seconds), None);
        }
    }
}
