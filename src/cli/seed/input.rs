//! The files of the host that a seed is made of.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use diskfs::{Error, ErrorKind, Result};

/// The largest file: more than any cloud accepts as user data.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let in_file = |e: std::io::Error| Error::from(e).in_file(path);
    let file = File::open(path).map_err(in_file)?;
    let mut bytes = Vec::new();
    let mut limited = file.take(MAX_BYTES.saturating_add(1));
    let len = limited.read_to_end(&mut bytes).map_err(in_file)?;
    if u64::try_from(len).unwrap_or(u64::MAX) > MAX_BYTES {
        let reason = format!("the file is too large for a seed: at most {MAX_BYTES} bytes");
        return Err(Error::new(ErrorKind::Invalid, reason).in_file(path));
    }
    Ok(bytes)
}

/// Reads a file, if there is one.
pub(super) fn read_optional(path: Option<&Path>) -> Result<Option<Vec<u8>>> {
    path.map(read).transpose()
}
