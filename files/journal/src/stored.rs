//! Field values as they are stored in the file.

use diskfs_block::bytes::len_u64;
use diskfs_block::{Error, Result};

use crate::reader::Reader;

/// The payload of a data object as it is stored, which is completely within the file.
#[derive(Debug)]
pub(crate) struct StoredPayload<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl StoredPayload<'_> {
    /// Reads the first `limit` bytes of an uncompressed payload. Also returns whether there are
    /// more.
    pub(crate) fn plain(&self, limit: u64) -> Result<(Vec<u8>, bool)> {
        let len = self.len.min(limit);
        let no_room = || Error::corrupt("field is too large for memory").at(self.offset);
        let len = usize::try_from(len).map_err(|_| no_room())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| no_room())?;
        bytes.resize(len, 0);
        self.reader.read(self.offset, &mut bytes)?;
        Ok((bytes, len_u64(len) < self.len))
    }
}
