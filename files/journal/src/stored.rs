//! A payload as it is in the file.

use diskfs_block::bytes::len_u64;
use diskfs_block::{Error, Result};

use crate::reader::Reader;

/// The payload of a data object, as it is in the file. It lies within.
#[derive(Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Stored<'_> {
    /// The first `limit` bytes, and whether that is less than all.
    pub(crate) fn plain(&self, limit: u64) -> Result<(Vec<u8>, bool)> {
        let len = self.len.min(limit);
        let no_room = || Error::corrupt("a field that is too large").at(self.offset);
        let len = usize::try_from(len).map_err(|_| no_room())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| no_room())?;
        bytes.resize(len, 0);
        self.reader.read(self.offset, &mut bytes)?;
        Ok((bytes, len_u64(len) < self.len))
    }
}
