//! The guest's time zone, in which the times of its text logs are interpreted.
//!
//! A zone is read from a file of the time zone database (`TZif`, RFC 9636), which belongs to the
//! guest and may be hostile. jiff parses it and rejects counts that exceed the file; this module
//! limits the size of the file.

mod find;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(super) use find::of_guest;

/// The size limit of a file of the database; the largest that `zic -b fat` makes have 4 KiB.
const FILE_BYTES: u64 = 64 << 10;

/// A time zone: the offset of its clocks from UTC over time. The default is UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Zone {
    /// Parses a file of the database; `None` if it is invalid.
    pub(super) fn parse(file: &[u8]) -> Option<Self> {
        TimeZone::tzif("", file).ok().map(Self)
    }

    /// Converts a local time of the zone to UTC, both in seconds since 1970.
    ///
    /// A local time that occurs twice, when clocks are set back, is the first of the two. A local
    /// time that never occurs, because clocks are set forward over it, is interpreted with the
    /// offset before, as in mktime(3).
    pub(super) fn utc(&self, local: i64) -> i64 {
        let utc = Timestamp::from_second(local).and_then(|shown| {
            let shown = TimeZone::UTC.to_datetime(shown);
            self.0.to_ambiguous_timestamp(shown).compatible()
        });
        utc.map_or(local, Timestamp::as_second) // The time is out of jiff's range.
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use diskfs_fixtures::require;
    use proptest::prelude::*;

    use super::*;

    /// Zones with daylight saving time north and south of the equator, without it, with changes of
    /// the standard offset, with a half-hour change, with a lower offset in winter than the
    /// standard one, with skipped days, and with a change across the year's end.
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

    impl Zone {
        /// Returns the offset of the clocks from UTC in seconds.
        fn offset_at(&self, seconds: i64) -> i64 {
            let at = Timestamp::from_second(seconds).unwrap();
            self.0.to_offset(at).seconds().into()
        }
    }

    /// Returns the output of date(1) for each line, in a zone.
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

    /// Returns a time every 31 hours from 1965 to 2060, which is beyond the transitions that files
    /// list.
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
            // The local time, interpreted as UTC.
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
        // 2023-11-05 01:30 occurs twice: the first is at 05:30 UTC. 2023-03-12 02:30 never occurs:
        // it becomes 07:30 UTC.
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
