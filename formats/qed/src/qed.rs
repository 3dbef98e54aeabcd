//! An open image.

use std::sync::Arc;

use diskfs_block::{
    BlockOffset, BlockRead, Error, ImageMap, MappedRun, Result, RunStorage, Tables,
};

use crate::header::{Backing, Header};

/// The budget for cached pieces of tables. It maps 32 GiB at QEMU's cluster size of 64 KiB.
const TABLE_CACHE_BYTES: u64 = 4 << 20;
/// The entry of a cluster that is not stored.
pub(crate) const UNALLOCATED: u64 = 0;
/// The L2 entry of a cluster of zeroes.
pub(crate) const ZERO: u64 = 1;

/// A QEMU enhanced disk.
#[derive(Debug)]
pub struct Qed {
    pub(crate) header: Header,
    tables: Tables,
}

impl Qed {
    /// Opens the image in `file`.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported` with the byte of the field; the errors of reading.
    pub fn open(file: Arc<dyn BlockRead>) -> Result<Self> {
        let header = Header::read(file.as_ref())?;
        let tables = Tables::new(file, TABLE_CACHE_BYTES)?;
        tables.check("L1 table", header.l1_at, header.entries, 8)?;
        Ok(Self { header, tables })
    }

    /// Returns the size of a cluster in bytes.
    pub const fn cluster_size_bytes(&self) -> u64 {
        self.header.cluster_bytes
    }

    /// Returns the backing file, if there is one.
    pub const fn backing(&self) -> Option<&Backing> {
        self.header.backing.as_ref()
    }

    /// Returns true if the image was not closed properly. Clusters may then be leaked, which does
    /// not affect reading.
    pub const fn needs_check(&self) -> bool {
        self.header.needs_check
    }

    /// Returns the place of the cluster with this number, and the number of clusters from there on
    /// that have the same place: one, or all that a missing L2 table would map.
    fn cluster(&self, number: u64) -> Result<(RunStorage, u64)> {
        let entries = self.header.entries;
        // A table has at least 512 entries.
        let (l1_index, l2_index) = (
            number.checked_div(entries).unwrap_or(0),
            number.checked_rem(entries).unwrap_or(0),
        );
        let l1_entry = self.entry(self.header.l1_at, l1_index)?;
        if l1_entry == UNALLOCATED {
            return Ok((RunStorage::Absent, entries.saturating_sub(l2_index)));
        }
        self.check_place(l1_entry, self.header.l1_at, l1_index)?;
        match self.entry(l1_entry, l2_index)? {
            UNALLOCATED => Ok((RunStorage::Absent, 1)),
            ZERO => Ok((RunStorage::Zero, 1)),
            offset => {
                self.check_place(offset, l1_entry, l2_index)?;
                Ok((RunStorage::Stored { file: 0, offset }, 1))
            }
        }
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.tables.size_bytes()
    }

    pub(crate) fn entry(&self, table: u64, index: u64) -> Result<u64> {
        self.tables.entry(table, index).map(u64::from_le_bytes)
    }

    /// Refuses offsets into the middle of a cluster, the header or the L1 table.
    fn check_place(&self, offset: u64, table: u64, index: u64) -> Result<()> {
        let l1_end = self
            .header
            .l1_at
            .saturating_add(self.header.entries.saturating_mul(8));
        let is_aligned = offset.checked_rem(self.header.cluster_bytes) == Some(0);
        let is_l1 = (self.header.l1_at..l1_end).contains(&offset);
        if is_aligned && offset >= self.header.tables_from && !is_l1 {
            return Ok(());
        }
        let at = table.saturating_add(index.saturating_mul(8));
        Err(Error::corrupt(format!("invalid offset {offset:#x} of a table or cluster")).at(at))
    }
}

impl ImageMap for Qed {
    fn size_bytes(&self) -> u64 {
        self.header.size_bytes
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        let cluster = BlockOffset::of(offset, self.header.cluster_bytes);
        let (storage, clusters) = self.cluster(cluster.number)?;
        Ok(cluster.run(storage, clusters, max_len))
    }
}
