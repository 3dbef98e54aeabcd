//! Allocation of a table of several clusters, which must be contiguous.

use diskfs_block::{Error, Result};

use crate::numbers::to_u64;
use crate::qcow2::write::allocate::HostRun;
use crate::qcow2::write::metadata::Locked;

/// The refcount blocks that are missing for a run at the end of the file.
#[derive(Debug)]
struct MissingBlocks {
    /// The first cluster of the new blocks; the run follows the last of them.
    first: u64,
    indices: Vec<u64>,
}

impl Locked<'_> {
    /// Allocates consecutive clusters. Several are placed at the end of the file, after the refcount
    /// blocks that they need, because a new block would otherwise be in the middle of the run.
    pub(super) fn allocate_contiguous(&mut self, clusters: u64) -> Result<HostRun> {
        if clusters == 1 {
            return self.allocate(1);
        }
        let missing = self.missing_blocks(clusters)?;
        let first = missing.first.saturating_add(to_u64(missing.indices.len()));
        let end = first.saturating_add(clusters);
        self.check_free(missing.first, end.saturating_sub(missing.first))?;
        self.check_uncounted(missing.first, end)?;
        self.extend_file(self.place_of(end))?;
        let blocks = missing.first..first;
        for (cluster, index) in blocks.zip(missing.indices) {
            let at = self.place_of(cluster);
            self.write_block(at, 0..0)?;
            self.add_block_at(index, at);
        }
        for cluster in missing.first..end {
            if let Some(counts) = self.counts(cluster)? {
                self.set_count(&counts, cluster, 1);
            }
        }
        Ok(self.touched(first, clusters))
    }

    /// Returns the blocks that a run of `clusters` at the end of the file needs. Extends the
    /// refcount table first if it is too short for them.
    fn missing_blocks(&mut self, clusters: u64) -> Result<MissingBlocks> {
        let mut count = 0_u64;
        loop {
            let first = self.state.untouched_from;
            let end = first.saturating_add(count).saturating_add(clusters);
            let last = self.writer.block_of(end.saturating_sub(1));
            let table_len = to_u64(self.state.refcount_table.len());
            if last >= table_len {
                // The end of the file moves, too.
                self.add_block(table_len)?;
                continue;
            }
            let mut indices = Vec::new();
            for index in self.writer.block_of(first)..=last {
                if self.block_place(index)?.is_none() {
                    indices.push(index);
                }
            }
            if to_u64(indices.len()) <= count {
                return Ok(MissingBlocks { first, indices });
            }
            count = to_u64(indices.len());
        }
    }

    /// Fails if clusters past the end of the file are counted.
    fn check_uncounted(&self, first: u64, end: u64) -> Result<()> {
        for cluster in first..end {
            if self.count(cluster)? != 0 {
                let reason = "a cluster past the end of the file is counted as in use";
                return Err(Error::corrupt(reason)
                    .at(self.place_of(cluster).0)
                    .with_hint("repair the image with `qemu-img check -r leaks`"));
            }
        }
        Ok(())
    }
}
