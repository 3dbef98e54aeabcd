//! A new refcount table with new blocks, after all clusters in use.

use std::collections::BTreeSet;
use std::ops::Range;

use diskfs_block::{BlockWrite, Error, Result};

use crate::numbers::{power_of_two, round_up, shift_right, to_u64, to_usize};
use crate::qcow2::cache::TableSlice;
use crate::qcow2::check::{Checked, Scope, WindowReferences, for_each_window};
use crate::qcow2::growth::extend;
use crate::qcow2::header::{Header, REFCOUNT_TABLE_MAX_BYTES, Table};
use crate::qcow2::refcounts::{CountPlace, Refcounts};
use crate::qcow2::repair::ADVICE;
use crate::qcow2::units::HostOffset;

/// The offset of the header's pointer to the refcount table.
const REFCOUNT_TABLE_AT: u64 = 48;

/// The new blocks and, after them, the new table.
#[derive(Debug)]
struct Layout {
    /// The first cluster of the blocks.
    first: u64,
    /// The index of each block in the table, in the order of the blocks in the file.
    blocks: Vec<u64>,
    table_clusters: u64,
}

impl Layout {
    fn table_first(&self) -> u64 {
        self.first.saturating_add(to_u64(self.blocks.len()))
    }

    fn end(&self) -> u64 {
        self.table_first().saturating_add(self.table_clusters)
    }
}

/// A rebuild of the counts of one image.
struct Rebuild<'a> {
    file: &'a dyn BlockWrite,
    header: &'a Header,
    /// The clusters of the file, if all of them may be in use.
    kept: Range<u64>,
}

/// Writes new refcount blocks and a new table with the number of references to each cluster, and
/// makes the header point to it.
pub(super) fn rebuild(file: &dyn BlockWrite, header: &Header, checked: &Checked) -> Result<()> {
    match prepare(file, header, checked)? {
        Some(table) => activate(file, header, table),
        None => Ok(()),
    }
}

/// Writes new refcount blocks and a new table with the number of references to each cluster, and
/// returns the table, which is not active yet. The width of the counts is that of `header`. If
/// references could not be followed, the clusters without references keep a count of one, because
/// references to them may be lost.
///
/// Writes nothing if a reference past the end of the file would then point to the new tables.
pub(crate) fn prepare(
    file: &dyn BlockWrite,
    header: &Header,
    checked: &Checked,
) -> Result<Option<Table>> {
    let bits = header.geometry.cluster_bits();
    let in_file = shift_right(round_up(file.size_bytes(), bits), bits);
    let rebuild = Rebuild {
        file,
        header,
        kept: 0..if checked.is_incomplete { in_file } else { 0 },
    };
    let used = rebuild.used_ranges()?;
    // The file of a killed writer is longer, by more than a table can count.
    let layout = rebuild.layout(checked.used_end.max(rebuild.kept.end), used)?;
    let end = rebuild.place_of(layout.end());
    if checked.dangling_from.is_some_and(|at| at < end) {
        return Ok(None);
    }
    rebuild.extend_file(&layout)?;
    rebuild.write_blocks(&layout)?;
    rebuild.write_table(&layout)?;
    file.flush()?;
    let size_bytes = layout
        .table_clusters
        .saturating_mul(header.geometry.cluster_size());
    Ok(Some(Table {
        at: rebuild.place_of(layout.table_first()),
        entries: size_bytes.checked_div(8).unwrap_or(0),
    }))
}

/// Points the header to the table. Both fields are in one sector.
fn activate(file: &dyn BlockWrite, header: &Header, table: Table) -> Result<()> {
    let clusters = shift_right(table.size_bytes(), header.geometry.cluster_bits());
    let clusters = u32::try_from(clusters).unwrap_or(u32::MAX);
    let fields = [&table.at.0.to_be_bytes()[..], &clusters.to_be_bytes()].concat();
    file.write_at(REFCOUNT_TABLE_AT, &fields)?;
    file.flush()
}

