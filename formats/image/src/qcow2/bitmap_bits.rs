//! The bits of a persistent bitmap: specification, section "Bitmap data".

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{has_bit, low_bits, power_of_two, shift_right, to_u64, to_usize};
use crate::qcow2::bitmap_directory::BitmapEntry;
use crate::qcow2::bitmap_table::{self, BitmapCluster};
use crate::qcow2::header::Header;
use crate::qcow2::units::HostOffset;

/// The bits of a bitmap, which are read when they are needed, from the file of the image.
///
/// Memory holds the table, of at most 16 MiB, and one cluster of bits, whatever the bits are.
#[derive(Debug)]
pub(crate) struct BitmapBits {
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
    pub(crate) fn read(file: &dyn BlockRead, header: &Header, entry: &BitmapEntry) -> Result<Self> {
        Ok(Self {
            clusters: bitmap_table::read(file, header, entry)?,
            cluster_size: header.geometry.cluster_size(),
            granularity_bits: entry.bitmap.granularity_bytes.trailing_zeros(),
            disk_bytes: header.size_bytes,
            last: Mutex::default(),
        })
    }

    /// Returns the number of clusters that store the bits and the table.
    pub(crate) fn stored_clusters(&self) -> u64 {
        let is_stored = |cluster: &&BitmapCluster| matches!(cluster, BitmapCluster::Stored(_));
        let stored = to_u64(self.clusters.iter().filter(is_stored).count());
        let table_bytes = to_u64(self.clusters.len()).saturating_mul(8);
        let table = table_bytes.checked_div(self.cluster_size).unwrap_or(0);
        stored.saturating_add(table.max(1))
    }

    /// Returns the length of the bits in bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.bit_count().div_ceil(8)
    }

    fn bit_count(&self) -> u64 {
        let granularity_bytes = power_of_two(self.granularity_bits).max(1);
        self.disk_bytes.div_ceil(granularity_bytes)
    }

    /// Returns the run from `offset` on, which must lie within the disk. It ends where the next
    /// cluster of bits begins, at the latest.
    pub(crate) fn run_at(&self, file: &dyn BlockRead, offset: u64) -> Result<MarkedRun> {
        let bit = shift_right(offset, self.granularity_bits);
        let bits_of_cluster = self.cluster_size.saturating_mul(8);
        let index = bit.checked_div(bits_of_cluster).unwrap_or(0);
        let first = index.saturating_mul(bits_of_cluster);
        let (end, is_marked) = match self.clusters.get(to_usize(index)) {
            Some(BitmapCluster::Stored(at)) => {
                let bit = bit.saturating_sub(first);
                self.with_bits(file, index, *at, |bytes| run_of(bytes, bit))?
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

    /// Calls `visit` with each range of the disk that is marked, in order. Ranges end where the next
    /// cluster of bits begins, at the latest.
    pub(crate) fn for_each_marked(
        &self,
        file: &dyn BlockRead,
        mut visit: impl FnMut(Range<u64>),
    ) -> Result<()> {
        let mut at = 0;
        while at < self.disk_bytes {
            let run = self.run_at(file, at)?;
            let end = at.saturating_add(run.len_bytes);
            if run.is_marked {
                visit(at..end);
            }
            at = end;
        }
        Ok(())
    }

    /// Returns true if the table says that these bytes of the bits are zeroes.
    pub(crate) fn are_zeroes(&self, at: u64, len_bytes: u64) -> bool {
        let index = |at: u64| to_usize(at.checked_div(self.cluster_size).unwrap_or(0));
        let last = at.saturating_add(len_bytes).saturating_sub(1);
        let clusters = self.clusters.get(index(at)..=index(last));
        let mut clusters = clusters.unwrap_or_default().iter();
        clusters.all(|it| *it == BitmapCluster::Zeroes)
    }

    /// Reads bytes of the bits. Those after the last bit are zero.
    pub(crate) fn read_at(&self, file: &dyn BlockRead, at: u64, bytes: &mut [u8]) -> Result<()> {
        let mut at = at;
        let mut rest = &mut *bytes;
        while !rest.is_empty() {
            let index = at.checked_div(self.cluster_size).unwrap_or(0);
            let start = at.saturating_sub(index.saturating_mul(self.cluster_size));
            let len = to_usize(self.cluster_size.saturating_sub(start)).min(rest.len());
            let Some((part, after)) = rest.split_at_mut_checked(len) else {
                break;
            };
            match self.clusters.get(to_usize(index)) {
                None | Some(BitmapCluster::Zeroes) => part.fill(0),
                Some(BitmapCluster::Ones) => part.fill(0xff),
                Some(BitmapCluster::Stored(place)) => {
                    self.with_bits(file, index, *place, |bits| {
                        let start = to_usize(start);
                        let bits = bits.get(start..start.saturating_add(len));
                        part.copy_from_slice(bits.unwrap_or_default());
                    })?;
                }
            }
            at = at.saturating_add(to_u64(len));
            rest = after;
        }
        let used = in_byte(self.bit_count());
        if at == self.len_bytes()
            && used > 0
            && let Some(last) = bytes.last_mut()
        {
            *last &= !(0xff_u8.checked_shl(used).unwrap_or(0));
        }
        Ok(())
    }

    /// Calls `look` with a cluster of bits, which is read unless it is the last one.
    fn with_bits<T>(
        &self,
        file: &dyn BlockRead,
        index: u64,
        at: HostOffset,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(known, _)| *known != index) {
            *last = None;
            let end = at.plus(self.cluster_size).0;
            if end > file.size_bytes() {
                let reason = "the bits of a bitmap extend past the end of the file";
                return Err(Error::corrupt(reason).at(at.0));
            }
            let mut bytes = vec![0; to_usize(self.cluster_size)];
            file.read_at(at.0, &mut bytes)?;
            *last = Some((index, bytes));
        }
        let bytes = last.as_ref().map(|(_, bytes)| bytes.as_slice());
        Ok(look(bytes.unwrap_or_default()))
    }
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
        let marked: Vec<_> = runs.windows(2).filter(|two| two[1].1).collect();
        let marked: Vec<_> = marked.iter().map(|two| two[0].0..two[1].0).collect();
        assert_eq!(marked, [1..3, 7..17, 39..40]);
        assert_eq!(run_of(&[0, 0], 0), (16, false));
        assert_eq!(run_of(&bytes, 12), (17, true));
        assert_eq!(run_of(&bytes, 20), (39, false));
    }
}
