//! The tables of a qcow2 image that is written from its beginning to its end.

mod restored;

use diskfs_block::{Result, WriteAt};

use crate::create::{RefcountClusters, counts_per_block};
use crate::numbers::{power_of_two, shift_right, to_u64, to_usize};
use crate::qcow2::cache::TableSlice;
use crate::qcow2::header::Table;
use crate::qcow2::l1_entry;
use crate::qcow2::l2_entry::{L2Rules, StandardCluster, compressed_descriptor};
use crate::qcow2::refcounts::CountPlace;
use crate::qcow2::units::{GuestOffset, HostOffset};

/// The tables and the end of the image so far. Clusters are added in the guest's order. All but the
/// L1 table is written in the order of the image.
pub(super) struct Tables {
    rules: L2Rules,
    refcount_order: u32,
    l1: Vec<u64>,
    /// The L2 table that covers the last cluster.
    l2: Option<PresentL2>,
    /// The refcounts of all clusters before the end.
    counts: Vec<u16>,
    /// The end of the image in bytes.
    end: u64,
}

/// The L2 table to which clusters are added.
struct PresentL2 {
    /// The index in the L1 table.
    index: u64,
    table: TableSlice,
    /// The place in the image; `None` before the table is written for the first time.
    at: Option<u64>,
}

impl Tables {
    /// Returns the tables of an image that has a header, and an L1 table after it.
    pub(super) fn new(rules: L2Rules, refcount_order: u32, size_bytes: u64) -> Self {
        let entries = rules.geometry.l1_entries_for(size_bytes);
        let mut tables = Self {
            rules,
            refcount_order,
            l1: vec![0; to_usize(entries)],
            l2: None,
            counts: Vec::new(),
            end: 0,
        };
        tables.take(tables.cluster_size());
        if entries > 0 {
            tables.take(tables.l1_table().size_bytes());
        }
        tables
    }

    const fn cluster_size(&self) -> u64 {
        self.rules.geometry.cluster_size()
    }

    /// Returns the index of the cluster that contains an offset.
    const fn cluster_of(&self, offset: u64) -> u64 {
        shift_right(offset, self.rules.geometry.cluster_bits())
    }

    /// Returns the place of the L1 table.
    pub(super) fn l1_table(&self) -> Table {
        Table {
            at: HostOffset(self.cluster_size()),
            entries: to_u64(self.l1.len()),
        }
    }

    /// Returns the end of the image in bytes.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Adds a cluster that is stored as it is; returns its place.
    pub(super) fn add_data(&mut self, guest: GuestOffset, write: &mut WriteAt<'_>) -> Result<u64> {
        self.select(guest, write)?;
        let at = self.take(self.cluster_size());
        let entry = StandardCluster {
            host: Some(HostOffset(at)),
            allocated: u32::MAX,
            zero: 0,
            copied: true,
        };
        self.set(guest, entry.encode(self.rules));
        Ok(at)
    }

    /// Adds a cluster that reads as zeroes.
    pub(super) fn add_zeroes(&mut self, guest: GuestOffset, write: &mut WriteAt<'_>) -> Result<()> {
        self.select(guest, write)?;
        let entry = StandardCluster {
            zero: u32::MAX,
            ..StandardCluster::default()
        };
        self.set(guest, entry.encode(self.rules));
        Ok(())
    }

    /// Adds a cluster of which `len` compressed bytes are stored; returns their place, which is
    /// directly after the one before if that was compressed, too.
    pub(super) fn add_packed(
        &mut self,
        guest: GuestOffset,
        len: usize,
        write: &mut WriteAt<'_>,
    ) -> Result<u64> {
        self.select(guest, write)?;
        // The host cluster at the end is shared, unless its refcount cannot grow.
        if self.last_count() >= self.max_count() {
            self.end = self.end.next_multiple_of(self.cluster_size());
        }
        let at = self.end;
        let last = at.saturating_add(to_u64(len)).saturating_sub(1);
        self.count(at, last);
        self.end = last.saturating_add(1);
        let descriptor = compressed_descriptor(HostOffset(at), to_u64(len), self.rules.geometry);
        self.set(guest, (descriptor, 0));
        Ok(at)
    }

    /// Writes the L2 table of the last cluster and the refcounts; returns the place of the refcount
    /// table.
    pub(super) fn finish(&mut self, write: &mut WriteAt<'_>) -> Result<Table> {
        self.write_l2(write)?;
        self.write_refcounts(write)
    }

    /// Writes the tables so far, from which [`restore`](Self::restore) continues; returns the end
    /// of the image. Later clusters only add to these tables, in their places.
    pub(super) fn store(&mut self, write: &mut WriteAt<'_>) -> Result<u64> {
        self.write_l2(write)?;
        write(self.l1_table().at.0, &self.l1_bytes())?;
        Ok(self.end)
    }

    /// Returns the L1 table as it is stored.
    pub(super) fn l1_bytes(&self) -> Vec<u8> {
        big_endian(&self.l1)
    }

