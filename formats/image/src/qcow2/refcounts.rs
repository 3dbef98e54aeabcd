//! Reference counts: specification, section "Host cluster management".

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{low_bits, power_of_two, shift_right, to_u64, to_usize};
use crate::qcow2::cache::TableSlice;
use crate::qcow2::header::Header;
use crate::qcow2::units::HostOffset;

/// The bits of the offset in a refcount table entry: 9 to 63.
const OFFSET_MASK: u64 = !0x1ff;

/// The largest number of clusters whose refcounts are read to detect preallocation: 4 TiB at QEMU's
/// default cluster size, some 100 ms. A larger image counts as not preallocated.
const PREALLOCATED_CLUSTERS_MAX: u64 = 1 << 26;

/// The refcount table: how clusters are divided into refcount blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refcounts<'a> {
    file: &'a dyn BlockRead,
    header: &'a Header,
}

/// A refcount block: the reference counts of a range of clusters.
#[derive(Debug)]
pub(crate) struct RefcountBlock {
    /// The block as stored; `None` if it is not allocated and all counts are zero.
    slice: Option<TableSlice>,
    order: u32,
}

impl<'a> Refcounts<'a> {
    pub(crate) const fn new(file: &'a dyn BlockRead, header: &'a Header) -> Self {
        Self { file, header }
    }

    /// Returns log2 of the counts in a block, which is a cluster of `2^order`-bit counts.
    pub(crate) const fn block_entries_bits(&self) -> u32 {
        self.header
            .geometry
            .cluster_bits()
            .saturating_add(3)
            .saturating_sub(self.header.refcount_order)
    }

    /// Returns the number of blocks that fit in the table.
    pub(crate) const fn block_count(&self) -> u64 {
        self.header.refcount_table.entries
    }

    /// Returns the offset of the `index`th block, if it is allocated.
    pub(crate) fn block_place(&self, index: u64) -> Result<Option<HostOffset>> {
        if index >= self.block_count() {
            return Ok(None);
        }
        let at = self.header.refcount_table.at.plus(index.saturating_mul(8));
        self.check_end(at.plus(8), at)?;
        let mut entry = [0; 8];
        self.file.read_at(at.0, &mut entry)?;
        self.decode_entry(u64::from_be_bytes(entry), at)
    }

    /// Returns the offset in a table entry, without its reserved bits.
    pub(crate) const fn offset_in(entry: u64) -> u64 {
        entry & OFFSET_MASK
    }

    /// Returns the offset of the block to which a table entry points, if any. `at` is where the
    /// entry is stored.
    pub(crate) fn decode_entry(&self, entry: u64, at: HostOffset) -> Result<Option<HostOffset>> {
        if entry & !OFFSET_MASK != 0 || !self.header.geometry.is_cluster_aligned(entry) {
            let reason =
                format!("invalid refcount table entry {entry:#018x}: not the offset of a cluster");
            return Err(Error::corrupt(reason).at(at.0));
        }
        Ok((entry != 0).then_some(HostOffset(entry)))
    }

    /// Reads the `index`th block.
    pub(crate) fn block(&self, index: u64) -> Result<RefcountBlock> {
        let slice = match self.block_place(index)? {
            None => None,
            Some(at) => {
                let len_bytes = self.header.geometry.cluster_size();
                self.check_end(at.plus(len_bytes), at)?;
                Some(TableSlice::read(self.file, at, len_bytes)?)
            }
        };
        Ok(RefcountBlock {
            slice,
            order: self.header.refcount_order,
        })
    }

    fn check_end(&self, end: HostOffset, at: HostOffset) -> Result<()> {
        let size_bytes = self.file.size_bytes();
        if end.0 <= size_bytes {
            return Ok(());
        }
        let reason =
            format!("refcounts extend to {end}, past the end of the file ({size_bytes:#x})");
        Err(Error::corrupt(reason).at(at.0))
    }
}

impl RefcountBlock {
    /// Returns how many of the first `entries` counts are not zero.
    fn count_used(&self, entries: u64) -> u64 {
        let Some(slice) = &self.slice else {
            return 0;
        };
        let per_word = power_of_two(6_u32.saturating_sub(self.order));
        let mut used = 0_u64;
        for (word, first) in (0..entries).step_by(to_usize(per_word)).enumerate() {
            // Most words of a sparse file are zero.
            if slice.word(word) != 0 {
                let end = first.saturating_add(per_word).min(entries);
                let here = (first..end).filter(|&index| self.get(index) != 0).count();
                used = used.saturating_add(to_u64(here));
            }
        }
        used
    }

