//! The bitmap table: specification, section "Bitmap table".

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::to_usize;
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
