//! The details of a thin volume in its pool's metadata, `disk_device_details`.

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::Superblock;
use crate::persistent::Blocks;

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    mapped_blocks: U64,
    transaction_id: U64,
    creation_time: U32,
    snapshotted_time: U32,
}

const _: () = assert!(size_of::<Raw>() == 24);

/// Returns the pool's time at which the volume or its last snapshot was made: older blocks may be
/// shared.
pub(super) fn snapshotted_time<D: BlockRead + ?Sized>(
    blocks: &Blocks<D>,
    superblock: &Superblock,
    device_id: u64,
) -> Result<u32> {
    let root = superblock.device_details_root;
    let value = blocks.value(root, device_id, size_of::<Raw>())?;
    let raw = value
        .as_deref()
        .and_then(|bytes| Raw::ref_from_bytes(bytes).ok());
    let raw = raw.ok_or_else(|| unknown(device_id))?;
    Ok(raw.snapshotted_time.get())
}

pub(super) fn unknown(device_id: u64) -> Error {
    Error::corrupt(format!(
        "is thin device {device_id}, which is missing from its pool's metadata"
    ))
}
