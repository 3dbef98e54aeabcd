//! The guest's time zone: what its text logs mean by the times that they write.
//!
//! A zone is read from a file of the time zone database (`TZif`, RFC 9636), which belongs to the guest and is as hostile as
//! all of it: it has a limit of bytes, every count is checked against what is there, and an offset that no zone has
//! makes the file invalid.

mod find;
mod rule;

use rule::Rule;

use super::DAY_SECONDS;

pub(super) use find::of_guest;

/// More than any file of the database: the largest that `zic -b fat` makes have 4 KiB.
const FILE_BYTES: u64 = 64 << 10;

/// What offsets stay within (RFC 9636, section 3.2: from -25 to 26 hours).
const MAX_OFFSET_SECONDS: i64 = 26 * 3600;

/// The header of each half (RFC 9636, section 3.1).
const HEADER_BYTES: usize = 44;

/// A time zone: how far its clocks are ahead of UTC, and when that changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Zone {
    /// Seconds east of UTC before the first change.
    first: i64,
    /// When the offset changes, in seconds since 1970, and to what; in the order of time.
    changes: Vec<(i64, i64)>,
    /// The offset after the last change, where it goes on changing.
    rule: Option<Rule>,
}

impl Zone {
    /// Reads a file of the database; `None` if it is invalid.
    pub(super) fn parse(file: &[u8]) -> Option<Self> {
        let header = Header::parse(file)?;
        let body = file.get(HEADER_BYTES..)?;
        if header.version == 0 {
            return header.zone(body, 4);
        }
        // The second half is the first one again with wider times, and a rule for what comes after.
        let second = body.get(header.body_bytes(4)?..)?;
        let header = Header::parse(second)?;
        let body = second.get(HEADER_BYTES..)?;
        let mut zone = header.zone(body, 8)?;
        let footer = body.get(header.body_bytes(8)?..)?.strip_prefix(b"\n")?;
        let end = footer.iter().position(|byte| *byte == b'\n')?;
        let text = std::str::from_utf8(&footer[..end]).ok()?;
        if !text.is_empty() {
            zone.rule = Some(Rule::parse(text)?);
        }
        Some(zone)
    }

    /// Seconds that clocks are ahead of UTC, at a time in UTC.
    fn offset_at(&self, seconds: i64) -> i64 {
        let after = self.changes.partition_point(|(at, _)| *at <= seconds);
        match (after.checked_sub(1), &self.rule) {
            (last, Some(rule)) if after == self.changes.len() => {
                let before = last.map_or(self.first, |last| self.changes[last].1);
                rule.offset_at(seconds).unwrap_or(before)
            }
            (Some(last), _) => self.changes[last].1,
            (None, _) => self.first,
        }
    }

    /// The time in UTC that clocks of the zone show as `local`, in seconds since 1970.
    ///
    /// A time that clocks show twice, when they are set back, is the first of the two. One that they never show,
    /// because they are set forward over it, counts from the offset before, as mktime(3) does it.
    pub(super) fn utc(&self, local: i64) -> i64 {
        let before = self.offset_at(local.saturating_sub(DAY_SECONDS));
        let after = self.offset_at(local.saturating_add(DAY_SECONDS));
        let shows = |offset: &i64| self.offset_at(local.saturating_sub(*offset)) == *offset;
        let offset = [before, after].into_iter().find(shows).unwrap_or(before);
        local.saturating_sub(offset)
    }
}

/// How much there is of everything in a half of the file.
struct Header {
    version: u8,
    utc_flags: usize,
    standard_flags: usize,
    leap_seconds: usize,
    changes: usize,
    types: usize,
    name_bytes: usize,
}

impl Header {
    fn parse(half: &[u8]) -> Option<Self> {
        let rest = half.strip_prefix(b"TZif")?;
        let version = *rest.first()?;
        let mut counts = half.get(20..HEADER_BYTES)?.chunks_exact(4);
        let mut count = || {
            let count = u32::from_be_bytes(counts.next()?.try_into().ok()?);
            // What is larger than the file is in no file.
            usize::try_from(count)
                .ok()
                .filter(|count| *count as u64 <= FILE_BYTES)
        };
        Some(Self {
            version,
            utc_flags: count()?,
            standard_flags: count()?,
            leap_seconds: count()?,
            changes: count()?,
            types: count()?,
            name_bytes: count()?,
        })
    }

    /// The length of what follows, with times of so many bytes. Each count is below [`FILE_BYTES`].
    fn body_bytes(&self, time_bytes: usize) -> Option<usize> {
        let pieces = [
            (self.changes, time_bytes + 1),
            (self.types, 6),
            (self.name_bytes, 1),
            (self.leap_seconds, time_bytes + 4),
            (self.standard_flags, 1),
            (self.utc_flags, 1),
        ];
        pieces.iter().try_fold(0_usize, |sum, (count, size)| {
            sum.checked_add(count.checked_mul(*size)?)
        })
    }