    /// Makes the L2 table that covers a cluster the present one.
    fn select(&mut self, guest: GuestOffset, write: &mut WriteAt<'_>) -> Result<()> {
        let index = self.rules.geometry.l1_index(guest);
        if self.l2.as_ref().is_some_and(|l2| l2.index == index) {
            return Ok(());
        }
        self.write_l2(write)?;
        self.l2 = Some(PresentL2 {
            index,
            table: TableSlice::zeroed(HostOffset(0), self.cluster_size()),
            at: None,
        });
        Ok(())
    }

    fn set(&self, guest: GuestOffset, (descriptor, bitmap): (u64, u64)) {
        let Some(PresentL2 { index, table, .. }) = &self.l2 else {
            return;
        };
        let geometry = self.rules.geometry;
        let start = index.saturating_mul(geometry.l1_coverage());
        let cluster = self.cluster_of(guest.0.saturating_sub(start));
        let words = geometry.layout().words();
        let word = to_usize(cluster).saturating_mul(words);
        table.set_word(word, descriptor);
        if words > 1 {
            table.set_word(word.saturating_add(1), bitmap);
        }
    }

    /// Writes the present L2 table, in its place if it has one.
    fn write_l2(&mut self, write: &mut WriteAt<'_>) -> Result<()> {
        let Some(l2) = self.l2.take() else {
            return Ok(());
        };
        let at = l2.at.unwrap_or_else(|| self.take(self.cluster_size()));
        write(at, &l2.table.copy_of(0..l2.table.len()))?;
        if let Some(entry) = self.l1.get_mut(to_usize(l2.index)) {
            *entry = l1_entry::entry_for(HostOffset(at));
        }
        self.l2 = Some(PresentL2 { at: Some(at), ..l2 });
        Ok(())
    }

    /// Allocates whole clusters, whose refcount is 1; returns their offset.
    fn take(&mut self, len_bytes: u64) -> u64 {
        let size = self.cluster_size();
        let at = self.end.next_multiple_of(size);
        self.end = at.saturating_add(len_bytes.max(1).next_multiple_of(size));
        self.count(at, self.end.saturating_sub(1));
        at
    }

    /// Counts a reference to each cluster of a range.
    fn count(&mut self, first: u64, last: u64) {
        let clusters = self.cluster_of(last).saturating_add(1);
        if to_u64(self.counts.len()) < clusters {
            self.counts.resize(to_usize(clusters), 0);
        }
        let range = to_usize(self.cluster_of(first))..to_usize(clusters);
        for count in self.counts.get_mut(range).unwrap_or_default() {
            *count = count.saturating_add(1);
        }
    }

    /// Returns the refcount of the cluster that the next compressed byte would share; 0 for none.
    fn last_count(&self) -> u64 {
        if self.end.is_multiple_of(self.cluster_size()) {
            return 0;
        }
        self.counts.last().copied().unwrap_or(0).into()
    }

    /// Returns the largest refcount of the image's width, and of the counts here.
    fn max_count(&self) -> u64 {
        let bits = u32::try_from(power_of_two(self.refcount_order)).unwrap_or(u32::MAX);
        match bits {
            0..16 => power_of_two(bits).saturating_sub(1),
            _ => u16::MAX.into(),
        }
    }

    /// Writes the refcount blocks and their table; returns the place of the table.
    fn write_refcounts(&mut self, write: &mut WriteAt<'_>) -> Result<Table> {
        let size = self.cluster_size();
        let geometry = self.rules.geometry;
        let used = self.end.div_ceil(size);
        let needed = RefcountClusters::for_clusters(used, geometry, self.refcount_order)?;
        let table_at = self.take(needed.table.saturating_mul(size));
        let blocks_at = self.take(needed.blocks.saturating_mul(size));
        let per_block = counts_per_block(geometry, self.refcount_order);
        let places: Vec<u64> = (0..needed.blocks)
            .map(|index| blocks_at.saturating_add(index.saturating_mul(size)))
            .collect();
        write(table_at, &big_endian(&places))?;
        for (at, counts) in places.iter().zip(self.counts.chunks(to_usize(per_block))) {
            write(*at, &encoded(counts, self.refcount_order, size))?;
        }
        Ok(Table {
            at: HostOffset(table_at),
            entries: needed.table.saturating_mul(size) / 8,
        })
    }
}

/// Returns a refcount block with these counts, as it is stored.
fn encoded(counts: &[u16], order: u32, block_bytes: u64) -> Vec<u8> {
    let block = TableSlice::zeroed(HostOffset(0), block_bytes);
    for (index, count) in (0..).zip(counts) {
        CountPlace::new(order, index).set(&block, u64::from(*count));
    }
    block.copy_of(0..block.len())
}

fn big_endian(entries: &[u64]) -> Vec<u8> {
    entries
        .iter()
        .flat_map(|entry| entry.to_be_bytes())
        .collect()
}
