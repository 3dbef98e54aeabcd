//! Compact indexes: packs of 2 or 16 clusters that share the address of their first block.
//!
//! A pack has bit fields, each with a value of at least 12 bits and the kind of a cluster, and ends
//! with a block address of 4 bytes. For a head the value is its offset. For other clusters it is
//! the distance to the head; in the last one of a pack, the distance to the next head.

use diskfs_block::bytes::{index, le32};

use crate::cluster::{BLOCK_COUNT, Cluster, ClusterKind, block_count};
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::inode::Inode;
use crate::map_header::{HEADER_BYTES, MapHeader};
use crate::place::Place;
use crate::volume::Volume;

/// The number of clusters in a pack with indexes of 2 bytes.
const SHORT_PACK: u64 = 16;
/// The number of clusters in a pack with indexes of 4 bytes.
const LONG_PACK: u64 = 2;

/// The alignment of packs with indexes of 2 bytes.
const SHORT_PACK_BYTES: u64 = 32;

/// The number of bits of [`BLOCK_COUNT`] and all below.
const VALUE_MIN_BITS: u32 = 12;

/// A pack of indexes.
struct Pack {
    place: Place,
    bytes: [u8; 32],
    len: usize,
    count: u32,
    value_bits: u32,
    /// The number of bits of a cluster.
    field_bits: u32,
}

impl Pack {
    fn read(volume: &Volume, place: Place, count: u64, unit: u64, value_bits: u32) -> Result<Self> {
        let count = u32::try_from(count).unwrap_or(0);
        let unit = u32::try_from(unit).unwrap_or(0);
        let len = index(count.saturating_mul(unit));
        let mut bytes = [0; 32];
        volume.read_metadata(place, bytes.get_mut(..len).unwrap_or_default())?;
        let bits = count
            .saturating_mul(unit)
            .saturating_sub(4)
            .saturating_mul(8);
        Ok(Self {
            place,
            bytes,
            len,
            count,
            value_bits: value_bits.max(VALUE_MIN_BITS),
            field_bits: bits.checked_div(count).unwrap_or(0),
        })
    }

    /// Returns the kind and value of a cluster.
    fn field(&self, nth: u32) -> (ClusterKind, u32) {
        let position = nth.saturating_mul(self.field_bits);
        let word = le32(&self.bytes, index(position.wrapping_div(8))).unwrap_or_default();
        let word = word.wrapping_shr(position % 8);
        let mask = 1_u32.wrapping_shl(self.value_bits).wrapping_sub(1);
        (
            ClusterKind::from_bits(word.wrapping_shr(self.value_bits)),
            word & mask,
        )
    }

    /// Returns the address of the first block of the first head.
    fn base(&self) -> u64 {
        let at = self.len.saturating_sub(4);
        le32(&self.bytes, at).unwrap_or_default().into()
    }

    /// Returns the number of clusters from one that is not a head to the next head.
    fn ahead(&self, from: u32) -> u32 {
        let mut distance = 0_u32;
        for nth in from..self.count {
            let (kind, value) = self.field(nth);
            if kind != ClusterKind::NonHead {
                return distance;
            }
            distance = distance.saturating_add(1);
            if nth.saturating_add(1) == self.count && value & BLOCK_COUNT == 0 {
                return distance.saturating_add(value).saturating_sub(1);
            }
        }
        distance
    }

    /// Returns the number of clusters from one that is not a head back to its head.
    fn back(&self, nth: u32) -> u32 {
        let (_, value) = self.field(nth);
        if nth.saturating_add(1) != self.count {
            return value;
        }
        // The last one has the distance to the next head instead.
        match self.field(nth.saturating_sub(1)) {
            (ClusterKind::NonHead, value) if value & BLOCK_COUNT != 0 => 2,
            (ClusterKind::NonHead, value) => value.saturating_add(1),
            _ => 1,
        }
    }

    /// Returns the number of blocks between the base of the pack and a head, for extents of one
    /// block each.
    fn heads_before(&self, head: u32) -> u64 {
        let (mut nth, mut blocks) = (head, 1_u64);
        while nth > 0 {
            nth = nth.saturating_sub(1);
            let (kind, value) = self.field(nth);
            if kind == ClusterKind::NonHead {
                match nth.checked_sub(value) {
                    Some(before) => nth = before,
                    None => break,
                }
            }
            blocks = blocks.saturating_add(1);
        }
        blocks
    }

