//! The record of an unfinished copy.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use diskfs::{Error, ErrorKind, Result};

/// The first line of a record.
const MAGIC: &str = "diskfs unfinished fetch 1";

/// The longest record.
const RECORD_MAX_BYTES: u64 = 64 << 10;

/// Replaces the record: `done_bytes` of `source` are durable. A crash leaves the old record or the
/// new one.
pub(super) fn write_record(path: &Path, dir: &Path, done_bytes: u64, source: &str) -> Result<()> {
    let write = || {
        let mut file = tempfile::Builder::new()
            .prefix(".diskfs-")
            .tempfile_in(dir)?;
        write!(file, "{MAGIC}\n{done_bytes}\n{source}")?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)
    };
    let written: io::Result<File> = write();
    written.map(drop).map_err(|e| Error::from(e).in_file(path))
}

/// Reads how many bytes are durable, if the record is of this source.
pub(super) fn read_record(path: &Path, source: &str) -> Result<u64> {
    let mut record = String::new();
    let read =
        File::open(path).and_then(|file| file.take(RECORD_MAX_BYTES).read_to_string(&mut record));
    match read {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let reason = "the record of an unfinished copy is missing";
            return Err(Error::new(ErrorKind::Exists, reason).in_file(path));
        }
        other => other.map_err(|e| Error::from(e).in_file(path))?,
    };
    let mut lines = record.splitn(3, '\n');
    let is_record = lines.next() == Some(MAGIC);
    let done = lines.next().and_then(|line| line.parse().ok());
    let invalid = |reason| Err(Error::new(ErrorKind::Invalid, reason).in_file(path));
    match done.filter(|_| is_record) {
        None => invalid("not the record of an unfinished copy"),
        Some(_) if lines.next() != Some(source) => {
            invalid("the unfinished copy is of another file, or of another version of it")
        }
        Some(done) => Ok(done),
    }
}
