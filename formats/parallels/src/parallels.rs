//! An open image.

use std::sync::Arc;

use diskfs_block::{
    BlockOffset, BlockRead, Error, ImageMap, MappedRun, Result, RunStorage, Tables,
};

use crate::header::{Header, TABLE_AT};

/// The budget for the cached block allocation table. It maps 256 GiB at the usual cluster size of 1
/// MiB.
const TABLE_CACHE_BYTES: u64 = 1 << 20;

/// A Parallels disk image.
#[derive(Debug)]
pub struct Parallels {
    pub(crate) header: Header,
    table: Tables,
}

impl Parallels {
    /// Opens the image in `file`.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported` with the byte of the field; the errors of reading.
    pub fn open(file: Arc<dyn BlockRead>) -> Result<Self> {
        let header = Header::read(file.as_ref())?;
        let table = Tables::new(file, TABLE_CACHE_BYTES)?;
        table.check("block allocation table", TABLE_AT, header.entries, 4)?;
        Ok(Self { header, table })
    }

    /// Returns the size of a cluster in bytes.
    pub const fn cluster_size_bytes(&self) -> u64 {
        self.header.cluster_bytes
    }

    /// Returns true if the image was not closed properly.
    pub const fn is_in_use(&self) -> bool {
        self.header.is_in_use
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.table.size_bytes()
    }

    /// Returns the offset of the cluster with this number, whatever it is; `None` for a cluster that
    /// is not stored.
    pub(crate) fn offset(&self, number: u64) -> Result<Option<u64>> {
        let entry = u32::from_le_bytes(self.table.entry(TABLE_AT, number)?);
        let offset = u64::from(entry).saturating_mul(self.header.unit_bytes);
        Ok((entry != 0).then_some(offset))
    }

    /// Returns the place of the cluster with this number.
    fn cluster(&self, number: u64) -> Result<RunStorage> {
        let Some(offset) = self.offset(number)? else {
            return Ok(RunStorage::Absent);
        };
        let table_end = TABLE_AT.saturating_add(self.header.entries.saturating_mul(4));
        if offset < table_end {
            let at = TABLE_AT.saturating_add(number.saturating_mul(4));
            let reason = format!("cluster at {offset:#x} overlaps the block allocation table");
            return Err(Error::corrupt(reason).at(at));
        }
        Ok(RunStorage::Stored { file: 0, offset })
    }
}

impl ImageMap for Parallels {
    fn size_bytes(&self) -> u64 {
        self.header.size_bytes
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        let cluster = BlockOffset::of(offset, self.header.cluster_bytes);
        Ok(cluster.run(self.cluster(cluster.number)?, 1, max_len))
    }
}
