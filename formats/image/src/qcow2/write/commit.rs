//! Making writes durable, in this order:
//!
//! 1. Data and refcount blocks, in any order: counts that are too high only leak clusters.
//! 2. Entries of the refcount table, if there are new blocks.
//! 3. L1 and L2 tables, in any order: a new L2 table was written before, empty or as a copy.
//!
//! A flush separates each step from the next, and follows the last. Changes of step 1 alone cost
//! one flush, as a write in place does. Clusters that lose their last reference in step 3 are free
//! only after it.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use diskfs_block::Result;

use crate::numbers::to_u64;
use crate::qcow2::write::Writer;
use crate::qcow2::write::dirty::{TableWrite, write_all};
use crate::qcow2::write::freed::Freed;
use crate::qcow2::write::metadata::{Locked, Metadata};

/// The state of the tables at one moment, as far as the file does not have it.
#[derive(Debug, Default)]
struct Commit {
    counts: Vec<TableWrite>,
    /// The indices of new refcount table entries.
    added_blocks: BTreeSet<usize>,
    entries: Vec<(u64, [u8; 8])>,
    mapping: Vec<TableWrite>,
    exposes_clusters: bool,
    freed: Vec<Freed>,
}

impl Writer {
    /// Waits until everything that was written before is durable.
    pub(crate) fn flush(&self) -> Result<()> {
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut commit = self.lock().take_commit();
        if let Err(e) = self.carry_out_commit(&commit) {
            self.lock().put_back(commit);
            return Err(e);
        }
        self.free_all(&std::mem::take(&mut commit.freed))
    }

    fn carry_out_commit(&self, commit: &Commit) -> Result<()> {
        let image = self.image.as_ref();
        write_all(&commit.counts, image)?;
        if commit.exposes_clusters {
            self.flush_files()?;
        }
        for (at, entry) in &commit.entries {
            image.write_at(*at, entry)?;
        }
        if !commit.entries.is_empty() {
            image.flush()?;
        }
        write_all(&commit.mapping, image)?;
        self.flush_files()
    }

    fn flush_files(&self) -> Result<()> {
        if let Some(data) = &self.external {
            data.flush()?;
        }
        self.image.flush()
    }

    /// Flushes until no freed clusters are left, and truncates the file to its used length.
    pub(super) fn finish(&self) -> Result<()> {
        if !self.has_begun() {
            return Ok(());
        }
        self.flush()?;
        self.store_bitmaps()?;
        if !self.lock().is_clean() {
            self.flush()?;
        }
        self.cut_off()
    }

    /// Truncates the file to its last used cluster, because it was extended in larger steps.
    fn cut_off(&self) -> Result<()> {
        let end = {
            let locked = self.lock();
            locked.place_of(locked.state.untouched_from)
        };
        if end.0 < self.image.size_bytes() {
            self.image.set_size(end.0)?;
        }
        Ok(())
    }
}

impl Locked<'_> {
    fn is_clean(&self) -> bool {
        let state = &self.state;
        state.counts.is_empty() && state.mapping.is_empty() && state.freed.is_empty()
    }

    fn take_commit(&mut self) -> Commit {
        let state: &mut Metadata = &mut self.state;
        let table_at = state.refcount_table_at;
        let added_blocks = std::mem::take(&mut state.added_blocks);
        let entries = added_blocks
            .iter()
            .filter_map(|&index| {
                let entry = state.refcount_table.get(index)?;
                let at = table_at.plus(to_u64(index).saturating_mul(8));
                Some((at.0, entry.to_be_bytes()))
            })
            .collect();
        Commit {
            counts: state.counts.take(),
            added_blocks,
            entries,
            mapping: state.mapping.take(),
            exposes_clusters: std::mem::take(&mut state.exposes_clusters),
            freed: std::mem::take(&mut state.freed),
        }
    }

    fn put_back(&mut self, commit: Commit) {
        let state: &mut Metadata = &mut self.state;
        state.counts.put_back(commit.counts);
        state.added_blocks.extend(commit.added_blocks);
        state.mapping.put_back(commit.mapping);
        state.exposes_clusters |= commit.exposes_clusters;
        state.freed.extend(commit.freed);
    }
}
