//! The check of refcount blocks, and the comparison of their counts with the references.

use std::ops::Range;

use diskfs_block::{BlockRead, Result};

use crate::numbers::{low_bits, power_of_two, shift_right, to_u64};
use crate::qcow2::cache::TableSlice;
use crate::qcow2::check::clusters_of;
use crate::qcow2::check::counter::Counter;
use crate::qcow2::check::report::FindingKind;
use crate::qcow2::check::tables::{for_each_word, read_piece};
use crate::qcow2::header::Header;
use crate::qcow2::refcounts::{CountPlace, Refcounts};
use crate::qcow2::units::HostOffset;

/// The place of a refcount block, or the reason that it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockPlace {
    At(HostOffset),
    Missing,
    /// The entry is not the offset of a cluster.
    Invalid,
}

/// A block of counts.
struct StoredBlock {
    place: BlockPlace,
    /// The counts, if the block can be read.
    counts: Option<TableSlice>,
    /// The number of counts in the block, as a power of two.
    entries_bits: u32,
}

impl Counter<'_> {
    /// Counts the references to the clusters of the refcount table.
    pub(super) fn count_refcount_table(&mut self) {
        let table = self.header.refcount_table;
        if !self.is_past_end(table.at, table.size_bytes()) {
            self.count(table.at, table.size_bytes());
            return;
        }
        self.needs_rebuild = true;
        self.add(FindingKind::RefcountBlock, table.at, 1, || {
            "the refcount table is past the end of the file".to_owned()
        });
    }

    /// Counts the references to refcount blocks, and checks that each block of the window has
    /// exactly one.
    pub(super) fn count_refcount_blocks(&mut self) -> Result<()> {
        let table = self.header.refcount_table;
        let file = self.file;
        self.budget.take(table.at, table.size_bytes())?;
        for_each_word(file, table.at, table.size_bytes(), |words, index| {
            let entry = words.word(index);
            if entry != 0 {
                self.count_refcount_block(entry, words.place_of(index));
            }
            Ok(())
        })
    }

    fn count_refcount_block(&mut self, entry: u64, at: HostOffset) {
        let block = HostOffset(Refcounts::offset_in(entry));
        let geometry = self.header.geometry;
        let fault = if block.0 != entry {
            Some("reserved bits are set")
        } else if !geometry.is_cluster_aligned(block.0) {
            Some("not the offset of a cluster")
        } else if block.0 >= self.file.size_bytes() {
            Some("the block is past the end of the file")
        } else {
            None
        };
        if let Some(fault) = fault {
            self.needs_rebuild = true;
            self.add(FindingKind::RefcountBlock, at, 1, || {
                format!("invalid refcount table entry {entry:#018x}: {fault}")
            });
            return;
        }
        self.count(block, geometry.cluster_size());
        let cluster = shift_right(block.0, geometry.cluster_bits());
        let Some(references) = self.references(cluster) else {
            return;
        };
        // A count of one bit hides that the block is also used for something else.
        self.needs_rebuild |= references != 1;
        let references = references.min(self.count_max());
        if references != 1 {
            self.report.add(FindingKind::RefcountBlock, block, 1, || {
                format!("refcount block with {references} references, expected one")
            });
        }
    }

    /// Compares the stored counts of the window with the references, and calls `stored` with each
    /// cluster and its count, or `None` if the count cannot be read.
    pub(super) fn compare(&mut self, mut stored: impl FnMut(u64, Option<u64>)) -> Result<()> {
        let bits = Refcounts::new(self.file, self.header).block_entries_bits();
        // The last cluster may begin at the end of the file, if it is compressed data.
        let in_file = clusters_of(self.file, self.header);
        let window = self.window();
        let has_last = self.references(in_file) > Some(0);
        let end = window.end.min(in_file.saturating_add(u64::from(has_last)));
        let mut first = window.start;
        while first < end {
            let index = shift_right(first, bits);
            let next = index.saturating_add(1).saturating_mul(power_of_two(bits));
            let place = self.block_place(index)?;
            let block = StoredBlock {
                place,
                counts: self.read_block(place)?,
                entries_bits: bits,
            };
            self.compare_block(&block, first..next.min(end), &mut stored);
            first = next;
        }
        Ok(())
    }

    /// Compares the counts of clusters that one block stores.
    fn compare_block(
        &mut self,
        block: &StoredBlock,
        clusters: Range<u64>,
        stored: &mut impl FnMut(u64, Option<u64>),
    ) {
        let order = self.header.refcount_order;
        let mut last_used = None;
        for cluster in clusters {
            let count = match (block.place, &block.counts) {
                (BlockPlace::Invalid, _) => None,
                (_, Some(counts)) => {
                    let in_block = low_bits(cluster, block.entries_bits);
                    Some(CountPlace::new(order, in_block).get(counts))
                }
                _ => {
                    self.needs_rebuild |= self.references(cluster) > Some(0);
                    Some(0)
                }
            };
            stored(cluster, count);
            if count != self.references(cluster) {
                self.compare_cluster(cluster, count);
            } else if count > Some(0) {
                last_used = Some(cluster);
            }
        }
        if let Some(cluster) = last_used {
            self.note_used(cluster);
        }
    }

    /// Notes that a cluster is referenced or counted.
    fn note_used(&mut self, cluster: u64) {
        let end = cluster.saturating_add(1);
        self.used_end = self.used_end.max(end);
        let end_bytes = end.saturating_mul(self.header.geometry.cluster_size());
        let statistics = &mut self.report.statistics;
        statistics.image_end_bytes = statistics.image_end_bytes.max(end_bytes);
    }

    fn compare_cluster(&mut self, cluster: u64, stored: Option<u64>) {
        let references = self.references(cluster).unwrap_or(0);
        let at = HostOffset(cluster.saturating_mul(self.header.geometry.cluster_size()));
        if references > 0 || stored > Some(0) {
            self.used_end = self.used_end.max(cluster.saturating_add(1));
        }
        let Some(stored) = stored else {
            self.needs_rebuild = true;
            self.report.add(FindingKind::UnreadableCount, at, 1, || {
                "the count of a cluster cannot be read".to_owned()
            });
            return;
        };
        self.note_used(cluster);
        if stored > references {
            self.report.add(FindingKind::LeakedCluster, at, 1, || {
                format!("leaked cluster: its count is {stored}, and it has {references} references")
            });
        } else if stored < references {
            self.report.add(FindingKind::LowCount, at, 1, || {
                format!("cluster with {references} references, and its count is {stored}")
            });
        }
    }

    /// Returns the place of the `index`th block.
    pub(super) fn block_place(&self, index: u64) -> Result<BlockPlace> {
        block_place(self.file, self.header, index)
    }

    pub(super) fn read_block(&self, place: BlockPlace) -> Result<Option<TableSlice>> {
        match place {
            BlockPlace::At(at) => {
                let len_bytes = self.header.geometry.cluster_size();
                read_piece(self.file, at, len_bytes).map(Some)
            }
            BlockPlace::Missing | BlockPlace::Invalid => Ok(None),
        }
    }
}