    fn zone(&self, body: &[u8], time_bytes: usize) -> Option<Zone> {
        let (times, rest) = body.split_at_checked(self.changes.checked_mul(time_bytes)?)?;
        let (kinds, rest) = rest.split_at_checked(self.changes)?;
        let types = rest.get(..self.types.checked_mul(6)?)?;
        let offsets: Option<Vec<i64>> = types.chunks_exact(6).map(offset).collect();
        let offsets = offsets?;
        let changes = times.chunks_exact(time_bytes).zip(kinds);
        let changes: Option<Vec<(i64, i64)>> = changes
            .map(|(time, kind)| Some((seconds(time)?, *offsets.get(usize::from(*kind))?)))
            .collect();
        let changes = changes?;
        changes.is_sorted_by(|a, b| a.0 < b.0).then_some(Zone {
            first: *offsets.first()?,
            changes,
            rule: None,
        })
    }
}

fn seconds(time: &[u8]) -> Option<i64> {
    match time.len() {
        4 => Some(i32::from_be_bytes(time.try_into().ok()?).into()),
        _ => Some(i64::from_be_bytes(time.try_into().ok()?)),
    }
}

/// The offset of a local time type (RFC 9636, section 3.2).
fn offset(kind: &[u8]) -> Option<i64> {
    let offset = i64::from(i32::from_be_bytes(kind.get(..4)?.try_into().ok()?));
    (-MAX_OFFSET_SECONDS..=MAX_OFFSET_SECONDS)
        .contains(&offset)
        .then_some(offset)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use diskfs_fixtures::require;
    use proptest::prelude::*;

    use super::*;

    /// With daylight saving time on either side of the equator, without it, with changes of the offset itself, with half
    /// an hour of it, with an offset below the standard one in winter, with days that there never were, across the year.
    const ZONES: [&str; 12] = [
        "Africa/Casablanca",
        "America/New_York",
        "America/Nuuk",
        "America/Sao_Paulo",
        "Asia/Gaza",
        "Asia/Kathmandu",
        "Asia/Shanghai",
        "Australia/Lord_Howe",
        "Europe/Dublin",
        "Europe/Moscow",
        "Pacific/Apia",
        "Pacific/Auckland",
    ];

    fn file(name: &str) -> Option<Vec<u8>> {
        let file = fs::read(format!("/usr/share/zoneinfo/{name}")).ok();
        if file.is_none() {
            require("tzdata");
        }
        file
    }

    /// What date(1) says of each line, in a zone.
    fn date(zone: &str, format: &str, lines: &[String]) -> Vec<String> {
        let mut date = Command::new("date")
            .args(["-f", "-", format])
            .env("TZ", zone)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = date.stdin.take().unwrap();
        let text = lines.join("\n");
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
        let told = date.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        let told = String::from_utf8(told.stdout).unwrap();
        told.lines().map(str::to_owned).collect()
    }

    /// Every 31 hours of 1965 to 2060, which is beyond what files list.
    fn times() -> Vec<i64> {
        (-157_766_400..2_840_140_800).step_by(31 * 3600).collect()
    }

    #[test]
    fn zones_are_those_of_date() {
        for name in ZONES {
            let Some(file) = file(name) else { return };
            let zone = Zone::parse(&file).unwrap();
            let times = times();
            let lines: Vec<String> = times.iter().map(|time| format!("@{time}")).collect();
            let shown = date(name, "+%Y-%m-%d %H:%M:%S", &lines);
            // The local time as if it were of UTC.
            let locals = date("UTC0", "+%s", &shown);
            assert_eq!(locals.len(), times.len());
            for (time, local) in times.iter().zip(locals) {
                let local: i64 = local.parse().unwrap();
                assert_eq!(time + zone.offset_at(*time), local, "{name} @{time}");
                let utc = zone.utc(local);
                assert!(utc == *time || utc + zone.offset_at(utc) == local, "{name}");
            }
        }
    }

    #[test]
    fn hours_that_come_twice_or_never_are_those_of_the_offset_before() {
        let Some(file) = file("America/New_York") else {
            return;
        };
        let zone = Zone::parse(&file).unwrap();
        // 2023-11-05 01:30 comes twice: the first, at 05:30 UTC. 2023-03-12 02:30 never comes: 07:30 UTC.
        assert_eq!(zone.utc(1_699_147_800), 1_699_162_200);
        assert_eq!(zone.utc(1_678_588_200), 1_678_606_200);
    }

    #[test]
    fn a_zone_without_a_file_is_utc() {
        let utc = Zone::default();
        assert_eq!((utc.offset_at(5), utc.utc(5)), (0, 5));
    }

    #[test]
    fn what_is_broken_is_refused() {
        let Some(good) = file("Europe/Dublin") else {
            return;
        };
        for len in 0..good.len() {
            assert_eq!(Zone::parse(&good[..len]), None, "{len}");
        }
        let mut huge = good.clone();
        huge[20..44].fill(0xff);
        assert_eq!(Zone::parse(&huge), None);
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(at in 0_usize..4000, value: u8, local: i64) {
            if let Some(mut bytes) = file("Africa/Casablanca") {
                let at = at % bytes.len();
                bytes[at] = value;
                if let Some(zone) = Zone::parse(&bytes) {
                    let _ = zone.utc(local);
                }
            }
        }
    }
}
