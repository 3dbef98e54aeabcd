//! Selection of the records to show.

use std::str::FromStr;

use diskfs::inspect::is_unit;
use diskfs::logs::{Boot, Fields, Logs, Record};
use diskfs::{Error, ErrorKind, Result};
use regex::bytes::{Regex, RegexBuilder};
use uuid::Uuid;

use super::Log;
use crate::cli::session::Session;

/// The priority names of syslog(3), from 0 on.
const PRIORITIES: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
];

/// The maximum size of a compiled expression, more than any typed expression needs.
const REGEX_BYTES: usize = 4 << 20;

/// A range of priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Priorities {
    most_urgent: usize,
    least_urgent: usize,
}

impl FromStr for Priorities {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let one = |text: &str| {
            let number = text.parse().ok().filter(|number| *number < 8);
            let named = || PRIORITIES.iter().position(|name| *name == text);
            let alias = || (text == "error").then_some(3);
            let warn = || (text == "warn").then_some(4);
            let found = number.or_else(named).or_else(alias).or_else(warn);
            found.ok_or_else(|| {
                let names = PRIORITIES.join(", ");
                format!("invalid priority `{text}`: expected 0 to 7, or one of {names}")
            })
        };
        let (from, to) = match text.split_once("..") {
            Some((from, to)) => (one(from)?, one(to)?),
            None => (0, one(text)?),
        };
        Ok(Self {
            most_urgent: from.min(to),
            least_urgent: from.max(to),
        })
    }
}

/// The conditions that a record must meet, besides its time.
#[derive(Debug)]
pub(super) struct Filter {
    boot: Option<Uuid>,
    units: Vec<String>,
    identifiers: Vec<String>,
    priorities: Option<Priorities>,
    is_kernel: bool,
    pattern: Option<Regex>,
}

impl Filter {
    pub(super) fn new(args: &Log, logs: &Logs, session: &mut Session) -> Result<Self> {
        let boot = match &args.boot {
            Some(text) => {
                let (boots, problems) = logs.boots();
                for problem in problems {
                    session.warn(&problem.to_string());
                }
                Some(boot(&boots, text)?)
            }
            None => None,
        };
        Ok(Self {
            boot,
            units: args.unit.iter().map(|unit| with_suffix(unit)).collect(),
            identifiers: args.identifier.clone(),
            priorities: args.priority,
            is_kernel: args.dmesg,
            pattern: args.grep.as_deref().map(pattern).transpose()?,
        })
    }

    /// Returns true if the record is of the selected boot, which is known without reading its
    /// fields.
    pub(super) fn takes_record(&self, record: &Record) -> bool {
        match (self.boot, record) {
            (None, _) => true,
            (Some(boot), Record::Entry(entry)) => entry.boot_id == boot,
            (Some(_), Record::Line(_)) => false,
        }
    }

    /// Returns true if a condition needs the fields of a record.
    pub(super) fn asks_fields(&self) -> bool {
        !self.units.is_empty()
            || !self.identifiers.is_empty()
            || self.priorities.is_some()
            || self.is_kernel
            || self.pattern.is_some()
    }

    pub(super) fn takes(&self, fields: &Fields) -> bool {
        let values = |wanted: &'static str| {
            let named = fields
                .iter()
                .filter(move |(name, _)| name == wanted.as_bytes());
            named.map(|(_, value)| value.as_slice())
        };
        let is = |name, wanted: &str| values(name).any(|value| value == wanted.as_bytes());
        let of_unit = |unit: &String| {
            // Records of other processes about a unit count if systemd or root wrote them.
            is("_SYSTEMD_UNIT", unit)
                || (is("_PID", "1") && is("UNIT", unit))
                || (is("_UID", "0")
                    && (is("OBJECT_SYSTEMD_UNIT", unit) || is("COREDUMP_UNIT", unit)))
        };
        let is_urgent = |range: &Priorities| {
            let found =
                values("PRIORITY").find_map(|value| std::str::from_utf8(value).ok()?.parse().ok());
            found.is_some_and(|found| (range.most_urgent..=range.least_urgent).contains(&found))
        };
        let of_kernel = || {
            let is_line = values("LOG_FILE").next().is_some();
            is("_TRANSPORT", "kernel") || (is_line && is("SYSLOG_IDENTIFIER", "kernel"))
        };
        let is_named = |name: &String| is("SYSLOG_IDENTIFIER", name);
        let matches = |pattern: &Regex| values("MESSAGE").any(|value| pattern.is_match(value));
        (self.units.is_empty() || self.units.iter().any(of_unit))
            && (self.identifiers.is_empty() || self.identifiers.iter().any(is_named))
            && self.priorities.as_ref().is_none_or(is_urgent)
            && (!self.is_kernel || of_kernel())
            && self.pattern.as_ref().is_none_or(matches)
    }
}