    /// Returns the count at `index` in the block.
    pub(crate) fn get(&self, index: u64) -> u64 {
        match &self.slice {
            Some(slice) => CountPlace::new(self.order, index).get(slice),
            None => 0,
        }
    }
}

/// The position of a count among the 64-bit words of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountPlace {
    pub(crate) word: usize,
    shift: u32,
    width: u32,
}

impl CountPlace {
    /// Returns the position of the `index`th count of `2^order` bits.
    pub(crate) fn new(order: u32, index: u64) -> Self {
        let per_word_bits = 6_u32.saturating_sub(order);
        let in_word = low_bits(index, per_word_bits);
        let bit = in_word.saturating_mul(power_of_two(order));
        // Bytes are stored most significant first. In a byte with several counts, the first one is
        // in the least significant bits.
        let shift = if order < 3 {
            56_u64
                .saturating_sub(bit & !7)
                .saturating_add(low_bits(bit, 3))
        } else {
            64_u64.saturating_sub(bit.saturating_add(power_of_two(order)))
        };
        Self {
            word: to_usize(shift_right(index, per_word_bits)),
            shift: u32::try_from(shift).unwrap_or(0),
            width: u32::try_from(power_of_two(order)).unwrap_or(0),
        }
    }

    pub(crate) fn get(self, slice: &TableSlice) -> u64 {
        low_bits(shift_right(slice.word(self.word), self.shift), self.width)
    }

    /// Sets a count, which must fit into the width.
    pub(crate) fn set(self, slice: &TableSlice, count: u64) {
        let mask = low_bits(u64::MAX, self.width).wrapping_shl(self.shift);
        let count = count.wrapping_shl(self.shift) & mask;
        slice.set_word(self.word, slice.word(self.word) & !mask | count);
    }
}

/// Encodes `count` reference counts of one, as they are stored.
pub(crate) fn counts_of_one(count: u64, order: u32) -> Vec<u8> {
    if order >= 3 {
        let width = to_usize(power_of_two(order.saturating_sub(3)));
        let mut one = vec![0; width];
        if let Some(last) = one.last_mut() {
            *last = 1;
        }
        return one.repeat(to_usize(count));
    }
    // Several counts per byte, the first in the least significant bits.
    let per_byte = power_of_two(3_u32.saturating_sub(order));
    let all: u8 = match order {
        0 => 0b1111_1111,
        1 => 0b0101_0101,
        _ => 0b0001_0001,
    };
    let mut bytes = vec![all; to_usize(count.div_ceil(per_byte))];
    let left = count.checked_rem(per_byte).unwrap_or(0);
    if let Some(last) = bytes.last_mut()
        && left > 0
    {
        let used_bits = u32::try_from(left.saturating_mul(power_of_two(order))).unwrap_or(0);
        *last &= u8::try_from(power_of_two(used_bits).saturating_sub(1)).unwrap_or(u8::MAX);
    }
    bytes
}

/// Returns true if clearly more clusters are in use than the host has allocated for the file
/// (`allocated_bytes`). Some of them are then allocated in the image only
/// (`preallocation=metadata`), and only the file below knows which of them hold data.
///
/// The threshold is QEMU's, so that our map agrees with `qemu-img map`: one ninth more, and at
/// least two clusters.
pub(crate) fn looks_preallocated(
    file: &dyn BlockRead,
    header: &Header,
    allocated_bytes: u64,
) -> Result<bool> {
    let bits = header.geometry.cluster_bits();
    let allocated = shift_right(allocated_bytes, bits);
    let threshold = allocated
        .saturating_mul(10)
        .checked_div(9)
        .unwrap_or(0)
        .max(allocated.saturating_add(2));
    let end = file.size_bytes().div_ceil(header.geometry.cluster_size());
    if end < threshold || end > PREALLOCATED_CLUSTERS_MAX {
        return Ok(false);
    }
    let refcounts = Refcounts::new(file, header);
    let block_entries = power_of_two(refcounts.block_entries_bits());
    let blocks = end
        .div_ceil(block_entries.max(1))
        .min(refcounts.block_count());
    let mut used = 0_u64;
    for index in 0..blocks {
        let block = refcounts.block(index)?;
        let left = end.saturating_sub(index.saturating_mul(block_entries));
        used = used.saturating_add(block.count_used(block_entries.min(left)));
        if used >= threshold {
            return Ok(true);
        }
    }
    Ok(false)
}
