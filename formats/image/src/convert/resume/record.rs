//! The record of an unfinished copy.

use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::path::Path;

use diskfs_block::{Error, ErrorKind, Result};

use crate::create::directory_of;

/// The first line of a record.
const MAGIC: &str = "diskfs unfinished copy 1";
/// The longest record.
const RECORD_MAX_BYTES: u64 = 1 << 20;

/// The state of an unfinished copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// The number of bytes of the disk that are durable in the image.
    pub(super) done_bytes: u64,
    /// The end of a compressed image, which is written from its beginning to its end.
    pub(super) end: Option<u64>,
}

impl Progress {
    /// Returns the line of a record: `DONE`, or `DONE END`.
    fn encode(self) -> String {
        let end = self.end.map(|end| format!(" {end}"));
        format!("{}{}", self.done_bytes, end.unwrap_or_default())
    }

    fn parse(line: &str) -> Option<Self> {
        let (done, end) = match line.split_once(' ') {
            Some((done, end)) => (done, Some(end.parse().ok()?)),
            None => (line, None),
        };
        let done_bytes = done.parse().ok()?;
        Some(Self { done_bytes, end })
    }
}

/// Replaces the record. A crash leaves the old one or the new one.
pub(super) fn write_record(path: &Path, progress: Progress, source: &str) -> Result<()> {
    let write = || {
        let mut file = tempfile::Builder::new()
            .prefix(".diskfs-")
            .tempfile_in(directory_of(path))?;
        write!(file, "{MAGIC}\n{}\n{source}", progress.encode())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)
    };
    let written = write();
    written.map(drop).map_err(|e| Error::from(e).in_file(path))
}

/// Reads the state of the copy, if the record is of this source.
pub(super) fn read_record(path: &Path, source: &str) -> Result<Progress> {
    let mut record = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(RECORD_MAX_BYTES).read_to_string(&mut record));
    match read {
        Err(e) if e.kind() == IoErrorKind::NotFound => {
            let reason = "the record of an unfinished copy is missing";
            return Err(Error::new(ErrorKind::Exists, reason).in_file(path));
        }
        other => other.map_err(|e| Error::from(e).in_file(path))?,
    };
    let mut lines = record.splitn(3, '\n');
    let is_record = lines.next() == Some(MAGIC);
    let progress = lines.next().and_then(Progress::parse);
    match progress.filter(|_| is_record) {
        None => Err(Error::invalid("not the record of an unfinished copy").in_file(path)),
        Some(_) if lines.next() != Some(source) => {
            let reason = "the unfinished copy is of another source or an earlier state of it, or \
                          was begun with other options";
            Err(Error::invalid(reason).in_file(path))
        }
        Some(progress) => Ok(progress),
    }
}
