//! A record of either kind of log.

use diskfs_journal::Entry;

use super::Line;

/// Fields: names and values.
pub type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// A record of either kind of log.
#[derive(Debug, Clone)]
pub enum Record {
    /// An entry of a journal file.
    Entry(Entry),
    /// A record of a text log.
    Line(Line),
}

impl Record {
    /// Returns the time in microseconds since 1970.
    pub fn realtime_us(&self) -> u64 {
        match self {
            Self::Entry(entry) => entry.realtime_us,
            Self::Line(line) => line.realtime_us,
        }
    }

    /// Returns the number that orders records of the same time.
    pub(super) fn seqnum(&self) -> u64 {
        match self {
            Self::Entry(entry) => entry.seqnum,
            Self::Line(_) => 0,
        }
    }

    /// Returns the contents as names and values of systemd.journal-fields(7), with at most
    /// `limit_bytes` of each value. Fields that can't be read are skipped, and their number is
    /// returned.
    pub fn fields(&self, limit_bytes: u64) -> (Fields, usize) {
        match self {
            Self::Entry(entry) => {
                let mut broken = 0;
                let fields = entry.fields(limit_bytes).filter_map(|field| {
                    let whole = field.ok();
                    broken += usize::from(whole.is_none());
                    whole.map(|field| (field.name().to_vec(), field.value().to_vec()))
                });
                (fields.collect(), broken)
            }
            Self::Line(line) => (fields_of(line), 0),
        }
    }
}

fn fields_of(line: &Line) -> Fields {
    let fields = [
        ("_HOSTNAME", line.hostname.clone()),
        ("SYSLOG_IDENTIFIER", Some(line.identifier.clone())),
        ("SYSLOG_PID", line.pid.clone()),
        ("LOG_FILE", Some(line.file.as_bytes().to_vec())),
        ("MESSAGE", Some(line.message.clone())),
    ];
    let there = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.into(), value?)));
    there.collect()
}
