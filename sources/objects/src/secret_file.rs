//! Files with credentials.

use std::io;
use std::path::Path;

use diskfs_block::{Error, Result};

/// The longest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a file with credentials; `None` if there is none.
///
/// # Errors
/// [`ErrorKind::Invalid`](diskfs_block::ErrorKind::Invalid) for a file that is longer than 1 MiB;
/// those of reading it.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let in_file = |e: io::Error| Error::from(e).in_file(path);
    match path.metadata() {
        Ok(metadata) if metadata.len() > MAX_BYTES => {
            Err(Error::invalid("the file is longer than 1 MiB").in_file(path))
        }
        Ok(_) => std::fs::read(path).map(Some).map_err(in_file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(in_file(e)),
    }
}
