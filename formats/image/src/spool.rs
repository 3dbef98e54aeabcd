//! Storing of a stream in a file, with its zeroes as holes.

use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use diskfs_block::{Error, ErrorKind, File, Result};
use diskfs_compressed::{Codec, Streams, stream};

use crate::numbers::{to_u64, to_usize};
use crate::zero_runs::runs;

/// The number of bytes to read at once.
const PIECE_BYTES: u64 = 1 << 20;
/// The smallest run of zeroes that a temporary file does not store: a page.
const SPARSE_BYTES: u64 = 4096;

/// A stream that is stored.
pub(crate) struct Input<'a> {
    bytes: Box<dyn Read + 'a>,
    /// The compression that it had, for errors.
    codec: Option<Codec>,
}

impl<'a> Input<'a> {
    /// Creates a stream of these bytes.
    pub(crate) fn new(bytes: impl Read + 'a) -> Self {
        Self {
            bytes: Box::new(bytes),
            codec: None,
        }
    }

    /// Creates a stream of what these bytes contain, which are compressed.
    pub(crate) fn decompressing(packed: impl io::BufRead + 'a, codec: Codec) -> Result<Self> {
        let unpacked = stream(packed, Streams::All).map_err(|e| damaged(codec, e))?;
        let other = || Error::corrupt(format!("no {codec} data begins here")).at(0);
        Ok(Self {
            bytes: unpacked.ok_or_else(other)?,
            codec: Some(codec),
        })
    }

    /// Returns the stream with these bytes before it.
    pub(crate) fn after(self, head: Vec<u8>) -> Self {
        Self {
            bytes: Box::new(io::Cursor::new(head).chain(self.bytes)),
            codec: self.codec,
        }
    }

    /// Returns the reader of the bytes.
    pub(crate) fn into_read(self) -> impl Read + 'a {
        self.bytes
    }

    /// Reads at most `len` bytes; less only at the end.
    pub(crate) fn read(&mut self, len: u64, buffer: &mut Vec<u8>) -> Result<u64> {
        buffer.clear();
        match ((&mut *self.bytes).take(len).read_to_end(buffer), self.codec) {
            (Ok(len), _) => Ok(to_u64(len)),
            (Err(e), Some(codec)) => Err(damaged(codec, e)),
            (Err(e), None) => Err(e.into()),
        }
    }

    /// Copies the stream into an empty file, which gets its length, and returns that. Runs of
    /// `sparse_bytes` zeroes are not stored; `None` stores all. `advance` is called with the length
    /// of each piece.
    pub(crate) fn store(
        mut self,
        file: &std::fs::File,
        sparse_bytes: Option<u64>,
        advance: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let unit = to_usize(sparse_bytes.unwrap_or(SPARSE_BYTES));
        let (mut piece, mut at) = (Vec::new(), 0_u64);
        loop {
            let len = self.read(PIECE_BYTES, &mut piece)?;
            if len == 0 {
                break;
            }
            for run in runs(&piece, unit) {
                if !run.is_zero || sparse_bytes.is_none() {
                    file.write_all_at(run.bytes, at)?;
                }
                at = at.saturating_add(to_u64(run.bytes.len()));
            }
            advance(len)?;
        }
        file.set_len(at)?;
        Ok(at)
    }

    /// Stores the stream in a file without a name in this directory.
    pub(crate) fn store_unnamed(
        self,
        directory: &Path,
        advance: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<File> {
        let full = |error: Error| match error.kind() {
            ErrorKind::NoSpace => error
                .in_file(directory)
                .with_hint("set TMPDIR to a directory with enough space for the whole disk"),
            _ => error,
        };
        let file = tempfile::tempfile_in(directory);
        let file = file.map_err(|error| Error::from(error).in_file(directory))?;
        self.store(&file, Some(SPARSE_BYTES), advance)
            .map_err(full)?;
        File::from_fd(file.into(), directory)
    }
}

/// Returns the error of a decompressed stream: the device's, or that the data is damaged.
fn damaged(codec: Codec, error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) => {
            let reason = format!("invalid {codec} data; the file may be truncated");
            Error::corrupt(reason).with_source(error)
        }
    }
}
