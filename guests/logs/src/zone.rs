//! The guest's time zone: what its text logs mean by the times that they write.
//!
//! A zone is read from a file of the time zone database (`TZif`, RFC 9636), which belongs to the guest and is as hostile as
//! all of it. jiff reads it, and refuses one whose counts are more than the file has; here the file has a limit of bytes.

mod find;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(super) use find::of_guest;

/// More than any file of the database: the largest that `zic -b fat` makes have 4 KiB.
const FILE_BYTES: u64 = 64 << 10;

/// A time zone: how far its clocks are ahead of UTC, and when that changes. The default is UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Zone {
    /// Reads a file of the database; `None` if it is invalid.
    pub(super) fn parse(file: &[u8]) -> Option<Self> {
        TimeZone::tzif("", file).ok().map(Self)
    }

    /// The time in UTC that clocks of the zone show as `local`, in seconds since 1970.
    ///
    /// A time that clocks show twice, when they are set back, is the first of the two. One that they never show,
    /// because they are set forward over it, counts from the offset before, as mktime(3) does it.
    pub(super) fn utc(&self, local: i64) -> i64 {
        let utc = Timestamp::from_second(local).and_then(|shown| {
            let shown = TimeZone::UTC.to_datetime(shown);
            self.0.to_ambiguous_timestamp(shown).compatible()
        });
        utc.map_or(local, Timestamp::as_second) // Not in this calendar.
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

    impl Zone {
        /// Seconds that clocks are ahead of UTC.
        fn offset_at(&self, seconds: i64) -> i64 {
            let at = Timestamp::from_second(seconds).unwrap();
            self.0.to_offset(at).seconds().into()
        }
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
