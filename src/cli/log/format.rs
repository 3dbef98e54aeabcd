//! The output formats of records.

use std::io::{self, Write};

use clap::ValueEnum;
use diskfs::logs::{Fields, Record};
use diskfs::vfs::Timestamp;
use serde_json::{Map, Value};

use super::printable::{is_printable, is_printable_text, lines, one_line};
use crate::cli::show::time;

/// The output formats of journalctl(1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A line per record, as in a text log
    Short,
    /// A line per record, with ISO 8601 times
    ShortIso,
    /// A line per record, with microseconds
    ShortPrecise,
    /// All fields of each record, as text
    Verbose,
    /// Only the messages
    Cat,
    /// All fields, one JSON object per line
    Json,
    /// All fields, in the export format that systemd-journal-remote reads
    Export,
}

/// The maximum size of a value in text output, the same as in journalctl.
const SHOWN_BYTES: u64 = 64 << 10;

/// The maximum size of a value in machine-readable output. Larger values are files that somebody
/// logged.
const WHOLE_BYTES: u64 = 64 << 20;

impl Format {
    /// Returns the maximum size of a value.
    pub(super) fn limit_bytes(self) -> u64 {
        match self {
            Self::Json | Self::Export => WHOLE_BYTES,
            _ => SHOWN_BYTES,
        }
    }
}

/// A writer of records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer {
    pub(super) format: Format,
    pub(super) is_terminal: bool,
}

impl Writer {
    pub(super) fn write(
        self,
        out: &mut impl Write,
        record: &Record,
        fields: Option<Fields>,
    ) -> io::Result<()> {
        let read = || record.fields(self.format.limit_bytes()).0;
        let fields = fields.unwrap_or_else(read);
        let at = timestamp(shown_us(record.realtime_us(), &fields));
        let microseconds = at.nanoseconds / 1000;
        match self.format {
            Format::Short => short(out, &time::syslog(at), &fields),
            Format::ShortIso => short(out, &time::iso(at), &fields),
            Format::ShortPrecise => short(
                out,
                &format!("{}.{microseconds:06}", time::syslog(at)),
                &fields,
            ),
            Format::Verbose => verbose(out, at, record, &fields),
            Format::Cat => self.cat(out, &fields),
            Format::Json => json(out, record, &fields),
            Format::Export => self.export(out, record, &fields),
        }
    }

    /// Writes only the message; unchanged, unless the output is a terminal.
    fn cat(self, out: &mut impl Write, fields: &Fields) -> io::Result<()> {
        let text = value(fields, "MESSAGE").unwrap_or_default();
        if !self.is_terminal {
            out.write_all(text)?;
            return out.write_all(b"\n");
        }
        lines(text)
            .iter()
            .try_for_each(|line| writeln!(out, "{line}"))
    }

    /// Writes a record in the export format,
    /// <https://systemd.io/JOURNAL_EXPORT_FORMATS/#journal-export-format>.
    fn export(self, out: &mut impl Write, record: &Record, fields: &Fields) -> io::Result<()> {
        for (name, value) in addresses(record) {
            writeln!(out, "{name}={value}")?;
        }
        for (name, value) in besides_addresses(record, fields) {
            out.write_all(name)?;
            if is_printable(value) {
                out.write_all(b"=")?;
                out.write_all(value)?;
            } else if self.is_terminal {
                write!(out, "={}", one_line(value))?;
            } else {
                out.write_all(b"\n")?;
                out.write_all(&(value.len() as u64).to_le_bytes())?;
                out.write_all(value)?;
            }
            out.write_all(b"\n")?;
        }
        out.write_all(b"\n")
    }
}

/// Returns the time to show in text output. As in journalctl, that is when the program logged the
/// record, if known, and not when journald received it (systemd.journal-fields(7)).
fn shown_us(realtime_us: u64, fields: &Fields) -> u64 {
    let source = value(fields, "_SOURCE_REALTIME_TIMESTAMP");
    let source = source.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    source
        .filter(|us| (1..1 << 55).contains(us))
        .unwrap_or(realtime_us)
}

/// Converts microseconds since 1970.
pub(super) fn timestamp(time_us: u64) -> Timestamp {
    Timestamp {
        seconds: i64::try_from(time_us / 1_000_000).unwrap_or(i64::MAX),
        nanoseconds: u32::try_from(time_us % 1_000_000 * 1000).unwrap_or(0),
    }
}

fn value<'a>(fields: &'a Fields, wanted: &str) -> Option<&'a [u8]> {
    let found = fields.iter().find(|(name, _)| name == wanted.as_bytes());
    found.map(|(_, value)| value.as_slice())
}

