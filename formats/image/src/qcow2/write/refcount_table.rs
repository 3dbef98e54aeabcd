//! New refcount blocks, and a longer refcount table.
//!
//! A block counts itself: it is the first cluster of the range that it covers, which is all free
//! when the block is added. A longer table is placed after everything that the old one could cover,
//! with the blocks that count it.

use std::ops::Range;

use diskfs_block::{Error, ErrorKind, Result};

use crate::numbers::{round_up, shift_right, to_u64, to_usize};
use crate::qcow2::cache::TableSlice;
use crate::qcow2::header::REFCOUNT_TABLE_MAX_BYTES;
use crate::qcow2::refcounts::CountPlace;
use crate::qcow2::units::HostOffset;
use crate::qcow2::write::freed::{Freed, Hole};
use crate::qcow2::write::metadata::Locked;

/// The location of a longer table and of the blocks that count it: blocks first.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    first: u64,
    blocks: u64,
    table_clusters: u64,
}

impl Layout {
    const fn clusters(&self) -> u64 {
        self.blocks.saturating_add(self.table_clusters)
    }
}

impl Locked<'_> {
    /// Adds the block for range `index` of clusters.
    pub(super) fn add_block(&mut self, index: u64) -> Result<()> {
        if index >= to_u64(self.state.refcount_table.len()) {
            return self.grow_table(index);
        }
        let first = index.saturating_mul(self.writer.block_entries());
        self.check_free(first, 1)?;
        let at = self.place_of(first);
        self.extend_file(self.place_of(first.saturating_add(1)))?;
        // Write the block whole, before anything points to it: unwritten parts would be garbage
        // later.
        self.write_block(at, 0..1)?;
        let _ = self.touched(first, 1);
        self.add_block_at(index, at);
        Ok(())
    }

    /// Enters a written block into the table.
    pub(super) fn add_block_at(&mut self, index: u64, at: HostOffset) {
        if let Some(entry) = self.state.refcount_table.get_mut(to_usize(index)) {
            *entry = at.0;
        }
        self.state.added_blocks.insert(to_usize(index));
        self.state.exposes_clusters = true;
    }

    /// Writes a new block in which the clusters `used` have a count of one.
    pub(super) fn write_block(&self, at: HostOffset, used: Range<u64>) -> Result<()> {
        let block = TableSlice::zeroed(at, self.writer.geometry().cluster_size());
        for index in used {
            CountPlace::new(self.writer.header.refcount_order, index).set(&block, 1);
        }
        let bytes = block.copy_of(0..block.len());
        self.writer.image.write_at(at.0, &bytes)
    }

    /// Moves the table to where it can be longer, with the block for range `index` and those that
    /// the new table needs. The old table is freed.
    fn grow_table(&mut self, index: u64) -> Result<()> {
        let layout = self.layout_from(index)?;
        self.check_free(layout.first, layout.clusters())?;
        let end = layout.first.saturating_add(layout.clusters());
        self.extend_file(self.place_of(end))?;
        let _ = self.touched(layout.first, layout.clusters());
        self.write_blocks(&layout)?;
        let table = self.write_table(index, &layout)?;
        self.writer.image.flush()?;
        let at = self.place_of(layout.first.saturating_add(layout.blocks));
        self.writer
            .point_to_refcount_table(at, layout.table_clusters)?;
        self.writer.image.flush()?;
        self.free_old_table();
        self.state.refcount_table = table;
        self.state.refcount_table_at = at;
        // The new table includes them.
        self.state.added_blocks.clear();
        Ok(())
    }

    /// Returns the layout of a longer table, with at least half as many entries more, so that
    /// growth is rare.
    fn layout_from(&self, index: u64) -> Result<Layout> {
        let cluster_size = self.writer.geometry().cluster_size();
        let per_cluster = cluster_size / 8;
        let entries = self.writer.block_entries();
        let old_len = to_u64(self.state.refcount_table.len());
        let mut blocks = 1_u64;
        loop {
            let needed = index
                .saturating_add(blocks)
                .max(old_len.saturating_add(old_len / 2));
            let table_clusters = needed.div_ceil(per_cluster.max(1));
            if table_clusters.saturating_mul(cluster_size) > REFCOUNT_TABLE_MAX_BYTES {
                let reason = "no space left in the image: the refcount table has its largest size";
                return Err(Error::new(ErrorKind::NoSpace, reason)
                    .with_hint("convert the image with a larger cluster size"));
            }
            let counted = blocks.saturating_mul(entries);
            if blocks.saturating_add(table_clusters) <= counted {
                return Ok(Layout {
                    first: index.saturating_mul(entries),
                    blocks,
                    table_clusters,
                });
            }
            blocks = blocks.saturating_add(1);
        }
    }

    fn write_blocks(&self, layout: &Layout) -> Result<()> {
        let entries = self.writer.block_entries();
        for number in 0..layout.blocks {
            let at = self.place_of(layout.first.saturating_add(number));
            let before = number.saturating_mul(entries);
            let used = layout.clusters().saturating_sub(before).min(entries);
            self.write_block(at, 0..used)?;
        }
        Ok(())
    }

    /// Writes the new table, and returns it.
    fn write_table(&self, index: u64, layout: &Layout) -> Result<Vec<u64>> {
        let mut table = self.state.refcount_table.clone();
        let len_bytes = layout
            .table_clusters
            .saturating_mul(self.writer.geometry().cluster_size());
        table.resize(to_usize(len_bytes / 8), 0);
        for number in 0..layout.blocks {
            let place = self.place_of(layout.first.saturating_add(number));
            if let Some(entry) = table.get_mut(to_usize(index.saturating_add(number))) {
                *entry = place.0;
            }
        }
        let bytes: Vec<u8> = table.iter().flat_map(|entry| entry.to_be_bytes()).collect();
        let at = self.place_of(layout.first.saturating_add(layout.blocks));
        self.writer.image.write_at(at.0, &bytes)?;
        Ok(table)
    }

    fn free_old_table(&mut self) {
        let len_bytes = to_u64(self.state.refcount_table.len()).saturating_mul(8);
        let first = self.cluster_at(self.state.refcount_table_at);
        let bits = self.writer.geometry().cluster_bits();
        self.state.freed.push(Freed {
            first,
            clusters: shift_right(round_up(len_bytes, bits), bits),
            hole: Hole::Keep,
        });
    }
}