impl Rebuild<'_> {
    fn block_bits(&self) -> u32 {
        Refcounts::new(self.file, self.header).block_entries_bits()
    }

    fn place_of(&self, cluster: u64) -> HostOffset {
        HostOffset(cluster.saturating_mul(self.header.geometry.cluster_size()))
    }

    /// Returns the indices of the blocks that count clusters in use.
    fn used_ranges(&self) -> Result<BTreeSet<u64>> {
        let bits = self.block_bits();
        let mut used = BTreeSet::new();
        for_each_window(
            self.file,
            self.header,
            Scope::WithoutRefcounts,
            |references| {
                for cluster in references.window() {
                    if self.count_of(references, cluster) > 0 {
                        used.insert(shift_right(cluster, bits));
                    }
                }
                Ok(())
            },
        )?;
        Ok(used)
    }

    fn count_of(&self, references: &WindowReferences<'_>, cluster: u64) -> u64 {
        let count = references.of(cluster);
        count.max(u64::from(self.kept.contains(&cluster)))
    }

    /// Places the blocks and the table, which count themselves, at cluster `first`.
    fn layout(&self, first: u64, mut used: BTreeSet<u64>) -> Result<Layout> {
        let bits = self.block_bits();
        let cluster_size = self.header.geometry.cluster_size();
        loop {
            let entries = used.last().map_or(1, |last| last.saturating_add(1));
            let table_clusters = entries.saturating_mul(8).div_ceil(cluster_size);
            if table_clusters.saturating_mul(cluster_size) > REFCOUNT_TABLE_MAX_BYTES {
                let reason = "no space left in the refcount table for the clusters in use";
                return Err(Error::unsupported(reason).with_hint(ADVICE));
            }
            let clusters = to_u64(used.len()).saturating_add(table_clusters);
            let last = first.saturating_add(clusters).saturating_sub(1);
            let before = used.len();
            used.extend(shift_right(first, bits)..=shift_right(last, bits));
            if used.len() == before {
                return Ok(Layout {
                    first,
                    blocks: used.into_iter().collect(),
                    table_clusters,
                });
            }
        }
    }

    fn extend_file(&self, layout: &Layout) -> Result<()> {
        extend(self.file, self.place_of(layout.end()).0)
    }

    fn write_blocks(&self, layout: &Layout) -> Result<()> {
        let bits = self.block_bits();
        let mut blocks = (layout.first..)
            .zip(layout.blocks.iter().copied())
            .peekable();
        for_each_window(
            self.file,
            self.header,
            Scope::WithoutRefcounts,
            |references| {
                let end = references.window().end;
                while let Some((cluster, index)) =
                    blocks.next_if(|(_, index)| index.saturating_mul(power_of_two(bits)) < end)
                {
                    self.write_block(layout, cluster, index, |of| self.count_of(references, of))?;
                }
                Ok(())
            },
        )?;
        blocks.try_for_each(|(cluster, index)| self.write_block(layout, cluster, index, |_| 0))
    }

    fn write_block(
        &self,
        layout: &Layout,
        cluster: u64,
        index: u64,
        count_of: impl Fn(u64) -> u64,
    ) -> Result<()> {
        let at = self.place_of(cluster);
        let block = TableSlice::zeroed(at, self.header.geometry.cluster_size());
        let entries = power_of_two(self.block_bits());
        let first = index.saturating_mul(entries);
        let structure = layout.first..layout.end();
        for in_block in 0..entries {
            let cluster = first.saturating_add(in_block);
            let count = if structure.contains(&cluster) {
                1
            } else {
                count_of(cluster)
            };
            if count > 0 {
                CountPlace::new(self.header.refcount_order, in_block).set(&block, count);
            }
        }
        self.file.write_at(at.0, &block.copy_of(0..block.len()))
    }

    fn write_table(&self, layout: &Layout) -> Result<()> {
        let len_bytes = layout
            .table_clusters
            .saturating_mul(self.header.geometry.cluster_size());
        let at = self.place_of(layout.table_first());
        let table = TableSlice::zeroed(at, len_bytes);
        for (cluster, index) in (layout.first..).zip(&layout.blocks) {
            table.set_word(to_usize(*index), self.place_of(cluster).0);
        }
        self.file.write_at(at.0, &table.copy_of(0..table.len()))
    }
}