/// Returns the place of the `index`th block, as QEMU reads it. A block past the end of the file
/// reads as zeroes.
fn block_place(file: &dyn BlockRead, header: &Header, index: u64) -> Result<BlockPlace> {
    let table = header.refcount_table;
    if index >= table.entries {
        return Ok(BlockPlace::Missing);
    }
    let at = table.at.plus(index.saturating_mul(8));
    let entry = Refcounts::offset_in(read_piece(file, at, 8)?.word(0));
    // Offsets in a file are signed numbers.
    let is_offset = i64::try_from(entry).is_ok() && header.geometry.is_cluster_aligned(entry);
    Ok(match entry {
        0 => BlockPlace::Missing,
        entry if is_offset => BlockPlace::At(HostOffset(entry)),
        _ => BlockPlace::Invalid,
    })
}

/// Returns the stored count of one cluster; `None` if it cannot be read.
pub(super) fn stored_count(
    file: &dyn BlockRead,
    header: &Header,
    cluster: u64,
) -> Result<Option<u64>> {
    let bits = Refcounts::new(file, header).block_entries_bits();
    let block = match block_place(file, header, shift_right(cluster, bits))? {
        BlockPlace::At(block) => block,
        BlockPlace::Missing => return Ok(Some(0)),
        BlockPlace::Invalid => return Ok(None),
    };
    let in_block = low_bits(cluster, bits);
    let word = CountPlace::new(header.refcount_order, in_block).word;
    let at = block.plus(to_u64(word).saturating_mul(8));
    let slice = read_piece(file, at, 8)?;
    let per_word_bits = 6_u32.saturating_sub(header.refcount_order);
    let in_word = low_bits(in_block, per_word_bits);
    Ok(Some(
        CountPlace::new(header.refcount_order, in_word).get(&slice),
    ))
}
