//! An open image.

use std::sync::Arc;

use diskfs_block::{
    BlockOffset, BlockRead, CompressedUnit, Error, ImageMap, MappedRun, Result, RunStorage, Tables,
    bytes, read_within,
};

use crate::header::Header;
use crate::inflate::inflate;
use crate::l2_entry;

/// The budget for cached pieces of tables. It maps 2 GiB at QEMU's cluster size of 4 KiB.
const TABLE_CACHE_BYTES: u64 = 4 << 20;

/// A QEMU copy-on-write image of version 1.
#[derive(Debug)]
pub struct Qcow {
    header: Header,
    tables: Tables,
    file: Arc<dyn BlockRead>,
}

impl Qcow {
    /// Opens the image in `file`.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported` with the byte of the field; the errors of reading.
    pub fn open(file: Arc<dyn BlockRead>) -> Result<Self> {
        let header = Header::read(file.as_ref())?;
        let tables = Tables::new(Arc::clone(&file), TABLE_CACHE_BYTES)?;
        tables.check("L1 table", header.l1_at, header.l1_entries, 8)?;
        Ok(Self {
            header,
            tables,
            file,
        })
    }

    /// Returns the size of a cluster in bytes.
    pub const fn cluster_size_bytes(&self) -> u64 {
        1_u64.wrapping_shl(self.header.cluster_bits)
    }

    /// Returns the name of the backing file. The format does not store the backing file's format.
    pub fn backing_name(&self) -> Option<&[u8]> {
        self.header.backing_name.as_deref()
    }

    /// Returns the place of the cluster with this number, and the number of clusters from there on
    /// that have the same place: one, or all that a missing L2 table would map.
    fn cluster(&self, number: u64) -> Result<(RunStorage, u64)> {
        let l2_bits = self.header.l2_bits;
        let l2_entries = 1_u64.wrapping_shl(l2_bits);
        let (l1_index, l2_index) = (
            number.wrapping_shr(l2_bits),
            number & l2_entries.wrapping_sub(1),
        );
        let l2_at = self.entry(self.header.l1_at, l1_index)?;
        if l2_at == 0 {
            return Ok((RunStorage::Absent, l2_entries.saturating_sub(l2_index)));
        }
        self.check(l2_at, self.header.l1_at, l1_index)?;
        let entry = self.entry(l2_at, l2_index)?;
        let place = l2_entry::decode(entry, self.header.cluster_bits);
        if let RunStorage::Stored { offset, .. } = place {
            self.check(offset, l2_at, l2_index)?;
        }
        Ok((place, 1))
    }

    fn entry(&self, table: u64, index: u64) -> Result<u64> {
        self.tables.entry(table, index).map(u64::from_be_bytes)
    }

    /// Refuses tables and clusters that overlap the header or the L1 table.
    fn check(&self, offset: u64, table: u64, index: u64) -> Result<()> {
        let l1_bytes = self.header.l1_entries.saturating_mul(8);
        let l1_end = self.header.l1_at.saturating_add(l1_bytes);
        let is_tables = offset < 48 || (self.header.l1_at..l1_end).contains(&offset);
        if !is_tables {
            return Ok(());
        }
        let at = table.saturating_add(index.saturating_mul(8));
        let reason = format!("cluster at {offset:#x} overlaps the header or the L1 table");
        Err(Error::corrupt(reason).at(at))
    }
}

impl ImageMap for Qcow {
    fn size_bytes(&self) -> u64 {
        self.header.size_bytes
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        let cluster = BlockOffset::of(offset, self.cluster_size_bytes());
        let (storage, clusters) = self.cluster(cluster.number)?;
        Ok(cluster.run(storage, clusters, max_len))
    }

    fn decompress(&self, unit: CompressedUnit) -> Result<Arc<[u8]>> {
        let stored = read_within(
            self.file.as_ref(),
            unit.offset,
            bytes::index(unit.stored_bytes),
        )?;
        let Some(stored) = stored else {
            let reason =
                "compressed cluster is past the end of the file; the file may be truncated";
            return Err(Error::corrupt(reason).at(unit.offset));
        };
        inflate(&stored, bytes::index(unit.unpacked_bytes)).map_err(|e| e.at(unit.offset))
    }
}
