//! Making durable what was written.
//!
//! 1. Data and refcount blocks, in any order: counts that are too high are leaks.
//! 2. Entries of the refcount table, when there are new blocks.
//! 3. L1 and L2 tables, in any order: a new L2 table was written, empty or as a copy, before.
//!
//! A flush stands between each and the next, and at the end. What only step 1 changes costs one
//! flush, as a write in place does. Clusters that step 3 leaves without a reference are free only
//! after it.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use diskfs_block::Result;

use crate::numbers::to_u64;
use crate::qcow2::write::Writer;
use crate::qcow2::write::dirty::{TableWrite, write_all};
use crate::qcow2::write::freed::Freed;
use crate::qcow2::write::metadata::{Locked, Metadata};

/// What the tables were at one moment, as far as the file does not have it.
#[derive(Debug, Default)]
struct Commit {
    counts: Vec<TableWrite>,
    /// Entries of the refcount table with their places.
    added_blocks: BTreeSet<usize>,
    entries: Vec<(u64, [u8; 8])>,
    mapping: Vec<TableWrite>,
    exposes_clusters: bool,
    freed: Vec<Freed>,
}

impl Writer {
    /// Returns when everything that was written before is durable.
    pub(crate) fn flush(&self) -> Result<()> {
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut commit = self.lock().take_commit();
        if let Err(e) = self.carry_out_commit(&commit) {
            self.lock().put_back(commit);
            return Err(e);
        }
        self.give_back(&std::mem::take(&mut commit.freed))
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

    /// Flushes until nothing is left to be given back, and cuts off what the file has too much.
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

    /// The file was made longer in steps; what no cluster took is cut off.
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
