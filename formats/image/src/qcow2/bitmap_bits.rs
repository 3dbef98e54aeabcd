//! The bits of a persistent bitmap: specification, section "Bitmap data".

use std::sync::{Arc, Mutex, PoisonError};

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{has_bit, low_bits, power_of_two, shift_right, to_u64, to_usize};
use crate::qcow2::bitmap_directory::BitmapEntry;
use crate::qcow2::bitmap_table::{self, BitmapCluster};
use crate::qcow2::header::Header;

/// The bits of a bitmap, which are read when they are needed.
///
/// Memory holds the table, of at most 16 MiB, and one cluster of bits, whatever the bits are.
#[derive(Debug)]
pub(crate) struct BitmapBits {
    file: Arc<dyn BlockRead>,
    clusters: Vec<BitmapCluster>,
    cluster_size: u64,
    granularity_bits: u32,
    disk_bytes: u64,
    /// The cluster of bits that was read last, with its index.
    last: Mutex<Option<(u64, Vec<u8>)>>,
}

/// A range of the disk whose bits are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MarkedRun {
    pub(crate) len_bytes: u64,
    pub(crate) is_marked: bool,
}

impl BitmapBits {
    /// Reads the table of a bitmap that fits the disk.
    pub(crate) fn read(
        file: Arc<dyn BlockRead>,
        header: &Header,
        entry: &BitmapEntry,
    ) -> Result<Self> {
        Ok(Self {
            clusters: bitmap_table::read(file.as_ref(), header, entry)?,
            file,
            cluster_size: header.geometry.cluster_size(),
            granularity_bits: entry.bitmap.granularity_bytes.trailing_zeros(),
            disk_bytes: header.size_bytes,
            last: Mutex::default(),
        })
    }

    /// Returns the run from `offset` on, which must lie within the disk. It ends where the next
    /// cluster of bits begins, at the latest.
    pub(crate) fn run_at(&self, offset: u64) -> Result<MarkedRun> {
        let bit = shift_right(offset, self.granularity_bits);
        let bits_of_cluster = self.cluster_size.saturating_mul(8);
        let index = bit.checked_div(bits_of_cluster).unwrap_or(0);
        let first = index.saturating_mul(bits_of_cluster);
        let (end, is_marked) = match self.clusters.get(to_usize(index)) {
            Some(BitmapCluster::Stored(at)) => {
                self.stored_run(index, at.0, bit.saturating_sub(first))?
            }
            Some(BitmapCluster::Ones) => (bits_of_cluster, true),
            Some(BitmapCluster::Zeroes) | None => (bits_of_cluster, false),
        };
        let end = first.saturating_add(end);
        let end_bytes = end.saturating_mul(power_of_two(self.granularity_bits));
        Ok(MarkedRun {
            len_bytes: end_bytes.min(self.disk_bytes).saturating_sub(offset),
            is_marked,
        })
    }

    /// Returns the end of the run of equal bits from `bit` on, and their value, in the cluster of
    /// bits with this index.
    fn stored_run(&self, index: u64, at: u64, bit: u64) -> Result<(u64, bool)> {
        self.with_bits(index, at, |bytes| run_of(bytes, bit))
    }

    /// Calls `look` with a cluster of bits, which is read unless it is the last one.
    fn with_bits<T>(&self, index: u64, at: u64, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(known, _)| *known != index) {
            *last = None;
            if at.saturating_add(self.cluster_size) > self.file.size_bytes() {
                let reason = "the bits of a bitmap extend past the end of the file";
                return Err(Error::corrupt(reason).at(at));
            }
            let mut bytes = vec![0; to_usize(self.cluster_size)];
            self.file.read_at(at, &mut bytes)?;
            *last = Some((index, bytes));
        }
        let bytes = last.as_ref().map(|(_, bytes)| bytes.as_slice());
        Ok(look(bytes.unwrap_or_default()))
    }

    /// Returns the number of bytes of the disk that are marked. All bits are read.
    pub(crate) fn marked_bytes(&self) -> Result<u64> {
        let granularity_bytes = power_of_two(self.granularity_bits);
        let bits = self.disk_bytes.div_ceil(granularity_bytes.max(1));
        let bits_of_cluster = self.cluster_size.saturating_mul(8);
        let mut marks = 0_u64;
        for (index, cluster) in (0_u64..).zip(&self.clusters) {
            let left = bits.saturating_sub(index.saturating_mul(bits_of_cluster));
            let count = left.min(bits_of_cluster);
            let found = match cluster {
                BitmapCluster::Zeroes => 0,
                BitmapCluster::Ones => count,
                BitmapCluster::Stored(at) => {
                    self.with_bits(index, at.0, |bytes| ones_in(bytes, count))?
                }
            };
            marks = marks.saturating_add(found);
        }
        let marked = marks.saturating_mul(granularity_bytes);
        let last = self.disk_bytes.saturating_sub(1);
        let rest = bits
            .saturating_mul(granularity_bytes)
            .saturating_sub(self.disk_bytes);
        let is_cut = self.disk_bytes > 0 && self.run_at(last)?.is_marked;
        Ok(marked.saturating_sub(if is_cut { rest } else { 0 }))
    }
}

/// Returns the number of ones of the first `count` bits.
fn ones_in(bytes: &[u8], count: u64) -> u64 {
    let (whole, rest) = bytes
        .split_at_checked(to_usize(shift_right(count, 3)))
        .unwrap_or((bytes, &[]));
    let ones = |byte: &u8| u64::from(byte.count_ones());
    let partial = rest
        .first()
        .map_or(0, |&byte| low_bits(byte.into(), in_byte(count)));
    let whole: u64 = whole.iter().map(ones).fold(0, u64::saturating_add);
    whole.saturating_add(partial.count_ones().into())
}

/// Returns the end of the run of equal bits from `first` on, and their value. Bit 0 of a byte is the
/// least significant one.
fn run_of(bytes: &[u8], first: u64) -> (u64, bool) {
    let byte_of = |bit| bytes.get(to_usize(shift_right(bit, 3))).copied();
    let is_set = |bit| byte_of(bit).is_some_and(|byte| has_bit(byte.into(), in_byte(bit)));
    let expected = is_set(first);
    let whole = if expected { 0xff } else { 0 };
    let end = to_u64(bytes.len()).saturating_mul(8);
    let mut at = first.saturating_add(1);
    while at < end && is_set(at) == expected {
        // Most bytes are like this.
        let is_whole = in_byte(at) == 0 && byte_of(at) == Some(whole);
        at = at.saturating_add(if is_whole { 8 } else { 1 });
    }
    (at, expected)
}

/// Returns the index of a bit in its byte.
fn in_byte(bit: u64) -> u32 {
    u32::try_from(low_bits(bit, 3)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_equal_bits() {
        let bytes = [0b1000_0110, 0xff, 1, 0, 0x80];
        let mut runs = Vec::new();
        let mut at = 0;
        while at < 40 {
            let (end, is_set) = run_of(&bytes, at);
            runs.push((end, is_set));
            at = end;
        }
        let expected = [1, 3, 7, 17, 39, 40].into_iter();
        let values = [false, true, false, true, false, true];
        assert_eq!(runs, expected.zip(values).collect::<Vec<_>>());
        let counts = [0, 1, 2, 8, 17, 39, 40].map(|count| ones_in(&bytes, count));
        assert_eq!(counts, [0, 0, 1, 3, 12, 12, 13]);
        assert_eq!(run_of(&bytes, 12), (17, true));
        assert_eq!(run_of(&bytes, 20), (39, false));
    }
}
