//! Comparison of the guest's files with other contents.

use std::fs::File as HostFile;
use std::io::{self, Read};
use std::path::Path;

use diskfs_disk::{Error, File, Result};

/// The number of bytes that are compared at once.
const PIECE_BYTES: usize = 256 << 10;

/// Returns true if a guest's file has the contents of a local file.
pub(super) fn as_on_host(file: File, path: &Path) -> Result<bool> {
    let in_place = |error: io::Error| Error::from(error).in_file(path);
    let host = HostFile::open(path).map_err(in_place)?;
    is(file, host, in_place)
}

/// Compares two files piece by piece, because files may be large. `in_place` adds the location to
/// errors of reading `other`.
pub(super) fn is(
    mut file: File,
    mut other: impl Read,
    in_place: impl Fn(io::Error) -> Error,
) -> Result<bool> {
    let (mut ours, mut theirs) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    loop {
        let count = fill(&mut other, &mut theirs).map_err(&in_place)?;
        let found = fill(&mut file, &mut ours)?;
        if ours.get(..found) != theirs.get(..count) {
            return Ok(false);
        }
        if count < PIECE_BYTES {
            return Ok(true);
        }
    }
}

/// Returns true if a file begins with these bytes.
pub(super) fn begins_with(file: impl Read, start: &[u8]) -> Result<bool> {
    let mut found = Vec::new();
    file.take(start.len() as u64).read_to_end(&mut found)?;
    Ok(found == start)
}

/// Reads until the buffer is full or the file ends.
fn fill(from: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}
