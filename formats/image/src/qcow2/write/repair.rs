//! Recomputation of reference counts, for an image that was not closed properly.
//!
//! With lazy refcounts, counts are written late, and the dirty bit marks that they may be wrong.
//! The references to clusters are right, so the counts follow from them. The bit is cleared when
//! all counts are durable. After a crash it is still set, and the next attempt starts from the
//! beginning.

use diskfs_block::{Error, Result};

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::check;
use crate::qcow2::header::REFCOUNT_TABLE_MAX_BYTES;
use crate::qcow2::l1_entry;
use crate::qcow2::l2_entry::{L2Entry, StandardCluster};
use crate::qcow2::units::{GuestOffset, HostOffset};
use crate::qcow2::write::Writer;
use crate::qcow2::write::metadata::Locked;

const ADVICE: &str = "try to repair it with `qemu-img check -r all`";

impl Writer {
    /// Sets all counts to the number of references, and clears the dirty bit.
    pub(super) fn repair(&self) -> Result<()> {
        let rules = self.reader.mapping.rules;
        let references = check::references(self.image.as_ref(), &self.header, rules);
        let mut references = references.map_err(|e| e.with_hint(ADVICE))?;
        self.begin()?;
        let in_file = to_u64(references.len());
        self.lock().add_missing_blocks(&mut references)?;
        let last = self.block_of(in_file.max(to_u64(references.len())));
        for block in 0..=last {
            self.lock().recount(block, &references)?;
            self.flush_when_full()?;
        }
        self.mark_all_copied(&references)?;
        self.flush()?;
        self.clear_dirty_bit()
    }

    fn flush_when_full(&self) -> Result<()> {
        if self.lock().is_full() {
            self.flush()?;
        }
        Ok(())
    }

    /// Sets the "copied" flags of the current state's entries from the reference counts.
    fn mark_all_copied(&self, references: &[u32]) -> Result<()> {
        let coverage = self.geometry().l1_coverage();
        let mut at = GuestOffset(0);
        while at.0 < self.size_bytes {
            self.lock().mark_table_copied(at, references)?;
            self.flush_when_full()?;
            at = at.plus(coverage);
        }
        Ok(())
    }
}

