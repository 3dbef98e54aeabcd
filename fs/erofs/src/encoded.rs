//! Extents of compressed files.

use std::sync::Arc;

use crate::cluster::ClusterKind;
use crate::error::{Result, corrupt};
use crate::extent::{
    Algorithm, EXTENT_MAX_BYTES, Encoded, EncodedPlace, STORED_MAX_BYTES, too_large,
};
use crate::inode::Inode;
use crate::map_header::{MapHeader, Tail};
use crate::mapped::{Mapped, Source};
use crate::place::Place;
use crate::volume::Volume;
use crate::{cluster_index, encoded_extent, map_tail};

/// Returns the extent that contains the byte `offset`.
pub(crate) fn map(volume: &Volume, inode: &Inode, offset: u64) -> Result<Mapped> {
    let make = || map_tail::read_header(volume, inode).map(Arc::new);
    let header = volume.headers.get_or_make(&inode.number, make)?;
    if let Tail::WholeFragment(fragment) = header.tail {
        return Ok(Mapped {
            start: 0,
            len: inode.size_bytes,
            source: Source::Fragment(fragment),
        });
    }
    let mapped = if let Some(count) = header.extent_records {
        encoded_extent::map(volume, inode, &header, count, offset)?
    } else {
        map_indexed(volume, inode, &header, offset)?
    };
    if !(mapped.start..mapped.end()).contains(&offset) {
        let reason = "invalid extent: it begins after its head";
        return Err(corrupt(reason, inode.body().at));
    }
    check(volume, mapped)
}

/// Returns the extent with a byte, for a file with indexes.
fn map_indexed(volume: &Volume, inode: &Inode, header: &MapHeader, offset: u64) -> Result<Mapped> {
    let found = cluster_index::find_head(volume, inode, header, offset)?;
    let end = cluster_index::find_end(volume, inode, header, &found)?;
    let cluster_start = found.number.wrapping_shl(header.cluster_bits);
    let start = cluster_start.saturating_add(found.cluster.offset);
    let len = end.saturating_sub(start);
    let at_device = volume.superblock.byte_of(found.cluster.block);
    let (place, stored_bytes) = match header.tail {
        Tail::Fragment { head, offset } if head == found.number => {
            return Ok(Mapped {
                start,
                len,
                source: Source::Fragment(offset),
            });
        }
        Tail::Inline { head, place, len } if head == found.number => {
            check_inline(volume, place, len)?;
            (EncodedPlace::Inline(place), u64::from(len))
        }
        _ => {
            let blocks = cluster_index::blocks(volume, inode, header, &found)?;
            let stored = volume.superblock.byte_of(blocks.into());
            (EncodedPlace::Device(at_device), stored)
        }
    };
    let algorithm = match found.cluster.kind {
        // Inline data is less than a block, and is not rotated.
        ClusterKind::Plain if matches!(place, EncodedPlace::Inline(_)) => Algorithm::Shifted,
        ClusterKind::Plain if header.is_interlaced() => Algorithm::Interlaced,
        ClusterKind::Plain => Algorithm::Shifted,
        ClusterKind::Head2 => algorithm(volume, header.algorithms[1], place)?,
        _ => algorithm(volume, header.algorithms[0], place)?,
    };
    Ok(Mapped {
        start,
        len,
        source: Source::Encoded(Encoded {
            place,
            stored_bytes: u32::try_from(stored_bytes).map_err(|_| too_large())?,
            algorithm,
            start,
            len,
            is_partial: found.cluster.is_partial,
        }),
    })
}

fn algorithm(volume: &Volume, number: u8, place: EncodedPlace) -> Result<Algorithm> {
    Algorithm::from_number(volume.superblock.algorithms, number.into(), place.at())
}

fn check_inline(volume: &Volume, place: Place, len: u16) -> Result<()> {
    let end = volume.offset_in_block(place.at).saturating_add(len.into());
    if end > volume.superblock.block_bytes() {
        let reason = format!("invalid inline extent: {len} bytes that cross a block boundary");
        return Err(corrupt(reason, place.at));
    }
    Ok(())
}

/// Fails unless the lengths are within Linux's limits, and agree if nothing is compressed.
fn check(volume: &Volume, mapped: Mapped) -> Result<Mapped> {
    let Source::Encoded(encoded) = &mapped.source else {
        return Ok(mapped);
    };
    if u64::from(encoded.stored_bytes) > STORED_MAX_BYTES || encoded.len > EXTENT_MAX_BYTES {
        return Err(too_large());
    }
    let is_plain = matches!(
        encoded.algorithm,
        Algorithm::Shifted | Algorithm::Interlaced
    );
    let is_short = encoded.len > encoded.stored_bytes.into();
    let shift = volume.offset_in_block(encoded.start);
    let lacks_shift = encoded.algorithm == Algorithm::Interlaced
        && shift.saturating_add(encoded.stored_bytes.into()) < volume.superblock.block_bytes();
    if is_plain && (is_short || lacks_shift) {
        let reason = format!(
            "invalid extent: {} bytes, of which {} are stored",
            encoded.len, encoded.stored_bytes
        );
        return Err(corrupt(reason, encoded.place.at()));
    }
    Ok(mapped)
}