/// Returns the full name of a unit: `ssh` stands for `ssh.service`, as in systemctl(1).
fn with_suffix(unit: &str) -> String {
    if is_unit(unit) {
        unit.to_owned()
    } else {
        format!("{unit}.service")
    }
}

fn pattern(text: &str) -> Result<Regex> {
    let mut builder = RegexBuilder::new(text);
    builder
        .case_insensitive(!text.chars().any(char::is_uppercase))
        .size_limit(REGEX_BYTES);
    builder.build().map_err(|error| {
        let reason = format!("invalid regular expression `{text}`: {error}");
        Error::new(ErrorKind::Invalid, reason)
    })
}

/// Returns the selected boot: by number from the last one (0, -1) or from the first one (1), or by
/// its ID.
fn boot(boots: &[Boot], text: &str) -> Result<Uuid> {
    let by_number = |number: i64| {
        let from_first = || usize::try_from(number).ok()?.checked_sub(1);
        let from_last = || {
            boots
                .len()
                .checked_sub(1)?
                .checked_add_signed(isize::try_from(number).ok()?)
        };
        let index = if number > 0 {
            from_first()
        } else {
            from_last()
        };
        boots.get(index?)
    };
    let is_id = text.len() == 32 || text.len() == 36;
    let found = if is_id {
        let id = Uuid::try_parse(text).ok();
        boots.iter().find(|boot| Some(boot.id) == id)
    } else {
        let wrong = || {
            let reason = format!("invalid boot `{text}`: expected an ID, or a number such as -1");
            Error::new(ErrorKind::Invalid, reason)
        };
        by_number(text.parse().map_err(|_| wrong())?)
    };
    found.map(|boot| boot.id).ok_or_else(|| {
        let reason = format!("no such boot: `{text}`; the journal has {}", boots.len());
        Error::new(ErrorKind::NotFound, reason).with_hint("--list-boots lists the boots")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_names_numbers_and_ranges() {
        let range = |text: &str| {
            Priorities::from_str(text).map(|range| (range.most_urgent, range.least_urgent))
        };
        assert_eq!(range("err"), Ok((0, 3)));
        assert_eq!(range("7"), Ok((0, 7)));
        assert_eq!(range("warning..crit"), Ok((2, 4)));
        assert_eq!(range("2..2"), Ok((2, 2)));
        for wrong in ["8", "", "..", "err..", "loud"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn boots_count_from_either_end() {
        let boots: Vec<Boot> = (1..=3)
            .map(|number| Boot {
                id: Uuid::from_u128(number),
                first_us: 0,
                last_us: 0,
            })
            .collect();
        let third = Uuid::from_u128(3).simple().to_string();
        for (text, number) in [
            ("0", 3),
            ("-1", 2),
            ("-2", 1),
            ("1", 1),
            ("3", 3),
            (&third, 3),
        ] {
            assert_eq!(
                boot(&boots, text).unwrap(),
                Uuid::from_u128(number),
                "{text}"
            );
        }
        let kind = |text: &str| boot(&boots, text).unwrap_err().kind();
        for text in [
            "4",
            "-3",
            "-9223372036854775808",
            "00000000000000000000000000000009",
        ] {
            assert_eq!(kind(text), ErrorKind::NotFound, "{text}");
        }
        assert_eq!(kind("last"), ErrorKind::Invalid);
        assert!(boot(&[], "0").is_err());
    }

    #[test]
    fn units_have_a_suffix() {
        assert_eq!(with_suffix("ssh"), "ssh.service");
        assert_eq!(with_suffix("getty@tty1.service"), "getty@tty1.service");
        assert_eq!(with_suffix("a.b"), "a.b.service");
        assert_eq!(with_suffix("tmp.mount"), "tmp.mount");
    }
}