/// Writes a record as `Nov 14 22:13:20 host sshd[104]: text`, with further lines of the text below
/// it.
fn short(out: &mut impl Write, time: &str, fields: &Fields) -> io::Result<()> {
    let first = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| value(fields, name))
            .map(one_line)
    };
    let host = first(&["_HOSTNAME"]).map(|host| format!(" {host}"));
    let program = first(&["SYSLOG_IDENTIFIER", "_COMM"]);
    let process = first(&["_PID", "SYSLOG_PID"]).map(|pid| format!("[{pid}]"));
    let head = format!(
        "{time}{} {}{}: ",
        host.unwrap_or_default(),
        program.as_deref().unwrap_or("unknown"),
        process.unwrap_or_default()
    );
    let text = lines(value(fields, "MESSAGE").unwrap_or_default());
    for (number, line) in text.iter().enumerate() {
        match number {
            0 => writeln!(out, "{head}{line}")?,
            _ => writeln!(out, "{:width$}{line}", "", width = head.chars().count())?,
        }
    }
    Ok(())
}

fn verbose(
    out: &mut impl Write,
    at: Timestamp,
    record: &Record,
    fields: &Fields,
) -> io::Result<()> {
    let cursor = match record {
        Record::Entry(entry) => entry.cursor(),
        Record::Line(line) => one_line(line.file.as_bytes()),
    };
    let microseconds = at.nanoseconds / 1000;
    writeln!(
        out,
        "{}.{microseconds:06} UTC [{cursor}]",
        time::with_weekday(at)
    )?;
    for (name, value) in fields {
        let (name, text) = (one_line(name), lines(value));
        let mut text = text.iter();
        writeln!(out, "    {name}={}", text.next().map_or("", String::as_str))?;
        for line in text {
            writeln!(out, "    {:width$}{line}", "", width = name.len() + 1)?;
        }
    }
    Ok(())
}

/// Returns the fields that say where a record is stored and when it was logged.
fn addresses(record: &Record) -> Vec<(&'static str, String)> {
    let realtime = ("__REALTIME_TIMESTAMP", record.realtime_us().to_string());
    match record {
        Record::Line(_) => vec![realtime],
        Record::Entry(entry) => vec![
            ("__CURSOR", entry.cursor()),
            realtime,
            ("__MONOTONIC_TIMESTAMP", entry.monotonic_us.to_string()),
            ("_BOOT_ID", entry.boot_id.simple().to_string()),
        ],
    }
}

/// Returns the fields that `addresses` does not already contain: the boot ID of a journal entry is
/// among its addresses.
fn besides_addresses<'a>(
    record: &Record,
    fields: &'a Fields,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let has_boot = matches!(record, Record::Entry(_));
    let besides = fields
        .iter()
        .filter(move |(name, _)| !has_boot || name != b"_BOOT_ID");
    besides.map(|(name, value)| (name.as_slice(), value.as_slice()))
}

/// Writes a record as JSON, <https://systemd.io/JOURNAL_EXPORT_FORMATS/#journal-json-format>:
/// binary values are arrays of bytes, and a field with several values is an array of values.
fn json(out: &mut impl Write, record: &Record, fields: &Fields) -> io::Result<()> {
    let mut object = Map::new();
    for (name, value) in addresses(record) {
        object.insert(name.to_owned(), value.into());
    }
    let mut lists: Vec<String> = Vec::new();
    for (name, value) in besides_addresses(record, fields) {
        let name = String::from_utf8_lossy(name).into_owned();
        let value = json_value(value);
        let Some(before) = object.get_mut(&name) else {
            object.insert(name, value);
            continue;
        };
        match before {
            Value::Array(values) if lists.contains(&name) => values.push(value),
            single => {
                *single = Value::Array(vec![single.take(), value]);
                lists.push(name);
            }
        }
    }
    serde_json::to_writer(&mut *out, &object)?;
    out.write_all(b"\n")
}

fn json_value(value: &[u8]) -> Value {
    match std::str::from_utf8(value) {
        Ok(text) if is_printable_text(value) => text.into(),
        _ => value.iter().copied().map(Value::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_when_it_was_said() {
        let source_time = |text: &str| vec![(b"_SOURCE_REALTIME_TIMESTAMP".to_vec(), text.into())];
        assert_eq!(shown_us(5, &Vec::new()), 5);
        assert_eq!(shown_us(5, &source_time("4")), 4);
        for wrong in [
            "",
            "0",
            "-1",
            "x",
            "99999999999999999999",
            "36028797018963968",
        ] {
            assert_eq!(shown_us(5, &source_time(wrong)), 5, "{wrong}");
        }
    }
}
