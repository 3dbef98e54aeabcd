//! The indexes of logical clusters: `struct z_erofs_lcluster_index`, or compact ones.
//!
//! Each cluster is a head, where an extent begins at some byte, or belongs to the extent that began
//! in a cluster before it.

use diskfs_block::bytes::{le16, le32};

use crate::cluster::{BLOCK_COUNT, Cluster, ClusterKind, block_count};
use crate::compact_index;
use crate::error::{Result, corrupt};
use crate::extent::{EXTENT_MAX_BYTES, too_large};
use crate::inode::Inode;
use crate::layout::Layout;
use crate::map_header::{HEADER_BYTES, MapHeader};
use crate::place::Place;
use crate::volume::Volume;

/// The bit of `di_advise` for an extent that is only a part of what its data decompresses to.
const PARTIAL_REF: u16 = 1 << 15;

/// The head of the extent with a byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    /// The number of the cluster.
    pub(crate) number: u64,
    pub(crate) cluster: Cluster,
    /// The place after the index of the cluster with the byte.
    pub(crate) after_index: Place,
}

/// Reads the index of a cluster.
pub(crate) fn load(
    volume: &Volume,
    inode: &Inode,
    header: &MapHeader,
    number: u64,
) -> Result<Cluster> {
    let cluster = match inode.layout {
        Layout::CompressedCompact => compact_index::load(volume, inode, header, number)?,
        _ => load_full(volume, inode, header, number)?,
    };
    let is_head = cluster.kind != ClusterKind::NonHead;
    if is_head && cluster.offset.wrapping_shr(header.cluster_bits) != 0 {
        let reason = "invalid cluster: its extent begins in another cluster";
        return Err(corrupt(reason, cluster.after.at));
    }
    Ok(cluster)
}

fn load_full(volume: &Volume, inode: &Inode, header: &MapHeader, number: u64) -> Result<Cluster> {
    let first = inode.body().aligned(8).after(HEADER_BYTES).after(8);
    let place = first.after(number.saturating_mul(8));
    let bytes: [u8; 8] = volume.metadata(place)?;
    let half = |offset| le16(&bytes, offset).unwrap_or_default();
    let advise = half(0);
    let mut cluster = Cluster {
        kind: ClusterKind::from_bits(advise.into()),
        offset: half(2).into(),
        block: le32(&bytes, 4).unwrap_or_default().into(),
        back: half(4).into(),
        ahead: half(6).into(),
        blocks: None,
        is_partial: advise & PARTIAL_REF != 0,
        after: place.after(8),
    };
    if cluster.kind == ClusterKind::NonHead && cluster.back & BLOCK_COUNT != 0 {
        cluster.blocks = Some(block_count(header, cluster.back, place)?);
        cluster.back = 1;
    }
    Ok(cluster)
}

/// Finds the head of the extent with the byte `offset`.
pub(crate) fn find_head(
    volume: &Volume,
    inode: &Inode,
    header: &MapHeader,
    offset: u64,
) -> Result<Head> {
    let mut number = offset.wrapping_shr(header.cluster_bits);
    let mut head = load(volume, inode, header, number)?;
    let after_index = head.after;
    let in_cluster = offset.wrapping_sub(number.wrapping_shl(header.cluster_bits));
    let mut back = match head.kind {
        ClusterKind::NonHead => head.back,
        _ if in_cluster >= head.offset => 0,
        _ => 1,
    };
    let lowest = offset.saturating_sub(EXTENT_MAX_BYTES);
    while head.kind == ClusterKind::NonHead || back != 0 {
        if back == 0 || u64::from(back) > number {
            let reason = format!("invalid cluster {number}: its head is {back} before it");
            return Err(corrupt(reason, head.after.at));
        }
        number = number.saturating_sub(back.into());
        if number.saturating_add(1).wrapping_shl(header.cluster_bits) < lowest {
            return Err(too_large());
        }
        head = load(volume, inode, header, number)?;
        back = match head.kind {
            ClusterKind::NonHead => head.back,
            _ => 0,
        };
    }
    Ok(Head {
        number,
        cluster: head,
        after_index,
    })
}

/// Returns the end of the extent with a head: where the next one begins.
pub(crate) fn find_end(
    volume: &Volume,
    inode: &Inode,
    header: &MapHeader,
    head: &Head,
) -> Result<u64> {
    let byte_of = |number: u64| number.wrapping_shl(header.cluster_bits);
    let highest = byte_of(head.number).saturating_add(EXTENT_MAX_BYTES);
    let mut number = head.number.saturating_add(1);
    loop {
        let at = byte_of(number);
        if at >= inode.size_bytes {
            return Ok(inode.size_bytes);
        }
        if at > highest {
            return Err(too_large());
        }
        let cluster = load(volume, inode, header, number)?;
        if cluster.kind != ClusterKind::NonHead {
            return Ok(at.saturating_add(cluster.offset).min(inode.size_bytes));
        }
        // Some old versions of mkfs.erofs wrote distances of 0.
        number = number.saturating_add(cluster.ahead.max(1).into());
    }
}

/// Returns the number of blocks of the extent with a head.
pub(crate) fn blocks(
    volume: &Volume,
    inode: &Inode,
    header: &MapHeader,
    head: &Head,
) -> Result<u32> {
    let may_be_large = match head.cluster.kind {
        ClusterKind::Head1 => header.has_large_clusters(),
        _ => header.has_large_second_clusters(),
    };
    let next = head.number.saturating_add(1);
    if !may_be_large || next.wrapping_shl(header.cluster_bits) >= inode.size_bytes {
        return Ok(1);
    }
    let cluster = load(volume, inode, header, next)?;
    match (cluster.kind, cluster.blocks) {
        (ClusterKind::NonHead, Some(blocks)) if blocks > 0 => Ok(blocks),
        (ClusterKind::NonHead, _) => {
            let reason = format!("invalid cluster {next}: missing number of blocks");
            Err(corrupt(reason, cluster.after.at))
        }
        _ => Ok(1),
    }
}
