//! Whether a file of the guest has what a file of this machine has.

use std::fs::File as HostFile;
use std::io::Read;
use std::path::Path;

use crate::{Error, File, Result};

/// What is compared at once.
const PIECE_BYTES: usize = 256 << 10;

/// Compares piece by piece: files may be large.
pub(super) fn as_on_host(mut file: File, path: &Path) -> Result<bool> {
    let in_place = |error: std::io::Error| Error::from(error).in_file(path);
    let mut host = HostFile::open(path).map_err(in_place)?;
    let (mut ours, mut theirs) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    loop {
        let count = fill(&mut host, &mut theirs).map_err(in_place)?;
        let found = fill(&mut file, &mut ours)?;
        if ours.get(..found) != theirs.get(..count) {
            return Ok(false);
        }
        if count < PIECE_BYTES {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full, or the file ends.
fn fill(from: &mut impl Read, buf: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}
