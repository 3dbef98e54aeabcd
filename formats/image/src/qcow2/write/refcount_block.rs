//! Changes of reference counts: specification, section "Host cluster management".

use std::sync::Arc;

use diskfs_block::{Error, Result};

use crate::numbers::{low_bits, power_of_two, shift_right, to_usize};
use crate::qcow2::cache::{TableKey, TableSlice};
use crate::qcow2::mapping::read_table;
use crate::qcow2::refcounts::CountPlace;
use crate::qcow2::units::HostOffset;
use crate::qcow2::write::Writer;
use crate::qcow2::write::metadata::Locked;

/// The bits of the offset in a refcount table entry: 9 to 63.
const OFFSET_MASK: u64 = !0x1ff;

/// The counts of a range of clusters: a slice of a refcount block.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) slice: Arc<TableSlice>,
    /// The first cluster of the range.
    pub(super) first: u64,
    /// The number of clusters in the range.
    pub(super) len: u64,
    order: u32,
}

impl Counts {
    fn place(&self, cluster: u64) -> CountPlace {
        CountPlace::new(self.order, cluster.saturating_sub(self.first))
    }

    pub(super) fn get(&self, cluster: u64) -> u64 {
        self.place(cluster).get(&self.slice)
    }

    pub(super) const fn end(&self) -> u64 {
        self.first.saturating_add(self.len)
    }
}

impl Writer {
    /// Returns log2 of the clusters that a block covers.
    pub(super) const fn block_entries_bits(&self) -> u32 {
        self.geometry()
            .cluster_bits()
            .saturating_add(3)
            .saturating_sub(self.header.refcount_order)
    }

    /// Returns the number of clusters that a block covers.
    pub(super) const fn block_entries(&self) -> u64 {
        power_of_two(self.block_entries_bits())
    }

    /// Returns the index of the block that covers a cluster.
    pub(super) const fn block_of(&self, cluster: u64) -> u64 {
        shift_right(cluster, self.block_entries_bits())
    }

    /// Returns the largest possible count.
    pub(super) fn count_max(&self) -> u64 {
        let bits = u32::try_from(self.header.refcount_bits()).unwrap_or(u64::BITS);
        low_bits(u64::MAX, bits)
    }
}

impl Locked<'_> {
    /// Returns the offset of the `index`th block, if it is allocated.
    pub(super) fn block_place(&self, index: u64) -> Result<Option<HostOffset>> {
        let entry = self.state.refcount_table.get(to_usize(index)).copied();
        let entry = entry.unwrap_or(0);
        if entry & !OFFSET_MASK != 0 || !self.writer.geometry().is_cluster_aligned(entry) {
            let at = self.state.refcount_table_at.plus(index.saturating_mul(8));
            let reason =
                format!("invalid refcount table entry {entry:#018x}: not the offset of a cluster");
            return Err(Error::corrupt(reason).at(at.0));
        }
        Ok((entry != 0).then_some(HostOffset(entry)))
    }

    /// Returns the counts around `cluster`; `None` if no block covers it, so that it is free.
    pub(super) fn counts(&self, cluster: u64) -> Result<Option<Counts>> {
        let writer = self.writer;
        let Some(block) = self.block_place(writer.block_of(cluster))? else {
            return Ok(None);
        };
        let slice_bytes = writer.geometry().slice_size();
        let order = writer.header.refcount_order;
        // A slice has 2^n counts of 2^order bits.
        let len_bits = slice_bytes
            .trailing_zeros()
            .saturating_add(3)
            .saturating_sub(order);
        let number = shift_right(cluster, len_bits);
        let slices_bits = writer.block_entries_bits().saturating_sub(len_bits);
        let at = block.plus(low_bits(number, slices_bits).saturating_mul(slice_bytes));
        let key = TableKey::Refcounts(writer.reader.mapping.layer, number);
        let file = writer.image.as_ref();
        let load = || read_table(file, at, slice_bytes, "refcount block").map(Some);
        let slice = writer.store.get_or_load(key, load)?;
        Ok(slice.map(|slice| Counts {
            slice,
            first: number.saturating_mul(power_of_two(len_bits)),
            len: power_of_two(len_bits),
            order,
        }))
    }

    /// Returns the reference count of the cluster.
    pub(crate) fn count(&self, cluster: u64) -> Result<u64> {
        Ok(self
            .counts(cluster)?
            .map_or(0, |counts| counts.get(cluster)))
    }

    /// Changes a count, which must be in `counts`.
    pub(super) fn set_count(&mut self, counts: &Counts, cluster: u64, count: u64) {
        let place = counts.place(cluster);
        place.set(&counts.slice, count);
        let words = place.word..place.word.saturating_add(1);
        self.state.counts.mark(&counts.slice, words);
    }

    pub(super) fn cannot_count(&self, cluster: u64, count: u64) -> Error {
        let at = cluster.saturating_mul(self.writer.geometry().cluster_size());
        if count == 0 {
            return Error::corrupt("a cluster that is in use is counted as free")
                .at(at)
                .with_hint("run `qemu-img check` on the image");
        }
        let bits = self.writer.header.refcount_bits();
        let reason =
            format!("a cluster has {count} references, the most for refcounts of {bits} bits");
        Error::unsupported(reason)
            .at(at)
            .with_hint("convert the image with `refcount_bits=16`")
    }
}
