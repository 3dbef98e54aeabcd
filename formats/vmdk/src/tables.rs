//! The cache of grain tables and of pieces of grain directories.

use std::sync::Arc;

use diskfs_block::bytes::index;
use diskfs_block::{BlockRead, ByteCache, Error, Result, read_within};

/// The memory for the tables of all extents: tables of 2 KiB for 64 GiB of a disk.
const BUDGET_BYTES: u64 = 4 << 20;

/// The size of most tables.
const TYPICAL_BYTES: u64 = 2048;

/// The largest part of an image that is cached as one: the grain tables of seSparse have 32 KiB.
const MAX_BYTES: u64 = 32 << 10;

/// A cache of parts of files, by the number of the file and the part.
#[derive(Debug)]
pub(crate) struct Tables(ByteCache<(usize, TablePart), [u8]>);

/// A part of a file: at most [`MAX_BYTES`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TablePart {
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
}

impl Tables {
    pub(crate) fn new() -> Self {
        Self(ByteCache::new(BUDGET_BYTES, TYPICAL_BYTES))
    }

    /// Returns the bytes of a part.
    ///
    /// # Errors
    /// `Corrupt` if the part does not lie within the file.
    pub(crate) fn load(
        &self,
        file: usize,
        device: &dyn BlockRead,
        part: TablePart,
    ) -> Result<Arc<[u8]>> {
        self.0.get_or_make(&(file, part), || {
            let len_bytes = index(part.len_bytes.min(MAX_BYTES));
            let bytes = read_within(device, part.offset, len_bytes)?;
            bytes.map(Arc::from).ok_or_else(|| {
                let reason = "grain table or directory past the end of the file";
                Error::corrupt(reason).at(part.offset)
            })
        })
    }
}