    /// Returns the number of blocks between the base of the pack and a head, for extents of several
    /// blocks.
    fn blocks_before(&self, head: u32) -> Result<u64> {
        let (mut nth, mut blocks) = (head, 0_u64);
        while nth > 0 {
            nth = nth.saturating_sub(1);
            let (kind, value) = self.field(nth);
            if kind != ClusterKind::NonHead {
                blocks = blocks.saturating_add(1);
            } else if value & BLOCK_COUNT != 0 {
                nth = nth.saturating_sub(1);
                blocks = blocks.saturating_add(u64::from(value & !BLOCK_COUNT));
            } else if let Some(skipped) = value.checked_sub(2) {
                nth = nth.saturating_sub(skipped);
            } else {
                let reason = "invalid compact index: a head without its number of blocks";
                return Err(corrupt(reason, self.place.at));
            }
        }
        Ok(blocks)
    }
}

/// Reads the index of a cluster.
pub(crate) fn load(
    volume: &Volume,
    inode: &Inode,
    header: &MapHeader,
    number: u64,
) -> Result<Cluster> {
    let (pack, nth) = find(volume, inode, header, number)?;
    let (kind, value) = pack.field(nth);
    let after = pack.place.after(diskfs_block::bytes::len_u64(pack.len));
    let mut cluster = Cluster {
        kind,
        offset: value.into(),
        block: 0,
        back: 0,
        ahead: 0,
        blocks: None,
        is_partial: false,
        after,
    };
    if kind != ClusterKind::NonHead {
        let before = if header.has_large_clusters() {
            pack.blocks_before(nth)?
        } else {
            pack.heads_before(nth)
        };
        cluster.block = pack.base().saturating_add(before);
        return Ok(cluster);
    }
    cluster.ahead = pack.ahead(nth);
    if value & BLOCK_COUNT != 0 {
        cluster.blocks = Some(block_count(header, value, pack.place)?);
        cluster.back = 1;
    } else {
        cluster.back = pack.back(nth);
    }
    Ok(cluster)
}

/// Returns the pack with a cluster, and the number of the cluster in it.
///
/// The first clusters have indexes of 4 bytes, up to an alignment of 32 bytes; then come packs of
/// 16 indexes of 2 bytes, if the header allows that; and 4 bytes again for the rest.
fn find(volume: &Volume, inode: &Inode, header: &MapHeader, number: u64) -> Result<(Pack, u32)> {
    let bits = header.cluster_bits;
    let base = inode.body().aligned(8).after(HEADER_BYTES);
    let total = inode.size_bytes.div_ceil(volume.superblock.block_bytes());
    if number >= total {
        return Err(corrupt(
            "invalid cluster: after the end of the file",
            base.at,
        ));
    }
    if bits > 14 {
        let reason = "compact indexes of clusters of more than 16 KiB are not supported";
        return Err(Error::new(ErrorKind::Unsupported, reason).at(base.at));
    }
    let misaligned = base.at % SHORT_PACK_BYTES;
    let first = (SHORT_PACK_BYTES.saturating_sub(misaligned)).wrapping_div(4) & 7;
    let short = if header.has_short_indexes() && first < total {
        let rest = total.saturating_sub(first);
        rest.saturating_sub(rest % SHORT_PACK)
    } else {
        0
    };
    let long_at = |at: u64| {
        let start = at & !7;
        let nth = u32::try_from(at.wrapping_sub(start).wrapping_div(4)).unwrap_or(0);
        let place = Place { at: start, ..base };
        Ok((Pack::read(volume, place, LONG_PACK, 4, bits)?, nth))
    };
    let Some(in_short) = number.checked_sub(first) else {
        return long_at(base.at.saturating_add(number.saturating_mul(4)));
    };
    let short_start = base.after(first.saturating_mul(4));
    let Some(rest) = in_short.checked_sub(short) else {
        if bits > 12 {
            let reason = "short indexes of clusters of more than 4 KiB are not supported";
            return Err(Error::new(ErrorKind::Unsupported, reason).at(base.at));
        }
        let pack = in_short.wrapping_div(SHORT_PACK);
        let place = short_start.after(pack.saturating_mul(SHORT_PACK_BYTES));
        let nth = u32::try_from(in_short % SHORT_PACK).unwrap_or(0);
        return Ok((Pack::read(volume, place, SHORT_PACK, 2, bits)?, nth));
    };
    let start = short_start.after(short.saturating_mul(2));
    long_at(start.at.saturating_add(rest.saturating_mul(4)))
}
