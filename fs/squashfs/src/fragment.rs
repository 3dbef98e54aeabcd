//! Fragment blocks: blocks that hold the ends of several files.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::data_block::{DataBlock, StoredSize};
use crate::error::{Result, corrupt};
use crate::volume::Volume;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawFragmentEntry {
    start_block: U64,
    size: U32,
    _unused: U32,
}

/// Returns a fragment block.
///
/// # Errors
/// `Corrupt` if there is no such block, or its place is invalid.
pub(crate) fn block(volume: &Volume, number: u32) -> Result<DataBlock> {
    let Some(table) = volume.fragments else {
        let reason = format!("invalid fragment {number}: the filesystem has no fragments");
        return Err(corrupt(reason, 0));
    };
    let raw: RawFragmentEntry = table.entry(&volume.blocks, number.into())?;
    Ok(DataBlock {
        start: raw.start_block.get(),
        size: StoredSize(raw.size.get()),
    })
}
