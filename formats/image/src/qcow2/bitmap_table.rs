//! The bitmap table: specification, section "Bitmap table".

use std::ops::Range;

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{power_of_two, shift_right, to_u64, to_usize};
use crate::qcow2::bitmap_directory::BitmapEntry;
use crate::qcow2::header::Header;
use crate::qcow2::units::HostOffset;

/// The largest number of bytes of one bitmap's bits: QEMU's limit. It bounds the table to 8 MiB.
pub(crate) const BITS_MAX_BYTES: u64 = 512 << 20;
/// The bits of the offset in a table entry: 9 to 55.
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
/// The flag of a cluster of ones that is not stored.
const ALL_ONES: u64 = 1;

/// One cluster of a bitmap's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BitmapCluster {
    Zeroes,
    Ones,
    Stored(HostOffset),
}

impl BitmapCluster {
    fn decode(entry: u64, header: &Header) -> Option<Self> {
        let offset = entry & OFFSET_MASK;
        let is_valid = entry & !(OFFSET_MASK | ALL_ONES) == 0
            && (offset == 0 || entry & ALL_ONES == 0)
            && header.geometry.is_cluster_aligned(offset);
        is_valid.then_some(match offset {
            0 if entry & ALL_ONES != 0 => Self::Ones,
            0 => Self::Zeroes,
            place => Self::Stored(HostOffset(place)),
        })
    }

    const fn encode(self) -> u64 {
        match self {
            Self::Zeroes => 0,
            Self::Ones => ALL_ONES,
            Self::Stored(at) => at.0,
        }
    }
}

/// Returns the number of clusters of bits, and so of table entries, that a bitmap for a disk of
/// `size_bytes` needs.
pub(crate) fn clusters_for(header: &Header, size_bytes: u64, granularity_bytes: u64) -> u64 {
    let bits = size_bytes.div_ceil(granularity_bytes.max(1));
    let bits_of_cluster = header.geometry.cluster_size().saturating_mul(8);
    bits.div_ceil(bits_of_cluster.max(1))
}

/// Reads a bitmap's table. Fails if one of its entries is invalid, or points to the image's own
/// tables.
pub(crate) fn read(
    file: &dyn BlockRead,
    header: &Header,
    entry: &BitmapEntry,
) -> Result<Vec<BitmapCluster>> {
    let cluster_size = header.geometry.cluster_size();
    let entries = u64::from(entry.table_entries);
    if entries == 0 || entries.saturating_mul(cluster_size) > BITS_MAX_BYTES {
        let reason = format!("invalid bitmap: its table has {entries} entries");
        return Err(Error::corrupt(reason).at(entry.table_at.0));
    }
    if !header.geometry.is_cluster_aligned(entry.table_at.0) || entry.table_at.0 == 0 {
        let reason = "invalid bitmap table offset: not at the start of a cluster";
        return Err(Error::corrupt(reason).at(entry.table_at.0));
    }
    let len_bytes = entries.saturating_mul(8);
    if entry.table_at.plus(len_bytes).0 > file.size_bytes()
        || header.overlaps_tables(entry.table_at, len_bytes)
    {
        let reason = "bitmap table extends past the end of the file, or overlaps other tables";
        return Err(Error::corrupt(reason).at(entry.table_at.0));
    }
    let mut bytes = vec![0; to_usize(len_bytes)];
    file.read_at(entry.table_at.0, &mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    let places = (0_u64..).map(|index| entry.table_at.plus(index.saturating_mul(8)));
    words
        .iter()
        .zip(places)
        .map(|(word, at)| decode(u64::from_be_bytes(*word), header, at))
        .collect()
}

fn decode(word: u64, header: &Header, at: HostOffset) -> Result<BitmapCluster> {
    let invalid = || Error::corrupt(format!("invalid bitmap table entry {word:#018x}")).at(at.0);
    let cluster = BitmapCluster::decode(word, header).ok_or_else(invalid)?;
    match cluster {
        BitmapCluster::Stored(place)
            if header.overlaps_tables(place, header.geometry.cluster_size()) =>
        {
            Err(Error::corrupt("a bitmap overlaps the image's own tables").at(at.0))
        }
        _ => Ok(cluster),
    }
}

/// Encodes a table.
pub(crate) fn encode(clusters: &[BitmapCluster]) -> Vec<u8> {
    clusters
        .iter()
        .flat_map(|cluster| cluster.encode().to_be_bytes())
        .collect()
}

/// Calls `visit` with each range of the disk that a bitmap marks, in order.
pub(crate) fn for_each_marked(
    file: &dyn BlockRead,
    header: &Header,
    entry: &BitmapEntry,
    mut visit: impl FnMut(Range<u64>),
) -> Result<()> {
    let bits = entry.bitmap.granularity_bytes.trailing_zeros();
    let cluster_size = header.geometry.cluster_size();
    let mut bytes = vec![0; to_usize(cluster_size)];
    let mut range_of = |run: Range<u64>| {
        let at = |bit: u64| {
            bit.saturating_mul(power_of_two(bits))
                .min(header.size_bytes)
        };
        let range = at(run.start)..at(run.end);
        if !range.is_empty() {
            visit(range);
        }
    };
    let bits_of_cluster = cluster_size.saturating_mul(8);
    for (index, cluster) in (0_u64..).zip(read(file, header, entry)?) {
        let first = index.saturating_mul(bits_of_cluster);
        match cluster {
            BitmapCluster::Zeroes => {}
            BitmapCluster::Ones => range_of(first..first.saturating_add(bits_of_cluster)),
            BitmapCluster::Stored(at) => {
                file.read_at(at.0, &mut bytes)?;
                for_each_run(&bytes, |run| {
                    range_of(first.saturating_add(run.start)..first.saturating_add(run.end));
                });
            }
        }
    }
    Ok(())
}

/// Calls `visit` with each run of set bits. Bit 0 of a byte is the least significant one.
fn for_each_run(bytes: &[u8], mut visit: impl FnMut(Range<u64>)) {
    let mut start = None;
    for (index, &byte) in (0_u64..).zip(bytes) {
        let first = index.saturating_mul(8);
        if byte == 0 || byte == 0xff {
            // Most bytes are like this.
            let is_set = byte != 0;
            step(&mut start, first, is_set, &mut visit);
            continue;
        }
        for bit in 0..8_u32 {
            let is_set = shift_right(u64::from(byte), bit) & 1 == 1;
            let at = first.saturating_add(u64::from(bit));
            step(&mut start, at, is_set, &mut visit);
        }
    }
    let end = to_u64(bytes.len()).saturating_mul(8);
    step(&mut start, end, false, &mut visit);
}

fn step(start: &mut Option<u64>, at: u64, is_set: bool, visit: &mut impl FnMut(Range<u64>)) {
    match (*start, is_set) {
        (None, true) => *start = Some(at),
        (Some(from), false) => {
            visit(from..at);
            *start = None;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_bits() {
        let mut runs = Vec::new();
        for_each_run(&[0b1000_0110, 0xff, 1, 0, 0x80], |run| runs.push(run));
        assert_eq!(runs, [1..3, 7..17, 39..40]);
        runs.clear();
        for_each_run(&[0, 0], |run| runs.push(run));
        assert!(runs.is_empty());
    }
}