impl Locked<'_> {
    /// Allocates the missing refcount blocks for ranges with clusters in use. The blocks are placed
    /// after all clusters in use; the rest of the file there is free.
    fn add_missing_blocks(&mut self, references: &mut Vec<u32>) -> Result<()> {
        let used = references.iter().rposition(|&count| count > 0);
        references.truncate(used.map_or(0, |last| last.saturating_add(1)));
        self.lengthen_table(references)?;
        let mut index = 0;
        // Each new block makes the file longer, by at most one range for the last of them.
        while index < self.range_count(references) {
            if self.misses_block(index, references)? {
                let at = self.place_of(to_u64(references.len()));
                self.put_block(index, at)?;
                references.push(1);
            }
            index = index.saturating_add(1);
        }
        Ok(())
    }

    /// Returns the number of ranges that the references cover.
    fn range_count(&self, references: &[u32]) -> u64 {
        let last = to_u64(references.len()).saturating_sub(1);
        self.writer.block_of(last).saturating_add(1)
    }

    fn misses_block(&self, index: u64, references: &[u32]) -> Result<bool> {
        let entries = self.writer.block_entries();
        let start = to_usize(index.saturating_mul(entries));
        let end = start.saturating_add(to_usize(entries));
        let stretch = references.get(start..end.min(references.len()));
        let is_used = stretch.unwrap_or_default().iter().any(|&count| count > 0);
        Ok(is_used && self.block_place(index)?.is_none())
    }

    /// Extends the table to cover the clusters in use and those to add: the missing blocks and the
    /// longer table itself.
    fn lengthen_table(&mut self, references: &mut Vec<u32>) -> Result<()> {
        let mut missing = 0_u64;
        for index in 0..self.range_count(references) {
            missing = missing.saturating_add(u64::from(self.misses_block(index, references)?));
        }
        let used = to_u64(references.len());
        let old_len = to_u64(self.state.refcount_table.len());
        let Some(clusters) = self.longer_table_clusters(used.saturating_add(missing), old_len)?
        else {
            return Ok(());
        };
        let at = self.place_of(used);
        let old = self.state.refcount_table_at;
        self.move_table(at, clusters)?;
        for _ in 0..clusters {
            references.push(1);
        }
        let cluster_size = self.writer.geometry().cluster_size();
        let old_clusters = old_len.saturating_mul(8).div_ceil(cluster_size);
        let first = to_usize(self.cluster_at(old));
        let was_old = references.iter_mut().skip(first);
        for count in was_old.take(to_usize(old_clusters)) {
            *count = count.saturating_sub(1);
        }
        Ok(())
    }

    /// Returns the number of clusters of a table that covers `used` clusters, itself and the new
    /// blocks; `None` if a table of `old_len` entries does.
    fn longer_table_clusters(&self, used: u64, old_len: u64) -> Result<Option<u64>> {
        let cluster_size = self.writer.geometry().cluster_size();
        let mut clusters = 0_u64;
        loop {
            // The table's clusters are counted by blocks, which are clusters themselves.
            let added = clusters
                .saturating_add(self.writer.block_of(clusters))
                .saturating_add(2);
            let last = used.saturating_add(added);
            let needed = self.writer.block_of(last).saturating_add(1);
            if needed <= old_len {
                return Ok(None);
            }
            let wanted = needed.max(old_len.saturating_add(old_len / 2));
            let enough = wanted.saturating_mul(8).div_ceil(cluster_size);
            if enough.saturating_mul(cluster_size) > REFCOUNT_TABLE_MAX_BYTES {
                let reason = "no space left in the refcount table for the clusters in use";
                return Err(Error::unsupported(reason).with_hint(ADVICE));
            }
            if enough <= clusters {
                return Ok(Some(clusters));
            }
            clusters = enough;
        }
    }

    /// Writes the table, with spare entries, to free clusters, and points the header to it. Both
    /// tables are valid at any moment, because they have the same blocks.
    fn move_table(&mut self, at: HostOffset, clusters: u64) -> Result<()> {
        let first = self.cluster_at(at);
        self.check_free(first, clusters)?;
        self.extend_file(self.place_of(first.saturating_add(clusters)))?;
        let _ = self.touched(first, clusters);
        let len_bytes = clusters.saturating_mul(self.writer.geometry().cluster_size());
        let mut table = self.state.refcount_table.clone();
        table.resize(to_usize(len_bytes / 8), 0);
        let bytes: Vec<u8> = table.iter().flat_map(|entry| entry.to_be_bytes()).collect();
        self.writer.image.write_at(at.0, &bytes)?;
        self.writer.image.flush()?;
        self.writer.point_to_refcount_table(at, clusters)?;
        self.writer.image.flush()?;
        self.state.refcount_table = table;
        self.state.refcount_table_at = at;
        Ok(())
    }

    fn put_block(&mut self, index: u64, at: HostOffset) -> Result<()> {
        let first = self.cluster_at(at);
        self.extend_file(self.place_of(first.saturating_add(1)))?;
        self.write_block(at, 0..0)?;
        let _ = self.touched(first, 1);
        self.add_block_at(index, at);
        Ok(())
    }

    /// Sets the counts of one block.
    fn recount(&mut self, block: u64, references: &[u32]) -> Result<()> {
        if self.block_place(block)?.is_none() {
            return Ok(());
        }
        let entries = self.writer.block_entries();
        let max = self.writer.count_max();
        let mut cluster = block.saturating_mul(entries);
        let end = cluster.saturating_add(entries);
        while cluster < end {
            let Some(counts) = self.counts(cluster)? else {
                return Ok(());
            };
            while cluster < counts.end() {
                let wanted = references.get(to_usize(cluster)).copied().unwrap_or(0);
                let wanted = u64::from(wanted);
                if wanted > max {
                    return Err(self.cannot_count(cluster, wanted));
                }
                if counts.get(cluster) != wanted {
                    self.set_count(&counts, cluster, wanted);
                }
                cluster = cluster.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Sets the flag in the L1 entry for `guest`, and in all entries of its L2 table.
    fn mark_table_copied(&mut self, guest: GuestOffset, references: &[u32]) -> Result<()> {
        let geometry = self.writer.geometry();
        let place = self.mapping().l1_piece(guest)?;
        let entry = place.piece.word(place.index);
        let at = place.piece.place_of(place.index);
        let Some(table) = l1_entry::l2_table(entry, geometry, at)? else {
            return Ok(());
        };
        let is_single = self.is_single(table, references);
        if l1_entry::is_copied(entry) != is_single {
            place
                .piece
                .set_word(place.index, l1_entry::with_copied(entry, is_single));
            let words = place.index..place.index.saturating_add(1);
            self.state.mapping.mark(&place.piece, words);
        }
        // Include tables that a snapshot shares: their clusters are shared, and a stale flag would
        // allow overwriting them.
        self.mark_entries_copied(guest, references)
    }

    fn mark_entries_copied(&mut self, first: GuestOffset, references: &[u32]) -> Result<()> {
        let geometry = self.writer.geometry();
        let end = first
            .plus(geometry.l1_coverage())
            .0
            .min(self.writer.size_bytes);
        let mut at = first;
        while at.0 < end && self.writer.external.is_none() {
            let Some(slice) = self.mapping().slice(at)? else {
                return Ok(());
            };
            if let L2Entry::Standard(cluster) = self.entry(&slice, at)?
                && let Some(host) = cluster.host
            {
                let copied = self.is_single(host, references);
                if copied != cluster.copied {
                    self.set_entry(&slice, at, StandardCluster { copied, ..cluster });
                }
            }
            at = at.plus(geometry.cluster_size());
        }
        Ok(())
    }

    fn is_single(&self, host: HostOffset, references: &[u32]) -> bool {
        references.get(to_usize(self.cluster_at(host))) == Some(&1)
    }
}
